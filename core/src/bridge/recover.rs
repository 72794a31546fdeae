//! How it stands with the server, and the way back when it is gone or has forgotten us. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::limits;
use crate::net::backoff::Backoff;

/// How it stands with the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Messages go out as they come.
    Open,
    /// It cannot be reached: one message at a time is tried.
    Away {
        /// The session is lost, too: the first try is a new one.
        reopen: bool,
        /// A try is under way.
        trying: bool,
        /// The next one.
        next: Instant,
        /// The server wants to be left alone until then, whoever waits.
        earliest: Instant,
    },
    /// The session was lost; the bridge's own `initialize` is under way.
    Reopening,
    /// The server refused a new session; the next message asks again, but not before this.
    Shut { next: Instant },
}

/// The phase, with what decides about the pauses in it.
#[derive(Debug)]
pub(super) struct Recovery {
    phase: Phase,
    /// Tries since the server was last heard of.
    tries: u32,
    /// For tries that nobody waits for.
    backoff: Backoff,
    /// When sessions were opened again, for the limit on storms.
    reopenings: VecDeque<Instant>,
}

impl Default for Recovery {
    fn default() -> Self {
        Self {
            phase: Phase::Open,
            tries: 0,
            backoff: Backoff::default(),
            reopenings: VecDeque::new(),
        }
    }
}

impl Recovery {
    pub(super) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Whether a new session has been asked for.
    pub(super) fn is_reopening(&self) -> bool {
        self.phase == Phase::Reopening
    }

    /// Whether a lost session is the reason that nothing goes out.
    pub(super) fn awaits_session(&self) -> bool {
        matches!(
            self.phase,
            Phase::Reopening | Phase::Away { reopen: true, .. } | Phase::Shut { .. }
        )
    }

    /// The server shows life.
    ///
    /// `true` if messages may go out again; a lost session keeps them waiting.
    pub(super) fn server_is_there(&mut self) -> bool {
        if !self.awaits_session() {
            self.tries = 0;
        }
        match &mut self.phase {
            Phase::Away { reopen: false, .. } => {
                self.phase = Phase::Open;
                true
            }
            Phase::Away { trying, .. } => {
                *trying = false;
                false
            }
            _ => false,
        }
    }

    /// The server could not be reached. `somebody_waits` decides how soon it is tried again.
    pub(super) fn unreachable(&mut self, now: Instant, somebody_waits: bool) {
        let reopen = self.awaits_session();
        let was_trying = matches!(self.phase, Phase::Away { trying: true, .. } | Phase::Reopening);
        if matches!(self.phase, Phase::Away { .. }) && !was_trying {
            // One of many that were under way when it went: the next try stands.
            return;
        }
        let next = now + self.pause(somebody_waits);
        self.phase = Phase::Away { reopen, trying: false, next, earliest: now };
    }

    /// The message that was tried has ended, one way or the other: the next may be tried.
    pub(super) fn trial_over(&mut self, now: Instant) {
        if let Phase::Away { trying, next, .. } = &mut self.phase
            && std::mem::take(trying)
        {
            *next = now + limits::AWAY_BASE;
        }
    }

    /// The server wants to be left alone for a while before a session is opened again.
    pub(super) fn rest(&mut self, now: Instant, pause: Duration) {
        let next = now + pause;
        self.phase = Phase::Away { reopen: true, trying: false, next, earliest: next };
    }

    /// The session is lost. `true`: the new one is to be asked for now.
    pub(super) fn session_lost(&mut self, now: Instant) -> bool {
        match &mut self.phase {
            Phase::Reopening => false,
            Phase::Shut { next } if *next > now => false,
            Phase::Away { reopen, earliest, .. } if *earliest > now => {
                *reopen = true;
                false
            }
            // Who says that it has forgotten us is there.
            Phase::Open | Phase::Away { .. } | Phase::Shut { .. } => self.may_reopen(now),
        }
    }

