//! Parses one line of a trace, and the message that it is about. Pure.

use std::borrow::Cow;
use std::fmt;

use mcp_span::message::{Id, Json, Method};
use mcp_span::untrusted::Untrusted;

/// Texts of others are cut at this many characters: one event is one line.
const TEXT: usize = 160;

/// One line of a trace.
pub(crate) struct Line<'a> {
    pub(crate) timestamp: Cow<'a, str>,
    /// In seconds since 1970.
    pub(crate) at: f64,
    pub(crate) direction: Cow<'a, str>,
    pub(crate) kind: Cow<'a, str>,
    pub(crate) data: Json<'a>,
}

impl<'a> Line<'a> {
    /// A line that is only shown, `at` seconds after the first.
    pub(crate) fn new(at: f64, direction: &'a str, kind: &'a str, data: Json<'a>) -> Self {
        let (direction, kind) = (direction.into(), kind.into());
        Self { timestamp: Cow::default(), at, direction, kind, data }
    }

    /// `None` if it is no line of a trace.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let names: [&[&str]; 4] = [&["timestamp"], &["direction"], &["type"], &["data"]];
        let [timestamp, direction, kind, data] = Json::parse(text)?.get_all(names)?;
        let timestamp = timestamp?.text()?;
        let at = seconds(&timestamp)?;
        Some(Self {
            timestamp,
            at,
            direction: direction?.text()?,
            kind: kind?.text()?,
            data: data?,
        })
    }
}

/// `2026-11-15T14:05:18.123456Z` in seconds since 1970.
fn seconds(timestamp: &str) -> Option<f64> {
    let number = |from, to| timestamp.get(from..to)?.parse::<u16>().ok().map(i32::from);
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute) = (number(11, 13)?, number(14, 16)?);
    let second: f64 = timestamp.get(17..)?.strip_suffix('Z')?.parse().ok()?;
    if !(1..=12).contains(&month) || !(0.0..61.0).contains(&second) {
        return None;
    }
    // Days since 1970, in years that begin with March: the odd day comes last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days =
        year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 719_469;
    Some(f64::from(days) * 86_400.0 + f64::from(hour * 3600 + minute * 60) + second)
}

/// A foreign text as a part of a line: short, and without what a terminal would act on.
pub(super) fn plain(text: &str) -> String {
    Untrusted(text).excerpt(TEXT)
}

/// The text to which `path` leads in the data of a line.
pub(super) fn text(data: Json<'_>, path: &[&str]) -> Option<String> {
    data.get(path)?.text().map(|text| plain(&text))
}

/// The form in which ids are compared.
pub(super) fn canonical(id: &str) -> Option<String> {
    Some(Id::from_json(id)?.canonical().as_json().to_owned())
}

fn id(data: Json<'_>, path: &[&str]) -> Option<String> {
    canonical(data.get(path)?.as_str())
}

/// Which message an event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subject {
    /// In its canonical form.
    pub(crate) id: Option<String>,
    pub(crate) method: Option<String>,
    /// Of the tool, the prompt or the resource that it is about.
    pub(crate) name: Option<String>,
}

impl Subject {
    /// Of an HTTP request or response; `None` if it carries no message.
    pub(super) fn of_exchange(data: Json<'_>) -> Option<Self> {
        let (id, method) = (id(data, &["id"]), text(data, &["rpcMethod"]));
        let is_known = id.is_some() || method.is_some();
        is_known.then(|| Self { id, method, name: text(data, &["name"]) })
    }

    fn of_message(data: Json<'_>, is_cut: bool) -> Self {
        let method = data.get(&["method"]).and_then(Json::text);
        let name = match &method {
            _ if is_cut => text(data, &["name"]),
            Some(method) => Method::named(method)
                .properties()
                .subject
                .and_then(|subject| text(data, &["params", subject.member()])),
            None => None,
        };
        Self { id: id(data, &["id"]), method: method.map(|method| plain(&method)), name }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.id.as_ref().map(|id| match id.starts_with("\"mcp-span-") {
            true => "(the bridge's own)".to_owned(),
            false => format!("#{}", plain(id)),
        });
        let name = self.name.clone().filter(|_| self.method.is_some());
        let parts: Vec<String> = [self.method.clone(), name, id].into_iter().flatten().collect();
        match parts.is_empty() {
            true => f.write_str("a message without an id"),
            false => f.write_str(&parts.join(" ")),
        }
    }
}

/// What a message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MessageKind {
    Request,
    Notification,
    /// Of the request whose id stands in its subject.
    Cancellation,
    Response,
    /// With its code and its text.
    Error(String),
    /// Something else in place of a message; its text, if it is a string.
    Other(Option<String>),
}

