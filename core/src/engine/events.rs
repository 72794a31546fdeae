//! What the dispatcher does about what the link reports: answers, acknowledgements, failures,
//! silence.

use tokio::time::Instant;
use tracing::debug;

use super::dispatch::{Dispatcher, Transport};
use super::entry::{Place, Sent};
use crate::error::{Delivery, Error, Kind};
use crate::limits;
use crate::message::{Head, Id, Message, Method, reply};
use crate::transport::Incoming;
use crate::transport::http::{Event, Ticket, timeout};

impl Dispatcher {
    pub(crate) fn on_event(&mut self, event: Event, now: Instant) {
        match event {
            Event::Message { message, answers } => self.on_message(message, answers, now),
            Event::Oversized { id, is_request, error } => {
                self.on_oversized(&id, is_request, &error, now);
            }
            Event::Accepted(ticket) => self.on_accepted(ticket, now),
            Event::Failed { ticket, error } => self.on_failed(ticket, *error, now),
            Event::Forgotten { ticket, session, error, last_word } => {
                self.on_forgotten(ticket, session, *error, last_word, now);
            }
            Event::SessionLost { session, error } => {
                if session == self.session.opened_by() {
                    self.lose_session(&error, now);
                }
            }
            Event::StreamOpened => self.stream_opened(now),
            Event::StreamEnded(error) => self.stream_ended(&error, now),
            Event::Reached => self.tell(Incoming::Reached),
            Event::LoginPending(stage) => self.tell(Incoming::LoginPending(stage)),
        }
        self.dispatch(now);
    }

    fn on_message(&mut self, message: Message, answers: Option<Ticket>, now: Instant) {
        let is_http_sse = self.transport != Transport::StreamableHttp;
        match message.head() {
            Head::Response { id, .. } => {
                let by_id = || id.as_ref().and_then(|id| self.find_answered(id));
                if let Some(ticket) = answers.or_else(by_id) {
                    self.on_answer(ticket, &message, answers.is_none(), now);
                }
            }
            Head::Notification { method: Method::Progress } if is_http_sse => {
                self.sent.progressed(&message, now);
            }
            _ => {}
        }
        self.tell(Incoming::Message(message));
    }

    /// The request that an answer with this id is for, where the wire does not tell.
    fn find_answered(&mut self, id: &Id) -> Option<Ticket> {
        match self.transport {
            Transport::StreamableHttp => self.sent.find(id),
            Transport::HttpSse { .. } => self.sent.answered(id),
        }
    }

    /// `came_elsewhere`: not on the exchange of the request, which may go on for ever.
    fn on_answer(&mut self, ticket: Ticket, answer: &Message, came_elsewhere: bool, now: Instant) {
        let Some(sent) = self.settle(ticket, now) else { return };
        if came_elsewhere {
            sent.progress.abandon();
        }
        // Some servers never acknowledge what they have answered.
        if self.transport != Transport::StreamableHttp && !sent.is_acknowledged {
            self.drop_exchange(&sent, limits::LINGER);
        }
        if sent.entry.is_request(&Method::Initialize) {
            match answer.head() {
                Head::Response { is_error: false, .. } => self.session.opened(ticket),
                _ => self.initialize_ended(&sent, None),
            }
        }
    }

    fn on_oversized(&mut self, id: &Id, is_request: bool, error: &Error, now: Instant) {
        if is_request {
            return self.notify(reply::error(Some(id), error), now);
        }
        let ticket = self.sent.answered(id);
        let Some(sent) = ticket.and_then(|ticket| self.settle(ticket, now)) else { return };
        self.drop_exchange(&sent, limits::LINGER);
        self.come_back(sent, error);
    }

    fn on_accepted(&mut self, ticket: Ticket, now: Instant) {
        let Some(sent) = self.sent.get_mut(ticket) else { return };
        sent.is_acknowledged = true;
        if sent.entry.request_id().is_none() || sent.is_left {
            let Some(sent) = self.settle(ticket, now) else { return };
            if let Some(failure) = sent.failure.clone() {
                // Taken after all, in a session whose answers nobody hears.
                self.come_back(sent, &failure);
            }
            return;
        }
        // Its answer comes by another way: the next may leave.
        if !self.limits.serial && sent.place == Place::Ordinary {
            sent.place = Place::Free;
            self.free_ordinary_place();
        }
        self.sent.restart_clock(ticket, now);
    }