    /// The new session was refused.
    pub(super) fn refused(&mut self, now: Instant) {
        self.phase = Phase::Shut { next: now + limits::AWAY_CAP };
    }

    /// The new session has begun, or the client has begun one itself.
    pub(super) fn reopened(&mut self, now: Instant) {
        self.reopenings.push_back(now);
        self.client_opens();
        self.tries = 0;
        self.backoff.reset();
    }

    /// The client opens a session of its own: whatever was lost is no matter any more.
    pub(super) fn client_opens(&mut self) {
        match &mut self.phase {
            Phase::Away { reopen, .. } => *reopen = false,
            Phase::Reopening | Phase::Shut { .. } => self.phase = Phase::Open,
            Phase::Open => {}
        }
    }

    /// The client has said something: a server that is away is tried at once, within reason (C30).
    pub(super) fn somebody_waits(&mut self, now: Instant) {
        if let Phase::Away { trying: false, next, earliest, .. } = &mut self.phase {
            let soonest = if self.tries > 1 { now + limits::AWAY_CAP } else { now };
            *next = (*next).min(soonest).max(*earliest);
        }
    }

    /// What is to be tried at `now`, if anything. `somebody_waits`: there is a message to try with.
    pub(super) fn try_now(&mut self, now: Instant, somebody_waits: bool) -> Option<Try> {
        match &mut self.phase {
            Phase::Away { reopen: true, trying: false, next, .. } if *next <= now => {
                self.may_reopen(now).then_some(Try::Session)
            }
            Phase::Away { reopen: false, trying, next, .. }
                if somebody_waits && !*trying && *next <= now =>
            {
                *trying = true;
                Some(Try::Message)
            }
            Phase::Shut { next } if somebody_waits && *next <= now => {
                self.may_reopen(now).then_some(Try::Session)
            }
            _ => None,
        }
    }

    /// When the next try is due.
    pub(super) fn wake_at(&self, somebody_waits: bool) -> Option<Instant> {
        match self.phase {
            Phase::Away { reopen: true, trying: false, next, .. } => Some(next),
            Phase::Away { reopen: false, trying: false, next, .. } | Phase::Shut { next } => {
                somebody_waits.then_some(next)
            }
            _ => None,
        }
    }

    /// A session may be asked for, unless that has happened too often of late; then later.
    fn may_reopen(&mut self, now: Instant) -> bool {
        while self.reopenings.front().is_some_and(|at| now - *at > limits::REOPEN_WINDOW) {
            self.reopenings.pop_front();
        }
        match self.reopenings.front() {
            Some(first) if self.reopenings.len() >= limits::REOPENINGS => {
                let next = *first + limits::REOPEN_WINDOW;
                self.phase = Phase::Away { reopen: true, trying: false, next, earliest: next };
                false
            }
            _ => {
                self.phase = Phase::Reopening;
                true
            }
        }
    }

    fn pause(&mut self, somebody_waits: bool) -> Duration {
        self.tries = self.tries.saturating_add(1);
        if somebody_waits {
            let doubled = limits::AWAY_BASE.saturating_mul(1 << (self.tries - 1).min(8));
            doubled.min(limits::AWAY_CAP)
        } else {
            self.backoff.next_pause()
        }
    }
}

