//! Prints the events of a trace: wrapped and coloured for a person, as JSON for a program.

use serde::Serialize;
use serde_json::value::RawValue;
use unicode_width::UnicodeWidthStr;

use super::line::{Line, plain};
use super::timeline::{Event, Timeline};
use crate::visit::{Page, one_line, pretty};
use mcp_span::untrusted::Untrusted;

/// Where what does not fit in a line of JSON or of the summary goes on.
const INDENT: usize = 4;

/// How a text is coloured.
type Paint = fn(&Page, &str) -> String;

/// Lays out for what is behind stdout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Printer {
    page: Page,
    is_wrapped: bool,
}

impl Printer {
    pub(crate) fn of_stdout() -> Self {
        let page = Page::of_stdout();
        // For other programs an event is one line, unless somebody asks for a width.
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

    /// What all events come to.
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
    #[derive(Serialize)]
    struct Members<'a> {
        timestamp: &'a str,
        seconds: f64,
        direction: &'a str,
        #[serde(rename = "type")]
        kind: &'a str,
        id: Option<&'a RawValue>,
        method: Option<&'a str>,
        name: Option<&'a str>,
        took: Option<f64>,
        text: &'a str,
        data: Option<&'a RawValue>,
    }
    let raw = |json| serde_json::from_str(json).ok();
    let microseconds = |seconds: f64| (seconds * 1e6).round() / 1e6;
    let members = Members {
        timestamp: &line.timestamp,
        seconds: microseconds(event.elapsed),
        direction: &line.direction,
        kind: &line.kind,
        id: event.subject.id.as_deref().and_then(raw),
        method: event.subject.method.as_deref(),
        name: event.subject.name.as_deref(),
        took: event.took.map(microseconds),
        text: &event.text,
        data: raw(event.data.as_str()),
    };
    let json = serde_json::to_string(&members).unwrap_or_default();
    Untrusted(&json).json() + "\n"
}
