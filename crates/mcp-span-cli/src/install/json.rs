//! Changes to JSON with comments, by places of the text that a parser has found. Pure.

use jsonc_parser::ast::{Object, ObjectProp, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, parse_to_ast};

use super::edit::{SyntaxError, line_of, splice};
use super::json_layout::{Layout, comma_after, end_of_gap, end_of_line_comments};
use super::server::{ServerEntry, StdioServer, Tree};
use mcp_span::config::{lower, strict};

/// The servers below `key`.
pub(super) fn list(text: &str, key: &str) -> Result<Vec<ServerEntry>, SyntaxError> {
    let Some(root) = parse(text)? else { return Ok(Vec::new()) };
    let Some(servers) = servers(text, &root, key)? else { return Ok(Vec::new()) };
    let listed = servers.properties.iter().map(|member| ServerEntry {
        name: member.name.as_str().to_owned(),
        line: line_of(text, member.start()),
        entry: entry(&member.value),
    });
    Ok(listed.collect())
}

/// The text with a member `name` below `key`, behind all others.
pub(super) fn insert(
    text: &str,
    key: &str,
    name: &str,
    value: &Tree,
) -> Result<String, SyntaxError> {
    let Some(root) = parse(text)? else { return Ok(begin(text, key, name, value)) };
    Ok(match servers(text, &root, key)? {
        Some(servers) => add(text, servers, |layout| layout.member(name, value)),
        None => add(text, &root, |layout| layout.member_with(key, name, value)),
    })
}

/// The text with another value for the member `name`.
pub(super) fn replace(
    text: &str,
    key: &str,
    name: &str,
    value: &Tree,
) -> Result<String, SyntaxError> {
    let root = parse(text)?;
    let found = root.as_ref().map(|root| servers(text, root, key)).transpose()?.flatten();
    let Some((servers, at)) = found.map(|all| Ok((all, find(text, all, name)?))).transpose()?
    else {
        return Ok(text.to_owned());
    };
    let Some(member) = at.and_then(|at| servers.properties.get(at)) else {
        return Ok(text.to_owned());
    };
    let layout = layout(text, servers, Some(member));
    let range = member.value.start()..member.value.end();
    Ok(splice(text, &[(range, layout.value(value))]))
}

/// The text without the member `name`.
pub(super) fn remove(text: &str, key: &str, name: &str) -> Result<String, SyntaxError> {
    let Some(root) = parse(text)? else { return Ok(text.to_owned()) };
    let Some(servers) = servers(text, &root, key)? else { return Ok(text.to_owned()) };
    let Some(at) = find(text, servers, name)? else { return Ok(text.to_owned()) };
    Ok(take_out(text, servers, at))
}

/// A file that has nothing in it but, perhaps, comments.
fn begin(text: &str, key: &str, name: &str, value: &Tree) -> String {
    let layout = Layout::of_new_file(text);
    let newline = layout.newline();
    let is_in_line = text.is_empty() || text.ends_with('\n');
    let gap = if is_in_line { "" } else { newline };
    let inner = layout.inside().member_with(key, name, value);
    let indent = layout.inside().indent().to_owned();
    format!("{text}{gap}{{{newline}{indent}{inner}{newline}}}{newline}")
}

fn add(text: &str, object: &Object<'_>, member: impl Fn(&Layout) -> String) -> String {
    let Some(last) = object.properties.last() else { return fill(text, object, member) };
    let layout = layout(text, object, Some(last));
    let new = member(&layout);
    let end = last.value.end();
    if let Some(comma) = comma_after(text, end) {
        let at = end_of_line_comments(text, comma + 1);
        let gap = layout.gap(text, comma + 1..at);
        return splice(text, &[(at..at, format!("{gap}{new},"))]);
    }
    let at = end_of_line_comments(text, end);
    let gap = layout.gap(text, end..at);
    splice(text, &[(end..end, ",".to_owned()), (at..at, format!("{gap}{new}"))])
}

