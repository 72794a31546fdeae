//! Translates a modern client for a legacy server: the client sees the modern era, the server a
//! legacy client, and where both speak the same nothing is touched. Pure.

mod asks;
mod calls;
mod ending;
mod finding;
mod levels;
mod listening;
mod opening;
mod parked;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::hash::RandomState;

use tokio::time::Instant;
use tracing::debug;

use self::calls::ServerCall;
use self::finding::HeldAnswer;
use self::levels::Level;
use self::listening::Subscriptions;
use self::parked::Parked;
use super::{Introduction, Protocol, ServerDescription, Step, TranslatorContext};
use crate::message::budget::{MemoryBudget, MemoryPermit};
use crate::message::{Head, Id, InFlight, Members, Message, Method, edit, peek};
use crate::revision::{Envelope, Era};

/// What is known of both sides, and everything that is under way between them.
pub(crate) struct ModernClient {
    protocol: Protocol,
    phase: EraPhase,
    /// The client's era, once something has told.
    client: Option<Era>,
    /// The server's era as far as it is believed.
    server: Option<Era>,
    /// A server that is believed to be legacy has said so itself in this run.
    is_certain: bool,
    cx: TranslatorContext,
    /// What the client has said while it is found out how to say it to the server.
    held: VecDeque<(Message, MemoryPermit)>,
    memory: MemoryBudget,
    /// Requests of our own under way; their answers go no further.
    own: HashMap<Id, Own>,
    /// The client's requests that have no answer, by its own ids.
    waiting: InFlight<Waits>,
    /// Those that went out as they came and whose answers are looked at.
    passed: InFlight<Message>,
    /// Answers that are not believed before the server was asked.
    kept: Vec<HeldAnswer>,
    /// The client's calls under way at the server, by our ids.
    calls: HashMap<Id, ServerCall>,
    /// Whose progress a token of the server's is about.
    tokens: HashMap<Id, Id>,
    /// By handle.
    parked: HashMap<String, Parked>,
    listening: Subscriptions,
    level: Level,
    /// What the client has said of itself when the session was opened.
    introduction: Introduction,
    hashing: RandomState,
    /// The client will say nothing more.
    has_left: bool,
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
    Serving(Box<ServerDescription>),
    /// Nothing is.
    Through,
}

/// What a request of our own is for.
enum Own {
    Probe,
    Opening,
    /// Whether the server is still legacy.
    Doubt,
    /// Waited for until then.
    LogLevel(Instant),
    /// Whether its changes are to be told.
    Resource(String),
}

/// Where the answer to a request of the client's will come from.
enum Waits {
    /// From the server, under this id.
    Call(Id),
    /// From us.
    Listen,
}

impl ModernClient {
    /// `known`: what an earlier run has found out about the server.
    pub(crate) fn new(
        protocol: Protocol,
        known: Option<Era>,
        cx: TranslatorContext,
        memory: MemoryBudget,
    ) -> Self {
        Self {
            protocol,
            phase: EraPhase::Fresh,
            client: None,
            server: known,
            is_certain: false,
            cx,
            held: VecDeque::new(),
            memory,
            own: HashMap::new(),
            waiting: InFlight::default(),
            passed: InFlight::default(),
            kept: Vec::new(),
            calls: HashMap::new(),
            tokens: HashMap::new(),
            parked: HashMap::new(),
            listening: Subscriptions::default(),
            level: Level::default(),
            introduction: Introduction::default(),
            hashing: RandomState::new(),
            has_left: false,
        }
    }

    /// The next thing that the messages until now have led to.
    pub(crate) fn next_step(&mut self) -> Option<Step> {
        self.cx.steps.pop_front()
    }

