//! How long it takes to begin and to end.

use crate::commands::Stage;
use crate::contest::turns;
use crate::direct::Direct;
use crate::figures::failure::Failure;
use crate::figures::figure::Figure;
use crate::figures::results::Results;
use crate::figures::who::Who;
use crate::measure::Amounts;
use crate::process::Process;
use crate::way::Way;

/// From the start of a process to the answer to `initialize`, and from the end of its stdin to its
/// own.
pub(crate) fn plain(stage: &Stage, all: &[Who], amounts: &Amounts, results: &mut Results) {
    measure(stage, Way::Json, all, amounts.starts, results, |who, results, outcome| {
        let (start, end) = match outcome {
            Ok((start, end)) => (Some(start), end),
            Err(failure) => {
                results.fail(&[Figure::Start, Figure::End], who, failure);
                (None, None)
            }
        };
        results.push(Figure::Start, who, start);
        match end {
            Some(Ok(end)) => results.push(Figure::End, who, Some(end)),
            Some(Err(failure)) => results.fail(&[Figure::End], who, failure),
            None => results.push(Figure::End, who, None),
        }
    });
}

/// The start over https, for those who know whom to trust.
pub(crate) fn secure(stage: &Stage, amounts: &Amounts, results: &mut Results) {
    let both = [Who::Floor, Who::Span];
    measure(stage, Way::Secure, &both, amounts.starts, results, |who, results, outcome| {
        match outcome {
            Ok((start, _)) => results.push(Figure::StartSecure, who, Some(start)),
            Err(failure) => results.fail(&[Figure::StartSecure], who, failure),
        }
    });
}

/// Seconds to the answer and, of processes, to the end.
type Outcome = Result<(f64, Option<Result<f64, Failure>>), Failure>;

fn measure(
    stage: &Stage,
    way: Way,
    all: &[Who],
    rounds: usize,
    results: &mut Results,
    mut note: impl FnMut(Who, &mut Results, Outcome),
) {
    // Whoever fails is out: one wait to its end is enough to know.
    let mut is_out = vec![false; all.len()];
    for at in (0..rounds).flat_map(|round| turns(round, all.len())) {
        if is_out[at] {
            continue;
        }
        let outcome = once(stage, way, all[at]);
        is_out[at] = !matches!(outcome, Ok((_, None | Some(Ok(_)))));
        note(all[at], results, outcome);
    }
}

fn once(stage: &Stage, way: Way, who: Who) -> Outcome {
    if who == Who::Direct {
        let (_, took) = Direct::start(&stage.server.url(way))?;
        return Ok((took.as_secs_f64(), None));
    }
    let (process, start) = Process::start(stage.command(who, way)?)?;
    Ok((start.as_secs_f64(), Some(process.end().map(|end| end.as_secs_f64()))))
}
