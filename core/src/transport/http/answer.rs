//! Sorts the answer to a POST, once: JSON, events, an acknowledgement, or a failure.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, Response, StatusCode};
use url::Url;

use super::Context;
use super::events::{timeout, too_large};
use super::session_loss::Complaint;
use crate::error::{Error, Kind};
use crate::limits;
use crate::message::{Head, Id, Message, edit, parse_each, peek};
use crate::net::Content;
use crate::revision::era_hints;
use crate::secret::{Scrubber, shown};
use crate::traffic;
use crate::transport::within;
use crate::wire::body_buffer::BodyBuffer;
use crate::wire::sse::Decoder;
use crate::wire::tls_refusal::TlsRefusal;
use crate::wire::{header, media, page};

/// What the server's answer is, by its status and media type.
pub(super) enum Answer {
    /// One message, or an array of them, in the body.
    Json(Content),
    /// A stream of events.
    Events(Content),
    /// A success without content of interest.
    Accepted(Content),
    /// A success whose content nobody can read.
    Unreadable(Error),
    /// An HTTP error.
    Refused(Response<Content>),
}

impl Answer {
    /// `wants_content`: a request was sent, so an acknowledgement is not enough.
    pub(super) fn sort(response: Response<Content>, wants_content: bool, url: &Url) -> Self {
        let status = response.status();
        if !status.is_success() {
            return Self::Refused(response);
        }
        match (media::of(response.headers()), wants_content) {
            (media::Media::EventStream, _) => Self::Events(response.into_body()),
            (media::Media::Json, true) if status != StatusCode::ACCEPTED => {
                Self::Json(response.into_body())
            }
            (_, false) => Self::Accepted(response.into_body()),
            (media, true) => Self::Unreadable(unreadable(&response, media, url)),
        }
    }
}

fn unreadable(response: &Response<Content>, media: media::Media, url: &Url) -> Error {
    let status = response.status();
    let place = shown(url);
    if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) || is_empty(response) {
        let message =
            format!("{place} accepted the request with HTTP {status} but did not answer it");
        let mut error = Error::new(Kind::NoResponse, message);
        error.status = Some(status.as_u16());
        return error;
    }
    let named = match media {
        media::Media::Missing => "without a content type".to_owned(),
        _ => format!("with content type {}", content_type(response.headers())),
    };
    let message = format!("{place} answered {named}, which is not an MCP answer");
    let mut error = Error::new(Kind::BadResponse, message)
        .hint("Check that the URL is that of an MCP endpoint, not of a web page");
    error.status = Some(status.as_u16());
    error
}

fn is_empty(response: &Response<Content>) -> bool {
    response.headers().get(CONTENT_LENGTH).is_some_and(|length| length == "0")
}

fn content_type(headers: &HeaderMap) -> String {
    let value = headers.get(http::header::CONTENT_TYPE);
    edit::excerpt(&String::from_utf8_lossy(value.map_or(b"", |v| v.as_bytes())), 80)
}

/// An acknowledgement's body is read so that its connection can be used again.
pub(super) async fn drain(body: Content) {
    if body.is_at_end() {
        return;
    }
    let _ = tokio::time::timeout(limits::ERROR_BODY_WAIT, body.drain()).await;
}

/// Collects the pieces of a body; one that came in one piece is not copied.
#[derive(Debug)]
pub(super) struct Collected {
    first: Bytes,
    all: BodyBuffer,
}

impl Collected {
    /// For a body of at most `most` bytes that is said to have `expected`, or 0 if nothing is said.
    pub(super) fn new(expected: u64, most: usize) -> Self {
        let all = match usize::try_from(expected) {
            Ok(expected @ 1..) if expected <= most => BodyBuffer::of(expected),
            _ => BodyBuffer::up_to(most),
        };
        Self { first: Bytes::new(), all }
    }

    pub(super) fn len(&self) -> usize {
        if self.all.is_empty() { self.first.len() } else { self.all.len() }
    }

    pub(super) fn push(&mut self, piece: Bytes) {
        if self.len() == 0 {
            self.first = piece;
            return;
        }
        if self.all.is_empty() {
            self.all.push(&self.first);
        }
        self.all.push(&piece);
    }

    pub(super) fn finish(mut self) -> Bytes {
        if self.all.is_empty() { self.first } else { self.all.take() }
    }
}