/// A message, as far as it is shown.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) kind: MessageKind,
    pub(super) subject: Subject,
    /// In bytes, if it was too large for the trace.
    pub(super) size: Option<i64>,
}

impl Message {
    pub(super) fn parse(data: Json<'_>) -> Self {
        // A message too large for the trace is stored as its type, size and subject.
        let cut = text(data, &["type"]);
        let mut subject = Subject::of_message(data, cut.is_some());
        let cancelled = id(data, &["params", "requestId"]);
        let error = data.get(&["error"]).filter(|error| !error.is_null());
        let has_answer = cut.is_some() || data.get(&["result"]).is_some();
        let kind = match (&subject.method, &subject.id) {
            (Some(_), Some(_)) => MessageKind::Request,
            (Some(_), None) if cancelled.is_some() => MessageKind::Cancellation,
            (Some(_), None) => MessageKind::Notification,
            (None, _) if error.is_some() || cut.as_deref() == Some("error") => {
                MessageKind::Error(error.map_or_else(|| "without more".to_owned(), failure))
            }
            (None, Some(_)) if has_answer => MessageKind::Response,
            (None, _) => MessageKind::Other(data.text().map(|text| plain(&text))),
        };
        if kind == MessageKind::Cancellation {
            subject.id = cancelled;
        }
        let size = data.get(&["size"]).filter(|_| cut.is_some()).and_then(Json::integer);
        Self { kind, subject, size }
    }
}

/// The code and the text of an error.
fn failure(error: Json<'_>) -> String {
    if !error.is_object() {
        return plain(error.as_str());
    }
    let code = error.get(&["code"]).map_or("without a code", Json::as_str);
    format!("{} {}", plain(code), text(error, &["message"]).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Message {
        Message::parse(Json::parse(text).unwrap())
    }

    #[test]
    fn times_are_read_exactly_and_nonsense_is_not() {
        assert_eq!(seconds("1970-01-01T00:00:00Z"), Some(0.0));
        assert_eq!(seconds("2000-02-29T12:00:00.5Z"), Some(951_825_600.5));
        assert_eq!(seconds("2026-11-15T14:05:18.123456Z"), Some(1_794_751_518.123_456));
        let nonsense = [
            "",
            "Z",
            "2026-11-15",
            "2026-13-15T14:05:18Z",
            "x-1-1T1:1:1Z",
            "2026-11-15T14:05:nanZ",
        ];
        for text in nonsense {
            assert_eq!(seconds(text), None, "{text}");
        }
    }

    #[test]
    fn messages_are_told_apart() {
        let request = message(r#"{"jsonrpc":"2.0","id":1.0,"method":"a"}"#);
        assert_eq!(request.kind, MessageKind::Request);
        assert_eq!(request.subject.id.as_deref(), Some("1"));
        assert_eq!(message(r#"{"id":1,"result":{}}"#).kind, MessageKind::Response);
        let error = message(r#"{"id":null,"error":{"code":-32601,"message":"no\u001b[31m\nway"}}"#);
        assert_eq!(error.kind, MessageKind::Error("-32601 no[31m way".into()));
        let notice = r#"{"method":"notifications/cancelled","params":{"requestId":"x"}}"#;
        assert_eq!(message(notice).kind, MessageKind::Cancellation);
        assert_eq!(message(notice).subject.id.as_deref(), Some("\"x\""));
        let name = |text: &str| message(text).subject.name;
        let call = r#"{"id":1,"method":"tools/call","params":{"name":"a\u001bdd","x":[1]}}"#;
        assert_eq!(name(call).as_deref(), Some("add"));
        let read = r#"{"id":1,"method":"resources/read","params":{"uri":"f://x","name":"n"}}"#;
        assert_eq!(name(read).as_deref(), Some("f://x"));
        assert_eq!(name(r#"{"id":1,"method":"initialize","params":{"name":"n"}}"#), None);
        for text in ["\"garbage\"", "7", "{}", "{\"method\":7}"] {
            assert!(matches!(message(text).kind, MessageKind::Other(_)), "{text}");
        }
    }

    #[test]
    fn of_a_message_that_was_too_large_there_is_a_summary() {
        let request =
            message(r#"{"type":"request","id":3,"method":"tools/call","name":"n","size":7}"#);
        assert_eq!((request.subject.name.as_deref(), request.size), (Some("n"), Some(7)));
        let response = message(r#"{"type":"response","id":3,"size":70000,"beginning":"{"}"#);
        assert_eq!((response.kind, response.size), (MessageKind::Response, Some(70000)));
    }
}
