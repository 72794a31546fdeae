//! Random numbers that come the same way again for the same seed.

use std::sync::Mutex;

/// A small generator that can be shared.
#[derive(Debug)]
pub(crate) struct Chance(Mutex<u64>);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        // The state must not be zero.
        Self(Mutex::new(seed.wrapping_mul(2).wrapping_add(1)))
    }

    /// A number below `limit`.
    pub(crate) fn below(&self, limit: u64) -> u64 {
        let mut state = self.0.lock().expect("no panic under the lock");
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }

    /// True in `percent` of a hundred cases.
    pub(crate) fn percent(&self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
