//! The messages that are out: which of them wait for an answer, and how long each may. Pure.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;
use std::time::Duration;

use memchr::memmem::Finder;
use tokio::time::Instant;

use crate::error::Error;
use crate::message::fnv_map::{self, FnvMap};
use crate::message::{Head, Id, InFlight, Message, Method, peek};
use crate::net::Progress;
use crate::transport::http::gate::Outgoing;
use crate::transport::http::posters::Sent;

/// One message that is out.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) outgoing: Outgoing,
    /// Whether it holds a place at the gate.
    pub(super) holds_place: bool,
    /// Whether any of it may have left.
    pub(super) progress: Progress,
    pub(super) sent: Sent,
    /// The server has taken it.
    pub(super) is_acknowledged: bool,
    /// Its session was lost since: only what becomes of its POST is of interest.
    pub(super) is_left: bool,
    /// Why its POST failed, although it may have arrived.
    pub(super) failure: Option<Error>,
    /// How long nothing may be heard of it.
    limit: Option<Duration>,
    due: Option<Instant>,
    token: Option<String>,
}

impl Flight {
    pub(super) fn new(
        outgoing: Outgoing,
        holds_place: bool,
        progress: Progress,
        sent: Sent,
        limit: Option<Duration>,
    ) -> Self {
        let token = token(&outgoing.message);
        Self {
            outgoing,
            holds_place,
            progress,
            sent,
            is_acknowledged: false,
            is_left: false,
            failure: None,
            limit,
            due: None,
            token,
        }
    }

    pub(super) fn message(&self) -> &Message {
        &self.outgoing.message
    }

    /// The id, if it waits for an answer.
    pub(super) fn request_id(&self) -> Option<&Id> {
        match self.message().head() {
            Head::Request { id, .. } => Some(id),
            _ => None,
        }
    }

    /// Whether the server may yet say that it did not take it.
    pub(super) fn may_be_refused(&self) -> bool {
        let is_out = self.progress.is_raised() && !self.is_acknowledged && self.failure.is_none();
        is_out && self.request_id().is_some() && !self.outgoing.is_request(&Method::Initialize)
    }

    pub(super) fn limit(&self) -> Option<Duration> {
        self.limit
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Flights {
    flights: FnvMap<u64, Flight>,
    by_id: InFlight<u64>,
    due: BTreeSet<(Instant, u64)>,
    by_token: HashMap<String, u64>,
}

impl Flights {
    pub(super) fn insert(&mut self, ticket: u64, mut flight: Flight, now: Instant) {
        if let Some(id) = flight.request_id() {
            self.by_id.open(id, ticket);
        }
        if let Some(token) = &flight.token {
            self.by_token.insert(token.clone(), ticket);
        }
        flight.due = flight.limit.map(|limit| now + limit);
        self.due.extend(flight.due.map(|due| (due, ticket)));
        self.flights.insert(ticket, flight);
    }

    pub(super) fn get_mut(&mut self, ticket: u64) -> Option<&mut Flight> {
        self.flights.get_mut(&ticket)
    }

    pub(super) fn remove(&mut self, ticket: u64) -> Option<Flight> {
        let flight = fnv_map::take(&mut self.flights, &ticket)?;
        if let Some(due) = flight.due {
            self.due.remove(&(due, ticket));
        }
        if let Some(id) = flight.request_id()
            && self.by_id.get_mut(id).is_some_and(|known| *known == ticket)
        {
            self.by_id.close_exactly(id);
        }
        if let Some(token) = &flight.token
            && self.by_token.get(token) == Some(&ticket)
        {
            self.by_token.remove(token);
        }
        Some(flight)
    }

    /// The request that `id` answers, however the server wrote it.
    pub(super) fn answered(&mut self, id: &Id) -> Option<Flight> {
        let (_, ticket) = self.by_id.close(id)?;
        self.remove(ticket)
    }

    /// The request with exactly this id.
    pub(super) fn withdraw(&mut self, id: &Id) -> Option<Flight> {
        let ticket = self.by_id.close_exactly(id)?;
        self.remove(ticket)
    }

    /// Something was heard of it: its clock starts anew.
    pub(super) fn heard_of(&mut self, ticket: u64, now: Instant) {
        let limit = self.flights.get(&ticket).and_then(|flight| flight.limit);
        self.set_due(ticket, limit.map(|limit| now + limit));
    }

    /// The server tells of progress (C28).
    pub(super) fn progressed(&mut self, message: &Message, now: Instant) {
        if self.by_token.is_empty() {
            return;
        }
        let token = peek::progress_token(message);
        if let Some(ticket) = token.and_then(|token| self.by_token.get(token).copied()) {
            self.heard_of(ticket, now);
        }
    }

    /// Its answer may still come, but not for longer than until `at`.
    pub(super) fn expect_until(&mut self, ticket: u64, at: Instant, failure: Error) {
        if let Some(flight) = self.flights.get_mut(&ticket) {
            flight.failure = Some(failure);
            self.set_due(ticket, Some(at));
        }
    }

    fn set_due(&mut self, ticket: u64, due: Option<Instant>) {
        let Some(flight) = self.flights.get_mut(&ticket) else { return };
        if let Some(old) = std::mem::replace(&mut flight.due, due) {
            self.due.remove(&(old, ticket));
        }
        self.due.extend(due.map(|due| (due, ticket)));
    }

    /// When the next one's time is up.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// One whose time is up.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Flight> {
        let (due, ticket) = *self.due.first()?;
        if due > now {
            return None;
        }
        self.remove(ticket)
    }

    /// Nobody could listen for so long: it does not count.
    pub(super) fn stop_clock(&mut self, by: Duration) {
        self.due.clear();
        for (ticket, flight) in &mut self.flights {
            flight.due = flight.due.map(|due| due + by);
            self.due.extend(flight.due.map(|due| (due, *ticket)));
        }
    }

    /// Those that `is_meant` picks, in the order in which they came.
    pub(super) fn take(&mut self, is_meant: impl Fn(&Flight) -> bool) -> Vec<Flight> {
        let meant = self.flights.iter().filter(|(_, flight)| is_meant(flight));
        let tickets: Vec<u64> = meant.map(|(ticket, _)| *ticket).collect();
        let mut taken: Vec<Flight> = tickets.into_iter().filter_map(|t| self.remove(t)).collect();
        taken.sort_unstable_by_key(|flight| flight.outgoing.order);
        taken
    }

    /// The session is lost; what becomes of the POSTs that are still out is heard until `at`.
    pub(super) fn leave(&mut self, at: Instant, failure: impl Fn(&Id) -> Error) {
        let left = self.flights.iter_mut().filter_map(|(ticket, flight)| {
            flight.is_left = true;
            flight.request_id().map(|id| (*ticket, failure(id)))
        });
        for (ticket, failure) in left.collect::<Vec<_>>() {
            self.expect_until(ticket, at, failure);
        }
    }

    /// How many pings are out.
    pub(super) fn pings(&self) -> usize {
        self.flights.values().filter(|flight| flight.outgoing.is_request(&Method::Ping)).count()
    }

    /// Whether something is out that nobody gets an answer to.
    pub(super) fn has_told(&self) -> bool {
        self.flights.values().any(|flight| flight.request_id().is_none())
    }
}

/// Made once: that takes longer than to find out that it is not there.
static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("progressToken"));

