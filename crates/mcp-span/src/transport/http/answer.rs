//! Sorts the answer to a POST, once: JSON, events, an acknowledgement, or a failure.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::response::Parts;
use http::{HeaderMap, Response, StatusCode};
use url::Url;

use super::Context;
use super::events::{timeout, too_large};
use super::session_loss::Complaint;
use crate::error::{Error, ErrorKind};
use crate::limits;
use crate::message::{Head, Id, Message, parse_each, peek};
use crate::net::Content;
use crate::revision::era_hints;
use crate::secret::{Scrubber, shown};
use crate::traffic;
use crate::transport::within;
use crate::untrusted::Untrusted;
use crate::wire::body_buffer::BodyBuffer;
use crate::wire::lines::without_mark;
use crate::wire::sse::Decoder;
use crate::wire::tls_refusal::TlsRefusal;
use crate::wire::{header, media, page};

/// What the server's answer is, by its status and media type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// One message, or an array of them, in the body.
    Json,
    /// A stream of events.
    Events,
    /// Another success: without content, or with some that nobody can read.
    Other,
    /// An HTTP error.
    Refused,
}

impl Answer {
    pub(super) fn of(response: &Response<Content>) -> Self {
        let status = response.status();
        if !status.is_success() {
            return Self::Refused;
        }
        match media::of(response.headers()) {
            media::Media::EventStream => Self::Events,
            media::Media::Json if status != StatusCode::ACCEPTED => Self::Json,
            _ => Self::Other,
        }
    }
}

/// The error for a success without the answer to a request in it.
pub(super) fn unreadable(response: &Response<Content>, url: &Url) -> Error {
    let status = response.status();
    let place = shown(url);
    let is_empty = response.headers().get(CONTENT_LENGTH).is_some_and(|length| length == "0");
    let mut error = if is_empty || matches!(status.as_u16(), 202 | 204) {
        let message =
            format!("{place} accepted the request with HTTP {status} but did not answer it");
        Error::new(ErrorKind::NoResponse, message)
    } else {
        let named = match response.headers().get(CONTENT_TYPE) {
            Some(named) => {
                let named = Untrusted(&String::from_utf8_lossy(named.as_bytes())).excerpt(80);
                format!("with content type {named}")
            }
            None => "without a content type".to_owned(),
        };
        Error::new(
            ErrorKind::BadResponse,
            format!("{place} answered {named}, which is not an MCP answer"),
        )
        .hint("Check that the URL is that of an MCP endpoint, not of a web page")
    };
    error.status = Some(status.as_u16());
    error
}

/// What stands in place of an answer is read for a recorder, if there is one.
pub(super) async fn read_for_recorder(mut body: Content, url: &Url) {
    if body.is_recorded() {
        beginning(&mut body, limits::ERROR_BODY, url).await;
    }
}

/// An acknowledgement's body is read so that its connection can be used again.
pub(super) async fn drain(body: Content) {
    if body.is_at_end() {
        return;
    }
    let _ = tokio::time::timeout(limits::ERROR_BODY_WAIT, body.drain()).await;
}

/// The whole body of a JSON answer; `limit` is for the silence between two pieces of it.
pub(super) async fn whole(
    mut body: Content,
    context: &Context,
    limit: Option<Duration>,
) -> Result<Bytes, Error> {
    let max = context.settings.max_message;
    let mut all = match usize::try_from(body.expected()) {
        Ok(expected @ 1..) if expected <= max => BodyBuffer::of(expected),
        _ => BodyBuffer::up_to(max),
    };
    loop {
        let piece = within(limit, body.next(context.endpoint.url())).await;
        let piece = piece.map_err(|limit| timeout("Request timeout", limit))??;
        let Some(piece) = piece else { return Ok(all.take()) };
        if all.len() + piece.len() > max {
            return Err(too_large(max));
        }
        // What comes in one piece, as most do, is not copied.
        if body.is_at_end() && all.is_empty() {
            return Ok(piece);
        }
        all.push(&piece);
    }
}

