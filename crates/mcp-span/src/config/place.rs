//! Where something stands in a file, and what is wrong with it there.

use std::fmt;
use std::sync::Arc;

/// A line and a column of a file, both counted from 1; columns are characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePlace {
    /// The file, as whoever read it calls it.
    pub file: Arc<str>,
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl fmt::Display for FilePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, line {}, column {}", self.file, self.line, self.column)
    }
}

/// What is wrong with a file, or with one entry of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigError {
    /// Where.
    pub place: FilePlace,
    /// The name of the server, if it is about one.
    pub server: Option<String>,
    /// The key that is wrong, or whose value is, with those above it: `env.TOKEN`.
    pub key: Option<String>,
    /// What is wrong, in a message without values, which may be secrets.
    pub message: String,
    /// The server is switched off, so that nobody misses it.
    pub is_off: bool,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if let Some(server) = &self.server {
            write!(f, "server '{server}': ")?;
        }
        // A message that names the key need not say it twice.
        match &self.key {
            Some(key) if !self.message.contains(key.as_str()) => {
                write!(f, "\"{key}\": {}", self.message)
            }
            _ => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for ConfigError {}

/// Turns offsets into places.
pub(super) struct Places {
    file: Arc<str>,
    /// Where each line begins.
    lines: Vec<usize>,
}

impl Places {
    pub(super) fn new(file: &str, text: &str) -> Self {
        let starts = memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1);
        Self { file: file.into(), lines: std::iter::once(0).chain(starts).collect() }
    }

    /// The place of the byte `at` of `text`.
    pub(super) fn of(&self, text: &str, at: usize) -> FilePlace {
        let line = self.lines.partition_point(|start| *start <= at).max(1);
        let start = self.lines.get(line - 1).copied().unwrap_or_default();
        let before = text.get(start..at).unwrap_or_default();
        FilePlace { file: Arc::clone(&self.file), line, column: before.chars().count() + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_characters_and_lines_end_with_a_line_feed() {
        let text = "{\r\n  \"ä\": 1\n}";
        let places = Places::new("f", text);
        let of = |what: &str| {
            let place = places.of(text, text.find(what).unwrap());
            (place.line, place.column)
        };
        assert_eq!((of("{"), of("\"ä"), of("1"), of("}")), ((1, 1), (2, 3), (2, 8), (3, 1)));
        assert_eq!(places.of(text, text.len()).column, 2);
        assert_eq!(places.of("", 0).to_string(), "f, line 1, column 1");
    }

    #[test]
    fn a_fault_says_where_whose_and_what() {
        let place = Places::new("a.json", "").of("", 0);
        let mut fault = ConfigError {
            place,
            server: Some("x".into()),
            key: Some("env.A".into()),
            message: "it must be a text".into(),
            is_off: false,
        };
        let text = "a.json, line 1, column 1: server 'x': \"env.A\": it must be a text";
        assert_eq!(fault.to_string(), text);
        fault.message = "both \"env.A\" and \"b\" are set".into();
        assert!(fault.to_string().ends_with("server 'x': both \"env.A\" and \"b\" are set"));
    }
}
