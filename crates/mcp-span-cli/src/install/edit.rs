//! Changes to a client's configuration as text, in either format; all that is not the server stays
//! byte for byte. Pure.

use std::ops::Range;

use super::server::{ServerEntry, StdioServer};
use super::{json, toml};

/// How a client's file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// JSON, where comments and trailing commas are left alone: the servers are members of `key`.
    Json { key: &'static str, shape: Shape },
    /// TOML: each server is a table below `mcp_servers`.
    Toml,
}

/// What clients want beside command, arguments and variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Plain,
    /// `"type": "stdio"` in front.
    Typed,
    /// As Copilot writes it itself: `"type": "local"`, and which tools may be used.
    Copilot,
}

/// Why a file cannot be changed, and at which place; both count from 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SyntaxError {
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) what: String,
}

impl SyntaxError {
    pub(super) fn at(text: &str, offset: usize, what: impl Into<String>) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Self { line: line_of(text, offset), column, what: what.into() }
    }
}

/// The line that an offset is in.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    text.get(..offset).unwrap_or(text).matches('\n').count() + 1
}

impl Format {
    /// The servers of the file.
    pub(super) fn list(self, text: &str) -> Result<Vec<ServerEntry>, SyntaxError> {
        let (_, body) = split_mark(text);
        match self {
            Self::Json { key, .. } => json::list(body, key),
            Self::Toml => toml::list(body),
        }
    }

    /// The text with a server in it, in place of the one of that name.
    pub(super) fn set(
        self,
        text: &str,
        name: &str,
        server: &StdioServer,
    ) -> Result<String, SyntaxError> {
        let (mark, body) = split_mark(text);
        let body = match self {
            Self::Json { key, shape } => json::set(body, key, shape, name, server),
            Self::Toml => toml::set(body, name, server),
        }?;
        Ok(format!("{mark}{body}"))
    }

    /// The text without a server. Two texts can become the same by an insertion (an empty object was
    /// there, or was not): `earlier` are texts of that file before something was inserted, and where
    /// the text came of one of them, that is the result.
    pub(super) fn remove(
        self,
        text: &str,
        name: &str,
        earlier: &[String],
    ) -> Result<String, SyntaxError> {
        let has_name = |entry: &ServerEntry| entry.name == name;
        let found = self.list(text)?.into_iter().find(has_name);
        if let Some(server) = found.and_then(|entry| entry.server) {
            let came_of = |before: &&String| {
                self.list(before).is_ok_and(|listed| !listed.iter().any(has_name))
                    && self.set(before, name, &server).is_ok_and(|after| after == text)
            };
            if let Some(before) = earlier.iter().find(came_of) {
                return Ok(before.clone());
            }
        }
        let (mark, body) = split_mark(text);
        let body = match self {
            Self::Json { key, .. } => json::remove(body, key, name),
            Self::Toml => toml::remove(body, name),
        }?;
        Ok(format!("{mark}{body}"))
    }
}

/// The byte order mark, if there is one, and the rest.
fn split_mark(text: &str) -> (&str, &str) {
    let length = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    text.split_at(length)
}

/// `text` with some places of it replaced; they are in order and do not overlap.
pub(super) fn splice(text: &str, changes: &[(Range<usize>, String)]) -> String {
    let mut result = text.to_owned();
    for (range, new) in changes.iter().rev() {
        result.replace_range(range.clone(), new);
    }
    result
}

/// How the lines of a text end: as its first one does.
pub(super) fn newline(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}
