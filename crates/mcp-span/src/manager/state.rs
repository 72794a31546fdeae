//! The state of one server, and what each thing that happens leads to. Pure.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::RetryPolicy;
use super::backoff::RetryBackoff;
use super::breaker::{CircuitBreaker, TooMany};
use crate::error::Error;
use crate::limits;

/// The state of a server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ServerState {
    /// The server is being connected to, or its program started.
    Connecting {
        /// Which try this is, or will be after a pause; 1 is the first.
        attempt: u32,
        /// Why the last try failed, or why the connection has ended.
        why: Option<Arc<Error>>,
    },
    /// The server waits for a person to log in. It is connected to as soon as that is done.
    #[non_exhaustive]
    NeedsLogin {
        /// The page to open.
        url: Arc<str>,
        /// The same in words, with the code to enter where there is one.
        why: Arc<Error>,
    },
    /// The server is connected.
    Ready,
    /// The server could not be reached over a connection that stands. It is pinged until it answers.
    Degraded(Arc<Error>),
    /// The server cannot be connected to. A caller has it tried again; a remote server that had been
    /// connected is also tried again now and then.
    Failed(Arc<Error>),
    /// The server ends again and again, and is left alone for a while.
    Suspended(Arc<Error>),
    /// The server was removed, or the manager closed.
    Closed,
}

impl ServerState {
    /// The stable text form.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Connecting { .. } => "connecting",
            Self::NeedsLogin { .. } => "needs-login",
            Self::Ready => "ready",
            Self::Degraded(_) => "degraded",
            Self::Failed(_) => "failed",
            Self::Suspended(_) => "suspended",
            Self::Closed => "closed",
        }
    }

    /// What is wrong, if anything is.
    #[must_use]
    pub fn why(&self) -> Option<&Error> {
        match self {
            Self::Connecting { why, .. } => why.as_deref(),
            Self::NeedsLogin { why, .. }
            | Self::Degraded(why)
            | Self::Failed(why)
            | Self::Suspended(why) => Some(why),
            Self::Ready | Self::Closed => None,
        }
    }
}

/// What is to be done now; `W` is somebody who waits for a connection.
#[derive(Debug)]
pub(super) enum Action<W> {
    /// Connect, or start the program.
    Connect,
    /// Find out whether the server is back.
    Ping,
    /// Here is the connection.
    Serve(W),
    /// There is none, because of this state.
    Refuse(W, ServerState),
}

#[derive(Clone, Debug, PartialEq)]
enum Phase {
    /// A try is under way; `is_last`: no quick one follows it.
    Connecting {
        is_last: bool,
    },
    /// The next quick try is at `until`.
    Pausing {
        until: Option<Instant>,
    },
    Ready,
    /// The next ping is at `ping_at`; `None` while one is under way.
    Degraded {
        ping_at: Option<Instant>,
    },
    /// All quick tries have failed; the next slow one is at `until`.
    Failed {
        until: Option<Instant>,
    },
    /// There were too many tries.
    Suspended {
        until: Option<Instant>,
    },
    Closed,
}

/// The state machine of one server, without its connections and its clock.
#[derive(Debug)]
pub(super) struct Machine<W> {
    phase: Phase,
    backoff: RetryBackoff,
    breaker: CircuitBreaker,
    /// Those who wait for a connection, and until when.
    waiting: Vec<(W, Instant)>,
    why: Option<Arc<Error>>,
    /// What a person has to do, if a login is pending.
    login: Option<ServerState>,
    /// How long those who wait do so while a login is pending.
    login_wait: Duration,
    attempt: u32,
    last_start: Instant,
    is_remote: bool,
    has_been_ready: bool,
    actions: VecDeque<Action<W>>,
}

impl<W> Machine<W> {
    /// A server that is connected to right now: the first action says so.
    pub(super) fn new(
        is_remote: bool,
        retry: &RetryPolicy,
        login_wait: Duration,
        now: Instant,
    ) -> Self {
        Self {
            phase: Phase::Connecting { is_last: false },
            backoff: RetryBackoff::new(retry.clone()),
            breaker: CircuitBreaker::new(retry.max_reconnects, retry.window),
            waiting: Vec::new(),
            why: None,
            login: None,
            login_wait,
            attempt: 1,
            last_start: now,
            is_remote,
            has_been_ready: false,
            actions: VecDeque::from([Action::Connect]),
        }
    }

