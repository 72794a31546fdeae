//! Decides which message may leave now: the handshake in line, then as many at once as allowed.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::message::{Head, Id, Message, Method, edit, method};
use crate::revision::Envelope;
use crate::transport::Share;

/// A message on its way out, and the envelope that makes it a modern one.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    pub(super) message: Message,
    pub(super) envelope: Option<Envelope>,
    /// Its place in the order in which messages came.
    pub(super) order: u64,
    /// How many times its session was lost under it.
    pub(super) losses: u8,
    /// It is counted for as long as it is here, if it gets no answer.
    pub(super) _share: Option<Arc<Share>>,
}

impl Outgoing {
    pub(super) fn is_request(&self, wanted: &Method) -> bool {
        matches!(self.message.head(), Head::Request { method, .. } if method == wanted)
    }

    pub(super) fn is_notification(&self, wanted: &Method) -> bool {
        matches!(self.message.head(), Head::Notification { method } if method == wanted)
    }

    /// Whether its answer is a stream that stays open for good.
    pub(super) fn lasts(&self) -> bool {
        self.is_request(&Method::Listen)
    }

    /// The same under another id.
    pub(super) fn renamed(&self, id: &Id) -> Self {
        Self { message: edit::with_id(&self.message, id), ..self.clone() }
    }

    /// A handshake's message goes past the cap: what fills the line may be waiting for it.
    fn is_handshake(&self) -> bool {
        self.envelope.is_none()
            && (self.is_request(&Method::Initialize) || self.is_notification(&Method::Initialized))
    }
}

/// The queue before the server's door. Pure: the driver asks, the gate answers.
#[derive(Debug)]
pub(super) struct Gate {
    handshake: Handshake,
    /// The handshake is that of a session that replaces a lost one: all that waits, waits for it.
    is_reopening: bool,
    /// An `initialize` has passed: whoever sent it can send another.
    has_opened: bool,
    /// The session was lost while an `initialize` was under way that would replace it.
    is_untold: bool,
    waiting: VecDeque<Outgoing>,
    running: usize,
    parallel: usize,
    serial: bool,
}

