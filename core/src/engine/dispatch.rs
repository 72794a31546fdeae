//! Sends messages: in order, within the limits, urgent ones ahead of the queue.

use std::time::Duration;

use tracing::debug;

use super::entry::{Entry, MessageState, Order, Origin, Place, Sent, silence_limit};
use super::{Engine, Wire, log_undelivered};
use crate::error::Kind;
use crate::limits;
use crate::message::{Id, Message, Method, edit, method};
use crate::net::Lane;
use crate::transport::http::{Command, Send, Ticket};

impl Engine {
    /// Adds a message: sends it now, or queues it.
    pub(super) fn enqueue(&mut self, mut entry: Box<Entry>) -> Option<Ticket> {
        let Some(place) = self.place_of(&entry) else {
            debug!("an answer to a request of a lost session was dropped");
            return None;
        };
        let is_probe = entry.message.is_request(&Method::Discover);
        let answers_handshake = entry.message.is_answer() && self.session.is_reopening();
        let may_try = self.server.is_up() || is_probe || answers_handshake;
        let leaves = may_try && (place == Place::Urgent || is_probe || self.may_leave(&entry));
        if leaves {
            entry.state = MessageState::Ready;
        }
        let ticket = self.table.insert(entry);
        match place {
            Place::Urgent if leaves => self.send_urgent(ticket),
            _ if leaves => self.send(ticket, place),
            _ => {
                self.start_wait(ticket);
                self.server.retry_sooner(self.now);
                self.dispatch();
                self.retry_server();
            }
        }
        Some(ticket)
    }

    /// Whether it can be sent at once, which is the common case.
    fn may_leave(&self, entry: &Entry) -> bool {
        let has_place = self.ordinary_out < self.limits.parallel;
        has_place && self.table.is_queue_empty() && self.session.admits(entry)
    }

    /// Sets the deadline of a message that waits for a server or a session.
    pub(super) fn start_wait(&mut self, ticket: Ticket) {
        let Some(entry) = self.table.get(ticket) else { return };
        if entry.timer.is_some() || !self.must_wait(entry) {
            return;
        }
        let is_reopening = self.session.is_replaced() && !self.session.is_lost();
        let patience = match is_reopening && self.server.is_up() {
            true => self.policy.reopening(),
            false => {
                let cause = self.last_error.as_ref().map_or(Kind::Connect, |error| error.kind);
                self.policy.patience(entry.message.method(), cause)
            }
        };
        self.table.set_timer(ticket, Some(entry.patience.unwrap_or(self.now + patience)));
    }

    /// The same for the whole queue.
    pub(super) fn start_all_waits(&mut self) {
        for ticket in self.table.tickets(Entry::is_in_queue) {
            self.start_wait(ticket);
        }
    }

    /// Whether it waits for a server or a session.
    pub(super) fn must_wait(&self, entry: &Entry) -> bool {
        !self.server.is_up() || (entry.envelope.is_none() && self.session.is_replaced())
    }

    /// Responses and cancellations never queue behind calls; pings only with `--serial`, or when many
    /// are in flight. `None`: a response to a session that is gone.
    fn place_of(&self, entry: &Entry) -> Option<Place> {
        let is_open = self.wire != Wire::HttpSse { is_open: false };
        let Some(method) = entry.message.method() else {
            // The server may have asked during the handshake.
            return (is_open && !self.session.is_lost()).then_some(Place::Urgent);
        };
        let is_urgent = match method.properties().lane {
            method::QueueLane::Always => true,
            method::QueueLane::Urgent => !self.limits.serial,
            method::QueueLane::Ordinary => false,
        };
        let awaits_session = entry.envelope.is_none() && self.session.is_replaced();
        let is_ping_out =
            |entry: &&Entry| entry.sent().is_some() && entry.message.is_request(&Method::Ping);
        let is_one_of_many = *method == Method::Ping
            && self.table.values().filter(is_ping_out).count() >= limits::PINGS_AT_ONCE;
        match is_urgent && is_open && !awaits_session && !is_one_of_many {
            true => Some(Place::Urgent),
            false => Some(Place::Ordinary),
        }
    }

    /// Sends everything in the queue that may be sent.
    pub(super) fn dispatch(&mut self) {
        // Called for every message and response; usually the queue is empty.
        while !self.table.is_queue_empty() && self.server.is_up() {
            let Some(entry) = self.next_ready() else { return };
            if self.ordinary_out >= self.limits.parallel && !entry.is_handshake() {
                return;
            }
            let ticket = entry.ticket;
            self.send(ticket, Place::Ordinary);
        }
    }

