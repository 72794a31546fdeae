//! The contestants, started, and the rounds in which they take turns.

use std::time::Instant;

use crate::commands::Stage;
use crate::contestant::{Contestant, PATIENCE};
use crate::direct::Direct;
use crate::figures::failure::Failure;
use crate::figures::figure::Figure;
use crate::figures::results::Results;
use crate::figures::who::Who;
use crate::process::Process;
use crate::way::Way;

/// How it stands with one of them.
enum Seat {
    Working(Box<dyn Contestant>),
    /// It failed at something, and is started again for the next thing.
    Fallen,
    /// It does not even start.
    Out(Failure),
}

/// Contestants that reach the server the same way, each with a session.
pub(crate) struct Contest<'a> {
    stage: &'a Stage,
    way: Way,
    seats: Vec<(Who, Seat)>,
}

impl<'a> Contest<'a> {
    pub(crate) fn open(stage: &'a Stage, way: Way, all: &[Who]) -> Self {
        let seats = all.iter().map(|who| (*who, seat(stage, *who, way))).collect();
        Self { stage, way, seats }
    }

    /// Rounds of `work`, each of which begins with another contestant. Whoever fails is out until
    /// the next thing is measured.
    pub(crate) fn rounds<const N: usize>(
        &mut self,
        results: &mut Results,
        figures: [Figure; N],
        rounds: usize,
        mut work: impl FnMut(Who, &mut dyn Contestant) -> Result<[f64; N], Failure>,
    ) {
        for (who, seat) in &mut self.seats {
            if matches!(seat, Seat::Fallen) {
                *seat = self::seat(self.stage, *who, self.way);
            }
            if let Seat::Out(failure) = seat {
                results.fail(&figures, *who, failure.clone());
            }
        }
        let count = self.seats.len();
        let mut is_slow = vec![false; count];
        for at in (0..rounds).flat_map(|round| turns(round, count)) {
            let (who, seat) = &mut self.seats[at];
            let began = Instant::now();
            let values = match seat {
                Seat::Working(_) if is_slow[at] => [None; N],
                Seat::Working(contestant) => match work(*who, contestant.as_mut()) {
                    Ok(values) => values.map(Some),
                    Err(failure) => {
                        results.fail(&figures, *who, failure);
                        *seat = Seat::Fallen;
                        [None; N]
                    }
                },
                Seat::Fallen | Seat::Out(_) => [None; N],
            };
            is_slow[at] |= began.elapsed() > PATIENCE;
            for (figure, value) in figures.into_iter().zip(values) {
                results.push(figure, *who, value);
            }
        }
    }

    /// What `look` sees of each process, as a figure.
    pub(crate) fn look(
        &self,
        results: &mut Results,
        figure: Figure,
        look: impl Fn(u32) -> Option<f64>,
    ) {
        for (who, value) in self.seen(look) {
            results.push(figure, who, Some(value));
        }
    }

    /// What `look` sees of each process that works.
    pub(crate) fn seen(&self, look: impl Fn(u32) -> Option<f64>) -> Vec<(Who, f64)> {
        let seen = self.seats.iter().filter_map(|(who, seat)| match seat {
            Seat::Working(contestant) => Some((*who, look(contestant.process_id()?)?)),
            Seat::Fallen | Seat::Out(_) => None,
        });
        seen.collect()
    }
}

/// The order of `count` contestants in a round.
pub(crate) fn turns(round: usize, count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |turn| (round + turn) % count)
}

fn seat(stage: &Stage, who: Who, way: Way) -> Seat {
    let started = match who {
        Who::Direct => Direct::start(&stage.server.url(way)).map(|(it, _)| Box::new(it) as Box<_>),
        _ => stage
            .command(who, way)
            .and_then(Process::start)
            .map(|(it, _)| Box::new(it) as Box<dyn Contestant>),
    };
    started.map_or_else(|failure| Seat::Out(failure.at("start")), Seat::Working)
}
