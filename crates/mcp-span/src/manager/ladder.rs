//! The pauses between tries: a few that grow quickly, then quiet ones for ever. Pure.

use std::time::Duration;

use super::Pauses;

/// How far up somebody has climbed.
#[derive(Clone, Debug)]
pub(super) struct Ladder {
    pauses: Pauses,
    rungs: usize,
    quiet: u32,
}

impl Ladder {
    pub(super) fn new(pauses: Pauses) -> Self {
        Self { pauses, rungs: 0, quiet: 0 }
    }

    /// The pause before the next try; `None` when all quick ones have failed.
    pub(super) fn climb(&mut self) -> Option<Duration> {
        let pause = self.pauses.ladder.get(self.rungs).copied();
        self.rungs += usize::from(pause.is_some());
        pause
    }

    /// The pause before the next quiet try.
    pub(super) fn rest(&mut self) -> Duration {
        let pause = self.pauses.quiet.saturating_mul(1 << self.quiet.min(16));
        self.quiet = self.quiet.saturating_add(1);
        pause.min(self.pauses.quiet_cap)
    }

    /// Things went well: the next failure starts at the bottom.
    pub(super) fn reset(&mut self) {
        self.rungs = 0;
        self.quiet = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_quick_tries_and_then_quiet_ones_for_ever() {
        let mut ladder = Ladder::new(Pauses::default());
        for _ in 0..2 {
            let quick: Vec<_> = std::iter::from_fn(|| ladder.climb()).collect();
            assert_eq!(quick, [500, 1000, 2000, 4000].map(Duration::from_millis));
            let quiet: Vec<_> = (0..8).map(|_| ladder.rest().as_secs()).collect();
            assert_eq!(quiet, [15, 30, 60, 120, 240, 300, 300, 300]);
            assert_eq!(ladder.climb(), None);
            ladder.reset();
        }
    }

    #[test]
    fn no_number_of_tries_is_too_much() {
        let mut ladder = Ladder::new(Pauses::default());
        ladder.quiet = u32::MAX;
        assert_eq!(ladder.rest(), Pauses::default().quiet_cap);
        let pauses = Pauses { quiet: Duration::MAX, ..Pauses::default() };
        assert_eq!(Ladder::new(pauses).rest(), Pauses::default().quiet_cap);
    }
}
