//! A legacy server's session: its id, the negotiated revision, and the headers they make.

use std::sync::Arc;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue};
use url::Url;

use super::HttpSettings;
use crate::limits;
use crate::message::Method;
use crate::transport::{Send, Ticket};
use crate::wire::header;

/// What has been learned from the answer to `initialize`.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionHeaders {
    /// The headers of every POST: the user's, and those that never change.
    base: Arc<HeaderMap>,
    /// The same with session and version, made once for many messages.
    pub(super) in_session: Arc<HeaderMap>,
    /// What the user wants to be sent as the revision, whatever was negotiated (C21).
    configured_version: Option<HeaderValue>,
    id: Option<HeaderValue>,
    /// The `initialize` that has opened it.
    pub(super) opened_by: Option<Ticket>,
    /// It was named, but `initialize` is not answered yet.
    is_foreseen: bool,
    /// An `initialize` was answered, whatever has become of the session since.
    pub(super) has_begun: bool,
    version: Option<HeaderValue>,
}

impl SessionHeaders {
    pub(super) fn new(settings: &HttpSettings) -> Self {
        let mut base = settings.headers.clone();
        base.entry(USER_AGENT).or_insert(header::AGENT);
        if let Some(basic) = basic_authorization(&settings.url) {
            base.entry(AUTHORIZATION).or_insert(basic);
        }
        // A version among the user's headers is a configured one; the rest is ours to set.
        let from_headers = base.remove(header::PROTOCOL_VERSION);
        for name in [header::SESSION_ID, header::LAST_EVENT_ID, header::METHOD, header::NAME] {
            base.remove(name);
        }
        base.insert(CONTENT_TYPE, header::JSON);
        base.insert(ACCEPT, header::ACCEPT_BOTH);
        // Whatever a call adds finds a place: to make one would mean to hash all of them again.
        base.reserve(limits::ADDED_HEADERS);
        let configured_version = settings.protocol_version.clone().or(from_headers);
        let mut session = Self { base: Arc::new(base), configured_version, ..Self::default() };
        session.set_id(None);
        session
    }

    /// The session's id, if the server gave one.
    pub(super) fn id(&self) -> Option<&HeaderValue> {
        self.id.as_ref()
    }

    /// An `initialize` was answered: this is the session from now on. Gives back the old id if it
    /// is another one, to be deleted.
    pub(super) fn begin(
        &mut self,
        ticket: Ticket,
        id: Option<HeaderValue>,
        version: Option<&str>,
    ) -> Option<HeaderValue> {
        self.version = version.and_then(|version| HeaderValue::from_str(version).ok());
        self.opened_by = Some(ticket);
        self.has_begun = true;
        self.is_foreseen = false;
        self.set_id(id)
    }

    /// The answer to `initialize` that has begun to come names this one. One that stands is not
    /// replaced before it is known that another does. Gives back the id of one that was named before,
    /// to be deleted.
    pub(super) fn foresee(&mut self, id: HeaderValue) -> Option<HeaderValue> {
        if self.id.is_some() && !self.is_foreseen {
            return None;
        }
        self.is_foreseen = true;
        self.set_id(Some(id))
    }

    /// The server no longer knows it.
    pub(super) fn forget(&mut self) {
        self.opened_by = None;
        self.is_foreseen = false;
        self.set_id(None);
    }

    /// Whether a session that the answer to another message names would be taken: only if there is
    /// none (C14), and once there was a handshake, only another one counts.
    pub(super) fn would_adopt(&self) -> bool {
        !self.has_begun && self.id.is_none()
    }

    /// An answer to another message named a session.
    pub(super) fn adopt(&mut self, id: HeaderValue) {
        if self.would_adopt() {
            self.set_id(Some(id));
        }
    }

    /// The headers of a POST.
    pub(super) fn post_headers(&self, send: &Send) -> Arc<HeaderMap> {
        match (&send.envelope, send.message.method()) {
            (Some(envelope), Some(method)) => {
                let mut headers = HeaderMap::clone(&self.base);
                headers.insert(header::PROTOCOL_VERSION, header::encode(&envelope.version));
                headers.insert(header::METHOD, header::encode(method.name()));
                if let Some(name) = &envelope.name {
                    headers.insert(header::NAME, header::encode(name));
                }
                headers.into()
            }
            // Neither session nor version: they are what it asks for.
            (None, Some(Method::Initialize)) => Arc::clone(&self.base),
            _ => Arc::clone(&self.in_session),
        }
    }

