//! The table of messages, indexed by ticket, id, position in the queue, progress token and deadline.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use super::entry::{Entry, MessageState, Order};
use crate::message::fnv_map::{self, FnvMap};
use crate::message::{Id, InFlight, Message, peek};
use crate::transport::Ticket;

/// The longest prefix of a progress notification that is cached.
const BEGINNING: usize = 512;

/// Forget the tokens of ended requests if there may be more of them than this.
const ENDED: usize = 64;

/// Every message that has not ended.
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: FnvMap<Ticket, Box<Entry>>,
    /// Requests by id.
    by_id: InFlight<Ticket>,
    waiting: Waiting,
    tokens: Tokens,
    /// The last number that was given out, as a ticket, a position or an id.
    last_number: u64,
}

/// What messages wait for: their turn, and times.
#[derive(Debug, Default)]
struct Waiting {
    /// Messages that wait to be sent, in order.
    queue: BTreeMap<Order, Ticket>,
    /// Deadlines and delays of queued messages.
    waits: BTreeSet<(Instant, Ticket)>,
    /// Timeouts of messages in flight.
    dues: BTreeSet<(Instant, Ticket)>,
}

impl Waiting {
    /// The message has no timer and no position any more.
    fn end(&mut self, entry: &mut Entry) {
        if let Some(at) = entry.timer.take() {
            self.timers(entry).remove(&(at, entry.ticket));
        }
        if entry.is_in_queue() {
            self.queue.remove(&entry.order);
        }
    }

    fn timers(&mut self, entry: &Entry) -> &mut BTreeSet<(Instant, Ticket)> {
        if entry.sent().is_some() { &mut self.dues } else { &mut self.waits }
    }
}

impl Table {
    /// A number that was not given out before.
    pub(super) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Adds an unsent message under a new ticket; it is put into the queue unless it bypasses that.
    pub(super) fn insert(&mut self, mut entry: Box<Entry>) -> Ticket {
        let ticket = Ticket(self.next_number());
        entry.ticket = ticket;
        if let Some(id) = entry.message.request_id() {
            self.by_id.open(id, ticket);
            self.tokens.note(ticket, &self.entries);
        }
        if entry.is_in_queue() {
            self.waiting.queue.insert(entry.order, ticket);
        }
        self.entries.insert(ticket, entry);
        ticket
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Box<Entry>> {
        let mut entry = fnv_map::take(&mut self.entries, &ticket)?;
        self.waiting.end(&mut entry);
        if let Some(id) = entry.message.request_id() {
            self.by_id.close_exactly(id);
        }
        Some(entry)
    }

    /// Takes a message out of the queue, if it is in there, for another state.
    pub(super) fn unqueue(&mut self, ticket: Ticket, state: MessageState) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(&ticket)?;
        self.waiting.end(entry);
        entry.state = state;
        Some(entry)
    }

    pub(super) fn get(&self, ticket: Ticket) -> Option<&Entry> {
        self.entries.get(&ticket).map(|entry| &**entry)
    }

    pub(super) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut Entry> {
        self.entries.get_mut(&ticket).map(|entry| &mut **entry)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values().map(|entry| &**entry)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.values_mut().map(|entry| &mut **entry)
    }

    /// The request with exactly this id.
    pub(super) fn find(&self, id: &Id) -> Option<Ticket> {
        self.by_id.get(id).copied()
    }

    /// The request that a response with this id answers, however the server wrote the id.
    pub(super) fn answered(&self, id: &Id) -> Option<Ticket> {
        self.by_id.find(id).copied()
    }

    /// The client's first `initialize` in the table.
    pub(super) fn opening(&self) -> Option<&Entry> {
        self.values().filter(|entry| entry.is_opening()).min_by_key(|entry| entry.order)
    }

    pub(super) fn is_queue_empty(&self) -> bool {
        self.waiting.queue.is_empty()
    }

    /// The queue, in order.
    pub(super) fn queued(&self) -> impl Iterator<Item = &Entry> {
        self.waiting.queue.values().filter_map(|ticket| self.get(*ticket))
    }

    /// The tickets of the messages that `is_meant` selects, in order.
    pub(super) fn tickets(&self, is_meant: impl Fn(&Entry) -> bool) -> Vec<Ticket> {
        let mut meant: Vec<_> = self.values().filter(|entry| is_meant(entry)).collect();
        meant.sort_unstable_by_key(|entry| (entry.order, entry.ticket));
        meant.into_iter().map(|entry| entry.ticket).collect()
    }

    /// The request that a progress notification is about. It is marked as not repeatable, since progress
    /// must increase.
    pub(super) fn progressed(&mut self, notification: &Message) -> Option<Ticket> {
        let ticket = self.tokens.find(notification, &self.entries)?;
        self.entries.get_mut(&ticket)?.progressed = true;
        Some(ticket)
    }

