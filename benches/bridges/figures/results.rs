//! All that was measured, and all that failed.

use std::collections::BTreeMap;

use super::failure::{Failure, Kind};
use super::figure::Figure;
use super::samples::Samples;
use super::unit::times;
use super::who::Who;

/// One failure, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) who: Who,
    pub(crate) what: String,
    pub(crate) failure: Failure,
}

/// What stands in the table so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Results {
    samples: BTreeMap<(Figure, Who), Samples>,
    kinds: BTreeMap<(Figure, Who), Kind>,
    /// In the order in which they happened.
    pub(crate) failures: Vec<Named>,
}

impl Results {
    /// Adds the value of the next round.
    pub(crate) fn push(&mut self, figure: Figure, who: Who, value: Option<f64>) {
        self.samples.entry((figure, who)).or_default().push(value);
    }

    /// Notes that `who` failed: its values for these figures no longer count.
    pub(crate) fn fail(&mut self, figures: &[Figure], who: Who, failure: Failure) {
        for figure in figures {
            self.kinds.entry((*figure, who)).or_insert(failure.kind);
        }
        let what = figures.first().map_or("", |figure| figure.title()).to_owned();
        let named = Named { who, what, failure };
        if !self.failures.contains(&named) {
            self.failures.push(named);
        }
    }

    /// Notes a failure that costs no figure.
    pub(crate) fn note(&mut self, what: &str, who: Who, failure: Failure) {
        self.failures.push(Named { who, what: what.to_owned(), failure });
    }

    /// What was measured in all rounds, if all went well.
    pub(crate) fn samples(&self, figure: Figure, who: Who) -> Option<&Samples> {
        let has_failed = self.kinds.contains_key(&(figure, who));
        self.samples.get(&(figure, who)).filter(|_| !has_failed)
    }

    pub(crate) fn median(&self, figure: Figure, who: Who) -> Option<f64> {
        self.samples(figure, who)?.median()
    }

    /// How many times what `base` takes.
    pub(crate) fn ratio(&self, figure: Figure, who: Who, base: Who) -> Option<f64> {
        self.samples(figure, who)?.ratio(self.samples(figure, base)?)
    }

    /// The median with its unit, or why there is none.
    pub(crate) fn shown(&self, figure: Figure, who: Who) -> String {
        if let Some(kind) = self.kinds.get(&(figure, who)) {
            return kind.word().to_owned();
        }
        match self.median(figure, who) {
            Some(value) => figure.unit().show(value),
            None => "-".to_owned(),
        }
    }

    /// The same with a factor: of the floor for mcp-span, of mcp-span for the programs of others.
    pub(crate) fn compared(&self, figure: Figure, who: Who) -> String {
        let shown = self.shown(figure, who);
        let base = match who {
            Who::Direct | Who::Floor => return shown,
            Who::Span => Who::Floor,
            _ => Who::Span,
        };
        match self.ratio(figure, who, base).filter(|ratio| ratio.is_finite()) {
            Some(ratio) => format!("{shown} ({})", times(ratio)),
            None => shown,
        }
    }

    /// Whether anything is known of `who`.
    pub(crate) fn has(&self, who: Who) -> bool {
        self.samples.keys().chain(self.kinds.keys()).any(|(_, one)| *one == who)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_takes_the_place_of_values_and_is_told_once() {
        let mut results = Results::default();
        results.push(Figure::Request, Who::McpRemote, Some(0.1));
        assert_eq!(results.shown(Figure::Request, Who::McpRemote), "100 ms");
        for _ in 0..2 {
            results.fail(&[Figure::Request], Who::McpRemote, Failure::hang("no answer in 30 s"));
        }
        assert_eq!(results.shown(Figure::Request, Who::McpRemote), "hangs");
        assert_eq!(results.median(Figure::Request, Who::McpRemote), None);
        assert_eq!(results.failures.len(), 1);
        assert_eq!(results.failures[0].what, "16 MB request");
    }

    #[test]
    fn we_are_compared_with_the_floor_and_others_with_us() {
        let mut results = Results::default();
        for (who, value) in [(Who::Floor, 0.002), (Who::Span, 0.003), (Who::McpStdio, 0.06)] {
            results.push(Figure::Start, who, Some(value));
        }
        assert_eq!(results.compared(Figure::Start, Who::Floor), "2.00 ms");
        assert_eq!(results.compared(Figure::Start, Who::Span), "3.00 ms (1.50 x)");
        assert_eq!(results.compared(Figure::Start, Who::McpStdio), "60.0 ms (20.0 x)");
        assert_eq!(results.compared(Figure::Start, Who::McpProxy), "-");
        assert!(results.has(Who::McpStdio) && !results.has(Who::McpProxy));
    }

    #[test]
    fn a_rate_compares_by_what_a_call_takes() {
        let mut results = Results::default();
        results.push(Figure::JsonRate, Who::Span, Some(1.0 / 50_000.0));
        results.push(Figure::JsonRate, Who::McpRemote, Some(1.0 / 2_000.0));
        assert_eq!(results.compared(Figure::JsonRate, Who::McpRemote), "2,000 /s (25.0 x)");
    }
}
