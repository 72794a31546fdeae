//! How the members of a JSON object are laid out, and new ones in the same manner. Pure.

use std::ops::Range;

use super::edit::{Shape, newline};
use super::server::StdioServer;

const BLANK: [char; 2] = [' ', '\t'];

/// How the members of an object are laid out.
pub(super) struct Layout {
    newline: &'static str,
    /// The indentation of the members; None if they all stand in one line.
    indent: Option<String>,
    /// How much further in the members of members are.
    unit: String,
    /// What stands behind a colon, and behind a comma within a line.
    space: &'static str,
}

impl Layout {
    /// That of the object at `range`, with the member at `model` as an example.
    pub(super) fn of(text: &str, range: Range<usize>, model: Option<usize>) -> Self {
        let mut layout = Self::of_new_file(text);
        let is_one_line = !text.trim_end().contains('\n');
        layout.indent = match model {
            Some(member) => {
                let before = line_before(text, member);
                before.trim_matches(BLANK).is_empty().then(|| before.to_owned())
            }
            None if is_one_line && text.trim() != &text[range.clone()] => None,
            None => {
                let line = line_before(text, range.end - 1);
                let outer = &line[..line.len() - line.trim_start_matches(BLANK).len()];
                Some(format!("{outer}{}", layout.unit))
            }
        };
        layout
    }

    /// That of an object in a file which has none yet.
    pub(super) fn of_new_file(text: &str) -> Self {
        let has_space = text.contains("\": ") || !text.contains("\":");
        Self {
            newline: newline(text),
            indent: Some(String::new()),
            unit: usual_unit(text).to_owned(),
            space: if has_space { " " } else { "" },
        }
    }

    /// An object behind whatever a file has that holds no object.
    pub(super) fn new_file(&self, text: &str, object: &str) -> String {
        let is_line = text.is_empty() || text.ends_with('\n');
        let gap = if is_line { "" } else { self.newline };
        format!("{text}{gap}{object}{}", self.newline)
    }

    /// What goes in front of a new member, which follows a comma, or the beginning of the object, and
    /// then perhaps `comments`.
    pub(super) fn gap(&self, comments: &str, is_first: bool) -> String {
        match self.line(0) {
            Some(line) => line,
            // Nothing can follow such a comment in its line.
            None if comments.contains("//") => self.newline.to_owned(),
            None if is_first && comments.is_empty() => String::new(),
            None => self.space.to_owned(),
        }
    }

    /// What goes between the only member of an object and `rest`, which closes it.
    pub(super) fn end(&self, rest: &str) -> String {
        match &self.indent {
            Some(indent) if !rest.contains('\n') => {
                let outer = indent.strip_suffix(&self.unit).unwrap_or_default();
                format!("{}{outer}", self.newline)
            }
            _ => String::new(),
        }
    }

    pub(super) fn member(&self, name: &str, value: &str) -> String {
        format!("{}:{}{value}", quoted(name), self.space)
    }

    /// An object as the value of a member, so many objects further in.
    pub(super) fn object<'a>(
        &self,
        depth: usize,
        members: impl IntoIterator<Item = (&'a str, String)>,
    ) -> String {
        let members = members.into_iter().map(|(name, value)| self.member(name, &value));
        let members: Vec<_> = members.collect();
        match self.line(depth).zip(self.line(depth + 1)) {
            Some((outer, inner)) => {
                format!("{{{inner}{}{outer}}}", members.join(&format!(",{inner}")))
            }
            None => format!("{{{}}}", members.join(&format!(",{}", self.space))),
        }
    }

    /// A server, its members in the order in which clients write them.
    pub(super) fn server(&self, depth: usize, server: &StdioServer, shape: Shape) -> String {
        let args: Vec<_> = server.args.iter().map(|text| quoted(text)).collect();
        let env = server.env.iter().map(|(name, value)| (name.as_str(), quoted(value)));
        let env = (!server.env.is_empty()).then(|| self.object(depth + 1, env));
        let kind = match shape {
            Shape::Plain => None,
            Shape::Typed => Some("stdio"),
            Shape::Copilot => Some("local"),
        };
        let members = [
            ("type", kind.map(quoted)),
            ("command", Some(quoted(&server.command))),
            ("args", Some(format!("[{}]", args.join(&format!(",{}", self.space))))),
            ("env", env),
            ("tools", (shape == Shape::Copilot).then(|| r#"["*"]"#.to_owned())),
        ];
        self.object(depth, members.into_iter().filter_map(|(name, value)| Some((name, value?))))
    }

    /// The beginning of a line.
    fn line(&self, depth: usize) -> Option<String> {
        let indent = self.indent.as_ref()?;
        Some(format!("{}{indent}{}", self.newline, self.unit.repeat(depth)))
    }
}

/// What stands before `at` in its line.
fn line_before(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    &text[start..at]
}

/// How far the first member that stands further in than others is.
fn usual_unit(text: &str) -> &str {
    let indents = text.lines().filter_map(|line| {
        let inner = line.trim_start_matches(BLANK);
        let indent = &line[..line.len() - inner.len()];
        (inner.starts_with('"') && !indent.is_empty()).then_some(indent)
    });
    indents.min_by_key(|indent| indent.len()).unwrap_or("  ")
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
