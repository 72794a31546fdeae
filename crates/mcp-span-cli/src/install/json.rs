//! Changes to JSON with comments, at the places that a parser has found. Pure.
//!
//! jsonc-parser's own `cst` is not used: it spreads an object that is written in one line over
//! several, drops empty lines at the beginning and the end of objects, and removes the comments in
//! the line of what it removes.

use std::ops::Range;

use jsonc_parser::ast::{Object, ObjectProp, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::tokens::{Token, TokenAndRange};
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, parse_to_ast, parse_to_serde_value};

use super::edit::{Shape, SyntaxError, line_of, splice};
use super::json_layout::Layout;
use super::server::{ServerEntry, StdioServer};
use mcp_span::config::{lower, strict};

/// A text, and what the parser says of it.
struct Document<'a> {
    text: &'a str,
    /// None for a text without any value.
    root: Option<Object<'a>>,
    /// Commas, comments and all others, in their order.
    tokens: Vec<TokenAndRange<'a>>,
}

/// The servers below `key`.
pub(super) fn list(text: &str, key: &str) -> Result<Vec<ServerEntry>, SyntaxError> {
    let document = Document::parse(text)?;
    let servers = document.servers(key)?;
    let entry = |member: &ObjectProp<'_>| ServerEntry {
        name: member.name.as_str().to_owned(),
        line: line_of(text, member.start()),
        server: parse_to_serde_value(member.value.text(text), &strict()).ok(),
    };
    Ok(servers.iter().flat_map(|servers| &servers.properties).map(entry).collect())
}

/// The text with `server` below `key`: in place of the one of that name, or behind all others.
pub(super) fn set(
    text: &str,
    key: &str,
    shape: Shape,
    name: &str,
    server: &StdioServer,
) -> Result<String, SyntaxError> {
    let document = Document::parse(text)?;
    let Some(root) = &document.root else {
        let layout = Layout::of_new_file(text);
        let servers = layout.object(1, [(name, layout.server(2, server, shape))]);
        return Ok(layout.new_file(text, &layout.object(0, [(key, servers)])));
    };
    let Some(servers) = document.servers(key)? else {
        let layout = document.layout(root, root.properties.last());
        let servers = layout.object(0, [(name, layout.server(1, server, shape))]);
        return Ok(document.append(root, &layout, &layout.member(key, &servers)));
    };
    let Some(at) = document.find(servers, name)? else {
        let layout = document.layout(servers, servers.properties.last());
        let member = layout.member(name, &layout.server(0, server, shape));
        return Ok(document.append(servers, &layout, &member));
    };
    let old = &servers.properties[at];
    let value = document.layout(servers, Some(old)).server(0, server, shape);
    Ok(splice(text, &[(old.value.start()..old.value.end(), value)]))
}

/// The text without the member `name` below `key`.
pub(super) fn remove(text: &str, key: &str, name: &str) -> Result<String, SyntaxError> {
    let document = Document::parse(text)?;
    let Some(servers) = document.servers(key)? else { return Ok(text.to_owned()) };
    let at = document.find(servers, name)?;
    Ok(at.map_or_else(|| text.to_owned(), |at| document.without(servers, at)))
}

impl<'a> Document<'a> {
    fn parse(text: &'a str) -> Result<Self, SyntaxError> {
        let comments = CommentCollectionStrategy::AsTokens;
        let collected = CollectOptions { comments, tokens: true };
        let parsed = parse_to_ast(text, &collected, &strict()).map_err(|error| {
            let what = format!("invalid JSON: {}", lower(&error.kind().to_string()));
            SyntaxError::at(text, error.range().start, what)
        })?;
        let tokens = parsed.tokens.unwrap_or_default();
        match parsed.value {
            None => Ok(Self { text, root: None, tokens }),
            Some(Value::Object(root)) => Ok(Self { text, root: Some(root), tokens }),
            Some(other) => Err(SyntaxError::at(text, other.start(), "not a JSON object")),
        }
    }

