//! The bridge without its wires: what each message leads to, and what time brings. Pure.

use std::collections::{BTreeMap, VecDeque};

use tokio::time::Instant;
use tracing::debug;

use super::Policy;
use super::questions::Questions;
use super::record::Record;
use super::recover::Recovery;
use super::stand_in::Login;
use super::waiting::{Queue, Waiting};
use crate::error::{Error, Kind};
use crate::limits;
use crate::message::{Head, Id, InFlight, Message, Method, edit, peek, reply};
use crate::net::backoff::entropy;
use crate::traffic::Absence;
use crate::transport::{Incoming, weight};

/// What is to be written, to either side.
#[derive(Debug, Default)]
pub(super) struct Out {
    pub(super) to_client: VecDeque<Message>,
    pub(super) to_server: VecDeque<Message>,
    /// Bytes of those among them that get no answer.
    pub(super) told: usize,
    /// The same with the dispatcher.
    pub(super) held: usize,
    /// Bytes that wait until it is known how the server wants to hear them.
    pub(super) aside: usize,
}

impl Out {
    pub(super) fn server(&mut self, message: Message) {
        self.told += weight(&message);
        self.to_server.push_back(message);
    }

    /// Takes out the next for the server.
    pub(super) fn next_for_server(&mut self) -> Option<Message> {
        let message = self.to_server.pop_front()?;
        self.told -= weight(&message);
        Some(message)
    }

    /// Bytes on their way to the server that nobody waits for an answer to.
    fn told(&self) -> usize {
        self.told + self.held + self.aside
    }

    pub(super) fn client(&mut self, message: Message) {
        self.to_client.push_back(message);
    }
}

/// Everything that the bridge knows.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) policy: Policy,
    pub(super) from_client: InFlight<Asked>,
    /// Requests of the server's.
    pub(super) from_server: Questions,
    /// Requests of the bridge's own; their answers never leave it.
    pub(super) own: BTreeMap<Id, Own>,
    pub(super) own_prefix: u64,
    pub(super) own_count: u64,
    pub(super) record: Record,
    pub(super) recovery: Recovery,
    pub(super) waiting: Queue,
    /// Bytes of the client's requests that have no answer yet.
    pub(super) unanswered: usize,
    /// A session has begun: there is something to keep alive.
    pub(super) in_session: bool,
    /// Why nothing gets through, for those whose patience ends.
    pub(super) trouble: Option<Error>,
    /// When it is next looked for requests that are overdue.
    pub(super) next_look: Instant,
    /// Why the server's link ends, if it has said so.
    pub(super) ended: Option<Error>,
    /// Notifications and answers that went out of late.
    pub(super) told: VecDeque<Told>,
    /// Their bytes.
    told_bytes: usize,
    /// How many messages the client has sent.
    pub(super) orders: u64,
    /// The message by which it is tried whether the server is back.
    pub(super) trial: Option<Message>,
    /// The client has left; what is in flight then has until this.
    pub(super) leaving: Option<Instant>,
    /// When something was last sent, for the keep-alive.
    pub(super) active: Instant,
    /// The client's `initialize`, while it has no answer.
    pub(super) opening: Option<Message>,
    /// A login that somebody has to finish.
    pub(super) login: Option<Login>,
    /// The client was answered in the server's place, and the server has not answered yet.
    pub(super) stands_in: bool,
    /// A person was asked to log in since a session was last asked for.
    pub(super) was_shown: bool,
    /// What the log says of a server that cannot be reached.
    pub(super) absence: Absence,
    /// Some request has been sent again. As long as none has, nobody looks which.
    pub(super) has_repeated: bool,
}

/// A request of the client's.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) method: Method,
    pub(super) order: u64,
    bytes: usize,
    pub(super) since: Instant,
    /// When there was last a sign of life, where the bridge watches.
    pub(super) heard: Instant,
    /// The token of its progress, where the bridge watches.
    pub(super) progress: Option<String>,
    /// The end of its patience with a server that is away.
    pub(super) until: Option<Instant>,
    pub(super) was_repeated: bool,
    /// How many times the server has asked for a pause.
    pub(super) pauses: u32,
    /// What is remembered of it if it succeeds.
    remembered: Option<Message>,
}

impl Asked {
    /// The request `message`, the `order`-th that the client has sent.
    pub(super) fn new(message: &Message, method: &Method, order: u64, now: Instant) -> Self {
        Self {
            method: method.clone(),
            order,
            bytes: message.bytes().len(),
            since: now,
            heard: now,
            progress: None,
            until: None,
            was_repeated: false,
            pauses: 0,
            remembered: method.properties().is_restored.then(|| message.clone()),
        }
    }
}