/// The beginning of a body that is no answer, as far as it comes in time.
async fn beginning(body: &mut Content, limit: usize, url: &Url) -> Bytes {
    let mut read = BodyBuffer::up_to(limit);
    let reading = async {
        while read.len() < limit
            && let Ok(Some(piece)) = body.next(url).await
        {
            read.push(&piece);
        }
    };
    let _ = tokio::time::timeout(limits::ERROR_BODY_WAIT, reading).await;
    let body = read.take();
    if !body.is_empty() {
        traffic::message(traffic::TrafficKind::HttpBody, &body);
    }
    body
}

/// An HTTP error, read as far as it is of interest.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    /// For whoever sent the request.
    pub(super) error: Error,
    /// The server's answer in the body, if that is what it has to say: what has the id of the
    /// request, else the first error.
    pub(super) answer: Option<Message>,
    /// That answer has the id of the request, in whatever form: somebody has read the request.
    pub(super) is_own: bool,
    /// It is about the client's TLS.
    pub(super) is_about_tls: bool,
    /// The beginning of the body.
    start: String,
}

impl Refusal {
    /// Reads what the server says beside the status to the request `own`, or to a message without
    /// an id. What does not come in time is left out.
    pub(super) async fn read(
        response: Response<Content>,
        context: &Context,
        own: Option<&Id>,
    ) -> Self {
        let (parts, mut body) = response.into_parts();
        // A JSON-RPC error is an answer and may be as large as one.
        let limit = match media::of(&parts.headers) {
            media::Media::Json | media::Media::EventStream => context.settings.max_message,
            _ => limits::ERROR_BODY,
        };
        let body = beginning(&mut body, limit, context.endpoint.url()).await;
        Self::of(&parts, body, context, own)
    }

    fn of(parts: &Parts, body: Bytes, context: &Context, own: Option<&Id>) -> Self {
        let start = String::from_utf8_lossy(&body[..body.len().min(limits::ERROR_BODY)]);
        let start = start.into_owned();
        let tls = TlsRefusal::parse(parts.status.as_u16(), &start);
        let answer = in_band(parts, body, own);
        Self {
            status: parts.status,
            error: error(parts, &start, tls, context),
            is_own: answer.as_ref().zip(own).is_some_and(|(answer, own)| answers(answer, own)),
            answer,
            is_about_tls: tls.is_some(),
            start,
        }
    }

    /// What there is to be judged about `session`, in which the request was sent.
    pub(super) fn complaint(&self, session: Option<&str>) -> Complaint {
        let answer = self.answer.as_ref();
        Complaint {
            status: self.status.as_u16(),
            code: answer.and_then(peek::error_code).map(|(code, _)| code),
            is_own: self.is_own,
            is_result: answer.is_some_and(|answer| !answer.is_error()),
            said: answer.and_then(peek::error_message),
            text: era_hints::without_id(&self.start, session),
        }
    }
}

/// The answer to the request `own` in a body, or the first error. 401 and 403 keep their meaning,
/// whatever the body is.
fn in_band(parts: &Parts, body: Bytes, own: Option<&Id>) -> Option<Message> {
    if matches!(parts.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return None;
    }
    let mut messages = messages(parts, body);
    let is_own = |message: &Message| own.is_some_and(|own| answers(message, own));
    let at =
        messages.iter().position(is_own).or_else(|| messages.iter().position(Message::is_error))?;
    Some(messages.swap_remove(at))
}

/// The first messages in a body, in every form in which a success may bring them.
fn messages(parts: &Parts, body: Bytes) -> Vec<Message> {
    let most = limits::REFUSAL_MESSAGES;
    if media::of(&parts.headers) != media::Media::EventStream {
        return parse_each(without_mark(body)).filter_map(Result::ok).take(most).collect();
    }
    let mut decoder = Decoder::new(body.len());
    decoder.push(body);
    let events = std::iter::from_fn(|| decoder.next_event().ok().flatten());
    let each = events.filter_map(|event| event.data).flat_map(parse_each);
    each.filter_map(Result::ok).take(most).collect()
}

