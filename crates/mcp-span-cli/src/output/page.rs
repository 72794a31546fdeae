//! Text for people: wrapped to the width of the terminal, in columns, with colour where it helps.

use std::io::IsTerminal;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};

use super::text;
use mcp_span::limits;
use mcp_span::untrusted::Untrusted;

/// What text is laid out for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    pub(crate) width: usize,
    pub(crate) has_colour: bool,
    pub(crate) is_terminal: bool,
}

const NAME: Style = AnsiColor::Cyan.on_default().bold();
const STRONG: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();

impl Page {
    pub(crate) fn of_stdout() -> Self {
        let stdout = std::io::stdout();
        let is_terminal = stdout.is_terminal();
        let has_colour = AutoStream::choice(&stdout) != ColorChoice::Never;
        Self { width: terminal_width(), has_colour, is_terminal }
    }

    /// The name of a thing.
    pub(crate) fn name(&self, text: &str) -> String {
        self.styled(NAME, text)
    }

    /// A heading.
    pub(crate) fn strong(&self, text: &str) -> String {
        self.styled(STRONG, text)
    }

    /// What can be passed over.
    pub(crate) fn faint(&self, text: &str) -> String {
        self.styled(FAINT, text)
    }

    /// Text in a style, if colours are wanted.
    pub(crate) fn styled(&self, style: Style, text: &str) -> String {
        if self.has_colour { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    /// Words of others as they may reach what is behind stdout: a terminal acts on control
    /// characters, a file or a program gets what there is.
    pub(crate) fn foreign(&self, text: &str) -> String {
        if self.is_terminal { Untrusted(text).block() } else { text.to_owned() }
    }

    /// Text of others in lines behind an indent; its own line breaks stay.
    pub(crate) fn wrapped(&self, indent: usize, text: &str) -> String {
        let blank = " ".repeat(indent);
        let lines = text::wrap(&Untrusted(text).block(), self.width.saturating_sub(indent));
        lines.iter().map(|line| format!("{blank}{line}").trim_end().to_owned() + "\n").collect()
    }

    /// Text behind a head, which may have colours, with what does not fit in lines of its own behind
    /// an indent. Where the head leaves little room, all of it goes below.
    pub(crate) fn hanging(&self, head: &str, indent: usize, text: &str) -> String {
        let length = text::width(head);
        let room = self.width.saturating_sub(length.max(indent));
        if text.is_empty() || length + text::width(text) <= self.width {
            return format!("{}\n", format!("{head}{text}").trim_end());
        }
        if room < limits::LAST_COLUMN && length > 0 {
            let blanks = head.len() - head.trim_start().len();
            return format!("{}\n{}", head.trim_end(), self.wrapped(blanks + 4, text));
        }
        let mut lines = text::wrap(text, room).into_iter();
        let mut shown = format!("{head}{}\n", lines.next().unwrap_or_default());
        shown.extend(lines.map(|line| format!("{}{line}\n", " ".repeat(indent))));
        shown
    }

    /// Rows of as many cells each, in columns that stand below each other; the first are names, the
    /// last is wrapped.
    pub(crate) fn columns(&self, indent: usize, rows: &[Vec<String>]) -> String {
        let cell = |row: &Vec<String>, column: usize| {
            text::one_line(row.get(column).map_or("", String::as_str))
        };
        let last = rows.first().map_or(0, |row| row.len().saturating_sub(1));
        let longest = |column| {
            let lengths = rows.iter().map(|row| text::width(&cell(row, column)));
            lengths.max().unwrap_or_default().min(limits::COLUMN)
        };
        let widths: Vec<usize> = (0..last).map(longest).collect();
        let start = indent + widths.iter().map(|width| width + 2).sum::<usize>();
        let is_narrow = self.width.saturating_sub(start) < limits::LAST_COLUMN;
        let below = if is_narrow { indent + 4 } else { start };
        let mut shown = String::new();
        for row in rows {
            let mut head = " ".repeat(indent);
            for (column, width) in widths.iter().enumerate() {
                let cell = cell(row, column);
                let blank = width.saturating_sub(text::width(&cell)) + 2;
                head += &if column == 0 { self.name(&cell) } else { self.faint(&cell) };
                head += &" ".repeat(blank);
            }
            let about = cell(row, last);
            // A name that is longer than its column has a line to itself.
            shown += &match text::width(&head) > start && !about.is_empty() {
                true => format!("{}\n{}", head.trim_end(), self.wrapped(below, &about)),
                false => self.hanging(&head, start, &about),
            };
        }
        shown
    }
}

/// How wide lines may be: as wide as the terminal, on whichever stream it is.
pub(super) fn terminal_width() -> usize {
    let asked = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let seen = || terminal_size::terminal_size().map(|(width, _)| width.0.into());
    let width = asked.or_else(seen).unwrap_or(limits::PAGE_WIDTH);
    width.clamp(limits::NARROWEST, limits::WIDEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Page = Page { width: 40, has_colour: false, is_terminal: true };

    #[test]
    fn text_is_wrapped_and_columns_stand_below_each_other() {
        let text = PLAIN.wrapped(4, "one two three four five six seven eight nine\n\nten");
        assert_eq!(text, "    one two three four five six seven\n    eight nine\n\n    ten\n");
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["a*", "number", "the first\nnumber of the two"]), row(["long", "x", ""])];
        let wide = Page { width: 50, ..PLAIN };
        let shown = "  a*    number  the first number of the two\n  long  x\n";
        assert_eq!(wide.columns(2, &rows), shown);
        // Where there is no room beside them, it goes below.
        let shown = "  a*    number\n      the first number of the two\n  long  x\n";
        assert_eq!(PLAIN.columns(2, &rows), shown);
        let long = row([&"x".repeat(45), "", "about"]);
        let shown = format!("{}\n{}about\n", "x".repeat(45), " ".repeat(44));
        assert_eq!(Page { width: 90, ..PLAIN }.columns(0, &[long]), shown);
    }

    #[test]
    fn a_line_that_is_too_long_goes_on_behind_an_indent() {
        let text = "POST http://h/mcp tools/call add #1, 17 bytes";
        let head = "+0.001  ";
        assert_eq!(
            PLAIN.hanging(head, 8, text),
            "+0.001  POST http://h/mcp tools/call add\n        #1, 17 bytes\n"
        );
        assert_eq!(PLAIN.hanging(head, 8, "short"), "+0.001  short\n");
        let wide = "   +0.001  client → bridge  ";
        let shown = "   +0.001  client → bridge\n       POST http://h/mcp tools/call add\n       #1, 17 bytes\n";
        assert_eq!(PLAIN.hanging(wide, 28, text), shown);
        assert_eq!(
            PLAIN.hanging("", 2, "Slowest: tools/call a #1 9.0 ms, ping #2 1.0 ms"),
            "Slowest: tools/call a #1 9.0 ms, ping\n  #2 1.0 ms\n"
        );
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let rows = [row(["名前", "a"]), row(["name*", "b"])];
        assert_eq!(PLAIN.columns(0, &rows), "名前   a\nname*  b\n");
    }

    #[test]
    fn what_a_terminal_would_act_on_does_not_reach_it() {
        let text = "a\u{1b}[31mb\u{9b}c\rd\te\n";
        assert_eq!(PLAIN.foreign(text), "a[31mbcd\te\n");
        assert_eq!(Page { is_terminal: false, ..PLAIN }.foreign(text), text);
    }

    #[test]
    fn colour_is_for_those_who_want_it() {
        assert_eq!(PLAIN.name("x"), "x");
        assert!(Page { has_colour: true, ..PLAIN }.name("x").contains('\u{1b}'));
    }
}