    /// The first message that the session admits. Nothing overtakes a delayed `initialize`.
    pub(super) fn next_ready(&self) -> Option<&Entry> {
        let mut is_opening = false;
        for entry in self.table.queued() {
            let is_delayed = matches!(entry.state, MessageState::Delayed);
            let is_ready = self.session.admits(entry) && !(is_opening && entry.envelope.is_none());
            if is_ready && !is_delayed {
                return Some(entry);
            }
            is_opening |= is_delayed && entry.message.is_request(&Method::Initialize);
        }
        None
    }

    /// The server is reachable and the session open: the queue is only subject to order and limits.
    pub(super) fn release(&mut self) {
        self.last_error = None;
        self.active = self.now;
        for ticket in self.table.tickets(Entry::is_in_queue) {
            let Some(entry) = self.table.get(ticket).filter(|entry| !self.is_waiting(entry)) else {
                continue;
            };
            let is_urgent = self.place_of(entry) == Some(Place::Urgent);
            self.table.set_timer(ticket, None);
            if is_urgent {
                self.send_urgent(ticket);
            }
        }
        self.dispatch();
    }

    /// Sends a message ahead of the queue, within a limit on notifications and responses.
    fn send_urgent(&mut self, ticket: Ticket) {
        let Some(entry) = self.table.get(ticket) else { return };
        let is_counted = entry.message.request_id().is_none() && self.wire != Wire::Stream;
        if is_counted && self.urgent_out >= limits::URGENT_IN_FLIGHT {
            self.table.make_ready(ticket);
            return self.urgent.push_back(ticket);
        }
        self.send(ticket, Place::Urgent);
    }

    /// Sends a notification of the bridge's own ahead of the queue, if there is a session for it.
    pub(super) fn notify(&mut self, notice: Message) {
        self.notify_in(notice, false);
    }

    fn notify_in(&mut self, notice: Message, needs_session_id: bool) {
        if self.wire == (Wire::HttpSse { is_open: false }) {
            return;
        }
        let mut entry = self.entry(Origin::Notice, Order::Arrival, notice);
        entry.needs_session_id = needs_session_id;
        let ticket = self.table.insert(entry);
        self.send_urgent(ticket);
    }

    /// Sends a message, regardless of the queue.
    pub(super) fn send(&mut self, ticket: Ticket, place: Place) {
        let keeps_time = match self.wire {
            Wire::Stream => self.policy.watches,
            // The exchange does: it sees every byte.
            Wire::StreamableHttp => false,
            Wire::HttpSse { .. } => true,
        };
        let timed = if keeps_time { self.table.get(ticket) } else { None };
        let limit = timed.and_then(|entry| silence_limit(&entry.message, &self.limits.timeouts));
        let sent = Sent { place, limit, ..Sent::default() };
        let progress = sent.progress.clone();
        let Some(entry) = self.table.mark_sent(ticket, sent) else { return };
        match place {
            Place::Ordinary => self.ordinary_out += 1,
            Place::Urgent if entry.message.request_id().is_none() => self.urgent_out += 1,
            Place::Urgent | Place::Free => {}
        }
        let is_replaced = self.session.is_replaced();
        let is_initialize =
            entry.envelope.is_none() && entry.message.is_request(&Method::Initialize);
        if is_initialize {
            self.session.asked(ticket, entry.origin);
        } else if entry.envelope.is_none() && entry.message.is_notification(&Method::Initialized) {
            self.session.confirming(ticket);
        }
        let mut message = entry.message.clone();
        if entry.was_repeated
            && entry.envelope.is_some()
            && let Some(sent) = entry.sent_mut()
        {
            // In the modern era a retry is a new request to the server.
            let new = Id::string(&format!("again-{:016x}-{}", self.seed, ticket.0));
            message = edit::with_id(&message, &new);
            sent.wire_id = Some(new);
        }
        // Responses belong to the session of their request, which may just be opening; `initialize`
        // belongs to none.
        let is_bound = entry.envelope.is_none() && !entry.message.is_answer() && !is_initialize;
        let send = Send {
            ticket,
            message,
            envelope: entry.envelope.clone(),
            session: self.session.opened_by().filter(|_| is_bound),
            needs_session_id: entry.needs_session_id,
            lane: match place {
                _ if entry.message.is_request(&Method::Listen) => Lane::Lasting,
                // Calls that occupy every stream may themselves wait for the new session.
                Place::Ordinary if !is_replaced => Lane::Calls,
                _ => Lane::Urgent,
            },
            is_last_try: entry.is_last_try(),
            retry: entry.sends.checked_sub(1).filter(|before| *before > 0),
            progress,
        };
        if limit.is_some() && self.wire != (Wire::HttpSse { is_open: false }) {
            self.table.restart_clock(ticket, self.clock());
        }
        self.active = self.now;
        self.commands.push_back(Command::Send(Box::new(send)));
    }

