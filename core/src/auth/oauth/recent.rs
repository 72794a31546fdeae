//! What has happened lately, counted within a time. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// When something happened, as far as it still counts.
#[derive(Debug)]
pub(super) struct Recent {
    times: Vec<Instant>,
    window: Duration,
    most: usize,
}

impl Recent {
    /// So many are enough within `window`.
    pub(super) fn new(most: usize, window: Duration) -> Self {
        Self { times: Vec::new(), window, most }
    }

    /// Whether there were enough; those of long ago are forgotten.
    pub(super) fn is_enough(&mut self, now: Instant) -> bool {
        self.times.retain(|at| now.saturating_duration_since(*at) < self.window);
        self.times.len() >= self.most
    }

    /// It has happened again.
    pub(super) fn note(&mut self, now: Instant) {
        // However often it happens, more than that need not be known.
        if self.is_enough(now) && !self.times.is_empty() {
            self.times.remove(0);
        }
        self.times.push(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_ago_counts_no_more() {
        let (start, window) = (Instant::now(), Duration::from_secs(300));
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut recent = Recent::new(2, window);
        assert!(!recent.is_enough(at(0)));
        recent.note(at(0));
        recent.note(at(200));
        assert!(recent.is_enough(at(299)), "two within the window");
        assert!(!recent.is_enough(at(301)), "the first is forgotten");
        recent.note(at(301));
        assert!(recent.is_enough(at(499)));
        assert!(!recent.is_enough(at(501)));
        for second in 600..700 {
            recent.note(at(second));
        }
        assert_eq!(recent.times.len(), 2, "memory is bounded");
    }
}
