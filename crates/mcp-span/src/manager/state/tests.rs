//! Tests of one server's state, without wires and clocks.

use std::collections::HashSet;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::client::Transport;
use crate::error::{Error, Kind};

const SECOND: Duration = Duration::from_secs(1);

fn failure(kind: Kind) -> Failure {
    Failure::of(Transport::Child, Error::new(kind, "no"))
}

fn machine(is_remote: bool, now: Instant) -> Machine<u32> {
    Machine::begin(is_remote, &ManagerOptions::default(), now)
}

fn is_start(steps: &[Step<u32>]) -> bool {
    steps.iter().any(|step| matches!(step, Step::Start))
}

/// When the next thing happens, and what.
fn next(machine: &mut Machine<u32>, now: &mut Instant) -> (Duration, Vec<Step<u32>>) {
    let at = machine.wake_at().expect("something is to come");
    let pause = at - *now;
    *now = at;
    (pause, machine.tick(at))
}

#[test]
fn a_server_that_is_not_there_is_tried_four_times_more_and_has_then_failed() {
    // S1-46
    let mut now = Instant::now();
    let mut server = machine(true, now);
    assert_eq!(server.state(), State::Connecting { attempt: 1, why: None });
    for (attempt, pause) in [(2, 500), (3, 1000), (4, 2000), (5, 4000)] {
        assert!(server.failed(failure(Kind::Connect), now).is_empty());
        let State::Connecting { attempt: coming, why: Some(_) } = server.state() else {
            panic!("{:?}", server.state())
        };
        assert_eq!(coming, attempt);
        let (waited, steps) = next(&mut server, &mut now);
        assert_eq!(waited, Duration::from_millis(pause));
        assert!(is_start(&steps));
        let State::Connecting { attempt: shown, why: Some(_) } = server.state() else {
            panic!("{:?}", server.state())
        };
        assert_eq!(shown, attempt);
    }
    server.failed(failure(Kind::Connect), now);
    assert_eq!(server.state().as_str(), "failed");
    assert_eq!(server.wake_at(), None, "one that never was there is not tried for ever");
}

#[test]
fn a_remote_server_that_had_been_there_is_tried_quietly_for_ever() {
    let mut now = Instant::now();
    let mut server = machine(true, now);
    server.connected();
    server.lost(failure(Kind::Closed), now);
    let mut pauses = Vec::new();
    for _ in 0..12 {
        let (pause, steps) = next(&mut server, &mut now);
        assert!(is_start(&steps));
        pauses.push(pause.as_millis());
        server.failed(failure(Kind::Connect), now);
    }
    assert_eq!(pauses[..4], [500, 1000, 2000, 4000]);
    assert_eq!(pauses[4..9], [15_000, 30_000, 60_000, 120_000, 240_000]);
    assert_eq!(pauses[9..], [300_000; 3]);
    assert_eq!(server.state().as_str(), "failed", "also between two quiet tries");
    next(&mut server, &mut now);
    assert_eq!(server.state().as_str(), "failed", "and during one");
    server.connected();
    assert_eq!(server.state(), State::Ready);
}

#[test]
fn a_program_that_ends_as_soon_as_it_is_up_is_left_alone_after_five_restarts() {
    let mut now = Instant::now();
    let mut server = machine(false, now);
    let mut starts = 1;
    server.connected();
    loop {
        server.lost(failure(Kind::Closed), now);
        let (_, steps) = next(&mut server, &mut now);
        if !is_start(&steps) {
            break;
        }
        starts += 1;
        server.connected();
    }
    assert_eq!((starts, server.state().as_str()), (6, "suspended"));
    assert_eq!(server.wake_at(), None);
    // Callers do not change that for now.
    let steps = server.want(1, now + SECOND, now + 2 * SECOND);
    assert!(matches!(steps[..], [Step::Refuse(1, Refusal::Suspended(_))]));
    let later = now + 30 * SECOND;
    assert!(is_start(&server.want(2, later + SECOND, later)), "but later they do");
}

#[test]
fn a_remote_server_that_was_left_alone_is_tried_again_by_itself() {
    let mut now = Instant::now();
    let mut server = machine(true, now);
    server.connected();
    let start = now;
    while server.state().as_str() != "suspended" {
        server.lost(failure(Kind::Closed), now);
        next(&mut server, &mut now);
        server.connected();
    }
    let (_, steps) = next(&mut server, &mut now);
    assert!(is_start(&steps) && now >= start + 15 * SECOND);
}

