//! What has happened lately, counted within a time. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// When something happened, as far as it still counts.
#[derive(Debug, Default)]
pub(super) struct Recent(VecDeque<Instant>);

/// More of them need not be known, however often it happens.
const REMEMBERED: usize = 8;

impl Recent {
    /// Whether it has happened so often within `window`.
    pub(super) fn is_enough(&self, most: usize, window: Duration, now: Instant) -> bool {
        let counts = |at: &&Instant| now.saturating_duration_since(**at) < window;
        self.0.iter().filter(counts).count() >= most
    }

    /// It has happened again.
    pub(super) fn note(&mut self, now: Instant) {
        self.0.truncate(REMEMBERED - 1);
        self.0.push_front(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_ago_counts_no_more() {
        let (start, window) = (Instant::now(), Duration::from_secs(300));
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut recent = Recent::default();
        let is_enough = |recent: &Recent, now| recent.is_enough(2, window, now);
        assert!(!is_enough(&recent, at(0)));
        recent.note(at(0));
        recent.note(at(200));
        assert!(is_enough(&recent, at(299)), "two within the window");
        assert!(!is_enough(&recent, at(301)), "the first is forgotten");
        recent.note(at(301));
        assert!(is_enough(&recent, at(499)));
        assert!(!is_enough(&recent, at(501)));
        for second in 600..700 {
            recent.note(at(second));
        }
        assert_eq!(recent.0.len(), REMEMBERED, "memory is bounded");
    }
}
