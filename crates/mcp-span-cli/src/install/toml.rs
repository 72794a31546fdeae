//! Changes to a TOML file in which each server is a table, `[mcp_servers.NAME]`. Pure.
//!
//! `toml_edit` says where everything stands, and the text is changed here: what it writes itself has
//! other line ends than the file.

use std::ops::Range;

use serde_json::Value;
use toml_edit::{Document, Item, Key, Table};

use super::edit::{SyntaxError, line_of, newline, splice};
use super::server::{ServerEntry, StdioServer};

/// What all servers are below of.
const SERVERS: &str = "mcp_servers";

/// The servers, in the order in which they come up.
pub(super) fn list(text: &str) -> Result<Vec<ServerEntry>, SyntaxError> {
    let document = parse(text)?;
    let Some(Item::Table(servers)) = document.as_table().get(SERVERS) else {
        return Ok(Vec::new());
    };
    let mut listed: Vec<ServerEntry> = servers
        .iter()
        .map(|(name, item)| ServerEntry {
            name: name.to_owned(),
            line: parts(&document, name).first().map_or(1, |first| line_of(text, first.start)),
            server: serde_json::from_value(texts(item)).ok(),
        })
        .collect();
    listed.sort_by_key(|listed| listed.line);
    Ok(listed)
}

/// The text with a table for `server`, in place of the one of that name, or at its end, where it
/// changes the meaning of nothing else.
pub(super) fn set(text: &str, name: &str, server: &StdioServer) -> Result<String, SyntaxError> {
    let parts = parts(&parse(text)?, name);
    let newline = newline(text);
    let table = table(name, server, newline);
    let Some(first) = parts.first() else {
        let gap = match text {
            "" => String::new(),
            text if text.ends_with('\n') => newline.to_owned(),
            _ => newline.repeat(2),
        };
        return Ok(format!("{text}{gap}{table}"));
    };
    // Without a header of its own it is in the middle of another table, where a new one would take
    // over what follows.
    if !text[first.start..].starts_with('[') {
        return set(&remove(text, name)?, name, server);
    }
    let mut changes = removals(text, &parts);
    changes[0].1 = table;
    Ok(splice(text, &changes))
}

/// The text without the table and all that is below it; with its lines go comments at their ends,
/// and the empty line before it.
pub(super) fn remove(text: &str, name: &str) -> Result<String, SyntaxError> {
    let mut changes = removals(text, &parts(&parse(text)?, name));
    let end = changes.last().map_or(0, |(range, _)| range.end);
    if let Some((first, _)) = changes.first_mut() {
        let is_end = text[end..].is_empty() || text[end..].starts_with(['\r', '\n']);
        let blank = ["\r\n", "\n"].into_iter().find(|blank| {
            text[..first.start].strip_suffix(blank).is_some_and(|before| before.ends_with('\n'))
        });
        first.start -= blank.filter(|_| is_end).map_or(0, str::len);
    }
    Ok(splice(text, &changes))
}

/// The whole lines that the parts of a server stand in, which they have for themselves.
fn removals(text: &str, parts: &[Range<usize>]) -> Vec<(Range<usize>, String)> {
    let lines = parts.iter().map(|part| {
        let start = text[..part.start].rfind('\n').map_or(0, |at| at + 1);
        let end = text[part.end..].find('\n').map_or(text.len(), |at| part.end + at + 1);
        (start..end, String::new())
    });
    lines.collect()
}

/// A document whose servers can be added to.
fn parse(text: &str) -> Result<Document<&str>, SyntaxError> {
    let document = Document::parse(text).map_err(|error| {
        let at = error.span().map_or(text.len(), |span| span.start);
        SyntaxError::at(text, at, format!("invalid TOML: {}", error.message()))
    })?;
    let closed = match document.as_table().get_key_value(SERVERS) {
        Some((key, Item::Value(_))) => key.span(),
        Some((_, Item::ArrayOfTables(tables))) => tables.span(),
        _ => return Ok(document),
    };
    let what = format!(
        "'{SERVERS}' is written in a form that cannot be added to: \
         write a table [{SERVERS}.NAME] for each server"
    );
    Err(SyntaxError::at(text, closed.map_or(0, |closed| closed.start), what))
}

