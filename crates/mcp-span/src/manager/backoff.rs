//! The pauses between tries: a few that grow quickly, then quiet ones for ever. Pure.

use std::time::Duration;

use super::RetryPolicy;

/// How far up somebody has climbed.
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

    /// The pause before the next try; `None` when all quick ones have failed.
    pub(super) fn next_pause(&mut self) -> Option<Duration> {
        let pause = self.policy.pauses.get(self.quick).copied();
        self.quick += usize::from(pause.is_some());
        pause
    }

    /// The pause before the next quiet try.
    pub(super) fn next_slow_pause(&mut self) -> Duration {
        let pause = self.policy.slow_pause.saturating_mul(1 << self.slow.min(16));
        self.slow = self.slow.saturating_add(1);
        pause.min(self.policy.slow_pause_cap)
    }

    /// Things went well: the next failure starts at the bottom.
    pub(super) fn reset(&mut self) {
        self.quick = 0;
        self.slow = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_quick_tries_and_then_quiet_ones_for_ever() {
        let mut backoff = RetryBackoff::new(RetryPolicy::default());
        for _ in 0..2 {
            let quick: Vec<_> = std::iter::from_fn(|| backoff.next_pause()).collect();
            assert_eq!(quick, [500, 1000, 2000, 4000].map(Duration::from_millis));
            let quiet: Vec<_> = (0..8).map(|_| backoff.next_slow_pause().as_secs()).collect();
            assert_eq!(quiet, [15, 30, 60, 120, 240, 300, 300, 300]);
            assert_eq!(backoff.next_pause(), None);
            backoff.reset();
        }
    }

    #[test]
    fn no_number_of_tries_is_too_much() {
        let mut backoff = RetryBackoff::new(RetryPolicy::default());
        backoff.slow = u32::MAX;
        assert_eq!(backoff.next_slow_pause(), RetryPolicy::default().slow_pause_cap);
        let policy = RetryPolicy { slow_pause: Duration::MAX, ..RetryPolicy::default() };
        assert_eq!(RetryBackoff::new(policy).rest(), RetryPolicy::default().slow_pause_cap);
    }
}
