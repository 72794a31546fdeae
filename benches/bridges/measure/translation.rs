//! What it costs mcp-span to translate between the eras, beside itself where it need not.

use crate::commands::Stage;
use crate::contest::turns;
use crate::contestant::Contestant;
use crate::figures::failure::Failure;
use crate::figures::figure::{Figure, LARGE};
use crate::figures::results::Results;
use crate::figures::samples::Samples;
use crate::figures::who::Who;
use crate::measure::{Amounts, calls};
use crate::process::Process;
use crate::usage;
use crate::way::Way;

/// How much longer a call takes, and how much more memory a large answer.
pub(crate) fn measure(stage: &Stage, amounts: &Amounts, results: &mut Results) {
    match more_time(stage, amounts) {
        Ok(more) => results.push(Figure::Translation, Who::Span, more),
        Err(failure) => results.fail(&[Figure::Translation], Who::Span, failure),
    }
    match more_memory(stage, amounts) {
        Ok(more) => results.push(Figure::TranslationMemory, Who::Span, more),
        Err(failure) => results.fail(&[Figure::TranslationMemory], Who::Span, failure),
    }
}

/// The median over pairs of blocks of calls.
fn more_time(stage: &Stage, amounts: &Amounts) -> Result<Option<f64>, Failure> {
    let mut samples = [Samples::default(), Samples::default()];
    for _ in 0..amounts.sittings {
        let mut both = start_both(stage)?;
        for at in (0..amounts.short_rounds).flat_map(|round| turns(round, 2)) {
            let (_, [p50, _]) = calls::one_after_the_other(&mut both[at], amounts.sequential)?;
            samples[at].push(Some(p50));
        }
    }
    Ok(samples[1].excess(&samples[0]))
}

/// The difference between the peaks.
fn more_memory(stage: &Stage, amounts: &Amounts) -> Result<Option<f64>, Failure> {
    let mut both = start_both(stage)?;
    for process in &mut both {
        for _ in 0..amounts.larges {
            process.large(LARGE)?;
        }
    }
    let peak = |process: &Process| process.process_id().and_then(usage::peak);
    Ok(peak(&both[1]).zip(peak(&both[0])).map(|(translated, plain)| translated - plain))
}

/// The second one has to translate.
fn start_both(stage: &Stage) -> Result<[Process; 2], Failure> {
    let start = |way| Process::start(stage.command(Who::Span, way)?).map(|(process, _)| process);
    Ok([start(Way::Json)?, start(Way::Modern)?])
}
