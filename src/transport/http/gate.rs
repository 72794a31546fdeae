//! Decides which message may leave now: the handshake in line, then as many at once as allowed.

use std::collections::VecDeque;

use crate::limits;
use crate::message::{Head, Id, Message};
use crate::revision::Envelope;

/// A message on its way out, and the envelope that makes it a modern one.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    pub(super) message: Message,
    pub(super) envelope: Option<Envelope>,
}

/// The queue before the server's door. Pure: the driver asks, the gate answers.
#[derive(Debug)]
pub(super) struct Gate {
    handshake: Handshake,
    waiting: VecDeque<Outgoing>,
    waiting_bytes: usize,
    running: usize,
    parallel: usize,
    serial: bool,
}

/// Where a legacy session stands (C1). Modern requests are not concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handshake {
    /// None is going on: before the first `initialize`, or after the handshake.
    Open,
    /// `initialize` is out: nothing follows it.
    Asked,
    /// It was answered: what comes goes in line, `notifications/initialized` first if it does.
    Answered,
    /// `notifications/initialized` is out: nothing follows until it is accepted.
    Confirming,
}

/// How a message leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// At once, whatever waits: the server may be unable to go on without it.
    Express,
    /// In its turn; ends with [`Gate::settled`].
    Line,
}

impl Gate {
    pub(super) fn new(parallel: usize, serial: bool) -> Self {
        let parallel = if serial { 1 } else { parallel.max(1) };
        Self {
            handshake: Handshake::Open,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            running: 0,
            parallel,
            serial,
        }
    }

    /// Answers and cancellations never wait behind calls; pings only where order is asked for.
    pub(super) fn lane(&self, message: &Message) -> Lane {
        match message.head() {
            Head::Response { .. } => Lane::Express,
            Head::Notification { method } if &**method == "notifications/cancelled" => {
                Lane::Express
            }
            Head::Request { method, .. } if &**method == "ping" && !self.serial => Lane::Express,
            // A subscription stays for good: it would hold its place in line for ever.
            Head::Request { method, .. } if &**method == "subscriptions/listen" => Lane::Express,
            _ => Lane::Line,
        }
    }