#[test]
fn who_asks_for_another_connection_answers_for_it() {
    let mut now = Instant::now();
    let mut server = machine(false, now);
    server.connected();
    while server.state().as_str() != "suspended" {
        server.lost(failure(Kind::Closed), now);
        next(&mut server, &mut now);
        server.connected();
    }
    assert!(is_start(&server.reconnect(1, now + SECOND, now)));
    assert_eq!(server.state().as_str(), "connecting");
    assert!(!is_start(&server.reconnect(2, now + SECOND, now)), "one try for both");
    assert!(matches!(server.connected()[..], [Step::Serve(1), Step::Serve(2)]));
    assert!(is_start(&server.reconnect(3, now + SECOND, now)), "also from one that stands");
}

#[test]
fn what_a_person_has_to_mend_is_not_tried_again_unasked() {
    let now = Instant::now();
    let mut server = machine(true, now);
    server.want(1, now + SECOND, now);
    let steps = server.failed(failure(Kind::Spawn), now);
    assert!(matches!(steps[..], [Step::Refuse(1, Refusal::Failed(_))]));
    assert_eq!((server.state().as_str(), server.wake_at()), ("failed", None));
    // Who wants something of it has it tried, once a second at most (C30).
    let refused = server.want(2, now + SECOND, now + SECOND / 2);
    assert!(matches!(refused[..], [Step::Refuse(2, Refusal::Failed(_))]));
    assert!(is_start(&server.want(3, now + 9 * SECOND, now + SECOND)));
    assert!(!is_start(&server.want(4, now + 9 * SECOND, now + SECOND)), "one try for both");
    let steps = server.failed(failure(Kind::Connect), now + SECOND);
    assert_eq!(steps.len(), 2, "no ladder for those who asked: {steps:?}");
    assert_eq!(server.state().as_str(), "failed");
}

#[test]
fn callers_wait_for_the_ladder_but_not_longer_than_they_want_to() {
    let mut now = Instant::now();
    let mut server = machine(true, now);
    server.want(1, now + SECOND, now);
    server.want(2, now + 60 * SECOND, now);
    server.failed(failure(Kind::Connect), now);
    assert!(is_start(&next(&mut server, &mut now).1));
    let (_, steps) = next(&mut server, &mut now);
    assert!(matches!(steps[..], [Step::Refuse(1, Refusal::NotYet(Some(_)))]));
    assert!(matches!(server.connected()[..], [Step::Serve(2)]));
    assert!(matches!(server.want(3, now, now)[..], [Step::Serve(3)]));
}

#[test]
fn a_server_that_is_away_is_looked_for_until_it_answers() {
    let mut now = Instant::now();
    let mut server = machine(true, now);
    server.connected();
    assert!(!server.worked());
    server.troubled(failure(Kind::Connect), now);
    server.troubled(failure(Kind::Connect), now);
    assert_eq!(server.state().as_str(), "degraded");
    assert!(matches!(server.want(1, now, now)[..], [Step::Serve(1)]), "the link may heal itself");
    for pause in [500, 1000, 2000, 4000, 15_000, 30_000] {
        let (waited, steps) = next(&mut server, &mut now);
        assert_eq!(waited, Duration::from_millis(pause));
        assert!(matches!(steps[..], [Step::Probe]));
        assert_eq!(server.wake_at(), None, "one look at a time");
        server.missed(failure(Kind::Connect), now);
    }
    assert!(server.worked());
    assert_eq!((server.state(), server.wake_at()), (State::Ready, None));
}

#[test]
fn what_is_closed_stays_closed() {
    let now = Instant::now();
    let mut server = machine(true, now);
    server.want(1, now + SECOND, now);
    assert!(matches!(server.close()[..], [Step::Refuse(1, Refusal::Closed)]));
    for steps in [
        server.connected(),
        server.failed(failure(Kind::Connect), now),
        server.lost(failure(Kind::Closed), now),
        server.troubled(failure(Kind::Connect), now),
        server.tick(now + 600 * SECOND),
    ] {
        assert!(steps.is_empty());
    }
    assert!(matches!(server.want(2, now, now)[..], [Step::Refuse(2, Refusal::Closed)]));
    assert!(matches!(server.reconnect(3, now, now)[..], [Step::Refuse(3, Refusal::Closed)]));
    assert_eq!((server.state(), server.wake_at()), (State::Closed, None));
}

