//! Prints the events of a trace: wrapped and coloured for a person, as JSON for a program.

use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use super::line::{Line, plain};
use super::timeline::{Event, Timeline};
use crate::output::{Page, one_line, pretty};
use mcp_span::message::Members;
use mcp_span::untrusted::Untrusted;

/// The indent of JSON, and of what does not fit in a line of the summary.
const INDENT: usize = 4;

/// How a text is coloured.
type Paint = fn(&Page, &str) -> String;

/// Lays events out for stdout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Printer {
    page: Page,
    is_wrapped: bool,
}

impl Printer {
    pub(crate) fn of_stdout() -> Self {
        let page = Page::of_stdout();
        // An event is one line for `grep` and its like, unless COLUMNS asks for a width.
        Self { page, is_wrapped: page.is_terminal || std::env::var_os("COLUMNS").is_some() }
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn new(width: usize, has_colour: bool) -> Self {
        let page = Page { width, has_colour, is_terminal: true };
        Self { page, is_wrapped: true }
    }

    /// An event: when, from whom to whom, and what.
    pub(crate) fn event(&self, line: &Line<'_>, event: &Event<'_>) -> String {
        let time = format!("{:>9}", format!("{:+.3}", event.elapsed));
        let direction = plain(&line.direction).replace("->", " → ");
        let head = format!("{time}  {direction:<15}  ");
        let painted = self.page.faint(&time) + "  " + &self.page.name(&direction);
        let paint = if event.is_notable { Page::strong } else { unpainted };
        self.line(&head, &painted, head.width(), &event.text, paint)
    }

    /// The JSON of a message, below its event.
    pub(crate) fn body(&self, json: &str) -> String {
        let mut spaced = Vec::new();
        // A text takes whatever is written to it.
        let _ = pretty(json, &mut spaced);
        let text = one_line(&String::from_utf8_lossy(&spaced));
        self.line(&" ".repeat(INDENT), "", INDENT, &text, Page::faint)
    }

    /// The summary after all events.
    pub(crate) fn summary(&self, timeline: Timeline) -> String {
        let line = |(head, text): (&str, String)| {
            let painted = if head.trim().is_empty() {
                String::new()
            } else {
                self.page.strong(head.trim_end())
            };
            self.line(head, &painted, INDENT, &text, unpainted)
        };
        timeline.summary().into_iter().map(line).collect()
    }

    /// Text behind a heading. Colours have no width: they are put on what was laid out without them.
    fn line(&self, head: &str, painted: &str, indent: usize, text: &str, paint: Paint) -> String {
        let text = match self.is_wrapped {
            true => self.page.hanging(head, indent, text),
            false => format!("{head}{text}\n"),
        };
        let lines = text[head.trim_end().len()..].lines().map(|line| paint(&self.page, line));
        format!("{painted}{}\n", lines.collect::<Vec<_>>().join("\n"))
    }
}

fn unpainted(_: &Page, text: &str) -> String {
    text.to_owned()
}

/// An event as a line of JSON. The help of `mcp-span trace` says what its members are.
pub(crate) fn json(line: &Line<'_>, event: &Event<'_>) -> String {
    let text = |text: &str| Value::from(text).to_string();
    let seconds = |seconds: f64| Value::from((seconds * 1e6).round() / 1e6).to_string();
    let Event { elapsed, subject, text: words, took, data, .. } = event;
    let mut members = Members::default();
    for (name, json) in [
        ("timestamp", Some(text(&line.timestamp))),
        ("seconds", Some(seconds(*elapsed))),
        ("direction", Some(text(&line.direction))),
        ("type", Some(text(&line.kind))),
        ("id", subject.id.clone()),
        ("method", subject.method.as_deref().map(text)),
        ("name", subject.name.as_deref().map(text)),
        ("took", took.map(seconds)),
        ("text", Some(text(words))),
        ("data", Some(data.as_str().to_owned())),
    ] {
        if let Some(json) = json {
            members.set(name, json);
        }
    }
    Untrusted(&members.to_json()).json() + "\n"
}
