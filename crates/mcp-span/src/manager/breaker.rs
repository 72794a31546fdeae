//! Counts reconnects, so that a server which does not stay up is left alone. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// So many reconnects within so long, and no more.
#[derive(Clone, Debug)]
pub(super) struct Breaker {
    allowed: usize,
    window: Duration,
    recent: VecDeque<Instant>,
}

impl Breaker {
    pub(super) fn new(allowed: usize, window: Duration) -> Self {
        Self { allowed, window, recent: VecDeque::new() }
    }

    /// Whether one more is allowed now; if so, it is counted.
    pub(super) fn allows(&mut self, now: Instant) -> bool {
        while self.recent.front().is_some_and(|first| *first + self.window <= now) {
            self.recent.pop_front();
        }
        let has_room = self.recent.len() < self.allowed;
        if has_room {
            self.recent.push_back(now);
        }
        has_room
    }

    /// When there will be room for another.
    pub(super) fn has_room_at(&self, now: Instant) -> Instant {
        match self.recent.front() {
            Some(first) if self.recent.len() >= self.allowed => (*first + self.window).max(now),
            // None are allowed at all.
            None if self.allowed == 0 => now + self.window,
            _ => now,
        }
    }

    /// Somebody takes it upon themselves: the count starts over.
    pub(super) fn reset(&mut self) {
        self.recent.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_five_in_thirty_seconds_are_too_many() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut breaker = Breaker::new(5, 30 * second);
        for number in 0..5 {
            assert_eq!(breaker.has_room_at(start), start);
            assert!(breaker.allows(start + number * second));
        }
        assert!(!breaker.allows(start + 29 * second));
        assert_eq!(breaker.has_room_at(start + 29 * second), start + 30 * second);
        assert!(breaker.allows(start + 30 * second), "the first is forgotten");
        assert!(!breaker.allows(start + 30 * second));
        breaker.reset();
        assert!(breaker.allows(start + 30 * second));
    }

    #[test]
    fn none_can_be_allowed() {
        let now = Instant::now();
        let mut breaker = Breaker::new(0, Duration::from_secs(30));
        assert!(!breaker.allows(now));
        assert!(breaker.has_room_at(now) > now, "nobody tries in a circle");
    }
}