/// The first member of an object that has none.
fn fill(text: &str, object: &Object<'_>, member: impl Fn(&Layout) -> String) -> String {
    let layout = layout(text, object, None);
    let (open, close) = (object.range.start + 1, object.range.end - 1);
    let at = end_of_line_comments(text, open);
    let gap = layout.gap(text, open..at);
    let rest = text.get(at..close).unwrap_or_default();
    let end = if rest.contains('\n') { String::new() } else { layout.end() };
    splice(text, &[(at..at, format!("{gap}{}{end}", member(&layout)))])
}

/// The exact reverse of `add`, where the object has other members.
fn take_out(text: &str, object: &Object<'_>, at: usize) -> String {
    let Some(member) = object.properties.get(at) else { return text.to_owned() };
    let before = at.checked_sub(1).and_then(|at| object.properties.get(at));
    let gap = before.map_or(object.range.start + 1, |before| before.value.end());
    let start = end_of_gap(text, gap..member.start());
    let end = member.value.end();
    let own_comma = comma_after(text, end);
    let end = own_comma.map_or(end, |comma| comma + 1);
    let mut changes = Vec::new();
    if before.is_some() && own_comma.is_none() {
        let comma = comma_after(text, gap).unwrap_or(gap);
        changes.push((comma..comma + 1, String::new()));
    }
    changes.push((start..end, String::new()));
    let is_empty = object.properties.len() == 1 && start == object.range.start + 1;
    let rest = text.get(end..object.range.end - 1).unwrap_or_default();
    if is_empty && rest.trim().is_empty() {
        changes = vec![(start..object.range.end - 1, String::new())];
    }
    splice(text, &changes)
}

fn layout(text: &str, object: &Object<'_>, member: Option<&ObjectProp<'_>>) -> Layout {
    let range = object.range.start..object.range.end;
    Layout::of(text, range, member.map(Ranged::start))
}

/// None for a text without any value.
fn parse(text: &str) -> Result<Option<Object<'_>>, SyntaxError> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &strict()).map_err(|error| {
        let what = format!("this is not JSON: {}", lower(&error.kind().to_string()));
        SyntaxError::at(text, error.range().start, what)
    })?;
    match parsed.value {
        None => Ok(None),
        Some(Value::Object(root)) => Ok(Some(root)),
        Some(other) => Err(SyntaxError::at(text, other.start(), "this is not a JSON object")),
    }
}

fn servers<'a, 'b>(
    text: &str,
    root: &'b Object<'a>,
    key: &str,
) -> Result<Option<&'b Object<'a>>, SyntaxError> {
    let Some(at) = find(text, root, key)? else { return Ok(None) };
    match root.properties.get(at).map(|member| &member.value) {
        Some(Value::Object(servers)) => Ok(Some(servers)),
        Some(other) => {
            let what = format!("the value of '{key}' is not an object");
            Err(SyntaxError::at(text, other.start(), what))
        }
        None => Ok(None),
    }
}

/// Readers differ in which of two members of the same name counts, so nothing is done about either.
fn find(text: &str, object: &Object<'_>, name: &str) -> Result<Option<usize>, SyntaxError> {
    let mut found = None;
    for (at, member) in object.properties.iter().enumerate() {
        if member.name.as_str() != name {
            continue;
        }
        if found.is_some() {
            let what = format!("'{name}' stands here a second time");
            return Err(SyntaxError::at(text, member.start(), what));
        }
        found = Some(at);
    }
    Ok(found)
}

fn entry(value: &Value<'_>) -> Option<StdioServer> {
    let members = value.as_object()?;
    let member = |name: &str| {
        members.properties.iter().find(|member| member.name.as_str() == name).map(|m| &m.value)
    };
    let text = |value: &Value<'_>| value.as_string_lit().map(|text| text.value.to_string());
    let args = match member("args") {
        Some(args) => args.as_array()?.elements.iter().map(text).collect::<Option<_>>()?,
        None => Vec::new(),
    };
    let env = match member("env") {
        Some(env) => {
            let pair = |member: &ObjectProp<'_>| {
                Some((member.name.as_str().to_owned(), text(&member.value)?))
            };
            env.as_object()?.properties.iter().map(pair).collect::<Option<_>>()?
        }
        None => Default::default(),
    };
    Some(StdioServer { command: text(member("command")?)?, args, env })
}
