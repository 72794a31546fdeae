//! What time brings: tries, patience that ends, pings; and the end, when the client has left.

use std::time::Duration;

use tokio::time::Instant;

use super::core::{Asked, Core, Out, Own, gone};
use super::recover::Try;
use super::waiting::Waiting;
use crate::error::{Delivery, Error, Kind};
use crate::limits;
use crate::message::{Head, Id, reply};

impl Core {
    /// When [`Self::tick`] is due.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        let recovery = self.recovery.wake_at(!self.waiting.is_empty());
        let keep_alive =
            self.policy.keep_alive.filter(|_| self.may_ping()).map(|k| self.active + k);
        let all = [
            recovery,
            self.waiting.wake_at(self.recovery.is_open()),
            self.leaving,
            keep_alive,
            self.stand_in_at(),
            self.look_at(),
            self.give_up_on_person_at(),
        ];
        all.into_iter().flatten().min()
    }

    pub(super) fn tick(&mut self, now: Instant, out: &mut Out) {
        while let Some(waiting) = self.waiting.pop_expired(now) {
            self.end_waiting(&waiting, now, out);
        }
        if self.recovery.is_open() {
            while let Some(rested) = self.waiting.pop_rested(now) {
                out.server(rested.message);
            }
        }
        self.try_again(now, out);
        self.stand_in(now, out);
        self.give_up_on_person(now, out);
        self.end_overdue(now, out);
        if let Some(pause) = self.policy.keep_alive
            && self.may_ping()
            && self.active + pause <= now
        {
            self.active = now;
            let id = self.own_id(Own::KeepAlive);
            out.server(reply::request(&id, "ping").own());
        }
        if self.leaving.is_some_and(|deadline| deadline <= now) {
            let error = if self.waits_for_person() { self.left_during_login() } else { late() };
            self.end_all(&error, out);
        }
    }

    /// A ping only inside of a session, and one at a time.
    fn may_ping(&self) -> bool {
        self.recovery.is_open()
            && self.in_session
            && !self.own.values().any(|o| *o == Own::KeepAlive)
    }

    pub(super) fn try_again(&mut self, now: Instant, out: &mut Out) {
        match self.recovery.try_now(now, !self.waiting.is_empty()) {
            Some(Try::Session) => self.ask_for_session(out),
            Some(Try::Message) => match self.waiting.pop_ready(now) {
                Some(first) => {
                    self.trial = Some(first.message.clone());
                    out.server(first.message);
                }
                None => self.recovery.trial_over(now),
            },
            None => {}
        }
    }

    /// A message's patience is over.
    pub(super) fn end_waiting(&mut self, waiting: &Waiting, now: Instant, out: &mut Out) {
        // Whatever befell others: this one was not sent.
        let error = self.trouble.clone().map(Error::not_delivered).unwrap_or_else(|| {
            Error::new(Kind::Connect, "The server cannot be reached").not_delivered()
        });
        match waiting.message.head() {
            Head::Request { id, .. } => {
                let id = id.clone();
                self.end(&id, &error, now, out);
            }
            _ => self.give_up(&waiting.message, &error),
        }
    }

    pub(super) fn end(&mut self, id: &Id, error: &Error, now: Instant, out: &mut Out) {
        if let Some((id, asked)) = self.close(id, now) {
            // Sent twice: whatever became of the second, the first may have been carried out.
            let delivery = if asked.was_repeated { Delivery::Unknown } else { error.delivery };
            out.client(reply::error(Some(&id), &Error { delivery, ..error.clone() }));
        }
    }

    /// The client has nothing more to say (C20, C27).
    pub(super) fn client_leaves(&mut self, now: Instant, out: &mut Out) {
        self.leaving = Some(now + self.farewell());
        for id in self.from_server.close_all() {
            self.answer_server(reply::error(Some(&id), &gone()), now, out);
        }
    }

    /// How long what is in flight may take once the client has left.
    pub(super) fn farewell(&self) -> Duration {
        if self.waits_for_person() {
            return limits::LOGIN_FAREWELL;
        }
        let limits = self
            .from_client
            .notes()
            .map(|asked| self.policy.timeouts.farewell(asked.method.properties().clock));
        let waits = if self.waiting.is_empty() { Duration::ZERO } else { self.policy.away_wait };
        limits.max().unwrap_or_default().max(waits)
    }

    /// Whether the client has left and everything that it may expect has come.
    pub(super) fn is_finished(&self) -> bool {
        let expected = |asked: &Asked| {
            self.policy.timeouts.farewell(asked.method.properties().clock) > Duration::ZERO
        };
        self.is_left() && self.waiting.is_empty() && !self.from_client.notes().any(expected)
    }

    /// Ends what is still in flight.
    pub(super) fn end_all(&mut self, error: &Error, out: &mut Out) {
        self.unanswered = 0;
        for id in self.from_client.close_all() {
            out.client(reply::error(Some(&id), error));
        }
        while self.waiting.pop().is_some() {}
    }

    pub(super) fn is_left(&self) -> bool {
        self.leaving.is_some()
    }

    /// Answers a request of the server's in the client's place.
    pub(super) fn answer_for_client(
        &mut self,
        id: &Id,
        error: &Error,
        now: Instant,
        out: &mut Out,
    ) {
        if let Some(id) = self.from_server.answered(id) {
            self.answer_server(reply::error(Some(&id), error), now, out);
        }
    }
}

/// For what is still in flight when the client has left.
pub(super) fn late() -> Error {
    Error::new(Kind::Shutdown, "The client has closed its input, and time is up")
}
