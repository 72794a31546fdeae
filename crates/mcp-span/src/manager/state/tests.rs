//! Tests of one server's state, without wires and clocks.

use std::collections::HashSet;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::error::ErrorKind;

const SECOND: Duration = Duration::from_secs(1);

/// How long callers wait for a person.
const LOGIN_WAIT: Duration = Duration::from_secs(8);

fn failure(kind: ErrorKind) -> Error {
    Error::new(kind, "no")
}

fn machine(is_remote: bool, now: Instant) -> Machine<u32> {
    let mut machine = Machine::new(is_remote, &RetryPolicy::default(), LOGIN_WAIT, now);
    assert!(matches!(machine.next_action(), Some(Action::Connect)));
    machine
}

fn actions(machine: &mut Machine<u32>) -> Vec<Action<u32>> {
    std::iter::from_fn(|| machine.next_action()).collect()
}

fn connects(machine: &mut Machine<u32>) -> bool {
    actions(machine).iter().any(|action| matches!(action, Action::Connect))
}

/// When the next thing is due, and what.
fn next(machine: &mut Machine<u32>, now: &mut Instant) -> (Duration, Vec<Action<u32>>) {
    let at = machine.wake_at().expect("something is to come");
    let pause = at - *now;
    *now = at;
    machine.tick(at);
    (pause, actions(machine))
}

/// The pause before the next try.
fn next_try(machine: &mut Machine<u32>, now: &mut Instant) -> Duration {
    let (pause, actions) = next(machine, now);
    assert!(matches!(actions[..], [Action::Connect]), "{actions:?}");
    pause
}

/// Ends again and again until it is suspended; returns how many tries there were.
fn crash(machine: &mut Machine<u32>, now: &mut Instant) -> u32 {
    let mut tries = 0;
    loop {
        tries += 1;
        machine.connected();
        machine.lost(failure(ErrorKind::Closed), *now);
        next(machine, now);
        if machine.state().as_str() == "suspended" {
            return tries;
        }
    }
}

#[test]
fn a_server_that_is_not_there_is_tried_four_times_more_and_has_then_failed() {
    // S1-46
    let mut now = Instant::now();
    let mut server = machine(true, now);
    assert_eq!(server.state(), ServerState::Connecting { attempt: 1, why: None });
    for (attempt, pause) in [(2, 500), (3, 1000), (4, 2000), (5, 4000)] {
        server.failed(failure(ErrorKind::Connect), now);
        assert!(actions(&mut server).is_empty());
        let ServerState::Connecting { attempt: coming, why: Some(_) } = server.state() else {
            panic!("{:?}", server.state())
        };
        assert_eq!(coming, attempt);
        assert_eq!(next_try(&mut server, &mut now), Duration::from_millis(pause));
        let ServerState::Connecting { attempt: shown, why: Some(_) } = server.state() else {
            panic!("{:?}", server.state())
        };
        assert_eq!(shown, attempt);
    }
    server.failed(failure(ErrorKind::Connect), now);
    assert_eq!(server.state().as_str(), "failed");
    assert_eq!(server.wake_at(), None, "one that never was there is not tried for ever");
}

#[test]
fn a_remote_server_that_had_been_there_is_tried_slowly_for_ever() {
    let mut now = Instant::now();
    let mut server = machine(true, now);
    server.connected();
    server.lost(failure(ErrorKind::Closed), now);
    let mut pauses = Vec::new();
    for _ in 0..12 {
        pauses.push(next_try(&mut server, &mut now).as_millis());
        server.failed(failure(ErrorKind::Connect), now);
    }
    assert_eq!(pauses[..4], [500, 1000, 2000, 4000]);
    assert_eq!(pauses[4..9], [15_000, 30_000, 60_000, 120_000, 240_000]);
    assert_eq!(pauses[9..], [300_000; 3]);
    assert_eq!(server.state().as_str(), "failed", "also between two slow tries");
    next(&mut server, &mut now);
    assert_eq!(server.state().as_str(), "failed", "and during one");
    server.connected();
    assert_eq!(server.state(), ServerState::Ready);
}

#[test]
fn a_program_that_ends_as_soon_as_it_is_up_is_left_alone_after_five_restarts() {
    let mut now = Instant::now();
    let mut server = machine(false, now);
    assert_eq!(crash(&mut server, &mut now), 6);
    assert_eq!(server.wake_at(), None);
    // Callers do not change that for now.
    server.want(1, now + SECOND, now + 2 * SECOND);
    assert!(matches!(actions(&mut server)[..], [Action::Refuse(1, ServerState::Suspended(_))]));
    let later = now + 30 * SECOND;
    server.want(2, later + SECOND, later);
    assert!(connects(&mut server), "but later they do");
}

