//! Reads one line of a trace, as far as a person wants to know what it says. Pure.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use mcp_span::message::{Id, Method};
use mcp_span::untrusted::Untrusted;

/// Texts of others are cut at this many characters: one event is one line.
const TEXT: usize = 160;

/// One line of a trace.
pub(super) struct Entry<'a> {
    /// In microseconds since 1970.
    pub(super) at: i64,
    pub(super) direction: Cow<'a, str>,
    pub(super) kind: Cow<'a, str>,
    pub(super) data: &'a RawValue,
}

impl<'a> Entry<'a> {
    /// `None` if it is no line of a trace.
    pub(super) fn read(line: &'a str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Line<'a> {
            #[serde(borrow)]
            timestamp: Cow<'a, str>,
            #[serde(borrow)]
            direction: Cow<'a, str>,
            #[serde(borrow, rename = "type")]
            kind: Cow<'a, str>,
            #[serde(borrow)]
            data: &'a RawValue,
        }
        let Line { timestamp, direction, kind, data } = serde_json::from_str(line).ok()?;
        Some(Self { at: microseconds(&timestamp)?, direction, kind, data })
    }

    /// The data as `T`, or nothing of it.
    pub(super) fn data<T: DeserializeOwned + Default>(&self) -> T {
        serde_json::from_str(self.data.get()).unwrap_or_default()
    }
}

/// What of a message is of interest.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) sort: Sort,
    /// In its canonical form.
    pub(super) id: Option<String>,
    pub(super) method: Option<String>,
    /// Of the tool, the prompt or the resource that it is about.
    pub(super) name: Option<String>,
    /// The code and the text of an error.
    pub(super) error: Option<String>,
    /// The request that a cancellation is about.
    pub(super) cancels: Option<String>,
    /// The text that stands where a message should.
    pub(super) text: Option<String>,
    /// The size, if the message was too large to be kept.
    pub(super) size: Option<u64>,
}

/// What a message is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    Request,
    Notification,
    Answer,
    Error,
    #[default]
    Other,
}

#[derive(Default, Deserialize)]
struct Members<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    size: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow, rename = "type")]
    large: Option<&'a RawValue>,
}

impl Told {
    /// The messages in `data`: one, or an array of them.
    pub(super) fn all(data: &RawValue) -> Vec<Self> {
        let many = serde_json::from_str::<Vec<&RawValue>>(data.get());
        many.map_or_else(
            |_| vec![Self::one(data)],
            |many| many.into_iter().map(Self::one).collect(),
        )
    }

    fn one(data: &RawValue) -> Self {
        let members: Members<'_> = serde_json::from_str(data.get()).unwrap_or_default();
        let method = members.method.and_then(text);
        let id = members.id.and_then(|id| canonical(id.get()));
        let large = members.large.and_then(text);
        let sort = match (&method, &id, members.error, large.as_deref()) {
            (Some(_), Some(_), ..) => Sort::Request,
            (Some(_), None, ..) => Sort::Notification,
            (None, _, Some(_), _) | (None, _, None, Some("error")) => Sort::Error,
            (None, Some(_), None, _) if members.result.is_some() || large.is_some() => Sort::Answer,
            _ => Sort::Other,
        };
        let given = members.name.filter(|_| large.is_some()).and_then(text);
        let name = given.or_else(|| subject(members.params?, method.as_deref()?));
        Self {
            sort,
            id,
            method,
            name,
            error: members.error.map(failure),
            cancels: members.params.and_then(cancelled),
            text: text(data),
            size: members.size.filter(|_| large.is_some()).and_then(|s| s.get().parse().ok()),
        }
    }
}

fn text(value: &RawValue) -> Option<String> {
    serde_json::from_str::<String>(value.get()).ok().map(|text| plain(&text))
}

/// A foreign text as a part of a line: short, and nothing that a terminal would obey.
pub(super) fn plain(text: &str) -> String {
    Untrusted(text).excerpt(TEXT)
}

/// The form in which ids are compared.
pub(super) fn canonical(id: &str) -> Option<String> {
    Some(Id::from_json(id)?.canonical().as_json().to_owned())
}