/// The whole body of a JSON answer; `limit` is for the silence between two pieces of it.
pub(super) async fn whole(
    mut body: Content,
    context: &Context,
    limit: Option<Duration>,
) -> Result<Bytes, Error> {
    let expected = body.expected();
    let max = context.settings.max_message;
    let mut collected = Collected::new(expected, max);
    loop {
        let url = context.endpoint.url();
        let piece = within(limit, body.next(url)).await;
        let piece = piece.map_err(|limit| timeout("Request timeout", limit))??;
        let Some(piece) = piece else { return Ok(collected.finish()) };
        if collected.len() + piece.len() > max {
            return Err(too_large(max));
        }
        collected.push(piece);
        if body.is_at_end() {
            return Ok(collected.finish());
        }
    }
}

/// An HTTP error, read as far as it is of interest.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    /// Takes secrets out of what the server says.
    scrubber: Scrubber,
    /// What helps against a refusal of our credentials.
    remedy: String,
}

impl Refusal {
    /// Reads what the server says beside the status. What does not come in time is left out.
    pub(super) async fn read(response: Response<Content>, context: &Context) -> Self {
        let (parts, mut body) = response.into_parts();
        // A JSON-RPC error is an answer and may be as large as one.
        let limit = match media::of(&parts.headers) {
            media::Media::Json | media::Media::EventStream => context.settings.max_message,
            _ => limits::ERROR_BODY,
        };
        let mut collected = Collected::new(0, limit);
        let reading = async {
            while collected.len() < limit {
                match body.next(context.endpoint.url()).await {
                    Ok(Some(piece)) => collected.push(piece),
                    _ => return,
                }
            }
        };
        let _ = tokio::time::timeout(limits::ERROR_BODY_WAIT, reading).await;
        let body = collected.finish();
        if !body.is_empty() {
            traffic::message(traffic::TrafficKind::HttpBody, &body);
        }
        Self {
            status: parts.status,
            headers: parts.headers,
            body,
            scrubber: context.settings.scrubber.clone(),
            remedy: context.remedy_for(parts.status),
        }
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    /// Whether it is about credentials, haste or the server's health, and so says nothing about what
    /// the server speaks.
    pub(super) fn is_about_else(&self) -> bool {
        is_about_else(self.status)
    }

    /// What is wrong with the client's TLS, if that is what the server has to say.
    pub(super) fn tls(&self) -> Option<TlsRefusal> {
        TlsRefusal::parse(self.status.as_u16(), &self.start())
    }

    /// The beginning of the body.
    fn start(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body[..self.body.len().min(limits::ERROR_BODY)])
    }

    /// The first messages in the body, in every form in which a success may bring them.
    fn messages(&self) -> Vec<Message> {
        let most = limits::REFUSAL_MESSAGES;
        if media::of(&self.headers) != media::Media::EventStream {
            let each = parse_each(without_mark(self.body.clone()));
            return each.filter_map(Result::ok).take(most).collect();
        }
        let mut decoder = Decoder::new(self.body.len());
        decoder.push(self.body.clone());
        let events = std::iter::from_fn(|| decoder.next_event().ok().flatten());
        let each = events.filter_map(|event| event.data).flat_map(parse_each);
        each.filter_map(Result::ok).take(most).collect()
    }

    /// The server's answer in the body, if that is what it has to say: what has the id of the request
    /// `own`, else the first error.
    ///
    /// 401 and 403 keep their meaning, whatever the body is.
    pub(super) fn in_band(&self, own: Option<&Id>) -> Option<Message> {
        if matches!(self.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return None;
        }
        let mut messages = self.messages();
        let is_own = |message: &Message| own.is_some_and(|own| answers(message, own));
        let is_error = |message: &Message| message.type_name() == "error";
        let at = messages.iter().position(is_own).or_else(|| messages.iter().position(is_error))?;
        Some(messages.swap_remove(at))
    }

    /// The error for whoever sent the request (S1-35, S1-36).
    pub(super) fn error(&self) -> Error {
        let status = self.status.as_u16();
        let start = self.start();
        // Nobody reads tags.
        let body = self.scrubber.excerpt(&page::readable(&start), limits::ERROR_TEXT);
        let words = self.tls().map_or_else(|| body.clone(), |tls| tls.meaning().to_owned());
        let text = match &*words {
            "" => self.status.canonical_reason().unwrap_or("no text").to_owned(),
            text => text.to_owned(),
        };
        let hints = self.hints();
        let room = limits::ERROR_TEXT.saturating_sub(hints.chars().count());
        let message = edit::excerpt(&format!("HTTP {status}: {text}"), room) + &hints;
        let mut error = Error::new(Kind::Status, message);
        error.status = Some(status);
        error.body = (!body.is_empty()).then(|| body.into());
        if self.status == StatusCode::UNAUTHORIZED || self.status == StatusCode::FORBIDDEN {
            error = error.hint(&self.remedy);
        }
        if let Some(tls) = self.tls() {
            error = error.hint(tls.hint());
        }
        error.retry_after = self.retry_after();
        // A client error turned the message away; a server's own error may have come too late.
        let turned_away = (self.status.is_client_error()
            && self.status != StatusCode::REQUEST_TIMEOUT)
            || error.retry_after.is_some();
        if turned_away { error.not_delivered() } else { error }
    }