    /// The headers of a GET that opens a stream, or goes on with one.
    pub(super) fn stream_headers(&self) -> HeaderMap {
        for_stream(&self.in_session)
    }

    /// The same for the rest of an answer to `initialize`: it belongs to the session that it names,
    /// whichever is used until then, and no revision is agreed on.
    pub(super) fn opening_stream_headers(&self, named: Option<&HeaderValue>) -> HeaderMap {
        let mut headers = for_stream(&self.base);
        if let Some(id) = named {
            headers.insert(header::SESSION_ID, id.clone());
        }
        headers
    }

    /// Gives back the old id, if it is another one.
    fn set_id(&mut self, id: Option<HeaderValue>) -> Option<HeaderValue> {
        let old = std::mem::replace(&mut self.id, id);
        let mut headers = HeaderMap::clone(&self.base);
        if let Some(id) = &self.id {
            headers.insert(header::SESSION_ID, id.clone());
        }
        if let Some(version) = self.configured_version.as_ref().or(self.version.as_ref()) {
            headers.insert(header::PROTOCOL_VERSION, version.clone());
        }
        self.in_session = headers.into();
        old.filter(|old| Some(old) != self.id.as_ref())
    }
}

fn for_stream(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    headers.remove(CONTENT_TYPE);
    headers.insert(ACCEPT, header::ACCEPT_EVENTS);
    headers
}