/// Where a legacy session stands (C1). Modern requests are not concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handshake {
    /// None is going on: before the first `initialize`, or after the handshake.
    Open,
    /// `initialize` is out, the one with this order: nothing follows it.
    Asked(u64),
    /// It was answered: what comes goes in line, `notifications/initialized` first if it does.
    Answered,
    /// `notifications/initialized` is out: nothing follows until it is accepted.
    Confirming,
    /// The session is lost: nothing leaves before another `initialize` has come.
    Lost,
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
            is_reopening: false,
            has_opened: false,
            is_untold: false,
            waiting: VecDeque::new(),
            running: 0,
            parallel,
            serial,
        }
    }

    /// Answers and cancellations never wait behind calls; pings only where order is asked for.
    pub(super) fn lane(&self, message: &Message) -> Lane {
        let Some(method) = message.method() else { return Lane::Express };
        match method.properties().lane {
            method::Lane::Always => Lane::Express,
            method::Lane::Urgent if !self.serial => Lane::Express,
            method::Lane::Handshake | method::Lane::Ordinary | method::Lane::Urgent => Lane::Line,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Puts a message in line.
    pub(super) fn push(&mut self, outgoing: Outgoing) {
        self.waiting.push_back(outgoing);
    }

    /// Puts a message back whose session was lost, to where it was.
    pub(super) fn put_back(&mut self, outgoing: Outgoing) {
        let at = self.waiting.partition_point(|waiting| waiting.order < outgoing.order);
        self.waiting.insert(at, outgoing);
    }

    /// The next message that may leave, if any may.
    pub(super) fn pop(&mut self) -> Option<Outgoing> {
        // So it is as a rule, and it is looked for each message and for each answer.
        if self.waiting.is_empty() {
            return None;
        }
        let at = match (self.handshake, self.is_reopening) {
            (Handshake::Open, _) | (Handshake::Answered, false) => 0,
            (Handshake::Asked(_) | Handshake::Confirming, _) => self.find(|_| false)?,
            (Handshake::Lost, _) => self.find(|o| o.is_request(&Method::Initialize))?,
            // The client may have begun anew in the meantime.
            (Handshake::Answered, true) => self.find(|o| {
                o.is_notification(&Method::Initialized) || o.is_request(&Method::Initialize)
            })?,
        };
        if self.running >= self.parallel && !self.waiting.get(at)?.is_handshake() {
            return None;
        }
        let outgoing = self.take(at)?;
        self.running += 1;
        if outgoing.envelope.is_none() {
            self.leaves(&outgoing);
        }
        Some(outgoing)
    }

    /// The first that is wanted, or that no handshake concerns.
    fn find(&self, wanted: impl Fn(&Outgoing) -> bool) -> Option<usize> {
        self.waiting.iter().position(|o| o.envelope.is_some() || wanted(o))
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

    /// Nobody waits for answers any more.
    pub(super) fn drop_requests(&mut self) {
        self.waiting.retain(|o| !matches!(o.message.head(), Head::Request { .. }));
    }

    /// A message that went in line has its answer, or never will.
    pub(super) fn settled(&mut self) {
        self.running = self.running.saturating_sub(1);
    }

    /// The `initialize` with this order was answered with a result, or failed: then whoever waits
    /// tries without.
    ///
    /// Gives back those who waited for a lost session to be replaced, in vain.
    pub(super) fn answered(&mut self, order: u64, with_result: bool) -> Vec<Outgoing> {
        if self.handshake != Handshake::Asked(order) {
            return Vec::new();
        }
        if with_result {
            self.handshake = Handshake::Answered;
            self.is_untold = false;
            return Vec::new();
        }
        if !self.is_reopening {
            self.handshake = Handshake::Open;
            return Vec::new();
        }
        // Still lost: what comes late from the old session must not go out without any.
        self.handshake = Handshake::Lost;
        self.abandon()
    }

    /// Whoever else runs is nobody's concern here any more: only one still holds its place.
    pub(super) fn keep_one_place(&mut self) {
        self.running = 1;
    }

    /// Whether all wait for somebody to open a session.
    pub(super) fn is_lost(&self) -> bool {
        self.handshake == Handshake::Lost
    }

    /// Gives back all that wait for a session.
    pub(super) fn abandon(&mut self) -> Vec<Outgoing> {
        let mut in_vain = Vec::new();
        while let Some(at) = self.waiting.iter().position(|o| o.envelope.is_none()) {
            in_vain.extend(self.take(at));
        }
        in_vain
    }

    /// `notifications/initialized` was accepted, or will not be.
    pub(super) fn confirmed(&mut self) {
        if self.handshake == Handshake::Confirming {
            self.handshake = Handshake::Open;
            self.is_reopening = false;
        }
    }

    /// Whether a lost session can be replaced: whoever has opened one can open another.
    pub(super) fn can_reopen(&self) -> bool {
        self.has_opened
    }

    /// The session is lost. `true` if somebody must open another.
    pub(super) fn lost(&mut self) -> bool {
        if !self.has_opened {
            return false;
        }
        // An `initialize` that is under way replaces it; all wait until that one is confirmed.
        if matches!(self.handshake, Handshake::Asked(_)) {
            self.is_untold |= !self.is_reopening;
            self.is_reopening = true;
            return false;
        }
        self.handshake = Handshake::Lost;
        self.is_reopening = true;
        true
    }

    /// Whether a session was lost and the `initialize` that should have replaced it has failed:
    /// then somebody must open another after all.
    pub(super) fn take_untold(&mut self) -> bool {
        self.handshake == Handshake::Lost && std::mem::take(&mut self.is_untold)
    }

    /// Whether a lost session is being replaced.
    pub(super) fn is_held(&self) -> bool {
        self.is_reopening
    }

    /// Gives back everything.
    pub(super) fn take_all(&mut self) -> Vec<Outgoing> {
        self.waiting.drain(..).collect()
    }

    fn leaves(&mut self, outgoing: &Outgoing) {
        if outgoing.is_request(&Method::Initialize) {
            // One that follows upon another is the client's own: it confirms in its own time.
            self.is_reopening &= self.handshake == Handshake::Lost;
            self.handshake = Handshake::Asked(outgoing.order);
            self.has_opened = true;
        } else if self.handshake == Handshake::Answered
            && outgoing.is_notification(&Method::Initialized)
        {
            self.handshake = Handshake::Confirming;
        }
    }

    fn take(&mut self, at: usize) -> Option<Outgoing> {
        self.waiting.remove(at)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    fn message(method: &str, id: Option<u32>) -> Outgoing {
        let member = id.map_or(String::new(), |id| format!(r#""id":{id},"#));
        let text = format!(r#"{{"jsonrpc":"2.0",{member}"method":"{method}"}}"#);
        let message = Message::parse(Bytes::from(text)).expect("a message");
        let order = id.map_or(u64::MAX, u64::from);
        Outgoing { message, envelope: None, order, losses: 0, _share: None }
    }

    fn modern(method: &str, id: u32) -> Outgoing {
        let envelope = Envelope { version: "2026-07-28".into(), name: None };
        Outgoing { envelope: Some(envelope), ..message(method, Some(id)) }
    }

    fn popped(gate: &mut Gate) -> Vec<String> {
        std::iter::from_fn(|| gate.pop())
            .map(|outgoing| outgoing.message.method().unwrap().to_string())
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
        gate.answered(1, true);
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
        gate.answered(1, true);
        assert_eq!(popped(&mut gate), ["tools/list"]);
    }

    #[test]
    fn after_a_failed_handshake_the_rest_goes_its_way() {
        let mut gate = Gate::new(128, false);
        gate.push(message("initialize", Some(1)));
        gate.push(message("tools/list", Some(2)));
        assert_eq!(popped(&mut gate), ["initialize"]);
        gate.answered(1, false);
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
    fn all_wait_for_the_session_that_replaces_a_lost_one() {
        let mut gate = Gate::new(2, false);
        gate.push(message("initialize", Some(1)));
        popped(&mut gate);
        gate.answered(1, true);
        gate.settled();
        for id in 2..6 {
            gate.push(message(&format!("m{id}"), Some(id)));
        }
        let out: Vec<Outgoing> = std::iter::from_fn(|| gate.pop()).collect();
        assert_eq!(out.len(), 2);
        assert!(gate.lost());
        // Both come back, in whatever order, and are in front of those who never left.
        for outgoing in out.into_iter().rev() {
            gate.settled();
            gate.put_back(outgoing);
        }
        assert!(popped(&mut gate).is_empty());
        gate.push(message("initialize", Some(9)));
        assert_eq!(popped(&mut gate), ["initialize"]);
        gate.answered(9, true);
        gate.settled();
        assert!(popped(&mut gate).is_empty(), "not before it is confirmed");
        gate.push(message("notifications/initialized", None));
        assert_eq!(popped(&mut gate), ["notifications/initialized"]);
        gate.settled();
        gate.confirmed();
        assert_eq!(popped(&mut gate), ["m2", "m3"]);
    }

    #[test]
    fn who_waits_for_a_session_in_vain_is_given_back() {
        let mut gate = Gate::new(2, false);
        assert!(!gate.lost(), "nobody has opened one");
        gate.push(message("initialize", Some(1)));
        popped(&mut gate);
        gate.answered(1, true);
        gate.lost();
        gate.push(message("a", Some(2)));
        gate.push(message("initialize", Some(3)));
        assert_eq!(popped(&mut gate), ["initialize"]);
        assert!(gate.answered(1, false).is_empty(), "that was another one");
        let in_vain = gate.answered(3, false);
        assert_eq!(in_vain.len(), 1);
        assert!(gate.is_empty());
    }

    #[test]
    fn a_loss_during_the_clients_own_initialize_holds_all_until_that_is_confirmed() {
        let mut gate = Gate::new(2, false);
        gate.push(message("initialize", Some(1)));
        popped(&mut gate);
        gate.answered(1, true);
        gate.settled();
        gate.push(message("a", Some(2)));
        let out = gate.pop().unwrap();
        gate.push(message("initialize", Some(3)));
        assert_eq!(popped(&mut gate), ["initialize"]);
        assert!(!gate.lost(), "it is being replaced");
        gate.settled();
        gate.put_back(out);
        gate.answered(3, true);
        gate.settled();
        assert!(popped(&mut gate).is_empty());
        gate.push(message("notifications/initialized", None));
        assert_eq!(popped(&mut gate), ["notifications/initialized"]);
        gate.settled();
        gate.confirmed();
        assert_eq!(popped(&mut gate), ["a"]);
        assert!(!gate.take_untold());
    }

    #[test]
    fn a_loss_that_the_clients_initialize_did_not_mend_is_told() {
        let mut gate = Gate::new(2, false);
        gate.push(message("initialize", Some(1)));
        popped(&mut gate);
        gate.answered(1, true);
        gate.push(message("initialize", Some(2)));
        popped(&mut gate);
        gate.lost();
        gate.answered(2, false);
        assert!(gate.take_untold());
        assert!(!gate.take_untold(), "once");
        assert!(gate.is_lost());
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