    /// What comes from the client's side.
    pub(crate) fn on_client_message(&mut self, message: Message, now: Instant) {
        self.cx.now = now;
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
            EraPhase::Through => self.cx.send_to_server(message),
            EraPhase::Serving(_) => self.serve(message),
            EraPhase::Trusting => self.pass_and_watch(message),
            EraPhase::Fresh => self.begin(message),
            EraPhase::Trying { .. } | EraPhase::Probing | EraPhase::Opening => {
                self.hold(message);
            }
        }
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
        self.cx.now = now;
        match message.head() {
            Head::Response { id: Some(id), .. } => {
                let id = id.clone();
                self.server_answers(&id, message);
            }
            Head::Request { id, method } if self.has_session() => {
                self.server_asks(id, method, &message);
            }
            Head::Notification { .. } if self.has_session() || self.is_progress(&message) => {
                self.server_notifies(message);
            }
            _ => self.cx.send_to_client(message),
        }
        self.let_go();
    }

    /// When [`Self::tick`] is due.
    pub(crate) fn wake_at(&self) -> Option<Instant> {
        let tried_until = match &self.phase {
            EraPhase::Trying { until, .. } => *until,
            _ => None,
        };
        let parked = self.parked.values().map(|parked| parked.until);
        parked.chain(tried_until).chain(self.level.asked).min()
    }

    /// What time brings: calls that have waited for the client for too long are given up, and a
    /// server that does not refuse at once is at work, and modern.
    pub(crate) fn tick(&mut self, now: Instant) {
        self.cx.now = now;
        self.expire();
        self.tick_level();
        if matches!(&self.phase, EraPhase::Trying { until: Some(until), .. } if *until <= now) {
            self.phase = EraPhase::Trusting;
            self.release();
        }
    }

    /// Whether everything passes untouched from now on.
    pub(crate) fn is_through(&self) -> bool {
        matches!(self.phase, EraPhase::Through) && self.own.is_empty() && self.calls.is_empty()
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
        matches!(self.phase, EraPhase::Serving(_) | EraPhase::Opening)
    }

    fn server(&self) -> Option<&ServerDescription> {
        match &self.phase {
            EraPhase::Serving(server) => Some(server),
            _ => None,
        }
    }

    /// A request of our own goes out; `fill` writes its parameters.
    fn ask<'a>(&mut self, own: Own, method: &str, fill: impl FnOnce(&mut Members<'a>)) {
        let id = self.cx.string();
        let head = Head::Request { id: id.clone(), method: method.into() };
        let mut members = Members::headed(&head);
        fill(members.object("params"));
        self.own.insert(id, own);
        self.cx.send_to_server(members.into_message(head).own());
    }

    /// Whatever was translated until now: this client wants the legacy era.
    fn client_is_legacy(&mut self, initialize: Message) {
        self.client = Some(Era::Legacy);
        self.end_session("The client has begun anew");
        self.tell_kept();
        self.let_all_pass();
        self.release();
        self.cx.send_to_server(initialize);
    }

    /// What was held is said anew; what has to wait again does so in its old order.
    fn release(&mut self) {
        if matches!(self.phase, EraPhase::Trying { .. } | EraPhase::Probing | EraPhase::Opening) {
            return;
        }
        for (message, _) in std::mem::take(&mut self.held) {
            self.accept(message);
        }
    }

    fn server_answers(&mut self, id: &Id, message: Message) {
        if let Some(own) = self.own.remove(id) {
            return self.own_answered(own, &message);
        }
        if let Some(call) = self.calls.remove(id) {
            self.call_answered(&call, &message);
            return self.check_era(&message);
        }
        match self.passed.close_exactly(id) {
            Some(request) => self.passed_answered(request, message),
            None => self.cx.send_to_client(message),
        }
    }

    fn own_answered(&mut self, own: Own, answer: &Message) {
        let is_error = matches!(answer.head(), Head::Response { is_error: true, .. });
        match (own, &self.phase) {
            (Own::Probe, EraPhase::Probing) => self.probe_answered(answer),
            (Own::Opening, EraPhase::Opening) => self.opened(answer),
            (Own::Probe | Own::Opening, _) => debug!("an answer that came too late was dropped"),
            (Own::Doubt, _) => self.doubt_answered(answer),
            (Own::LogLevel(until), _) => self.level_settled(until),
            (Own::Resource(uri), _) => self.resource_answered(uri, !is_error),
        }
    }

    /// An answer of the server's for another request.
    fn send_readdressed(&mut self, answer: &Message, id: &Id) {
        let renamed = renamed(answer, id).unwrap_or_else(|| edit::with_id(answer, id));
        self.cx.send_to_client(renamed);
    }
}

/// Whether `message` is the request `id`.
fn is_request(message: &Message, id: &Id) -> bool {
    message.id().is_some_and(|own| own.canonical() == id.canonical())
}

/// An error of the bridge's own that names the request that it answers; the client knows that one
/// under another id.
fn renamed(answer: &Message, id: &Id) -> Option<Message> {
    answer.failure()?;
    let old = answer.id()?.as_json();
    let mut members = Members::of_message(answer)?;
    let error = members.object("error");
    let text = error.text("message").filter(|text| text.contains(old))?;
    error.set("message", json_string(&text.replace(old, id.as_json())));
    Some(members.into_message_with_id(answer.head(), id).like(answer))
}

/// A text as JSON.
fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