    /// The error for whoever sent the request in a session that is no more.
    pub(super) fn lost_session(&self) -> Error {
        Error { kind: Kind::SessionLost, ..self.error().not_delivered() }
    }

    /// What there is to be judged about `session`, in which the request `own`, or a message without
    /// an id, was sent.
    pub(super) fn complaint(&self, own: Option<&Id>, session: Option<&str>) -> Complaint {
        let answer = self.in_band(own);
        let answer = answer.as_ref();
        Complaint {
            status: self.status.as_u16(),
            code: answer.and_then(peek::error_code).map(|(code, _)| code),
            is_own: answer.zip(own).is_some_and(|(answer, own)| answers(answer, own)),
            is_result: answer.is_some_and(|answer| answer.type_name() != "error"),
            said: answer.and_then(peek::error_message),
            text: era_hints::without_id(&self.start(), session),
        }
    }

    /// The answer in the body, if it is to the request `own` and no other.
    pub(super) fn answer_to(&self, own: &Id) -> Option<Message> {
        self.in_band(Some(own)).filter(|answer| answers(answer, own))
    }

    /// How long a server that is overloaded wants to be left alone: seconds, or until a date.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        if !matches!(self.status.as_u16(), 429 | 503) {
            return None;
        }
        let value = self.headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
        if let Ok(seconds) = value.parse::<u64>() {
            return Some(Duration::from_secs(seconds).min(limits::LONGEST_PAUSE));
        }
        let date = httpdate::parse_http_date(value).ok()?;
        let pause = date.duration_since(SystemTime::now()).unwrap_or_default();
        Some(pause.min(limits::LONGEST_PAUSE))
    }

    fn hints(&self) -> String {
        let names =
            [("WWW-Authenticate", WWW_AUTHENTICATE), ("Mcp-Auth-Server", header::AUTH_SERVER)];
        let hints = names.into_iter().filter_map(|(shown, name)| {
            let values = self.headers.get_all(name).iter();
            let values: Vec<_> = values.map(|v| String::from_utf8_lossy(v.as_bytes())).collect();
            (!values.is_empty()).then(|| format!("{shown}: {}", values.join(", ")))
        });
        match hints.collect::<Vec<_>>().join("; ") {
            none if none.is_empty() => none,
            hints => format!(" [{}]", self.scrubber.excerpt(&hints, limits::ERROR_TEXT / 2)),
        }
    }
}

/// A body without the byte order mark that some put before their JSON.
pub(super) fn without_mark(body: Bytes) -> Bytes {
    match body.strip_prefix("\u{feff}".as_bytes()) {
        Some(rest) => body.slice_ref(rest),
        None => body,
    }
}

/// Whether `answer` names the request `own`, in whatever form.
fn answers(answer: &Message, own: &Id) -> bool {
    matches!(answer.head(), Head::Response { id: Some(id), .. } if id.resembles(own))
}

