//! How the JSON around a place is laid out, and text in the same manner. Pure.

use std::ops::Range;

use super::edit::newline;
use super::server::Tree;

/// Where and how the members of an object stand.
pub(super) struct Layout {
    newline: &'static str,
    style: Style,
}

enum Style {
    /// Each on a line of its own, behind `indent`; what is inside of them is `unit` further in.
    Lines { indent: String, unit: String },
    /// All in one line, with this between them.
    Inline { space: &'static str },
}

impl Layout {
    /// That of the object at `range`, whose member at `member` may serve as a model.
    pub(super) fn of(text: &str, range: Range<usize>, member: Option<usize>) -> Self {
        let newline = newline(text);
        let outer = indent_of_line(text, range.end.saturating_sub(1));
        let object = text.get(range.clone()).unwrap_or_default();
        let is_one_line = !text.trim_end().contains('\n');
        let style = match member.map(|member| own_line(text, member)) {
            Some(Some(indent)) => {
                let unit = indent.strip_prefix(outer).filter(|unit| !unit.is_empty());
                let unit = unit.map_or_else(|| usual_unit(text), str::to_owned);
                Style::Lines { indent: indent.to_owned(), unit }
            }
            Some(None) => Style::Inline { space: usual_space(object) },
            None if is_one_line && text.trim() != object => {
                Style::Inline { space: usual_space(text) }
            }
            None => {
                let unit = usual_unit(text);
                Style::Lines { indent: format!("{outer}{unit}"), unit }
            }
        };
        Self { newline, style }
    }

    /// That of a file which has no object yet.
    pub(super) fn of_new_file(text: &str) -> Self {
        let style = Style::Lines { indent: String::new(), unit: usual_unit(text) };
        Self { newline: newline(text), style }
    }

    /// That of what is inside of a member.
    pub(super) fn inside(&self) -> Self {
        let style = match &self.style {
            Style::Lines { indent, unit } => {
                Style::Lines { indent: format!("{indent}{unit}"), unit: unit.clone() }
            }
            Style::Inline { space } => Style::Inline { space },
        };
        Self { newline: self.newline, style }
    }

    pub(super) fn newline(&self) -> &'static str {
        self.newline
    }

    pub(super) fn indent(&self) -> &str {
        match &self.style {
            Style::Lines { indent, .. } => indent,
            Style::Inline { .. } => "",
        }
    }

    /// What goes between the place behind `passed`, which may hold comments, and a new member.
    pub(super) fn gap(&self, text: &str, passed: Range<usize>) -> String {
        let comments = text.get(passed.clone()).unwrap_or_default();
        // Nothing can follow such a comment in its line.
        let needs_line = comments.contains("//");
        let is_first = text.get(..passed.start).is_some_and(|before| before.ends_with('{'));
        match &self.style {
            Style::Inline { space } if !needs_line => {
                if is_first && comments.is_empty() {
                    String::new()
                } else {
                    (*space).to_owned()
                }
            }
            _ => format!("{}{}", self.newline, self.indent()),
        }
    }

    /// What goes between the last member and the end of an object that had none.
    pub(super) fn end(&self) -> String {
        match &self.style {
            Style::Lines { indent, unit } => {
                let outer = indent.strip_suffix(unit.as_str()).unwrap_or_default();
                format!("{}{outer}", self.newline)
            }
            Style::Inline { .. } => String::new(),
        }
    }

    /// A member, without anything in front or behind.
    pub(super) fn member(&self, name: &str, value: &Tree) -> String {
        format!("{}:{}{}", quoted(name), self.space(), self.value(value))
    }

    /// A member that is an object with one member.
    pub(super) fn member_with(&self, key: &str, name: &str, value: &Tree) -> String {
        let inside = self.object([self.inside().member(name, value)]);
        format!("{}:{}{inside}", quoted(key), self.space())
    }

