//! The three contestants, and the rounds in which they take turns.

use std::time::Duration;

use super::direct::Direct;
use super::process::Process;

/// No small answer takes longer, unless something is broken.
pub(crate) const SHORT_WAIT: Duration = Duration::from_secs(10);

/// The same for a large answer.
pub(crate) const LONG_WAIT: Duration = Duration::from_secs(30);

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Direct,
    Floor,
    Span,
}

impl Who {
    pub(crate) const ALL: [Self; 3] = [Self::Direct, Self::Floor, Self::Span];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Floor => "floor",
            Self::Span => "mcp-span",
        }
    }
}

/// One way to the server. An error says what was lost, wrong or hanging.
pub(crate) trait Peer {
    /// One call after the other: how long each took.
    fn sequential(&mut self, calls: usize) -> Result<Vec<Duration>, String>;

    /// `calls` calls, of which `window` are out at any time: how long all took.
    fn in_flight(&mut self, calls: usize, window: usize) -> Result<Duration, String>;

    /// One call with an answer of `bytes` bytes: how long it took.
    fn large(&mut self, bytes: usize) -> Result<Duration, String>;

    /// The process that does the work, if it is not this one.
    fn process_id(&self) -> Option<u32>;
}

/// What was measured, one value a round; `None` where there was none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples([Vec<Option<f64>>; 3]);

impl Samples {
    pub(crate) fn push(&mut self, who: Who, value: Option<f64>) {
        self.0[who as usize].push(value);
    }

    pub(crate) fn median(&self, who: Who) -> Option<f64> {
        quantile(self.0[who as usize].iter().flatten().copied().collect(), 0.5)
    }

    pub(crate) fn min(&self, who: Who) -> Option<f64> {
        self.0[who as usize].iter().flatten().copied().reduce(f64::min)
    }

    /// How much more than the floor mcp-span takes: the median over rounds of the two that were
    /// measured side by side, so that a machine that slows down slows down both.
    pub(crate) fn ratio(&self) -> Option<f64> {
        let pairs = self.0[Who::Span as usize].iter().zip(&self.0[Who::Floor as usize]);
        let ratios = pairs.filter_map(|(span, floor)| Some((*span)? / (*floor)?));
        quantile(ratios.collect(), 0.5)
    }
}

/// The value below which `part` of all lie.
pub(crate) fn quantile(mut values: Vec<f64>, part: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
    values.get((last as f64 * part).round() as usize).copied()
}

/// Has every contestant do `work` in each round; each round begins with another one.
pub(crate) fn take_turns<const N: usize>(
    rounds: usize,
    mut work: impl FnMut(Who) -> [Option<f64>; N],
) -> [Samples; N] {
    let mut samples = std::array::from_fn(|_| Samples::default());
    for round in 0..rounds {
        for turn in 0..Who::ALL.len() {
            let who = Who::ALL[(round + turn) % Who::ALL.len()];
            let values = work(who);
            for (at, samples) in samples.iter_mut().enumerate() {
                samples.push(who, values[at]);
            }
        }
    }
    samples
}

/// The contestants, started, each with a session.
pub(crate) struct Contest {
    peers: [Option<Box<dyn Peer>>; 3],
    /// What failed so far, by name.
    pub(crate) failures: Vec<String>,
}

impl Contest {
    pub(crate) fn open(url: &str) -> Self {
        let mut failures = Vec::new();
        let peers = Who::ALL.map(|who| {
            let started: Result<Box<dyn Peer>, String> = match who {
                Who::Direct => Direct::start(url).map(|(peer, _)| Box::new(peer) as _),
                _ => Process::start(who, url).map(|(peer, _)| Box::new(peer) as _),
            };
            started.map_err(|error| failures.push(format!("{}: start: {error}", who.name()))).ok()
        });
        Self { peers, failures }
    }

    /// Rounds of `work`; whoever fails is out, for good.
    pub(crate) fn rounds<const N: usize>(
        &mut self,
        what: &str,
        rounds: usize,
        mut work: impl FnMut(&mut dyn Peer) -> Result<[f64; N], String>,
    ) -> [Samples; N] {
        take_turns(rounds, |who| {
            let peer = &mut self.peers[who as usize];
            let Some(working) = peer.as_deref_mut() else {
                return [None; N];
            };
            work(working).map(|values| values.map(Some)).unwrap_or_else(|error| {
                self.failures.push(format!("{}: {what}: {error}", who.name()));
                *peer = None;
                [None; N]
            })
        })
    }

    /// What `look` sees of each process.
    pub(crate) fn look(&self, look: impl Fn(u32) -> Option<f64>) -> [Option<f64>; 3] {
        Who::ALL.map(|who| look(self.peers[who as usize].as_ref()?.process_id()?))
    }
}
