//! Translates a modern client for a legacy server: the client sees the modern era, the server a
//! legacy client, and where both speak the same nothing is touched. Pure.

mod asks;
mod calls;
mod changing;
mod finding;
mod held_messages;
mod leaving;
mod levels;
mod listening;
mod lost;
mod opening;
mod parked;
mod passed;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::RandomState;

use tokio::time::Instant;
use tracing::debug;

use self::calls::Call;
use self::changing::Introduction;
use self::held_messages::HeldMessages;
use self::levels::Levels;
use self::listening::Listening;
use self::opening::Server;
use self::parked::Parked;
use self::passed::Kept;
use super::{Protocol, Step, Steps};
use crate::message::{Head, Id, InFlight, Members, Message, Method, edit, peek};
use crate::revision::{Envelope, Era};

/// What is known of both sides, and everything that is under way between them.
pub(crate) struct ModernClient {
    protocol: Protocol,
    phase: Phase,
    /// The client's era, once something has told.
    client: Option<Era>,
    /// The server's era as far as it is believed.
    server: Option<Era>,
    /// The server itself has said so in this run.
    is_certain: bool,
    /// What is to be remembered for the next run.
    finding: Option<Era>,
    held: HeldMessages,
    ids: OwnIds,
    /// Requests of our own under way; their answers go no further.
    own: HashMap<Id, Own>,
    /// The client's requests that have no answer, by its own ids.
    waiting: InFlight<Waits>,
    /// Those that went out as they came while the server was trusted.
    passed: InFlight<Message>,
    /// Its calls under way at the server, by our ids.
    calls: HashMap<Id, Call>,
    /// Whose progress a token of the server's is about.
    tokens: HashMap<Id, Id>,
    /// By handle.
    parked: HashMap<String, Parked>,
    listening: Listening,
    levels: Levels,
    /// What the client has said of itself when the session was opened.
    introduction: Introduction,
    /// When a server that was legacy was last asked whether it still is.
    doubted: Option<Instant>,
    hashing: RandomState,
    /// The client will say nothing more.
    has_left: bool,
}

/// How far it has been found out what is to be done.
enum Phase {
    /// The next telling message decides what is tried.
    Fresh,
    /// The client's own `server/discover` is under way.
    Asked { discover: Message },
    /// The first request went out as it came; its answer tells the server's era. All else waits for
    /// it, but not for longer than a refusal takes.
    Trying { request: Message, until: Instant },
    /// Believed to be modern: all passes, and the answers are looked at until one tells.
    Trusting,
    /// Our own `server/discover` is under way.
    Probing { kept: Vec<Kept> },
    /// Our own `initialize` is under way.
    Opening,
    /// All is translated.
    Serving(Box<Server>),
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
    Subscribe(String),
    Unsubscribe(String),
}

/// Where the answer to a request of the client's will come from.
enum Waits {
    /// From the server, under this id.
    Call(Id),
    /// From us.
    Listen,
}

/// Ids that nobody else uses.
struct OwnIds {
    prefix: String,
    count: u64,
}

impl OwnIds {
    fn next(&mut self) -> Id {
        self.count += 1;
        Id::string(&format!("{}-{}", self.prefix, self.count))
    }
}

impl ModernClient {
    /// `known`: what an earlier run has found out about the server.
    pub(crate) fn new(protocol: Protocol, known: Option<Era>) -> Self {
        // The ids need only be unlike the client's: without random numbers they are as well.
        let prefix = parked::random_text().unwrap_or_default();
        Self {
            protocol,
            phase: Phase::Fresh,
            client: None,
            server: known,
            is_certain: false,
            finding: None,
            held: HeldMessages::default(),
            ids: OwnIds { prefix: format!("mcp-span-{prefix}"), count: 0 },
            own: HashMap::new(),
            waiting: InFlight::default(),
            passed: InFlight::default(),
            calls: HashMap::new(),
            tokens: HashMap::new(),
            parked: HashMap::new(),
            listening: Listening::default(),
            levels: Levels::default(),
            introduction: Introduction::default(),
            doubted: None,
            hashing: RandomState::new(),
            has_left: false,
        }
    }

