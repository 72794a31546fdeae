//! The server that all contestants talk to: on loopback, in a thread of its own, doing nearly nothing.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use super::calls::{DISCOVERED, HEAD, LARGE_END, LARGE_TAIL, REFUSED, SMALL_TAIL, WELCOME, member};
use super::exchange::Fault;

/// What large answers are made of: text as it comes, with an escape now and then.
const TEXT: &str = r"The quick brown fox jumps over the lazy dog, again and again.\n";

/// Starts the server; it lives as long as the program.
pub(crate) fn start() -> Result<SocketAddr, Fault> {
    let (tell, told) = mpsc::channel();
    std::thread::Builder::new().name("server".into()).spawn(move || {
        let outcome = serve(&tell);
        if let Err(error) = outcome {
            let _ = tell.send(Err(error));
        }
    })?;
    told.recv()?
}

/// Says where the server is and serves until it is killed: for profilers, beside `floor`.
pub(crate) fn stay() -> Result<(), Fault> {
    println!("http://{}/mcp", start()?);
    loop {
        std::thread::park();
    }
}

fn serve(tell: &mpsc::Sender<Result<SocketAddr, Fault>>) -> Result<(), Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        tell.send(Ok(listener.local_addr()?))?;
        let text = Arc::new(Text::default());
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(connection(stream, Arc::clone(&text)));
        }
    })
}

async fn connection(stream: TcpStream, text: Arc<Text>) {
    let service = service_fn(|request| answer(request, Arc::clone(&text)));
    // A client that goes away is no fault.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(
    request: Request<Incoming>,
    text: Arc<Text>,
) -> Result<Response<Answer>, hyper::Error> {
    match *request.method() {
        Method::POST => {}
        Method::DELETE => return Ok(empty(StatusCode::OK)),
        _ => {
            let mut response = empty(StatusCode::METHOD_NOT_ALLOWED);
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST, DELETE"));
            return Ok(response);
        }
    }
    let as_events = request.uri().path() == "/sse";
    // At this path a program that can translate is made to: the others are let in as they are.
    let is_span = request
        .headers()
        .get(USER_AGENT)
        .is_some_and(|name| name.as_bytes().starts_with(b"mcp-span"));
    let is_modern = request.uri().path() == "/modern" && is_span;
    let message = request.into_body().collect().await?.to_bytes();
    let Some(id) = member(&message, r#""id":"#) else {
        return Ok(empty(StatusCode::ACCEPTED));
    };
    let (pieces, is_first) = match member(&message, r#""method":""#) {
        Some(b"initialize") if is_modern => return Ok(refusal(id)),
        Some(b"server/discover") => {
            (VecDeque::from([joined(&[HEAD.as_bytes(), id, DISCOVERED.as_bytes()])]), false)
        }
        Some(b"initialize") => {
            (VecDeque::from([joined(&[HEAD.as_bytes(), id, WELCOME.as_bytes()])]), true)
        }
        _ => (tool_result(&message, id, &text, is_modern), false),
    };
    let mut response = if as_events { events(pieces) } else { json(pieces) };
    if is_first {
        let session = HeaderValue::from_static("3f2a9c0e-bench-session");
        response.headers_mut().insert("mcp-session-id", session);
    }
    Ok(response)
}

fn refusal(id: &[u8]) -> Response<Answer> {
    let mut response = json(VecDeque::from([joined(&[HEAD.as_bytes(), id, REFUSED.as_bytes()])]));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response
}

fn tool_result(message: &[u8], id: &[u8], text: &Text, is_modern: bool) -> VecDeque<Bytes> {
    let large = member(message, r#""name":"big:"#)
        .and_then(|bytes| std::str::from_utf8(bytes).ok()?.parse().ok());
    match large {
        None => VecDeque::from([joined(&[HEAD.as_bytes(), id, &marked(SMALL_TAIL, is_modern)])]),
        Some(bytes) => VecDeque::from([
            joined(&[HEAD.as_bytes(), id, &marked(LARGE_TAIL, is_modern)]),
            text.of(bytes),
            Bytes::from_static(LARGE_END.as_bytes()),
        ]),
    }
}

/// With the member that modern results have.
fn marked(tail: &str, is_modern: bool) -> Vec<u8> {
    let mark = if is_modern { r#""result":{"resultType":"complete","# } else { r#""result":{"# };
    tail.replacen(r#""result":{"#, mark, 1).into_bytes()
}

fn empty(status: StatusCode) -> Response<Answer> {
    let mut response = Response::new(Answer::sized(VecDeque::new()));
    *response.status_mut() = status;
    response
}

fn json(pieces: VecDeque<Bytes>) -> Response<Answer> {
    let mut response = Response::new(Answer::sized(pieces));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// One event, of a length that is not told before: that is how servers stream.
fn events(mut pieces: VecDeque<Bytes>) -> Response<Answer> {
    const BEGIN: &[u8] = b"event: message\ndata: ";
    const END: &[u8] = b"\n\n";
    if pieces.len() == 1 {
        pieces = pieces.iter().map(|piece| joined(&[BEGIN, piece, END])).collect();
    } else {
        pieces.push_front(Bytes::from_static(BEGIN));
        pieces.push_back(Bytes::from_static(END));
    }
    let mut response = Response::new(Answer { pieces, length: None });
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
}

fn joined(parts: &[&[u8]]) -> Bytes {
    parts.concat().into()
}

/// The text of large answers, made once so that its making is not measured.
#[derive(Default)]
struct Text(Mutex<Bytes>);

impl Text {
    fn of(&self, bytes: usize) -> Bytes {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if made.len() < bytes {
            *made = TEXT.repeat(bytes.div_ceil(TEXT.len())).into();
        }
        let text = made.slice(..bytes);
        // An escape must not be cut in two.
        if text.last() == Some(&b'\\') { joined(&[&text[..bytes - 1], b"."]) } else { text }
    }
}

struct Answer {
    pieces: VecDeque<Bytes>,
    length: Option<u64>,
}

impl Answer {
    fn sized(pieces: VecDeque<Bytes>) -> Self {
        let length = pieces.iter().map(|piece| piece.len() as u64).sum();
        Self { pieces, length: Some(length) }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.pieces.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