/// A message that gets no answer.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) message: Message,
    pub(super) order: u64,
    /// The end of its patience, once it has come back.
    pub(super) until: Option<Instant>,
    /// How many times the server has asked for a pause.
    pub(super) pauses: u32,
}

/// What a request of the bridge's own is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Own {
    Session,
    Restoring,
    KeepAlive,
    /// The client's `initialize`, which was answered in the server's place.
    StoodIn,
}

impl Own {
    /// For logs.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Session => "to open a session again",
            Self::Restoring => "to restore what the old session knew",
            Self::KeepAlive => "to keep the session alive",
            Self::StoodIn => "to open the session after a login",
        }
    }
}

impl Core {
    pub(super) fn new(policy: Policy, now: Instant) -> Self {
        Self {
            policy,
            from_client: InFlight::default(),
            from_server: Questions::default(),
            own: BTreeMap::new(),
            own_prefix: entropy(),
            own_count: 0,
            record: Record::default(),
            recovery: Recovery::default(),
            waiting: Queue::default(),
            unanswered: 0,
            in_session: false,
            trouble: None,
            ended: None,
            next_look: now,
            told: VecDeque::new(),
            told_bytes: 0,
            orders: 0,
            trial: None,
            leaving: None,
            active: now,
            opening: None,
            login: None,
            stands_in: false,
            was_shown: false,
            absence: Absence::default(),
            has_repeated: false,
        }
    }

    /// Whether more of the client's messages are taken in. Its answers must come through even if
    /// they stand behind requests: the server may wait for them.
    pub(super) fn has_room(&self, out: &Out) -> bool {
        self.is_within_bounds(out) || !self.from_server.is_empty()
    }

    /// Whether there is more than can be held, and stdin is read nevertheless. What was read while
    /// there was room is taken.
    pub(super) fn is_overloaded(&self, out: &Out) -> bool {
        !self.is_within_bounds(out) && !self.from_server.is_empty()
    }

    /// Whether the server has asked more than a client will ever answer.
    fn is_asked_too_much(&self) -> bool {
        self.from_server.bytes() >= limits::SERVER_REQUESTS_BYTES
    }

    pub(super) fn is_within_bounds(&self, out: &Out) -> bool {
        self.unanswered + self.waiting.bytes() + out.told() < limits::UNANSWERED_BYTES
    }

    pub(super) fn server_says(&mut self, incoming: Incoming, now: Instant, out: &mut Out) {
        match incoming {
            Incoming::Message(message) => {
                self.server_is_there(now, out);
                self.absence.answered();
                self.server_message(message, now, out);
            }
            Incoming::Failed { message, error } => self.failed(message, *error, now, out),
            Incoming::SessionLost => self.lose_session(now, out),
            Incoming::Reached => self.server_is_there(now, out),
            Incoming::Ended(error) => self.ended = Some(*error),
            Incoming::LoginPending(stage) => self.login_pending(stage, now),
            Incoming::Refused { id, error } => self.refused(id, &error, now, out),
        }
    }

    fn server_message(&mut self, message: Message, now: Instant, out: &mut Out) {
        match message.head() {
            Head::Request { id, .. } if self.is_asked_too_much() => {
                // One who does not take the refusals either gets none.
                if self.is_within_bounds(out) {
                    out.server(reply::error(Some(id), &too_many()));
                }
                return;
            }
            Head::Request { id, .. } => {
                if self.is_left() {
                    return self.answer_server(reply::error(Some(id), &gone()), now, out);
                }
                if !self.from_server.ask(id) {
                    let own = self.unguessable_id();
                    self.from_server.rename(own.clone(), id.clone());
                    return out.client(edit::with_id(&message, &own));
                }
            }
            Head::Notification { .. } => {
                if let Some(id) = peek::cancelled_request(&message)
                    && let Some(own) = self.from_server.taken_back(&id)
                {
                    return out.client(reply::cancelled(&own, "the server takes it back"));
                }
                self.note_progress(&message, now);
                self.record.server_notifies(&message);
            }
            Head::Response { id: None, .. } => {
                return debug!(what = ?message, "an answer to nobody was dropped");
            }
            Head::Response { id: Some(id), .. } => {
                if let Some(own) = self.own.remove(id) {
                    return self.own_answered(own, &message, now, out);
                }
                let Some((id, asked)) = self.close(id, now) else {
                    return debug!(what = ?message, "an answer that nobody waits for was dropped");
                };
                if let (Some(request), Head::Response { is_error: false, .. }) =
                    (&asked.remembered, message.head())
                {
                    self.record.client_says(request);
                }
                self.record.server_answers(&asked.method, &message);
                if asked.method == Method::Initialize {
                    self.in_session = true;
                }
                return out.client(addressed(message, &id));
            }
        }
        out.client(message);
    }

