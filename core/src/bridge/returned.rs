//! Messages that came back: each ends with an error, or is sent again where the table allows it.

use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, warn};

use super::core::{Core, Out};
use super::delivery::{Again, again};
use super::waiting::Waiting;
use crate::error::{Delivery, Error, Kind};
use crate::limits;
use crate::message::{Head, Id, Message, Method, reply};
use crate::traffic::{self, Recovery};

impl Core {
    pub(super) fn failed(&mut self, message: Message, error: Error, now: Instant, out: &mut Out) {
        let was_trial = self.trial.as_ref() == Some(&message);
        self.sort_out(message, error, now, out);
        if was_trial {
            self.trial = None;
            // Unless it was found out that the server is still away, the next may be tried.
            self.recovery.trial_over(now);
        }
    }

    fn sort_out(&mut self, message: Message, error: Error, now: Instant, out: &mut Out) {
        if let Head::Request { id, .. } = message.head()
            && let Some(own) = self.own.remove(id)
        {
            return self.own_failed(own, &error, now, out);
        }
        if shows_life(&message, &error) {
            self.server_is_there(now, out);
        }
        match message.head().clone() {
            Head::Request { id, .. } => self.request_failed(&id, message, error, now, out),
            _ => self.telling_failed(message, error, now),
        }
    }

    /// Whether `message` has been at the server before, as far as anybody knows.
    pub(super) fn is_repeated(&mut self, message: &Message) -> bool {
        let Head::Request { id, .. } = message.head() else { return false };
        if !self.has_repeated {
            return false;
        }
        self.from_client.get_mut(id).is_some_and(|asked| asked.was_repeated)
    }

    fn request_failed(
        &mut self,
        id: &Id,
        message: Message,
        error: Error,
        now: Instant,
        out: &mut Out,
    ) {
        let is_safe = self.record.is_safe(&message);
        let policy = self.policy.clone();
        let Some(asked) = self.from_client.get_mut(id) else { return };
        let verdict = again(Some(&asked.method), &error, is_safe, asked.was_repeated);
        debug!(%id, kind = %error.kind, "{} came back, {}: {error}", asked.method, verdict.words());
        let order = asked.order;
        match verdict {
            Again::Now => {
                asked.was_repeated = true;
                self.has_repeated = true;
                traffic::recovery(Recovery::SentAgain, Some(&error));
                self.send_or_hold(message, now, out);
            }
            Again::WhenBack => {
                let from = if asked.method == Method::Initialize { asked.since } else { now };
                let patience = policy.patience(&asked.method, error.kind);
                let until = *asked.until.get_or_insert(from + patience);
                if until <= now {
                    self.recovery.unreachable(now, true);
                    return self.end(id, &error, now, out);
                }
                let waiting = Waiting { message, not_before: None, until, order };
                self.wait_for_server(waiting, error, now);
            }
            Again::After(pause) => {
                // Its own pause, but never a storm, and not beyond the request's own time.
                let pause = pause.max(pause_after(asked.pauses));
                asked.pauses += 1;
                let limit = policy
                    .timeouts
                    .of(asked.method.properties().clock)
                    .unwrap_or(limits::WORK_TIMEOUT);
                let at = now + pause;
                if at > asked.since + limit {
                    return self.end(id, &error, now, out);
                }
                traffic::recovery(Recovery::AskedToWait, Some(&error));
                let until = at + policy.away_wait;
                self.waiting.push(Waiting { message, not_before: Some(at), until, order });
            }
            Again::No => match self.answer_during_login(&message, &error) {
                Some(answer) => {
                    if let Some((id, _)) = self.close(id, now) {
                        out.client(reply::own_result(&id, &answer));
                    }
                }
                None => self.end(id, &error, now, out),
            },
        }
    }

    /// Notifications and answers have nobody who waits for them, but are not lost for that.
    fn telling_failed(&mut self, message: Message, error: Error, now: Instant) {
        let away_wait = self.policy.away_wait;
        let Some(told) = self.told.iter_mut().find(|told| told.message == message) else {
            return self.give_up(&message, &error);
        };
        let until = *told.until.get_or_insert(now + away_wait);
        let order = told.order;
        let not_before = match again(message.method(), &error, false, true) {
            Again::WhenBack => None,
            Again::After(pause) => {
                let pause = pause.max(pause_after(told.pauses));
                told.pauses += 1;
                Some(now + pause)
            }
            Again::Now | Again::No => return self.give_up(&message, &error),
        };
        if not_before.unwrap_or(now) >= until {
            // One who asks for a pause is there.
            if not_before.is_none() {
                self.recovery.unreachable(now, true);
            }
            return self.give_up(&message, &error);
        }
        let waiting = Waiting { message, not_before, until, order };
        match not_before {
            Some(_) => self.waiting.push(waiting),
            None => self.wait_for_server(waiting, error, now),
        }
    }

    pub(super) fn give_up(&self, message: &Message, error: &Error) {
        let what = message.method().map_or("an answer", Method::name);
        warn!(kind = %error.kind, "{what} did not reach the server: {error}");
    }

    fn wait_for_server(&mut self, waiting: Waiting, error: Error, now: Instant) {
        // The handshake is waited for longer than what came behind it, and may come back later.
        let opening = self.opening.as_ref();
        let opening = opening.map(|_| self.policy.patience(&Method::Initialize, error.kind));
        let wait = waiting.until.saturating_duration_since(now);
        self.absence.unreachable(&error, Some(wait.max(opening.unwrap_or_default())));
        self.waiting.push(waiting);
        self.trouble = Some(error);
        self.recovery.unreachable(now, true);
    }
}

/// Whether a failure shows that the server is there, if not in order.
fn shows_life(message: &Message, error: &Error) -> bool {
    let by_gateway =
        message.method() == Some(&Method::Initialize) && matches!(error.status, Some(502..=504));
    match error.kind {
        _ if error.is_unreachable() => false,
        Kind::Connect | Kind::Dns | Kind::Tls | Kind::Shutdown => false,
        // They may have failed before anything was sent.
        Kind::Credentials | Kind::Login => error.status.is_some(),
        Kind::Proxy | Kind::ProxyAuth => false,
        Kind::Closed | Kind::Timeout => {
            error.delivery == Delivery::Unknown && error.status.is_some()
        }
        _ => !by_gateway,
    }
}

/// The least pause before the n-th repetition that a server asks for.
fn pause_after(pauses: u32) -> Duration {
    limits::AWAY_BASE.saturating_mul(1 << pauses.min(9)).min(limits::BACKOFF_CAP)
}
