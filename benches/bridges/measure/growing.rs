//! The same thing in growing sizes: cost has to grow in proportion.

use std::collections::BTreeMap;

use crate::commands::Stage;
use crate::contest::turns;
use crate::contestant::{Contestant, Load};
use crate::figures::failure::Failure;
use crate::figures::results::Results;
use crate::figures::samples::quantile;
use crate::figures::sweep::{Growth, Point};
use crate::figures::who::Who;
use crate::measure::Amounts;
use crate::process::Process;
use crate::way::Way;

const BYTES: [usize; 4] = [1_000_000, 16_000_000, 64_000_000, 256_000_000];
const CALLS: [usize; 4] = [1, 64, 1_000, 10_000];

const OF_BYTES: &str = "answers of 1, 16, 64, 256 MB";
const OF_CALLS: &str = "1, 64, 1,000, 10,000 in flight";

/// Few calls take so little time that one look at them says nothing.
const CALLS_A_BLOCK: usize = 1_000;

const BOTH: [Who; 2] = [Who::Floor, Who::Span];

/// How both sorts of cost grow, for the floor and for us.
pub(crate) fn measure(stage: &Stage, amounts: &Amounts, results: &mut Results) -> Vec<Growth> {
    let mut growths = sweep(stage, OF_BYTES, &BYTES, amounts, results, |process, bytes| {
        Ok(process.large(bytes)?.as_secs_f64())
    });
    growths.extend(sweep(stage, OF_CALLS, &CALLS, amounts, results, all_at_once));
    growths
}

/// Seconds for `calls` calls that are all out together.
fn all_at_once(process: &mut Process, calls: usize) -> Result<f64, Failure> {
    let times = (CALLS_A_BLOCK / calls).max(1);
    let mut seconds = 0.0;
    for _ in 0..times {
        seconds += process.in_flight(Load::all(calls), calls)?.took.as_secs_f64();
    }
    Ok(seconds / times as f64)
}

fn sweep(
    stage: &Stage,
    title: &'static str,
    sizes: &[usize],
    amounts: &Amounts,
    results: &mut Results,
    work: impl Fn(&mut Process, usize) -> Result<f64, Failure>,
) -> Vec<Growth> {
    let mut values: BTreeMap<(Who, usize), Vec<f64>> = BTreeMap::new();
    let mut processes = BOTH.map(|who| {
        let started = stage.command(who, Way::Huge).and_then(Process::start);
        let process = started.map(|(process, _)| process);
        process.map_err(|failure| results.note(title, who, failure)).ok()
    });
    // One round more, which does not count: memory and connections are there afterwards.
    for (round, size) in (0..=amounts.growing).flat_map(|r| sizes.iter().map(move |s| (r, *s))) {
        for at in turns(round, BOTH.len()) {
            let (who, slot) = (BOTH[at], &mut processes[at]);
            let Some(process) = slot else { continue };
            match work(process, size) {
                Ok(seconds) if round > 0 => values.entry((who, size)).or_default().push(seconds),
                Ok(_) => {}
                Err(failure) => {
                    results.note(title, who, failure.at(size));
                    *slot = None;
                }
            }
        }
    }
    let growth = |who: Who| {
        let point = |size: &usize| {
            let seconds = quantile(values.get(&(who, *size))?.clone(), 0.5)?;
            Some(Point { size: *size as f64, seconds })
        };
        Growth { title, who, points: sizes.iter().filter_map(point).collect() }
    };
    BOTH.map(growth).into()
}
