//! What mcp-span may take, and whether it keeps to it.

use super::figure::{Figure, LARGE};
use super::results::Results;
use super::unit::times;
use super::who::Who;

/// A tenth more than the message itself: its envelope, and the buffers that it comes in by.
const ONE_MESSAGE: f64 = 1.1 * LARGE as f64;

/// What pools and buffers keep that have been in use once.
const WARM: f64 = 2e6;

/// How a figure is limited.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rule {
    /// At most this many times what the floor takes.
    TimesFloor(f64),
    /// At least this part of the floor's calls a second.
    RateOfFloor(f64),
    /// At most this.
    AtMost(f64),
    /// At most this much more than mcp-span has for another figure.
    Above(Figure, f64),
}

/// The limits, in the order of the table.
pub(crate) const LIMITS: &[(Figure, Rule)] = &[
    (Figure::Start, Rule::TimesFloor(2.0)),
    // A ratio says little on a machine where the floor itself starts slowly.
    (Figure::Start, Rule::AtMost(0.005)),
    // The handshake, and the system's certificates.
    (Figure::StartSecure, Rule::Above(Figure::Start, 0.004)),
    (Figure::JsonP50, Rule::TimesFloor(1.25)),
    (Figure::JsonP99, Rule::TimesFloor(2.0)),
    (Figure::EventsP50, Rule::TimesFloor(1.25)),
    (Figure::EventsP99, Rule::TimesFloor(2.0)),
    (Figure::OldP50, Rule::TimesFloor(1.25)),
    (Figure::JsonRate, Rule::RateOfFloor(0.85)),
    (Figure::EventsRate, Rule::RateOfFloor(0.85)),
    (Figure::Cpu, Rule::TimesFloor(1.3)),
    // The floor passes on pieces that nobody has checked; we hold a message until it is whole.
    (Figure::LargeJson, Rule::TimesFloor(1.6)),
    (Figure::LargeJsonPeak, Rule::Above(Figure::Idle, ONE_MESSAGE)),
    (Figure::LargeJsonAfter, Rule::Above(Figure::Idle, WARM)),
    (Figure::LargeEvent, Rule::TimesFloor(1.6)),
    (Figure::LargeEventPeak, Rule::Above(Figure::Idle, ONE_MESSAGE)),
    (Figure::LargeEventAfter, Rule::Above(Figure::Idle, WARM)),
    (Figure::Request, Rule::TimesFloor(1.3)),
    (Figure::Notifications, Rule::TimesFloor(1.3)),
    (Figure::Idle, Rule::AtMost(8e6)),
    (Figure::Size, Rule::AtMost(9e6)),
    (Figure::Translation, Rule::AtMost(30e-6)),
    // One copy of the message more, not two.
    (Figure::TranslationMemory, Rule::AtMost(ONE_MESSAGE)),
];

/// Whether one limit holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) title: String,
    pub(crate) measured: String,
    pub(crate) allowed: String,
    /// `None` if there is nothing to judge by.
    pub(crate) holds: Option<bool>,
}

impl Verdict {
    /// The verdict in a word.
    pub(crate) fn word(&self) -> &'static str {
        match self.holds {
            Some(true) => "holds",
            Some(false) => "MISSED",
            None => "not measured",
        }
    }
}

/// Whether each limit holds.
pub(crate) fn verdicts(results: &Results) -> Vec<Verdict> {
    LIMITS.iter().map(|(figure, rule)| judge(results, *figure, *rule)).collect()
}

