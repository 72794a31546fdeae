//! A legacy client at a modern server: its handshake is answered from `server/discover`, its
//! requests get their envelope, and what the server wants to know comes to it as requests.
//!
//! As long as the server answers `initialize` itself, everything passes untouched.

use std::collections::HashMap;

use tokio::time::Instant;
use tracing::debug;

use super::{Protocol, ServerDescription, Step, TranslatorContext};
use crate::error::Error;
use crate::message::{Head, Id, Message, Method, peek, reply};
use crate::revision::Era;

mod calls;
mod changing;
mod inputs;
mod listening;
mod opening;
mod shapes;
#[cfg(test)]
mod tests;

use inputs::Round;
use listening::Subscription;
use opening::Asking;
use shapes::Wrapped;

/// The translation, or the watch for the moment when one is needed.
#[derive(Debug)]
pub(crate) struct LegacyClient {
    protocol: Protocol,
    /// What is known of the server from an earlier run, or found out in this one.
    known: Option<Era>,
    state: TranslatorState,
    cx: TranslatorContext,
}

#[derive(Debug)]
enum TranslatorState {
    /// Everything passes: the server speaks as the client does, or nobody has opened yet.
    Through,
    /// An `initialize` has no answer yet; what follows it waits in the engine.
    Asking(Asking),
    /// The server is modern.
    Translating(Box<Translation>),
}

impl TranslatorState {
    /// The request whose answer tells what the server is.
    fn question(&self) -> Option<&Id> {
        match self {
            Self::Through => None,
            Self::Asking(asking) => asking.discover.as_ref().or(asking.initialize.id()),
            Self::Translating(translation) => translation.question.as_ref(),
        }
    }

    fn is_question(&self, id: &Id) -> bool {
        self.question().is_some_and(|question| question.canonical() == id.canonical())
    }
}

/// What is known while messages are translated.
#[derive(Debug, Default)]
struct Translation {
    server: ServerDescription,
    /// Requests that are out, by the id under which the server knows them.
    asked: HashMap<Id, Asked>,
    /// Calls that wait for answers of the client's.
    rounds: Vec<Round>,
    listening: Subscription,
    wrapped: Wrapped,
    /// Our question whether the server is still modern, while it is out.
    question: Option<Id>,
    /// Answers that are not believed before it is answered.
    kept: Vec<(Asked, Message)>,
}

/// A request of the client's, as it came.
#[derive(Debug)]
struct Asked {
    request: Message,
    /// How many times the server has asked back.
    rounds: u32,
}

impl LegacyClient {
    /// `known`: what an earlier run found out about the server.
    pub(crate) fn new(protocol: Protocol, known: Option<Era>, cx: TranslatorContext) -> Self {
        let known = known.filter(|_| protocol != Protocol::Legacy);
        Self { protocol, known, state: TranslatorState::Through, cx }
    }

    /// Whether a message on its way to the server is of interest here.
    pub(crate) fn takes(&self, message: &Message) -> bool {
        !self.is_through() || message.is_request(&Method::Initialize)
    }

    /// Whether what comes from the server passes untouched.
    pub(crate) fn is_through(&self) -> bool {
        matches!(self.state, TranslatorState::Through)
    }

    /// The next thing that the messages until now have led to.
    pub(crate) fn next_step(&mut self) -> Option<Step> {
        self.cx.steps.pop_front()
    }

    pub(crate) fn on_client_message(&mut self, message: Message, now: Instant) {
        self.cx.now = now;
        if message.is_request(&Method::Initialize) {
            return self.open(message);
        }
        if self.close(&message) {
            return;
        }
        match &mut self.state {
            TranslatorState::Translating(translation) => {
                translation.on_client_message(message, &mut self.cx);
            }
            TranslatorState::Asking(Asking { discover: Some(_), .. })
                if message.is_request(&Method::Ping) =>
            {
                self.cx.send_to_client(reply::raw_result(message.id(), "{}"));
            }
            _ => self.cx.send_to_server(message),
        }
    }

    pub(crate) fn on_server_message(&mut self, message: Message, now: Instant) {
        self.cx.now = now;
        match (message.head(), &mut self.state) {
            (Head::Response { id: Some(id), .. }, state) if state.is_question(id) => {
                self.question_answered(message);
            }
            (_, TranslatorState::Translating(translation)) => {
                translation.on_server_message(message, &mut self.cx);
            }
            _ => self.cx.send_to_client(message),
        }
    }

