//! Recovery from an unreachable server and from a lost session: one message at a time tries the server;
//! a session is reopened with the client's own `initialize`, and its state is restored.

use std::time::Duration;

use http::StatusCode;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::delivery::{Retry, decide};
use super::entry::{Entry, MessageState, Order, Origin, Place};
use super::{Engine, Output, Wire, session_lost};
use crate::error::{Error, ErrorKind};
use crate::message::{Head, Message, Method, edit, reply};
use crate::traffic::{self, Recovery};
use crate::transport::Ticket;
use crate::transport::http::lost_response;

impl Engine {
    /// The server is reachable.
    pub(super) fn on_server_reachable(&mut self) {
        let has_session = !self.session.is_awaited();
        if self.server.mark_reachable(has_session) && has_session {
            self.absence.reachable();
            self.release();
        }
    }

    /// Tries an unreachable server, or reopens a lost session, if it is time.
    pub(super) fn retry_server(&mut self) {
        if self.next_retry().is_none_or(|at| at > self.now) {
            return;
        }
        if self.session.is_lost() && self.table.opening().is_none() {
            return self.ask_for_session();
        }
        if let Some(ticket) = self.next_ready().map(|entry| entry.ticket) {
            self.server.start_trial(ticket);
            self.send(ticket, Place::Ordinary);
        }
    }

    /// When [`Self::retry_server`] has something to do.
    pub(super) fn next_retry(&self) -> Option<Instant> {
        if self.is_finished() {
            return None;
        }
        let server = match self.server.is_up() {
            true => None,
            false => Some(self.server.next_retry()?),
        };
        if self.session.is_lost() && self.table.opening().is_none() {
            let at = self.session.reopen_at(!self.table.is_queue_empty())?;
            return server.max(Some(at));
        }
        server.filter(|_| self.next_ready().is_some())
    }

    /// The server no longer knows the session: opens another.
    pub(crate) fn lose_session(&mut self, error: &Error, now: Instant) {
        self.now = now;
        self.drop_urgent();
        if self.record.initialize().is_none() {
            return;
        }
        let was_lost = self.session.is_awaited();
        self.session.lose(now);
        self.start_all_waits();
        if !was_lost && self.session.is_lost() {
            traffic::recovery(Recovery::SessionLost, Some(error));
            self.begin_reopening();
        }
    }

    pub(super) fn begin_reopening(&mut self) {
        self.outputs.push_back(Output::SessionLost);
        self.cancel_server_requests();
        self.last_error.get_or_insert_with(session_lost);
        // A server that rejects the session is reachable.
        if !self.server.is_delayed(self.now) {
            self.server.mark_reachable(false);
        }
        self.retry_server();
    }

    /// The server's requests of the old session need no response any more: cancels them at the client.
    pub(super) fn cancel_server_requests(&mut self) {
        for ticket in
            self.table.tickets(|entry| entry.message.is_answer() && entry.sent().is_none())
        {
            self.table.remove(ticket);
        }
        for id in self.server_requests.invalidate() {
            let why = "the session in which it was asked is no more";
            self.send_to_client(reply::cancelled(&id, why));
        }
    }

    /// Repeats the client's `initialize` under an id of the bridge's own.
    pub(super) fn ask_for_session(&mut self) {
        // Those of a handshake that failed.
        self.cancel_server_requests();
        debug!("the session was lost: a new one is opened");
        let id = self.own_id();
        let Some(initialize) = self.record.initialize() else { return };
        let initialize = edit::with_id(initialize, &id).own();
        let entry = self.entry(Origin::Reopen, Order::Restoring, initialize);
        let ticket = self.table.insert(entry);
        self.server.start_trial(ticket);
        self.send(ticket, Place::Ordinary);
    }

    /// A request of the bridge's own has its response.
    pub(super) fn own_answered(&mut self, entry: &Entry, answer: &Message) {
        let is_error = answer.is_error();
        match entry.origin {
            Origin::Reopen if !is_error => {
                self.session.opened(entry.ticket, self.now);
                self.reopened(answer);
            }
            Origin::Reopen => {
                let (kind, text) = match self.is_promised {
                    true => (ErrorKind::Login, "The server refused to open a session"),
                    false => (
                        ErrorKind::SessionLost,
                        "The server has lost the session and refuses a new one",
                    ),
                };
                self.not_reopened(entry.ticket, Error::new(kind, text));
            }
            Origin::Restore if is_error => {
                warn!("the new session did not take over a subscription or the log level");
            }
            Origin::Client | Origin::Restore | Origin::KeepAlive | Origin::Notice => {}
        }
    }