    fn on_failed(&mut self, ticket: Ticket, error: Error, now: Instant) {
        if self.may_be_answered(ticket, &error) {
            // Only its acknowledgement is missing, perhaps.
            return self.sent.expect_until(ticket, now + limits::LINGER, error);
        }
        let Some(sent) = self.settle(ticket, now) else { return };
        let has_begun = error.delivery == Delivery::Unknown;
        if error.kind == Kind::Timeout && has_begun {
            self.notify_of_timeout(&sent, &error, now);
        }
        self.come_back(sent, &error);
        if error.is_unreachable() {
            // Nobody is there: what waits need not find out one by one.
            self.give_back_queued(&error, |_| true);
        }
    }

    /// Whether the answer may come on the stream although the POST has failed.
    fn may_be_answered(&mut self, ticket: Ticket, error: &Error) -> bool {
        let is_http_sse = self.transport != Transport::StreamableHttp;
        is_http_sse
            && error.kind == Kind::Closed
            && error.delivery == Delivery::Unknown
            && self
                .sent
                .get_mut(ticket)
                .is_some_and(|sent| sent.entry.request_id().is_some() && !sent.is_left)
    }

    /// C19: a request that timed out here may still run there.
    fn notify_of_timeout(&mut self, sent: &Sent, error: &Error, now: Instant) {
        let is_legacy = sent.entry.envelope.is_none();
        if let Some(id) = sent.entry.request_id().filter(|_| is_legacy)
            && !sent.entry.is_request(&Method::Initialize)
        {
            self.notify(reply::cancelled(id, &error.message), now);
        }
    }

    /// A message comes back; if it was an `initialize`, those who waited for it must know.
    pub(super) fn come_back(&mut self, sent: Sent, error: &Error) {
        self.give_back(sent.entry.message.clone(), error.clone());
        self.initialize_ended(&sent, Some(error));
    }

    /// When [`Self::on_time`] is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let overdue = self.sent.next_due();
        let overdue = overdue.map(|due| self.not_before.map_or(due, |at| due.max(at)));
        [overdue, self.give_up_at()].into_iter().flatten().min()
    }

    pub(crate) fn on_time(&mut self, now: Instant) {
        let overdue = self.deadline().filter(|_| self.sent.next_overdue(now).is_some());
        match overdue {
            // The program was stopped: what has come meanwhile is looked at first.
            Some(at) if now.saturating_duration_since(at) >= limits::STOPPED => {
                self.not_before = Some(now + limits::STOPPED);
            }
            Some(at) if at <= now => {
                while let Some(ticket) = self.sent.next_overdue(now) {
                    self.expire(ticket, now);
                }
            }
            _ => {}
        }
        if self.give_up_at().is_some_and(|at| at <= now) {
            self.give_up_on_session();
        }
        self.dispatch(now);
    }

    /// Time in which nobody could take what the server said does not count.
    pub(crate) fn pause_clocks(&mut self, by: std::time::Duration) {
        self.sent.pause_clocks(by);
    }

    /// Nothing was heard of a message for too long.
    fn expire(&mut self, ticket: Ticket, now: Instant) {
        let Some(mut sent) = self.settle(ticket, now) else { return };
        self.drop_exchange(&sent, std::time::Duration::ZERO);
        let has_begun = !sent.progress.withdraw();
        let what = if sent.entry.request_id().is_some() { "Request" } else { "Notify" };
        let limit = sent.limit.unwrap_or_default();
        let error = match sent.failure.take() {
            Some(failure) => failure,
            None if has_begun => timeout(&format!("{what} timeout"), limit),
            None => timeout(&format!("{what} timeout"), limit).not_delivered(),
        };
        if has_begun && !sent.is_left {
            self.notify_of_timeout(&sent, &error, now);
        }
        debug!("nothing was heard of a message: {error}");
        self.come_back(sent, &error);
    }
}
