//! The pauses between tries to connect: a few quick ones, then slow ones that double. Pure.

use std::time::Duration;

use super::RetryPolicy;
use crate::net::backoff::doubled;

/// How many pauses there were since the server was last connected.
#[derive(Clone, Debug)]
pub(super) struct RetryBackoff {
    policy: RetryPolicy,
    quick: usize,
    slow: u32,
}

impl RetryBackoff {
    pub(super) fn new(policy: RetryPolicy) -> Self {
        Self { policy, quick: 0, slow: 0 }
    }

    /// The pause before the next quick try; `None` when all of them have failed.
    pub(super) fn next_quick_pause(&mut self) -> Option<Duration> {
        let pause = self.policy.pauses.get(self.quick).copied();
        self.quick += usize::from(pause.is_some());
        pause
    }

    /// The pause before the next slow try.
    pub(super) fn next_slow_pause(&mut self) -> Duration {
        let pause = doubled(self.policy.slow_pause, self.slow, self.policy.slow_pause_cap);
        self.slow = self.slow.saturating_add(1);
        pause
    }

    /// Whichever comes next.
    pub(super) fn next_pause(&mut self) -> Duration {
        self.next_quick_pause().unwrap_or_else(|| self.next_slow_pause())
    }

    /// The server is connected: the next failure starts over.
    pub(super) fn reset(&mut self) {
        (self.quick, self.slow) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_quick_tries_and_then_slow_ones_for_ever() {
        let mut backoff = RetryBackoff::new(RetryPolicy::default());
        for _ in 0..2 {
            let quick: Vec<_> = std::iter::from_fn(|| backoff.next_quick_pause()).collect();
            assert_eq!(quick, [500, 1000, 2000, 4000].map(Duration::from_millis));
            let slow: Vec<_> = (0..8).map(|_| backoff.next_pause().as_secs()).collect();
            assert_eq!(slow, [15, 30, 60, 120, 240, 300, 300, 300]);
            assert_eq!(backoff.next_quick_pause(), None);
            backoff.reset();
        }
    }

    #[test]
    fn no_number_of_tries_is_too_much() {
        let mut backoff = RetryBackoff::new(RetryPolicy::default());
        backoff.slow = u32::MAX;
        assert_eq!(backoff.next_slow_pause(), RetryPolicy::default().slow_pause_cap);
        let policy = RetryPolicy { slow_pause: Duration::MAX, ..RetryPolicy::default() };
        assert_eq!(
            RetryBackoff::new(policy).next_slow_pause(),
            RetryPolicy::default().slow_pause_cap
        );
    }
}