/// The error for whoever sent the request, of which `start` is the beginning of the body (S1-35,
/// S1-36).
fn error(parts: &Parts, start: &str, tls: Option<&'static TlsRefusal>, context: &Context) -> Error {
    let (status, scrubber) = (parts.status, &context.settings.scrubber);
    // Nobody reads tags.
    let body = scrubber.excerpt(&page::readable(start), limits::ERROR_TEXT);
    let text = match tls {
        Some(tls) => tls.meaning,
        None if body.is_empty() => status.canonical_reason().unwrap_or("no text"),
        None => &body,
    };
    let hints = hints(&parts.headers, scrubber);
    let room = limits::ERROR_TEXT.saturating_sub(hints.chars().count());
    let message = format!("HTTP {}: {text}", status.as_u16());
    let message = Untrusted(&message).excerpt(room) + &hints;
    let mut error = Error::new(ErrorKind::Status, message);
    error.status = Some(status.as_u16());
    error.body = (!body.is_empty()).then(|| body.into());
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        error = error.hint(context.remedy_for(status));
    }
    if let Some(tls) = tls {
        error = error.hint(tls.hint);
    }
    error.retry_after = retry_after(parts);
    // A client error turned the message away; a server's own error may have come too late.
    let turned_away = (status.is_client_error() && status != StatusCode::REQUEST_TIMEOUT)
        || error.retry_after.is_some();
    if turned_away { error.not_delivered() } else { error }
}

