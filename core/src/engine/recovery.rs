//! Recovery from an unreachable server and from a lost session: one message at a time tries the server;
//! a session is reopened with the client's own `initialize`, and its state is restored.

use std::time::Duration;

use http::StatusCode;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::delivery::{Retry, decide};
use super::entry::{Entry, Order, Origin, Place, Purpose, State};
use super::{Engine, Output, Wire, session_lost};
use crate::error::{Error, Kind};
use crate::limits;
use crate::message::{Head, Message, Method, edit, reply};
use crate::traffic::{self, Recovery};
use crate::transport::http::{Ticket, lost_response};

impl Engine {
    /// The server is reachable.
    pub(super) fn on_server_reachable(&mut self, now: Instant) {
        let has_session = !self.session.is_awaited();
        if self.server.mark_reachable(has_session) && has_session {
            self.absence.reachable();
            self.release(now);
        }
    }

    /// Tries an unreachable server, or reopens a lost session, if it is time.
    pub(super) fn retry_server(&mut self, now: Instant) {
        if self.next_retry().is_none_or(|at| at > now) {
            return;
        }
        if self.session.is_lost() && self.table.opening().is_none() {
            return self.ask_for_session(now);
        }
        if let Some((ticket, _)) = self.next_ready() {
            self.server.start_trial(ticket);
            self.send(ticket, Place::Ordinary, now);
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
        if self.session.is_lost()
            && self.table.opening().is_none()
            && self.record.initialize().is_some()
        {
            let at = self.session.reopen_at(!self.table.is_queue_empty())?;
            return Some(server.map_or(at, |server| server.max(at)));
        }
        server.filter(|_| self.next_ready().is_some())
    }

    /// The server no longer knows the session: opens another.
    pub(crate) fn lose_session(&mut self, error: &Error, now: Instant) {
        self.drop_urgent();
        if self.record.initialize().is_none() {
            return;
        }
        let was_lost = self.session.is_awaited();
        self.session.lose(now);
        self.start_all_waits(now);
        if !was_lost && self.session.is_lost() {
            traffic::recovery(Recovery::SessionLost, Some(error));
            self.begin_reopening(now);
        }
    }

    pub(super) fn begin_reopening(&mut self, now: Instant) {
        self.outputs.push_back(Output::SessionLost);
        self.cancel_server_requests();
        self.last_error.get_or_insert_with(session_lost);
        // A server that rejects the session is reachable.
        if !self.server.is_delayed(now) {
            self.server.mark_reachable(false);
        }
        self.retry_server(now);
    }

    /// The server's requests of the old session need no response any more: cancels them at the client.
    pub(super) fn cancel_server_requests(&mut self) {
        for ticket in self.table.tickets(|entry| entry.is_answer() && entry.sent().is_none()) {
            self.table.remove(ticket);
        }
        for id in self.server_requests.invalidate() {
            let why = "the session in which it was asked is no more";
            self.send_to_client(reply::cancelled(&id, why));
        }
    }

    /// Repeats the client's `initialize` under an id of the bridge's own.
    pub(super) fn ask_for_session(&mut self, now: Instant) {
        // Those of a handshake that failed.
        self.cancel_server_requests();
        debug!("the session was lost: a new one is opened");
        let id = self.own_id();
        let Some(initialize) = self.record.initialize() else { return };
        let initialize = edit::with_id(initialize, &id).own();
        let order = Order::Restoring(self.numbers.next());
        let entry = Entry::new(Origin::Bridge(Purpose::Reopen), initialize, order, now);
        let ticket = self.numbers.ticket();
        self.table.insert(ticket, entry);
        self.server.start_trial(ticket);
        self.send(ticket, Place::Ordinary, now);
    }

    /// A request of the bridge's own has its response.
    pub(super) fn own_answered(
        &mut self,
        purpose: Purpose,
        ticket: Ticket,
        answer: &Message,
        now: Instant,
    ) {
        let is_error = matches!(answer.head(), Head::Response { is_error: true, .. });
        match purpose {
            Purpose::Reopen if !is_error => {
                self.session.opened(ticket, now);
                self.reopened(answer, now);
            }
            Purpose::Reopen => {
                self.session.not_opened(ticket);
                if self.is_promised {
                    let text = "The server refused to open a session";
                    return self.promise_failed(ticket, Error::new(Kind::Login, text), now);
                }
                let refused = "The server has lost the session and refuses a new one";
                self.session_refused(Error::new(Kind::SessionLost, refused), now);
            }
            Purpose::Restore if is_error => {
                warn!("the new session did not take over a subscription or the log level");
            }
            Purpose::Restore | Purpose::KeepAlive | Purpose::Notice => {}
        }
    }

    /// A message of the bridge's own was not delivered, or gets no response.
    pub(super) fn own_failed(
        &mut self,
        purpose: Purpose,
        ticket: Ticket,
        entry: &Entry,
        error: Error,
        now: Instant,
    ) {
        match purpose {
            Purpose::Reopen => {}
            Purpose::Notice => return super::log_undelivered(&entry.message, &error),
            Purpose::Restore | Purpose::KeepAlive => {
                return debug!(
                    "a request of the bridge's own, {}, failed: {error}",
                    purpose.describe()
                );
            }
        }
        self.session.not_opened(ticket);
        if self.is_promised {
            return self.promise_failed(ticket, error, now);
        }
        match decide(Some(&Method::Initialize), &error, true, false) {
            Retry::WhenReachable | Retry::Now => {
                let somebody_waits = !self.table.is_queue_empty();
                let wait = somebody_waits.then_some(self.policy.away_wait);
                self.absence.unreachable(&error, wait);
                self.last_error = Some(error);
                // The queue now waits for an unreachable server, not for a handshake (C37).
                self.shorten_waits(now + self.policy.away_wait);
                self.server.mark_unreachable(ticket, now, somebody_waits);
            }
            Retry::After(pause) => {
                self.last_error = Some(error);
                self.server.delay(now, pause);
            }
            Retry::No => return self.session_refused(error, now),
        }
        self.start_all_waits(now);
    }

    /// The session that the stand-in has promised was not opened. An unreachable or failing server is
    /// retried like any other; else the client's next call does that.
    fn promise_failed(&mut self, ticket: Ticket, error: Error, now: Instant) {
        let is_out_of_order =
            error.kind == Kind::Status && error.status.is_some_and(|status| status >= 500);
        match decide(Some(&Method::Initialize), &error, true, false) {
            Retry::After(pause) => self.server.delay(now, pause),
            Retry::No if !is_out_of_order => self.session.refused(now),
            Retry::WhenReachable | Retry::Now | Retry::No => {
                self.server.mark_unreachable(ticket, now, false);
            }
        }
        self.last_error = Some(error);
        self.start_all_waits(now);
    }

    fn shorten_waits(&mut self, until: Instant) {
        let waiting = self.table.queued().filter(|(_, e)| !matches!(e.state, State::Delayed(_)));
        let later = waiting.filter(|(_, e)| e.timer.is_some_and(|at| at > until));
        for ticket in later.map(|(ticket, _)| ticket).collect::<Vec<_>>() {
            self.table.set_timer(ticket, Some(until));
        }
    }

    /// The new session is open: restores its state, then sends the queue.
    fn reopened(&mut self, answer: &Message, now: Instant) {
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
        let (confirmation, rest) = self.record.to_restore();
        let confirmation = confirmation.cloned();
        let rest: Vec<Message> = rest.cloned().collect();
        let confirmation =
            confirmation.unwrap_or_else(|| reply::notification("notifications/initialized"));
        self.restore(Purpose::Notice, confirmation, now);
        for message in rest {
            let id = self.own_id();
            self.restore(Purpose::Restore, edit::with_id(&message, &id).own(), now);
        }
        self.dispatch(now);
        for method in offered.lists_changed(&before) {
            self.send_to_client(reply::notification(method));
        }
    }

    fn restore(&mut self, purpose: Purpose, message: Message, now: Instant) {
        let order = Order::Restoring(self.numbers.next());
        let ticket = self.numbers.ticket();
        self.table.insert(ticket, Entry::new(Origin::Bridge(purpose), message, order, now));
    }

    /// The server refuses a session: fails the queue; the next message tries again.
    fn session_refused(&mut self, error: Error, now: Instant) {
        self.session.refused(now);
        self.server.mark_reachable(false);
        traffic::recovery(Recovery::SessionRefused, Some(&error));
        self.last_error = Some(error);
        let waiting = self.table.queued().filter(|(_, entry)| entry.envelope.is_none());
        for ticket in waiting.map(|(ticket, _)| ticket).collect::<Vec<_>>() {
            self.end_waiting(ticket, now);
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
        now: Instant,
    ) {
        let is_left = self.table.get(ticket).and_then(Entry::sent).is_some_and(|sent| sent.is_left);
        let entry = self.remove_entry(ticket, now);
        if let Some(entry) = entry.as_ref().filter(|entry| entry.is_last_try()) {
            return match last_word {
                Some(answer) => self.finish(ticket, entry, answer, now),
                // The rejection is not about the session.
                None => {
                    let error = Error { kind: Kind::Status, ..error };
                    self.end_request(entry, error);
                }
            };
        }
        // Even if the message was cancelled meanwhile.
        let is_current = session.is_some() && session == self.session.opened_by();
        match (self.wire, &entry) {
            (Wire::StreamableHttp, _) if is_current => self.lose_session(&error, now),
            (Wire::HttpSse { .. }, None) if is_current => self.stream_ended(&error, now),
            (Wire::HttpSse { .. }, Some(_)) if !is_left => self.stream_ended(&error, now),
            _ => {}
        }
        if let Some(entry) = entry {
            self.wait_for_session(ticket, entry, error, now);
        }
    }

    /// Requeues a message for the next session.
    fn wait_for_session(
        &mut self,
        ticket: Ticket,
        mut entry: Box<Entry>,
        error: Error,
        now: Instant,
    ) {
        entry.losses += 1;
        match entry.message.head() {
            // Its request ended with the session; a new session gets a confirmation of its own.
            Head::Response { .. } => {}
            Head::Notification { method: Method::Initialized } => {}
            _ if self.record.initialize().is_some() && !self.is_closed => {
                self.requeue(entry, now);
            }
            _ => self.handle_failure(ticket, entry, error, now),
        }
    }

    /// Puts a message back into its position in the queue, under a new ticket.
    pub(super) fn requeue(&mut self, mut entry: Box<Entry>, now: Instant) {
        if !matches!(entry.state, State::Delayed(_)) {
            entry.state = State::Queued;
        }
        let wake = match entry.state {
            State::Delayed(at) => Some(at),
            _ => None,
        };
        let ticket = self.numbers.ticket();
        self.table.insert(ticket, entry);
        match wake {
            Some(_) => self.table.set_timer(ticket, wake),
            None => self.start_wait(ticket, now),
        }
    }

    /// The client's `initialize` has ended without a session.
    pub(super) fn initialize_ended(&mut self, ticket: Ticket, entry: &Entry, now: Instant) {
        if !entry.is_request(&Method::Initialize) || entry.origin != Origin::Client {
            return;
        }
        // It should have replaced a lost session.
        if self.session.not_opened(ticket) {
            self.begin_reopening(now);
        }
    }

    /// The server turned out to speak HTTP+SSE, or its stream was reopened.
    pub(super) fn stream_opened(&mut self, now: Instant) {
        if self.wire == Wire::StreamableHttp {
            self.drop_urgent();
            self.free_all_places();
            let timeouts = self.limits.timeouts;
            for entry in self.table.values_mut() {
                entry.envelope = None;
                let limit = super::silence_limit(&entry.message, &timeouts);
                if let Some(sent) = entry.sent_mut() {
                    sent.limit = limit;
                }
            }
        }
        self.wire = Wire::HttpSse { is_open: true };
        // Opening has a timeout of its own, and may have waited for a login.
        for ticket in self.table.tickets(|entry| entry.sent().is_some()) {
            self.table.restart_clock(ticket, self.clock(now));
        }
    }

    /// The stream has ended, and the session with it: requests in flight get no response (C7).
    ///
    /// Or the server has rejected a message of the session; then it will reject all in flight.
    pub(super) fn stream_ended(&mut self, cause: &Error, now: Instant) {
        debug!("the stream is lost: {cause}");
        self.wire = Wire::HttpSse { is_open: false };
        // First, or freed places would send them.
        self.drop_urgent();
        let was_begun = self.session.opened_by().is_some();
        let is_refusal = cause.kind == Kind::SessionLost;
        let is_over =
            |entry: &Entry| entry.sent().is_some() && !(is_refusal && entry.may_be_refused());
        // The session is lost before its messages are handled: that decides about them.
        let over: Vec<_> = self.table.tickets(is_over);
        let over: Vec<_> =
            over.into_iter().filter_map(|t| Some((t, self.remove_entry(t, now)?))).collect();
        let what = "The stream of the session has ended";
        let lost = Error::new(Kind::SessionLost, what).because(cause).not_delivered();
        if was_begun {
            self.lose_session(&lost, now);
        } else {
            self.wait_for_server_all(&Error { kind: Kind::Closed, ..lost }, now);
        }
        for (ticket, entry) in over {
            self.drop_exchange(ticket, Duration::ZERO);
            self.on_stream_lost(ticket, entry, cause, now);
        }
        // The status of the other POSTs is awaited for a moment.
        for ticket in self.table.tickets(Entry::may_be_refused) {
            let Some(entry) = self.table.get_mut(ticket) else { continue };
            let failure = entry.request_id().map(|id| lost_response(id.as_json(), cause));
            let Some(sent) = entry.sent_mut() else { continue };
            sent.is_left = true;
            if let Some(failure) = failure {
                sent.failure = Some(failure);
                self.table.set_timer(ticket, Some(self.clock(now) + limits::LINGER));
            }
        }
    }

    /// A message was in flight when the stream ended.
    fn on_stream_lost(&mut self, ticket: Ticket, entry: Box<Entry>, cause: &Error, now: Instant) {
        let is_initialize = entry.is_request(&Method::Initialize);
        let has_begun = entry.sent().is_none_or(|sent| self.has_begun(sent));
        match entry.request_id() {
            Some(id) if has_begun || is_initialize => {
                let mut error = lost_response(id.as_json(), cause);
                // The server is reachable, since it closed an open stream: `initialize` need not wait.
                error.status = is_initialize.then(|| StatusCode::OK.as_u16());
                let error = if has_begun { error } else { error.not_delivered() };
                self.handle_failure(ticket, entry, error, now);
            }
            // Not sent: it waits for the next session.
            Some(_) => self.requeue(entry, now),
            None if has_begun || entry.is_notification(&Method::Initialized) => {
                debug!("a notification on a stream that ended may be lost");
            }
            None if !entry.is_answer() => self.requeue(entry, now),
            None => debug!("an answer to a request of a lost session was dropped"),
        }
    }
}
