//! How a message looks on the wire: modern requests by what earlier answers have taught.

use std::sync::{Arc, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use tracing::{debug, warn};

use super::Context;
use super::command::Send;
use super::session::SessionHeaders;
use crate::message::{Members, Message, Method, edit};
use crate::revision::tools::{Tools, ToolsPage, is_first_page};
use crate::revision::{Envelope, params, translate};

/// What the answers of a modern server have taught.
#[derive(Debug, Default)]
pub(super) struct Learnt {
    tools: Tools,
    /// The revision that the client's requests speak, and the one that the server wants instead.
    instead: Option<(String, &'static str)>,
    last: Option<Last>,
}

/// The last request, and its headers. The next is often of the same sort; and whoever writes headers
/// keeps what it has made of them.
#[derive(Debug)]
struct Last {
    envelope: Envelope,
    method: Method,
    headers: Arc<HeaderMap>,
}

/// A message as it goes over the wire.
#[derive(Debug)]
pub(super) struct WrittenHeaders {
    pub(super) headers: Arc<HeaderMap>,
    pub(super) body: Bytes,
    /// Those of the headers that repeat arguments.
    pub(super) mirrored: Params,
}

/// Headers that repeat arguments of a call.
pub(super) type Params = Vec<(HeaderName, HeaderValue)>;

impl Context {
    /// The message with its headers. Only modern requests differ from what the client has sent.
    pub(super) fn written(&self, session: &SessionHeaders, send: &Send) -> WrittenHeaders {
        let body = send.message.bytes().clone();
        let mirrored = self.mirrored(send);
        let (mut headers, body) = match self.spoken_instead(send.envelope.as_ref()) {
            None => (self.headers(session, send), body),
            Some(envelope) => {
                let message = with_version(&send.message, &envelope.version);
                let body = message.bytes().clone();
                let envelope = Some(envelope);
                let changed = Send { message, envelope, ..send.clone() };
                (session.post_headers(&changed), body)
            }
        };
        for (name, value) in &mirrored {
            Arc::make_mut(&mut headers).insert(name, value.clone());
        }
        WrittenHeaders { headers, body, mirrored }
    }

    fn headers(&self, session: &SessionHeaders, send: &Send) -> Arc<HeaderMap> {
        let (Some(envelope), Some(method)) = (&send.envelope, send.message.method()) else {
            return session.post_headers(send);
        };
        let mut learnt = self.learnt();
        if let Some(last) = &learnt.last
            && last.envelope == *envelope
            && last.method == *method
        {
            return Arc::clone(&last.headers);
        }
        let headers = session.post_headers(send);
        let (envelope, method) = (envelope.clone(), method.clone());
        learnt.last = Some(Last { envelope, method, headers: Arc::clone(&headers) });
        headers
    }

    /// The arguments of a call that are repeated in headers, as far as its tool is known.
    pub(super) fn mirrored(&self, send: &Send) -> Params {
        let name = send.envelope.as_ref().and_then(|envelope| envelope.name.as_deref());
        let Some(name) = name.filter(|_| send.is_request(&Method::ToolsCall)) else {
            return Vec::new();
        };
        let wanted = self.learnt().tools.mirrored(name);
        wanted.map_or_else(Vec::new, |wanted| params::headers(&wanted, &send.message))
    }

    /// The envelope in the revision that the server wants, if that is another one.
    fn spoken_instead(&self, envelope: Option<&Envelope>) -> Option<Envelope> {
        let envelope = envelope?;
        let learnt = self.learnt();
        let (_, spoken) =
            learnt.instead.as_ref().filter(|(asked, _)| *asked == envelope.version)?;
        Some(Envelope { version: (*spoken).to_owned(), name: envelope.name.clone() })
    }

    /// From now on, what comes in revision `asked` goes out in `spoken`.
    pub(super) fn speak(&self, asked: &str, spoken: &'static str) {
        let instead = (asked != spoken).then(|| (asked.to_owned(), spoken));
        debug!(asked, spoken, "the server wants another revision");
        self.learnt().instead = instead;
    }

    /// Learns from the answer to `tools/list`, and takes out what must not be offered.
    pub(super) fn handle_tools_list(&self, request: &Message, answer: Message) -> Message {
        if !ToolsPage::is_of_interest(&answer) && self.learnt().tools.is_empty() {
            return answer;
        }
        let Some(page) = ToolsPage::read(&answer) else { return answer };
        let mut learnt = self.learnt();
        learnt.tools.learn(&page, is_first_page(request));
        for (name, fault) in page.refused {
            let name = edit::excerpt(&name, 100);
            if learnt.tools.is_news(&name) {
                warn!("tool '{name}' is not offered to the client: {fault}");
            }
        }
        page.without.unwrap_or(answer)
    }

    /// Takes in a list that was asked for by ourselves; one that is not whole only adds.
    pub(super) fn replace_tools(&self, pages: &[ToolsPage], is_whole: bool) {
        let mut learnt = self.learnt();
        for (at, page) in pages.iter().enumerate() {
            learnt.tools.learn(page, is_whole && at == 0);
        }
    }

    /// Never held for longer than one of these functions takes.
    fn learnt(&self) -> MutexGuard<'_, Learnt> {
        self.learnt.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The same request in another revision.
fn with_version(message: &Message, version: &str) -> Message {
    let Some(mut members) = Members::of_message(message) else { return message.clone() };
    let json = serde_json::Value::from(version).to_string();
    members.object("params").object("_meta").set(translate::PROTOCOL_VERSION, json);
    members.into_message(message.head().clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_revision_changes() {
        let text = r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"n":1.0e5,"_meta":{"io.modelcontextprotocol\/protocolVersion":"2099-01-01","x": [ 1 ]}}}"#;
        let message = Message::parse(Bytes::from_static(text.as_bytes())).unwrap();
        let edited = with_version(&message, "2026-07-28");
        let expected = r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"n":1.0e5,"_meta":{"io.modelcontextprotocol\/protocolVersion":"2026-07-28","x":[ 1 ]}}}"#;
        assert_eq!(&edited.bytes()[..], expected.as_bytes());
        assert_eq!(edited.head(), message.head());
    }
}