#[test]
fn a_remote_server_that_was_left_alone_is_tried_again_by_itself() {
    let mut now = Instant::now();
    let start = now;
    let mut server = machine(true, now);
    crash(&mut server, &mut now);
    next_try(&mut server, &mut now);
    assert!(now >= start + 15 * SECOND);
}

#[test]
fn who_asks_for_another_connection_answers_for_it() {
    let mut now = Instant::now();
    let mut server = machine(false, now);
    crash(&mut server, &mut now);
    server.reconnect(1, now + SECOND, now);
    assert!(connects(&mut server));
    assert_eq!(server.state().as_str(), "connecting");
    server.reconnect(2, now + SECOND, now);
    assert!(!connects(&mut server), "one try for both");
    server.connected();
    assert!(matches!(actions(&mut server)[..], [Action::Serve(1), Action::Serve(2)]));
    server.reconnect(3, now + SECOND, now);
    assert!(connects(&mut server), "also from one that stands");
}

#[test]
fn what_a_person_has_to_mend_is_not_tried_again_unasked() {
    let now = Instant::now();
    let mut server = machine(true, now);
    server.want(1, now + SECOND, now);
    server.failed(failure(ErrorKind::Spawn), now);
    assert!(matches!(actions(&mut server)[..], [Action::Refuse(1, ServerState::Failed(_))]));
    assert_eq!((server.state().as_str(), server.wake_at()), ("failed", None));
    // Who wants something of it has it tried, once a second at most (C30).
    server.want(2, now + SECOND, now + SECOND / 2);
    assert!(matches!(actions(&mut server)[..], [Action::Refuse(2, ServerState::Failed(_))]));
    server.want(3, now + 9 * SECOND, now + SECOND);
    assert!(connects(&mut server));
    server.want(4, now + 9 * SECOND, now + SECOND);
    assert!(!connects(&mut server), "one try for both");
    server.failed(failure(ErrorKind::Connect), now + SECOND);
    assert_eq!(actions(&mut server).len(), 2, "no quick tries for those who asked");
    assert_eq!(server.state().as_str(), "failed");
}

#[test]
fn callers_wait_for_the_next_try_but_not_longer_than_they_want_to() {
    let mut now = Instant::now();
    let mut server = machine(true, now);
    server.want(1, now + SECOND, now);
    server.want(2, now + 60 * SECOND, now);
    server.failed(failure(ErrorKind::Connect), now);
    next_try(&mut server, &mut now);
    let (_, refused) = next(&mut server, &mut now);
    let [Action::Refuse(1, ServerState::Connecting { why: Some(_), .. })] = refused[..] else {
        panic!("{refused:?}")
    };
    server.connected();
    assert!(matches!(actions(&mut server)[..], [Action::Serve(2)]));
    server.want(3, now, now);
    assert!(matches!(actions(&mut server)[..], [Action::Serve(3)]));
}

#[test]
fn a_server_that_is_away_is_pinged_until_it_answers() {
    let mut now = Instant::now();
    let mut server = machine(true, now);
    server.connected();
    server.answered();
    server.unreachable(failure(ErrorKind::Connect), now);
    server.unreachable(failure(ErrorKind::Connect), now);
    assert_eq!(server.state().as_str(), "degraded");
    server.want(1, now, now);
    assert!(matches!(actions(&mut server)[..], [Action::Serve(1)]), "the link may heal itself");
    for pause in [500, 1000, 2000, 4000, 15_000, 30_000] {
        let (waited, steps) = next(&mut server, &mut now);
        assert_eq!(waited, Duration::from_millis(pause));
        assert!(matches!(steps[..], [Action::Ping]));
        assert_eq!(server.wake_at(), None, "one ping at a time");
        server.unreachable(failure(ErrorKind::Connect), now);
    }
    server.answered();
    assert_eq!((server.state(), server.wake_at()), (ServerState::Ready, None));
}

fn login() -> Option<ServerState> {
    Some(super::super::errors::login_pending("https://as/login to h"))
}

#[test]
fn a_server_that_waits_for_a_login_says_so_until_it_is_connected() {
    let mut now = Instant::now();
    let mut server = machine(true, now);
    server.want(1, now + 60 * SECOND, now);
    server.login(login(), now);
    let ServerState::NeedsLogin { url, .. } = server.state() else {
        panic!("{:?}", server.state())
    };
    assert_eq!(&*url, "https://as/login");
    server.want(2, now + 60 * SECOND, now + SECOND);
    let (waited, refused) = next(&mut server, &mut now);
    assert_eq!(waited, LOGIN_WAIT, "nobody waits for a person for long");
    assert!(matches!(refused[..], [Action::Refuse(1, ServerState::NeedsLogin { .. })]));
    server.login(None, now);
    assert_eq!(server.state(), ServerState::Connecting { attempt: 1, why: None });
    server.connected();
    assert!(matches!(actions(&mut server)[..], [Action::Serve(2)]));
    assert_eq!(server.state(), ServerState::Ready);
    // A token may also be refused later.
    server.login(login(), now);
    assert_eq!(server.state().as_str(), "needs-login");
    server.want(3, now, now);
    assert!(matches!(actions(&mut server)[..], [Action::Serve(3)]), "its error names the page");
}