    /// What comes from the client's side.
    pub(crate) fn on_client_message(&mut self, message: Message, now: Instant, out: &mut Steps) {
        if let Some(id) = peek::cancelled_request(&message) {
            return self.client_cancels(&id, message, now, out);
        }
        if message.method() == Some(&Method::Initialize) && Envelope::of(&message).is_none() {
            return self.client_is_legacy(message, now, out);
        }
        match &self.phase {
            Phase::Through => out.push_back(Step::ToServer(message)),
            Phase::Serving(_) => self.serve(message, now, out),
            Phase::Trusting => self.pass_and_watch(message, out),
            Phase::Fresh => self.begin(message, now, out),
            Phase::Asked { .. } | Phase::Trying { .. } | Phase::Probing { .. } | Phase::Opening => {
                self.held.push(message);
            }
        }
    }

    /// What comes from the server's side.
    pub(crate) fn on_server_message(&mut self, message: Message, now: Instant, out: &mut Steps) {
        match message.head() {
            Head::Response { id: Some(id), .. } => {
                let id = id.clone();
                self.server_answers(&id, message, now, out);
            }
            Head::Request { id, method } if self.has_session() => {
                let (id, method) = (id.clone(), method.clone());
                self.server_asks(&id, &method, message, now, out);
            }
            Head::Notification { method } if self.has_session() || self.is_progress(&message) => {
                let method = method.clone();
                self.server_notifies(&method, message, out);
            }
            _ => out.push_back(Step::ToClient(message)),
        }
        self.let_go(out);
    }

    /// When [`Self::tick`] is due.
    pub(crate) fn wake_at(&self) -> Option<Instant> {
        let parked = self.parked.values().map(|parked| parked.until).min();
        let trying = match &self.phase {
            Phase::Trying { until, .. } => Some(*until),
            _ => None,
        };
        [parked, trying, self.levels.wake_at()].into_iter().flatten().min()
    }

    /// What time brings: calls that have waited for the client for too long are given up, and a
    /// server that does not refuse at once is at work, and modern.
    pub(crate) fn tick(&mut self, now: Instant, out: &mut Steps) {
        self.expire(now, out);
        self.tick_levels(now, out);
        if let Phase::Trying { request, until } = &self.phase
            && *until <= now
        {
            let request = request.clone();
            if let Some(id) = request.id() {
                self.passed.open(id, request.clone());
            }
            self.phase = Phase::Trusting;
            self.release(now, out);
        }
    }

    /// Whether everything passes untouched from now on.
    pub(crate) fn is_through(&self) -> bool {
        matches!(self.phase, Phase::Through) && self.own.is_empty() && self.calls.is_empty()
    }

    /// Whether so much waits here that nothing more should be read.
    pub(crate) fn is_full(&self) -> bool {
        self.held.is_full() || self.levels.is_full()
    }

    /// Whether something of the client's waits here that the server has not seen yet.
    pub(crate) fn is_holding(&self) -> bool {
        !self.held.is_empty() || self.levels.is_holding()
    }

    /// The client's era, once something has told.
    pub(crate) fn client_era(&self) -> Option<Era> {
        self.client
    }

    /// The server's era, to be remembered; given once.
    pub(crate) fn take_finding(&mut self) -> Option<Era> {
        self.finding.take()
    }

    /// Whether what the server says of its own accord is said in a session of ours.
    fn has_session(&self) -> bool {
        matches!(self.phase, Phase::Serving(_) | Phase::Opening)
    }

    fn server(&self) -> Option<&Server> {
        match &self.phase {
            Phase::Serving(server) => Some(server),
            _ => None,
        }
    }

