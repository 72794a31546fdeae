//! The address for POSTs that a server announces: relative or whole, but never somebody else's.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;
use tracing::debug;
use url::Url;

use crate::error::{Error, ErrorKind};
use crate::limits;
use crate::net::Endpoint;
use crate::secret::shown;
use crate::wire::header;

/// Where messages go, and the name of the session for logs.
#[derive(Debug)]
pub(super) struct Address {
    pub(super) endpoint: Arc<Endpoint>,
    /// Where it may be meant to be, if nobody is there, the likeliest last.
    pub(super) others: Vec<Endpoint>,
    pub(super) session: Option<HeaderValue>,
}

impl Address {
    /// What `announced` means on a stream that came from `stream`.
    ///
    /// Credentials go along with every POST, so it must be the same origin.
    pub(super) fn resolve(stream: &Url, announced: &Bytes) -> Result<Self, Error> {
        let text = std::str::from_utf8(announced).ok().map(str::trim);
        let Some(url) = text.and_then(|text| stream.join(text).ok()) else {
            let message = format!("{} announced an address that is not a URL", shown(stream));
            return Err(Error::new(ErrorKind::BadResponse, message).not_delivered());
        };
        if url.origin() != stream.origin() {
            let message = format!(
                "{} wants messages to be sent to another origin, {}, which is not done",
                shown(stream),
                shown(&url)
            );
            return Err(Error::new(ErrorKind::Redirect, message)
                .hint("If you trust that address, use its host in the URL")
                .not_delivered());
        }
        let others = behind_prefix(stream, &url);
        let others = others.iter().rev().filter_map(|url| Endpoint::new(url).ok()).collect();
        let session = session(&url).and_then(|id| HeaderValue::try_from(id).ok());
        let session = session.filter(header::is_session_id);
        Ok(Self { endpoint: Arc::new(Endpoint::new(&url)?), others, session })
    }

    /// Nobody is there: `true` if there is another one to be tried.
    pub(super) fn try_other(&mut self) -> bool {
        let Some(other) = self.others.pop() else { return false };
        debug!(address = %other, "nobody is at the address that was announced: another is tried");
        self.endpoint = Arc::new(other);
        true
    }
}

/// A server behind a proxy that gives it a part of its paths only does not know the rest: it says
/// `/messages` where `/prefix/messages` is meant. The prefix is that of the stream, or less.
fn behind_prefix(stream: &Url, announced: &Url) -> Vec<Url> {
    let folders: Vec<&str> = stream.path().trim_matches('/').split('/').collect();
    (1..folders.len())
        .rev()
        .map(|length| format!("/{}", folders[..length].join("/")))
        .filter(|prefix| !announced.path().starts_with(&format!("{prefix}/")))
        .map(|prefix| {
            let mut url = announced.clone();
            url.set_path(&format!("{prefix}{}", announced.path()));
            url
        })
        .take(limits::PREFIXES)
        .collect()
}

/// The session that an address names: in the query, under one name or another.
pub(in super::super) fn session(url: &Url) -> Option<String> {
    let is_session = |name: &str| name.to_ascii_lowercase().starts_with("session");
    let (_, id) = url.query_pairs().find(|(name, _)| is_session(name))?;
    Some(id.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(stream: &str, announced: &'static str) -> Result<Address, Error> {
        Address::resolve(&Url::parse(stream).unwrap(), &Bytes::from_static(announced.as_bytes()))
    }

    #[test]
    fn relative_and_whole_addresses_are_taken() {
        // S2-37, S3-06
        let at = |stream, announced| resolve(stream, announced).unwrap().endpoint.url().to_string();
        let hub = "http://localhost:37373/mcp";
        assert_eq!(at(hub, "/messages?sessionId=a"), "http://localhost:37373/messages?sessionId=a");
        assert_eq!(at("http://h/x/sse", "messages/?s=1"), "http://h/x/messages/?s=1");
        assert_eq!(at("http://h/sse?k=v", "?sessionId=a"), "http://h/sse?sessionId=a");
        assert_eq!(at("https://h/sse", "https://h:443/m"), "https://h/m");
        assert_eq!(at("https://h/sse", "//h/m"), "https://h/m");
        assert_eq!(at("https://me:pw@h/sse", "/m"), "https://h/m", "the header has it");
    }

    #[test]
    fn lesson_9_no_other_origin_gets_a_message() {
        for announced in ["http://evil/m", "//evil/m", "https://localhost/m", "http://localhost:2/"]
        {
            let error = resolve("http://localhost/sse", announced).unwrap_err();
            assert!(error.message.contains("another origin"), "{announced}: {error}");
            assert_eq!(error.kind, ErrorKind::Redirect);
        }
        for announced in ["http://", "http://["] {
            assert!(resolve("http://localhost/sse", announced).is_err(), "{announced}");
        }
        assert!(
            Address::resolve(&Url::parse("http://h/").unwrap(), &Bytes::from_static(b"\xff"))
                .is_err()
        );
    }

    #[test]
    fn a_prefix_that_the_server_does_not_know_is_thought_of() {
        let others = |stream, announced| {
            let others = resolve(stream, announced).unwrap().others;
            others.iter().rev().map(|other| other.url().path().to_owned()).collect::<Vec<_>>()
        };
        assert!(others("http://h/sse", "/messages").is_empty());
        assert_eq!(others("http://h/a/sse", "/messages?x=1"), ["/a/messages"]);
        assert_eq!(others("http://h/a/b/sse", "/messages/"), ["/a/b/messages/", "/a/messages/"]);
        assert_eq!(others("http://h/a/b/sse", "/a/messages"), ["/a/b/a/messages"]);
        assert!(others("http://h/a/sse", "/a/messages").is_empty());
    }

    #[test]
    fn the_session_is_named_for_logs() {
        let named = |announced| {
            resolve("http://h/sse", announced)
                .unwrap()
                .session
                .map(|s| s.to_str().unwrap().to_owned())
        };
        assert_eq!(named("/m?sessionId=abc").as_deref(), Some("abc"));
        assert_eq!(named("/m?x=1&session_id=abc").as_deref(), Some("abc"));
        assert_eq!(named("/m/abc"), None);
    }
}
