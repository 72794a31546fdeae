//! Failed messages: each is retried where the delivery table allows it, or ends with an error.

use tracing::debug;

use super::delivery::{Retry, decide};
use super::entry::{Entry, MessageState, Origin, silence_limit};
use super::{Engine, Wire, log_undelivered};
use crate::error::{Delivery, Error, ErrorKind};
use crate::limits;
use crate::message::{Method, reply};
use crate::net::backoff::doubled;
use crate::traffic::{self, Recovery};
use crate::transport::Ticket;

impl Engine {
    /// A message was not delivered or, if it is a request, gets no response.
    pub(super) fn on_failed(&mut self, ticket: Ticket, error: Error) {
        match self.may_be_answered(ticket, &error) {
            // Perhaps only the acceptance is missing.
            true => self.linger(ticket, error),
            false => self.send_failed(ticket, error),
        }
    }

    /// Waits a moment for what the server may still say about a message whose POST has failed.
    pub(super) fn linger(&mut self, ticket: Ticket, failure: Error) {
        if let Some(sent) = self.table.get_mut(ticket).and_then(Entry::sent_mut) {
            sent.failure = Some(failure);
            self.table.set_timer(ticket, Some(self.clock() + limits::LINGER));
        }
    }

    /// A message in flight has failed for good: it is retried, or ends.
    pub(super) fn send_failed(&mut self, ticket: Ticket, error: Error) {
        let Some(entry) = self.remove_entry(ticket) else { return };
        if error.kind == ErrorKind::Timeout && error.delivery == Delivery::Unknown {
            self.notify_of_timeout(&entry, &error);
        }
        self.handle_failure(entry, error);
    }

    /// Whether the response may arrive on the stream although the POST has failed.
    fn may_be_answered(&self, ticket: Ticket, error: &Error) -> bool {
        let entry = self.table.get(ticket).filter(|entry| entry.message.request_id().is_some());
        matches!(self.wire, Wire::HttpSse { .. })
            && error.kind == ErrorKind::Closed
            && error.delivery == Delivery::Unknown
            && entry.and_then(Entry::sent).is_some_and(|sent| !sent.is_left)
    }

    /// Cancels a request at the server that has timed out here (C19).
    pub(super) fn notify_of_timeout(&mut self, entry: &Entry, error: &Error) {
        if let Some(id) = entry.message.request_id()
            && entry.envelope.is_none()
            && !entry.message.is_request(&Method::Initialize)
        {
            self.notify(reply::cancelled(id, &error.message));
        }
    }

    /// Retries a failed message, or ends it.
    pub(super) fn handle_failure(&mut self, entry: Box<Entry>, error: Error) {
        let ticket = entry.ticket;
        match entry.origin {
            Origin::Client => {}
            Origin::Reopen => return self.not_reopened(ticket, error),
            Origin::Restore | Origin::KeepAlive | Origin::Notice => {
                debug!(origin = ?entry.origin, "a message of the bridge's own failed: {error}");
                return self.end(&entry, error);
            }
        }
        if proves_reachable(&entry, &error) {
            self.on_server_reachable();
        }
        let error = match entry.wire_id(self.seed) {
            Some(wire_id) => reply::about(error, &wire_id, entry.message.request_id()),
            None => error,
        };
        let is_initialize = entry.message.is_request(&Method::Initialize);
        let was_to_replace = is_initialize && self.session.not_opened(ticket);
        self.retry_or_end(entry, error);
        if was_to_replace && self.table.opening().is_none() {
            // The session is still lost, and the client does not retry: the bridge reopens it.
            self.begin_reopening();
        }
    }

