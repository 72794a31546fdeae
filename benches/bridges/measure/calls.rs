//! Calls one after the other, then many at once, each with the processor time that they take.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::commands::Stage;
use crate::contest::Contest;
use crate::contestant::{Contestant, Load};
use crate::figures::failure::Failure;
use crate::figures::figure::{CPU_CALLS, Figure, WINDOW};
use crate::figures::results::Results;
use crate::figures::samples::quantile;
use crate::figures::who::Who;
use crate::measure::Amounts;
use crate::usage;
use crate::way::Way;

/// Calls at the beginning of a block that are not counted: connections and caches get warm.
const WARM_UP: usize = 50;

/// Streamable HTTP with answers as JSON; also what a process holds before it has done anything.
pub(crate) fn json(stage: &Stage, all: &[Who], amounts: &Amounts, results: &mut Results) {
    let figures = [Figure::JsonP50, Figure::JsonP99];
    for _ in 0..amounts.sittings {
        let mut contest = Contest::open(stage, Way::Json, all);
        std::thread::sleep(usage::SETTLED);
        contest.look(results, Figure::Idle, usage::resident);
        with_cpu(&mut contest, results, Figure::CpuSequential, |contest, results, count| {
            sequential(contest, results, figures, amounts, count);
        });
        with_cpu(&mut contest, results, Figure::Cpu, |contest, results, count| {
            in_flight(contest, results, Figure::JsonRate, amounts, count);
        });
    }
}

/// The same with answers as events.
pub(crate) fn events(stage: &Stage, all: &[Who], amounts: &Amounts, results: &mut Results) {
    let ignored = &mut Count::default();
    let figures = [Figure::EventsP50, Figure::EventsP99];
    for _ in 0..amounts.sittings {
        let mut contest = Contest::open(stage, Way::Events, all);
        sequential(&mut contest, results, figures, amounts, ignored);
        in_flight(&mut contest, results, Figure::EventsRate, amounts, ignored);
    }
}

/// The older transport.
pub(crate) fn old(stage: &Stage, all: &[Who], amounts: &Amounts, results: &mut Results) {
    let bridges: Vec<Who> = all.iter().copied().filter(|who| *who != Who::Direct).collect();
    let figures = [Figure::OldP50, Figure::OldP99];
    for _ in 0..amounts.sittings {
        let mut contest = Contest::open(stage, Way::Old, &bridges);
        sequential(&mut contest, results, figures, amounts, &mut Count::default());
    }
}

/// How many calls each has made.
type Count = BTreeMap<Who, usize>;

fn sequential(
    contest: &mut Contest<'_>,
    results: &mut Results,
    figures: [Figure; 2],
    amounts: &Amounts,
    count: &mut Count,
) {
    contest.rounds(results, figures, amounts.short_rounds, |who, contestant| {
        let (calls, values) = one_after_the_other(contestant, amounts.sequential)?;
        *count.entry(who).or_default() += calls;
        Ok(values)
    });
}

/// How many calls were made, and the median and the slowest hundredth of them, in seconds.
pub(crate) fn one_after_the_other(
    contestant: &mut dyn Contestant,
    load: Load,
) -> Result<(usize, [f64; 2]), Failure> {
    let warm = contestant.sequential(warm_up(load))?.len();
    let took: Vec<f64> = contestant.sequential(load)?.iter().map(Duration::as_secs_f64).collect();
    let calls = warm + took.len();
    let at = |part| quantile(took.clone(), part).ok_or_else(|| Failure::error("no calls"));
    Ok((calls, [at(0.5)?, at(0.99)?]))
}

fn in_flight(
    contest: &mut Contest<'_>,
    results: &mut Results,
    figure: Figure,
    amounts: &Amounts,
    count: &mut Count,
) {
    contest.rounds(results, [figure], amounts.rounds, |who, contestant| {
        let warm = contestant.in_flight(warm_up(amounts.in_flight), WINDOW)?;
        let burst = contestant.in_flight(amounts.in_flight, WINDOW)?;
        *count.entry(who).or_default() += warm.calls + burst.calls;
        Ok([burst.took.as_secs_f64() / burst.calls as f64])
    });
}

fn warm_up(load: Load) -> Load {
    Load { calls: WARM_UP, ..load }
}

/// Also how much processor time each process took for ten thousand calls.
fn with_cpu(
    contest: &mut Contest<'_>,
    results: &mut Results,
    figure: Figure,
    work: impl FnOnce(&mut Contest<'_>, &mut Results, &mut Count),
) {
    let before: BTreeMap<Who, f64> = contest.seen(usage::cpu_seconds).into_iter().collect();
    let mut count = Count::default();
    work(contest, results, &mut count);
    for (who, after) in contest.seen(usage::cpu_seconds) {
        let (Some(before), Some(calls)) = (before.get(&who), count.get(&who)) else {
            continue;
        };
        results.push(figure, who, Some((after - before) / *calls as f64 * CPU_CALLS));
    }
}
