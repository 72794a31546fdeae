//! A recorded exchange as the rules read it: which message was sent, and what the answer holds.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::CONTENT_TYPE;
use mcp_span::error::{Error, ErrorKind};
use mcp_span::limits;
use mcp_span::net::{RecordedExchange, RecordedResponse};
use mcp_span::secret::{Scrubber, shown};
use mcp_span::traffic::shown_headers;
use mcp_span::untrusted::Untrusted;
use mcp_span::wire::media::{self, Media};
use mcp_span::wire::page;
use mcp_span::wire::sse::{Decoder, SseEvent};
use serde_json::{Value, json};

/// One request, and what came of it.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    pub(super) request: RecordedExchange,
    /// The method of the JSON-RPC message that was sent.
    pub(super) rpc_method: Option<String>,
    /// Why there is no answer, or the answer.
    pub(super) response: Result<Response, Error>,
    /// All of it as it may be shown, without credentials.
    pub(super) shown: Value,
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) recorded: RecordedResponse,
    pub(super) body: String,
    /// The JSON-RPC answer in the body.
    pub(super) answer: Option<Value>,
}

impl Exchange {
    /// `request` was given up if there is no outcome: the server had `limit`.
    pub(super) fn new(request: RecordedExchange, limit: Duration, scrubber: &Scrubber) -> Self {
        let message: Option<Value> = serde_json::from_slice(&request.body).ok();
        let rpc_method = message.and_then(|message| Some(message["method"].as_str()?.to_owned()));
        let response = match &request.outcome {
            Some(Ok(response)) => Ok(Response::new(response.clone())),
            Some(Err(error)) => Err(error.clone()),
            None => Err(late(limit)),
        };
        let shown = shown_exchange(&request, &response, scrubber);
        Self { request, rpc_method, response, shown }
    }

    pub(super) fn is(&self, rpc_method: &str) -> bool {
        self.rpc_method.as_deref() == Some(rpc_method)
    }

    /// Whether a stream was asked for.
    pub(super) fn is_get(&self) -> bool {
        self.request.method == Method::GET
    }

    /// The result that the server has given.
    pub(super) fn result(&self) -> Option<&Value> {
        let response = self.response.as_ref().ok()?;
        response.answer.as_ref()?.get("result")
    }

    /// Whether the server refuses who we are.
    pub(super) fn is_refused(&self) -> bool {
        matches!(self.response, Ok(Response { status: 401 | 403, .. }))
    }
}

fn shown_exchange(
    request: &RecordedExchange,
    response: &Result<Response, Error>,
    scrubber: &Scrubber,
) -> Value {
    let excerpt = |body: &str| scrubber.excerpt(body, limits::CHECK_BODY_SHOWN);
    let answer = response.as_ref().ok().map(|response| {
        json!({
            "status": response.status,
            "version": format!("{:?}", response.recorded.version),
            "headers": shown_headers(&response.recorded.headers, &request.url),
            "body": excerpt(&response.body),
        })
    });
    json!({
        "request": {
            "method": request.method.as_str(),
            "url": shown(&request.url),
            "headers": shown_headers(&request.headers, &request.url),
            "body": excerpt(&String::from_utf8_lossy(&request.body)),
        },
        "response": answer,
        "error": response.as_ref().err().map(|error| &*error.message),
    })
}

impl Response {
    fn new(recorded: RecordedResponse) -> Self {
        let body = String::from_utf8_lossy(&recorded.body).into_owned();
        let answer = match media::of(&recorded.headers) {
            Media::EventStream => events(&recorded.body)
                .filter_map(|event| serde_json::from_slice(&event.data?).ok())
                .find(is_answer),
            _ => serde_json::from_str(&body).ok().filter(is_answer),
        };
        Self { status: recorded.status.as_u16(), recorded, body, answer }
    }

    pub(super) fn is_success(&self) -> bool {
        self.recorded.status.is_success()
    }

    pub(super) fn is_stream(&self) -> bool {
        self.is_success() && media::of(&self.recorded.headers) == Media::EventStream
    }

    /// Whether it is the stream of an HTTP+SSE server, which says first where messages go.
    pub(super) fn is_legacy_sse(&self) -> bool {
        let first = events(&self.recorded.body).next();
        self.is_stream() && first.and_then(|event| event.name).is_some_and(|n| n == "endpoint")
    }

    /// Whether it is a page for people.
    pub(super) fn is_page(&self) -> bool {
        self.content_type().is_some_and(|kind| kind.trim_start().starts_with("text/html"))
            || page::is_page(&self.body)
    }

    fn content_type(&self) -> Option<&str> {
        self.recorded.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok())
    }

    /// The error of the answer, in words.
    pub(super) fn refusal(&self) -> Option<String> {
        let error = self.answer.as_ref()?.get("error")?;
        let message = error["message"].as_str().unwrap_or_default();
        Some(format!("MCP error {}: {}", error["code"], Untrusted(message).excerpt(200)))
    }

    /// `HTTP 200, text/plain`
    pub(super) fn kind(&self) -> String {
        let kind = self.content_type().unwrap_or("without a Content-Type");
        format!("HTTP {}, {}", self.status, Untrusted(kind).excerpt(60))
    }

    /// Where redirects have led, as it may be shown.
    pub(super) fn redirected_to(&self) -> Option<String> {
        self.recorded.redirected_to.as_ref().map(shown)
    }
}

/// Nothing came in time.
pub(super) fn late(limit: Duration) -> Error {
    Error::new(ErrorKind::Timeout, format!("No answer within {} ms", limit.as_millis()))
        .hint("Check whether the server hangs, or raise --timeout")
}

fn is_answer(value: &Value) -> bool {
    value.get("jsonrpc").is_some()
        && (value.get("result").is_some() || value.get("error").is_some())
}

fn events(body: &[u8]) -> impl Iterator<Item = SseEvent> {
    let mut decoder = Decoder::new(limits::MESSAGE_SIZE);
    decoder.push(Bytes::copy_from_slice(body));
    std::iter::from_fn(move || decoder.next_event().ok().flatten())
}

/// Exchanges for the tests of rules.
#[cfg(test)]
pub(super) mod made_up {
    use std::time::Instant;

    use http::{HeaderName, HeaderValue, StatusCode, Version};
    use url::Url;

    use super::*;

    /// A POST of this message, without an outcome.
    pub(in super::super) fn request(rpc_method: &str) -> RecordedExchange {
        let message = serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": rpc_method });
        RecordedExchange {
            method: Method::POST,
            url: Url::parse("http://h/mcp").unwrap(),
            headers: http::HeaderMap::new(),
            body: message.to_string().into(),
            since: Instant::now(),
            outcome: None,
        }
    }

    pub(in super::super) fn unanswered(rpc_method: &str) -> Exchange {
        Exchange::new(request(rpc_method), Duration::from_secs(1), &Scrubber::default())
    }

    pub(in super::super) fn answered(
        rpc_method: &str,
        status: u16,
        headers: &[(HeaderName, &str)],
        body: &str,
    ) -> Exchange {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap()));
        let response = RecordedResponse {
            status: StatusCode::from_u16(status).unwrap(),
            version: Version::HTTP_11,
            headers: headers.collect(),
            redirected_to: None,
            peer: None,
            body: body.into(),
            took: Duration::ZERO,
            has_ended: true,
        };
        let request = RecordedExchange { outcome: Some(Ok(response)), ..request(rpc_method) };
        Exchange::new(request, Duration::ZERO, &Scrubber::default())
    }
}