/// `https://user:password@host` is a way to write down basic credentials.
#[must_use]
pub fn basic_authorization(url: &Url) -> Option<HeaderValue> {
    use percent_encoding::percent_decode_str;
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let user: Vec<u8> = percent_decode_str(url.username()).collect();
    let password: Vec<u8> = percent_decode_str(url.password().unwrap_or_default()).collect();
    Some(header::basic(user, password))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::message::Message;
    use crate::revision::Envelope;

    fn send(text: &'static str) -> Send {
        let message = Message::parse(Bytes::from_static(text.as_bytes())).expect("a message");
        let envelope = Envelope::of(&message);
        Send { envelope, ..Send::new(Ticket::default(), message) }
    }

    #[test]
    fn a_session_is_foreseen_only_where_none_stands() {
        let id = |id: &'static str| HeaderValue::from_static(id);
        let mut session = session();
        session.foresee(id("a"));
        session.foresee(id("b"));
        assert_eq!(session.id(), Some(&id("b")), "that of the newest handshake");
        assert_eq!(
            session.begin(Ticket(1), Some(id("b")), None),
            None,
            "there is no other to delete"
        );
        session.foresee(id("c"));
        assert_eq!(session.id(), Some(&id("b")), "it stands");
        session.forget();
        session.foresee(id("d"));
        assert_eq!(session.begin(Ticket(1), None, None), Some(id("d")));
    }

    fn session() -> SessionHeaders {
        SessionHeaders::new(&HttpSettings::new(Url::parse("http://localhost/mcp").unwrap()))
    }

    const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#;
    const LIST: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;

    #[test]
    fn initialize_goes_without_session_and_version() {
        // S0-05, S0-06, C21
        let mut session = session();
        session.begin(Ticket(1), Some(HeaderValue::from_static("old")), Some("2025-06-18"));
        let headers = session.post_headers(&send(INITIALIZE));
        assert_eq!(headers[ACCEPT], "application/json, text/event-stream");
        assert_eq!(headers[CONTENT_TYPE], "application/json");
        assert!(!headers.contains_key(header::SESSION_ID));
        assert!(!headers.contains_key(header::PROTOCOL_VERSION));
    }

    #[test]
    fn later_messages_carry_what_was_negotiated() {
        // S2-10, S4-07
        let mut session = session();
        session.begin(Ticket(1), Some(HeaderValue::from_static("s1")), Some("2025-06-18"));
        for headers in [session.post_headers(&send(LIST)), session.stream_headers().into()] {
            assert_eq!(headers[header::SESSION_ID], "s1");
            assert_eq!(headers[header::PROTOCOL_VERSION], "2025-06-18");
        }
    }

    #[test]
    fn a_configured_version_wins_but_not_on_initialize() {
        // S4-06, C21
        let mut settings = HttpSettings::new(Url::parse("http://localhost/mcp").unwrap());
        settings.headers.insert(header::PROTOCOL_VERSION, HeaderValue::from_static("2025-03-26"));
        settings.headers.insert(header::SESSION_ID, HeaderValue::from_static("mine"));
        settings.headers.insert(ACCEPT, HeaderValue::from_static("text/plain"));
        let mut session = SessionHeaders::new(&settings);
        assert!(!session.post_headers(&send(INITIALIZE)).contains_key(header::PROTOCOL_VERSION));
        session.begin(Ticket(1), None, Some("2025-06-18"));
        let headers = session.post_headers(&send(LIST));
        assert_eq!(headers[header::PROTOCOL_VERSION], "2025-03-26");
        assert_eq!(headers[ACCEPT], "application/json, text/event-stream", "ours win");
        assert!(!headers.contains_key(header::SESSION_ID), "a session is the server's to give");
    }

    #[test]
    fn only_an_initialize_answer_replaces_a_session() {
        // S1-31, S2-11, S4-15, C14
        let mut session = session();
        session.adopt(HeaderValue::from_static("a"));
        session.adopt(HeaderValue::from_static("b"));
        assert_eq!(session.id().unwrap(), "a");
        let old = session.begin(Ticket(1), Some(HeaderValue::from_static("c")), Some("2025-06-18"));
        assert_eq!(session.id().unwrap(), "c");
        assert_eq!(old.unwrap(), "a");
        assert_eq!(
            session.begin(Ticket(1), Some(HeaderValue::from_static("c")), Some("2025-06-18")),
            None
        );
    }

    #[test]
    fn the_rest_of_an_answer_to_initialize_belongs_to_the_session_that_it_names() {
        let mut session = session();
        session.begin(Ticket(1), Some(HeaderValue::from_static("old")), Some("2025-06-18"));
        let headers = session.opening_stream_headers(Some(&HeaderValue::from_static("new")));
        assert_eq!(headers[header::SESSION_ID], "new");
        assert!(!headers.contains_key(header::PROTOCOL_VERSION));
        assert_eq!(headers[ACCEPT], "text/event-stream");
        assert!(!session.opening_stream_headers(None).contains_key(header::SESSION_ID));
    }

    #[test]
    fn a_session_that_was_named_and_never_began_is_given_back_when_another_is_named() {
        let mut session = session();
        let id = HeaderValue::from_static;
        assert_eq!(session.foresee(id("a")), None);
        assert_eq!(session.foresee(id("a")), None, "the same again");
        assert_eq!(session.foresee(id("b")).unwrap(), "a");
        session.begin(Ticket(1), Some(id("b")), Some("2025-06-18"));
        assert_eq!(session.foresee(id("c")), None);
        assert_eq!(session.id().unwrap(), "b", "it stands until another has begun");
    }

    #[test]
    fn lesson_8_modern_requests_name_their_method_and_target_and_no_session() {
        let mut session = session();
        session.begin(Ticket(1), Some(HeaderValue::from_static("s1")), Some("2025-06-18"));
        let call = send(
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ä","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
        );
        let headers = session.post_headers(&call);
        assert_eq!(headers[header::PROTOCOL_VERSION], "2026-07-28");
        assert_eq!(headers[header::METHOD], "tools/call");
        assert_eq!(headers[header::NAME], "=?base64?w6Q=?=");
        assert!(!headers.contains_key(header::SESSION_ID));
    }

    #[test]
    fn a_user_in_the_url_becomes_basic_authorization() {
        let url = Url::parse("https://me:p%40ss@example.com/mcp").unwrap();
        let value = basic_authorization(&url).unwrap();
        assert_eq!(value, "Basic bWU6cEBzcw==");
        assert!(value.is_sensitive());
        assert_eq!(basic_authorization(&Url::parse("https://example.com").unwrap()), None);
    }
}