fn judge(results: &Results, figure: Figure, rule: Rule) -> Verdict {
    let unit = figure.unit();
    let ratio = || results.ratio(figure, Who::Span, Who::Floor);
    let shown = |value: Option<f64>, show: &dyn Fn(f64) -> String| {
        value.map_or_else(|| "-".to_owned(), show)
    };
    let (measured, allowed, holds) = match rule {
        Rule::TimesFloor(limit) => {
            let ratio = ratio();
            let allowed = format!("at most {} the floor", times(limit));
            (shown(ratio, &times), allowed, ratio.map(|ratio| ratio <= limit))
        }
        Rule::RateOfFloor(limit) => {
            // Values are seconds a call: the rate is the other way round.
            let rate = ratio().map(|ratio| 1.0 / ratio);
            let allowed = format!("at least {} the floor", times(limit));
            (shown(rate, &times), allowed, rate.map(|rate| rate >= limit))
        }
        Rule::AtMost(limit) => {
            let value = results.median(figure, Who::Span);
            let allowed = format!("at most {}", unit.show(limit));
            (shown(value, &|value| unit.show(value)), allowed, value.map(|value| value <= limit))
        }
        Rule::Above(base, limit) => {
            let value = results.median(figure, Who::Span);
            let more = value.zip(results.median(base, Who::Span)).map(|(value, base)| value - base);
            let allowed = format!("at most {} above {}", unit.show(limit), base.title());
            (shown(more, &|more| unit.show(more)), allowed, more.map(|more| more <= limit))
        }
    };
    Verdict { title: figure.title().to_owned(), measured, allowed, holds }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(values: &[(Figure, Who, f64)]) -> Results {
        let mut results = Results::default();
        for (figure, who, value) in values {
            results.push(*figure, *who, Some(*value));
        }
        results
    }

    fn verdict(results: &Results, figure: Figure) -> Verdict {
        let (_, rule) = LIMITS.iter().find(|(limited, _)| *limited == figure).unwrap();
        judge(results, figure, *rule)
    }

    #[test]
    fn what_is_measured_against_the_floor_is_judged_by_its_ratio() {
        let near = with(&[(Figure::JsonP50, Who::Floor, 1.0), (Figure::JsonP50, Who::Span, 1.25)]);
        assert_eq!(verdict(&near, Figure::JsonP50).holds, Some(true));
        let far = with(&[(Figure::JsonP50, Who::Floor, 1.0), (Figure::JsonP50, Who::Span, 1.26)]);
        assert_eq!(verdict(&far, Figure::JsonP50).holds, Some(false));
        assert_eq!(verdict(&far, Figure::JsonP50).word(), "MISSED");
    }

    #[test]
    fn a_start_is_judged_by_its_ratio_and_by_its_time() {
        let start = |floor: f64, span: f64| {
            let results =
                with(&[(Figure::Start, Who::Floor, floor), (Figure::Start, Who::Span, span)]);
            let verdicts = verdicts(&results);
            [verdicts[0].holds, verdicts[1].holds]
        };
        assert_eq!(start(0.002, 0.004), [Some(true), Some(true)]);
        assert_eq!(start(0.001, 0.004), [Some(false), Some(true)]);
        assert_eq!(start(0.004, 0.006), [Some(true), Some(false)]);
    }

    #[test]
    fn a_rate_must_reach_its_part_of_the_floors() {
        let rates = |span: f64| {
            with(&[
                (Figure::JsonRate, Who::Floor, 1.0 / 100.0),
                (Figure::JsonRate, Who::Span, 1.0 / span),
            ])
        };
        assert_eq!(verdict(&rates(86.0), Figure::JsonRate).holds, Some(true));
        assert_eq!(verdict(&rates(84.0), Figure::JsonRate).holds, Some(false));
        assert_eq!(verdict(&rates(84.0), Figure::JsonRate).measured, "0.84 x");
    }

    #[test]
    fn memory_is_judged_above_what_is_there_when_idle() {
        let peak = |bytes: f64| {
            with(&[(Figure::Idle, Who::Span, 4e6), (Figure::LargeJsonPeak, Who::Span, bytes)])
        };
        assert_eq!(verdict(&peak(74e6), Figure::LargeJsonPeak).holds, Some(true));
        assert_eq!(verdict(&peak(75e6), Figure::LargeJsonPeak).holds, Some(false));
    }

    #[test]
    fn what_was_not_measured_is_not_judged() {
        let verdicts = verdicts(&Results::default());
        assert_eq!(verdicts.len(), LIMITS.len());
        assert!(verdicts.iter().all(|verdict| verdict.holds.is_none()));
        assert!(verdicts.iter().all(|verdict| verdict.word() == "not measured"));
    }
}