/// How long a server that is overloaded wants to be left alone: seconds, or until a date.
fn retry_after(parts: &Parts) -> Option<Duration> {
    if !matches!(parts.status.as_u16(), 429 | 503) {
        return None;
    }
    let value = parts.headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse::<u64>() {
        return Some(Duration::from_secs(seconds).min(limits::LONGEST_PAUSE));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    let pause = date.duration_since(SystemTime::now()).unwrap_or_default();
    Some(pause.min(limits::LONGEST_PAUSE))
}

/// What the server says in headers about the credentials that it wants.
fn hints(headers: &HeaderMap, scrubber: &Scrubber) -> String {
    let names = [("WWW-Authenticate", WWW_AUTHENTICATE), ("Mcp-Auth-Server", header::AUTH_SERVER)];
    let hints = names.into_iter().filter_map(|(shown, name)| {
        let values = headers.get_all(name).iter();
        let values: Vec<_> = values.map(|v| String::from_utf8_lossy(v.as_bytes())).collect();
        (!values.is_empty()).then(|| format!("{shown}: {}", values.join(", ")))
    });
    match hints.collect::<Vec<_>>().join("; ") {
        none if none.is_empty() => none,
        hints => format!(" [{}]", scrubber.excerpt(&hints, limits::ERROR_TEXT / 2)),
    }
}

/// A refusal as the error for whoever sent the request in a session that is no more.
pub(super) fn session_lost(refusal: Error) -> Error {
    Error { kind: ErrorKind::SessionLost, ..refusal.not_delivered() }
}

/// Whether `answer` names the request `own`, in whatever form.
fn answers(answer: &Message, own: &Id) -> bool {
    matches!(answer.head(), Head::Response { id: Some(id), .. } if id.resembles(own))
}

/// Whether a status is about credentials, haste or the server's health, and so says nothing about
/// what the server speaks.
pub(super) fn is_about_else(status: u16) -> bool {
    matches!(status, 401 | 403 | 408 | 429 | 500..)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::HeaderName;

    use super::*;
    use crate::error::Delivery;
    use crate::net::Endpoint;
    use crate::transport::http::HttpSettings;

    /// The refusal of a request with the id `own`.
    fn refusal(
        status: u16,
        headers: &[(HeaderName, &str)],
        body: impl Into<Bytes>,
        own: Option<&Id>,
    ) -> Refusal {
        let settings = HttpSettings::new(Url::parse("http://localhost/mcp").unwrap());
        let endpoint = Arc::new(Endpoint::new(&settings.url).unwrap());
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(name, *value);
        }
        let (parts, ()) = response.body(()).unwrap().into_parts();
        Refusal::of(&parts, body.into(), &Context::new(settings, endpoint), own)
    }

    fn error(status: u16, headers: &[(HeaderName, &str)], body: impl Into<Bytes>) -> Error {
        refusal(status, headers, body, None).error
    }

    fn id(id: &str) -> Id {
        Id::from_json(id).unwrap()
    }

    #[test]
    fn the_text_has_status_body_and_hints() {
        // S1-35, S1-36, S4-14
        assert_eq!(error(500, &[], "boom\n").message, "HTTP 500: boom");
        assert_eq!(error(404, &[], "").message, "HTTP 404: Not Found");
        let hints = [(WWW_AUTHENTICATE, "Bearer realm=\"x\""), (header::AUTH_SERVER, "https://as")];
        let error = error(401, &hints, "no");
        assert_eq!(
            error.message,
            "HTTP 401: no [WWW-Authenticate: Bearer realm=\"x\"; Mcp-Auth-Server: https://as]"
        );
        assert_eq!((error.code(), error.status), (-32001, Some(401)));
    }

    #[test]
    fn hints_survive_a_long_body() {
        // C5, C24
        let hint = [(WWW_AUTHENTICATE, "Bearer scope=\"a\"")];
        let message = error(403, &hint, "x".repeat(2000)).message;
        assert_eq!(message.chars().count(), 500);
        assert!(message.ends_with("[WWW-Authenticate: Bearer scope=\"a\"]"), "{message}");
    }

    #[test]
    fn a_json_rpc_error_in_the_body_is_found_but_not_behind_401() {
        let answer = |status, body, own: Option<u64>| {
            refusal(status, &[], body, own.map(Id::number).as_ref()).answer
        };
        let body = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request"},"id":null}"#;
        assert!(answer(400, body, None).is_some());
        assert!(answer(401, body, None).is_none());
        assert!(answer(403, body, None).is_none());
        assert!(answer(400, "<html>", None).is_none());
        let result = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        assert!(answer(500, result, None).is_none());
        assert!(answer(500, result, Some(2)).is_none());
        assert!(answer(500, result, Some(1)).is_some());
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
            let own = Id::number(1);
            let refused = refusal(404, &[(CONTENT_TYPE, media)], body.clone(), Some(&own));
            let complaint = refused.complaint(None);
            assert_eq!(&refused.answer.unwrap().bytes()[..], error.as_bytes(), "{body}");
            assert!(complaint.is_own && !complaint.is_result, "{body}");
            assert_eq!(complaint.said.as_deref(), Some("no"), "{body}");
        }
    }

    #[test]
    fn what_was_turned_away_was_not_delivered() {
        assert_eq!(error(413, &[], "").delivery, Delivery::NotDelivered);
        assert_eq!(error(500, &[], "").delivery, Delivery::Unknown);
        assert_eq!(error(408, &[], "").delivery, Delivery::Unknown);
    }

    #[test]
    fn an_error_is_the_requests_own_by_its_id_in_whatever_form() {
        let body = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"no"}}"#;
        for own in ["7", "7.0"] {
            let refused = refusal(404, &[], body, Some(&id(own)));
            let complaint = refused.complaint(None);
            assert!(refused.is_own && complaint.is_own, "{own}");
            assert_eq!((complaint.status, complaint.code), (404, Some(-32000)));
        }
        assert!(!refusal(404, &[], body, Some(&id("\"7\""))).is_own);
        assert!(!refusal(404, &[], body, None).is_own, "nobody asked");
        let null = body.replace("\"id\":7", "\"id\":null");
        assert!(!refusal(404, &[], null, Some(&id("7"))).is_own);
        assert_eq!(refusal(404, &[], "gone", Some(&id("7"))).complaint(None).text, "gone");
    }

    #[test]
    fn a_pause_is_read_from_seconds_or_a_date() {
        let pause = |status, value: &str| error(status, &[(RETRY_AFTER, value)], "").retry_after;
        assert_eq!(pause(429, "7"), Some(Duration::from_secs(7)));
        assert_eq!(pause(503, "Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        let soon = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(100));
        assert!(pause(503, &soon).unwrap() > Duration::from_secs(90));
        assert_eq!(pause(429, "18446744073709551615"), Some(limits::LONGEST_PAUSE));
        assert_eq!(pause(503, "soon"), None);
        assert_eq!(pause(500, "7"), None);
    }
}
