//! A legacy client at a modern server: its handshake is answered from `server/discover`, its
//! requests get their envelope, and what the server wants to know comes to it as requests.
//!
//! As long as the server answers `initialize` itself, everything passes untouched.

use std::collections::HashMap;

use tokio::time::Instant;
use tracing::debug;

use super::{Protocol, Step, Steps};
use crate::error::Error;
use crate::message::{Head, Id, Message, Method, peek, reply};
use crate::revision::Era;

mod calls;
mod changing;
mod filter;
mod inputs;
mod listening;
mod offer;
mod opening;
mod shapes;
#[cfg(test)]
mod tests;

use calls::Envelope;
use changing::Doubt;
use inputs::Inputs;
use listening::Listening;
use offer::Offer;
use opening::{Asking, Watching};
use shapes::Wrapped;

/// The translation, or the watch for the moment when one is needed.
#[derive(Debug)]
pub(crate) struct LegacyClient {
    protocol: Protocol,
    /// What is known of the server from an earlier run, or found out in this one.
    known: Option<Era>,
    /// What was found out and not yet told.
    finding: Option<Era>,
    state: State,
    ids: Ids,
    /// There was an `initialize`.
    has_opened: bool,
    /// When a legacy server last spoke as a modern one does.
    alarmed: Option<Instant>,
}

#[derive(Debug)]
enum State {
    /// Everything passes: the server speaks as the client does, or nobody has opened yet.
    Through,
    /// An `initialize` has passed; its answer tells the era.
    Watching(Watching),
    /// The server was asked in the modern way.
    Asking(Asking),
    /// The server is modern.
    Translating(Box<Translation>),
}

/// What is known while messages are translated.
#[derive(Debug)]
struct Translation {
    offer: Offer,
    envelope: Envelope,
    /// Requests that are out, by the id under which the server knows them.
    asked: HashMap<Id, Asked>,
    inputs: Inputs,
    listening: Listening,
    wrapped: Wrapped,
    doubt: Doubt,
}

/// A request of the client's, as it came.
#[derive(Debug)]
struct Asked {
    request: Message,
    /// How many times the server has asked back.
    rounds: u32,
}

/// Ids of the bridge's own, towards either side.
#[derive(Debug)]
pub(super) struct Ids {
    prefix: u64,
    first: u64,
    count: u64,
}

impl Ids {
    pub(super) fn new(prefix: u64) -> Self {
        // Far from where clients count, whose pings may be out under ids of their own.
        let first = (1 << 40) + (prefix >> 24);
        Self { prefix, first, count: first }
    }

    /// Whether this is one of those that [`Self::number`] gave.
    fn gave(&self, id: &Id) -> bool {
        let number = id.as_json().parse::<u64>();
        number.is_ok_and(|number| (self.first..=self.count).contains(&number))
    }

    /// Towards the server, which hears of nobody else's ids: a number.
    pub(super) fn number(&mut self) -> Id {
        self.count += 1;
        Id::number(self.count)
    }

    /// Towards the client, whose own ids it must not meet.
    pub(super) fn string(&mut self) -> Id {
        self.count += 1;
        Id::string(&format!("mcp-span-{:x}-{}", self.prefix, self.count))
    }
}

impl LegacyClient {
    /// `known`: what an earlier run found out about the server. `prefix`: some unpredictable bits.
    pub(crate) fn new(protocol: Protocol, known: Option<Era>, prefix: u64) -> Self {
        let known = known.filter(|_| protocol != Protocol::Legacy);
        Self {
            protocol,
            known,
            finding: None,
            state: State::Through,
            ids: Ids::new(prefix),
            has_opened: false,
            alarmed: None,
        }
    }

    /// Whether a message on its way to the server is of interest here.
    pub(crate) fn takes(&self, message: &Message) -> bool {
        !matches!(self.state, State::Through) || is_initialize(message)
    }

    /// Whether what comes from the server passes untouched.
    pub(crate) fn is_through(&self) -> bool {
        matches!(self.state, State::Through)
    }

    /// The era of the server, if it was found out just now and is worth remembering.
    pub(crate) fn take_finding(&mut self) -> Option<Era> {
        self.finding.take()
    }

    pub(crate) fn on_client_message(&mut self, message: Message, now: Instant, out: &mut Steps) {
        if is_initialize(&message) {
            self.has_opened = true;
            return self.open(message, out);
        }
        if self.close(&message, out) {
            return;
        }
        match &mut self.state {
            State::Translating(translation) => {
                translation.on_client_message(message, &mut self.ids, now, out);
            }
            State::Asking(_) if is_ping(&message) => {
                out.push_back(Step::ToClient(reply::raw_result(message.id(), "{}")));
            }
            State::Asking(_) | State::Watching(_) | State::Through => {
                out.push_back(Step::ToServer(message));
            }
        }
    }

    pub(crate) fn on_server_message(&mut self, message: Message, now: Instant, out: &mut Steps) {
        match &mut self.state {
            State::Through => out.push_back(Step::ToClient(message)),
            State::Watching(_) => self.watch(message, out),
            State::Asking(_) => self.discovered(message, out),
            State::Translating(translation) => {
                if message.id().is_some_and(|id| translation.is_doubt(id)) {
                    return self.resolve(Some(&message), now, out);
                }
                translation.on_server_message(message, &mut self.ids, now, out);
            }
        }
    }

