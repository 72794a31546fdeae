//! How it stands with one server, and what each thing that happens leads to. Pure.

use std::sync::Arc;

use tokio::time::Instant;

use super::backoff::RetryBackoff;
use super::breaker::Breaker;
use super::failures::may_heal;
use super::{ManagerOptions, RetryPolicy};
use crate::client::Failure;
use crate::limits;

/// How it stands with a server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum State {
    /// It is being connected to, or started.
    Connecting {
        /// Which try this is, or will be after a pause; 1 is the first.
        attempt: u32,
        /// Why the one before has failed, or why the connection has ended.
        why: Option<Arc<Failure>>,
    },
    /// It is there.
    Ready,
    /// It was there, and is looked for; the next success shows that it is back.
    Degraded(Arc<Failure>),
    /// It is not there. Who wants something of it has it tried again; a remote server that had been
    /// there is also tried again now and then.
    Failed(Arc<Failure>),
    /// It does not stay up, and is left alone for a while.
    Suspended(Arc<Failure>),
    /// Nothing more is wanted of it.
    Closed,
}

impl State {
    /// The stable text form.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Connecting { .. } => "connecting",
            Self::Ready => "ready",
            Self::Degraded(_) => "degraded",
            Self::Failed(_) => "failed",
            Self::Suspended(_) => "suspended",
            Self::Closed => "closed",
        }
    }

    /// What is wrong, if anything is.
    #[must_use]
    pub fn why(&self) -> Option<&Failure> {
        match self {
            Self::Connecting { why, .. } => why.as_deref(),
            Self::Degraded(why) | Self::Failed(why) | Self::Suspended(why) => Some(why),
            Self::Ready | Self::Closed => None,
        }
    }
}

/// What is to be done now; `W` is somebody who waits for a connection.
#[derive(Debug)]
pub(super) enum Step<W> {
    /// Connect, or start the program.
    Start,
    /// Find out whether the server is back.
    Probe,
    /// Here is the connection.
    Serve(W),
    /// There is none.
    Refuse(W, Refusal),
}

/// Why somebody gets no connection.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Refusal {
    /// The server is not there.
    Failed(Arc<Failure>),
    /// It is left alone.
    Suspended(Arc<Failure>),
    /// It takes longer than one wanted to wait.
    NotYet(Option<Arc<Failure>>),
    /// Nothing more is wanted of it.
    Closed,
}

/// What is going on.
#[derive(Clone, Debug, PartialEq)]
enum Phase {
    /// A try is under way. `is_last`: if it fails, no quick one follows.
    Trying {
        is_last: bool,
    },
    /// The next try follows soon.
    Pausing {
        until: Instant,
    },
    /// Connected; `trouble` if there is doubt about it.
    Up {
        trouble: Option<Trouble>,
    },
    /// All tries have failed; `until` is the next quiet one.
    Down {
        until: Option<Instant>,
    },
    /// Too many tries; `until` is when they go on by themselves.
    Suspended {
        until: Option<Instant>,
    },
    Closed,
}

#[derive(Clone, Debug, PartialEq)]
struct Trouble {
    why: Arc<Failure>,
    /// When it is looked whether the server is back; `None` while it is.
    probe_at: Option<Instant>,
}

/// One server, without its wires and its clock.
#[derive(Debug)]
pub(super) struct Machine<W> {
    phase: Phase,
    backoff: RetryBackoff,
    breaker: Breaker,
    /// Those who wait for a connection, and until when.
    waiting: Vec<(W, Instant)>,
    why: Option<Arc<Failure>>,
    attempt: u32,
    last_start: Instant,
    is_remote: bool,
    has_been_up: bool,
}

impl<W> Machine<W> {
    /// A server whose first try begins now: the caller makes it.
    pub(super) fn begin(is_remote: bool, options: &ManagerOptions, now: Instant) -> Self {
        let RetryPolicy { max_reconnects, window, .. } = options.retry;
        Self {
            phase: Phase::Trying { is_last: false },
            backoff: RetryBackoff::new(options.retry.clone()),
            breaker: Breaker::new(max_reconnects, window),
            waiting: Vec::new(),
            why: None,
            attempt: 1,
            last_start: now,
            is_remote,
            has_been_up: false,
        }
    }