    fn retry_or_end(&mut self, mut entry: Box<Entry>, error: Error) {
        let method = entry.message.method();
        let is_request = entry.message.request_id().is_some();
        let is_safe = is_request && !entry.progressed && self.record.is_safe(&entry.message);
        let verdict = decide(method, &error, is_safe, entry.was_repeated || !is_request);
        if let Some(id) = entry.message.request_id() {
            let method = method.map_or("", Method::name);
            debug!(%id, kind = %error.kind, "{method} failed, {}: {error}", verdict.describe());
        }
        if matches!(verdict, Retry::Now | Retry::WhenReachable) {
            entry.may_have_arrived |= error.delivery == Delivery::Unknown;
        }
        match verdict {
            Retry::Now => {
                entry.was_repeated = true;
                traffic::recovery(Recovery::SentAgain, Some(&error));
                self.requeue(entry);
            }
            Retry::WhenReachable => self.wait_for_server(entry, error),
            Retry::After(pause) => {
                // The server's own delay, at least a backoff, within the request's timeout.
                let backoff =
                    doubled(limits::AWAY_BASE, entry.sends.saturating_sub(1), limits::BACKOFF_CAP);
                let at = self.now + pause.max(backoff);
                let limit = silence_limit(&entry.message, &self.policy.timeouts);
                let until = match is_request {
                    true => entry.since + limit.unwrap_or(limits::WORK_TIMEOUT),
                    false => *entry.patience.get_or_insert(self.now + self.policy.away_wait),
                };
                if at > until {
                    return self.end(&entry, error);
                }
                if is_request {
                    traffic::recovery(Recovery::AskedToWait, Some(&error));
                }
                entry.state = MessageState::Delayed;
                let ticket = self.table.insert(entry);
                self.table.set_timer(ticket, Some(at));
            }
            Retry::No => self.end(&entry, error),
        }
    }

    /// The server is unreachable: the message waits for it, up to its deadline.
    fn wait_for_server(&mut self, mut entry: Box<Entry>, error: Error) {
        let from =
            if entry.message.is_request(&Method::Initialize) { entry.since } else { self.now };
        let patience = self.policy.patience(entry.message.method(), error.kind);
        let until = *entry.patience.get_or_insert(from + patience);
        self.server.mark_unreachable(entry.ticket, self.now, true);
        if until <= self.now {
            self.end(&entry, error.clone());
        } else {
            // The handshake may wait longer than what follows it.
            let opening = self.table.opening().map(|entry| entry.message.method());
            let opening = opening.map(|method| self.policy.patience(method, error.kind));
            let wait = until.saturating_duration_since(self.now).max(opening.unwrap_or_default());
            self.absence.unreachable(&error, Some(wait));
            self.requeue(entry);
        }
        self.wait_for_server_all(&error);
    }

    /// The server is unreachable: the whole queue waits for it.
    pub(super) fn wait_for_server_all(&mut self, error: &Error) {
        // No trial has this ticket: if it was unreachable before, the next try stays as scheduled.
        self.server.mark_unreachable(Ticket::default(), self.now, true);
        self.last_error = Some(error.clone());
        self.start_all_waits();
    }

    /// A message's deadline passed before it was sent.
    pub(super) fn end_waiting(&mut self, ticket: Ticket) {
        let Some(entry) = self.remove_entry(ticket) else { return };
        // The error may be another message's; this one was not sent.
        let error = match &self.last_error {
            Some(last_error) => last_error.clone().not_delivered(),
            None if self.session.is_replaced() => super::session_lost(),
            None => Error::new(ErrorKind::Connect, "The server cannot be reached").not_delivered(),
        };
        self.end(&entry, error);
    }

    /// The message ends with this error.
    pub(super) fn end(&mut self, entry: &Entry, error: Error) {
        match (entry.origin, entry.message.request_id()) {
            (Origin::Client, Some(_)) => {
                let delivery = match entry.sends {
                    0 => Delivery::NotDelivered,
                    // Whatever happened to the last send: an earlier one may have been carried out.
                    _ if entry.may_have_arrived => Delivery::Unknown,
                    _ => error.delivery,
                };
                self.fail(entry.message.clone(), Error { delivery, ..error });
            }
            (Origin::Client | Origin::Notice, _) => {
                log_undelivered(&entry.message, &error);
            }
            (Origin::Reopen | Origin::Restore | Origin::KeepAlive, _) => {}
        }
    }
}

/// Whether a failure proves that the server is reachable.
fn proves_reachable(entry: &Entry, error: &Error) -> bool {
    let by_gateway =
        entry.message.is_request(&Method::Initialize) && matches!(error.status, Some(502..=504));
    match error.kind {
        _ if error.is_unreachable() => false,
        ErrorKind::Connect
        | ErrorKind::Dns
        | ErrorKind::Tls
        | ErrorKind::Shutdown
        | ErrorKind::Proxy
        | ErrorKind::ProxyAuth => false,
        // These may have failed before anything was sent.
        ErrorKind::Credentials | ErrorKind::Login => error.status.is_some(),
        ErrorKind::Closed | ErrorKind::Timeout => {
            error.delivery == Delivery::Unknown && error.status.is_some()
        }
        _ => !by_gateway,
    }
}
