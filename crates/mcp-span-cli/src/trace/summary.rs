//! What the events of a trace come to: counts, the slowest, what was never answered. Pure.

use super::words::duration;

/// How many of the slowest are named.
const SLOWEST: usize = 3;

/// Counts of what was shown.
#[derive(Debug, Default)]
pub(super) struct Summary {
    /// Of the client's.
    pub(super) requests: usize,
    answered: usize,
    errors: usize,
    cancelled: usize,
    open: Vec<String>,
    slowest: Vec<(i64, String)>,
    /// In the order in which each came first.
    recoveries: Vec<(String, usize)>,
}

impl Summary {
    /// A request has ended after `took` microseconds.
    pub(super) fn answered(&mut self, is_error: bool, took: i64, label: String) {
        match is_error {
            true => self.errors += 1,
            false => self.answered += 1,
        }
        // The first of two that took as long stays first.
        let place = self.slowest.partition_point(|(other, _)| *other >= took);
        self.slowest.insert(place, (took, label));
        self.slowest.truncate(SLOWEST);
    }

    /// A request was never answered.
    pub(super) fn open(&mut self, is_cancelled: bool, line: String) {
        self.cancelled += usize::from(is_cancelled);
        self.open.push(line);
    }

    pub(super) fn recovery(&mut self, name: &str) {
        match self.recoveries.iter_mut().find(|(known, _)| known == name) {
            Some((_, count)) => *count += 1,
            None => self.recoveries.push((name.to_owned(), 1)),
        }
    }

    /// All of it, for the end.
    pub(super) fn text(&self, unreadable: usize) -> String {
        let mut text = String::from("\n");
        if !self.open.is_empty() {
            text += &format!("Never answered:\n  {}\n\n", self.open.join("\n  "));
        }
        let s = if self.requests == 1 { "" } else { "s" };
        text += &format!("{} request{s}: {} answered", self.requests, self.answered);
        let unanswered = self.open.len() - self.cancelled;
        for (count, what) in [
            (self.errors, "with an error"),
            (self.cancelled, "cancelled"),
            (unanswered, "never answered"),
        ] {
            if count > 0 {
                text += &format!(", {count} {what}");
            }
        }
        text.push('\n');
        let list = |label: &str, parts: Vec<String>| match parts.is_empty() {
            true => String::new(),
            false => format!("{label}: {}\n", parts.join(", ")),
        };
        let slowest = self.slowest.iter().map(|(took, of)| format!("{of} {}", duration(*took)));
        text += &list("Slowest", slowest.collect());
        let recoveries = self.recoveries.iter().map(|(name, count)| format!("{name} {count}"));
        text += &list("Recoveries", recoveries.collect());
        match unreadable {
            0 => {}
            1 => text += "1 line could not be read\n",
            many => text += &format!("{many} lines could not be read\n"),
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_slowest_are_named_and_recoveries_are_counted() {
        let mut summary = Summary { requests: 4, ..Summary::default() };
        for (n, took) in [5, 9, 7, 1].into_iter().enumerate() {
            summary.answered(false, took * 1000, format!("r{n}"));
        }
        for name in ["server away", "server back", "server away"] {
            summary.recovery(name);
        }
        assert_eq!(
            summary.text(1),
            "\n4 requests: 4 answered\nSlowest: r1 9.0 ms, r2 7.0 ms, r0 5.0 ms\n\
             Recoveries: server away 2, server back 1\n1 line could not be read\n"
        );
    }
}
