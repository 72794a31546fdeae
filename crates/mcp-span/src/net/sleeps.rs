//! Notices that the machine has slept, by two clocks of which one stops meanwhile.

use std::time::{Duration, Instant, SystemTime};

use crate::limits;

/// Counts sleeps. They are noticed when somebody looks: nothing wakes up for it.
#[derive(Debug)]
pub(super) struct Sleeps {
    /// What the clocks said when both were last looked at; this one stops while the machine sleeps.
    running: Instant,
    wall: SystemTime,
    pub(super) count: u64,
}

impl Default for Sleeps {
    fn default() -> Self {
        Self { running: Instant::now(), wall: SystemTime::now(), count: 0 }
    }
}

impl Sleeps {
    /// Whether there was one since the last look.
    pub(super) fn look(&mut self) -> bool {
        let wall = SystemTime::now();
        let passed = wall.duration_since(self.wall);
        // One clock will do where so little has passed: every request comes by here.
        if passed.as_ref().is_ok_and(|passed| !slept(Duration::ZERO, *passed)) {
            return false;
        }
        let running = Instant::now();
        let has_slept = slept(running - self.running, passed.unwrap_or_default());
        self.count += u64::from(has_slept);
        (self.running, self.wall) = (running, wall);
        has_slept
    }

    /// As if the machine had slept for an hour.
    #[cfg(test)]
    pub(super) fn pretend(&mut self) {
        self.wall -= Duration::from_secs(3600);
    }
}

/// Whether much more time has passed on the wall than for the process. A clock that was set does
/// little harm: it costs new connections.
fn slept(running: Duration, wall: Duration) -> bool {
    wall.saturating_sub(running) > limits::POOL_IDLE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_is_seen_by_the_clocks_drifting_apart() {
        let seconds = Duration::from_secs;
        assert!(slept(seconds(2), seconds(8 * 3600)));
        assert!(!slept(seconds(8 * 3600), seconds(8 * 3600 + 1)), "a night awake");
        assert!(!slept(seconds(10), seconds(0)), "a clock that was set back");
    }

    #[test]
    fn a_clock_that_was_set_back_hides_no_sleep() {
        let mut sleeps = Sleeps::default();
        sleeps.wall += Duration::from_secs(3600);
        assert!(!sleeps.look());
        sleeps.pretend();
        assert!(sleeps.look());
    }

    #[test]
    fn each_sleep_counts_once() {
        let mut sleeps = Sleeps::default();
        assert_eq!((sleeps.look(), sleeps.look(), sleeps.count), (false, false, 0));
        sleeps.pretend();
        assert_eq!((sleeps.look(), sleeps.look(), sleeps.count), (true, false, 1));
        sleeps.pretend();
        assert_eq!((sleeps.look(), sleeps.count), (true, 2));
    }
}
