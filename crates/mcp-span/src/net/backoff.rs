//! How long to wait before something is tried again.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use crate::limits;

/// Counts tries and gives the pause before the next: doubling up to a cap, with jitter, and after
/// ten tries a quiet one every few minutes, for ever.
#[derive(Clone, Debug, Default)]
pub struct Backoff {
    tries: u32,
    /// Where the jitter comes from, if it has to be the same in every run.
    seed: Option<u64>,
}

impl Backoff {
    /// One whose jitter depends on nothing but `seed`.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self { tries: 0, seed: Some(seed) }
    }

    /// The pause before the next try.
    pub fn next_pause(&mut self) -> Duration {
        let bits = self.seed.map_or_else(entropy, |seed| seed.rotate_left(self.tries));
        let random = f64::from(u32::try_from(bits >> 32).unwrap_or_default());
        self.pause(random / (f64::from(u32::MAX) + 1.0))
    }

    /// Things went well: the next failure starts over.
    pub fn reset(&mut self) {
        self.tries = 0;
    }

    /// Skips the quick tries: what failed will not be mended in seconds.
    pub fn slow_down(&mut self) {
        self.tries = self.tries.max(limits::BACKOFF_TRIES);
    }

    /// Half of the pause is certain, the other half is random (so that many bridges that lost one
    /// server do not come back at the same instant).
    fn pause(&mut self, random: f64) -> Duration {
        let full = if self.tries < limits::BACKOFF_TRIES {
            doubled(limits::BACKOFF_BASE, self.tries, limits::BACKOFF_CAP)
        } else {
            limits::BACKOFF_QUIET
        };
        self.tries = self.tries.saturating_add(1);
        full.mul_f64(0.5 + random / 2.0)
    }
}

/// The pause after so many failures: it doubles from `base` up to `most`.
pub(crate) fn doubled(base: Duration, failures: u32, most: Duration) -> Duration {
    base.saturating_mul(1 << failures.min(16)).min(most)
}

/// 64 unpredictable bits from the seed that std gives every hash map; not for secrets.
#[must_use]
pub fn entropy() -> u64 {
    RandomState::new().hash_one(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_cap_and_then_become_quiet() {
        // S4-22, C7
        let mut backoff = Backoff::default();
        let pauses: Vec<u64> =
            (0..12).map(|_| u64::try_from(backoff.pause(1.0).as_millis()).unwrap()).collect();
        assert_eq!(pauses[..7], [500, 1000, 2000, 4000, 8000, 16_000, 30_000]);
        assert_eq!(pauses[9..], [30_000, 300_000, 300_000]);
        backoff.reset();
        assert_eq!(backoff.pause(0.0), Duration::from_millis(250));
    }

    #[test]
    fn slowing_down_skips_the_quick_tries() {
        let mut backoff = Backoff::default();
        backoff.slow_down();
        assert_eq!(backoff.pause(1.0), limits::BACKOFF_QUIET);
    }

    #[test]
    fn jitter_stays_within_half_and_whole() {
        for _ in 0..100 {
            let pause = Backoff::default().next_pause();
            assert!((Duration::from_millis(250)..=Duration::from_millis(500)).contains(&pause));
        }
        assert_ne!(entropy(), entropy());
    }
}
