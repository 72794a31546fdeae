//! Random schedules for the engine: what the client says, what the link reports, faults and time in
//! any order, and what must hold after each step. The unit tests go through many of them, and a fuzz
//! target through any.
#![allow(clippy::expect_used, clippy::panic, reason = "nothing but tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::entry::{MessageState, Order, Origin, Place};
use super::{Engine, Limits, Output, Policy};
use crate::error::{Delivery, Error, ErrorKind};
use crate::limits::{self, Timeouts};
use crate::message::{Head, Id, Message, Method, peek, reply};
use crate::revision::Revision;
use crate::transport::{Command, Event, LoginStage, Send, Ticket};

pub(super) const TIMEOUTS: Timeouts =
    Timeouts { quick: Some(Duration::from_secs(30)), work: Some(Duration::from_secs(300)) };

pub(super) const LIMITS: Limits =
    Limits { parallel: 4, serial: false, timeouts: TIMEOUTS, is_http_sse: false };

pub(super) const SEED: u64 = 7;

pub(crate) fn policy() -> Policy {
    Policy {
        timeouts: TIMEOUTS,
        connect_wait: Duration::from_secs(20),
        away_wait: Duration::from_secs(5),
        login_wait: Duration::from_secs(10),
        keep_alive: None,
        memory: limits::UNANSWERED_BYTES,
    }
}

pub(super) fn message(text: &str) -> Message {
    Message::parse(Bytes::copy_from_slice(text.as_bytes())).expect("a message")
}

/// A request whose progress token is its id.
pub(super) fn request(id: impl std::fmt::Display, method: &str) -> Message {
    message(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"_meta":{{"progressToken":{id}}}}}}}"#
    ))
}

pub(super) fn modern(id: u32) -> Message {
    let version = Revision::LATEST_MODERN;
    message(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t","_meta":{{"io.modelcontextprotocol/protocolVersion":"{version}","io.modelcontextprotocol/clientInfo":{{"name":"c","version":"1"}},"io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    ))
}

pub(super) fn notification(method: &str) -> Message {
    message(&format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#))
}

pub(super) fn cancelled(id: u32) -> Message {
    reply::cancelled(&Id::number(u64::from(id)), "no longer wanted")
}

pub(super) fn progress(token: impl std::fmt::Display) -> Message {
    message(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#
    ))
}

pub(super) fn answer_to(request: &Message) -> Message {
    let id = request.id().expect("a request");
    let version = Revision::LATEST_LEGACY;
    message(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"{version}","capabilities":{{"tools":{{}}}}}}}}"#
    ))
}

fn refusal_of(request: &Message) -> Message {
    let id = request.id().expect("a request");
    message(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32000,"message":"no"}}}}"#))
}

pub(super) fn lost() -> Error {
    let error = Error::new(ErrorKind::SessionLost, "HTTP 404: Not Found");
    Error { status: Some(404), ..error }.not_delivered()
}

pub(super) fn refused() -> Error {
    Error::new(ErrorKind::Connect, "connection refused").not_delivered()
}

/// The longest schedule of the fuzz target.
const FUZZED_STEPS: usize = 400;

/// Fuzz target: the bytes are the decisions of a schedule.
pub fn schedules(data: &[u8]) {
    Schedule::new(Chance::Bytes(data), false).run(FUZZED_STEPS);
}

/// Where a schedule's decisions come from.
#[derive(Debug)]
pub(super) enum Chance<'a> {
    /// The same for the same seed.
    Seed(u64),
    /// Until they are used up.
    Bytes(&'a [u8]),
}

