//! Notices that the machine has slept, by two clocks of which one stops meanwhile.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use crate::limits;
use crate::lock::lock;

/// Counts sleeps. They are noticed when somebody asks: nothing wakes up for it.
#[derive(Debug)]
pub(super) struct Sleeps(Mutex<Looked>);

/// What the clocks said when both were last looked at.
#[derive(Debug)]
struct Looked {
    /// Stops while the machine sleeps.
    running: Instant,
    wall: SystemTime,
    count: u64,
}

impl Default for Sleeps {
    fn default() -> Self {
        let (running, wall) = (Instant::now(), SystemTime::now());
        Self(Mutex::new(Looked { running, wall, count: 0 }))
    }
}

impl Sleeps {
    /// How many there were so far.
    pub(super) fn count(&self) -> u64 {
        let mut last = lock(&self.0);
        let wall = SystemTime::now();
        let passed = wall.duration_since(last.wall);
        // One clock will do where so little has passed: every request comes by here.
        if passed.as_ref().is_ok_and(|passed| !slept(Duration::ZERO, *passed)) {
            return last.count;
        }
        let running = Instant::now();
        if slept(running - last.running, passed.unwrap_or_default()) {
            last.count += 1;
        }
        (last.running, last.wall) = (running, wall);
        last.count
    }

    /// As if the machine had slept for an hour.
    #[cfg(test)]
    pub(super) fn pretend(&self) {
        self.0.lock().expect("no panic under the lock").wall -= Duration::from_secs(3600);
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
        let sleeps = Sleeps::default();
        sleeps.0.lock().unwrap().wall += Duration::from_secs(3600);
        assert_eq!(sleeps.count(), 0);
        sleeps.pretend();
        assert_eq!(sleeps.count(), 1);
    }

    #[test]
    fn each_sleep_counts_once() {
        let sleeps = Sleeps::default();
        assert_eq!((sleeps.count(), sleeps.count()), (0, 0));
        sleeps.pretend();
        assert_eq!((sleeps.count(), sleeps.count()), (1, 1));
        sleeps.pretend();
        assert_eq!(sleeps.count(), 2);
    }
}
