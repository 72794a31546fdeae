//! What becomes of messages when their session is lost: they wait for the next one, in order, or
//! come back.

use std::time::Duration;

use http::StatusCode;
use tokio::time::Instant;
use tracing::debug;

use super::dispatch::{Dispatcher, Transport};
use super::entry::{Entry, Sent};
use crate::error::{Error, Kind};
use crate::limits;
use crate::message::{Head, Message, Method};
use crate::traffic::{self, Recovery};
use crate::transport::Incoming;
use crate::transport::http::{Ticket, lost_response};

impl Dispatcher {
    /// A message met the loss. If it has done so before, the server's own words are the answer.
    pub(super) fn on_forgotten(
        &mut self,
        ticket: Ticket,
        session: Option<Ticket>,
        error: Error,
        last_word: Option<Message>,
        now: Instant,
    ) {
        let sent = self.settle(ticket, now);
        if !sent.as_ref().is_some_and(|sent| sent.entry.is_last_try()) {
            // Also if nobody waits for the message any more.
            let is_current = session.is_some() && session == self.session.opened_by();
            match (self.transport, &sent) {
                (Transport::StreamableHttp, _) if is_current => self.lose_session(&error, now),
                (Transport::HttpSse { .. }, None) if is_current => self.stream_ended(&error, now),
                (Transport::HttpSse { .. }, Some(sent)) if !sent.is_left => {
                    self.stream_ended(&error, now);
                }
                _ => {}
            }
            if let Some(sent) = sent {
                self.wait_for_session(sent.entry, error);
            }
            return;
        }
        let Some(sent) = sent else { return };
        match last_word {
            Some(answer) => self.tell(Incoming::Message(answer)),
            // Neither it nor the session is lost: it was refused.
            None => {
                self.give_back(sent.entry.message, Error { kind: Kind::Status, ..error });
            }
        }
    }

    /// The session is no more; whoever has opened it can open another.
    pub(super) fn lose_session(&mut self, error: &Error, now: Instant) {
        self.drop_urgent();
        if self.session.lose(error, now) {
            traffic::recovery(Recovery::SessionLost, Some(error));
            self.tell(Incoming::SessionLost);
        }
    }

    /// A message waits for the next session.
    fn wait_for_session(&mut self, mut entry: Entry, error: Error) {
        entry.losses += 1;
        self.note_return(&entry.message);
        match entry.message.head() {
            // The request died with its session; a new session is confirmed by itself.
            Head::Response { .. } => {}
            Head::Notification { method: Method::Initialized } => {}
            _ if self.session.can_reopen() && !self.is_closed => self.requeue(entry),
            _ => self.give_back(entry.message, error),
        }
    }

    /// An `initialize` has ended without a session. If it should have replaced a lost one, those who
    /// wait for one wait in vain.
    pub(super) fn initialize_ended(&mut self, sent: &Sent, failure: Option<&Error>) {
        if !sent.entry.is_request(&Method::Initialize) {
            return;
        }
        if self.session.not_opened(sent.ticket) {
            // They were not sent, whatever became of it; they wait if it may be repeated.
            let error = match failure {
                Some(failure) if !is_final(failure) => {
                    Error { kind: Kind::Closed, ..failure.clone().not_delivered() }
                }
                failure => {
                    let error = Error::new(Kind::SessionLost, "The server opened no new session");
                    failure.into_iter().cloned().fold(error, Error::because).not_delivered()
                }
            };
            self.give_back_queued(&error, |entry| entry.envelope.is_none());
        }
        if self.session.take_untold() {
            self.tell(Incoming::SessionLost);
        }
    }

    /// Until when messages wait for somebody to open a session.
    pub(super) fn give_up_at(&self) -> Option<Instant> {
        let (since, _) = self.session.lost_since()?;
        // Modern requests wait for a place at most.
        self.queue.iter().find(|entry| entry.envelope.is_none())?;
        // Nobody has asked for one yet; or it was asked for, and takes its time.
        let asked = self.limits.timeouts.quick.unwrap_or(limits::QUICK_TIMEOUT);
        let is_lost = self.session.is_lost();
        Some(since + if is_lost { self.limits.away_wait.min(asked) } else { asked })
    }

    /// Nobody has opened one in time.
    pub(super) fn give_up_on_session(&mut self) {
        let Some((_, error)) = self.session.lost_since() else { return };
        let error = error.clone();
        self.give_back_queued(&error, |entry| entry.envelope.is_none());
    }

    /// The server turned out to speak HTTP+SSE, or its stream is open again.
    pub(super) fn stream_opened(&mut self, now: Instant) {
        if self.transport == Transport::StreamableHttp {
            self.drop_urgent();
            self.keep_places_of(|entry| entry.is_request(&Method::Initialize));
            self.sent.index(&self.limits.timeouts, now);
        }
        self.transport = Transport::HttpSse { is_open: true };
        // Opening took its own time, and perhaps a login.
        self.sent.restart_clocks(now);
    }

    /// The stream has ended, and the session with it: what waited for an answer gets none (C7).
    ///
    /// Or the server has refused a message for it; then it will refuse all that are out.
    pub(super) fn stream_ended(&mut self, cause: &Error, now: Instant) {
        debug!("the stream is lost: {cause}");
        self.transport = Transport::HttpSse { is_open: false };
        // None of them may be sent on its way while others give up their places.
        self.drop_urgent();
        let was_begun = self.session.opened_by().is_some();
        let is_refusal = cause.kind == Kind::SessionLost;
        for ticket in self.sent.tickets(|sent| !is_refusal || !sent.may_be_refused()) {
            let Some(sent) = self.settle(ticket, now) else { continue };
            self.drop_exchange(&sent, Duration::ZERO);
            self.left_behind(sent, cause);
        }
        // What becomes of the other POSTs is heard for a moment.
        for ticket in self.sent.tickets(|_| true) {
            let Some(sent) = self.sent.get_mut(ticket) else { continue };
            sent.is_left = true;
            if let Some(id) = sent.entry.request_id() {
                let failure = lost_response(id.as_json(), cause);
                self.sent.expect_until(ticket, now + limits::LINGER, failure);
            }
        }
        let what = "The stream of the session has ended";
        let lost = Error::new(Kind::SessionLost, what).because(cause).not_delivered();
        if was_begun {
            self.lose_session(&lost, now);
        } else {
            self.give_back_queued(&Error { kind: Kind::Closed, ..lost }, |_| true);
        }
    }

    /// A message was out when the stream ended.
    fn left_behind(&mut self, sent: Sent, cause: &Error) {
        let is_initialize = sent.entry.is_request(&Method::Initialize);
        let has_begun = !sent.progress.withdraw();
        match sent.entry.request_id() {
            Some(id) if has_begun || is_initialize => {
                let mut error = lost_response(id.as_json(), cause);
                // The stream was open: whoever ends it is there, and `initialize` need not wait.
                error.status = is_initialize.then(|| StatusCode::OK.as_u16());
                let error = if has_begun { error } else { error.not_delivered() };
                self.come_back(sent, &error);
            }
            // Never sent: it waits for the next session.
            Some(_) => self.requeue(sent.entry),
            None if has_begun || sent.entry.is_notification(&Method::Initialized) => {
                debug!("a notification on a stream that ended may be lost");
            }
            None if !sent.entry.is_answer() => self.requeue(sent.entry),
            None => debug!("an answer to a request of a lost session was dropped"),
        }
    }
}

/// Whether the server has refused a new session, rather than failed to open one.
fn is_final(failure: &Error) -> bool {
    failure.retry_after.is_none() && failure.status.is_some_and(|status| status < 502)
}