/// Whether a status says nothing about the protocol that is spoken.
pub(super) fn is_about_else(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status.as_u16(), 401 | 403 | 408 | 429)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::error::Delivery;

    fn refusal(status: u16, body: &'static str) -> Refusal {
        Refusal {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: Bytes::from_static(body.as_bytes()),
            scrubber: Scrubber::default(),
            remedy: "--bearer-file".to_owned(),
        }
    }

    #[test]
    fn the_text_has_status_body_and_hints() {
        // S1-35, S1-36, S4-14
        assert_eq!(refusal(500, "boom\n").error().message, "HTTP 500: boom");
        assert_eq!(refusal(404, "").error().message, "HTTP 404: Not Found");
        let mut refused = refusal(401, "no");
        refused.headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"x\""));
        refused.headers.insert(header::AUTH_SERVER, HeaderValue::from_static("https://as"));
        let error = refused.error();
        assert_eq!(
            error.message,
            "HTTP 401: no [WWW-Authenticate: Bearer realm=\"x\"; Mcp-Auth-Server: https://as]"
        );
        assert_eq!((error.code(), error.status), (-32001, Some(401)));
    }

    #[test]
    fn hints_survive_a_long_body() {
        // C5, C24
        let mut refused = refusal(403, "");
        refused.body = Bytes::from("x".repeat(2000));
        refused.headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer scope=\"a\""));
        let message = refused.error().message;
        assert_eq!(message.chars().count(), 500);
        assert!(message.ends_with("[WWW-Authenticate: Bearer scope=\"a\"]"), "{message}");
    }

    #[test]
    fn a_json_rpc_error_in_the_body_is_found_but_not_behind_401() {
        let body = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request"},"id":null}"#;
        assert!(refusal(400, body).in_band(None).is_some());
        assert!(refusal(401, body).in_band(None).is_none());
        assert!(refusal(403, body).in_band(None).is_none());
        assert!(refusal(400, "<html>").in_band(None).is_none());
        let result = refusal(500, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        assert!(result.in_band(None).is_none());
        assert!(result.in_band(Some(&Id::number(2))).is_none());
        assert!(result.in_band(Some(&Id::number(1))).is_some());
    }

    #[test]
    fn an_answer_is_found_in_every_form_in_which_a_success_may_bring_it() {
        let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no"}}"#;
        let other = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"other"}}"#;
        for (media, body) in [
            ("application/json", error.to_owned()),
            ("text/plain", error.to_owned()),
            ("application/json", format!("\u{feff}{error}")),
            ("application/json", format!("[{other},{error}]")),
            ("text/event-stream", format!("data: {{}}\n\nevent: message\ndata: {error}\n\n")),
            ("text/event-stream", format!("data: [{other},{error}]\r\n\r\n")),
        ] {
            let mut refused = refusal(404, "");
            refused.body = Bytes::from(body.clone());
            let media = HeaderValue::from_static(media);
            refused.headers.insert(http::header::CONTENT_TYPE, media);
            let answer = refused.answer_to(&Id::number(1)).expect(&body);
            assert_eq!(&answer.bytes()[..], error.as_bytes(), "{body}");
            let complaint = refused.complaint(Some(&Id::number(1)), None);
            assert!(complaint.is_own && !complaint.is_result, "{body}");
            assert_eq!(complaint.said.as_deref(), Some("no"), "{body}");
        }
    }

    #[test]
    fn what_was_turned_away_was_not_delivered() {
        assert_eq!(refusal(413, "").error().delivery, Delivery::NotDelivered);
        assert_eq!(refusal(500, "").error().delivery, Delivery::Unknown);
        assert_eq!(refusal(408, "").error().delivery, Delivery::Unknown);
    }

    #[test]
    fn an_error_is_the_requests_own_by_its_id_in_whatever_form() {
        let body = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"no"}}"#;
        let id = |id: &str| Id::from_json(id).unwrap();
        let refused = refusal(404, body);
        for own in ["7", "7.0"] {
            let complaint = refused.complaint(Some(&id(own)), None);
            assert!(complaint.is_own, "{own}");
            assert_eq!((complaint.status, complaint.code), (404, Some(-32000)));
            assert!(refused.answer_to(&id(own)).is_some());
        }
        assert!(!refused.complaint(Some(&id("\"7\"")), None).is_own);
        assert!(!refused.complaint(None, None).is_own, "nobody asked");
        let null = body.replace("\"id\":7", "\"id\":null");
        let refused = Refusal { body: Bytes::from(null), ..refusal(404, "") };
        assert!(!refused.complaint(Some(&id("7")), None).is_own);
        assert!(refused.answer_to(&id("7")).is_none());
        assert_eq!(refusal(404, "gone").complaint(Some(&id("7")), None).text, "gone");
    }

    #[test]
    fn a_pause_is_read_from_seconds_or_a_date() {
        let pause = |status, value: &str| {
            let mut refused = refusal(status, "");
            refused.headers.insert(RETRY_AFTER, HeaderValue::from_str(value).unwrap());
            refused.error().retry_after
        };
        assert_eq!(pause(429, "7"), Some(Duration::from_secs(7)));
        assert_eq!(pause(503, "Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        let soon = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(100));
        assert!(pause(503, &soon).unwrap() > Duration::from_secs(90));
        assert_eq!(pause(429, "18446744073709551615"), Some(limits::LONGEST_PAUSE));
        assert_eq!(pause(503, "soon"), None);
        assert_eq!(pause(500, "7"), None);
    }

    #[test]
    fn a_body_in_one_piece_is_not_copied() {
        let piece = Bytes::from_static(b"abc");
        let mut collected = Collected::new(3, 10);
        collected.push(piece.clone());
        assert_eq!(collected.finish().as_ptr(), piece.as_ptr());
        let mut collected = Collected::new(9, 10);
        for _ in 0..3 {
            collected.push(piece.clone());
        }
        assert_eq!(&collected.finish()[..], b"abcabcabc");
    }
}
