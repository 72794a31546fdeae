//! What is measured, in which order, and how often.

use std::time::{Duration, Instant};

use super::contest::{Contest, Peer, Who, quantile, take_turns};
use super::direct::Direct;
use super::exchange::Fault;
use super::process::Process;
use super::table::{Table, Unit};
use super::{server, usage};

/// How much of everything.
pub(crate) struct Amounts {
    starts: usize,
    rounds: usize,
    sequential: usize,
    in_flight: usize,
    larges: usize,
}

/// About a minute.
pub(crate) const FULL: Amounts =
    Amounts { starts: 200, rounds: 31, sequential: 1000, in_flight: 5000, larges: 9 };

/// A few seconds.
pub(crate) const QUICK: Amounts =
    Amounts { starts: 20, rounds: 3, sequential: 500, in_flight: 2000, larges: 1 };

/// Calls at the beginning of a block that are not counted: connections and caches get warm.
const WARM_UP: usize = 100;

/// Calls that are out at the same time.
const WINDOW: usize = 64;

/// As large as a message may be by default, all but the envelope.
const LARGE: usize = 64_000_000;

/// Measures everything and prints it.
pub(crate) fn run(amounts: &Amounts) -> Result<(), Fault> {
    let began = Instant::now();
    let address = server::start()?;
    let mut table = Table::default();
    let mut failures = Vec::new();
    let json = format!("http://{address}/mcp");
    starts(&json, amounts, &mut table, &mut failures);

    let mut contest = Contest::open(&json);
    let fresh = contest.look(usage::resident);
    calls("JSON", &mut contest, amounts, &mut table);
    let (after, calls_peak) = (contest.look(usage::resident), contest.look(usage::peak));
    failures.append(&mut contest.failures);
    drop(contest);

    let mut contest = Contest::open(&format!("http://{address}/sse"));
    calls("SSE", &mut contest, amounts, &mut table);
    failures.append(&mut contest.failures);
    drop(contest);

    let mut contest = Contest::open(&format!("http://{address}/modern"));
    let [p50, p99] =
        contest.rounds("translated", amounts.rounds, |peer| sequential(peer, amounts.sequential));
    table.medians("sequential JSON, translated, p50", Unit::Micros, &p50);
    table.medians("sequential JSON, translated, p99", Unit::Micros, &p99);
    let [larges] =
        contest.rounds("64 MB", amounts.larges, |peer| Ok([peer.large(LARGE)?.as_secs_f64()]));
    table.medians("64 MB answer, translated", Unit::Millis, &larges);
    let peak = contest.look(usage::peak);
    table.values("64 MB answer, translated, peak memory", Unit::Mebibytes, peak);
    failures.append(&mut contest.failures);
    drop(contest);

    table.values("memory, after the handshake", Unit::Mebibytes, fresh);
    table.values("memory, after the JSON calls", Unit::Mebibytes, after);
    table.values("memory, peak of the JSON calls", Unit::Mebibytes, calls_peak);

    let mut contest = Contest::open(&json);
    let [larges] =
        contest.rounds("64 MB", amounts.larges, |peer| Ok([peer.large(LARGE)?.as_secs_f64()]));
    table.medians("64 MB answer, JSON", Unit::Millis, &larges);
    table.values("64 MB answer, peak memory", Unit::Mebibytes, contest.look(usage::peak));
    failures.append(&mut contest.failures);

    table.print();
    for failure in &failures {
        println!("FAILED {failure}");
    }
    println!("\n{} failures, {:.0} s", failures.len(), began.elapsed().as_secs_f64());
    Ok(())
}

/// From the start of a process to its first byte, and from the end of its stdin to its own.
fn starts(url: &str, amounts: &Amounts, table: &mut Table, failures: &mut Vec<String>) {
    // Whoever fails is out: one wait to its end is enough to know.
    let mut is_out = [false; 3];
    let [start, end] = take_turns(amounts.starts, |who| {
        let measured = match who {
            _ if is_out[who as usize] => Ok([None; 2]),
            Who::Direct => Direct::start(url).map(|(_, took)| [Some(took), None]),
            _ => start_and_end(who, url).map(|took| took.map(Some)),
        };
        let seconds = measured.map(|both| both.map(|took| took.map(|took| took.as_secs_f64())));
        seconds.unwrap_or_else(|error| {
            failures.push(format!("{}: start: {error}", who.name()));
            is_out[who as usize] = true;
            [None; 2]
        })
    });
    table.judged("start to first byte", Unit::Millis, &start);
    table.values("start to first byte, least", Unit::Millis, Who::ALL.map(|who| start.min(who)));
    table.medians("end of stdin to exit", Unit::Millis, &end);
}

fn start_and_end(who: Who, url: &str) -> Result<[Duration; 2], String> {
    let (process, start) = Process::start(who, url)?;
    Ok([start, process.end()?])
}

/// One after the other, then many at once, each with the processor time that it takes.
fn calls(form: &str, contest: &mut Contest, amounts: &Amounts, table: &mut Table) {
    let what = format!("sequential {form}");
    let (cpu, [p50, p99]) =
        with_cpu(contest, amounts.rounds * (WARM_UP + amounts.sequential), |contest| {
            contest.rounds(&what, amounts.rounds, |peer| sequential(peer, amounts.sequential))
        });
    table.judged(&format!("{what}, p50"), Unit::Micros, &p50);
    table.medians(&format!("{what}, p99"), Unit::Micros, &p99);
    table.values(&format!("{what}, CPU a call"), Unit::Micros, cpu);

    let what = format!("{WINDOW} in flight {form}");
    let (cpu, [each]) =
        with_cpu(contest, amounts.rounds * (WARM_UP + amounts.in_flight), |contest| {
            contest.rounds(&what, amounts.rounds, |peer| in_flight(peer, amounts.in_flight))
        });
    table.judged(&what, Unit::Rate, &each);
    table.values(&format!("{what}, CPU a call"), Unit::Micros, cpu);
}

fn sequential(peer: &mut dyn Peer, calls: usize) -> Result<[f64; 2], String> {
    peer.sequential(WARM_UP)?;
    let took: Vec<f64> = peer.sequential(calls)?.iter().map(Duration::as_secs_f64).collect();
    let at = |part| quantile(took.clone(), part).ok_or_else(|| "no calls".to_owned());
    Ok([at(0.5)?, at(0.99)?])
}

fn in_flight(peer: &mut dyn Peer, calls: usize) -> Result<[f64; 1], String> {
    peer.in_flight(WARM_UP, WINDOW)?;
    let took = peer.in_flight(calls, WINDOW)?;
    Ok([took.as_secs_f64() / calls as f64])
}

/// Also how much processor time each process took for each of `calls`.
fn with_cpu<T>(
    contest: &mut Contest,
    calls: usize,
    work: impl FnOnce(&mut Contest) -> T,
) -> ([Option<f64>; 3], T) {
    let before = contest.look(usage::cpu_seconds);
    let done = work(contest);
    let after = contest.look(usage::cpu_seconds);
    let spent = Who::ALL.map(|who| {
        let (before, after) = (before[who as usize]?, after[who as usize]?);
        Some((after - before) / calls as f64)
    });
    (spent, done)
}