    /// The value of a member.
    pub(super) fn value(&self, value: &Tree) -> String {
        match value {
            Tree::Text(text) => quoted(text),
            Tree::List(texts) => {
                let texts: Vec<_> = texts.iter().map(|text| quoted(text)).collect();
                format!("[{}]", texts.join(&format!(",{}", self.space())))
            }
            Tree::Object(members) if members.is_empty() => "{}".to_owned(),
            Tree::Object(members) => {
                let inside = self.inside();
                self.object(members.iter().map(|(name, value)| inside.member(name, value)))
            }
        }
    }

    fn object(&self, members: impl IntoIterator<Item = String>) -> String {
        let members: Vec<_> = members.into_iter().collect();
        let inside = self.inside();
        let (first, between, last) = match &self.style {
            Style::Lines { indent, .. } => {
                let line = format!("{}{}", self.newline, inside.indent());
                (line.clone(), format!(",{line}"), format!("{}{indent}", self.newline))
            }
            Style::Inline { space } => (String::new(), format!(",{space}"), String::new()),
        };
        format!("{{{first}{}{last}}}", members.join(&between))
    }

    fn space(&self) -> &'static str {
        match self.style {
            Style::Lines { .. } => " ",
            Style::Inline { space } => space,
        }
    }
}

/// The comma behind a value, with white space and comments in between.
pub(super) fn comma_after(text: &str, from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        let rest = text.get(at..)?;
        let blank = rest.len() - rest.trim_start().len();
        match comment(&rest[blank..]) {
            Some(length) => at += blank + length,
            None => return rest[blank..].starts_with(',').then_some(at + blank),
        }
    }
}

/// The end of the comments that follow `from` in the same line; `from` if there are none.
pub(super) fn end_of_line_comments(text: &str, from: usize) -> usize {
    let mut end = from;
    loop {
        let rest = text.get(end..).unwrap_or_default();
        let blank = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        match comment(&rest[blank..]) {
            Some(length) if !rest[blank..blank + length].contains('\n') => end += blank + length,
            _ => return end,
        }
    }
}

/// The end of the last comma or comment in what is between two members.
pub(super) fn end_of_gap(text: &str, gap: Range<usize>) -> usize {
    let mut end = gap.start;
    let mut at = gap.start;
    while let Some(rest) = text.get(at..gap.end).filter(|rest| !rest.is_empty()) {
        let length = match comment(rest) {
            Some(length) => length,
            None if rest.starts_with(',') => 1,
            None => {
                at += rest.chars().next().map_or(1, char::len_utf8);
                continue;
            }
        };
        at += length;
        end = at;
    }
    end
}

/// The length of the comment that `text` begins with; the end of its line is not part of one.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find(['\r', '\n']).unwrap_or(text.len()));
    }
    let inner = text.strip_prefix("/*")?;
    inner.find("*/").map(|at| at + 4)
}

/// What stands before the member in its line, if that is white space alone.
fn own_line(text: &str, member: usize) -> Option<&str> {
    let before = text.get(..member)?;
    let line = before.rfind('\n').map(|at| &before[at + 1..])?;
    line.trim_matches([' ', '\t']).is_empty().then_some(line)
}

/// The white space that the line around `at` begins with.
fn indent_of_line(text: &str, at: usize) -> &str {
    let before = text.get(..at).unwrap_or_default();
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = &text[start..];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// How far the first member that stands further in than others is.
fn usual_unit(text: &str) -> String {
    let indents = text.lines().filter_map(|line| {
        let inner = line.trim_start_matches([' ', '\t']);
        let indent = &line[..line.len() - inner.len()];
        (inner.starts_with('"') && !indent.is_empty()).then_some(indent)
    });
    indents.min_by_key(|indent| indent.len()).unwrap_or("  ").to_owned()
}

fn usual_space(text: &str) -> &'static str {
    let has_space = text.contains("\": ") || !text.contains("\":");
    if has_space { " " } else { "" }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