    /// A request of the client's has ended.
    pub(super) fn close(&mut self, id: &Id, now: Instant) -> Option<(Id, Asked)> {
        let (id, asked) = self.from_client.close(id)?;
        self.closed(&id, &asked, now);
        Some((id, asked))
    }

    pub(super) fn closed(&mut self, id: &Id, asked: &Asked, now: Instant) {
        self.unanswered -= asked.bytes;
        if asked.method == Method::Initialize {
            self.opening = None;
        }
        self.trial_ended(id, now);
    }

    /// If `id` was the one that was tried, another may be.
    fn trial_ended(&mut self, id: &Id, now: Instant) {
        if self.trial.as_ref().and_then(Message::id) == Some(id) {
            self.trial = None;
            self.recovery.trial_over(now);
        }
    }

    /// On its way, or in line for it.
    pub(super) fn send_or_hold(&mut self, message: Message, now: Instant, out: &mut Out) {
        if self.recovery.is_open() {
            // The place of a request is known from where it stands.
            if !matches!(message.head(), Head::Request { .. }) {
                self.note_order(&message);
            }
            self.active = now;
            return out.server(message);
        }
        let order = self.note_order(&message);
        let patience = match message.method() {
            _ if self.recovery.is_reopening() => self.policy.reopening(),
            Some(method) => self.policy.patience(method, Kind::Connect),
            None => self.policy.away_wait,
        };
        self.waiting.push(Waiting { message, not_before: None, until: now + patience, order });
        self.recovery.somebody_waits(now);
        self.try_again(now, out);
    }

    /// Counts the client's messages; of those without an answer it remembers the place.
    fn note_order(&mut self, message: &Message) -> u64 {
        if let Head::Request { id, .. } = message.head() {
            if let Some(asked) = self.from_client.get_mut(id) {
                return asked.order;
            }
            return 0;
        }
        self.orders += 1;
        self.told.push_back(Told {
            message: message.clone(),
            order: self.orders,
            until: None,
            pauses: 0,
        });
        self.told_bytes += message.bytes().len();
        while self.told.len() > limits::TOLD
            || (self.told_bytes > limits::CHANNEL_BYTES && self.told.len() > 1)
        {
            let oldest = self.told.pop_front();
            self.told_bytes -= oldest.map_or(0, |told| told.message.bytes().len());
        }
        self.orders
    }

    pub(super) fn server_is_there(&mut self, now: Instant, out: &mut Out) {
        if self.recovery.server_is_there() {
            self.absence.reachable();
            self.release(now, out);
        }
    }

    /// All that waited goes out, in order.
    pub(super) fn release(&mut self, now: Instant, out: &mut Out) {
        self.trouble = None;
        while let Some(waiting) = self.waiting.pop_ready(now) {
            out.server(waiting.message);
        }
        self.active = now;
    }
}

pub(super) fn gone() -> Error {
    Error::new(Kind::Closed, "The client has closed its input and answers no more")
}

fn too_many() -> Error {
    let message = "Too many requests of the server's wait for answers of the client's";
    Error::new(Kind::Overloaded, message).not_delivered()
}

