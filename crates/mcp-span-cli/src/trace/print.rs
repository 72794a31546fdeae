//! Lays out events of a trace for a person.

use unicode_width::UnicodeWidthStr;

use super::line::{Line, plain};
use super::timeline::{Event, Timeline};
use crate::visit::Page;

/// Lays out for what is behind stdout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Printer {
    page: Page,
}

impl Printer {
    pub(crate) fn of_stdout() -> Self {
        Self { page: Page::of_stdout() }
    }

    /// An event in a line, or on a terminal in as many as it takes.
    pub(crate) fn event(&self, line: &Line<'_>, event: &Event<'_>) -> String {
        let time = format!("{:+.3}", event.elapsed);
        let direction = plain(&line.direction).replace("->", " → ");
        let head = format!("{time:>9}  {direction:<15}  ");
        self.line(&head, head.width(), &event.text)
    }

    /// What all events come to.
    pub(crate) fn summary(&self, timeline: Timeline) -> String {
        let lines = timeline.summary().into_iter();
        lines.map(|(head, text)| self.line(head, if head == "  " { 4 } else { 2 }, &text)).collect()
    }

    fn line(&self, head: &str, indent: usize, text: &str) -> String {
        match self.page.is_terminal {
            true => self.page.hanging(head, indent, text),
            false => format!("{head}{text}\n"),
        }
    }
}
