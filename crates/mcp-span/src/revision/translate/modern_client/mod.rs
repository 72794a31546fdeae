//! Translates a modern client for a legacy server: the client sees the modern era, the server a
//! legacy client, and where both speak the same nothing is touched. Pure.

mod asks;
mod calls;
mod ending;
mod finding;
mod listening;
mod parked;
mod session;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use tokio::time::Instant;
use tracing::debug;

use self::calls::readdressed;
use self::finding::HeldAnswer;
use self::session::{LegacySession, Own};
use super::{Protocol, Step, TranslatorContext};
use crate::error::{Error, ErrorKind};
use crate::message::budget::{MemoryBudget, MemoryPermit};
use crate::message::{Head, Id, InFlight, Message, Method, peek, reply};
use crate::revision::{Envelope, Era};

/// What is known of both sides, and what waits until more is known.
pub(crate) struct ModernClient {
    protocol: Protocol,
    phase: EraPhase,
    /// The client's era, once something has told.
    client: Option<Era>,
    /// The server's era as far as it is believed.
    server: Option<Era>,
    /// A server that is believed to be legacy has said so itself in this run.
    is_certain: bool,
    /// What the client has said while it is found out how to say it to the server.
    held: VecDeque<(Message, MemoryPermit)>,
    memory: MemoryBudget,
    /// Requests of the client's that went out as they came and whose answers are looked at.
    passed: InFlight<Message>,
    /// Answers that are not believed before the server was asked.
    kept: Vec<HeldAnswer>,
    session: LegacySession,
}

/// How far it has been found out what is to be done.
enum EraPhase {
    /// The next telling message decides what is tried.
    Fresh,
    /// The request `id` went out as it came; its answer tells the server's era. All else waits for
    /// it: for as long as it takes if it is `server/discover`, else no longer than a refusal takes.
    Trying { id: Id, until: Option<Instant> },
    /// Believed to be modern: all passes, and the answers are looked at until one tells.
    Trusting,
    /// Our own `server/discover` is under way.
    Probing,
    /// Our own `initialize` is under way.
    Opening,
    /// All is translated.
    Serving,
    /// Nothing is.
    Through,
}

impl ModernClient {
    /// `known`: what an earlier run has found out about the server.
    pub(crate) fn new(
        protocol: Protocol,
        known: Option<Era>,
        cx: TranslatorContext,
        memory: MemoryBudget,
    ) -> Self {
        // Then it is not to be found out.
        let server = if protocol == Protocol::Legacy { Some(Era::Legacy) } else { known };
        Self {
            protocol,
            phase: EraPhase::Fresh,
            client: None,
            server,
            is_certain: false,
            held: VecDeque::new(),
            memory,
            passed: InFlight::default(),
            kept: Vec::new(),
            session: LegacySession::new(cx),
        }
    }

    /// The next thing that the messages until now have led to.
    pub(crate) fn next_step(&mut self) -> Option<Step> {
        self.session.cx.steps.pop_front()
    }

    /// What comes from the client's side.
    pub(crate) fn on_client_message(&mut self, message: Message, now: Instant) {
        self.session.cx.now = now;
        self.accept(message);
    }

    fn accept(&mut self, message: Message) {
        if let Some(id) = peek::cancelled_request(&message) {
            return self.client_cancels(&id, message);
        }
        if message.method() == Some(&Method::Initialize) && Envelope::of(&message).is_none() {
            return self.client_is_legacy(message);
        }
        match &self.phase {
            EraPhase::Through => self.session.cx.send_to_server(message),
            EraPhase::Serving => self.serve(message),
            EraPhase::Trusting => self.pass_and_watch(message),
            EraPhase::Fresh => self.begin(message),
            EraPhase::Trying { .. } | EraPhase::Probing | EraPhase::Opening => self.hold(message),
        }
    }

    /// Something is said in a session that we have opened.
    fn serve(&mut self, message: Message) {
        match message.head() {
            Head::Request { id, method } => {
                if self.session.waiting.get(id).is_some() || self.passed.get(id).is_some() {
                    let text =
                        format!("Invalid request: a request with ID {id} is still in flight");
                    let error = Error::new(ErrorKind::InvalidRequest, text).not_delivered();
                    self.session.cx.fail(id, &error);
                } else if self.refuses(method) {
                    self.session.cx.send_to_client(reply::method_not_found(id, method.name()));
                } else if !self.session.serve(id, method, &message) {
                    self.hold(message);
                }
            }
            Head::Notification { method } if *method != Method::Initialized => {
                self.session.cx.send_to_server(message);
            }
            _ => debug!(what = ?message, "dropped: a modern client has no reason to say this"),
        }
    }