    /// What is to be done next.
    pub(super) fn next_action(&mut self) -> Option<Action<W>> {
        self.actions.pop_front()
    }

    pub(super) fn state(&self) -> ServerState {
        let connecting = |attempt| ServerState::Connecting { attempt, why: self.why.clone() };
        match (&self.phase, &self.login, &self.why) {
            (Phase::Closed, ..) => ServerState::Closed,
            (Phase::Connecting { .. } | Phase::Ready | Phase::Degraded { .. }, Some(login), _) => {
                login.clone()
            }
            (Phase::Ready, ..) => ServerState::Ready,
            (Phase::Degraded { .. }, _, Some(why)) => ServerState::Degraded(Arc::clone(why)),
            (Phase::Suspended { .. }, _, Some(why)) => ServerState::Suspended(Arc::clone(why)),
            // What is tried once more for a caller has failed until it succeeds.
            (Phase::Failed { .. } | Phase::Connecting { is_last: true }, _, Some(why)) => {
                ServerState::Failed(Arc::clone(why))
            }
            (Phase::Pausing { .. }, ..) => connecting(self.attempt.saturating_add(1)),
            _ => connecting(self.attempt),
        }
    }

    /// A caller wants the connection, and waits for it until then.
    pub(super) fn want(&mut self, waiter: W, until: Instant, now: Instant) {
        match self.phase {
            Phase::Ready | Phase::Degraded { .. } => {
                return self.actions.push_back(Action::Serve(waiter));
            }
            Phase::Closed => return self.refuse(waiter),
            Phase::Connecting { .. } | Phase::Pausing { .. } => {}
            Phase::Failed { .. } | Phase::Suspended { .. } => {
                let is_soon = now < self.last_start + limits::RECONNECT_ON_USE;
                if is_soon || self.breaker.count(now).is_err() {
                    return self.refuse(waiter);
                }
                self.start(true, now);
            }
        }
        self.wait(waiter, until, now);
    }

    /// A caller wants another connection, and answers for it. A try that is under way is that
    /// already.
    pub(super) fn reconnect(&mut self, waiter: W, until: Instant, now: Instant) {
        if self.phase == Phase::Closed {
            return self.refuse(waiter);
        }
        self.wait(waiter, until, now);
        self.backoff.reset();
        self.breaker.reset();
        if let Phase::Connecting { is_last } = &mut self.phase {
            *is_last = false;
        } else {
            self.attempt = 0;
            self.start(false, now);
        }
    }

    /// The try has succeeded.
    pub(super) fn connected(&mut self) {
        if !matches!(self.phase, Phase::Connecting { .. }) {
            return;
        }
        self.phase = Phase::Ready;
        self.why = None;
        self.has_been_ready = true;
        self.attempt = 0;
        self.backoff.reset();
        self.actions.extend(self.waiting.drain(..).map(|(waiter, _)| Action::Serve(waiter)));
    }

    /// The try has failed.
    pub(super) fn failed(&mut self, why: Error, now: Instant) {
        let Phase::Connecting { is_last } = self.phase else { return };
        let may_heal = why.may_heal();
        self.why = Some(Arc::new(why));
        match may_heal {
            true => self.pause(is_last, now),
            // A person has to mend it.
            false => self.give_up(None),
        }
    }

    /// The connection has ended by itself.
    pub(super) fn lost(&mut self, why: Error, now: Instant) {
        if self.is_connected() {
            self.why = Some(Arc::new(why));
            self.backoff.reset();
            self.pause(false, now);
        }
    }

    /// The server could not be reached over a connection that stands.
    pub(super) fn unreachable(&mut self, why: Error, now: Instant) {
        if !self.is_connected() {
            return;
        }
        self.why = Some(Arc::new(why));
        // Many calls fail at once: one ping is enough.
        if let Phase::Ready | Phase::Degraded { ping_at: None } = self.phase {
            let ping_at = Some(now + self.backoff.next_pause());
            self.phase = Phase::Degraded { ping_at };
        }
    }