fn failure(error: &RawValue) -> String {
    #[derive(Deserialize)]
    struct Failure<'a> {
        #[serde(borrow)]
        code: Option<&'a RawValue>,
        #[serde(borrow)]
        message: Option<&'a RawValue>,
    }
    let Ok(failure) = serde_json::from_str::<Failure<'_>>(error.get()) else {
        return plain(error.get());
    };
    let code = failure.code.map_or("without a code", RawValue::get);
    format!("{} {}", plain(code), failure.message.and_then(text).unwrap_or_default())
}

fn cancelled(params: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow, rename = "requestId")]
        id: &'a RawValue,
    }
    canonical(serde_json::from_str::<Params<'_>>(params.get()).ok()?.id.get())
}

/// What a request is about, by the member that names it.
fn subject(params: &RawValue, method: &str) -> Option<String> {
    let member = Method::named(method).properties().subject?.member();
    let mut members: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(params.get()).ok()?;
    text(members.remove(member)?)
}

/// `2026-11-15T14:05:18.123456Z` in microseconds since 1970.
fn microseconds(timestamp: &str) -> Option<i64> {
    let (date, time) = timestamp.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.split('-').map(|n| n.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    if date.next().is_some() || !(1970..=9999).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    let (clock, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut clock = clock.split(':').map(|n| n.parse::<u16>().ok());
    let (hours, minutes, seconds) = (clock.next()??, clock.next()??, clock.next()??);
    if clock.next().is_some() || !fraction.bytes().all(|b| b.is_ascii_digit()) || day > 31 {
        return None;
    }
    let fraction: i64 = format!("{fraction:0<6}")[..6].parse().ok()?;
    // Days since 1970, in years that begin with March: the odd day comes last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days =
        year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 719_469;
    let seconds = (i64::from(hours) * 60 + i64::from(minutes)) * 60 + i64::from(seconds);
    Some((days * 86_400 + seconds) * 1_000_000 + fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Told {
        Told::one(serde_json::from_str(text).unwrap())
    }

    #[test]
    fn times_are_read_exactly_and_nonsense_is_not() {
        assert_eq!(microseconds("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(microseconds("2000-02-29T12:00:00.5Z"), Some(951_825_600_500_000));
        assert_eq!(microseconds("2026-11-15T14:05:18.123456789Z"), Some(1_794_751_518_123_456));
        for text in ["", "Z", "2026-11-15", "2026-13-15T14:05:18Z", "x-1-1T1:1:1Z", "1-2-3T4:5Z"] {
            assert_eq!(microseconds(text), None, "{text}");
        }
    }

    #[test]
    fn messages_are_told_apart() {
        let request = told(r#"{"jsonrpc":"2.0","id":1.0,"method":"a"}"#);
        assert_eq!((request.sort, request.id.as_deref()), (Sort::Request, Some("1")));
        assert_eq!(told(r#"{"id":1,"result":{}}"#).sort, Sort::Answer);
        let error = told(r#"{"id":null,"error":{"code":-32601,"message":"no\u001b[31m\nway"}}"#);
        assert_eq!(error.error.as_deref(), Some("-32601 no[31m way"));
        let notice = r#"{"method":"notifications/cancelled","params":{"requestId":"x"}}"#;
        assert_eq!(told(notice).cancels.as_deref(), Some("\"x\""));
        let call = told(r#"{"id":1,"method":"tools/call","params":{"name":"a\u001bdd","x":[1]}}"#);
        assert_eq!(call.name.as_deref(), Some("add"));
        let read =
            told(r#"{"id":1,"method":"resources/read","params":{"uri":"f://x","name":"n"}}"#);
        assert_eq!(read.name.as_deref(), Some("f://x"));
        let other = told(r#"{"id":1,"method":"initialize","params":{"name":"n"}}"#);
        assert_eq!(other.name, None);
        let large = told(r#"{"type":"request","id":3,"method":"tools/call","name":"n","size":7}"#);
        assert_eq!((large.name.as_deref(), large.size), (Some("n"), Some(7)));
        let large = told(r#"{"type":"response","id":3,"size":70000,"beginning":"{"}"#);
        assert_eq!((large.sort, large.size), (Sort::Answer, Some(70000)));
        for text in ["\"garbage\"", "7", "{}", "{\"method\":7}"] {
            assert_eq!(told(text).sort, Sort::Other, "{text}");
        }
        let two: &RawValue = serde_json::from_str(r#"[{"method":"a"},{"method":"b"}]"#).unwrap();
        assert_eq!(Told::all(two).len(), 2);
    }
}
