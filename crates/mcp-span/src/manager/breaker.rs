//! Counts reconnects, so that a server which does not stay up is left alone. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Allows so many tries within so long, and no more.
#[derive(Clone, Debug)]
pub(super) struct CircuitBreaker {
    allowed: usize,
    window: Duration,
    recent: VecDeque<Instant>,
}

/// Another try is too many before this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooMany {
    pub(super) until: Instant,
}

impl CircuitBreaker {
    pub(super) fn new(allowed: usize, window: Duration) -> Self {
        Self { allowed, window, recent: VecDeque::new() }
    }

    /// Counts a try, if it is allowed now.
    pub(super) fn count(&mut self, now: Instant) -> Result<(), TooMany> {
        while self.recent.front().is_some_and(|first| *first + self.window <= now) {
            self.recent.pop_front();
        }
        if self.recent.len() < self.allowed {
            self.recent.push_back(now);
            return Ok(());
        }
        // Where none is allowed at all, nobody tries in a circle.
        let first = self.recent.front().copied().unwrap_or(now);
        Err(TooMany { until: first + self.window })
    }

    /// A person takes it upon themselves: the count starts over.
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
        let mut breaker = CircuitBreaker::new(5, 30 * second);
        for number in 0..5 {
            assert_eq!(breaker.count(start + number * second), Ok(()));
        }
        let until = start + 30 * second;
        assert_eq!(breaker.count(start + 29 * second), Err(TooMany { until }));
        assert_eq!(breaker.count(until), Ok(()), "the first is forgotten");
        assert_eq!(breaker.count(until), Err(TooMany { until: until + second }));
        breaker.reset();
        assert_eq!(breaker.count(until), Ok(()));
    }

    #[test]
    fn none_can_be_allowed() {
        let (now, window) = (Instant::now(), Duration::from_secs(30));
        let mut breaker = CircuitBreaker::new(0, window);
        assert_eq!(breaker.count(now), Err(TooMany { until: now + window }));
    }
}