    pub(super) fn state(&self) -> State {
        let is_pausing = matches!(self.phase, Phase::Pausing { .. });
        let (attempt, why) = (self.attempt.saturating_add(is_pausing.into()), self.why.clone());
        match (&self.phase, &self.why) {
            (Phase::Closed, _) => State::Closed,
            (Phase::Up { trouble: None }, _) => State::Ready,
            (Phase::Up { trouble: Some(trouble) }, _) => State::Degraded(Arc::clone(&trouble.why)),
            (Phase::Suspended { .. }, Some(why)) => State::Suspended(Arc::clone(why)),
            // What is tried once more on somebody's wish has failed until it succeeds.
            (Phase::Down { .. } | Phase::Trying { is_last: true }, Some(why)) => {
                State::Failed(Arc::clone(why))
            }
            _ => State::Connecting { attempt, why },
        }
    }

    /// Somebody wants the connection, and waits for it until then.
    pub(super) fn want(&mut self, waiter: W, until: Instant, now: Instant) -> Vec<Step<W>> {
        match &self.phase {
            Phase::Up { .. } => return vec![Step::Serve(waiter)],
            Phase::Closed => return vec![Step::Refuse(waiter, Refusal::Closed)],
            Phase::Trying { .. } | Phase::Pausing { .. } => {}
            Phase::Down { .. } | Phase::Suspended { .. } => {
                let is_soon = now < self.last_start + limits::RECONNECT_ON_USE;
                if is_soon || !self.breaker.allows(now) {
                    return vec![Step::Refuse(waiter, self.refusal())];
                }
                self.waiting.push((waiter, until));
                return self.start(true, now);
            }
        }
        self.waiting.push((waiter, until));
        Vec::new()
    }

    /// The try has succeeded.
    pub(super) fn connected(&mut self) -> Vec<Step<W>> {
        if !matches!(self.phase, Phase::Trying { .. }) {
            return Vec::new();
        }
        self.phase = Phase::Up { trouble: None };
        self.why = None;
        self.has_been_up = true;
        self.attempt = 0;
        self.backoff.reset();
        self.waiting.drain(..).map(|(waiter, _)| Step::Serve(waiter)).collect()
    }

    /// The try has failed.
    pub(super) fn failed(&mut self, why: Failure, now: Instant) -> Vec<Step<W>> {
        let Phase::Trying { is_last } = self.phase else { return Vec::new() };
        let may_heal = may_heal(&why);
        self.why = Some(Arc::new(why));
        if !may_heal {
            self.phase = Phase::Down { until: None };
            return self.refuse_all();
        }
        if is_last { self.give_up(now) } else { self.pause(now) }
    }

    /// The connection has ended by itself.
    pub(super) fn lost(&mut self, why: Failure, now: Instant) -> Vec<Step<W>> {
        if !matches!(self.phase, Phase::Up { .. }) {
            return Vec::new();
        }
        self.why = Some(Arc::new(why));
        self.backoff.reset();
        self.pause(now)
    }

    /// The server could not be reached over a connection that stands.
    pub(super) fn troubled(&mut self, why: Failure, now: Instant) -> Vec<Step<W>> {
        let Phase::Up { trouble } = &mut self.phase else { return Vec::new() };
        let why = Arc::new(why);
        match trouble {
            // Many calls fail at once; one of them has it looked after.
            Some(trouble) => trouble.why = why,
            None => {
                let pause =
                    self.backoff.next_pause().unwrap_or_else(|| self.backoff.next_slow_pause());
                *trouble = Some(Trouble { why, probe_at: Some(now + pause) });
            }
        }
        Vec::new()
    }

    /// It was looked for in vain.
    pub(super) fn missed(&mut self, why: Failure, now: Instant) -> Vec<Step<W>> {
        if let Phase::Up { trouble: Some(trouble) } = &mut self.phase {
            let pause = self.backoff.next_pause().unwrap_or_else(|| self.backoff.next_slow_pause());
            *trouble = Trouble { why: Arc::new(why), probe_at: Some(now + pause) };
        }
        Vec::new()
    }

    /// The server has answered. Gives back whether that was in doubt.
    pub(super) fn worked(&mut self) -> bool {
        let Phase::Up { trouble } = &mut self.phase else { return false };
        self.backoff.reset();
        trouble.take().is_some()
    }

