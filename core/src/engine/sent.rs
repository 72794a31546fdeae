//! The messages that are out, found by ticket, id, progress token or deadline.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;
use std::time::Duration;

use memchr::memmem::Finder;
use tokio::time::Instant;

use super::entry::{Sent, silence_limit};
use crate::error::Error;
use crate::limits::Timeouts;
use crate::message::fnv_map::{self, FnvMap};
use crate::message::{Id, InFlight, Message, Method, peek};
use crate::transport::http::Ticket;

/// All of them.
#[derive(Debug, Default)]
pub(super) struct SentTable {
    sent: FnvMap<Ticket, Sent>,
    /// For HTTP+SSE, where an answer names its request by nothing but the id.
    by_id: InFlight<Ticket>,
    by_token: HashMap<String, Ticket>,
    due: BTreeSet<(Instant, Ticket)>,
    pings: usize,
    /// How many get no answer.
    notices: usize,
}

impl SentTable {
    /// Adds one, and starts its clock. With `is_indexed` it is found by id and by progress, too.
    pub(super) fn insert(&mut self, sent: Sent, is_indexed: bool, now: Instant) {
        let ticket = sent.ticket;
        self.add(sent, is_indexed);
        self.restart_clock(ticket, now);
    }

    /// The same without its clock: nothing can be heard of it yet.
    pub(super) fn insert_early(&mut self, sent: Sent) {
        self.add(sent, true);
    }

    fn add(&mut self, mut sent: Sent, is_indexed: bool) {
        let ticket = sent.ticket;
        if is_indexed {
            if let Some(id) = sent.entry.request_id() {
                self.by_id.open(id, ticket);
            }
            sent.token = token(&sent.entry.message);
            if let Some(token) = &sent.token {
                self.by_token.insert(token.clone(), ticket);
            }
        }
        self.pings += usize::from(sent.entry.is_request(&Method::Ping));
        self.notices += usize::from(sent.entry.request_id().is_none());
        self.sent.insert(ticket, sent);
    }

    /// Indexes all, and starts their clocks: their answers come on a stream from now on.
    pub(super) fn index(&mut self, timeouts: &Timeouts, now: Instant) {
        for ticket in self.tickets(|_| true) {
            let Some(mut sent) = self.remove(ticket) else { continue };
            sent.limit = silence_limit(&sent.entry.message, timeouts);
            self.insert(sent, true, now);
        }
    }

    pub(super) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut Sent> {
        self.sent.get_mut(&ticket)
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Sent> {
        let sent = fnv_map::take(&mut self.sent, &ticket)?;
        self.pings -= usize::from(sent.entry.is_request(&Method::Ping));
        self.notices -= usize::from(sent.entry.request_id().is_none());
        if let Some(due) = sent.due {
            self.due.remove(&(due, ticket));
        }
        if let Some(id) = sent.entry.request_id().filter(|_| !self.by_id.is_empty())
            && self.by_id.get_mut(id).is_some_and(|known| *known == ticket)
        {
            self.by_id.close_exactly(id);
        }
        if let Some(token) = &sent.token
            && self.by_token.get(token) == Some(&ticket)
        {
            self.by_token.remove(token);
        }
        Some(sent)
    }

    /// The request that an answer with this id is for, however the server wrote it.
    pub(super) fn answered(&mut self, id: &Id) -> Option<Ticket> {
        self.by_id.close(id).map(|(_, ticket)| ticket)
    }

    /// The request with exactly this id.
    pub(super) fn find(&self, id: &Id) -> Option<Ticket> {
        let canonical = id.canonical();
        let mut all = self.sent.values();
        all.find(|sent| sent.entry.is_named(&canonical)).map(|sent| sent.ticket)
    }

    /// How many pings are out.
    pub(super) fn pings(&self) -> usize {
        self.pings
    }

    /// Whether something is out that gets no answer.
    pub(super) fn has_notices(&self) -> bool {
        self.notices > 0
    }

    /// Something was heard of it: its clock starts anew.
    pub(super) fn restart_clock(&mut self, ticket: Ticket, now: Instant) {
        let limit = self.sent.get(&ticket).and_then(|sent| sent.limit);
        if let Some(due) = limit.and_then(|limit| now.checked_add(limit)) {
            self.set_due(ticket, Some(due));
        }
    }

    /// The same for all.
    pub(super) fn restart_clocks(&mut self, now: Instant) {
        for ticket in self.tickets(|_| true) {
            self.restart_clock(ticket, now);
        }
    }

    /// The server tells of progress (C28).
    pub(super) fn progressed(&mut self, message: &Message, now: Instant) {
        if self.by_token.is_empty() {
            return;
        }
        let token = peek::progress_token(message);
        if let Some(ticket) = token.and_then(|token| self.by_token.get(token).copied()) {
            self.restart_clock(ticket, now);
        }
    }

    /// Its answer may still come, but not for longer than until `at`; then it fails with `failure`.
    pub(super) fn expect_until(&mut self, ticket: Ticket, at: Instant, failure: Error) {
        if let Some(sent) = self.sent.get_mut(&ticket) {
            sent.failure = Some(failure);
            self.set_due(ticket, Some(at));
        }
    }

    fn set_due(&mut self, ticket: Ticket, due: Option<Instant>) {
        let Some(sent) = self.sent.get_mut(&ticket) else { return };
        if let Some(old) = std::mem::replace(&mut sent.due, due) {
            self.due.remove(&(old, ticket));
        }
        self.due.extend(due.map(|due| (due, ticket)));
    }

    /// When the next one's time is up.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// One whose time is up.
    pub(super) fn next_overdue(&self, now: Instant) -> Option<Ticket> {
        self.due.first().filter(|(due, _)| *due <= now).map(|(_, ticket)| *ticket)
    }

    /// Nobody could listen for so long: it does not count.
    pub(super) fn pause_clocks(&mut self, by: Duration) {
        self.due.clear();
        for (ticket, sent) in &mut self.sent {
            sent.due = sent.due.map(|due| due + by);
            self.due.extend(sent.due.map(|due| (due, *ticket)));
        }
    }

    /// The tickets of those that `is_meant` picks, in the order in which they came.
    pub(super) fn tickets(&self, is_meant: impl Fn(&Sent) -> bool) -> Vec<Ticket> {
        let mut meant: Vec<&Sent> = self.sent.values().filter(|sent| is_meant(sent)).collect();
        meant.sort_unstable_by_key(|sent| sent.entry.order);
        meant.into_iter().map(|sent| sent.ticket).collect()
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Sent> {
        self.sent.values_mut()
    }
}

/// Made once: that takes longer than to find out that it is not there.
static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("progressToken"));

/// Looked for before it is parsed: few requests want to hear of their progress.
fn token(message: &Message) -> Option<String> {
    FINDER.find(message.bytes())?;
    peek::requested_progress(message)
}