/// What a try is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Try {
    /// The first request that waits.
    Message,
    /// A new session.
    Session,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn later(now: Instant, milliseconds: u64) -> Instant {
        now + Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_server_that_is_away_is_tried_by_one_message_at_a_time() {
        let (mut recovery, now) = (Recovery::default(), Instant::now());
        recovery.unreachable(now, true);
        recovery.unreachable(now, true);
        assert_eq!(recovery.wake_at(true), Some(later(now, 100)), "many failures, one pause");
        assert_eq!(recovery.try_now(now, true), None);
        assert_eq!(recovery.try_now(later(now, 100), true), Some(Try::Message));
        assert_eq!(recovery.try_now(later(now, 100), true), None, "one at a time");
        recovery.unreachable(later(now, 100), true);
        assert_eq!(recovery.wake_at(true), Some(later(now, 300)), "the pause doubles");
        assert!(recovery.server_is_there());
        assert!(recovery.is_open());
    }

    #[test]
    fn a_lost_session_is_asked_for_once_however_many_meet_the_loss() {
        let (mut recovery, now) = (Recovery::default(), Instant::now());
        assert!(recovery.session_lost(now));
        assert!(!recovery.session_lost(now));
        assert!(!recovery.server_is_there(), "life alone is no session");
        recovery.reopened(now);
        assert!(recovery.is_open());
    }

    #[test]
    fn a_session_lost_while_the_server_is_away_is_asked_for_when_it_is_back() {
        let (mut recovery, now) = (Recovery::default(), Instant::now());
        assert!(recovery.session_lost(now));
        recovery.unreachable(now, true);
        let next = recovery.wake_at(false).unwrap();
        assert_eq!(recovery.try_now(next, false), Some(Try::Session), "even if nobody waits");
        recovery.refused(next);
        assert_eq!(recovery.wake_at(false), None, "a refusal is final until somebody asks");
        assert_eq!(recovery.try_now(later(next, 1000), true), Some(Try::Session));
    }

    #[test]
    fn a_server_that_comes_back_without_the_session_is_asked_for_another_at_once() {
        let (mut recovery, now) = (Recovery::default(), Instant::now());
        recovery.unreachable(now, true);
        assert_eq!(recovery.try_now(later(now, 100), true), Some(Try::Message));
        assert!(recovery.session_lost(later(now, 101)));
    }

    #[test]
    fn a_try_that_ends_without_a_word_makes_way_for_the_next() {
        let (mut recovery, now) = (Recovery::default(), Instant::now());
        recovery.unreachable(now, true);
        let now = later(now, 100);
        assert_eq!(recovery.try_now(now, true), Some(Try::Message));
        recovery.trial_over(now);
        assert_eq!(recovery.try_now(later(now, 100), true), Some(Try::Message));
    }

    #[test]
    fn a_server_that_wants_to_rest_is_not_hurried() {
        let (mut recovery, now) = (Recovery::default(), Instant::now());
        recovery.session_lost(now);
        recovery.rest(now, Duration::from_secs(3));
        recovery.somebody_waits(now);
        assert!(!recovery.session_lost(now));
        assert_eq!(recovery.wake_at(true), Some(later(now, 3000)));
    }

    #[test]
    fn storms_are_kept_down() {
        // C7: 5 in 30 seconds.
        let (mut recovery, now) = (Recovery::default(), Instant::now());
        for _ in 0..limits::REOPENINGS {
            assert!(recovery.session_lost(now));
            recovery.reopened(now);
        }
        assert!(!recovery.session_lost(now));
        let next = recovery.wake_at(true).unwrap();
        assert_eq!(next, now + limits::REOPEN_WINDOW);
        let next = later(next, 1);
        assert_eq!(recovery.try_now(next, true), Some(Try::Session));
    }

    #[test]
    fn the_clients_own_session_ends_the_search_for_the_lost_one() {
        let (mut recovery, now) = (Recovery::default(), Instant::now());
        recovery.session_lost(now);
        recovery.client_opens();
        assert!(recovery.is_open());
    }

    #[test]
    fn the_clients_messages_hasten_a_try_but_not_to_a_storm() {
        // C30
        let (mut recovery, now) = (Recovery::default(), Instant::now());
        for _ in 0..8 {
            recovery.unreachable(now, false);
            let next = recovery.wake_at(true).unwrap();
            recovery.somebody_waits(now);
            recovery.try_now(next, true);
        }
        recovery.unreachable(now, false);
        recovery.somebody_waits(now);
        assert!(recovery.wake_at(true).unwrap() <= now + limits::AWAY_CAP);
        assert!(recovery.wake_at(true).unwrap() >= now + limits::AWAY_CAP / 2);
    }
}
