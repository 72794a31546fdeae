//! Sends messages: in order, within the limits, urgent ones ahead of the queue.

use std::time::Duration;

use tracing::debug;

use super::entry::{Entry, MessageState, Order, Origin, Place, Sent};
use super::{Engine, Wire, log_undelivered};
use crate::error::ErrorKind;
use crate::limits::{self, Clock};
use crate::message::{Id, Message, Method, edit, method};
use crate::net::Lane;
use crate::transport::{Command, Send, Ticket};

impl Engine {
    /// Adds a message: sends it now, or queues it.
    pub(super) fn enqueue(&mut self, mut entry: Box<Entry>) {
        let is_urgent = self.is_urgent(&entry);
        if entry.message.is_answer() && !is_urgent {
            return debug!("an answer to a request of a lost session was dropped");
        }
        let is_probe = entry.message.is_request(&Method::Discover);
        let answers_handshake = entry.message.is_answer() && self.session.is_reopening();
        let may_try = self.server.is_up() || is_probe || answers_handshake;
        let has_place = self.ordinary_out < self.limits.parallel && self.table.is_queue_empty();
        let is_admitted = has_place && self.session.admits(&entry);
        let leaves = may_try && (is_urgent || is_probe || is_admitted);
        if leaves {
            entry.state = MessageState::Ready;
        }
        let ticket = self.table.insert(entry);
        if !leaves {
            self.start_wait(ticket);
            self.server.retry_sooner(self.now);
            self.dispatch();
            self.retry_server();
        } else if is_urgent {
            self.send_urgent(ticket);
        } else {
            self.send(ticket, Place::Ordinary);
        }
    }

    /// Sets the deadline of a message that waits for a server or a session.
    pub(super) fn start_wait(&mut self, ticket: Ticket) {
        let Some(entry) = self.table.get(ticket) else { return };
        if entry.timer.is_some() || !self.must_wait(entry) {
            return;
        }
        let is_reopening = self.session.is_replaced() && !self.session.is_lost();
        let patience = match is_reopening && self.server.is_up() {
            true => self.policy.timeouts.drain(Clock::Quick),
            false => {
                let cause = self.last_error.as_ref().map_or(ErrorKind::Connect, |error| error.kind);
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

    /// Whether it goes ahead of the queue: cancellations, responses unless their session is gone, and
    /// pings unless with `--serial`, or when many are in flight.
    fn is_urgent(&self, entry: &Entry) -> bool {
        let is_open = self.wire != Wire::HttpSse { is_open: false };
        let Some(method) = entry.message.method() else {
            // The server may have asked during the handshake.
            return is_open && !self.session.is_lost();
        };
        let may_pass = match method.properties().lane {
            method::QueueLane::Always => true,
            method::QueueLane::Urgent => !self.limits.serial,
            method::QueueLane::Ordinary => false,
        };
        let awaits_session = entry.envelope.is_none() && self.session.is_replaced();
        let is_ping_out =
            |entry: &&Entry| entry.sent().is_some() && entry.message.is_request(&Method::Ping);
        let is_one_of_many = *method == Method::Ping
            && self.table.values().filter(is_ping_out).count() >= limits::PINGS_AT_ONCE;
        may_pass && is_open && !awaits_session && !is_one_of_many
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
        for ticket in self.table.tickets(|entry| entry.is_in_queue() && !self.is_waiting(entry)) {
            self.table.set_timer(ticket, None);
            if self.table.get(ticket).is_some_and(|entry| self.is_urgent(entry)) {
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
            self.table.unqueue(ticket, MessageState::Ready);
            return self.urgent.push_back(ticket);
        }
        self.send(ticket, if is_counted { Place::Urgent } else { Place::Free });
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
        let sent = Sent { place, ..Sent::default() };
        let progress = sent.progress.clone();
        let Some(entry) = self.table.unqueue(ticket, MessageState::Sent(sent)) else { return };
        entry.sends += 1;
        match place {
            Place::Ordinary => self.ordinary_out += 1,
            Place::Urgent => self.urgent_out += 1,
            Place::Free => {}
        }
        let is_replaced = self.session.is_replaced();
        let is_handshake = entry.is_handshake();
        let is_initialize = is_handshake && entry.message.request_id().is_some();
        if is_initialize {
            self.session.asked(ticket, entry.origin);
        } else if is_handshake {
            self.session.confirming(ticket);
        }
        let wire_id = entry.wire_id(self.seed);
        // Responses belong to the session of their request, which may just be opening; `initialize`
        // belongs to none.
        let is_bound = entry.envelope.is_none() && !entry.message.is_answer() && !is_initialize;
        let send = Send {
            ticket,
            message: match wire_id {
                Some(id) => edit::with_id(&entry.message, &id),
                None => entry.message.clone(),
            },
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
        if self.wire != (Wire::HttpSse { is_open: false }) {
            self.restart_clock(ticket);
        }
        self.active = self.now;
        self.commands.push_back(Command::Send(Box::new(send)));
    }

    /// The client cancels `id`: the request ends without a response.
    pub(super) fn cancel(&mut self, id: &Id, notice: Message) {
        let found = self.table.find(id).and_then(|ticket| self.table.get(ticket));
        let clients = found.filter(|entry| entry.origin == Origin::Client);
        let Some(ticket) = clients.map(|entry| entry.ticket) else {
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
        if let Some(error) = self.overload() {
            return log_undelivered(&notice, &error);
        }
        if !(matches!(self.wire, Wire::HttpSse { .. }) && self.session.is_replaced()) {
            self.notify_in(notice, true);
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
            self.free_place(sent.place);
        }
        self.is_pinging &= entry.origin != Origin::KeepAlive;
        self.server.trial_ended(ticket, self.now);
        if self.session.confirmed(ticket) {
            self.release();
        }
        Some(entry)
    }

    /// Urgent messages take a free place at once; the queue when the caller dispatches.
    fn free_place(&mut self, place: Place) {
        match place {
            Place::Ordinary => self.ordinary_out -= 1,
            Place::Urgent => {
                self.urgent_out -= 1;
                while let Some(next) = self.urgent.pop_front() {
                    if self.table.get(next).is_some() {
                        return self.send(next, Place::Urgent);
                    }
                }
            }
            Place::Free => {}
        }
    }

    /// Drops urgent messages that were waiting: their session is gone.
    pub(super) fn drop_urgent(&mut self) {
        for ticket in std::mem::take(&mut self.urgent) {
            self.table.remove(ticket);
        }
    }
}