/// The same answer, under the id that its request really had.
pub(super) fn addressed(answer: Message, id: &Id) -> Message {
    match answer.id() {
        Some(own) if own == id || own.canonical() == id.canonical() => answer,
        _ => edit::with_id(&answer, id),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::error::Delivery;

    fn message(text: &str) -> Message {
        Message::parse(Bytes::copy_from_slice(text.as_bytes())).expect("a message")
    }

    fn call(id: u32) -> Message {
        message(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{}}}}"#))
    }

    fn answer(request: &Message) -> Incoming {
        let id = request.id().expect("a request");
        let result = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}"#;
        Incoming::Message(message(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)))
    }

    fn refused() -> Error {
        Error::new(Kind::Connect, "refused").not_delivered()
    }

    /// A core with a session, whose handshake has left both queues.
    fn opened(now: Instant) -> (Core, Out) {
        let (mut core, mut out) = (Core::new(Policy::default(), now), Out::default());
        let initialize = message(r#"{"jsonrpc":"2.0","id":"i","method":"initialize","params":{}}"#);
        core.client_says(Incoming::Message(initialize.clone()), now, &mut out);
        core.server_says(answer(&initialize), now, &mut out);
        (core, Out { ..Default::default() })
    }

    fn ids(queue: &VecDeque<Message>) -> Vec<String> {
        queue.iter().map(|m| m.id().map_or("-".into(), ToString::to_string)).collect()
    }

    #[test]
    fn what_waits_for_a_server_goes_out_in_order_when_it_is_back() {
        let now = Instant::now();
        let (mut core, mut out) = opened(now);
        core.client_says(Incoming::Message(call(1)), now, &mut out);
        out.to_server.clear();
        core.server_says(
            Incoming::Failed { message: call(1), error: refused().into() },
            now,
            &mut out,
        );
        for id in 2..5 {
            core.client_says(Incoming::Message(call(id)), now, &mut out);
        }
        let later = now + Duration::from_millis(150);
        core.tick(later, &mut out);
        assert_eq!(ids(&out.to_server), ["1"], "one is tried");
        core.server_says(answer(&call(1)), later, &mut out);
        assert_eq!(ids(&out.to_server), ["1", "2", "3", "4"]);
        assert_eq!(ids(&out.to_client), ["1"]);
    }

    #[test]
    fn a_server_that_asks_without_end_is_refused_until_some_is_answered() {
        let now = Instant::now();
        let (mut core, mut out) = opened(now);
        let ask = |id: usize| {
            Incoming::Message(message(&format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"roots/list"}}"#
            )))
        };
        let most = limits::SERVER_REQUESTS_BYTES / 256;
        for id in 0..2 * most {
            core.server_says(ask(id), now, &mut out);
        }
        let passed = out.to_client.len();
        assert!((most / 2..most).contains(&passed), "{passed}");
        assert_eq!(out.to_server.len(), 2 * most - passed, "each of the others has an answer");
        let refusal = String::from_utf8_lossy(out.to_server[0].bytes()).into_owned();
        assert!(refusal.contains("overloaded"), "{refusal}");
        let answer = message(r#"{"jsonrpc":"2.0","id":0,"result":{}}"#);
        core.client_says(Incoming::Message(answer), now, &mut out);
        core.server_says(ask(2 * most), now, &mut out);
        assert_eq!(out.to_client.len(), passed + 1, "there is room for one more");
    }

    #[test]
    fn a_probe_never_waits() {
        // C22
        let now = Instant::now();
        let (mut core, mut out) = opened(now);
        core.server_says(Incoming::SessionLost, now, &mut out);
        let probe = message(r#"{"jsonrpc":"2.0","id":7,"method":"server/discover"}"#);
        core.client_says(Incoming::Message(probe.clone()), now, &mut out);
        let text = String::from_utf8_lossy(out.to_client[0].bytes()).into_owned();
        assert!(text.contains("-32601") && text.contains("\"id\":7"), "{text}");
        let (mut core, mut out) = opened(now);
        core.client_says(Incoming::Message(call(1)), now, &mut out);
        core.server_says(
            Incoming::Failed { message: call(1), error: refused().into() },
            now,
            &mut out,
        );
        core.client_says(Incoming::Message(probe), now, &mut out);
        assert_eq!(ids(&out.to_server), ["1", "7"], "tried at once");
    }

    #[test]
    fn patience_ends_with_an_error_that_says_why() {
        let now = Instant::now();
        let (mut core, mut out) = opened(now);
        core.client_says(Incoming::Message(call(1)), now, &mut out);
        core.server_says(
            Incoming::Failed { message: call(1), error: refused().into() },
            now,
            &mut out,
        );
        core.tick(now + Duration::from_secs(6), &mut out);
        let text = String::from_utf8_lossy(out.to_client[0].bytes()).into_owned();
        assert!(text.contains("refused") && text.contains("not-delivered"), "{text}");
    }

    #[test]
    fn a_lost_session_is_asked_for_in_the_clients_words_and_lists_are_said_to_have_changed() {
        let now = Instant::now();
        let (mut core, mut out) = opened(now);
        core.server_says(Incoming::SessionLost, now, &mut out);
        core.server_says(Incoming::SessionLost, now, &mut out);
        core.client_says(Incoming::Message(call(1)), now, &mut out);
        assert_eq!(out.to_server.len(), 1, "one initialize, and nothing behind it");
        let initialize = out.to_server.pop_front().expect("an initialize");
        core.server_says(answer(&initialize), now, &mut out);
        let methods: Vec<&str> =
            out.to_server.iter().filter_map(Message::method).map(Method::name).collect();
        assert_eq!(methods, ["notifications/initialized", "tools/call"]);
        assert_eq!(out.to_client[0].method(), Some(&Method::ToolsChanged));
        assert_eq!(out.to_client.len(), 1);
    }

    /// What may happen to a message that is under way, and how far time moves.
    fn error(kind: usize) -> Error {
        let kinds = [
            Kind::Connect,
            Kind::Closed,
            Kind::NoResponse,
            Kind::Timeout,
            Kind::Status,
            Kind::SessionLost,
            Kind::Tls,
        ];
        let kind = kinds[kind % kinds.len()];
        let error = Error::new(kind, "x");
        match kind {
            Kind::Connect | Kind::Tls | Kind::SessionLost => error.not_delivered(),
            Kind::Status => {
                Error { status: Some(503), retry_after: Some(Duration::from_secs(1)), ..error }
            }
            _ => error,
        }
    }

    proptest! {
        #[test]
        fn every_request_ends_exactly_once_whatever_happens(
            steps in proptest::collection::vec((0u8..6, any::<prop::sample::Index>(), 0usize..9), 1..120),
        ) {
            let mut now = Instant::now();
            let (mut core, mut out) = opened(now);
            let (mut link, mut asked) = (Vec::<Message>::new(), 0);
            let mut ended: BTreeMap<String, usize> = BTreeMap::new();
            let settle = |core: &mut Core, out: &mut Out, link: &mut Vec<Message>, now, at: usize, kind: Option<usize>| {
                let message = link.remove(at);
                let incoming = match (kind, message.head()) {
                    (None, Head::Request { .. }) => answer(&message),
                    (None, _) => return,
                    (Some(kind), _) => Incoming::Failed { message, error: error(kind).into() },
                };
                core.server_says(incoming, now, out);
            };
            for (step, index, kind) in steps {
                match step {
                    0 | 1 => {
                        core.client_says(Incoming::Message(call(asked)), now, &mut out);
                        asked += 1;
                    }
                    2 if !link.is_empty() => {
                        let at = index.index(link.len());
                        settle(&mut core, &mut out, &mut link, now, at, None);
                    }
                    3 if !link.is_empty() => {
                        let at = index.index(link.len());
                        settle(&mut core, &mut out, &mut link, now, at, Some(kind));
                    }
                    4 => core.server_says(Incoming::SessionLost, now, &mut out),
                    _ => now += Duration::from_millis(u64::try_from(kind).unwrap() * 137),
                }
                core.tick(now, &mut out);
                prop_assert!(core.wake_at().is_none_or(|at| at > now), "it would spin");
                link.extend(out.to_server.drain(..));
                for message in out.to_client.drain(..) {
                    if let Some(id) = message.id() {
                        *ended.entry(id.to_string()).or_default() += 1;
                    }
                }
            }
            // Time passes, and the link gives up what it has.
            for _ in 0..400 {
                while !link.is_empty() {
                    settle(&mut core, &mut out, &mut link, now, 0, Some(3));
                }
                now += Duration::from_secs(1);
                core.tick(now, &mut out);
                link.extend(out.to_server.drain(..));
                for message in out.to_client.drain(..) {
                    if let Some(id) = message.id() {
                        *ended.entry(id.to_string()).or_default() += 1;
                    }
                }
            }
            prop_assert_eq!(ended.len(), asked as usize, "{:?}", ended);
            prop_assert!(ended.values().all(|times| *times == 1), "{:?}", ended);
            prop_assert_eq!(core.unanswered, 0);
        }
    }

    #[test]
    fn a_call_that_was_repeated_may_have_been_carried_out() {
        let now = Instant::now();
        let (mut core, mut out) = opened(now);
        let list = message(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
        core.client_says(Incoming::Message(list.clone()), now, &mut out);
        let cut = Error::new(Kind::Closed, "cut");
        assert_eq!(cut.delivery, Delivery::Unknown);
        core.server_says(
            Incoming::Failed { message: list.clone(), error: cut.into() },
            now,
            &mut out,
        );
        assert_eq!(out.to_server.len(), 2, "it is safe, and sent again");
        core.server_says(
            Incoming::Failed { message: list, error: refused().into() },
            now,
            &mut out,
        );
        core.tick(now + Duration::from_secs(9), &mut out);
        let text = String::from_utf8_lossy(out.to_client[0].bytes()).into_owned();
        assert!(text.contains("\"delivery\":\"unknown\""), "{text}");
    }
}
