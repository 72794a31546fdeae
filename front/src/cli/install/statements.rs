//! A TOML document as its statements, with their places in the text: headers of tables, and values
//! under their full names. Pure.

use std::borrow::Cow;
use std::collections::HashMap;
use std::iter::Peekable;
use std::ops::Range;
use std::slice::Iter;

use toml_parser::decoder::ScalarKind;
use toml_parser::parser::{Event, EventKind, RecursionGuard, parse_document};
use toml_parser::{ParseError, Source};

use super::edit::Fault;
use crate::limits::TOML_DEPTH;

/// One line of a document, or several where a value has several.
#[cfg_attr(test, derive(Debug))]
pub(super) struct Statement {
    /// Without white space and comments around it.
    pub(super) range: Range<usize>,
    /// From the root of the document.
    pub(super) path: Vec<String>,
    pub(super) kind: Kind,
}

#[derive(PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(super) enum Kind {
    Table,
    ArrayOfTables,
    Value(Value),
}

#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(super) enum Value {
    Text(String),
    List(Vec<Self>),
    /// Names may be dotted.
    Table(Vec<(Vec<String>, Self)>),
    /// Numbers and the like.
    Other,
}

/// Takes a document apart; one that TOML does not allow is a fault.
pub(super) fn statements(text: &str) -> Result<Vec<Statement>, Fault> {
    let source = Source::new(text);
    let tokens = source.lex().into_vec();
    let mut events: Vec<Event> = Vec::new();
    let mut error: Option<ParseError> = None;
    parse_document(&tokens, &mut RecursionGuard::new(&mut events, TOML_DEPTH), &mut error);
    let mut reader = Reader { source, events: events.iter().peekable(), error };
    let statements = reader.document();
    if let Some(error) = reader.error {
        let at = error.unexpected().or(error.context()).map_or(text.len(), |span| span.start());
        return Err(Fault::at(text, at, format!("this is not TOML: {}", error.description())));
    }
    check_returns(text)?;
    check_names(text, &statements)?;
    Ok(statements)
}

struct Reader<'a, 'b> {
    source: Source<'a>,
    events: Peekable<Iter<'b, Event>>,
    /// The first one.
    error: Option<ParseError>,
}

impl Reader<'_, '_> {
    fn document(&mut self) -> Vec<Statement> {
        let mut statements = Vec::new();
        let mut table = Vec::new();
        while let Some(event) = self.events.peek().copied() {
            let start = event.span().start();
            let kind = match event.kind() {
                EventKind::StdTableOpen => Kind::Table,
                EventKind::ArrayTableOpen => Kind::ArrayOfTables,
                EventKind::SimpleKey => {
                    let (name, _) = self.name(EventKind::KeyValSep);
                    let (value, end) = self.value();
                    let path = table.iter().cloned().chain(name).collect();
                    statements.push(Statement {
                        range: start..end,
                        path,
                        kind: Kind::Value(value),
                    });
                    continue;
                }
                _ => {
                    self.events.next();
                    continue;
                }
            };
            self.events.next();
            let close = if kind == Kind::Table {
                EventKind::StdTableClose
            } else {
                EventKind::ArrayTableClose
            };
            let (path, end) = self.name(close);
            table.clone_from(&path);
            statements.push(Statement { range: start..end, path, kind });
        }
        statements
    }

    /// A name, dotted or not, up to what ends it.
    fn name(&mut self, last: EventKind) -> (Vec<String>, usize) {
        let mut name = Vec::new();
        let mut end = 0;
        for event in self.events.by_ref() {
            end = event.span().end();
            if event.kind() == EventKind::SimpleKey
                && let Some(raw) = self.source.get(event)
            {
                let mut key = Cow::Borrowed("");
                raw.decode_key(&mut key, &mut self.error);
                name.push(key.into_owned());
            }
            if event.kind() == last {
                break;
            }
        }
        (name, end)
    }

    /// A value and its end. How deep it can be is bounded by the parser.
    fn value(&mut self) -> (Value, usize) {
        while let Some(event) = self.events.next() {
            let end = event.span().end();
            match event.kind() {
                EventKind::Scalar => return (self.scalar(event), end),
                EventKind::ArrayOpen => return self.list(),
                EventKind::InlineTableOpen => return self.table(),
                _ => {}
            }
        }
        (Value::Other, self.source.input().len())
    }

    fn list(&mut self) -> (Value, usize) {
        let mut values = Vec::new();
        while let Some(event) = self.events.peek().copied() {
            match event.kind() {
                EventKind::ArrayClose => {
                    self.events.next();
                    return (Value::List(values), event.span().end());
                }
                EventKind::Scalar | EventKind::ArrayOpen | EventKind::InlineTableOpen => {
                    values.push(self.value().0);
                }
                _ => {
                    self.events.next();
                }
            }
        }
        (Value::List(values), self.source.input().len())
    }

    fn table(&mut self) -> (Value, usize) {
        let mut members = Vec::new();
        while let Some(event) = self.events.peek().copied() {
            match event.kind() {
                EventKind::InlineTableClose => {
                    self.events.next();
                    if has_twice(&members) {
                        self.refuse("a name stands twice in a table", event);
                    }
                    return (Value::Table(members), event.span().end());
                }
                EventKind::SimpleKey => {
                    let (name, _) = self.name(EventKind::KeyValSep);
                    members.push((name, self.value().0));
                }
                _ => {
                    self.events.next();
                }
            }
        }
        (Value::Table(members), self.source.input().len())
    }