    /// Whether more may be put in line.
    pub(super) fn has_room(&self) -> bool {
        self.waiting_bytes < limits::WAITING_BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Puts a message in line.
    pub(super) fn push(&mut self, outgoing: Outgoing) {
        self.waiting_bytes += outgoing.message.bytes().len();
        self.waiting.push_back(outgoing);
    }

    /// The next message that may leave, if any may.
    pub(super) fn pop(&mut self) -> Option<Outgoing> {
        if self.running >= self.parallel {
            return None;
        }
        let held = matches!(self.handshake, Handshake::Asked | Handshake::Confirming);
        let at = if held {
            self.waiting.iter().position(|outgoing| outgoing.envelope.is_some())?
        } else {
            0
        };
        let outgoing = self.take(at)?;
        self.running += 1;
        if outgoing.envelope.is_none() {
            self.leaves(&outgoing.message);
        }
        Some(outgoing)
    }

    /// Drops the request `id` if it has not left yet.
    pub(super) fn withdraw(&mut self, id: &Id) -> bool {
        let id = id.canonical();
        let at = self.waiting.iter().position(|outgoing| match outgoing.message.head() {
            Head::Request { id: waiting, .. } => waiting.canonical() == id,
            _ => false,
        });
        at.and_then(|at| self.take(at)).is_some()
    }

    /// A message that went in line has its answer, or never will.
    pub(super) fn settled(&mut self) {
        self.running = self.running.saturating_sub(1);
    }

    /// `initialize` was answered with a result, or failed: then whoever waits tries without.
    pub(super) fn answered(&mut self, with_result: bool) {
        if self.handshake == Handshake::Asked {
            self.handshake = if with_result { Handshake::Answered } else { Handshake::Open };
        }
    }

    /// `notifications/initialized` was accepted, or will not be.
    pub(super) fn confirmed(&mut self) {
        if self.handshake == Handshake::Confirming {
            self.handshake = Handshake::Open;
        }
    }

    fn leaves(&mut self, message: &Message) {
        match (message.head(), self.handshake) {
            (Head::Request { method, .. }, _) if &**method == "initialize" => {
                self.handshake = Handshake::Asked;
            }
            (Head::Notification { method }, Handshake::Answered)
                if &**method == "notifications/initialized" =>
            {
                self.handshake = Handshake::Confirming;
            }
            _ => {}
        }
    }

    fn take(&mut self, at: usize) -> Option<Outgoing> {
        let outgoing = self.waiting.remove(at)?;
        self.waiting_bytes -= outgoing.message.bytes().len();
        Some(outgoing)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    fn message(method: &str, id: Option<u32>) -> Outgoing {
        let id = id.map_or(String::new(), |id| format!(r#""id":{id},"#));
        let text = format!(r#"{{"jsonrpc":"2.0",{id}"method":"{method}"}}"#);
        let message = Message::parse(Bytes::from(text)).expect("a message");
        Outgoing { message, envelope: None }
    }

    fn modern(method: &str, id: u32) -> Outgoing {
        let envelope = Envelope { version: "2026-07-28".into(), name: None };
        Outgoing { envelope: Some(envelope), ..message(method, Some(id)) }
    }

    fn popped(gate: &mut Gate) -> Vec<String> {
        std::iter::from_fn(|| gate.pop())
            .map(|outgoing| outgoing.message.method().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn the_handshake_goes_in_line() {
        // S1-02, C1
        let mut gate = Gate::new(128, false);
        gate.push(message("initialize", Some(1)));
        gate.push(message("notifications/initialized", None));
        gate.push(message("tools/list", Some(2)));
        gate.push(message("tools/call", Some(3)));
        assert_eq!(popped(&mut gate), ["initialize"]);
        gate.answered(true);
        gate.settled();
        assert_eq!(popped(&mut gate), ["notifications/initialized"]);
        gate.settled();
        gate.confirmed();
        assert_eq!(popped(&mut gate), ["tools/list", "tools/call"]);
    }

    #[test]
    fn a_client_that_never_confirms_is_not_held_up() {
        let mut gate = Gate::new(128, false);
        gate.push(message("initialize", Some(1)));
        gate.push(message("tools/list", Some(2)));
        assert_eq!(popped(&mut gate), ["initialize"]);
        gate.answered(true);
        assert_eq!(popped(&mut gate), ["tools/list"]);
    }

    #[test]
    fn after_a_failed_handshake_the_rest_goes_its_way() {
        let mut gate = Gate::new(128, false);
        gate.push(message("initialize", Some(1)));
        gate.push(message("tools/list", Some(2)));
        assert_eq!(popped(&mut gate), ["initialize"]);
        gate.answered(false);
        gate.settled();
        assert_eq!(popped(&mut gate), ["tools/list"]);
    }

    #[test]
    fn a_first_message_that_is_not_initialize_is_not_held_up() {
        let mut gate = Gate::new(128, false);
        gate.push(message("tools/list", Some(1)));
        gate.push(message("tools/call", Some(2)));
        assert_eq!(popped(&mut gate), ["tools/list", "tools/call"]);
    }

    #[test]
    fn modern_requests_do_not_wait_for_a_legacy_handshake() {
        let mut gate = Gate::new(128, false);
        gate.push(message("initialize", Some(1)));
        gate.push(message("tools/list", Some(2)));
        gate.push(modern("tools/call", 3));
        assert_eq!(popped(&mut gate), ["initialize", "tools/call"]);
    }

    #[test]
    fn the_cap_queues_and_never_fails() {
        let mut gate = Gate::new(2, false);
        for id in 0..4 {
            gate.push(message("tools/call", Some(id)));
        }
        assert_eq!(popped(&mut gate).len(), 2);
        gate.settled();
        assert_eq!(popped(&mut gate).len(), 1);
    }

    #[test]
    fn serial_is_one_at_a_time_pings_included() {
        // S4-02
        let mut gate = Gate::new(128, true);
        let ping = message("ping", Some(9));
        assert_eq!(gate.lane(&ping.message), Lane::Line);
        gate.push(message("tools/call", Some(1)));
        gate.push(ping);
        assert_eq!(popped(&mut gate), ["tools/call"]);
        gate.settled();
        assert_eq!(popped(&mut gate), ["ping"]);
    }

    #[test]
    fn answers_cancellations_and_pings_never_wait() {
        let gate = Gate::new(1, false);
        let lane = |text: &'static str| {
            gate.lane(&Message::parse(Bytes::from_static(text.as_bytes())).unwrap())
        };
        assert_eq!(lane(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), Lane::Express);
        assert_eq!(lane(r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#), Lane::Express);
        assert_eq!(lane(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#), Lane::Express);
        assert_eq!(lane(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#), Lane::Line);
        assert_eq!(lane(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#), Lane::Line);
    }

    #[test]
    fn what_has_not_left_can_be_withdrawn() {
        // C32
        let mut gate = Gate::new(1, false);
        gate.push(message("tools/call", Some(1)));
        gate.push(message("tools/call", Some(2)));
        gate.pop();
        let id = |n: &str| Id::from_json(n).unwrap();
        assert!(!gate.withdraw(&id("1")), "it has left");
        assert!(gate.withdraw(&id("2")));
        assert!(gate.is_empty());
    }

    #[test]
    fn waiting_is_bounded_by_bytes() {
        let mut gate = Gate::new(1, false);
        let mut big = message("tools/call", Some(1));
        let text = format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, "x".repeat(40 << 20));
        big.message = Message::parse(Bytes::from(text)).unwrap();
        gate.push(big.clone());
        assert!(gate.has_room());
        gate.push(big);
        assert!(!gate.has_room());
        gate.pop();
        assert!(gate.has_room());
    }

    proptest! {
        #[test]
        fn what_leaves_leaves_in_order(events in proptest::collection::vec(0u8..3, 1..60), cap in 1usize..5) {
            let mut gate = Gate::new(cap, false);
            let (mut pushed, mut left, mut running) = (0, Vec::new(), 0usize);
            for event in events {
                match event {
                    0 => { gate.push(message("tools/call", Some(pushed))); pushed += 1; }
                    1 => if let Some(outgoing) = gate.pop() {
                        left.push(outgoing.message.id().unwrap().to_string());
                        running += 1;
                    },
                    _ => if running > 0 { gate.settled(); running -= 1; },
                }
                prop_assert!(running <= cap);
            }
            let expected: Vec<String> = (0..left.len()).map(|n| n.to_string()).collect();
            prop_assert_eq!(left, expected);
        }
    }
}
