//! Random schedules: what must hold, whatever happens in whatever order.

use std::collections::BTreeSet;

use super::super::schedule::{Chance, Schedule};

/// How many schedules each of the four tests goes through; `MCP_SPAN_SCHEDULES` asks for another
/// number, and `MCP_SPAN_SCHEDULE` for the story of the one with that number.
const SCHEDULES: u64 = 50_000;

/// All that can follow upon each other from one step to the next; `-` is before and after a message.
/// A handshake is answered, confirmed and over in one step where a stream takes what is written.
const TRANSITIONS: [&str; 42] = [
    "message - > Queued",
    "message - > Ready",
    "message - > Sent",
    "message Ready > -",
    "message Ready > Queued",
    "message Ready > Sent",
    "message Queued > -",
    "message Queued > Sent",
    "message Delayed > -",
    "message Delayed > Queued",
    "message Delayed > Sent",
    "message Sent > -",
    "message Sent > Queued",
    "message Sent > Delayed",
    "server Away > Tried",
    "server Away > Up",
    "server Tried > Away",
    "server Tried > Up",
    "server Up > Away",
    "session Answered > Asked by bridge",
    "session Answered > Asked by client",
    "session Answered > Confirming",
    "session Answered > Idle",
    "session Answered > Lost",
    "session Asked by bridge > Asked by client",
    "session Asked by bridge > Confirming",
    "session Asked by bridge > Idle",
    "session Asked by bridge > Lost",
    "session Asked by client > Answered",
    "session Asked by client > Asked by bridge",
    "session Asked by client > Confirming",
    "session Asked by client > Idle",
    "session Asked by client > Lost",
    "session Confirming > Asked by bridge",
    "session Confirming > Asked by client",
    "session Confirming > Idle",
    "session Confirming > Lost",
    "session Idle > Asked by bridge",
    "session Idle > Asked by client",
    "session Idle > Lost",
    "session Lost > Asked by bridge",
    "session Lost > Asked by client",
];

/// Every so many schedules it is noted which states follow upon which.
const NOTED: u64 = 16;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

fn count() -> u64 {
    variable("MCP_SPAN_SCHEDULES").unwrap_or(SCHEDULES)
}

fn run(part: u64) -> BTreeSet<String> {
    let (count, told) = (count(), variable("MCP_SPAN_SCHEDULE"));
    let mut transitions = BTreeSet::new();
    for number in part * count..(part + 1) * count {
        let seed = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut schedule = Schedule::new(Chance::Seed(seed), number % NOTED == 0);
        let steps = 50 + usize::try_from(number % 30).expect("a small number");
        schedule.narrator = (told == Some(number)).then_some(|line| eprintln!("{line}"));
        let run = std::panic::AssertUnwindSafe(|| schedule.run(steps));
        match std::panic::catch_unwind(run) {
            Ok(reached) => transitions.extend(reached),
            Err(panic) => {
                let owned = panic.downcast_ref::<String>().map(String::as_str);
                let text = owned.or_else(|| panic.downcast_ref::<&str>().copied());
                panic!("schedule {number}: {}", text.unwrap_or_default());
            }
        }
    }
    transitions
}

#[test]
fn every_request_ends_once_and_in_bounds_whatever_happens() {
    let reached = run(0);
    for transition in TRANSITIONS {
        // Who looks for something else with fewer schedules need not reach all.
        assert!(reached.contains(transition) || count() < SCHEDULES, "never reached: {transition}");
    }
    let unknown: Vec<_> =
        reached.iter().filter(|name| !TRANSITIONS.contains(&name.as_str())).collect();
    assert!(unknown.is_empty(), "not in the list: {unknown:?}");
}

// The same in parallel.

#[test]
fn every_request_ends_once_and_in_bounds_whatever_happens_2() {
    run(1);
}

#[test]
fn every_request_ends_once_and_in_bounds_whatever_happens_3() {
    run(2);
}

#[test]
fn every_request_ends_once_and_in_bounds_whatever_happens_4() {
    run(3);
}