    /// The server has answered.
    pub(super) fn answered(&mut self) {
        if let Phase::Degraded { .. } = self.phase {
            self.phase = Phase::Ready;
            self.why = None;
            self.backoff.reset();
        }
    }

    /// A login is pending, as this state says, or is over.
    pub(super) fn login(&mut self, login: Option<ServerState>, now: Instant) {
        self.login = login;
        if self.login.is_some() {
            let soonest = now + self.login_wait;
            self.waiting.iter_mut().for_each(|(_, until)| *until = soonest.min(*until));
        }
    }

    /// The server is wanted no more.
    pub(super) fn close(&mut self) {
        self.phase = Phase::Closed;
        self.refuse_all();
    }

    /// When [`Self::tick`] is due.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        let phase = match self.phase {
            Phase::Pausing { until } | Phase::Failed { until } | Phase::Suspended { until } => {
                until
            }
            Phase::Degraded { ping_at } => ping_at,
            Phase::Connecting { .. } | Phase::Ready | Phase::Closed => None,
        };
        let waits = self.waiting.iter().map(|(_, until)| *until);
        phase.into_iter().chain(waits).min()
    }

    /// Does what is due.
    pub(super) fn tick(&mut self, now: Instant) {
        let state = self.state();
        let late = self.waiting.extract_if(.., |(_, until)| *until <= now);
        self.actions.extend(late.map(|(waiter, _)| Action::Refuse(waiter, state.clone())));
        match &mut self.phase {
            Phase::Pausing { until } | Phase::Failed { until } | Phase::Suspended { until }
                if until.is_some_and(|until| until <= now) =>
            {
                self.try_again(now);
            }
            Phase::Degraded { ping_at } if ping_at.is_some_and(|at| at <= now) => {
                *ping_at = None;
                self.actions.push_back(Action::Ping);
            }
            _ => {}
        }
    }

    fn is_connected(&self) -> bool {
        matches!(self.phase, Phase::Ready | Phase::Degraded { .. })
    }

    fn start(&mut self, is_last: bool, now: Instant) {
        self.phase = Phase::Connecting { is_last };
        self.attempt = self.attempt.saturating_add(1);
        self.last_start = now;
        self.actions.push_back(Action::Connect);
    }

    /// A pause is over: starts the next try, unless there were too many.
    fn try_again(&mut self, now: Instant) {
        match self.breaker.count(now) {
            Ok(()) => self.start(!matches!(self.phase, Phase::Pausing { .. }), now),
            Err(TooMany { until }) => {
                let until = self.slow_try(now).map(|at| at.max(until));
                self.phase = Phase::Suspended { until };
                self.refuse_all();
            }
        }
    }

    /// Waits for the next quick try, or gives up if there is none.
    fn pause(&mut self, is_last: bool, now: Instant) {
        match self.backoff.next_quick_pause() {
            Some(pause) if !is_last => self.phase = Phase::Pausing { until: Some(now + pause) },
            _ => {
                let until = self.slow_try(now);
                self.give_up(until);
            }
        }
    }

    /// When the next slow try is. A program, or a server that never was there, has none.
    fn slow_try(&mut self, now: Instant) -> Option<Instant> {
        let goes_on = self.is_remote && self.has_been_ready;
        goes_on.then(|| now + self.backoff.next_slow_pause())
    }

    fn give_up(&mut self, until: Option<Instant>) {
        self.phase = Phase::Failed { until };
        self.refuse_all();
    }

    fn wait(&mut self, waiter: W, until: Instant, now: Instant) {
        let until = match self.login {
            Some(_) => until.min(now + self.login_wait),
            None => until,
        };
        self.waiting.push((waiter, until));
    }

    fn refuse(&mut self, waiter: W) {
        self.actions.push_back(Action::Refuse(waiter, self.state()));
    }

    fn refuse_all(&mut self) {
        let state = self.state();
        let refused = self.waiting.drain(..);
        self.actions.extend(refused.map(|(waiter, _)| Action::Refuse(waiter, state.clone())));
    }
}

#[cfg(test)]
mod tests;
