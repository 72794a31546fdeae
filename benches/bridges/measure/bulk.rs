//! Much at once: large answers, large requests, many notifications.

use crate::commands::Stage;
use crate::contest::Contest;
use crate::figures::figure::{Figure, LARGE, LARGE_REQUEST, NOTIFICATIONS};
use crate::figures::results::Results;
use crate::figures::who::Who;
use crate::measure::Amounts;
use crate::usage;
use crate::way::Way;

/// Large answers in both forms, with the memory that they take and that stays.
pub(crate) fn answers(stage: &Stage, all: &[Who], amounts: &Amounts, results: &mut Results) {
    let json = [Figure::LargeJson, Figure::LargeJsonPeak, Figure::LargeJsonAfter];
    let event = [Figure::LargeEvent, Figure::LargeEventPeak, Figure::LargeEventAfter];
    for (way, [time, peak, after]) in [(Way::Json, json), (Way::Events, event)] {
        let mut contest = Contest::open(stage, way, all);
        contest.rounds(results, [time], amounts.larges, |_, contestant| {
            Ok([contestant.large(LARGE)?.as_secs_f64()])
        });
        contest.look(results, peak, usage::peak);
        std::thread::sleep(usage::SETTLED);
        contest.look(results, after, usage::resident);
    }
}

/// Large requests, and streams of notifications.
pub(crate) fn others(stage: &Stage, all: &[Who], amounts: &Amounts, results: &mut Results) {
    let mut contest = Contest::open(stage, Way::Json, all);
    contest.rounds(results, [Figure::Request], amounts.larges, |_, contestant| {
        Ok([contestant.request(LARGE_REQUEST)?.as_secs_f64()])
    });
    for _ in 0..amounts.sittings {
        let mut contest = Contest::open(stage, Way::Json, all);
        contest.rounds(results, [Figure::Notifications], amounts.floods, |_, contestant| {
            Ok([contestant.notifications(NOTIFICATIONS)?.as_secs_f64()])
        });
    }
}
