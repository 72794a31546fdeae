//! Changes to a TOML file in which each server is a table, `[mcp_servers.NAME]`. Pure.

use std::ops::Range;

use super::edit::{Fault, line_of, newline, splice};
use super::entry::{Entry, Listed};
use super::statements::{Kind, Statement, Value, statements};

/// What all servers are below of.
const SERVERS: &str = "mcp_servers";

/// The servers, in the order in which they come up.
pub(super) fn list(text: &str) -> Result<Vec<Listed>, Fault> {
    let statements = checked(text)?;
    let mut listed: Vec<Listed> = Vec::new();
    for statement in &statements {
        let [key, name, ..] = statement.path.as_slice() else { continue };
        if key != SERVERS || listed.iter().any(|known| known.name == *name) {
            continue;
        }
        let line = line_of(text, statement.range.start);
        listed.push(Listed { name: name.clone(), line, entry: entry(&statements, name) });
    }
    Ok(listed)
}

/// The text with another table at its end, where it changes the meaning of nothing else.
pub(super) fn insert(text: &str, name: &str, entry: &Entry) -> Result<String, Fault> {
    checked(text)?;
    let newline = newline(text);
    let gap = match text {
        "" => String::new(),
        text if text.ends_with('\n') => newline.to_owned(),
        _ => newline.repeat(2),
    };
    Ok(format!("{text}{gap}{}", table(name, entry, newline)))
}

/// The text with another table in the place of the one for `name`.
pub(super) fn replace(text: &str, name: &str, entry: &Entry) -> Result<String, Fault> {
    let statements = checked(text)?;
    let parts: Vec<_> = parts(&statements, name).collect();
    let Some(first) = parts.first() else { return Ok(text.to_owned()) };
    // In the middle of another table a new one would take over what follows.
    if first.kind != Kind::Table || first.path.len() > 2 {
        return insert(&remove(text, name)?, name, entry);
    }
    let mut changes: Vec<_> =
        parts.iter().map(|part| (lines(text, &part.range), String::new())).collect();
    if let Some((_, new)) = changes.first_mut() {
        *new = table(name, entry, newline(text));
    }
    Ok(splice(text, &changes))
}

/// The text without the table and all that is below it; with its lines go comments at their ends,
/// and the empty line before it.
pub(super) fn remove(text: &str, name: &str) -> Result<String, Fault> {
    let statements = checked(text)?;
    let mut changes: Vec<_> =
        parts(&statements, name).map(|part| (lines(text, &part.range), String::new())).collect();
    let end = changes.last().map_or(0, |(range, _)| range.end);
    if let Some((first, _)) = changes.first_mut() {
        let before = &text[..first.start];
        let rest = &text[end..];
        let follows = rest.is_empty() || rest.starts_with(['\r', '\n']);
        let blank = ["\n\r\n", "\n\n"].into_iter().find(|end| before.ends_with(end));
        if let Some(blank) = blank.filter(|_| follows) {
            first.start -= blank.len() - 1;
        }
    }
    Ok(splice(text, &changes))
}

/// The statements of a document whose servers can be added to.
fn checked(text: &str) -> Result<Vec<Statement>, Fault> {
    let statements = statements(text)?;
    let closed = statements.iter().find(|statement| {
        let [key] = statement.path.as_slice() else { return false };
        key == SERVERS && statement.kind != Kind::Table
    });
    match closed {
        Some(closed) => {
            let what = format!(
                "'{SERVERS}' is written in a form that cannot be added to: \
                 write a table [{SERVERS}.NAME] for each server"
            );
            Err(Fault::at(text, closed.range.start, what))
        }
        None => Ok(statements),
    }
}

/// All that is said about one server.
fn parts<'a>(statements: &'a [Statement], name: &str) -> impl Iterator<Item = &'a Statement> {
    let is_part = move |path: &[String]| matches!(path, [key, server, ..] if key == SERVERS && server == name);
    statements.iter().filter(move |statement| is_part(&statement.path))
}

/// The whole lines that a statement stands in. It has them for itself.
fn lines(text: &str, range: &Range<usize>) -> Range<usize> {
    let start = text[..range.start].rfind('\n').map_or(0, |at| at + 1);
    let end = text[range.end..].find('\n').map_or(text.len(), |at| range.end + at + 1);
    start..end
}

/// What the statements come to, if that is a program to start.
fn entry(statements: &[Statement], name: &str) -> Option<Entry> {
    let mut values = Vec::new();
    for part in parts(statements, name) {
        if let Kind::Value(value) = &part.kind {
            flatten(part.path[2..].to_vec(), value, &mut values);
        }
    }
    let mut entry = Entry::default();
    let mut has_command = false;
    for (path, value) in values {
        let path: Vec<_> = path.iter().map(String::as_str).collect();
        match (path.as_slice(), value) {
            (["command"], Value::Text(text)) => {
                has_command = true;
                entry.command = text;
            }
            (["args"], Value::List(values)) => {
                let texts = values.into_iter().map(|value| match value {
                    Value::Text(text) => Some(text),
                    _ => None,
                });
                entry.args = texts.collect::<Option<_>>()?;
            }
            (["env", name], Value::Text(text)) => {
                entry.env.insert((*name).to_owned(), text);
            }
            (["command" | "args" | "env", ..], _) => return None,
            _ => {}
        }
    }
    has_command.then_some(entry)
}

fn flatten(path: Vec<String>, value: &Value, into: &mut Vec<(Vec<String>, Value)>) {
    let Value::Table(members) = value else {
        into.push((path, value.clone()));
        return;
    };
    for (name, value) in members {
        flatten(path.iter().chain(name).cloned().collect(), value, into);
    }
}

fn table(name: &str, entry: &Entry, newline: &str) -> String {
    let args: Vec<_> = entry.args.iter().map(|text| quoted(text)).collect();
    let mut lines = vec![
        format!("[{SERVERS}.{}]", key(name)),
        format!("command = {}", quoted(&entry.command)),
        format!("args = [{}]", args.join(", ")),
    ];
    if !entry.env.is_empty() {
        let pairs =
            entry.env.iter().map(|(name, value)| format!("{} = {}", key(name), quoted(value)));
        lines.push(format!("env = {{ {} }}", pairs.collect::<Vec<_>>().join(", ")));
    }
    lines.iter().map(|line| format!("{line}{newline}")).collect()
}

fn key(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if !name.is_empty() && name.chars().all(is_plain) { name.to_owned() } else { quoted(name) }
}

/// A basic string. Its escapes are those of JSON, and DEL needs one as well.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007F")
}