#[test]
fn a_login_that_comes_to_nothing_is_a_failure() {
    let now = Instant::now();
    let mut server = machine(true, now);
    server.login(login(), now);
    server.failed(failure(ErrorKind::Login), now);
    assert_eq!(server.state().as_str(), "failed");
    server.close();
    assert_eq!(server.state(), ServerState::Closed);
}

#[test]
fn what_is_closed_stays_closed() {
    let now = Instant::now();
    let mut server = machine(true, now);
    server.want(1, now + SECOND, now);
    server.close();
    assert!(matches!(actions(&mut server)[..], [Action::Refuse(1, ServerState::Closed)]));
    server.connected();
    server.failed(failure(ErrorKind::Connect), now);
    server.lost(failure(ErrorKind::Closed), now);
    server.unreachable(failure(ErrorKind::Connect), now);
    server.tick(now + 600 * SECOND);
    assert!(actions(&mut server).is_empty());
    server.want(2, now, now);
    server.reconnect(3, now, now);
    let refused = actions(&mut server);
    let [Action::Refuse(2, ServerState::Closed), Action::Refuse(3, ServerState::Closed)] =
        refused[..]
    else {
        panic!("{refused:?}")
    };
    assert_eq!((server.state(), server.wake_at()), (ServerState::Closed, None));
}

/// Something that happens.
#[derive(Clone, Debug)]
enum Happening {
    Wanted { patience: u64 },
    Asked,
    Connected,
    Failed(ErrorKind),
    Lost,
    Unreachable,
    Answered,
    Login(bool),
    TimePasses(u64),
}

fn happening() -> impl Strategy<Value = Happening> {
    let kind =
        prop_oneof![Just(ErrorKind::Connect), Just(ErrorKind::Closed), Just(ErrorKind::Spawn)];
    prop_oneof![
        3 => (0..60_000_u64).prop_map(|patience| Happening::Wanted { patience }),
        1 => Just(Happening::Asked),
        4 => Just(Happening::Connected),
        4 => kind.prop_map(Happening::Failed),
        4 => Just(Happening::Lost),
        2 => Just(Happening::Unreachable),
        1 => Just(Happening::Answered),
        1 => any::<bool>().prop_map(Happening::Login),
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
        match happening {
            Happening::Wanted { patience } => {
                self.waiting.insert(who);
                self.server.want(who, now + Duration::from_millis(*patience), now);
            }
            Happening::Asked => {
                self.waiting.insert(who);
                self.server.reconnect(who, now + SECOND, now);
                self.starts.clear();
                self.note();
                self.starts.clear();
            }
            Happening::Connected if self.tries > 0 => {
                self.tries = 0;
                self.server.connected();
            }
            Happening::Failed(kind) if self.tries > 0 => {
                self.tries = 0;
                self.server.failed(failure(*kind), now);
            }
            Happening::Lost => self.server.lost(failure(ErrorKind::Closed), now),
            Happening::Unreachable => self.server.unreachable(failure(ErrorKind::Connect), now),
            Happening::Answered => self.server.answered(),
            Happening::Login(is_pending) => {
                self.server.login(login().filter(|_| *is_pending), now);
            }
            Happening::TimePasses(milliseconds) => {
                self.until(now + Duration::from_millis(*milliseconds));
            }
            Happening::Connected | Happening::Failed(_) => {}
        }
        self.note();
    }

    fn until(&mut self, end: Instant) {
        while let Some(at) = self.server.wake_at().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.server.tick(self.now);
            self.note();
            let next = self.server.wake_at();
            assert!(next.is_none_or(|next| next > at), "time stands still: {:?}", self.server);
        }
        self.now = end;
    }

    fn note(&mut self) {
        while let Some(action) = self.server.next_action() {
            match action {
                Action::Connect => {
                    self.tries += 1;
                    self.starts.push(self.now);
                }
                Action::Ping => {}
                Action::Serve(who) | Action::Refuse(who, _) => {
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
            all.server.close();
            all.note();
        } else {
            all.until(all.now + 60 * SECOND);
        }
        prop_assert!(all.waiting.is_empty(), "left waiting: {:?}", all.waiting);
    }
}