    /// Whether the server is not asked such a thing.
    fn refuses(&self, method: &Method) -> bool {
        method.properties().is_legacy_only
            || (*method == Method::Discover && self.protocol == Protocol::Legacy)
    }

    /// The message waits behind all that wait.
    fn hold(&mut self, message: Message) {
        let permit = self.memory.acquire(&message);
        self.held.push_back((message, permit));
    }

    /// The message waits before all that wait.
    fn hold_first(&mut self, message: Message) {
        let permit = self.memory.acquire(&message);
        self.held.push_front((message, permit));
    }

    /// What comes from the server's side.
    pub(crate) fn on_server_message(&mut self, message: Message, now: Instant) {
        self.session.cx.now = now;
        match message.head() {
            Head::Response { id: Some(id), .. } => self.server_answers(&id.clone(), message),
            Head::Request { id, method } if self.has_session() => {
                self.session.server_asks(id, method, &message);
            }
            Head::Notification { .. }
                if self.has_session() || self.session.progressing(&message).is_some() =>
            {
                self.session.server_tells(message);
            }
            _ => self.session.cx.send_to_client(message),
        }
        self.let_go();
    }

    /// When [`Self::tick`] is due.
    pub(crate) fn wake_at(&self) -> Option<Instant> {
        let tried_until = match &self.phase {
            EraPhase::Trying { until, .. } => *until,
            _ => None,
        };
        let parked_until = self.session.parked.values().map(|parked| parked.until).min();
        [tried_until, parked_until, self.session.level_until].into_iter().flatten().min()
    }

    /// What time brings: calls that have waited for the client for too long are given up, and a
    /// server that does not refuse at once is at work, and modern.
    pub(crate) fn tick(&mut self, now: Instant) {
        self.session.cx.now = now;
        self.session.give_up("The client did not answer in time", |parked| parked.until <= now);
        if self.session.level_until.take_if(|until| *until <= now).is_some() {
            self.release();
        }
        if matches!(&self.phase, EraPhase::Trying { until: Some(until), .. } if *until <= now) {
            self.phase = EraPhase::Trusting;
            self.release();
        }
    }

    /// Whether everything passes untouched from now on.
    pub(crate) fn is_through(&self) -> bool {
        matches!(self.phase, EraPhase::Through)
            && self.session.own.is_empty()
            && self.session.calls.is_empty()
            && self.session.parked.is_empty()
    }

    /// Whether something of the client's waits here that the server has not seen yet.
    pub(crate) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// The client's era, once something has told.
    pub(crate) fn client_era(&self) -> Option<Era> {
        self.client
    }

    /// Whether what the server says of its own accord is said in a session of ours.
    fn has_session(&self) -> bool {
        matches!(self.phase, EraPhase::Serving | EraPhase::Opening)
    }

    /// The server no longer knows the session.
    pub(crate) fn session_lost(&mut self, now: Instant) {
        self.session.cx.now = now;
        self.session.lost();
    }

    /// Whatever was translated until now: this client wants the legacy era.
    fn client_is_legacy(&mut self, initialize: Message) {
        self.client = Some(Era::Legacy);
        self.session.end("The client has begun anew");
        self.tell_kept();
        self.let_all_pass();
        self.release();
        self.session.cx.send_to_server(initialize);
    }

    /// What was held is said anew; what has to wait again does so in its old order.
    fn release(&mut self) {
        for (message, _) in std::mem::take(&mut self.held) {
            self.accept(message);
        }
    }

    fn server_answers(&mut self, id: &Id, message: Message) {
        if let Some(own) = self.session.own.remove(id) {
            return self.own_answered(own, &message);
        }
        if self.session.answered(id, &message) {
            return self.check_era(&message);
        }
        match self.passed.close_exactly(id) {
            Some(request) => self.passed_answered(request, message),
            None => self.session.cx.send_to_client(message),
        }
    }

    fn own_answered(&mut self, own: Own, answer: &Message) {
        match (own, &self.phase) {
            (Own::Discover, EraPhase::Probing) => self.probe_answered(answer),
            (Own::Discover, EraPhase::Serving) => self.doubt_answered(answer),
            (Own::Opening, EraPhase::Opening) => self.opening_answered(answer),
            (Own::Discover | Own::Opening, _) => debug!("an answer came too late"),
            (Own::LogLevel(until), _) => {
                if self.session.level_until.take_if(|asked| *asked == until).is_none() {
                    return debug!("the server has taken a level that was given up already");
                }
                // One of those held may want another level: then the rest waits for that.
                self.release();
            }
            (Own::Resource(uri), _) => self.session.resource_answered(uri, !answer.is_error()),
        }
    }
}

/// A text as JSON.
fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