    fn scalar(&mut self, event: &Event) -> Value {
        let Some(raw) = self.source.get(event) else { return Value::Other };
        let mut text = Cow::Borrowed("");
        match raw.decode_scalar(&mut text, &mut self.error) {
            ScalarKind::String => Value::Text(text.into_owned()),
            ScalarKind::DateTime if !is_date_or_time(&text) => {
                self.refuse("there is no such date or time", event);
                Value::Other
            }
            _ => Value::Other,
        }
    }

    /// The first fault counts.
    fn refuse(&mut self, why: &'static str, event: &Event) {
        self.error.get_or_insert_with(|| ParseError::new(why).with_unexpected(event.span()));
    }
}

/// Whether a date, a time, or both can be: the parser knows them by their letters alone.
fn is_date_or_time(text: &str) -> bool {
    let (date, time) = match text.as_bytes().get(4) {
        Some(b'-') => (text.get(..10), text.get(10..).unwrap_or_default()),
        _ => (None, text),
    };
    let number = |part: Option<&str>| part.and_then(|part| part.parse::<u32>().ok());
    let is_date = |date: &str| {
        let (year, month) = (number(date.get(..4)), number(date.get(5..7)));
        let days = match (month, year) {
            (Some(2), Some(year)) if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
            (Some(2), Some(_)) => 28,
            (Some(4 | 6 | 9 | 11), Some(_)) => 30,
            (Some(1..=12), Some(_)) => 31,
            _ => 0,
        };
        date.len() == 10 && number(date.get(8..)).is_some_and(|day| (1..=days).contains(&day))
    };
    let is_time = |time: &str| {
        let hours = number(time.get(..2)).is_some_and(|hours| hours < 24);
        let minutes = number(time.get(3..5)).is_some_and(|minutes| minutes < 60);
        // A minute may have a second more; without seconds it is what newer TOML allows.
        let seconds = time.as_bytes().get(5) != Some(&b':')
            || number(time.get(6..8)).is_some_and(|seconds| seconds <= 60);
        hours && minutes && seconds
    };
    match date {
        Some(date) => is_date(date) && (time.is_empty() || time.get(1..).is_some_and(is_time)),
        None => is_time(time) && text.as_bytes().get(4) != Some(&b'-'),
    }
}

/// Whether a name stands twice, or below a value.
fn has_twice(members: &[(Vec<String>, Value)]) -> bool {
    let mut names: Vec<_> = members.iter().map(|(name, _)| name).collect();
    // What begins with a name comes right behind it.
    names.sort_unstable();
    names.windows(2).any(|pair| pair[1].starts_with(pair[0]))
}

/// How a name came to be one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    /// By a header further down: `a` in `[a.b]`. It may have a header of its own.
    InHeader,
    /// By a value further down: `a` in `a.b = 1`. It may not.
    InValue,
    Table,
    ArrayOfTables,
    Value,
}

/// Nothing may be said twice, and nothing be below a value. What is below an array of tables is said
/// once for each of them.
fn check_names(text: &str, statements: &[Statement]) -> Result<(), Fault> {
    let mut known: HashMap<&[String], Made> = HashMap::new();
    // How much of a value's name its table has.
    let mut table = 0;
    for statement in statements {
        let path = statement.path.as_slice();
        let is_right = match statement.kind {
            Kind::Value(_) => {
                (table + 1..path.len())
                    .all(|end| *known.entry(&path[..end]).or_insert(Made::InValue) == Made::InValue)
                    && known.insert(path, Made::Value).is_none()
            }
            Kind::Table | Kind::ArrayOfTables => {
                table = path.len();
                (1..path.len())
                    .all(|end| *known.entry(&path[..end]).or_insert(Made::InHeader) != Made::Value)
                    && head(&mut known, path, &statement.kind)
            }
        };
        if !is_right {
            let name = path.join(".");
            let what = format!("this is not TOML: '{name}' stands here a second time");
            return Err(Fault::at(text, statement.range.start, what));
        }
    }
    Ok(())
}

/// Takes note of a header; false if it cannot be one.
fn head<'a>(known: &mut HashMap<&'a [String], Made>, path: &'a [String], kind: &Kind) -> bool {
    if *kind == Kind::Table {
        return matches!(known.insert(path, Made::Table), None | Some(Made::InHeader));
    }
    known.retain(|other, _| other.len() <= path.len() || !other.starts_with(path));
    matches!(known.insert(path, Made::ArrayOfTables), None | Some(Made::ArrayOfTables))
}

/// The end of a line may have it, and nothing else.
fn check_returns(text: &str) -> Result<(), Fault> {
    let bare = text.match_indices('\r').find(|(at, _)| !text[at + 1..].starts_with('\n'));
    bare.map_or(Ok(()), |(at, _)| {
        let what = "this is not TOML: a carriage return without a new line";
        Err(Fault::at(text, at, what.to_owned()))
    })
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
            assert!(statements(text).is_err(), "{text:?}");
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
            assert!(statements(text).is_ok(), "{text:?}");
        }
    }
}
