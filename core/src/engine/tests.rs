//! Tests of the dispatcher without sockets and with a simulated clock: each rule once, and all of
//! them over random schedules.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::{Dispatcher, Limits};
use crate::error::{Error, Kind};
use crate::limits::{self, Timeouts};
use crate::message::{Head, Id, Message, Method, peek, reply};
use crate::transport::Incoming;
use crate::transport::http::{Command, Event, Send, Ticket};

const LIMITS: Limits = Limits {
    parallel: 4,
    serial: false,
    timeouts: Timeouts {
        quick: Some(Duration::from_secs(30)),
        work: Some(Duration::from_secs(300)),
    },
    away_wait: Duration::from_secs(5),
    is_http_sse: false,
};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":"i","method":"initialize"}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

fn message(text: &str) -> Message {
    Message::parse(Bytes::copy_from_slice(text.as_bytes())).expect("a message")
}

fn request(id: impl std::fmt::Display, method: &str) -> Message {
    message(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#))
}

fn modern(id: u32) -> Message {
    message(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t","_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{{"name":"c","version":"1"}},"io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    ))
}

fn cancelled(id: u32) -> Message {
    reply::cancelled(&Id::number(u64::from(id)), "no longer wanted")
}

fn answer_to(message: &Message) -> Message {
    let id = message.id().expect("a request");
    self::message(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#))
}

fn lost() -> Error {
    let error = Error::new(Kind::SessionLost, "HTTP 404: Not Found");
    Error { status: Some(404), ..error }.not_delivered()
}

fn refused() -> Error {
    Error::new(Kind::Connect, "connection refused").not_delivered()
}

/// A dispatcher with a link that does what a test says.
struct Scene {
    dispatcher: Dispatcher,
    now: Instant,
    out: BTreeMap<Ticket, Send>,
    dropped: Vec<Ticket>,
}

impl Scene {
    fn new(limits: Limits) -> Self {
        let dispatcher = Dispatcher::new(limits);
        Self { dispatcher, now: Instant::now(), out: BTreeMap::new(), dropped: Vec::new() }
    }

    /// One with a session, in the state after the handshake.
    fn opened(limits: Limits) -> Self {
        let mut scene = Self::new(limits);
        scene.open("i");
        scene
    }

    fn open(&mut self, id: &str) {
        assert_eq!(
            self.send(message(&INITIALIZE.replace("\"i\"", &format!("\"{id}\"")))),
            ["initialize"]
        );
        if self.dispatcher.limits.is_http_sse {
            self.on(Event::StreamOpened);
        }
        self.answer("initialize");
        self.send(message(INITIALIZED));
        self.accept("notifications/initialized");
        self.events();
    }

    /// Sends a message; gives back the methods of what leaves.
    fn send(&mut self, message: Message) -> Vec<String> {
        self.dispatcher.send(message, self.now);
        self.leaves()
    }

    fn on(&mut self, event: Event) -> Vec<String> {
        self.dispatcher.on_event(event, self.now);
        self.leaves()
    }

    fn wait(&mut self, time: Duration) -> Vec<String> {
        self.now += time;
        self.dispatcher.on_time(self.now);
        self.leaves()
    }

    fn leaves(&mut self) -> Vec<String> {
        let mut left = Vec::new();
        while let Some(command) = self.dispatcher.next_command() {
            match command {
                Command::Send(send) => {
                    let name = send.message.method().map_or("answer", Method::name);
                    let id = send.message.id().filter(|_| name.len() == 1);
                    left.push(id.map_or_else(|| name.to_owned(), |id| format!("{name}{id}")));
                    self.out.insert(send.ticket, *send);
                }
                Command::Cancel { ticket, .. } => {
                    self.out.remove(&ticket);
                    self.dropped.push(ticket);
                }
            }
        }
        left
    }

    /// The oldest that is out with this method.
    fn find(&self, method: &str) -> Send {
        let is_it = |send: &&Send| send.message.method().map_or("answer", Method::name) == method;
        self.out.values().find(is_it).expect("it is out").clone()
    }

    fn take(&mut self, method: &str) -> Send {
        let ticket = self.find(method).ticket;
        self.out.remove(&ticket).expect("it is out")
    }

    fn answer(&mut self, method: &str) -> Vec<String> {
        let send = self.take(method);
        let answers = (!self.dispatcher.limits.is_http_sse).then_some(send.ticket);
        self.on(Event::Message { message: answer_to(&send.message), answers })
    }

    fn accept(&mut self, method: &str) -> Vec<String> {
        let send = self.take(method);
        self.on(Event::Accepted(send.ticket))
    }

    fn fail(&mut self, method: &str, error: Error) -> Vec<String> {
        let send = self.take(method);
        self.on(Event::Failed { ticket: send.ticket, error: error.into() })
    }

    fn forget(&mut self, method: &str) -> Vec<String> {
        let send = self.take(method);
        let (ticket, session) = (send.ticket, send.session);
        let error = Box::new(lost());
        self.on(Event::Forgotten { ticket, session, error, last_word: None })
    }

    /// What the bridge is told, in short.
    fn events(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.dispatcher.next_event())
            .map(|event| match event {
                Incoming::Message(message) => match message.id() {
                    Some(id) => format!("answer {id}"),
                    None => "message".to_owned(),
                },
                Incoming::Failed { message, error } => {
                    let id = message.id().map_or("-".to_owned(), ToString::to_string);
                    format!("{id} failed: {}", error.kind)
                }
                other => format!("{other:?}").split([' ', '(', '{']).next().unwrap().to_owned(),
            })
            .collect()
    }
}

const NOTHING: [&str; 0] = [];

#[test]
fn the_handshake_goes_in_order() {
    // S1-02, C1
    let mut scene = Scene::new(LIMITS);
    assert_eq!(scene.send(message(INITIALIZE)), ["initialize"]);
    assert_eq!(scene.send(message(INITIALIZED)), NOTHING);
    assert_eq!(scene.send(request(2, "a")), NOTHING);
    assert_eq!(scene.answer("initialize"), ["notifications/initialized"]);
    assert_eq!(scene.send(request(3, "b")), NOTHING);
    assert_eq!(scene.accept("notifications/initialized"), ["a2", "b3"]);
}

#[test]
fn a_client_that_never_confirms_is_not_held_up() {
    let mut scene = Scene::new(LIMITS);
    scene.send(message(INITIALIZE));
    scene.send(request(2, "a"));
    assert_eq!(scene.answer("initialize"), ["a2"]);
}

#[test]
fn after_a_failed_handshake_the_rest_goes_its_way() {
    let mut scene = Scene::new(LIMITS);
    scene.send(message(INITIALIZE));
    scene.send(request(2, "a"));
    let error = Error { status: Some(500), ..Error::new(Kind::Status, "HTTP 500") };
    assert_eq!(scene.fail("initialize", error), ["a2"]);
    assert_eq!(scene.events(), ["\"i\" failed: http-status"]);
}

#[test]
fn modern_requests_do_not_wait_for_a_legacy_handshake() {
    let mut scene = Scene::new(LIMITS);
    assert_eq!(scene.send(request(1, "a")), ["a1"], "and nobody need begin with one");
    scene.send(message(INITIALIZE));
    assert_eq!(scene.send(request(2, "b")), NOTHING);
    assert_eq!(scene.send(modern(3)), ["tools/call"]);
}

#[test]
fn so_many_are_out_at_once_and_the_others_wait_in_order() {
    let mut scene = Scene::opened(LIMITS);
    for id in 0..6 {
        scene.send(request(id, "a"));
    }
    assert_eq!(scene.out.len(), 4);
    assert_eq!(scene.answer("a"), ["a4"]);
    let error = Error::new(Kind::Status, "HTTP 500");
    assert_eq!(scene.fail("a", error), ["a5"]);
}

#[test]
fn serial_is_one_at_a_time_pings_included() {
    // S4-02
    let mut scene = Scene::opened(Limits { serial: true, ..LIMITS });
    assert_eq!(scene.send(request(1, "a")), ["a1"]);
    assert_eq!(scene.send(request(2, "ping")), NOTHING);
    assert_eq!(scene.answer("a"), ["ping"]);
}

#[test]
fn answers_cancellations_and_pings_never_wait_behind_calls() {
    let mut scene = Scene::opened(Limits { parallel: 1, ..LIMITS });
    scene.send(request(1, "a"));
    assert_eq!(scene.send(request(2, "ping")), ["ping"]);
    assert_eq!(scene.send(message(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#)), ["answer"]);
    assert_eq!(scene.send(cancelled(99)), ["notifications/cancelled"]);
    assert_eq!(scene.send(message(r#"{"jsonrpc":"2.0","method":"n"}"#)), NOTHING);
}

#[test]
fn urgent_ones_wait_for_their_like_and_die_with_their_session() {
    let mut scene = Scene::opened(LIMITS);
    let answer = |id: usize| message(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    let left: usize = (0..limits::OVERTAKING + 2).map(|id| scene.send(answer(id)).len()).sum();
    assert_eq!(left, limits::OVERTAKING);
    assert_eq!(scene.accept("answer"), ["answer"], "each that arrives makes room for the next");
    scene.send(request(1, "a"));
    assert_eq!(scene.forget("a"), NOTHING);
    assert_eq!(scene.accept("answer"), NOTHING, "nobody wants to hear those that waited");
    assert_eq!(scene.send(answer(0)), NOTHING, "nor any other");
}

#[test]
fn what_has_not_left_can_be_withdrawn() {
    // C32
    let mut scene = Scene::opened(Limits { parallel: 1, ..LIMITS });
    scene.send(request(1, "a"));
    scene.send(request(2, "b"));
    assert_eq!(scene.send(cancelled(2)), NOTHING);
    scene.find("a").progress.mark_started();
    assert_eq!(scene.send(cancelled(1)), ["notifications/cancelled"]);
    assert_eq!(scene.dropped.len(), 1);
    assert_eq!(scene.events(), NOTHING, "both end silently");
}

#[test]
fn all_wait_in_order_for_the_session_that_replaces_a_lost_one() {
    let mut scene = Scene::opened(Limits { parallel: 2, ..LIMITS });
    for id in 2..6 {
        scene.send(request(id, "m"));
    }
    let later = scene.out.values().next_back().unwrap().ticket;
    let (session, error) = (scene.out[&later].session, Box::new(lost()));
    scene.out.remove(&later);
    let event = Event::Forgotten { ticket: later, session, error, last_word: None };
    assert_eq!(scene.on(event), NOTHING);
    assert_eq!(scene.forget("m"), NOTHING);
    assert_eq!(scene.events(), ["SessionLost"], "once");
    assert_eq!(scene.send(request(9, "initialize")), ["initialize"]);
    assert_eq!(scene.answer("initialize"), NOTHING, "not before it is confirmed");
    assert_eq!(scene.send(message(INITIALIZED)), ["notifications/initialized"]);
    assert_eq!(scene.accept("notifications/initialized"), ["m2", "m3"]);
    assert_eq!(scene.forget("m"), ["m4"]);
    let events = scene.events();
    assert_eq!(events.last().unwrap(), "2 failed: http-status", "the refusal is the answer");
}

#[test]
fn who_waits_for_a_session_in_vain_comes_back() {
    let mut scene = Scene::opened(LIMITS);
    scene.send(request(2, "a"));
    scene.forget("a");
    scene.send(request(3, "initialize"));
    scene.events();
    let error = Error { status: Some(400), ..Error::new(Kind::Status, "HTTP 400") };
    scene.fail("initialize", error.not_delivered());
    assert_eq!(scene.events(), ["3 failed: http-status", "2 failed: session-lost"]);
}

#[test]
fn nobody_waits_for_ever_for_a_session_that_nobody_opens() {
    let mut scene = Scene::opened(LIMITS);
    scene.send(request(2, "a"));
    scene.forget("a");
    scene.events();
    assert_eq!(scene.dispatcher.deadline(), Some(scene.now + LIMITS.away_wait));
    scene.wait(LIMITS.away_wait);
    assert_eq!(scene.events(), ["2 failed: session-lost"]);
    // A loss that was made good does not shorten the next one (D5).
    scene.open("j");
    scene.wait(LIMITS.away_wait);
    scene.send(request(3, "a"));
    scene.forget("a");
    assert_eq!(scene.dispatcher.deadline(), Some(scene.now + LIMITS.away_wait));
}

#[test]
fn a_loss_during_the_clients_own_initialize_holds_all_until_that_is_confirmed() {
    let mut scene = Scene::opened(LIMITS);
    scene.send(request(2, "a"));
    scene.send(request(3, "initialize"));
    assert_eq!(scene.forget("a"), NOTHING);
    assert_eq!(scene.answer("initialize"), NOTHING);
    assert_eq!(scene.events(), ["answer 3"], "it is being replaced already");
    assert_eq!(scene.send(message(INITIALIZED)), ["notifications/initialized"]);
    assert_eq!(scene.accept("notifications/initialized"), ["a2"]);
}

#[test]
fn a_loss_that_the_clients_initialize_did_not_mend_is_told() {
    let mut scene = Scene::opened(LIMITS);
    scene.send(request(2, "a"));
    scene.send(request(3, "initialize"));
    scene.forget("a");
    scene.fail("initialize", Error::new(Kind::Timeout, "x").not_delivered());
    assert_eq!(scene.events(), ["3 failed: timeout", "2 failed: closed", "SessionLost"]);
}

#[test]
fn a_session_that_was_replaced_is_not_lost_again_by_what_was_sent_in_it() {
    let mut scene = Scene::opened(LIMITS);
    scene.send(request(2, "a"));
    scene.send(request(3, "b"));
    scene.forget("a");
    scene.open("j");
    assert_eq!(scene.forget("b"), ["b3"], "it goes out in the new one");
    assert_eq!(scene.events(), NOTHING);
}

#[test]
fn a_server_that_is_away_is_not_asked_by_everybody_who_waits() {
    let mut scene = Scene::opened(Limits { parallel: 1, ..LIMITS });
    scene.send(request(1, "a"));
    scene.send(request(2, "a"));
    assert_eq!(scene.fail("a", refused()), NOTHING);
    assert_eq!(scene.events(), ["1 failed: connect", "2 failed: connect"]);
}

#[test]
fn the_server_is_told_of_a_timeout_unless_it_was_a_handshake() {
    // C19
    let mut scene = Scene::opened(LIMITS);
    scene.send(request(1, "a"));
    assert_eq!(scene.fail("a", Error::new(Kind::Timeout, "x")), ["notifications/cancelled"]);
    scene.send(request(2, "initialize"));
    assert_eq!(scene.fail("initialize", Error::new(Kind::Timeout, "x")), NOTHING);
}

#[test]
fn answers_on_the_stream_of_http_sse_are_matched_by_id_and_once() {
    // S2-40, S3-15
    let mut scene = Scene::opened(Limits { is_http_sse: true, ..LIMITS });
    for id in 1..4 {
        scene.send(request(id, "a"));
    }
    scene.on(Event::Message { message: answer_to(&request("1.0", "a")), answers: None });
    scene.on(Event::Message { message: answer_to(&request(3, "a")), answers: None });
    assert_eq!(scene.dropped.len(), 3, "their POSTs, and that of the handshake");
    assert_eq!(scene.dispatcher.sent.tickets(|_| true).len(), 1);
}

#[test]
fn an_acknowledgement_of_http_sse_makes_room_for_the_next() {
    let mut scene = Scene::opened(Limits { is_http_sse: true, parallel: 1, ..LIMITS });
    scene.send(request(1, "a"));
    assert_eq!(scene.send(request(2, "b")), NOTHING);
    assert_eq!(scene.accept("a"), ["b2"]);
    let mut scene =
        Scene::opened(Limits { is_http_sse: true, parallel: 1, serial: true, ..LIMITS });
    scene.send(request(1, "a"));
    scene.send(request(2, "b"));
    assert_eq!(scene.accept("a"), NOTHING, "unless they go one by one");
}

fn call_with_progress(id: u32) -> Message {
    message(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"a","params":{{"_meta":{{"progressToken":"t{id}"}}}}}}"#
    ))
}

fn progress(token: &str) -> Event {
    let message = message(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":"{token}","progress":1}}}}"#
    ));
    Event::Message { message, answers: None }
}

#[test]
fn only_its_own_progress_gives_a_request_more_time() {
    // C28
    let mut scene = Scene::opened(Limits { is_http_sse: true, ..LIMITS });
    let limit = LIMITS.timeouts.quick.unwrap();
    scene.send(call_with_progress(1));
    scene.send(call_with_progress(2));
    scene.wait(limit / 2);
    scene.on(progress("t2"));
    scene.on(progress("unknown"));
    scene.events();
    scene.wait(limit / 2);
    assert_eq!(scene.events(), ["1 failed: timeout"]);
    assert_eq!(scene.dispatcher.deadline(), Some(scene.now + limit / 2));
}

#[test]
fn time_in_which_nobody_could_listen_or_run_does_not_count() {
    let mut scene = Scene::opened(Limits { is_http_sse: true, ..LIMITS });
    let limit = LIMITS.timeouts.quick.unwrap();
    scene.send(request(1, "a"));
    scene.dispatcher.pause_clocks(limit);
    scene.wait(limit);
    assert_eq!(scene.events(), NOTHING, "the client took nothing");
    scene.wait(limit + limits::STOPPED);
    assert_eq!(scene.events(), NOTHING, "the program was stopped");
    scene.wait(limits::STOPPED);
    assert_eq!(scene.events(), ["1 failed: timeout"]);
}

#[test]
fn an_answer_may_come_although_its_post_broke() {
    let mut scene = Scene::opened(Limits { is_http_sse: true, ..LIMITS });
    scene.send(request(1, "a"));
    scene.send(request(2, "a"));
    let broke = || Error::new(Kind::Closed, "broke");
    scene.fail("a", broke());
    scene.fail("a", broke());
    assert_eq!(scene.events(), NOTHING);
    scene.on(Event::Message { message: answer_to(&request(2, "a")), answers: None });
    scene.wait(limits::LINGER);
    assert_eq!(scene.events(), ["answer 2", "1 failed: closed"]);
}

#[test]
fn the_end_of_the_stream_ends_what_was_sent_on_it_and_keeps_what_was_not() {
    // C7
    let mut scene = Scene::opened(Limits { is_http_sse: true, ..LIMITS });
    for id in 1..4 {
        scene.send(request(id, "a"));
    }
    scene.find("a").progress.mark_started();
    let cut = Error::new(Kind::Closed, "cut");
    assert_eq!(scene.on(Event::StreamEnded(cut.into())), NOTHING);
    assert_eq!(scene.events(), ["1 failed: closed", "SessionLost"]);
    assert_eq!(scene.send(request(9, "initialize")), ["initialize"]);
    scene.on(Event::StreamOpened);
    scene.answer("initialize");
    scene.send(message(INITIALIZED));
    assert_eq!(scene.accept("notifications/initialized"), ["a2", "a3"]);
}

#[test]
fn a_server_that_turns_out_to_speak_http_sse_is_heard_on_its_stream() {
    let mut scene = Scene::new(LIMITS);
    scene.send(message(INITIALIZE));
    scene.on(Event::StreamOpened);
    let answer = answer_to(&message(INITIALIZE));
    scene.on(Event::Message { message: answer, answers: None });
    assert_eq!(scene.events(), ["answer \"i\""]);
    assert_eq!(scene.send(message(INITIALIZED)), ["notifications/initialized"]);
}

#[test]
fn a_session_is_lost_even_if_whoever_found_out_was_cancelled() {
    for is_http_sse in [false, true] {
        let mut scene = Scene::opened(Limits { is_http_sse, ..LIMITS });
        scene.send(request(1, "a"));
        let send = scene.find("a");
        scene.send(cancelled(1));
        let (ticket, session, error) = (send.ticket, send.session, Box::new(lost()));
        scene.on(Event::Forgotten { ticket, session, error, last_word: None });
        assert_eq!(scene.events(), ["SessionLost"], "{is_http_sse}");
    }
}

#[test]
fn the_loss_of_a_session_that_was_replaced_is_no_news() {
    let mut scene = Scene::opened(LIMITS);
    scene.send(request(1, "a"));
    let ticket = scene.take("a").ticket;
    scene.send(request(2, "initialize"));
    // The link has begun the new session, whose answer is still on its way.
    let error = Box::new(lost());
    scene.on(Event::Forgotten { ticket, session: None, error, last_word: None });
    assert_eq!(scene.answer("initialize"), ["a1"], "nothing waits for a confirmation");
}

#[test]
fn the_clock_of_a_message_starts_when_the_stream_is_open() {
    let mut scene = Scene::new(Limits { is_http_sse: true, ..LIMITS });
    let limit = LIMITS.timeouts.quick.unwrap();
    scene.send(message(INITIALIZE));
    assert_eq!(scene.dispatcher.deadline(), None, "a login may take its time");
    scene.wait(2 * limit);
    scene.on(Event::StreamOpened);
    assert_eq!(scene.dispatcher.deadline(), Some(scene.now + limit));
    scene.wait(limit);
    assert_eq!(scene.events(), ["\"i\" failed: timeout"]);
}

#[test]
fn word_of_an_unknown_request_needs_a_session_however_long_it_waits() {
    let mut scene = Scene::opened(LIMITS);
    let answer = message(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
    for _ in 0..limits::OVERTAKING {
        scene.send(answer.clone());
    }
    scene.send(request(1, "a"));
    assert_eq!(scene.send(cancelled(99)), NOTHING);
    assert!(!scene.find("a").needs_session_id);
    assert_eq!(scene.accept("answer"), ["notifications/cancelled"]);
    assert!(scene.find("notifications/cancelled").needs_session_id);
}

/// Random numbers that are the same for the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % limit
    }
}

/// What a random schedule has to keep to.
struct Schedule {
    scene: Scene,
    chance: Chance,
    asked: u32,
    /// Requests that have not ended.
    open: BTreeSet<u32>,
    withdrawn: BTreeSet<u32>,
    tickets: BTreeSet<Ticket>,
    /// Ordinary calls that have left at least once, and the newest of them.
    left: BTreeSet<u32>,
    newest: u32,
    reached: BTreeSet<&'static str>,
}

impl Schedule {
    fn new(seed: u64) -> Self {
        let mut chance = Chance(seed | 1);
        let limits = Limits {
            parallel: 1 + usize::try_from(chance.below(4)).unwrap(),
            serial: chance.below(8) == 0,
            is_http_sse: chance.below(3) == 0,
            ..LIMITS
        };
        Self {
            scene: Scene::new(limits),
            chance,
            asked: 0,
            open: BTreeSet::new(),
            withdrawn: BTreeSet::new(),
            tickets: BTreeSet::new(),
            left: BTreeSet::new(),
            newest: 0,
            reached: BTreeSet::new(),
        }
    }

    fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            self.step();
            self.check();
        }
        self.end();
    }

    fn step(&mut self) {
        match self.chance.below(20) {
            0..=4 => self.ask("a"),
            5 => self.ask("ping"),
            6 => self.ask("initialize"),
            7 => self.say(message(INITIALIZED)),
            8 => self.say(message(r#"{"jsonrpc":"2.0","method":"n"}"#)),
            9 => self.say(message(r#"{"jsonrpc":"2.0","id":77,"result":{}}"#)),
            10 => self.cancel(),
            11..=15 => self.settle(),
            16 => self.lose(),
            _ => {
                let time = [0, 1, 90, 700, 6_000, 31_000, 400_000];
                let time = time[usize::try_from(self.chance.below(7)).unwrap()];
                self.scene.now += Duration::from_millis(time);
                self.scene.dispatcher.on_time(self.scene.now);
            }
        }
    }

    fn ask(&mut self, method: &str) {
        self.asked += 1;
        let id = self.asked;
        self.open.insert(id);
        let message = match self.chance.below(6) {
            0 if method == "a" && !self.scene.dispatcher.limits.is_http_sse => modern(id),
            _ => request(id, method),
        };
        self.say(message);
    }

    fn say(&mut self, message: Message) {
        self.scene.dispatcher.send(message, self.scene.now);
    }

    fn cancel(&mut self) {
        if self.asked > 0 {
            let id = 1 + u32::try_from(self.chance.below(u64::from(self.asked))).unwrap();
            if self.open.remove(&id) {
                self.withdrawn.insert(id);
            }
            self.say(cancelled(id));
        }
    }

    /// Something becomes of one that is out.
    fn settle(&mut self) {
        let Some(ticket) = self.pick() else { return };
        let send = self.scene.out[&ticket].clone();
        let is_http_sse = self.is_http_sse();
        if self.chance.below(2) == 0 {
            send.progress.mark_started();
        }
        let is_request = matches!(send.message.head(), Head::Request { .. });
        let event = match (self.chance.below(8), is_request) {
            (0..=3, true) => {
                self.reached.insert("answered");
                self.scene.out.remove(&ticket);
                let by_ticket = !is_http_sse && self.chance.below(8) > 0;
                Event::Message {
                    message: answer_to(&send.message),
                    answers: by_ticket.then_some(ticket),
                }
            }
            (0..=4, _) if !is_request || is_http_sse => {
                self.reached.insert("accepted");
                if !is_request {
                    self.scene.out.remove(&ticket);
                }
                Event::Accepted(ticket)
            }
            (5, _) if !send.is_request(&Method::Initialize) && send.envelope.is_none() => {
                self.reached.insert("forgotten");
                self.scene.out.remove(&ticket);
                let session = send.session;
                let last_word =
                    (self.chance.below(4) == 0 && is_request).then(|| answer_to(&send.message));
                Event::Forgotten { ticket, session, error: lost().into(), last_word }
            }
            _ => {
                self.reached.insert("failed");
                self.scene.out.remove(&ticket);
                let kinds = [Kind::Closed, Kind::Timeout, Kind::NoResponse, Kind::Status];
                let kind = kinds[usize::try_from(self.chance.below(4)).unwrap()];
                let error = match self.chance.below(3) {
                    0 => refused(),
                    1 => Error::new(kind, "x"),
                    _ => Error::new(kind, "x").not_delivered(),
                };
                Event::Failed { ticket, error: error.into() }
            }
        };
        self.scene.dispatcher.on_event(event, self.scene.now);
    }

    fn is_http_sse(&self) -> bool {
        self.scene.dispatcher.limits.is_http_sse
    }

    fn pick(&mut self) -> Option<Ticket> {
        let count = u64::try_from(self.scene.out.len()).unwrap();
        let at = usize::try_from(self.chance.below(count.max(1))).unwrap();
        self.scene.out.keys().nth(at).copied()
    }

    fn lose(&mut self) {
        let now = self.scene.now;
        let event = if self.is_http_sse() {
            match self.chance.below(2) {
                0 => Event::StreamOpened,
                _ => Event::StreamEnded(Error::new(Kind::Closed, "cut").into()),
            }
        } else {
            let session = self.scene.dispatcher.session.opened_by();
            Event::SessionLost { session, error: lost().into() }
        };
        self.reached.insert("lost");
        self.scene.dispatcher.on_event(event, now);
    }

    /// What must hold after every step.
    fn check(&mut self) {
        let now = self.scene.now;
        if self.scene.dispatcher.deadline().is_some_and(|at| at <= now) {
            self.scene.dispatcher.on_time(now);
        }
        self.check_events();
        while let Some(command) = self.scene.dispatcher.next_command() {
            match command {
                Command::Send(send) => self.check_send(*send),
                Command::Cancel { ticket, .. } => drop(self.scene.out.remove(&ticket)),
            }
        }
        let dispatcher = &self.scene.dispatcher;
        assert!(dispatcher.deadline().is_none_or(|at| at > now), "it would spin");
        let ordinary = dispatcher.sent.tickets(|sent| {
            sent.place == super::entry::Place::Ordinary && !sent.entry.is_handshake()
        });
        assert!(ordinary.len() <= dispatcher.limits.parallel, "too many at once");
    }

    fn check_events(&mut self) {
        while let Some(event) = self.scene.dispatcher.next_event() {
            let ended = match &event {
                Incoming::Message(message) if message.method().is_none() => message.id().cloned(),
                Incoming::Failed { message, .. } => message.id().cloned(),
                _ => None,
            };
            let id: Option<u32> = ended.and_then(|id| id.as_json().parse().ok());
            let Some(id) = id.filter(|id| *id != 77) else { continue };
            let is_first = self.open.remove(&id) || self.withdrawn.contains(&id);
            assert!(is_first, "request {id} ended twice: {event:?}");
        }
    }

    fn check_send(&mut self, send: Send) {
        assert!(self.tickets.insert(send.ticket), "a ticket was used twice");
        if let Some(id) = peek::cancelled_request(&send.message) {
            let id: Option<u32> = id.as_json().parse().ok();
            assert!(id.is_none_or(|id| !self.open.contains(&id)), "who cancelled {id:?}?");
        }
        let is_legacy = send.envelope.is_none();
        let is_ordinary = is_legacy
            && send.message.method().is_some_and(|method| {
                !matches!(method, Method::Ping | Method::Cancelled | Method::Initialized)
            });
        if is_ordinary {
            let is_asked = self.scene.out.values().any(|send| send.is_request(&Method::Initialize));
            assert!(!is_asked, "{send:?} left during a handshake");
        }
        if let Some(id) = send.message.id().filter(|_| send.message.method().is_some()) {
            let id: Option<u32> = id.as_json().parse().ok();
            assert!(id.is_none_or(|id| !self.withdrawn.contains(&id)), "{id:?} was withdrawn");
            let is_call = is_legacy && send.message.method().is_some_and(|m| m.name() == "a");
            if let Some(id) = id.filter(|_| is_call && send.retry.is_none()) {
                assert!(id >= self.newest || self.left.contains(&id), "{id} was overtaken");
                self.newest = self.newest.max(id);
                self.left.insert(id);
            }
        }
        self.scene.out.insert(send.ticket, send);
    }

    /// The link gives up whatever it has: then everything has ended.
    fn end(&mut self) {
        for _ in 0..200 {
            let out: Vec<Ticket> = self.scene.out.keys().copied().collect();
            for ticket in out {
                self.scene.out.remove(&ticket);
                let error = Error::new(Kind::Status, "over").into();
                let event = Event::Failed { ticket, error };
                self.scene.dispatcher.on_event(event, self.scene.now);
                self.check();
            }
            self.check();
            match self.scene.dispatcher.deadline() {
                Some(at) => self.scene.now = at,
                None if self.scene.out.is_empty() => break,
                None => {}
            }
            self.scene.dispatcher.on_time(self.scene.now);
            self.check();
        }
        assert!(self.open.is_empty(), "{:?} never ended", self.open);
        assert!(self.scene.dispatcher.is_idle());
        assert_eq!(self.scene.dispatcher.held_bytes(), 0);
    }
}

/// How many schedules a plain run goes through; `MCP_SPAN_SCHEDULES` asks for more.
const SCHEDULES: u64 = 20_000;

#[test]
fn every_request_ends_once_and_in_bounds_whatever_happens() {
    let wanted = std::env::var("MCP_SPAN_SCHEDULES").ok().and_then(|text| text.parse().ok());
    let mut reached = BTreeSet::new();
    for seed in 1..=wanted.unwrap_or(SCHEDULES) {
        let mut schedule = Schedule::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let steps = 50 + usize::try_from(schedule.chance.below(30)).unwrap();
        let run = std::panic::AssertUnwindSafe(|| schedule.run(steps));
        if let Err(panic) = std::panic::catch_unwind(run) {
            let text = panic.downcast_ref::<String>().cloned();
            panic!("seed {seed}: {}", text.unwrap_or_default());
        }
        reached.extend(schedule.reached);
    }
    assert_eq!(
        reached.into_iter().collect::<Vec<_>>(),
        ["accepted", "answered", "failed", "forgotten", "lost"]
    );
}
