//! Text for people: wrapped to the width of the terminal, in columns, with colour where it helps.

use std::io::IsTerminal;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

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
        Self { width: width(&stdout), has_colour, is_terminal }
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

    fn styled(&self, style: Style, text: &str) -> String {
        if self.has_colour { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    /// Words of others as they may reach what is behind stdout: a terminal acts on control
    /// characters, a file or a program gets what there is.
    pub(crate) fn foreign(&self, text: &str) -> String {
        if self.is_terminal { Untrusted(text).block() } else { text.to_owned() }
    }

    /// Text in lines behind an indent; its own line breaks stay.
    pub(crate) fn wrapped(&self, indent: usize, text: &str) -> String {
        let blank = " ".repeat(indent);
        let lines = wrap(&Untrusted(text).block(), self.width.saturating_sub(indent));
        lines.iter().map(|line| format!("{blank}{line}").trim_end().to_owned() + "\n").collect()
    }

    /// Text behind a head, with what does not fit in lines of its own behind an indent. Where the
    /// head leaves little room, all of it goes below.
    pub(crate) fn hanging(&self, head: &str, indent: usize, text: &str) -> String {
        let length = head.width();
        let is_below = self.width.saturating_sub(length.max(indent)) < limits::LAST_COLUMN;
        if length + text.width() <= self.width {
            return format!("{head}{text}\n");
        }
        if is_below && length > 0 {
            return format!("{}\n{}", head.trim_end(), self.wrapped(4, text));
        }
        let mut lines = wrap(text, self.width.saturating_sub(length.max(indent))).into_iter();
        let mut shown = format!("{head}{}\n", lines.next().unwrap_or_default());
        shown.extend(lines.map(|line| format!("{}{line}\n", " ".repeat(indent))));
        shown
    }

    /// Rows in columns that stand below each other; the first are names, the last is wrapped.
    pub(crate) fn columns(&self, indent: usize, rows: &[Vec<String>]) -> String {
        let count = rows.iter().map(Vec::len).max().unwrap_or_default();
        let longest = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            let lengths = cells.map(|cell| one_line(cell).width());
            lengths.max().unwrap_or_default().min(limits::COLUMN)
        };
        let widths: Vec<usize> = (0..count.saturating_sub(1)).map(longest).collect();
        let start = indent + widths.iter().map(|width| width + 2).sum::<usize>();
        // Where little is left for it, the last one goes below the others.
        let is_below = self.width.saturating_sub(start) < limits::LAST_COLUMN;
        let start = if is_below { indent + 4 } else { start };
        let mut text = String::new();
        for row in rows {
            let mut line = " ".repeat(indent);
            let mut length = indent;
            for (column, width) in widths.iter().enumerate() {
                let cell = one_line(row.get(column).map_or("", String::as_str));
                let cell_length = cell.width();
                let blank = width.saturating_sub(cell_length) + 2;
                line += &if column == 0 { self.name(&cell) } else { self.faint(&cell) };
                line += &" ".repeat(blank);
                length += cell_length + blank;
            }
            let last = one_line(row.get(widths.len()).map_or("", String::as_str));
            if length > start && !last.is_empty() {
                text += &format!("{}\n", line.trim_end());
                line = " ".repeat(start);
            }
            for (number, part) in wrap(&last, self.width.saturating_sub(start)).iter().enumerate() {
                if number > 0 {
                    line = " ".repeat(start);
                }
                line += part;
                text += line.trim_end();
                text.push('\n');
            }
        }
        text
    }
}

/// How many of something there are, in words.
pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Words of others as one line, with one blank between two of them.
pub(crate) fn one_line(text: &str) -> String {
    Untrusted(text).line().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// How wide lines may be.
pub(super) fn width(stream: &impl AnyStream) -> usize {
    let asked = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let width = asked.or_else(|| stream.columns()).unwrap_or(limits::PAGE_WIDTH);
    width.clamp(limits::NARROWEST, limits::WIDEST)
}

/// A standard stream.
pub(super) trait AnyStream {
    fn columns(&self) -> Option<usize>;
}

#[cfg(unix)]
impl<T: std::os::fd::AsFd> AnyStream for T {
    fn columns(&self) -> Option<usize> {
        terminal_size::terminal_size_of(self).map(|(width, _)| width.0.into())
    }
}

#[cfg(not(unix))]
impl<T> AnyStream for T {
    fn columns(&self) -> Option<usize> {
        terminal_size::terminal_size().map(|(width, _)| width.0.into())
    }
}

/// Lines that take at most so many columns of a terminal, broken at blanks where there are any.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.trim_end().split('\n') {
        let mut line = String::new();
        let mut length = 0;
        for word in paragraph.split_whitespace() {
            for (number, part) in parts(word).enumerate() {
                let blank = usize::from(number == 0);
                if length > 0 && length + blank + part.width() > width {
                    lines.push(std::mem::take(&mut line));
                    length = 0;
                } else if length > 0 && blank > 0 {
                    line.push(' ');
                    length += 1;
                }
                line.push_str(part);
                length += part.width();
            }
        }
        lines.push(line);
    }
    lines
}

/// A word in the parts between which a line may end: scripts whose characters take two columns have
/// no blanks between words.
fn parts(word: &str) -> impl Iterator<Item = &str> {
    let is_wide = |letter: char| letter.width() == Some(2);
    let mut rest = word;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end = if is_wide(first) { Some(first.len_utf8()) } else { rest.find(is_wide) };
        let (part, behind) = rest.split_at(end.unwrap_or(rest.len()));
        rest = behind;
        Some(part)
    })
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
        let shown =
            "   +0.001  client → bridge\n    POST http://h/mcp tools/call add #1,\n    17 bytes\n";
        assert_eq!(PLAIN.hanging(wide, 28, text), shown);
        assert_eq!(
            PLAIN.hanging("", 2, "Slowest: tools/call a #1 9.0 ms, ping #2 1.0 ms"),
            "Slowest: tools/call a #1 9.0 ms, ping\n  #2 1.0 ms\n"
        );
    }

    #[test]
    fn wide_characters_take_two_columns_and_lines_may_end_between_them() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let rows = [row(["名前", "a"]), row(["name*", "b"])];
        assert_eq!(PLAIN.columns(0, &rows), "名前   a\nname*  b\n");
        let lines = wrap(&"長い説明".repeat(6), 21);
        assert_eq!(lines.iter().map(|line| line.width()).collect::<Vec<_>>(), [20, 20, 8]);
        assert_eq!(wrap("a word漢字 b", 6), ["a word", "漢字 b"]);
        assert_eq!(wrap("a word漢字 b", 8), ["a word漢", "字 b"]);
        let word = "https://example.com/a-path/that-is-copied";
        assert_eq!(wrap(word, 10), [word]);
    }

    #[test]
    fn what_a_terminal_would_act_on_does_not_reach_it() {
        let text = "a\u{1b}[31mb\u{9b}c\rd\te\n";
        assert_eq!(PLAIN.foreign(text), "a[31mbcd\te\n");
        assert_eq!(Page { is_terminal: false, ..PLAIN }.foreign(text), text);
        assert_eq!(one_line(" a\u{7}\n b\tc "), "a b c");
    }

    #[test]
    fn colour_is_for_those_who_want_it() {
        assert_eq!(PLAIN.name("x"), "x");
        assert!(Page { has_colour: true, ..PLAIN }.name("x").contains('\u{1b}'));
    }
}
