//! Fuzz target for traces: nothing that is shown of one controls a terminal.

use crate::trace::print::{Printer, json};
use crate::trace::timeline::{Filter, Timeline};

/// Shows a trace of any content, and checks that no control character of it is left.
///
/// The first line is an id to look for.
pub fn traces(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (id, trace) = text.split_once('\n').unwrap_or_default();
    let wanted = Filter { id: Some(id.to_owned()), method: None };
    let count = show(Timeline::new(Filter::default()), trace);
    assert!(show(Timeline::new(wanted), trace) <= count, "a filter shows more than there is");
}

/// The number of events that are shown.
fn show(mut timeline: Timeline, trace: &str) -> usize {
    let [plain, coloured] = [false, true].map(|has_colour| Printer::new(60, has_colour));
    let mut count = 0;
    for text in trace.lines() {
        let Some(line) = timeline.read(text) else { continue };
        for event in timeline.events(&line) {
            let shown = plain.event(&line, &event);
            assert!(is_harmless(&shown), "{shown:?}");
            let bare = without_colour(&coloured.event(&line, &event));
            assert!(is_harmless(&bare), "{bare:?}");
            let json = json(&line, &event);
            assert!(is_harmless(&json) && json.lines().count() == 1, "{json:?}");
            assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok(), "{json}");
            count += 1;
        }
    }
    let _ = (timeline.is_no_trace(0), timeline.unmatched_filter());
    let summary = plain.summary(timeline);
    assert!(is_harmless(&summary), "{summary:?}");
    count
}

/// The text without the escape sequences that are our own.
fn without_colour(text: &str) -> String {
    ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[36m"]
        .iter()
        .fold(text.to_owned(), |text, ours| text.replace(ours, ""))
}

fn is_harmless(text: &str) -> bool {
    !text.contains(|letter: char| letter.is_control() && letter != '\n')
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