    /// A message that went to the server came back.
    pub(crate) fn failed(&mut self, message: Message, error: Error, now: Instant, out: &mut Steps) {
        match &mut self.state {
            State::Asking(asking) if message.id() == Some(asking.id()) => {
                self.initialize_failed(error, out);
            }
            State::Watching(watching) if watching.is_answered_by(message.id()) => {
                self.initialize_failed(error, out);
            }
            State::Translating(translation)
                if message.id().is_some_and(|id| translation.is_doubt(id)) =>
            {
                self.resolve(None, now, out);
            }
            State::Translating(translation) => translation.failed(message, error, now, out),
            // Of what was translated for a server that is no more.
            _ if message.id().is_some_and(|id| self.ids.gave(id)) => {}
            _ => out.push_back(Step::Failed { message, error }),
        }
    }

    /// When [`Self::tick`] is due.
    pub(crate) fn wake_at(&self) -> Option<Instant> {
        match &self.state {
            State::Translating(translation) => {
                let both = [translation.inputs.wake_at(), translation.listening.wake_at()];
                both.into_iter().flatten().min()
            }
            _ => None,
        }
    }

    pub(crate) fn tick(&mut self, now: Instant, out: &mut Steps) {
        if let State::Translating(translation) = &mut self.state {
            translation.resume_rounds(&mut self.ids, now, out);
            translation.tick_listening(&mut self.ids, now, out);
        }
    }
}

impl Translation {
    fn on_client_message(
        &mut self,
        message: Message,
        ids: &mut Ids,
        now: Instant,
        out: &mut Steps,
    ) {
        match message.head() {
            Head::Request { .. } => self.client_asks(message, ids, now, out),
            Head::Notification { method } => match method {
                Method::Cancelled => self.client_cancels(&message, out),
                Method::Initialized => self.listen(ids, out),
                // A modern server reads the roots when it asks for them, and asks for no progress.
                Method::RootsChanged | Method::Progress => {}
                _ => out.push_back(Step::ToServer(self.envelope.put_around(&message, None))),
            },
            Head::Response { .. } => self.client_answers(&message, ids, out),
        }
    }

    fn on_server_message(
        &mut self,
        message: Message,
        ids: &mut Ids,
        now: Instant,
        out: &mut Steps,
    ) {
        match message.head() {
            Head::Response { id: Some(id), .. } => {
                let id = id.clone();
                if self.listening.is(&id) {
                    return self.listening_ended(&id, &message, ids, now, out);
                }
                let Some(asked) = self.asked.remove(&id) else {
                    if ids.gave(&id) {
                        return debug!(what = ?message, "an answer that nobody waits for was dropped");
                    }
                    // To what went out before the era was known.
                    return out.push_back(Step::ToClient(message));
                };
                if let Some((asked, answer)) = self.doubts(asked, message, ids, now, out) {
                    self.answered(asked, &answer, ids, now, out);
                }
            }
            Head::Notification { .. } => self.server_tells(message, ids, now, out),
            // A modern server has no way to hear an answer.
            Head::Request { .. } | Head::Response { id: None, .. } => {
                debug!(what = ?message, "dropped: a modern server cannot say this");
            }
        }
    }

    fn client_cancels(&mut self, notice: &Message, out: &mut Steps) {
        let Some(id) = peek::cancelled_request(notice) else { return };
        for own in self.inputs.withdraw(&id) {
            let notice = reply::cancelled(&own, "The call was cancelled");
            out.push_back(Step::ToClient(notice));
        }
        if self.withdraw_kept(&id) {
            return debug!(%id, "the answer that came already is kept from the client");
        }
        let found = self.asked.iter().find(|(_, asked)| asked.is_for(&id));
        let found = found.map(|(up, _)| up.clone());
        if let Some(up) = found {
            self.asked.remove(&up);
            out.push_back(Step::ToServer(reply::cancelled(&up, "cancelled")));
        }
    }

    fn failed(&mut self, message: Message, error: Error, now: Instant, out: &mut Steps) {
        let Some(id) = message.id() else { return out.push_back(Step::Failed { message, error }) };
        if self.listening.is(id) {
            return self.listening_failed(&id.clone(), &error, now, out);
        }
        if let Some(asked) = self.asked.remove(id) {
            let error = reply::about(error, id, asked.request.id());
            out.push_back(asked.lost(error));
        }
    }
}

impl Asked {
    /// Whether it is the client's request `id`.
    fn is_for(&self, id: &Id) -> bool {
        self.request.id().is_some_and(|own| own.canonical() == id.canonical())
    }

    /// There will be no answer.
    fn lost(self, error: Error) -> Step {
        if self.rounds == 0 {
            return Step::Failed { message: self.request, error };
        }
        // It cannot begin anew: a person's answers were spent on it.
        Step::ToClient(reply::error(self.request.id(), &error))
    }
}

fn is_ping(message: &Message) -> bool {
    matches!(message.head(), Head::Request { method, .. } if *method == Method::Ping)
}

fn is_initialize(message: &Message) -> bool {
    matches!(message.head(), Head::Request { method, .. } if *method == Method::Initialize)
}