    fn servers(&self, key: &str) -> Result<Option<&Object<'a>>, SyntaxError> {
        let Some(root) = &self.root else { return Ok(None) };
        let Some(at) = self.find(root, key)? else { return Ok(None) };
        match &root.properties[at].value {
            Value::Object(servers) => Ok(Some(servers)),
            other => {
                let what = format!("the value of '{key}' is not an object");
                Err(SyntaxError::at(self.text, other.start(), what))
            }
        }
    }

    /// Readers differ in which of two members of the same name counts, so neither is touched.
    fn find(&self, object: &Object<'_>, name: &str) -> Result<Option<usize>, SyntaxError> {
        let members = object.properties.iter().enumerate();
        let mut found = members.filter(|(_, member)| member.name.as_str() == name);
        let first = found.next().map(|(at, _)| at);
        match found.next() {
            None => Ok(first),
            Some((_, second)) => {
                let what = format!("duplicate key '{name}'");
                Err(SyntaxError::at(self.text, second.start(), what))
            }
        }
    }

    fn layout(&self, object: &Object<'_>, model: Option<&ObjectProp<'_>>) -> Layout {
        Layout::of(self.text, object.range.start..object.range.end, model.map(Ranged::start))
    }

    /// The text with `member` behind all others of `object`, and behind comments in the line of the
    /// last one.
    fn append(&self, object: &Object<'_>, layout: &Layout, member: &str) -> String {
        let last = object.properties.last().map(Ranged::end);
        let comma = last.and_then(|end| self.comma_after(end));
        let behind = comma.map(|comma| comma + 1).or(last).unwrap_or(object.range.start + 1);
        let at = self.end_of_comments_in_line(behind);
        let gap = layout.gap(&self.text[behind..at], last.is_none());
        let (missing, comma, end) = match (last, comma) {
            (None, _) => ("", "", layout.end(&self.text[at..object.range.end])),
            (Some(_), None) => (",", "", String::new()),
            (Some(_), Some(_)) => ("", ",", String::new()),
        };
        let behind = last.unwrap_or(at);
        let changes =
            [(behind..behind, missing.to_owned()), (at..at, format!("{gap}{member}{comma}{end}"))];
        splice(self.text, &changes)
    }

    /// The text without a member of `object`: the reverse of `append`, where there are others.
    fn without(&self, object: &Object<'_>, at: usize) -> String {
        let member = &object.properties[at];
        let last = at.checked_sub(1).map(|before| object.properties[before].end());
        let gap = last.unwrap_or(object.range.start + 1)..member.start();
        let comma = self.comma_after(member.end());
        let end = comma.map_or(member.end(), |comma| comma + 1);
        let is_end_of_line =
            self.text[end..].trim_start_matches([' ', '\t']).starts_with(['\r', '\n']);
        // Comments stay, and nothing may follow a line comment in its line.
        let start = match self.within(&gap).last() {
            None => gap.start,
            Some(TokenAndRange { token: Token::CommentLine(_), .. }) if !is_end_of_line => gap.end,
            Some(token) => token.range.end,
        };
        let close = object.range.end - 1;
        let is_empty = object.properties.len() == 1
            && start == gap.start
            && self.within(&(end..close)).next().is_none();
        let mut changes = vec![(start..if is_empty { close } else { end }, String::new())];
        if comma.is_none()
            && let Some(before) = last.and_then(|end| self.comma_after(end))
        {
            changes.insert(0, (before..before + 1, String::new()));
        }
        splice(self.text, &changes)
    }

    /// The tokens that lie in a part of the text.
    fn within(&self, part: &Range<usize>) -> impl Iterator<Item = &TokenAndRange<'a>> {
        let first = self.tokens.partition_point(|token| token.range.start < part.start);
        self.tokens[first..].iter().take_while(|token| token.range.end <= part.end)
    }

    /// The comma behind a value, if there are only comments in between.
    fn comma_after(&self, end: usize) -> Option<usize> {
        let next = self.within(&(end..self.text.len())).find(|token| !is_comment(token))?;
        (next.token == Token::Comma).then_some(next.range.start)
    }

    /// The end of the comments that follow `from` in the same line; `from` if there are none.
    fn end_of_comments_in_line(&self, from: usize) -> usize {
        let mut end = from;
        for token in self.within(&(from..self.text.len())).take_while(|token| is_comment(token)) {
            if self.text[end..token.range.end].contains('\n') {
                break;
            }
            end = token.range.end;
        }
        end
    }
}

fn is_comment(token: &TokenAndRange<'_>) -> bool {
    matches!(token.token, Token::CommentLine(_) | Token::CommentBlock(_))
}
