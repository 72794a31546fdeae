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

/// The number of events that are shown.
fn tell(mut timeline: Timeline, trace: &str) -> usize {
    let mut count = 0;
    for text in trace.lines() {
        let Some(line) = timeline.read(text) else { continue };
        for event in timeline.events(&line) {
            assert!(!event.text.contains(char::is_control), "{}", event.text);
            count += 1;
        }
    }
    let _ = (timeline.is_no_trace(0), timeline.unmatched_filter());
    for (_, text) in timeline.summary() {
        assert!(!text.contains(char::is_control), "{text:?}");
    }
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
