//! How a message looks on the wire: modern requests by what earlier answers have taught.

use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use tracing::{debug, warn};

use super::Context;
use super::session::SessionHeaders;
use crate::lock::lock;
use crate::message::{Message, Method};
use crate::net::Call;
use crate::revision::tools::{Tools, ToolsPage, is_first_page};
use crate::revision::{Envelope, params, translate};
use crate::transport::Send;
use crate::untrusted::Untrusted;

/// What the answers of a modern server have taught.
#[derive(Debug, Default)]
pub(super) struct Learnt {
    tools: Tools,
    /// The revision that the client's requests speak, and the one that the server wants instead.
    instead: Option<(String, &'static str)>,
}

/// Headers that repeat arguments of a call.
pub(super) type Params = Vec<(HeaderName, HeaderValue)>;

impl Context {
    /// The POST of a message, and those of its headers that repeat arguments. Only modern requests
    /// differ from what the client has sent.
    pub(super) fn post(&self, session: &SessionHeaders, send: &Send) -> (Call, Params) {
        let mirrored = self.mirrored(send);
        let other = self.in_other_version(send);
        let written = other.as_ref().unwrap_or(send);
        let mut headers = session.post_headers(written);
        for (name, value) in &mirrored {
            Arc::make_mut(&mut headers).insert(name, value.clone());
        }
        let call = Call {
            lane: send.lane,
            progress: send.progress.clone(),
            ..self.call(http::Method::POST, headers, written.message.bytes().clone())
        };
        (call, mirrored)
    }

    /// The arguments of a call that are repeated in headers, as far as its tool is known.
    pub(super) fn mirrored(&self, send: &Send) -> Params {
        let name = send.envelope.as_ref().and_then(|envelope| envelope.name.as_deref());
        let Some(name) = name.filter(|_| send.message.is_request(&Method::ToolsCall)) else {
            return Vec::new();
        };
        let wanted = lock(&self.learnt).tools.mirrored(name);
        wanted.map_or_else(Vec::new, |wanted| params::headers(&wanted, &send.message))
    }

    /// The request in the revision that the server wants, if that is another one than its own.
    fn in_other_version(&self, send: &Send) -> Option<Send> {
        let envelope = send.envelope.as_ref()?;
        let (asked, spoken) = lock(&self.learnt).instead.clone()?;
        (asked == envelope.version).then(|| Send {
            message: with_version(&send.message, spoken),
            envelope: Some(Envelope { version: spoken.to_owned(), ..envelope.clone() }),
            ..send.clone()
        })
    }

    /// From now on, what comes in revision `asked` goes out in `spoken`.
    pub(super) fn speak(&self, asked: &str, spoken: &'static str) {
        let instead = (asked != spoken).then(|| (asked.to_owned(), spoken));
        debug!(asked, spoken, "the server wants another revision");
        lock(&self.learnt).instead = instead;
    }

    /// Learns from the answer to `tools/list`, and takes out what must not be offered.
    pub(super) fn handle_tools_list(&self, request: &Message, answer: Message) -> Message {
        if !ToolsPage::is_of_interest(&answer) && lock(&self.learnt).tools.is_empty() {
            return answer;
        }
        let Some(page) = ToolsPage::read(&answer) else { return answer };
        let mut learnt = lock(&self.learnt);
        learnt.tools.learn(&page, is_first_page(request));
        for (name, fault) in page.refused {
            let name = Untrusted(&name).excerpt(100);
            if learnt.tools.is_news(&name) {
                warn!("tool '{name}' is not offered to the client: {fault}");
            }
        }
        page.without.unwrap_or(answer)
    }

    /// Takes in a list that was asked for by ourselves; one that is not whole only adds.
    pub(super) fn replace_tools(&self, pages: &[ToolsPage]) {
        let mut learnt = lock(&self.learnt);
        for (at, page) in pages.iter().enumerate() {
            learnt.tools.learn(page, is_whole(pages) && at == 0);
        }
    }
}

/// Whether these are all the pages of a list.
pub(super) fn is_whole(pages: &[ToolsPage]) -> bool {
    pages.last().is_some_and(|page| page.next.is_none())
}

/// The same request in another revision.
fn with_version(message: &Message, version: &str) -> Message {
    let json = serde_json::Value::from(version).to_string();
    message.edited(|members| {
        members.object("params").object("_meta").set(translate::PROTOCOL_VERSION, json);
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

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