    /// A request of our own goes out; `fill` writes its parameters.
    fn ask(
        &mut self,
        own: Own,
        method: &str,
        fill: impl FnOnce(&mut Members<'_>),
        out: &mut Steps,
    ) {
        let id = self.ids.next();
        let head = Head::Request { id: id.clone(), method: method.into() };
        let mut members = Members::headed(&head);
        fill(members.object("params"));
        self.own.insert(id, own);
        out.push_back(Step::ToServer(members.into_message(head).own()));
    }

    /// Whatever was translated until now: this client wants the legacy era.
    fn client_is_legacy(&mut self, initialize: Message, now: Instant, out: &mut Steps) {
        self.client = Some(Era::Legacy);
        self.end_listens(out);
        self.end_parked("The client has begun anew", out);
        self.forget_level();
        if let Phase::Probing { kept } = &mut self.phase {
            out.extend(kept.drain(..).map(|kept| Step::ToClient(kept.answer)));
        }
        self.let_all_pass();
        self.release(now, out);
        out.push_back(Step::ToServer(initialize));
    }

    /// What was held is said anew, as far as nothing holds it again.
    fn release(&mut self, now: Instant, out: &mut Steps) {
        while !self.holds()
            && let Some(message) = self.held.pop()
        {
            self.on_client_message(message, now, out);
        }
    }

    fn holds(&self) -> bool {
        matches!(
            self.phase,
            Phase::Asked { .. } | Phase::Trying { .. } | Phase::Probing { .. } | Phase::Opening
        )
    }

    fn client_cancels(&mut self, id: &Id, notice: Message, now: Instant, out: &mut Steps) {
        match self.waiting.close_exactly(id) {
            Some(Waits::Call(upstream)) => return self.cancel_call(&upstream, &notice, out),
            Some(Waits::Listen) => return self.end_listen(id, out),
            None => {}
        }
        if self.held.withdraw(id) || self.levels.withdraw(id) {
            return debug!(%id, "cancelled before it was sent");
        }
        let was_passed = self.passed.close_exactly(id).is_some();
        match &mut self.phase {
            Phase::Serving(_) if !was_passed => {
                return debug!(%id, "nobody waits for what was cancelled");
            }
            Phase::Probing { kept } if kept.iter().any(|kept| kept.is_for(id)) => {
                return kept.retain(|kept| !kept.is_for(id));
            }
            Phase::Asked { discover: watched } | Phase::Trying { request: watched, .. }
                if is_request(watched, id) =>
            {
                // No answer will come to learn from: the next in line is tried.
                self.phase = Phase::Fresh;
                out.push_back(Step::ToServer(notice));
                return self.release(now, out);
            }
            _ => {}
        }
        out.push_back(Step::ToServer(notice));
    }

    fn server_answers(&mut self, id: &Id, message: Message, now: Instant, out: &mut Steps) {
        if let Some(own) = self.own.remove(id) {
            return self.own_answered(own, &message, now, out);
        }
        if let Some(call) = self.calls.remove(id) {
            let answer = message.clone();
            self.call_answered(call, message, now, out);
            return self.heed_era(&answer, now, out);
        }
        let passed = self.passed.close_exactly(id);
        match &self.phase {
            Phase::Asked { discover } if is_request(discover, id) => {
                self.discover_answered(message, now, out);
            }
            Phase::Trying { request, .. } if is_request(request, id) => {
                self.try_answered(message, now, out);
            }
            _ => match passed {
                Some(request) => self.passed_answered(request, message, now, out),
                None => out.push_back(Step::ToClient(message)),
            },
        }
    }

    fn own_answered(&mut self, own: Own, answer: &Message, now: Instant, out: &mut Steps) {
        let is_error = matches!(answer.head(), Head::Response { is_error: true, .. });
        match (own, &self.phase) {
            (Own::Probe, Phase::Probing { .. }) => self.probe_answered(answer, now, out),
            (Own::Opening, Phase::Opening) => self.opened(answer, now, out),
            (Own::Probe | Own::Opening, _) => debug!("an answer that came too late was dropped"),
            (Own::Doubt, _) => self.doubt_answered(answer, now, out),
            (Own::LogLevel(until), _) => self.level_settled(until, now, out),
            (Own::Subscribe(uri), _) => self.subscribed(uri, !is_error, out),
            (Own::Unsubscribe(uri), _) => self.unsubscribed(uri, out),
        }
    }
}

/// Whether `message` is the request `id`.
fn is_request(message: &Message, id: &Id) -> bool {
    message.id().is_some_and(|own| own.canonical() == id.canonical())
}

/// The same answer for another request.
fn readdressed(answer: &Message, id: &Id) -> Step {
    Step::ToClient(renamed(answer, id).unwrap_or_else(|| edit::with_id(answer, id)))
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
