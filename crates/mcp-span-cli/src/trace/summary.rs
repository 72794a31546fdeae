//! What the events of a trace come to: counts, the slowest, what was never answered. Pure.

use super::words::in_words;
use crate::output::count;

/// How many of the slowest are named.
const SLOWEST: usize = 3;

/// Counts of what was shown.
#[derive(Debug, Default)]
pub(super) struct Summary {
    answered: usize,
    errors: usize,
    cancelled: usize,
    open: Vec<String>,
    slowest: Vec<(f64, String)>,
    /// In the order in which each came first.
    recoveries: Vec<(String, usize)>,
}

impl Summary {
    /// A request has ended after `took` seconds.
    pub(super) fn answered(&mut self, is_error: bool, took: f64, label: String) {
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

    /// All of it, for the end: lines, each with its heading.
    pub(super) fn lines(self, unreadable: usize) -> Vec<(&'static str, String)> {
        let mut lines = vec![("", String::new())];
        let requests = self.answered + self.errors + self.open.len();
        let unanswered = self.open.len() - self.cancelled;
        if !self.open.is_empty() {
            lines.push(("Never answered:", String::new()));
            lines.extend(self.open.into_iter().map(|request| ("  ", request)));
            lines.push(("", String::new()));
        }
        let requests = count(requests, "request", "requests");
        let mut counts = format!("{requests}: {} answered", self.answered);
        for (number, what) in [
            (self.errors, "with an error"),
            (self.cancelled, "cancelled"),
            (unanswered, "never answered"),
        ] {
            if number > 0 {
                counts += &format!(", {number} {what}");
            }
        }
        lines.push(("", counts));
        let slowest = self.slowest.iter().map(|(took, of)| format!("{of} {}", in_words(*took)));
        let recoveries = self.recoveries.iter().map(|(name, count)| format!("{name} {count}"));
        for (head, parts) in
            [("Slowest: ", slowest.collect::<Vec<_>>()), ("Recoveries: ", recoveries.collect())]
        {
            if !parts.is_empty() {
                lines.push((head, parts.join(", ")));
            }
        }
        if unreadable > 0 {
            lines.push(("", count(unreadable, "line", "lines") + " could not be read"));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_slowest_are_named_and_recoveries_are_counted() {
        let mut summary = Summary::default();
        for (n, took) in [0.005, 0.009, 0.007, 0.001].into_iter().enumerate() {
            summary.answered(false, took, format!("r{n}"));
        }
        for name in ["server away", "server back", "server away"] {
            summary.recovery(name);
        }
        let lines = summary.lines(1);
        let lines: String = lines.iter().map(|(head, text)| format!("{head}{text}\n")).collect();
        assert_eq!(
            lines,
            "\n4 requests: 4 answered\nSlowest: r1 9.0 ms, r2 7.0 ms, r0 5.0 ms\n\
             Recoveries: server away 2, server back 1\n1 line could not be read\n"
        );
    }
}
