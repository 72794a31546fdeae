//! The HTTP side of the demo server: one endpoint, sessions, JSON and event streams.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

use super::protocol::{self, Answer};
use crate::limits;
use crate::lock::lock;
use crate::net::backoff::entropy;
use crate::wire::header;
use crate::wire::media::{self, Media};

/// Comments that keep a silent stream alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Serves whoever connects.
pub(super) async fn serve(listener: TcpListener) {
    let sessions = Arc::new(Sessions::default());
    while let Ok((socket, _)) = listener.accept().await {
        // Small answers that somebody waits for.
        let _ = socket.set_nodelay(true);
        let sessions = Arc::clone(&sessions);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let sessions = Arc::clone(&sessions);
                async move { Ok::<_, Infallible>(sessions.handle(request).await) }
            });
            let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
        });
    }
}

#[derive(Debug, Default)]
struct Sessions {
    open: Mutex<HashMap<String, Session>>,
}

#[derive(Debug, Default)]
struct Session {
    /// The client answers questions.
    elicits: bool,
    /// Where the answer to the last one goes.
    question: Option<oneshot::Sender<Value>>,
}

impl Sessions {
    async fn handle(&self, request: Request<Incoming>) -> Response<Stream> {
        if request.uri().path() != "/mcp" {
            return refuse(StatusCode::NOT_FOUND, "There is only /mcp here");
        }
        // A web page that resolves its name to loopback must not get in.
        let headers = request.headers();
        let origin = headers.get(ORIGIN).map(|origin| origin.to_str().unwrap_or_default());
        let origin = origin.map(|origin| origin.split_once("://").map_or(origin, |(_, host)| host));
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        if !is_local(host) || !origin.is_none_or(is_local) {
            return refuse(StatusCode::FORBIDDEN, "Only for this machine");
        }
        match *request.method() {
            Method::POST => self.post(request).await,
            Method::GET => self.get(&request),
            Method::DELETE => self.delete(&request),
            _ => {
                let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, "POST, GET or DELETE");
                response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
                response
            }
        }
    }

    async fn post(&self, request: Request<Incoming>) -> Response<Stream> {
        if media::of(request.headers()) != Media::Json {
            return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "The message must be JSON");
        }
        let session = self.session(&request);
        let body = Limited::new(request.into_body(), limits::MESSAGE_SIZE);
        let Ok(body) = body.collect().await else {
            return refuse(StatusCode::PAYLOAD_TOO_LARGE, "The message is too large");
        };
        let Ok(message) = serde_json::from_slice::<Value>(&body.to_bytes()) else {
            return refuse(StatusCode::BAD_REQUEST, "The message is not JSON");
        };
        let opens = message["method"] == "initialize";
        let session = match session {
            Ok(id) => id,
            Err(_) if opens => String::new(),
            Err(refusal) => return refusal.into(),
        };
        if message["id"].as_str().is_some_and(|id| id.starts_with("question-")) {
            self.answered(&session, message["result"].clone());
        }
        let elicits = self.lock().get(&session).is_some_and(|session| session.elicits);
        let mut response = match protocol::answer(&message, elicits) {
            Answer::Nothing => respond(StatusCode::ACCEPTED, Stream::empty()),
            Answer::Json(answer) => json_body(StatusCode::OK, &answer),
            Answer::Events(events) => stream_of(events),
            Answer::Question(question) => self.ask(&session, question, message["id"].clone()),
        };
        if opens {
            let id = format!("{:016x}{:016x}", entropy(), entropy());
            if let Ok(value) = HeaderValue::from_str(&id) {
                response.headers_mut().insert(header::SESSION_ID, value);
            }
            let elicits = message["params"]["capabilities"]["elicitation"].is_object();
            self.lock().insert(id, Session { elicits, question: None });
        }
        response
    }

    /// Asks the client before its call `id` is answered.
    fn ask(&self, session: &str, question: Value, id: Value) -> Response<Stream> {
        let (sender, stream) = Stream::channel();
        let (answer, answered) = oneshot::channel();
        if let Some(session) = self.lock().get_mut(session) {
            session.question = Some(answer);
        }
        tokio::spawn(async move {
            let _ = sender.send(event(&question)).await;
            tokio::select! {
                answer = answered => {
                    let greeting = protocol::greeting(&id, &answer.unwrap_or_default());
                    let _ = sender.send(event(&greeting)).await;
                }
                () = sender.closed() => {}
            }
        });
        events(stream)
    }

    fn answered(&self, session: &str, answer: Value) {
        let question = self.lock().get_mut(session).and_then(|session| session.question.take());
        if let Some(question) = question {
            let _ = question.send(answer);
        }
    }

    /// The demo has nothing to say on its own account, but its stream is there.
    fn get(&self, request: &Request<Incoming>) -> Response<Stream> {
        if let Err(refusal) = self.session(request) {
            return refusal.into();
        }
        let (sender, stream) = Stream::channel();
        tokio::spawn(async move {
            while sender.send(Bytes::from_static(b": still here\n\n")).await.is_ok() {
                tokio::time::sleep(KEEP_ALIVE).await;
            }
        });
        events(stream)
    }

    fn delete(&self, request: &Request<Incoming>) -> Response<Stream> {
        match self.session(request) {
            Ok(id) => {
                self.lock().remove(&id);
                respond(StatusCode::OK, Stream::empty())
            }
            Err(refusal) => refusal.into(),
        }
    }

    /// The session that the request names.
    fn session(&self, request: &Request<Incoming>) -> Result<String, Refusal> {
        let id = request.headers().get(header::SESSION_ID).and_then(|id| id.to_str().ok());
        let Some(id) = id else {
            return Err(Refusal(StatusCode::BAD_REQUEST, "Mcp-Session-Id is missing"));
        };
        if !self.lock().contains_key(id) {
            return Err(Refusal(StatusCode::NOT_FOUND, "Session not found"));
        }
        Ok(id.to_owned())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        lock(&self.open)
    }
}

