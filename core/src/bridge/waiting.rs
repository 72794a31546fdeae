//! Messages that cannot be sent now, in the order they came, each with an end to its patience.

use std::collections::VecDeque;

use tokio::time::Instant;

use crate::message::{Head, Id, Message};

/// One that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) message: Message,
    /// Not sent before this, because the server said so.
    pub(super) not_before: Option<Instant>,
    /// Given up then.
    pub(super) until: Instant,
    /// Its place among the client's messages.
    pub(super) order: u64,
}

/// The queue of them.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    /// Bytes of those that nobody waits for an answer to: requests are counted elsewhere.
    bytes: usize,
}

impl Waiting {
    fn own_bytes(&self) -> usize {
        match self.message.head() {
            Head::Request { .. } => 0,
            _ => self.message.bytes().len(),
        }
    }
}

impl Queue {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// To its place: what came first goes first, however often it came back.
    pub(super) fn push(&mut self, waiting: Waiting) {
        self.bytes += waiting.own_bytes();
        let at = self.waiting.partition_point(|known| known.order <= waiting.order);
        self.waiting.insert(at, waiting);
    }

    /// Takes the request `id` out.
    pub(super) fn withdraw(&mut self, id: &Id) -> Option<Waiting> {
        let id = id.canonical();
        let at = self.waiting.iter().position(|waiting| match waiting.message.head() {
            Head::Request { id: waits, .. } => waits.canonical() == id,
            _ => false,
        })?;
        self.take(at)
    }

    /// Forgets the answers among them.
    pub(super) fn drop_answers(&mut self) {
        self.waiting.retain(|waiting| !matches!(waiting.message.head(), Head::Response { .. }));
        self.bytes = self.waiting.iter().map(Waiting::own_bytes).sum();
    }

    /// The next that nothing but its place in line holds back, at `now`.
    pub(super) fn pop_ready(&mut self, now: Instant) -> Option<Waiting> {
        let ready = |w: &Waiting| w.not_before.is_none_or(|at| at <= now);
        let at = self.waiting.iter().position(ready)?;
        self.take(at)
    }

    /// The next whose own pause is over; others that wait for the server stay.
    pub(super) fn pop_rested(&mut self, now: Instant) -> Option<Waiting> {
        let at = self.waiting.iter().position(|w| w.not_before.is_some_and(|at| at <= now))?;
        self.take(at)
    }

    /// The next whose patience is over.
    pub(super) fn pop_expired(&mut self, now: Instant) -> Option<Waiting> {
        let at = self.waiting.iter().position(|w| w.until <= now)?;
        self.take(at)
    }

    /// Nobody waits any longer than this, but for those who have a pause of their own.
    pub(super) fn shorten(&mut self, until: Instant) {
        for waiting in self.waiting.iter_mut().filter(|waiting| waiting.not_before.is_none()) {
            waiting.until = waiting.until.min(until);
        }
    }

    pub(super) fn has_requests(&self) -> bool {
        self.waiting.iter().any(|waiting| matches!(waiting.message.head(), Head::Request { .. }))
    }

    /// Takes out the first request.
    pub(super) fn pop_request(&mut self) -> Option<Id> {
        let request = |waiting: &Waiting| match waiting.message.head() {
            Head::Request { id, .. } => Some(id.clone()),
            _ => None,
        };
        let (at, id) =
            self.waiting.iter().enumerate().find_map(|(at, w)| Some((at, request(w)?)))?;
        self.take(at).map(|_| id)
    }

    pub(super) fn pop(&mut self) -> Option<Waiting> {
        self.take(0)
    }

    /// When the next thing happens by itself. A pause that is over brings something only while
    /// messages go out (`is_open`).
    pub(super) fn wake_at(&self, is_open: bool) -> Option<Instant> {
        let pause = |w: &Waiting| w.not_before.filter(|_| is_open).unwrap_or(w.until);
        self.waiting.iter().map(|w| pause(w).min(w.until)).min()
    }

    fn take(&mut self, at: usize) -> Option<Waiting> {
        let waiting = self.waiting.remove(at)?;
        self.bytes -= waiting.own_bytes();
        Some(waiting)
    }
}
