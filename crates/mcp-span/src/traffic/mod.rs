//! What crosses the bridge, told to whoever listens: events of a target of their own, which cost
//! one comparison where nobody does.
//!
//! They hold bodies, so no log may take them. Known credentials are left out here, by the type or
//! the name of what carries them; whoever writes the rest down must still scrub it.

use std::fmt::Display;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Uri;
use serde_json::value::{RawValue, to_raw_value};
use tracing::Level;
use url::Url;

use crate::error::Error;
use crate::limits;
use crate::message::{Members, Message, edit, peek};
use crate::secret::{beginning, shown};
use crate::untrusted::Untrusted;
use crate::wire::sse::SseEvent;

mod changes;
mod exchange;
mod headers;
mod retried;

pub use changes::{
    Absence, Recovery, StreamKind, connected, logged_in, login_begun, recovery, started,
    stream_cut, token_refreshed,
};
pub use exchange::ExchangeTrace;
pub use headers::told as shown_headers;

/// The target of all these events. No module path looks like it.
pub const TARGET: &str = "mcp-span traffic";

/// Bodies are for who asks for all there is. The program has a filter of its own for them, and is
/// built without that level.
const LEVEL: Level = if cfg!(feature = "traffic-at-debug") { Level::DEBUG } else { Level::TRACE };

/// What sort of thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficKind {
    /// A line of the client's.
    Stdin,
    /// A line for the client.
    Stdout,
    /// A line for a server that is a child process.
    ToChild,
    /// A line of its.
    FromChild,
    /// A request leaves.
    HttpReq,
    /// The head of its answer, or the reason that there is none.
    HttpRes,
    /// The body of an answer that is no stream.
    HttpBody,
    /// One event of a stream.
    SseChunk,
    /// A connection was opened, or was not.
    Connection,
    /// Something was lost, or found again.
    Recovery,
}

impl TrafficKind {
    /// Its name in a trace, and which way it goes.
    fn words(self) -> (&'static str, &'static str) {
        const TO_SERVER: &str = "bridge->server";
        const FROM_SERVER: &str = "server->bridge";
        match self {
            Self::Stdin => ("STDIN", "client->bridge"),
            Self::Stdout => ("STDOUT", "bridge->client"),
            Self::ToChild => ("CHILD_STDIN", TO_SERVER),
            Self::FromChild => ("CHILD_STDOUT", FROM_SERVER),
            Self::HttpReq => ("HTTP_REQ", TO_SERVER),
            Self::HttpRes => ("HTTP_RES", FROM_SERVER),
            Self::HttpBody => ("HTTP_BODY", FROM_SERVER),
            Self::SseChunk => ("SSE_CHUNK", FROM_SERVER),
            Self::Connection => ("CONNECTION", TO_SERVER),
            Self::Recovery => ("RECOVERY", TO_SERVER),
        }
    }
}

/// Whether anybody listens.
#[inline]
#[must_use]
pub fn is_on() -> bool {
    tracing::enabled!(target: TARGET, LEVEL)
}

/// What is told of one thing that happened.
type Data = Members<'static>;

fn tell(kind: TrafficKind, data: &Data) {
    tell_json(kind, &data.to_json());
}

fn tell_json(kind: TrafficKind, data: &str) {
    let (kind, direction) = kind.words();
    tracing::event!(target: TARGET, LEVEL, direction, kind, data);
}

/// A message, or what stands where one should be.
pub fn message(kind: TrafficKind, bytes: &Bytes) {
    if is_on() {
        tell_json(kind, content(bytes).get());
    }
}

/// An event of a stream that came from `url`.
pub fn event(event: &SseEvent, url: &Url) {
    if is_on() {
        tell(TrafficKind::SseChunk, &chunk(event, url));
    }
}

/// An error with its cause.
fn in_words(error: &Error) -> String {
    match &error.reason {
        Some(reason) => format!("{error}: {reason}"),
        None => error.to_string(),
    }
}

/// A connection that is being opened.
#[derive(Debug)]
pub struct Connecting {
    to: String,
    since: Instant,
}

impl Connecting {
    /// Begins; `None` if nobody listens.
    #[must_use]
    pub fn begin(to: &Uri) -> Option<Self> {
        let place = |to: &Uri| to.authority().map(ToString::to_string).unwrap_or_default();
        is_on().then(|| Self { to: place(to), since: Instant::now() })
    }

    /// It is open, or has failed.
    pub fn end(self, failure: Option<&impl Display>) {
        // Another try at a server that is away is told in one line, by its exchange.
        if failure.is_some() && retried::is_retried(&self.to) {
            return;
        }
        let data = Data::default()
            .with("to", &self.to)
            .with("opened", failure.is_none())
            .with_some("why", failure.map(ToString::to_string))
            .with("ms", milliseconds(self.since.elapsed()));
        tell(TrafficKind::Connection, &data);
    }
}

fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// JSON as it is, on one line; large messages by their beginning; anything else as a text.
fn content(bytes: &Bytes) -> Box<RawValue> {
    if bytes.len() > limits::TRACE_MESSAGE {
        return RawValue::from_string(large(bytes).to_json()).unwrap_or_default();
    }
    let line = edit::one_line(&bytes.slice_ref(bytes.trim_ascii()));
    let text = |_| to_raw_value(&String::from_utf8_lossy(&line)).unwrap_or_default();
    serde_json::from_slice(&line).unwrap_or_else(text)
}

/// A message that is too large for a trace.
fn large(bytes: &Bytes) -> Data {
    let head = MessageSummary::of(bytes);
    // A cut character becomes a mark, and the cut moves before it.
    let start = String::from_utf8_lossy(&bytes[..limits::TRACE_BEGINNING + 4]);
    Data::default()
        .with_some("type", head.sort)
        .with_some("id", head.id)
        .with_some("method", head.method)
        .with_some("name", head.name)
        .with("size", bytes.len())
        .with("beginning", beginning(&start, limits::TRACE_BEGINNING))
}

/// What of a message stands in a line that is not about its content.
#[derive(Debug, Default)]
struct MessageSummary {
    sort: Option<&'static str>,
    id: Option<Box<RawValue>>,
    method: Option<String>,
    /// Of the tool, the prompt or the resource that it is about.
    name: Option<String>,
}

impl MessageSummary {
    /// Of the message that `bytes` are, if they are one.
    fn of(bytes: &Bytes) -> Self {
        let Ok(message) = Message::parse(bytes.clone()) else { return Self::default() };
        Self {
            sort: Some(message.type_name()),
            id: message.id().and_then(|id| RawValue::from_string(id.as_json().to_owned()).ok()),
            method: message.method().map(|method| method.name().to_owned()),
            name: peek::subject(&message).map(|name| Untrusted(&name).excerpt(limits::TRACE_NAME)),
        }
    }
}

fn chunk(event: &SseEvent, url: &Url) -> Data {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    let data = Data::default()
        .with_some("event", event.name.as_ref().map(text))
        .with_some("id", event.id.as_ref().map(text))
        .with_some("retry", event.retry.map(|retry| retry.as_millis()));
    // It names the session, and whoever knows that is in it.
    if event.name.as_deref() == Some(b"endpoint") {
        let address = |data| url.join(text(data).trim()).map(|url| shown(&url)).unwrap_or_default();
        return data.with_some("data", event.data.as_ref().map(address));
    }
    data.with_some("data", event.data.as_ref().map(content))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(bytes: impl Into<Bytes>) -> String {
        content(&bytes.into()).get().to_owned()
    }

    #[test]
    fn json_stays_as_it_is_and_anything_else_becomes_a_text() {
        assert_eq!(told(r#" {"a": 1.00000000000000000001} "#), r#"{"a": 1.00000000000000000001}"#);
        assert_eq!(told("{\n\"a\":1\r\n}"), "{ \"a\":1  }");
        assert_eq!(told("[1,2]"), "[1,2]");
        assert_eq!(told("garbage \"x\""), r#""garbage \"x\"""#);
        assert_eq!(told(&b"{\"a\":\"\xff\"}"[..]), "\"{\\\"a\\\":\\\"\u{fffd}\\\"}\"");
        assert_eq!(told(""), "\"\"");
    }

    #[test]
    fn large_messages_are_told_by_size_head_and_beginning() {
        let filler = "ä".repeat(limits::TRACE_MESSAGE);
        let told = told(format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"a b":"{filler}"}}}}"#));
        let value: serde_json::Value = serde_json::from_str(&told).unwrap();
        assert_eq!((&value["id"], &value["type"]), (&7.into(), &"response".into()));
        assert!(value["size"].as_u64().unwrap() > 2 * 64 * 1024);
        assert_eq!(value["beginning"], r#"{"jsonrpc":"2.0","id":7,"result":{"a b":"#);
    }

    #[test]
    fn events_keep_their_fields_and_an_address_keeps_its_session_to_itself() {
        let url = Url::parse("http://h/sse").unwrap();
        let text = |event: &SseEvent| chunk(event, &url).to_json();
        let event = SseEvent {
            name: Some("endpoint".into()),
            data: Some("/messages?sessionId=abc".into()),
            ..SseEvent::default()
        };
        assert_eq!(
            text(&event),
            r#"{"event":"endpoint","data":"http://h/messages?sessionId=[secret]"}"#
        );
        let event = SseEvent {
            id: Some("7".into()),
            retry: Some(Duration::from_secs(1)),
            data: Some(r#"{"b":1}"#.into()),
            ..SseEvent::default()
        };
        assert_eq!(text(&event), r#"{"id":"7","retry":1000,"data":{"b":1}}"#);
        assert_eq!(text(&SseEvent::default()), "{}");
    }
}
