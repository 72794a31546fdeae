//! Whether the server is reachable, and when an unreachable one is tried again.

use std::time::Duration;

use tokio::time::Instant;

use crate::limits;
use crate::net::backoff::{Backoff, doubled};
use crate::transport::Ticket;

/// The state of the server, and the backoff between tries.
#[derive(Debug, Default)]
pub(super) struct Server {
    /// Set while it is unreachable.
    away: Option<Away>,
    /// Failed tries since the server last answered.
    tries: u32,
    /// For tries that no message waits for.
    backoff: Backoff,
}

/// One message at a time tries it.
#[derive(Debug)]
struct Away {
    next: Instant,
    /// Not before this, as the server asked with `Retry-After`.
    earliest: Instant,
    trial: Trial,
}

/// The message that tries the server.
#[derive(Debug, PartialEq, Eq)]
enum Trial {
    None,
    Out(Ticket),
    /// It has ended; its failure may be reported next.
    Over(Ticket),
}

impl Server {
    /// `seed` is for the jitter of pauses.
    pub(super) fn new(seed: u64) -> Self {
        Self { backoff: Backoff::seeded(seed), ..Self::default() }
    }

    pub(super) fn is_up(&self) -> bool {
        self.away.is_none()
    }

    /// It is reachable. `true` if it was not until now. Without a session the backoff goes on: a server
    /// that accepts connections and cannot work is tried less and less often.
    pub(super) fn mark_reachable(&mut self, has_session: bool) -> bool {
        if has_session {
            self.tries = 0;
            self.backoff.reset();
        }
        self.away.take().is_some()
    }

    /// `ticket` could not reach it. It is tried again soon if `somebody_waits`.
    pub(super) fn mark_unreachable(&mut self, ticket: Ticket, now: Instant, somebody_waits: bool) {
        if let Some(away) = &self.away
            && !matches!(away.trial, Trial::Out(own) | Trial::Over(own) if own == ticket)
        {
            // One of many that were in flight: the next try stays as scheduled.
            return;
        }
        self.tries = self.tries.saturating_add(1);
        let pause = match somebody_waits {
            true => doubled(limits::AWAY_BASE, self.tries - 1, limits::AWAY_CAP),
            false => self.backoff.next_pause(),
        };
        self.away = Some(Away { next: now + pause, earliest: now, trial: Trial::None });
    }

    /// The server asked for a delay.
    pub(super) fn delay(&mut self, now: Instant, pause: Duration) {
        let next = now + pause;
        self.away = Some(Away { next, earliest: next, trial: Trial::None });
    }

    /// Whether the delay that the server asked for lasts.
    pub(super) fn is_delayed(&self, now: Instant) -> bool {
        self.away.as_ref().is_some_and(|away| away.earliest > now)
    }

    /// A new message waits for it: try at once, but at most once a second (C30).
    pub(super) fn retry_sooner(&mut self, now: Instant) {
        let soonest = if self.tries > 1 { now + limits::AWAY_CAP } else { now };
        if let Some(away) = &mut self.away {
            away.next = away.next.min(soonest).max(away.earliest);
        }
    }

    /// `ticket` tries the server.
    pub(super) fn start_trial(&mut self, ticket: Ticket) {
        if let Some(away) = &mut self.away {
            away.trial = Trial::Out(ticket);
        }
    }

    /// `ticket` has ended. If it was the trial, another may follow.
    pub(super) fn trial_ended(&mut self, ticket: Ticket, now: Instant) {
        if let Some(away) = self.away.as_mut().filter(|away| away.trial == Trial::Out(ticket)) {
            away.trial = Trial::Over(ticket);
            away.next = now + limits::AWAY_BASE;
        }
    }

    /// When to try it again, if it is unreachable and no trial is in flight.
    pub(super) fn next_retry(&self) -> Option<Instant> {
        let waiting = self.away.as_ref().filter(|away| !matches!(away.trial, Trial::Out(_)));
        waiting.map(|away| away.next)
    }

    /// The state, for tests.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn name(&self) -> &'static str {
        match &self.away {
            None => "Up",
            Some(Away { trial: Trial::Out(_), .. }) => "Tried",
            Some(_) => "Away",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Ticket = Ticket(1);
    const B: Ticket = Ticket(2);

    fn later(now: Instant, milliseconds: u64) -> Instant {
        now + Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_server_that_is_away_is_tried_by_one_message_at_a_time() {
        let (mut server, now) = (Server::default(), Instant::now());
        server.mark_unreachable(A, now, true);
        server.mark_unreachable(B, now, true);
        assert_eq!(server.next_retry(), Some(later(now, 100)), "many failures, one pause");
        server.start_trial(A);
        assert_eq!(server.next_retry(), None, "one at a time");
        server.trial_ended(A, later(now, 100));
        server.mark_unreachable(A, later(now, 100), true);
        assert_eq!(server.next_retry(), Some(later(now, 300)), "the pause doubles");
        assert!(server.mark_reachable(true) && server.is_up());
        assert!(!server.mark_reachable(true), "that is no news");
    }

    #[test]
    fn a_message_hastens_the_next_try_but_not_without_end() {
        let (mut server, now) = (Server::default(), Instant::now());
        server.mark_unreachable(A, now, false);
        server.retry_sooner(now);
        assert_eq!(server.next_retry(), Some(now));
        for _ in 0..9 {
            server.start_trial(A);
            server.mark_unreachable(A, now, false);
        }
        assert!(server.next_retry() > Some(later(now, 1000)));
        server.retry_sooner(now);
        assert_eq!(server.next_retry(), Some(later(now, 1000)), "once a second");
    }

    #[test]
    fn a_pause_that_the_server_asks_for_is_kept_whoever_waits() {
        let (mut server, now) = (Server::default(), Instant::now());
        server.delay(now, Duration::from_secs(7));
        server.retry_sooner(now);
        assert_eq!(server.next_retry(), Some(later(now, 7000)));
        assert!(server.is_delayed(now) && !server.is_delayed(later(now, 7000)));
    }

    #[test]
    fn a_trial_that_ended_otherwise_makes_room_for_the_next() {
        let (mut server, now) = (Server::default(), Instant::now());
        server.mark_unreachable(A, now, true);
        server.start_trial(B);
        server.trial_ended(A, now);
        assert_eq!(server.next_retry(), None);
        server.trial_ended(B, now);
        assert_eq!(server.next_retry(), Some(later(now, 100)));
    }
}
