//! Fuzz target for traces: what is told of one, a terminal can show.

use crate::trace::timeline::{Filter, Timeline};

/// A trace is told to a person, whatever stands in it, in lines that a terminal does not obey.
///
/// The first line is an id to look for.
pub fn traces(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (id, trace) = text.split_once('\n').unwrap_or_default();
    let wanted = Filter { id: Some(id.to_owned()), method: None };
    let count = tell(Timeline::new(Filter::default()), trace);
    assert!(tell(Timeline::new(wanted), trace) <= count, "a filter shows more than there is");
}

/// The number of lines that are told.
fn tell(mut timeline: Timeline, trace: &str) -> usize {
    let mut count = 0;
    for line in trace.lines() {
        for shown in timeline.line(line) {
            assert!(!shown.head.contains(char::is_control), "{shown:?}");
            assert!(!shown.what.contains(char::is_control), "{shown:?}");
            count += 1;
        }
    }
    let _ = (timeline.is_nonsense(0), timeline.asked_in_vain());
    let summary = timeline.summary();
    assert!(!summary.contains(|c: char| c.is_control() && c != '\n'), "{summary:?}");
    count
}

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    #[test]
    fn the_seeds_pass() {
        super::replay::seeds("traces", super::traces);
    }
}