/// Looked for before it is parsed: few requests want to hear of their progress.
fn token(message: &Message) -> Option<String> {
    FINDER.find(message.bytes())?;
    peek::requested_progress(message)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::error::Kind;

    const LIMIT: Duration = Duration::from_secs(10);

    fn message(text: String) -> Message {
        Message::parse(Bytes::from(text)).expect("a message")
    }

    fn call(id: u64) -> Flight {
        let message = message(format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"_meta":{{"progressToken":"t{id}"}}}}}}"#
        ));
        flight(message, id)
    }

    fn flight(message: Message, order: u64) -> Flight {
        let outgoing = Outgoing { message, envelope: None, order, losses: 0, _share: None };
        Flight::new(outgoing, true, Progress::default(), Sent::default(), Some(LIMIT))
    }

    fn id(raw: &str) -> Id {
        Id::from_json(raw).expect("an id")
    }

    fn progress(token: &str) -> Message {
        message(format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":"{token}","progress":1}}}}"#
        ))
    }

    fn order(flight: Option<Flight>) -> Option<u64> {
        flight.map(|flight| flight.outgoing.order)
    }

    #[tokio::test]
    async fn answers_are_matched_in_any_order_and_once() {
        // S2-40, S3-15
        let (mut flights, now) = (Flights::default(), Instant::now());
        for n in 1..4 {
            flights.insert(n, call(n), now);
        }
        assert_eq!(order(flights.answered(&id("3"))), Some(3));
        assert_eq!(order(flights.answered(&id("1.0"))), Some(1), "servers write ids their own way");
        assert_eq!(order(flights.answered(&id("1"))), None);
        assert_eq!(order(flights.withdraw(&id("2"))), Some(2));
        assert_eq!(flights.next_due(), None);
    }

    #[tokio::test]
    async fn only_its_own_progress_gives_a_request_more_time() {
        // C28
        let (mut flights, now) = (Flights::default(), Instant::now());
        flights.insert(1, call(1), now);
        flights.insert(2, call(2), now);
        flights.progressed(&progress("t2"), now + LIMIT / 2);
        flights.progressed(&progress("unknown"), now + LIMIT / 2);
        assert_eq!(order(flights.pop_due(now + LIMIT)), Some(1));
        assert_eq!(order(flights.pop_due(now + LIMIT)), None);
        assert_eq!(flights.next_due(), Some(now + LIMIT / 2 + LIMIT));
    }

    #[tokio::test]
    async fn time_in_which_nobody_could_listen_does_not_count() {
        let (mut flights, now) = (Flights::default(), Instant::now());
        flights.insert(1, call(1), now);
        flights.stop_clock(LIMIT);
        assert_eq!(order(flights.pop_due(now + LIMIT)), None);
        assert_eq!(order(flights.pop_due(now + 2 * LIMIT)), Some(1));
    }

    #[tokio::test]
    async fn a_post_that_broke_has_its_own_last_moment() {
        let (mut flights, now) = (Flights::default(), Instant::now());
        flights.insert(1, call(1), now);
        let soon = now + Duration::from_secs(1);
        flights.expect_until(1, soon, Error::new(Kind::Closed, "broke"));
        let flight = flights.pop_due(soon).expect("it is due");
        assert_eq!(flight.failure.expect("a reason").message, "broke");
    }

    #[tokio::test]
    async fn all_come_back_in_order() {
        let (mut flights, now) = (Flights::default(), Instant::now());
        for n in [5, 3, 9, 1] {
            flights.insert(n, call(n), now);
        }
        assert!(!flights.has_told());
        let told = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
        flights.insert(7, flight(message(told.to_owned()), 7), now);
        assert!(flights.has_told());
        let orders: Vec<u64> = flights.take(|_| true).iter().map(|f| f.outgoing.order).collect();
        assert_eq!(orders, [1, 3, 5, 7, 9]);
        assert_eq!(flights.next_due(), None);
        assert!(flights.answered(&id("1")).is_none());
    }
}