/// The places of all that is said about one server, in their order: headers, and values.
fn parts(document: &Document<&str>, name: &str) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    if let Some(Item::Table(servers)) = document.as_table().get(SERVERS)
        && let Some((key, item)) = servers.get_key_value(name)
    {
        parts_of(key, item, &mut parts);
    }
    parts.sort_unstable_by_key(|part| part.start);
    parts
}

fn parts_of(key: &Key, item: &Item, into: &mut Vec<Range<usize>>) {
    let mut add = |table: &Table| {
        // One that only dotted names, or headers of tables below it, speak of has no header.
        if !table.is_implicit() && !table.is_dotted() {
            into.extend(table.span());
        }
        for (name, item) in table {
            if let Some(key) = table.key(name) {
                parts_of(key, item, into);
            }
        }
    };
    match item {
        Item::None => {}
        Item::Value(value) => {
            let (key, value) = (key.span(), value.span());
            into.extend(key.zip(value).map(|(key, value)| key.start..value.end));
        }
        Item::Table(table) => add(table),
        Item::ArrayOfTables(tables) => tables.iter().for_each(add),
    }
}

/// The texts below an item, as JSON would have them; nothing in place of all else.
fn texts(item: &Item) -> Value {
    if let Some(text) = item.as_str() {
        return text.into();
    }
    if let Some(list) = item.as_array() {
        return list.iter().map(toml_edit::Value::as_str).collect();
    }
    let Some(table) = item.as_table_like() else { return Value::Null };
    Value::Object(table.iter().map(|(name, item)| (name.to_owned(), texts(item))).collect())
}

fn table(name: &str, server: &StdioServer, newline: &str) -> String {
    let args: Vec<_> = server.args.iter().map(|text| quoted(text)).collect();
    let mut lines = vec![
        format!("[{SERVERS}.{}]", key(name)),
        format!("command = {}", quoted(&server.command)),
        format!("args = [{}]", args.join(", ")),
    ];
    if !server.env.is_empty() {
        let pairs =
            server.env.iter().map(|(name, value)| format!("{} = {}", key(name), quoted(value)));
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
    Value::from(text).to_string().replace('\u{7f}', "\\u007F")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_toml_does_not_allow_a_second_time() {
        for text in [
            "a.b=1\n[a]\nc=1",
            "a=1\n[a.b]\nc=1",
            "a={b=1}\n[a.c]\nd=1",
            "[a]\nx=1\n[[a]]\ny=1",
            "[[a]]\nx=1\n[a]\ny=1",
            "[a]\n[[q]]\n[a]",
            "[a.b.c]\nz=9\n[a]\nb.c.t=1",
            "a=1\na=2",
            "a=1\na.b=2",
            "a=1\rb=2\n",
            "d = 2020-13-45",
            "d = 2021-02-29",
            "d = 2020-01-01T24:00:00Z",
            "d = 12:60:00",
            "a={b=1,b=2}",
            "a={b.c=1,b=2}",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
        for text in [
            "[a.b]\n[a]\nc=1",
            "[[a]]\nx=1\n[a.b]\ny=1\n[[a]]\nx=1\n[a.b]\ny=1",
            "[[a]]\n[[a.b]]\n[[a]]\n[[a.b]]\n[[a.b]]",
            "[a]\nb.c=1\nb.d=2\n[a.b.e]\nx=1",
            "a.b=1\r\na.c=2\r\n",
            "d = 2020-02-29",
            "d = 1979-05-27T07:32:00.999999-07:00",
            "d = 1979-05-27 23:59:60Z",
            "d = 07:32:00",
            "a={b.c=1,b.d=2,bc=3}",
        ] {
            assert!(parse(text).is_ok(), "{text:?}");
        }
    }
}