/// Why a request is turned away.
struct Refusal(StatusCode, &'static str);

impl From<Refusal> for Response<Stream> {
    fn from(Refusal(status, message): Refusal) -> Self {
        refuse(status, message)
    }
}

fn is_local(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    matches!(name, "127.0.0.1" | "localhost" | "[::1]")
}

fn stream_of(messages: Vec<(Duration, Value)>) -> Response<Stream> {
    let (sender, stream) = Stream::channel();
    tokio::spawn(async move {
        for (pause, message) in messages {
            tokio::time::sleep(pause).await;
            if sender.send(event(&message)).await.is_err() {
                return;
            }
        }
    });
    events(stream)
}

fn event(message: &Value) -> Bytes {
    Bytes::from(format!("event: message\ndata: {message}\n\n"))
}

fn events(stream: Stream) -> Response<Stream> {
    let mut response = respond(StatusCode::OK, stream);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, header::ACCEPT_EVENTS);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn refuse(status: StatusCode, message: &str) -> Response<Stream> {
    let error = json!({ "code": -32000, "message": message });
    json_body(status, &json!({ "jsonrpc": "2.0", "id": null, "error": error }))
}

fn json_body(status: StatusCode, value: &Value) -> Response<Stream> {
    let mut response = respond(status, Stream::of(Bytes::from(value.to_string())));
    response.headers_mut().insert(CONTENT_TYPE, header::JSON);
    response
}

fn respond(status: StatusCode, body: Stream) -> Response<Stream> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

/// A body that is all there, or comes bit by bit.
#[derive(Debug)]
enum Stream {
    Whole(Bytes),
    Pieces(mpsc::Receiver<Bytes>),
}

impl Stream {
    fn empty() -> Self {
        Self::Whole(Bytes::new())
    }

    fn of(bytes: Bytes) -> Self {
        Self::Whole(bytes)
    }

    fn channel() -> (mpsc::Sender<Bytes>, Self) {
        let (sender, receiver) = mpsc::channel(1);
        (sender, Self::Pieces(receiver))
    }
}

impl Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match &mut *self {
            Self::Whole(bytes) if bytes.is_empty() => None,
            Self::Whole(bytes) => Some(std::mem::take(bytes)),
            Self::Pieces(receiver) => std::task::ready!(receiver.poll_recv(context)),
        };
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            Self::Whole(bytes) => http_body::SizeHint::with_exact(bytes.len() as u64),
            Self::Pieces(_) => http_body::SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_answered() {
        // peers c 3: a page elsewhere must not reach us under a name of its own
        for host in ["127.0.0.1:80", "localhost:3000", "[::1]:1", "localhost"] {
            assert!(is_local(host), "{host}");
        }
        for host in ["", "evil.example:80", "localhost.evil.example:80", "10.0.0.1", "null"] {
            assert!(!is_local(host), "{host}");
        }
    }
}