    /// Sets or clears the timer of a message.
    pub(super) fn set_timer(&mut self, ticket: Ticket, at: Option<Instant>) {
        let Some(entry) = self.entries.get_mut(&ticket) else { return };
        let old = std::mem::replace(&mut entry.timer, at);
        let timers = self.waiting.timers(entry);
        if let Some(old) = old {
            timers.remove(&(old, ticket));
        }
        timers.extend(at.map(|at| (at, ticket)));
    }

    /// The next deadline or delay of a queued message.
    pub(super) fn next_wait(&self) -> Option<(Instant, Ticket)> {
        self.waiting.waits.first().copied()
    }

    /// The next timeout of a message in flight.
    pub(super) fn next_due(&self) -> Option<(Instant, Ticket)> {
        self.waiting.dues.first().copied()
    }

    /// Postpones all timeouts of messages in flight.
    pub(super) fn postpone_timeouts(&mut self, by: Duration) {
        for (due, ticket) in std::mem::take(&mut self.waiting.dues) {
            if let Some(entry) = self.entries.get_mut(&ticket) {
                entry.timer = Some(due + by);
                self.waiting.dues.insert((due + by, ticket));
            }
        }
    }
}

/// Which request a progress token belongs to; some of the requests have ended.
#[derive(Debug, Default)]
struct Tokens {
    tickets: HashMap<String, Ticket>,
    /// Requests whose tokens were not read yet.
    unread: Vec<Ticket>,
    /// The last progress notification up to its token, and its request: thousands for one request begin
    /// alike.
    last: Option<(Vec<u8>, Ticket)>,
}

impl Tokens {
    /// Adds a request. Its token is read with the first progress notification: most servers send none.
    fn note(&mut self, ticket: Ticket, entries: &FnvMap<Ticket, Box<Entry>>) {
        let most = 2 * entries.len() + ENDED;
        if self.unread.len() > most || self.tickets.len() > most {
            self.unread.retain(|ticket| entries.contains_key(ticket));
            self.tickets.retain(|_, ticket| entries.contains_key(ticket));
        }
        self.unread.push(ticket);
    }

    /// The ticket of the newest request with the token, which may have ended.
    fn find(
        &mut self,
        notification: &Message,
        entries: &FnvMap<Ticket, Box<Entry>>,
    ) -> Option<Ticket> {
        for ticket in self.unread.drain(..) {
            let entry = entries.get(&ticket);
            if let Some(token) = entry.and_then(|entry| peek::requested_progress(&entry.message)) {
                self.tickets.insert(token, ticket);
                self.last = None;
            }
        }
        if self.tickets.is_empty() {
            return None;
        }
        let bytes = notification.bytes();
        if let Some((beginning, ticket)) = &self.last
            && bytes.starts_with(beginning)
        {
            return Some(*ticket);
        }
        let token = peek::progress_token(notification)?;
        let ticket = *self.tickets.get(token)?;
        // The token is a slice of the message; the byte behind it belongs to the prefix.
        let end = token.as_bytes().as_ptr_range().end as usize - bytes.as_ptr() as usize;
        let beginning = bytes.get(..=end).filter(|beginning| beginning.len() <= BEGINNING);
        self.last = beginning.map(|beginning| (beginning.to_vec(), ticket));
        Some(ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::Origin;
    use super::super::schedule::message;
    use super::*;
    use crate::message::budget::MemoryBudget;

    #[test]
    fn every_token_is_known_whose_progress_is_told() {
        let (mut table, now) = (Table::default(), Instant::now());
        let tokens = ["1", "12", "\"1\"", "3", "7"];
        for (number, token) in (1..).zip(tokens) {
            let request = message(&format!(
                r#"{{"jsonrpc":"2.0","id":{number},"method":"a","params":{{"_meta":{{"progressToken":{token}}}}}}}"#
            ));
            let permit = MemoryBudget::new(usize::MAX).acquire(&request);
            let order = Order::Arrival(number);
            let entry = Entry::new(Origin::Client, request, permit, order, now);
            assert_eq!(table.insert(entry), Ticket(number));
        }
        let long = "x".repeat(2 * BEGINNING);
        let told = |token: &str| format!(r#"{{"progressToken":{token},"progress":1}}"#);
        let odd = r#"{"progress\u0054oken":3}"#.to_owned();
        let behind = format!(r#"{{"message":"{long}","progressToken":7}}"#);
        let cases = [
            (told("1"), Some(1)),
            (told("1"), Some(1)),
            (told("12"), Some(2)),
            (told("1"), Some(1)),
            (r#"{"progressToken":"1"}"#.to_owned(), Some(3)),
            (odd.clone(), Some(4)),
            (odd, Some(4)),
            (behind.clone(), Some(5)),
            (behind, Some(5)),
            (told("2"), None),
        ];
        for (params, expected) in cases {
            let notification = message(&format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#
            ));
            assert_eq!(table.progressed(&notification), expected.map(Ticket), "{params}");
        }
        assert!(table.values().all(|entry| entry.progressed));
        table.remove(Ticket(1));
        let gone = message(
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#,
        );
        assert_eq!(table.progressed(&gone), None);
    }
}