    /// The client cancels `id`: the request ends without a response.
    pub(super) fn cancel(&mut self, id: &Id, notice: Message) {
        let is_clients = |ticket: &Ticket| {
            self.table.get(*ticket).is_some_and(|entry| entry.origin == Origin::Client)
        };
        let Some(ticket) = self.table.find(id).filter(is_clients) else {
            return self.notify_of_unknown(notice);
        };
        let Some(entry) = self.remove_entry(ticket) else { return };
        let Some(sent) = entry.sent() else {
            return debug!(%id, "cancelled before it was sent");
        };
        if self.wire == Wire::Stream {
            self.initialize_ended(&entry);
            return self.notify(notice);
        }
        let is_unsent = sent.progress.withdraw();
        sent.progress.abandon();
        let is_initialize = entry.message.is_request(&Method::Initialize);
        if is_unsent || is_initialize || sent.is_left || entry.envelope.is_some() {
            debug!(%id, is_unsent, "cancelled by dropping it");
            self.drop_exchange(ticket, Duration::ZERO);
            return self.initialize_ended(&entry);
        }
        self.notify(notice);
        // Its stream may bring further notifications; some servers never close it.
        self.drop_exchange(ticket, limits::CANCEL_GRACE);
    }

    /// A cancellation of a request that has ended, or was never made: the server may know it.
    fn notify_of_unknown(&mut self, notice: Message) {
        if self.is_overloaded() {
            return log_undelivered(&notice, &self.overloaded());
        }
        match self.wire {
            Wire::Stream => self.notify(notice),
            Wire::StreamableHttp => self.notify_in(notice, true),
            Wire::HttpSse { .. } if self.session.is_replaced() => {}
            Wire::HttpSse { .. } => self.notify(notice),
        }
    }

    /// Drops the exchange of a message after `grace`.
    pub(super) fn drop_exchange(&mut self, ticket: Ticket, grace: Duration) {
        self.commands.push_back(Command::Cancel { ticket, grace });
    }

    /// Takes a message out of the table and frees its place among those in flight.
    pub(super) fn remove_entry(&mut self, ticket: Ticket) -> Option<Box<Entry>> {
        let entry = self.table.remove(ticket)?;
        if let Some(sent) = entry.sent() {
            self.free_place(sent.place, entry.message.request_id().is_none());
        }
        if self.keep_alive == Some(ticket) {
            self.keep_alive = None;
        }
        self.server.trial_ended(ticket, self.now);
        if self.session.confirmed(ticket) {
            self.release();
        }
        Some(entry)
    }

    /// Urgent messages take a free place at once; the queue when the caller dispatches.
    fn free_place(&mut self, place: Place, is_notice: bool) {
        match place {
            Place::Ordinary => self.ordinary_out -= 1,
            Place::Urgent if is_notice => {
                self.urgent_out -= 1;
                while let Some(next) = self.urgent.pop_front() {
                    if self.table.get(next).is_some() {
                        return self.send(next, Place::Urgent);
                    }
                }
            }
            Place::Urgent | Place::Free => {}
        }
    }

    /// No message in flight but `initialize` counts towards a limit any more.
    pub(super) fn free_all_places(&mut self) {
        let mut left = 0;
        for entry in self.table.values_mut() {
            let is_initialize = entry.message.is_request(&Method::Initialize);
            let Some(sent) = entry.sent_mut() else { continue };
            if !is_initialize {
                sent.place = Place::Free;
            }
            left += usize::from(sent.place == Place::Ordinary);
        }
        (self.ordinary_out, self.urgent_out) = (left, 0);
    }

    /// Drops urgent messages that were waiting: their session is gone.
    pub(super) fn drop_urgent(&mut self) {
        for ticket in std::mem::take(&mut self.urgent) {
            self.table.remove(ticket);
        }
    }
}