    /// The bridge's own `initialize` has opened no session. An unreachable server is tried again. If
    /// the stand-in has promised the session, so is a failing one; any other waits for the client's
    /// next call.
    pub(super) fn not_reopened(&mut self, ticket: Ticket, error: Error) {
        self.session.not_opened(ticket);
        let is_out_of_order =
            error.kind == ErrorKind::Status && error.status.is_some_and(|status| status >= 500);
        match decide(Some(&Method::Initialize), &error, true, false) {
            Retry::After(pause) => self.server.delay(self.now, pause),
            Retry::No if !self.is_promised => return self.session_refused(error),
            Retry::No if !is_out_of_order => self.session.refused(self.now),
            Retry::WhenReachable | Retry::Now | Retry::No => {
                let somebody_waits = !self.is_promised && !self.table.is_queue_empty();
                if !self.is_promised {
                    let wait = somebody_waits.then_some(self.policy.away_wait);
                    self.absence.unreachable(&error, wait);
                    // The queue now waits for an unreachable server, not for a handshake (C37).
                    self.shorten_waits(self.now + self.policy.away_wait);
                }
                self.server.mark_unreachable(ticket, self.now, somebody_waits);
            }
        }
        self.last_error = Some(error);
        self.start_all_waits();
    }

    fn shorten_waits(&mut self, until: Instant) {
        let is_later = |entry: &Entry| {
            matches!(entry.state, MessageState::Queued) && entry.timer.is_some_and(|at| at > until)
        };
        for ticket in self.table.tickets(is_later) {
            self.table.set_timer(ticket, Some(until));
        }
    }

    /// The new session is open: restores its state, then sends the queue.
    fn reopened(&mut self, answer: &Message) {
        self.server.mark_reachable(true);
        self.absence.reachable();
        self.is_promised = false;
        self.last_error = None;
        traffic::recovery(Recovery::SessionOpened, None);
        let (before, offered) = self.record.reopened(answer);
        if before.version != offered.version || offered.has_lost(&before) {
            warn!(
                before = before.version,
                now = offered.version,
                "the server came back with another revision or fewer capabilities"
            );
        }
        self.restore(Origin::Notice, self.record.confirmation());
        for message in self.record.to_restore() {
            let id = self.own_id();
            self.restore(Origin::Restore, edit::with_id(&message, &id).own());
        }
        self.dispatch();
        for method in offered.lists_changed(&before) {
            self.send_to_client(reply::notification(&method, None));
        }
    }

    fn restore(&mut self, origin: Origin, message: Message) {
        let entry = self.entry(origin, Order::Restoring, message);
        self.table.insert(entry);
    }

    /// The server refuses a session: fails the queue; the next message tries again.
    fn session_refused(&mut self, error: Error) {
        self.session.refused(self.now);
        self.server.mark_reachable(false);
        traffic::recovery(Recovery::SessionRefused, Some(&error));
        self.last_error = Some(error);
        let is_waiting = |entry: &Entry| entry.is_in_queue() && entry.envelope.is_none();
        for ticket in self.table.tickets(is_waiting) {
            self.end_waiting(ticket);
        }
    }

    /// The server rejected a message because it does not know the session. If it rejects it a second
    /// time, that is its response.
    pub(super) fn on_session_rejected(
        &mut self,
        ticket: Ticket,
        session: Option<Ticket>,
        error: Error,
        last_word: Option<Message>,
    ) {
        let entry = self.remove_entry(ticket);
        if let Some(entry) = entry.as_ref().filter(|entry| entry.is_last_try()) {
            return match last_word {
                Some(answer) => self.finish(entry, answer),
                // The rejection is not about the session.
                None => self.end(entry, Error { kind: ErrorKind::Status, ..error }),
            };
        }
        // Even if the message was cancelled meanwhile.
        let is_current = session.is_some() && session == self.session.opened_by();
        let is_left = entry.as_ref().map(|entry| entry.sent().is_some_and(|sent| sent.is_left));
        match (self.wire, is_left) {
            (Wire::StreamableHttp, _) if is_current => self.lose_session(&error, self.now),
            (Wire::HttpSse { .. }, None) if is_current => self.stream_ended(&error),
            (Wire::HttpSse { .. }, Some(false)) => self.stream_ended(&error),
            _ => {}
        }
        let Some(mut entry) = entry else { return };
        entry.losses += 1;
        match entry.message.head() {
            // Its request ended with the session; a new session gets a confirmation of its own.
            Head::Response { .. } | Head::Notification { method: Method::Initialized } => {}
            _ if self.record.initialize().is_some() && !self.is_closed => self.requeue(entry),
            _ => self.handle_failure(entry, error),
        }
    }

