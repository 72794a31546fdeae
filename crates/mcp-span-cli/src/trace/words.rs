//! The words for what a trace tells beside messages: exchanges, connections, recoveries. Pure.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::line::{canonical, plain};

/// A request or an answer of HTTP.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Exchange {
    method: String,
    url: String,
    size: u64,
    status: Option<u16>,
    headers: BTreeMap<String, String>,
    error: Option<String>,
    given_up: bool,
    ms: f64,
    id: Option<Box<RawValue>>,
    rpc_method: Option<String>,
    name: Option<String>,
}

impl Exchange {
    pub(super) fn id(&self) -> Option<String> {
        self.id.as_ref().and_then(|id| canonical(id.get()))
    }

    pub(super) fn rpc_method(&self) -> Option<String> {
        self.rpc_method.as_deref().map(plain)
    }

    /// Of the tool, the prompt or the resource that it is about.
    pub(super) fn name(&self) -> Option<String> {
        self.name.as_deref().map(plain)
    }

    pub(super) fn request(&self) -> String {
        let what = format!("{} {}", plain(&self.method), plain(&self.url));
        match self.message() {
            Some(message) => format!("{what} {message}, {} bytes", self.size),
            None => what,
        }
    }

    pub(super) fn answer(&self) -> String {
        let mut what = match (self.status, &self.error) {
            _ if self.given_up => "no answer: given up".to_owned(),
            (_, Some(error)) => format!("no answer: {}", plain(error)),
            (Some(status), None) => status.to_string(),
            (None, None) => "an answer".to_owned(),
        };
        if let Some(media) = self.headers.get("content-type") {
            what = format!("{what} {}", plain(media));
        }
        if let Some(asked) = self.message().or_else(|| self.http_method()) {
            what = format!("{what} to {asked}");
        }
        format!("{what}, after {}", milliseconds(self.ms))
    }

    fn http_method(&self) -> Option<String> {
        (!self.method.is_empty()).then(|| plain(&self.method))
    }

    fn message(&self) -> Option<String> {
        let (id, method) = (self.id(), self.rpc_method());
        let is_known = id.is_some() || method.is_some();
        is_known.then(|| label(id.as_deref(), method.as_deref(), self.name().as_deref()))
    }
}

/// An event of a stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Chunk {
    pub(super) event: Option<String>,
    pub(super) data: Option<Box<RawValue>>,
}

/// Anything that befalls the bridge itself.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Incident {
    what: String,
    why: Option<String>,
    to: String,
    opened: bool,
    ms: f64,
    version: String,
    system: String,
    lost: u64,
    /// The event behind which a stream was cut.
    after: Option<String>,
    /// Which try it was.
    number: u32,
    method: Option<String>,
    id: Option<Box<RawValue>>,
    rpc_method: Option<String>,
    name: Option<String>,
}

impl Incident {
    /// For the summary.
    pub(super) fn sort(&self) -> String {
        plain(&self.what).replace('-', " ")
    }

    pub(super) fn words(&self, kind: &str) -> String {
        let what = match kind {
            "CONNECTION" if self.opened => {
                format!("connected to {} in {}", plain(&self.to), milliseconds(self.ms))
            }
            "CONNECTION" => format!("no connection to {}", plain(&self.to)),
            "RECOVERY" => format!("** {}", self.recovery()),
            "START" => {
                format!("mcp-span {} starts ({})", plain(&self.version), plain(&self.system))
            }
            "GAP" => format!("{} lines are missing here: the disk was too slow", self.lost),
            other => plain(other),
        };
        match &self.why {
            Some(why) => format!("{what}: {}", plain(why)),
            None => what,
        }
    }

    fn recovery(&self) -> String {
        let what = match &*self.what {
            "retry" if self.number == 0 => return format!("first try of {}", self.tried()),
            "retry" => return format!("retry {} of {}", self.number, self.tried()),
            "stream-cut" => {
                let after = self.after.as_deref().map(plain);
                let after = after.map_or(String::new(), |id| format!(" after event {id}"));
                return format!("a stream was cut{after}");
            }
            "session-lost" => "the server has lost the session",
            "session-opened" => "a new session is open",
            "session-refused" => "the server refuses a new session",
            "server-away" => "the server cannot be reached",
            "server-back" => "the server is back",
            "stream-reopened" => "the stream for the server's own messages is open again",
            "stream-resumed" => "a stream that was cut goes on",
            "credentials-renewed" => "the server refused the credentials, and there are new ones",
            "sent-again" => "a request is sent again",
            "asked-to-wait" => "a request waits, as the server wishes",
            _ => return self.sort(),
        };
        what.to_owned()
    }
}

impl Incident {
    /// Whether one message, or the stream, was sent in vain; anything else befalls all.
    pub(super) fn is_retry(&self) -> bool {
        self.what == "retry"
    }