    /// A message that went to the server came back.
    pub(crate) fn failed(&mut self, message: Message, error: Error, now: Instant) {
        self.cx.now = now;
        let is_question = message.id().is_some_and(|id| self.state.is_question(id));
        match &mut self.state {
            // The engine decides about another try.
            TranslatorState::Asking(asking) if is_question => {
                let message = asking.initialize.clone();
                self.cx.steps.push_back(Step::Failed { message, error });
                self.state = TranslatorState::Through;
            }
            TranslatorState::Translating(translation) if is_question => {
                translation.believe(&mut self.cx);
            }
            TranslatorState::Translating(translation) => {
                translation.failed(message, error, &mut self.cx);
            }
            // Of what was translated for a server that is no more.
            _ if message.id().is_some_and(|id| self.cx.gave(id)) => {}
            _ => self.cx.steps.push_back(Step::Failed { message, error }),
        }
    }

    /// When [`Self::tick`] is due.
    pub(crate) fn wake_at(&self) -> Option<Instant> {
        let TranslatorState::Translating(translation) = &self.state else { return None };
        let rounds = translation.rounds.iter().map(|round| round.at);
        rounds.chain(translation.listening.wake_at()).min()
    }

    pub(crate) fn tick(&mut self, now: Instant) {
        self.cx.now = now;
        if let TranslatorState::Translating(translation) = &mut self.state {
            translation.resume_rounds(&mut self.cx);
            translation.listening.tick(&mut self.cx);
        }
    }
}

impl Translation {
    fn on_client_message(&mut self, message: Message, cx: &mut TranslatorContext) {
        match message.head() {
            Head::Request { id, method } => match method {
                Method::Ping => cx.send_to_client(reply::raw_result(Some(id), "{}")),
                Method::SetLevel => calls::set_level(id, &message, cx),
                Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => {
                    self.listening.change(&message, cx);
                }
                _ => self.ask(message, cx),
            },
            Head::Notification { method } => match method {
                Method::Cancelled => self.client_cancels(&message, cx),
                Method::Initialized => self.listening.listen(cx),
                // A modern server reads the roots when it asks for them, and asks for no progress.
                Method::RootsChanged | Method::Progress => {}
                _ => cx.send_to_server(message.edited(|members| {
                    cx.introduction.fill(members.object("params"));
                })),
            },
            Head::Response { .. } => self.client_answers(&message, cx),
        }
    }

    fn on_server_message(&mut self, message: Message, cx: &mut TranslatorContext) {
        match message.head() {
            Head::Response { id: Some(id), .. } => {
                if self.listening.is(id) {
                    return self.listening.ended(id, Ok(&message), cx);
                }
                match self.asked.remove(id) {
                    Some(asked) if self.doubts(&message, cx) => self.kept.push((asked, message)),
                    Some(asked) => self.answered(asked, &message, cx),
                    None if cx.gave(id) => {
                        debug!(what = ?message, "an answer that nobody waits for was dropped");
                    }
                    // To what went out before the era was known.
                    None => cx.send_to_client(message),
                }
            }
            Head::Notification { .. } => self.server_tells(message, cx),
            // A modern server has no way to hear an answer.
            Head::Request { .. } | Head::Response { id: None, .. } => {
                debug!(what = ?message, "dropped: a modern server cannot say this");
            }
        }
    }

    fn client_cancels(&mut self, notice: &Message, cx: &mut TranslatorContext) {
        let Some(id) = peek::cancelled_request(notice) else { return };
        for round in self.rounds.extract_if(.., |round| round.asked.is_for(&id)) {
            round.take_back("The call was cancelled", cx);
        }
        for (up, _) in self.asked.extract_if(|_, asked| asked.is_for(&id)) {
            cx.send_to_server(reply::cancelled(&up, "cancelled"));
        }
        // The client no longer wants to hear what came already.
        self.kept.retain(|(asked, _)| !asked.is_for(&id));
    }

    fn failed(&mut self, message: Message, error: Error, cx: &mut TranslatorContext) {
        // Nobody waits for what was only told.
        let Some(id) = message.id() else { return };
        if self.listening.is(id) {
            return self.listening.ended(id, Err(&error), cx);
        }
        if let Some(asked) = self.asked.remove(id) {
            let error = reply::about(error, id, asked.request.id());
            cx.steps.push_back(asked.lost(error));
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