/// Something that happens.
#[derive(Clone, Debug)]
enum Happening {
    Wanted { patience: u64 },
    Asked,
    Connected,
    Failed(Kind),
    Lost,
    Troubled,
    Missed,
    Worked,
    TimePasses(u64),
}

fn happening() -> impl Strategy<Value = Happening> {
    let kind = prop_oneof![Just(Kind::Connect), Just(Kind::Closed), Just(Kind::Spawn)];
    prop_oneof![
        3 => (0..60_000_u64).prop_map(|patience| Happening::Wanted { patience }),
        1 => Just(Happening::Asked),
        4 => Just(Happening::Connected),
        4 => kind.prop_map(Happening::Failed),
        4 => Just(Happening::Lost),
        1 => Just(Happening::Troubled),
        1 => Just(Happening::Missed),
        1 => Just(Happening::Worked),
        8 => (0..8000_u64).prop_map(Happening::TimePasses),
    ]
}

/// A server with all that was seen of it.
struct Observed {
    server: Machine<u32>,
    now: Instant,
    tries: u32,
    waiting: HashSet<u32>,
    count: u32,
    /// Reconnects since somebody last took them upon themselves.
    starts: Vec<Instant>,
}

impl Observed {
    fn let_happen(&mut self, happening: &Happening) {
        self.count += 1;
        let (now, who) = (self.now, self.count);
        let steps = match happening {
            Happening::Wanted { patience } => {
                self.waiting.insert(who);
                self.server.want(who, now + Duration::from_millis(*patience), now)
            }
            Happening::Asked => {
                self.waiting.insert(who);
                let steps = self.server.reconnect(who, now + SECOND, now);
                self.starts.clear();
                self.note(steps);
                self.starts.clear();
                return;
            }
            Happening::Connected if self.tries > 0 => {
                self.tries = 0;
                self.server.connected()
            }
            Happening::Failed(kind) if self.tries > 0 => {
                self.tries = 0;
                self.server.failed(failure(*kind), now)
            }
            Happening::Lost => self.server.lost(failure(Kind::Closed), now),
            Happening::Troubled => self.server.troubled(failure(Kind::Connect), now),
            Happening::Missed => self.server.missed(failure(Kind::Connect), now),
            Happening::Worked => {
                self.server.worked();
                Vec::new()
            }
            Happening::TimePasses(milliseconds) => {
                return self.until(now + Duration::from_millis(*milliseconds));
            }
            Happening::Connected | Happening::Failed(_) => return,
        };
        self.note(steps);
    }

    fn until(&mut self, end: Instant) {
        while let Some(at) = self.server.wake_at().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            let steps = self.server.tick(self.now);
            self.note(steps);
            let next = self.server.wake_at();
            assert!(next.is_none_or(|next| next > at), "time stands still: {:?}", self.server);
        }
        self.now = end;
    }

    fn note(&mut self, steps: Vec<Step<u32>>) {
        for step in steps {
            match step {
                Step::Start => {
                    self.tries += 1;
                    self.starts.push(self.now);
                }
                Step::Probe => {}
                Step::Serve(who) | Step::Refuse(who, _) => {
                    assert!(self.waiting.remove(&who), "{who} was answered twice");
                }
            }
        }
        assert!(self.tries <= 1, "two tries at once");
        let recent = |since: Instant| {
            self.starts.iter().filter(|at| (since..since + 30 * SECOND).contains(at)).count()
        };
        for start in &self.starts {
            assert!(recent(*start) <= 5, "a storm: {:?}", self.server);
        }
    }
}

proptest! {
    #[test]
    fn in_any_order_there_is_no_storm_and_everybody_gets_an_answer(
        is_remote in any::<bool>(),
        happenings in prop::collection::vec(happening(), 0..80),
        is_closed in any::<bool>(),
    ) {
        let now = Instant::now();
        let mut all = Observed {
            server: machine(is_remote, now),
            now,
            tries: 1,
            waiting: HashSet::new(),
            count: 0,
            starts: Vec::new(),
        };
        for happening in &happenings {
            all.let_happen(happening);
        }
        if is_closed {
            let steps = all.server.close();
            all.note(steps);
        } else {
            all.until(all.now + 60 * SECOND);
        }
        prop_assert!(all.waiting.is_empty(), "left waiting: {:?}", all.waiting);
    }
}
