//! What is measured, in which order, and how often.

mod bulk;
mod calls;
mod growing;
mod starts;
mod translation;

use std::time::{Duration, Instant};

use crate::commands::Stage;
use crate::contestant::Load;
use crate::figures::figure::Figure;
use crate::figures::results::Results;
use crate::figures::sweep::Growth;
use crate::figures::who::Who;

/// How much of everything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amounts {
    starts: usize,
    /// How many times the contestants are started anew for calls and notifications: where a process
    /// lies in memory, and on which core it has come to rest, makes a difference of a tenth for as
    /// long as it lives.
    sittings: usize,
    /// Rounds of each sitting, of calls one after the other. Short ones, and many: how long a call
    /// takes moves by a half within seconds, with the cores that all concerned have come to rest on.
    short_rounds: usize,
    /// The same of many at once. As many as there are contestants, or several times as many: each has
    /// every place in the order as often as the others.
    rounds: usize,
    sequential: Load,
    in_flight: Load,
    /// Rounds of large things.
    larges: usize,
    /// Rounds of each sitting, of many notifications.
    floods: usize,
    /// Rounds for each size of those that grow.
    growing: usize,
}

impl Amounts {
    /// The fewest and the most rounds that anything is measured in.
    pub(crate) fn rounds(&self) -> [usize; 2] {
        let sat =
            [self.short_rounds, self.rounds, self.floods].map(|rounds| self.sittings * rounds);
        let all = [self.starts, self.larges].into_iter().chain(sat);
        [all.clone().min().unwrap_or(0), all.max().unwrap_or(0)]
    }
}

/// A bit more than a minute, for us and the floor.
pub(crate) const SELF: Amounts = Amounts {
    starts: 101,
    sittings: 9,
    short_rounds: 12,
    rounds: 6,
    sequential: Load { calls: 250, time: Duration::from_secs(2) },
    in_flight: Load { calls: 2500, time: Duration::from_secs(2) },
    larges: 11,
    floods: 12,
    growing: 5,
};

/// Some ten minutes, for everyone: most of it is waiting for the slow ones.
pub(crate) const ALL: Amounts = Amounts {
    starts: 15,
    // One: who hangs would do so in each of them.
    sittings: 1,
    short_rounds: 8,
    rounds: 8,
    sequential: Load { calls: 1000, time: Duration::from_millis(1000) },
    in_flight: Load { calls: 5000, time: Duration::from_millis(1000) },
    larges: 3,
    floods: 5,
    growing: 3,
};

/// A few seconds for us, to see that everything works.
pub(crate) const QUICK: Amounts = Amounts {
    starts: 5,
    sittings: 1,
    short_rounds: 3,
    rounds: 3,
    sequential: Load { calls: 300, time: Duration::from_millis(300) },
    in_flight: Load { calls: 1000, time: Duration::from_millis(300) },
    larges: 1,
    floods: 1,
    growing: 1,
};

/// All that came of it.
pub(crate) struct Measured {
    pub(crate) results: Results,
    pub(crate) growths: Vec<Growth>,
}

/// Measures everything for `all`; or those steps alone whose names have `only` in them.
pub(crate) fn everything(stage: &Stage, all: &[Who], amounts: &Amounts, only: &str) -> Measured {
    let mut results = Results::default();
    let results_of = &mut results;
    let step = |name: &str, work: &mut dyn FnMut()| {
        if name.contains(only) {
            timed(name, work);
        }
    };
    step("starts", &mut || starts::plain(stage, all, amounts, results_of));
    step("starts over https", &mut || starts::secure(stage, amounts, results_of));
    step("calls with JSON answers", &mut || calls::json(stage, all, amounts, results_of));
    step("calls with SSE answers", &mut || calls::events(stage, all, amounts, results_of));
    step("calls over HTTP+SSE", &mut || calls::old(stage, all, amounts, results_of));
    step("large answers", &mut || bulk::answers(stage, all, amounts, results_of));
    step("requests, notifications", &mut || bulk::others(stage, all, amounts, results_of));
    step("translation", &mut || translation::measure(stage, amounts, results_of));
    sizes(stage, all, results_of);
    let mut growths = Vec::new();
    step("growing sizes", &mut || growths = growing::measure(stage, amounts, results_of));
    Measured { results, growths }
}

/// Says on stderr what is under way, for it takes its time.
fn timed(name: &str, work: &mut dyn FnMut()) {
    let began = Instant::now();
    work();
    eprintln!("{name}: {:.0} s", began.elapsed().as_secs_f64());
}

fn sizes(stage: &Stage, all: &[Who], results: &mut Results) {
    for who in all {
        let size = stage.binary(*who).and_then(|file| std::fs::metadata(file).ok());
        if let Some(size) = size {
            results.push(Figure::Size, *who, Some(size.len() as f64));
        }
    }
}