impl Chance<'_> {
    fn below(&mut self, limit: usize) -> usize {
        match self {
            Self::Seed(state) => {
                // xorshift64*
                *state ^= *state >> 12;
                *state ^= *state << 25;
                *state ^= *state >> 27;
                let number = state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
                usize::try_from(number).expect("31 bits") % limit
            }
            Self::Bytes(bytes) => {
                let Some((first, rest)) = bytes.split_first() else { return 0 };
                *bytes = rest;
                usize::from(*first) % limit
            }
        }
    }

    fn one_in(&mut self, number: usize) -> bool {
        self.below(number) == number - 1
    }

    fn is_used_up(&self) -> bool {
        matches!(self, Self::Bytes([]))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wiring {
    Stream,
    StreamableHttp,
    HttpSse,
}

/// What is known of a request of the client's that has not ended.
#[derive(Debug, Default)]
struct OpenRequest {
    /// How many of its sends may have been carried out when it is sent again.
    repeatable: usize,
    /// The sends of it that may have been carried out.
    may_have_run: BTreeSet<Ticket>,
}

/// An engine between a client and a link that do whatever chance says.
#[derive(Debug)]
pub(super) struct Schedule<'a> {
    engine: Engine,
    begin: Instant,
    now: Instant,
    /// Gets what happens, line by line.
    pub(super) narrator: Option<fn(&str)>,
    chance: Chance<'a>,
    transport: Wiring,
    memory: usize,
    parallel: usize,
    /// What the link has.
    out: BTreeMap<Ticket, Send>,
    /// Those of them whose POST was accepted (HTTP+SSE).
    accepted: BTreeSet<Ticket>,
    /// What the link was told to drop, and may report about nevertheless.
    dropped: Vec<Send>,
    tickets: BTreeSet<Ticket>,
    asked: u32,
    /// The client's requests that have not ended.
    open: BTreeMap<u32, OpenRequest>,
    /// Requests of the server's that the client may answer; several may have the same id.
    server_requests: Vec<String>,
    server_requests_made: u32,
    /// Those that were cancelled; the client may answer them all the same.
    stale_requests: Vec<String>,
    /// Responses of the client's that the server waits for, less those that were sent.
    responses_due: usize,
    /// The confirmation of a handshake, once it was sent.
    confirmation: Option<Ticket>,
    awaits_confirmation: bool,
    /// Ordinary calls that have left at least once, and the newest of them.
    left: BTreeSet<u32>,
    newest: u32,
    was_away: bool,
    /// The session was lost in this step: no request of the old one is open at the client after it.
    was_lost: bool,
    /// Which states have followed upon which; kept where somebody wants to know.
    transitions: Option<BTreeSet<String>>,
    seen: (&'static str, &'static str, BTreeMap<Order, &'static str>),
}

impl<'a> Schedule<'a> {
    pub(super) fn new(mut chance: Chance<'a>, notes_transitions: bool) -> Self {
        let transport = match chance.below(6) {
            0..=2 => Wiring::StreamableHttp,
            3..=4 => Wiring::HttpSse,
            _ => Wiring::Stream,
        };
        let is_serial = chance.one_in(8);
        let parallel = if is_serial { 1 } else { 1 + chance.below(4) };
        let http = Limits {
            parallel,
            serial: is_serial,
            is_http_sse: transport == Wiring::HttpSse,
            ..LIMITS
        };
        let keep_alive = chance.one_in(4).then_some(Duration::from_secs(20));
        let now = Instant::now();
        let memory = if chance.one_in(8) { 8 * limits::LEAST_WEIGHT } else { usize::MAX };
        let policy = Policy { keep_alive, memory, ..policy() };
        Self {
            engine: Engine::new(policy, SEED, (transport != Wiring::Stream).then_some(http), now),
            begin: now,
            now,
            narrator: None,
            chance,
            transport,
            memory,
            parallel: if transport == Wiring::Stream { usize::MAX } else { parallel },
            out: BTreeMap::new(),
            accepted: BTreeSet::new(),
            dropped: Vec::new(),
            tickets: BTreeSet::new(),
            asked: 0,
            open: BTreeMap::new(),
            server_requests: Vec::new(),
            server_requests_made: 0,
            stale_requests: Vec::new(),
            responses_due: 0,
            confirmation: None,
            awaits_confirmation: false,
            left: BTreeSet::new(),
            newest: 0,
            was_away: false,
            was_lost: false,
            transitions: notes_transitions.then(BTreeSet::new),
            seen: ("Idle", "Up", BTreeMap::new()),
        }
    }

    /// Goes through so many steps, then to the end; gives back the transitions.
    pub(super) fn run(mut self, steps: usize) -> BTreeSet<String> {
        for _ in 0..steps {
            self.step();
            self.check();
            if self.chance.is_used_up() {
                break;
            }
        }
        self.engine.set_client_ready(true, self.now);
        if !self.chance.one_in(3) {
            self.everything_ends();
        }
        self.leave();
        self.transitions.unwrap_or_default()
    }

    fn step(&mut self) {
        self.tell(|schedule| format!("{} {:?}", schedule.engine.session.name(), schedule.open));
        match self.chance.below(32) {
            // Nobody listens to the client.
            0..=14 | 28 if !self.engine.has_room() => {}
            0..=5 => self.ask("a"),
            6..=7 => self.ask("tools/list"),
            8 => self.ask("ping"),
            9 => self.ask("initialize"),
            10 => self.say(notification("notifications/initialized")),
            11 => self.say(notification("n")),
            12 => self.answer_question(),
            13 => self.cancel(),
            14 => self.ask_again(),
            15 => self.on_server_request(),
            16 => self.progress(),
            17..=23 => self.report(),
            24 => self.report_late(),
            25 => self.lose(),
            26 => self.login(),
            27 => self.engine.set_client_ready(self.chance.one_in(2), self.now),
            28 if self.chance.one_in(64) => self.flood(),
            28 if self.chance.one_in(2) => self.ask("server/discover"),
            _ => {
                let times = [0, 1, 90, 700, 6_000, 31_000, 400_000];
                let time = times[self.chance.below(times.len())];
                self.now += Duration::from_millis(time);
                self.engine.on_time(self.now);
            }
        }
    }

    fn ask(&mut self, method: &str) {
        self.asked += 1;
        let id = self.asked;
        let is_modern = method == "a" && self.transport != Wiring::HttpSse && self.chance.one_in(6);
        if self.engine.is_promised() && method != "initialize" {
            // Somebody stands in for the server, and answers.
            self.engine.open_promised(self.now);
            return;
        }
        let repeatable = usize::from(method != "a");
        self.open.insert(id, OpenRequest { repeatable, ..OpenRequest::default() });
        self.say(if is_modern { modern(id) } else { request(id, method) });
    }

    fn say(&mut self, message: Message) {
        self.tell(|_| format!("the client: {message:?}"));
        self.engine.on_client_message(message, self.now);
    }

    /// A second request under the id of one that is open is refused.
    fn ask_again(&mut self) {
        let Some(id) = self.pick_open() else { return };
        if self.engine.is_promised() || self.engine.overload().is_some() {
            return;
        }
        self.check();
        self.engine.on_client_message(request(id, "a"), self.now);
        let refusal = self.engine.outputs.pop_front();
        let is_refused = matches!(&refusal, Some(Output::Failed { request, error })
            if error.kind == ErrorKind::InvalidRequest && request.id() == Some(&Id::number(id.into())));
        assert!(is_refused, "{id} was asked twice: {refusal:?}");
    }

    fn pick_open(&mut self) -> Option<u32> {
        let at = self.chance.below(self.open.len().max(1));
        self.open.keys().nth(at).copied()
    }

    fn answer_question(&mut self) {
        let at = self.chance.below(self.server_requests.len() + 1);
        let id = match at < self.server_requests.len() {
            true => {
                self.responses_due += 1;
                self.server_requests.swap_remove(at)
            }
            false => self.stale_requests.pop().unwrap_or_else(|| "\"unknown\"".to_owned()),
        };
        self.say(message(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)));
    }

    fn cancel(&mut self) {
        let id = match self.pick_open() {
            Some(id) if !self.chance.one_in(4) => id,
            _ => self.asked + 1000,
        };
        if self.engine.is_promised() {
            return;
        }
        self.open.remove(&id);
        if self.transport == Wiring::Stream {
            self.out.retain(|_, send| id_of(&send.message) != Some(id));
        }
        self.say(cancelled(id));
    }

    /// More that goes past the queue than may be out at once.
    fn flood(&mut self) {
        for _ in 0..=limits::URGENT_IN_FLIGHT {
            self.say(cancelled(self.asked + 1000));
        }
    }

    fn on_server_request(&mut self) {
        self.server_requests_made += 1;
        // Some number their requests anew in every session.
        let id = if self.chance.one_in(3) { 1 } else { self.server_requests_made };
        let question = match self.chance.below(4) {
            0 => {
                // What the client says to it then may as well be said to the next with this id.
                self.server_requests.retain(|open| *open != id.to_string());
                cancelled(id)
            }
            1 => notification("notifications/tools/list_changed"),
            _ => message(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"roots/list"}}"#)),
        };
        self.on(Event::Message { message: question, answers: None });
    }

    fn progress(&mut self) {
        let Some(id) = self.pick_open() else { return };
        let is_out = self.out.values().any(|send| id_of(&send.message) == Some(id));
        let has_token = is_out
            && self
                .out
                .values()
                .all(|send| id_of(&send.message) != Some(id) || send.envelope.is_none());
        if let Some(asked) = self.open.get_mut(&id).filter(|_| has_token) {
            // Progress only ever increases: it is not begun anew after that.
            asked.repeatable = asked.repeatable.min(asked.may_have_run.len());
            self.on(Event::Message { message: progress(id), answers: None });
        }
    }

    /// Tells what happens, if somebody wants to know.
    fn tell(&self, text: impl FnOnce(&Self) -> String) {
        if let Some(narrator) = self.narrator {
            let states = [self.engine.session.name(), self.engine.server.name()];
            narrator(&format!("{:?} {states:?} {}", self.now - self.begin, text(self)));
        }
    }

    fn on(&mut self, event: Event) {
        self.tell(|_| format!("the link: {event:?}"));
        self.engine.on_event(event, self.now);
    }

    /// Something becomes of one that is out.
    fn report(&mut self) {
        let at = self.chance.below(self.out.len().max(1));
        let Some(send) = self.out.values().nth(at).cloned() else { return };
        if self.transport != Wiring::Stream && self.chance.one_in(2) {
            send.progress.mark_started();
        }
        let is_request = send.message.request_id().is_some();
        let event = match self.chance.below(8) {
            0..=3 if is_request => self.answered(&send),
            0..=4 if self.transport == Wiring::HttpSse || !is_request => {
                self.takes(&send, is_request)
            }
            _ if self.transport == Wiring::Stream => return self.malformed(&send),
            _ if self.accepted.contains(&send.ticket) => return,
            5 if !send.message.is_request(&Method::Initialize) && send.envelope.is_none() => {
                self.forgotten(&send, is_request)
            }
            6 if is_request && self.chance.one_in(4) => {
                self.out.remove(&send.ticket);
                self.may_have_run(&send);
                let id = send.message.id().expect("a request").clone();
                let error = Error::new(ErrorKind::TooLarge, "too large").into();
                Event::Oversized { id, is_request: false, error }
            }
            _ => self.failed(&send),
        };
        self.on(event);
    }

    fn answered(&mut self, send: &Send) -> Event {
        self.out.remove(&send.ticket);
        let by_ticket = self.transport == Wiring::StreamableHttp && !self.chance.one_in(8);
        let is_refused = self.chance.one_in(6);
        let answer = if is_refused { refusal_of } else { answer_to };
        let message = answer(&send.message);
        let is_current = self.engine.session.is_asked_by(send.ticket);
        self.awaits_confirmation |= is_current && !is_refused;
        Event::Message { message, answers: by_ticket.then_some(send.ticket) }
    }

    fn takes(&mut self, send: &Send, is_request: bool) -> Event {
        send.progress.mark_started();
        if is_request {
            self.accepted.insert(send.ticket);
            self.may_have_run(send);
        } else {
            self.out.remove(&send.ticket);
        }
        Event::Accepted(send.ticket)
    }

    fn malformed(&mut self, send: &Send) {
        if let Some(id) = send.message.id().filter(|_| self.chance.one_in(4)) {
            self.out.remove(&send.ticket);
            let error = Error::new(ErrorKind::InvalidRequest, "no JSON-RPC");
            let malformed = Event::Malformed { id: Some(id.clone()), error: error.into() };
            self.engine.on_event(malformed, self.now);
        }
    }

    fn forgotten(&mut self, send: &Send, is_request: bool) -> Event {
        self.out.remove(&send.ticket);
        let has_last_word = is_request && self.chance.one_in(4);
        Event::SessionRejected {
            ticket: send.ticket,
            session: send.session,
            error: lost().into(),
            last_word: has_last_word.then(|| answer_to(&send.message)),
        }
    }

    fn failed(&mut self, send: &Send) -> Event {
        self.out.remove(&send.ticket);
        let kinds =
            [ErrorKind::Closed, ErrorKind::Timeout, ErrorKind::NoResponse, ErrorKind::Status];
        let kind = kinds[self.chance.below(4)];
        let error = match self.chance.below(6) {
            0 | 1 => refused(),
            2 => Error::new(kind, "x").not_delivered(),
            3 => Error {
                status: Some(503),
                retry_after: Some(Duration::from_secs(2)),
                ..Error::new(ErrorKind::Status, "HTTP 503").not_delivered()
            },
            4 => Error { status: Some(502), ..Error::new(ErrorKind::Status, "HTTP 502") },
            _ => Error::new(kind, "x"),
        };
        if error.delivery == Delivery::Unknown {
            send.progress.mark_started();
            self.may_have_run(send);
        }
        Event::Failed { ticket: send.ticket, error: error.into() }
    }

    fn may_have_run(&mut self, send: &Send) {
        if let Some(asked) = self.clients_id(send).and_then(|id| self.open.get_mut(&id)) {
            asked.may_have_run.insert(send.ticket);
        }
    }

    /// The link reports about what it was told to drop.
    fn report_late(&mut self) {
        let Some(send) = self.dropped.pop().filter(|_| self.transport != Wiring::Stream) else {
            return;
        };
        let is_request = send.message.request_id().is_some();
        let ticket = send.ticket;
        match self.chance.below(4) {
            0 => self.on(Event::Accepted(ticket)),
            1 if is_request && self.transport == Wiring::StreamableHttp => {
                let message = answer_to(&send.message);
                self.on(Event::Message { message, answers: Some(ticket) });
            }
            2 => self.on(Event::Failed { ticket, error: refused().into() }),
            _ => self.on(Event::SessionRejected {
                ticket,
                session: send.session,
                error: lost().into(),
                last_word: None,
            }),
        }
    }

    fn lose(&mut self) {
        match (self.transport, self.chance.below(2)) {
            (Wiring::HttpSse, 0) => self.on(Event::StreamOpened),
            (Wiring::HttpSse, _) => {
                let begun = self.out.values().filter(|send| send.progress.has_started());
                for send in begun.cloned().collect::<Vec<_>>() {
                    // Unless the server says that it has refused it.
                    self.may_have_run(&send);
                }
                self.on(Event::StreamEnded(Error::new(ErrorKind::Closed, "cut").into()));
            }
            (Wiring::StreamableHttp, 0) => {
                let session = self.engine.session.opened_by();
                self.on(Event::SessionLost { session, error: lost().into() });
            }
            (Wiring::StreamableHttp, _) => self.on(Event::Reached),
            (Wiring::Stream, _) => self.engine.lose_session(&lost(), self.now),
        }
    }

    fn login(&mut self) {
        if self.transport == Wiring::Stream {
            return;
        }
        let stage = match self.chance.below(4) {
            0 => Some(LoginStage::UnderWay),
            1 => Some(LoginStage::Page("https://example.com/login".to_owned())),
            _ => None,
        };
        self.on(Event::LoginPending(stage));
        if self.engine.login().is_some()
            && self.chance.one_in(2)
            && let Some(id) = self.engine.opening().and_then(|(message, _)| id_of(message))
        {
            // Somebody stands in for the server.
            assert!(self.open.remove(&id).is_some(), "{id} had ended");
            self.engine.promise_session(self.now);
        }
    }

    /// What must hold after every step.
    fn check(&mut self) {
        self.was_away |= !self.engine.server.is_up();
        if self.engine.deadline().is_some_and(|at| at <= self.now) {
            self.engine.on_time(self.now);
        }
        self.was_away |= !self.engine.server.is_up();
        while self.engine.has_work() {
            while let Some(output) = self.engine.next_output() {
                self.check_output(&output);
            }
            if let Some(command) = self.engine.next_command() {
                match command {
                    Command::Send(send) => self.check_send(*send),
                    Command::Cancel { ticket, .. } => self.dropped.extend(self.out.remove(&ticket)),
                }
            }
        }
        let is_forgotten = !std::mem::take(&mut self.was_lost) || self.server_requests.is_empty();
        assert!(is_forgotten, "of a session that was lost: {:?}", self.server_requests);
        let engine = &self.engine;
        let deadline = engine.deadline();
        assert!(deadline.is_none_or(|at| at > self.now), "it would spin: {engine:?}");
        let (mut bytes, mut of_client, mut urgent, mut ordinary, mut limited) = (0, 0, 0, 0, 0);
        for entry in engine.table.values() {
            let weight = entry.message.bytes().len().max(limits::LEAST_WEIGHT);
            bytes += weight;
            if entry.origin == Origin::Client && !entry.message.is_answer() {
                of_client += weight;
            }
            if entry.sent().is_some_and(|sent| sent.place == Place::Urgent) {
                urgent += usize::from(entry.message.request_id().is_none());
            }
            if entry.sent().is_some_and(|sent| sent.place == Place::Ordinary) {
                ordinary += 1;
                let is_exempt = entry.is_handshake() || entry.message.is_request(&Method::Discover);
                limited += usize::from(!is_exempt);
            }
        }
        let is_replaced = engine.session.is_replaced();
        assert!(engine.session.name() != "Idle" || !is_replaced, "a loss was not forgotten");
        assert_eq!(engine.memory.used(), bytes, "bytes");
        let most = self.memory.saturating_add(limits::LEAST_WEIGHT);
        assert!(of_client <= most, "{of_client} bytes, more than {most}");
        assert_eq!(engine.ordinary_out, ordinary, "places");
        let is_bounded = urgent <= limits::URGENT_IN_FLIGHT || self.transport == Wiring::Stream;
        assert!(is_bounded, "{urgent} urgent messages at once");
        assert!(self.was_away || limited <= self.parallel, "too many at once");
        self.note_transitions();
    }

    fn check_output(&mut self, output: &Output) {
        self.tell(|_| format!("to the client: {output:?}"));
        let (ended, delivery) = match output {
            Output::SessionLost => {
                self.was_lost = true;
                return;
            }
            Output::Failed { request, error } => (id_of(request), error.delivery),
            Output::Message(message) => match message.head() {
                Head::Response { .. } => (id_of(message), Delivery::Unknown),
                Head::Request { id, .. } => {
                    self.server_requests.push(id.as_json().to_owned());
                    return;
                }
                Head::Notification { .. } => {
                    if let Some(id) = peek::cancelled_request(message) {
                        let requests = std::mem::take(&mut self.server_requests);
                        let is_it = |open: &String| open == id.as_json();
                        let (cancelled, rest) = requests.into_iter().partition(is_it);
                        self.server_requests = rest;
                        self.stale_requests.extend::<Vec<_>>(cancelled);
                    }
                    return;
                }
            },
        };
        let id = ended.expect("an id of the client's");
        let asked = self.open.remove(&id);
        let asked = asked.unwrap_or_else(|| panic!("request {id} ended twice: {output:?}"));
        let is_honest = delivery == Delivery::Unknown || asked.may_have_run.is_empty();
        assert!(is_honest, "{id} may have been carried out: {output:?}");
    }

    fn check_send(&mut self, send: Send) {
        self.tell(|_| format!("to the server: {:?} {:?}", send.ticket, send.message));
        assert!(self.tickets.insert(send.ticket), "a ticket was used twice");
        if let Some(id) = peek::cancelled_request(&send.message) {
            let id: Option<u32> = id.as_json().parse().ok();
            assert!(id.is_none_or(|id| !self.open.contains_key(&id)), "who cancelled {id:?}?");
        }
        let is_result = matches!(send.message.head(), Head::Response { is_error: false, .. });
        if is_result && send.retry.is_none() {
            let due = self.responses_due.checked_sub(1);
            self.responses_due = due.expect("a response that the server does not wait for");
        }
        let method = send.message.method();
        let is_legacy = send.envelope.is_none();
        let is_past_queue = matches!(
            method,
            None | Some(Method::Ping | Method::Cancelled | Method::Initialized | Method::Discover)
        );
        if is_legacy && !is_past_queue {
            let is_asked =
                self.out.values().any(|send| send.message.is_request(&Method::Initialize));
            assert!(!is_asked, "{send:?} left during a handshake");
            // Unless the session was lost meanwhile.
            let confirmation = self.confirmation.and_then(|ticket| self.engine.table.get(ticket));
            let is_confirmed =
                confirmation.is_none() || send.message.is_request(&Method::Initialize);
            assert!(is_confirmed, "{send:?} left before the session was confirmed");
        }
        if is_legacy && send.message.is_notification(&Method::Initialized) {
            let is_confirmation = std::mem::take(&mut self.awaits_confirmation);
            self.confirmation = is_confirmation.then_some(send.ticket);
        }
        if is_legacy && send.message.is_request(&Method::Initialize) {
            (self.awaits_confirmation, self.confirmation) = (false, None);
        }
        let own_id = self.clients_id(&send);
        if let Some(id) = own_id {
            self.check_request(id, is_legacy && method.is_some_and(|m| m.name() == "a"), &send);
        }
        if self.transport == Wiring::Stream {
            self.may_have_run(&send);
            if send.message.request_id().is_none() {
                return self.on(Event::Accepted(send.ticket));
            }
        }
        self.out.insert(send.ticket, send);
    }

    /// The id that the client has given a request.
    fn clients_id(&self, send: &Send) -> Option<u32> {
        let entry = self.engine.table.get(send.ticket)?;
        entry.message.request_id().and_then(|_| id_of(&entry.message))
    }

    fn check_request(&mut self, id: u32, is_call: bool, send: &Send) {
        let asked = self.open.get(&id);
        let Some(asked) = asked else {
            // Nobody waits for it but the engine: it is promised, or it has just ended.
            assert!(send.message.is_request(&Method::Initialize), "{id} has ended, and was sent");
            return;
        };
        let is_repeatable = asked.may_have_run.len() <= asked.repeatable
            || send.message.is_request(&Method::Initialize);
        assert!(is_repeatable, "{id} is carried out once more: {asked:?}");
        if is_call && send.retry.is_none() {
            assert!(id >= self.newest || self.left.contains(&id), "{id} was overtaken");
            self.newest = self.newest.max(id);
            self.left.insert(id);
        }
    }

    fn note_transitions(&mut self) {
        let Some(transitions) = &mut self.transitions else { return };
        let engine = &self.engine;
        let states = engine.table.values().map(|entry| {
            let name = match &entry.state {
                MessageState::Queued => "Queued",
                MessageState::Delayed => "Delayed",
                MessageState::Ready => "Ready",
                MessageState::Sent(_) => "Sent",
            };
            (entry.order, name)
        });
        let now = (engine.session.name(), engine.server.name(), states.collect::<BTreeMap<_, _>>());
        let mut note = |what, from: &str, to: &str| {
            if from != to {
                transitions.insert(format!("{what} {from} > {to}"));
            }
        };
        note("session", self.seen.0, now.0);
        note("server", self.seen.1, now.1);
        for (order, state) in &now.2 {
            note("message", self.seen.2.get(order).unwrap_or(&"-"), state);
        }
        for (order, state) in &self.seen.2 {
            note("message", state, now.2.get(order).unwrap_or(&"-"));
        }
        self.seen = now;
    }

    /// Nothing more is asked, and the server says nothing more: all that was asked has an end.
    fn everything_ends(&mut self) {
        self.on(Event::LoginPending(None));
        // One after the other, where only one may be out.
        let left = u32::try_from(self.engine.table.values().count()).expect("a few");
        let end = self.now + Duration::from_secs(2000) + left * Duration::from_secs(31);
        while !self.open.is_empty() {
            if self.transport == Wiring::StreamableHttp {
                // Its link keeps the time.
                for ticket in self.out.keys().copied().collect::<Vec<_>>() {
                    if let Some(send) = self.out.remove(&ticket) {
                        self.may_have_run(&send);
                    }
                    let error = Error::new(ErrorKind::Timeout, "nothing").into();
                    self.on(Event::Failed { ticket, error });
                }
                self.check();
            }
            self.open_stream();
            self.pass_time();
            assert!(self.now < end, "{:?} never end", self.open);
        }
    }

    /// The link opens the stream of HTTP+SSE in a time of its own, or fails what waits for it.
    fn open_stream(&mut self) {
        if self.transport == Wiring::HttpSse
            && !self.out.is_empty()
            && !self.engine.is_stream_open()
        {
            self.on(Event::StreamOpened);
        }
    }

    /// To when the next thing happens by itself.
    fn pass_time(&mut self) {
        let later = self.now + Duration::from_secs(1);
        self.now = self.engine.deadline().unwrap_or(later).max(self.now);
        self.engine.on_time(self.now);
        self.check();
    }

    /// The client leaves: the end comes, whatever the server does.
    fn leave(&mut self) {
        self.engine.on_client_closed(self.now);
        // The engine answers them itself.
        self.server_requests.clear();
        self.check();
        let begin = self.now;
        while !self.engine.is_finished() {
            self.pass_time();
            assert!(self.now < begin + Duration::from_secs(700), "it never ends");
        }
        self.engine.end_all(&super::drain_timed_out(), self.now);
        self.check();
        assert!(self.open.is_empty(), "{:?} never ended", self.open);
        self.engine.close();
        // With one at a time, each that is left has a turn of its own.
        for _ in 0..self.engine.table.values().count() + 50 {
            if self.engine.is_idle() {
                break;
            }
            for ticket in self.out.keys().copied().collect::<Vec<_>>() {
                self.out.remove(&ticket);
                self.on(Event::Failed {
                    ticket,
                    error: Error::new(ErrorKind::Status, "over").into(),
                });
            }
            self.pass_time();
        }
        assert!(self.engine.is_idle(), "something is never sent: {:?}", self.engine.table);
    }
}

fn id_of(message: &Message) -> Option<u32> {
    message.id()?.as_json().parse().ok()
}