    /// Puts a message back into its position in the queue, under a new ticket.
    pub(super) fn requeue(&mut self, mut entry: Box<Entry>) {
        entry.state = MessageState::Queued;
        let ticket = self.table.insert(entry);
        self.start_wait(ticket);
    }

    /// The client's `initialize` has ended without a session.
    pub(super) fn initialize_ended(&mut self, entry: &Entry) {
        // It should have replaced a lost session.
        if entry.is_opening() && self.session.not_opened(entry.ticket) {
            self.begin_reopening();
        }
    }

    /// The server turned out to speak HTTP+SSE, or its stream was reopened.
    pub(super) fn stream_opened(&mut self) {
        if self.wire == Wire::StreamableHttp {
            self.drop_urgent();
            // No message in flight but `initialize` counts towards a limit any more.
            (self.ordinary_out, self.urgent_out) = (0, 0);
            for entry in self.table.values_mut() {
                entry.envelope = None;
                let is_initialize = entry.message.is_request(&Method::Initialize);
                let Some(sent) = entry.sent_mut() else { continue };
                if !is_initialize {
                    sent.place = Place::Free;
                }
                self.ordinary_out += usize::from(sent.place == Place::Ordinary);
            }
        }
        self.wire = Wire::HttpSse { is_open: true };
        // Opening has a timeout of its own, and may have waited for a login.
        for ticket in self.table.tickets(|entry| entry.sent().is_some()) {
            self.restart_clock(ticket);
        }
    }

    /// The stream has ended, and the session with it: requests in flight get no response (C7).
    ///
    /// Or the server has rejected a message of the session; then it will reject all in flight.
    pub(super) fn stream_ended(&mut self, cause: &Error) {
        debug!("the stream is lost: {cause}");
        self.wire = Wire::HttpSse { is_open: false };
        // First, or freed places would send them.
        self.drop_urgent();
        let was_begun = self.session.opened_by().is_some();
        let is_refusal = cause.kind == ErrorKind::SessionLost;
        let is_over =
            |entry: &Entry| entry.sent().is_some() && !(is_refusal && entry.may_be_refused());
        // The session is lost before its messages are handled: that decides about them.
        let over = self.table.tickets(is_over).into_iter();
        let over: Vec<_> = over.filter_map(|ticket| self.remove_entry(ticket)).collect();
        let what = "The stream of the session has ended";
        let lost = Error::new(ErrorKind::SessionLost, what).because(cause).not_delivered();
        if was_begun {
            self.lose_session(&lost, self.now);
        } else {
            self.wait_for_server_all(&Error { kind: ErrorKind::Closed, ..lost });
        }
        for entry in over {
            self.drop_exchange(entry.ticket, Duration::ZERO);
            self.on_stream_lost(entry, cause);
        }
        // The status of the other POSTs is awaited for a moment.
        for ticket in self.table.tickets(Entry::may_be_refused) {
            let Some(entry) = self.table.get_mut(ticket) else { continue };
            let failure = entry.message.id().map(|id| lost_response(id.as_json(), cause));
            if let (Some(sent), Some(failure)) = (entry.sent_mut(), failure) {
                sent.is_left = true;
                self.linger(ticket, failure);
            }
        }
    }

    /// A message was in flight when the stream ended.
    fn on_stream_lost(&mut self, entry: Box<Entry>, cause: &Error) {
        let is_initialize = entry.message.is_request(&Method::Initialize);
        let has_begun = entry.sent().is_none_or(|sent| self.has_begun(sent));
        match entry.message.request_id() {
            Some(id) if has_begun || is_initialize => {
                let mut error = lost_response(id.as_json(), cause);
                // The server is reachable, since it closed an open stream: `initialize` need not wait.
                error.status = is_initialize.then(|| StatusCode::OK.as_u16());
                let error = if has_begun { error } else { error.not_delivered() };
                self.handle_failure(entry, error);
            }
            None if has_begun || entry.is_handshake() || entry.message.is_answer() => {
                debug!("a notification or an answer on a stream that ended may be lost");
            }
            // Not sent: it waits for the next session.
            _ => self.requeue(entry),
        }
    }
}
