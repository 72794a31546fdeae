//! What every contestant can be asked to do.

use std::time::{Duration, Instant};

use crate::figures::failure::Failure;

/// No small answer takes longer, unless something is broken.
pub(crate) const SHORT_WAIT: Duration = Duration::from_secs(10);

/// The same for a large answer; some need half a minute for one, and more on a busy machine.
pub(crate) const LONG_WAIT: Duration = Duration::from_secs(120);

/// Whoever takes longer than this in one round is not asked again: there is little doubt left, and
/// the others wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// How many calls are made, if there is time for all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) calls: usize,
    /// When this is over, no further call begins: the slow ones would hold up everyone.
    pub(crate) time: Duration,
}

impl Load {
    /// So many, however long they take.
    pub(crate) fn all(calls: usize) -> Self {
        Self { calls, time: Duration::MAX }
    }

    /// Whether another call may begin after `done` others.
    pub(crate) fn has_room(&self, done: usize, began: Instant) -> bool {
        // A few are made in any case, for there to be a median.
        const LEAST: usize = 20;
        done < self.calls && (done < LEAST || began.elapsed() < self.time)
    }
}

/// Calls that were made side by side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Burst {
    pub(crate) calls: usize,
    pub(crate) took: Duration,
}

/// One way to the server. A failure says what was lost, wrong or hanging.
pub(crate) trait Contestant {
    /// One call after the other: how long each took.
    fn sequential(&mut self, load: Load) -> Result<Vec<Duration>, Failure>;

    /// Calls of which `window` are out at any time: how long all took.
    fn in_flight(&mut self, load: Load, window: usize) -> Result<Burst, Failure>;

    /// One call with an answer of `bytes` bytes.
    fn large(&mut self, bytes: usize) -> Result<Duration, Failure>;

    /// One call with an argument of `bytes` bytes.
    fn request(&mut self, bytes: usize) -> Result<Duration, Failure>;

    /// One call whose answer comes behind `count` notifications.
    fn notifications(&mut self, count: usize) -> Result<Duration, Failure>;

    /// The process that does the work, if it is not this one.
    fn process_id(&self) -> Option<u32>;
}
