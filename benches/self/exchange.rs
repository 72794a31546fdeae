//! One POST and the payload of its answer, with nothing of MCP in it.

use std::error::Error;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use memchr::memmem;

/// A pool of connections.
pub(crate) type HttpClient = Client<HttpConnector, Full<Bytes>>;

/// Whatever went wrong.
pub(crate) type Fault = Box<dyn Error + Send + Sync>;

const EVENT_STREAM: &[u8] = b"text/event-stream";

/// A client that connects on first use.
pub(crate) fn client() -> HttpClient {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    Client::builder(TokioExecutor::new()).build(connector)
}

/// Sends `line` and hands over each payload of the answer as soon as it is there.
pub(crate) async fn post(
    client: &HttpClient,
    uri: &Uri,
    line: Bytes,
    mut deliver: impl FnMut(Bytes),
) -> Result<(), Fault> {
    let mut request = Request::new(Full::new(line));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = uri.clone();
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    let response = client.request(request).await?;
    if !response.status().is_success() {
        return Err(format!("HTTP {}", response.status()).into());
    }
    if is_event_stream(&response) {
        return events(response.into_body(), deliver).await;
    }
    let body = whole(response.into_body()).await?;
    if !body.is_empty() {
        deliver(body);
    }
    Ok(())
}

/// The body in one piece; copied, once, only if it comes in several.
async fn whole(mut body: Incoming) -> Result<Bytes, Fault> {
    let length = body.size_hint().exact().and_then(|length| usize::try_from(length).ok());
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame?.into_data() else {
            continue;
        };
        if first.is_empty() {
            first = piece;
            continue;
        }
        if all.is_empty() {
            all.reserve(length.unwrap_or(first.len() + piece.len()));
            all.extend_from_slice(&first);
        }
        all.extend_from_slice(&piece);
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

fn is_event_stream(response: &Response<Incoming>) -> bool {
    response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes() == EVENT_STREAM)
}

/// Reads to the end, so that the connection can be used again.
async fn events(mut body: Incoming, mut deliver: impl FnMut(Bytes)) -> Result<(), Fault> {
    let mut pending = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame?.into_data() else {
            continue;
        };
        let mut searched = pending.len().saturating_sub(1);
        // Nothing is left over from before, as a rule: then nothing is copied.
        pending = match (pending.is_empty(), piece.try_into_mut()) {
            (true, Ok(piece)) => piece,
            (_, Ok(piece)) => joined(pending, &piece),
            (_, Err(piece)) => joined(pending, &piece),
        };
        while let Some(end) = memmem::find(&pending[searched..], b"\n\n") {
            let event = pending.split_to(searched + end + 2).freeze();
            searched = 0;
            data(&event).into_iter().for_each(&mut deliver);
        }
    }
    Ok(())
}

fn joined(mut pending: BytesMut, piece: &[u8]) -> BytesMut {
    pending.extend_from_slice(piece);
    pending
}

fn data(event: &Bytes) -> Option<Bytes> {
    let line = event.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"data:"))?;
    Some(event.slice_ref(line.strip_prefix(b" ").unwrap_or(line)))
}
