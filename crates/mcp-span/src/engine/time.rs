//! Timers: timeouts, retries, keep-alive pings, and the drain after the client has closed its input.

use std::time::Duration;

use tokio::time::Instant;
use tracing::debug;

use super::answers::gone;
use super::entry::{Entry, MessageState, Order, Origin, Sent, silence_limit};
use super::{Engine, Wire};
use crate::error::{Delivery, Error, ErrorKind};
use crate::limits;
use crate::message::reply;
use crate::transport::Ticket;
use crate::transport::http::timeout;

/// The earliest of these times. A loop: this is asked before every wait, and `flatten` costs more than
/// all else that is done there.
pub(crate) fn earliest<const N: usize>(times: [Option<Instant>; N]) -> Option<Instant> {
    let mut earliest: Option<Instant> = None;
    for time in times {
        if let Some(time) = time
            && earliest.is_none_or(|earliest| time < earliest)
        {
            earliest = Some(time);
        }
    }
    earliest
}

impl Engine {
    /// When [`Self::on_time`] is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        earliest([
            self.due().map(|(at, _)| at),
            self.table.next_wait().map(|(at, _)| at),
            self.next_retry(),
            self.drain_deadline.filter(|_| !self.is_finished()),
            self.ping_at(),
            self.login_wait_ends_at(),
            self.session.confirm_by(),
        ])
    }

    pub(crate) fn on_time(&mut self, now: Instant) {
        self.now = now;
        while let Some((_, ticket)) = self.table.next_wait().filter(|(at, _)| *at <= now) {
            self.wait_over(ticket);
        }
        if self.session.confirm_by().is_some_and(|at| at <= now) {
            self.session.not_confirmed();
            self.release();
        }
        self.retry_server();
        self.fail_login_waiters();
        self.end_overdue();
        if self.ping_at().is_some_and(|at| at <= now) {
            self.ping();
        }
        if self.drain_deadline.is_some_and(|deadline| deadline <= now) {
            let error =
                if self.login_page().is_some() { self.pending_error() } else { drain_timed_out() };
            // Whether earlier sends were carried out is unknown.
            self.end_all(&Error { delivery: Delivery::Unknown, ..error }, now);
        }
        self.dispatch();
    }

    /// The delay or the deadline of a queued message has passed.
    fn wait_over(&mut self, ticket: Ticket) {
        let Some(entry) = self.table.get_mut(ticket) else { return };
        if !matches!(entry.state, MessageState::Delayed) {
            return self.end_waiting(ticket);
        }
        entry.state = MessageState::Queued;
        let must_wait = self.table.get(ticket).is_some_and(|entry| self.must_wait(entry));
        self.table.set_timer(ticket, must_wait.then_some(self.now + self.policy.away_wait));
    }

    /// The next timeout of a message in flight. Paused while the client does not read its output.
    fn due(&self) -> Option<(Instant, Ticket)> {
        let (at, ticket) = self.table.next_due().filter(|_| self.blocked_since.is_none())?;
        Some((self.not_before.map_or(at, |not_before| at.max(not_before)), ticket))
    }

    fn end_overdue(&mut self) {
        if let Some((at, _)) = self.due()
            && self.now.saturating_duration_since(at) >= limits::STOPPED
        {
            // The process was suspended: buffered input is read first.
            self.not_before = Some(self.now + limits::STOPPED);
        }
        while let Some((_, ticket)) = self.due().filter(|(at, _)| *at <= self.now) {
            self.expire(ticket);
        }
    }

    /// A message in flight has timed out.
    fn expire(&mut self, ticket: Ticket) {
        let Some(entry) = self.table.get(ticket) else { return };
        let Some(sent) = entry.sent() else { return };
        let limit = silence_limit(&entry.message, &self.limits.timeouts).unwrap_or_default();
        let what = if entry.message.request_id().is_some() { "Request" } else { "Notify" };
        let error = match (&sent.failure, self.has_begun(sent)) {
            (Some(failure), _) => failure.clone(),
            (None, _) if self.wire == Wire::Stream => timeout("Request timeout", limit)
                .hint("Allow more time with --timeout, or look whether the server is stuck"),
            (None, true) => timeout(&format!("{what} timeout"), limit),
            (None, false) => timeout(&format!("{what} timeout"), limit).not_delivered(),
        };
        debug!("a message timed out: {error}");
        self.drop_exchange(ticket, Duration::ZERO);
        self.send_failed(ticket, error);
    }

    /// Restarts the silence timeout of a message in flight, where the engine keeps it.
    pub(super) fn restart_clock(&mut self, ticket: Ticket) {
        // The exchange keeps the time: it sees every byte.
        if self.wire == Wire::StreamableHttp {
            return;
        }
        let entry = self.table.get(ticket).filter(|entry| entry.sent().is_some());
        let limit = entry.and_then(|sent| silence_limit(&sent.message, &self.limits.timeouts));
        if let Some(due) = limit.and_then(|limit| self.clock().checked_add(limit)) {
            self.table.set_timer(ticket, Some(due));
        }
    }

    /// Whether any of a message may have been written. If not, it is withdrawn and never will be.
    pub(super) fn has_begun(&self, sent: &Sent) -> bool {
        self.wire == Wire::Stream || !sent.progress.withdraw()
    }

    /// Notes whether the client reads its output. While it does not, timeouts are paused.
    pub(crate) fn set_client_ready(&mut self, is_ready: bool, now: Instant) {
        self.now = now;
        if !is_ready {
            self.blocked_since.get_or_insert(now);
        } else if let Some(since) = self.blocked_since.take() {
            self.table.postpone_timeouts(now.saturating_duration_since(since));
        }
    }

    /// The time for timeouts of messages in flight, which stands still while they are paused.
    pub(super) fn clock(&self) -> Instant {
        self.blocked_since.unwrap_or(self.now)
    }

    /// When to ping: only inside a session, and one at a time.
    fn ping_at(&self) -> Option<Instant> {
        let is_open = self.server.is_up() && self.session.opened_by().is_some();
        let may_ping = is_open && !self.is_pinging;
        self.policy.keep_alive.filter(|_| may_ping).map(|pause| self.active + pause)
    }

    fn ping(&mut self) {
        let id = self.own_id();
        let ping = reply::request(&id, "ping", None).own();
        let entry = self.entry(Origin::KeepAlive, Order::Arrival, ping);
        self.active = self.now;
        self.is_pinging = true;
        self.enqueue(entry);
    }

    /// When requests that wait for a session have waited long enough for a person to log in.
    fn login_wait_ends_at(&self) -> Option<Instant> {
        let login = self.login.as_ref().filter(|_| self.session.is_reopening())?;
        let is_waited_for = self.login_page().is_some() && self.table.queued().any(needs_session);
        is_waited_for.then(|| login.since + self.policy.login_wait)
    }

    /// Fails requests that wait for a session that waits for a person.
    fn fail_login_waiters(&mut self) {
        if self.login_wait_ends_at().is_none_or(|at| at > self.now) {
            return;
        }
        let error = self.pending_error();
        for ticket in self.table.tickets(|entry| entry.is_in_queue() && needs_session(entry)) {
            if let Some(entry) = self.remove_entry(ticket) {
                self.end(&entry, error.clone());
            }
        }
    }

    /// The error of a request that a pending login holds up.
    pub(crate) fn pending_error(&self) -> Error {
        match (self.login_page(), &self.login, &self.last_error) {
            (Some(page), ..) => Error::login_pending(page),
            (None, Some(_), _) => {
                Error::new(ErrorKind::Login, "A login is under way, but not done yet")
                    .hint("Try again in a moment")
            }
            (None, None, Some(last_error)) => last_error.clone(),
            (None, None, None) => Error::new(ErrorKind::Login, "The server is not there yet"),
        }
        .not_delivered()
    }

    /// The client has closed its input (C20, C27).
    pub(crate) fn on_client_closed(&mut self, now: Instant) {
        self.now = now;
        self.drain_deadline = Some(now + self.drain_limit());
        for id in self.server_requests.close_all() {
            self.submit(reply::error(Some(&id), &gone()));
        }
    }

    /// How long requests in flight may take once the client has closed its input.
    pub(super) fn drain_limit(&self) -> Duration {
        if self.login_page().is_some() {
            return limits::LOGIN_DRAIN;
        }
        let waits = self.has_waiting().then_some(self.policy.away_wait);
        self.drain_limits().chain(waits).max().unwrap_or_default()
    }

    /// Whether anything waits for a server or a session.
    fn has_waiting(&self) -> bool {
        self.table.queued().any(|entry| self.is_waiting(entry))
    }

    pub(super) fn is_waiting(&self, entry: &Entry) -> bool {
        self.must_wait(entry) || matches!(entry.state, MessageState::Delayed)
    }

    /// How long each of the client's requests may still take.
    fn drain_limits(&self) -> impl Iterator<Item = Duration> {
        let requests = self.table.values().filter(|entry| is_clients_request(entry));
        requests.map(|entry| self.policy.timeouts.drain(entry.message.clock()))
    }

    /// Whether the client has closed its input and has all the responses it may expect.
    pub(crate) fn is_finished(&self) -> bool {
        self.drain_deadline.is_some()
            && !self.has_waiting()
            && !self.drain_limits().any(|limit| limit > Duration::ZERO)
    }

    /// Ends all requests of the client's, and whatever waits for a server. Requests in flight are
    /// cancelled at the server (C19).
    pub(crate) fn end_all(&mut self, error: &Error, now: Instant) {
        self.now = now;
        for ticket in self.table.tickets(is_clients_request) {
            let Some(entry) = self.remove_entry(ticket) else { continue };
            self.session.not_opened(ticket);
            let mut error = error.clone();
            if let Some(sent) = entry.sent() {
                self.drop_exchange(ticket, Duration::ZERO);
                match self.has_begun(sent) {
                    true => self.notify_of_timeout(&entry, &error),
                    false => error = error.not_delivered(),
                }
            }
            self.end(&entry, error);
        }
        for ticket in self.table.tickets(|entry| entry.sent().is_none() && self.is_waiting(entry)) {
            self.table.remove(ticket);
        }
        self.dispatch();
    }

    /// Drops queued requests: nothing waits for their responses any more.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
        let requests =
            |entry: &Entry| entry.message.request_id().is_some() && entry.sent().is_none();
        for ticket in self.table.tickets(requests) {
            self.table.remove(ticket);
        }
    }

    /// Whether all notifications and responses were accepted.
    pub(crate) fn is_idle(&self) -> bool {
        self.table.values().all(|entry| entry.message.request_id().is_some())
            && self.commands.is_empty()
    }
}

/// Whether it is a request that only leaves in a session.
fn needs_session(entry: &Entry) -> bool {
    entry.message.request_id().is_some() && entry.envelope.is_none()
}

fn is_clients_request(entry: &Entry) -> bool {
    entry.origin == Origin::Client && entry.message.request_id().is_some()
}

/// The error of requests in flight when the time after the end of input is up.
pub(crate) fn drain_timed_out() -> Error {
    Error::new(ErrorKind::Shutdown, "The client has closed its input, and time is up")
}