    /// Somebody wants another connection, whatever there is; they answer for it. A try that is
    /// under way is that already.
    pub(super) fn reconnect(&mut self, waiter: W, until: Instant, now: Instant) -> Vec<Step<W>> {
        if self.phase == Phase::Closed {
            return vec![Step::Refuse(waiter, Refusal::Closed)];
        }
        self.waiting.push((waiter, until));
        self.backoff.reset();
        self.breaker.reset();
        match &mut self.phase {
            Phase::Trying { is_last } => {
                *is_last = false;
                Vec::new()
            }
            _ => {
                self.attempt = 0;
                self.start(false, now)
            }
        }
    }

    /// Nothing more is wanted.
    pub(super) fn close(&mut self) -> Vec<Step<W>> {
        self.phase = Phase::Closed;
        self.refuse_all()
    }

    /// When [`Self::tick`] is due.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        let phase = match &self.phase {
            Phase::Pausing { until } => Some(*until),
            Phase::Down { until } | Phase::Suspended { until } => *until,
            Phase::Up { trouble: Some(trouble) } => trouble.probe_at,
            Phase::Up { trouble: None } | Phase::Trying { .. } | Phase::Closed => None,
        };
        let patience = self.waiting.iter().map(|(_, until)| *until).min();
        [phase, patience].into_iter().flatten().min()
    }

    /// What time brings.
    pub(super) fn tick(&mut self, now: Instant) -> Vec<Step<W>> {
        let mut steps = self.end_patience(now);
        match &mut self.phase {
            Phase::Pausing { until } if *until <= now => steps.extend(self.start_or_suspend(now)),
            Phase::Down { until: Some(until) } | Phase::Suspended { until: Some(until) }
                if *until <= now =>
            {
                if self.breaker.allows(now) {
                    steps.extend(self.start(true, now));
                } else {
                    *until = self.breaker.has_room_at(now);
                }
            }
            Phase::Up { trouble: Some(trouble) }
                if trouble.probe_at.is_some_and(|at| at <= now) =>
            {
                trouble.probe_at = None;
                steps.push(Step::Probe);
            }
            _ => {}
        }
        steps
    }

    fn end_patience(&mut self, now: Instant) -> Vec<Step<W>> {
        let late = self.waiting.extract_if(.., |(_, until)| *until <= now);
        let refusal = Refusal::NotYet(self.why.clone());
        late.map(|(waiter, _)| Step::Refuse(waiter, refusal.clone())).collect()
    }

    fn start(&mut self, is_last: bool, now: Instant) -> Vec<Step<W>> {
        self.phase = Phase::Trying { is_last };
        self.attempt = self.attempt.saturating_add(1);
        self.last_start = now;
        vec![Step::Start]
    }

    fn start_or_suspend(&mut self, now: Instant) -> Vec<Step<W>> {
        if self.breaker.allows(now) {
            return self.start(false, now);
        }
        let goes_on = self.is_remote && self.has_been_up;
        let rest = goes_on.then(|| self.backoff.next_slow_pause());
        let until = rest.map(|rest| (now + rest).max(self.breaker.has_room_at(now)));
        self.phase = Phase::Suspended { until };
        self.refuse_all()
    }

    /// Before the next quick try; after the last of them there is none.
    fn pause(&mut self, now: Instant) -> Vec<Step<W>> {
        match self.backoff.next_pause() {
            Some(pause) => {
                self.phase = Phase::Pausing { until: now + pause };
                Vec::new()
            }
            None => self.give_up(now),
        }
    }

    fn give_up(&mut self, now: Instant) -> Vec<Step<W>> {
        let goes_on = self.is_remote && self.has_been_up;
        let until = goes_on.then(|| now + self.backoff.next_slow_pause());
        self.phase = Phase::Down { until };
        self.refuse_all()
    }

    fn refuse_all(&mut self) -> Vec<Step<W>> {
        let refusal = self.refusal();
        let refused = self.waiting.drain(..);
        refused.map(|(waiter, _)| Step::Refuse(waiter, refusal.clone())).collect()
    }

    fn refusal(&self) -> Refusal {
        match (&self.phase, &self.why) {
            (Phase::Closed, _) => Refusal::Closed,
            (Phase::Suspended { .. }, Some(why)) => Refusal::Suspended(Arc::clone(why)),
            (_, Some(why)) => Refusal::Failed(Arc::clone(why)),
            (_, None) => Refusal::NotYet(None),
        }
    }
}

#[cfg(test)]
mod tests;