    pub(super) fn id(&self) -> Option<String> {
        self.id.as_ref().and_then(|id| canonical(id.get()))
    }

    pub(super) fn rpc_method(&self) -> Option<String> {
        self.rpc_method.as_deref().map(plain)
    }

    /// What was sent in vain.
    fn tried(&self) -> String {
        let plainly = |text: &Option<String>| text.as_deref().map(plain);
        let id = self.id();
        let (rpc, name) = (plainly(&self.rpc_method), plainly(&self.name));
        match (&rpc, plainly(&self.method)) {
            (None, Some(method)) => method,
            _ => label(id.as_deref(), rpc.as_deref(), name.as_deref()),
        }
    }
}

/// A message by its method, what it is about, and its id.
pub(super) fn label(id: Option<&str>, method: Option<&str>, name: Option<&str>) -> String {
    let method = match (method, name) {
        (Some(method), Some(name)) => Some(format!("{method} {name}")),
        (method, _) => method.map(str::to_owned),
    };
    let id = id.map(|id| match id.starts_with("\"mcp-span-") {
        true => "(the bridge's own)".to_owned(),
        false => format!("#{}", plain(id)),
    });
    match (method, id) {
        (Some(method), Some(id)) => format!("{method} {id}"),
        (Some(method), None) => method,
        (None, Some(id)) => id,
        (None, None) => "a message without an id".to_owned(),
    }
}

/// Microseconds in seconds.
#[expect(clippy::cast_precision_loss, reason = "exact for some hundred years")]
pub(super) fn seconds(microseconds: i64) -> f64 {
    microseconds as f64 / 1e6
}

/// Microseconds as a person reads them.
pub(super) fn duration(microseconds: i64) -> String {
    milliseconds(seconds(microseconds) * 1000.0)
}

fn milliseconds(ms: f64) -> String {
    if ms < 1000.0 { format!("{ms:.1} ms") } else { format!("{:.2} s", ms / 1000.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incident(kind: &str, data: &str) -> String {
        serde_json::from_str::<Incident>(data).unwrap().words(kind)
    }

    #[test]
    fn incidents_are_told_in_plain_words() {
        assert_eq!(
            incident("CONNECTION", r#"{"to":"h:80","opened":false,"why":"refused","ms":1}"#),
            "no connection to h:80: refused"
        );
        assert_eq!(
            incident("CONNECTION", r#"{"to":"h:80","opened":true,"ms":1.26}"#),
            "connected to h:80 in 1.3 ms"
        );
        assert_eq!(incident("RECOVERY", r#"{"what":"server-back"}"#), "** the server is back");
        assert_eq!(incident("RECOVERY", r#"{"what":"quite-new"}"#), "** quite new");
        assert_eq!(
            incident("RECOVERY", r#"{"what":"stream-cut","after":"17","why":"reset"}"#),
            "** a stream was cut after event 17: reset"
        );
        let retry = r#"{"what":"retry","number":3,"why":"refused","method":"POST","id":1,"rpcMethod":"tools/call","name":"add","ms":1}"#;
        assert_eq!(incident("RECOVERY", retry), "** retry 3 of tools/call add #1: refused");
        let first = r#"{"what":"retry","number":0,"why":"no","id":2,"rpcMethod":"ping"}"#;
        assert_eq!(incident("RECOVERY", first), "** first try of ping #2: no");
        let stream = r#"{"what":"retry","number":1,"method":"GET"}"#;
        assert_eq!(incident("RECOVERY", stream), "** retry 1 of GET");
        assert_eq!(
            incident("GAP", r#"{"lost":7}"#),
            "7 lines are missing here: the disk was too slow"
        );
        assert_eq!(incident("NEW\u{1b}", "{}"), "NEW");
    }

    #[test]
    fn exchanges_are_told_with_their_message_and_their_end() {
        let of = |data: &str| serde_json::from_str::<Exchange>(data).unwrap();
        assert_eq!(of(r#"{"method":"GET","url":"http://h/"}"#).request(), "GET http://h/");
        let own = r#"{"method":"POST","url":"u","size":3,"id":"mcp-span-0-1","rpcMethod":"ping"}"#;
        assert_eq!(of(own).request(), "POST u ping (the bridge's own), 3 bytes");
        let gone = r#"{"givenUp":true,"ms":30000.0,"id":7,"rpcMethod":"a"}"#;
        assert_eq!(of(gone).answer(), "no answer: given up to a #7, after 30.00 s");
        assert_eq!(
            of(r#"{"error":"it broke","ms":1}"#).answer(),
            "no answer: it broke, after 1.0 ms"
        );
        assert_eq!(of(r#"{"status":202,"ms":1}"#).answer(), "202, after 1.0 ms");
        assert_eq!(
            of(r#"{"method":"GET","status":405,"ms":1}"#).answer(),
            "405 to GET, after 1.0 ms"
        );
    }
}
