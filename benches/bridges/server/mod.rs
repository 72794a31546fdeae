//! The server that all contestants talk to: on loopback, in a thread of its own, doing nearly nothing.

mod body;
mod protocol;
mod sessions;
mod tls;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use self::body::Answer;
use self::protocol::{Protocol, Said};
use self::sessions::Sessions;
use crate::exchange::Fault;
use crate::way::Way;

/// Where the server is.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    plain: SocketAddr,
    secure: SocketAddr,
    /// The certificate of whoever vouches for it.
    pub(crate) root: PathBuf,
}

impl Server {
    /// Starts it; it lives as long as the program. `folder` gets the root certificate.
    pub(crate) fn start(folder: &Path) -> Result<Self, Fault> {
        let root = folder.join("root.pem");
        let acceptor = tls::acceptor(&root)?;
        let (tell, told) = mpsc::channel();
        std::thread::Builder::new().name("server".into()).spawn(move || {
            if let Err(error) = serve(acceptor, &tell) {
                let _ = tell.send(Err(error));
            }
        })?;
        let [plain, secure] = told.recv()??;
        Ok(Self { plain, secure, root })
    }

    /// Says where it is and serves until it is killed: for profilers, beside `floor`.
    pub(crate) fn stay(folder: &Path) -> Result<(), Fault> {
        let server = Self::start(folder)?;
        for way in [Way::Json, Way::Events, Way::Old, Way::Modern, Way::Secure] {
            println!("{}", server.url(way));
        }
        loop {
            std::thread::park();
        }
    }

    pub(crate) fn url(&self, way: Way) -> String {
        match way {
            Way::Secure => format!("https://{}{}", self.secure, way.path()),
            _ => format!("http://{}{}", self.plain, way.path()),
        }
    }
}

/// What all connections share.
#[derive(Default)]
struct Shared {
    protocol: Protocol,
    sessions: Sessions,
}

fn serve(
    acceptor: TlsAcceptor,
    tell: &mpsc::Sender<Result<[SocketAddr; 2], Fault>>,
) -> Result<(), Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let plain = TcpListener::bind(("127.0.0.1", 0)).await?;
        let secure = TcpListener::bind(("127.0.0.1", 0)).await?;
        tell.send(Ok([plain.local_addr()?, secure.local_addr()?]))?;
        let shared = Arc::new(Shared::default());
        loop {
            tokio::select! {
                accepted = plain.accept() => {
                    if let Some(stream) = ready(accepted).await {
                        tokio::spawn(connection(stream, Arc::clone(&shared)));
                    }
                }
                accepted = secure.accept() => {
                    let (acceptor, shared) = (acceptor.clone(), Arc::clone(&shared));
                    let Some(stream) = ready(accepted).await else { continue };
                    tokio::spawn(async move {
                        // A client that does not trust us says so itself.
                        if let Ok(stream) = acceptor.accept(stream).await {
                            connection(stream, shared).await;
                        }
                    });
                }
            }
        }
    })
}

/// A connection, or none if it is gone already or there are too many: then others get their turn.
async fn ready(accepted: std::io::Result<(TcpStream, SocketAddr)>) -> Option<TcpStream> {
    match accepted {
        Ok((stream, _)) => stream.set_nodelay(true).ok().map(|()| stream),
        Err(_) => {
            tokio::task::yield_now().await;
            None
        }
    }
}

async fn connection<S>(stream: S, shared: Arc<Shared>)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let service = service_fn(|request| answer(request, Arc::clone(&shared)));
    // A client that goes away is no fault.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(
    request: Request<Incoming>,
    shared: Arc<Shared>,
) -> Result<Response<Answer>, hyper::Error> {
    let path = request.uri().path();
    let way =
        [Way::Json, Way::Events, Way::Old, Way::Modern].into_iter().find(|w| w.path() == path);
    Ok(match (request.method(), way) {
        (&Method::GET, Some(Way::Old)) => shared.sessions.open(),
        (&Method::POST, None) if path == sessions::PATH => {
            let session = sessions::named_by(&request);
            let message = request.into_body().collect().await?.to_bytes();
            shared.sessions.post(session, shared.protocol.answer(&message, Way::Old)).await
        }
        (_, None) => empty(StatusCode::NOT_FOUND),
        (&Method::POST, Some(way)) if way != Way::Old => {
            let message = request.into_body().collect().await?.to_bytes();
            streamable(&shared.protocol, &message, way)
        }
        (&Method::DELETE, _) => empty(StatusCode::OK),
        _ => not_allowed(),
    })
}

fn streamable(protocol: &Protocol, message: &Bytes, way: Way) -> Response<Answer> {
    match protocol.answer(message, way) {
        Said::Nothing => empty(StatusCode::ACCEPTED),
        Said::Refusal(refusal) => {
            let mut response = json(Answer::whole(refusal));
            *response.status_mut() = StatusCode::BAD_REQUEST;
            response
        }
        Said::Welcome(welcome) => {
            let mut response = form(Answer::whole(welcome), way);
            let session = HeaderValue::from_static("3f2a9c0e-bench-session");
            response.headers_mut().insert("mcp-session-id", session);
            response
        }
        Said::Answer(pieces) => form(Answer::sized(pieces), way),
        // Notifications need a stream to come by, whatever the way.
        Said::Notifications { count, token, answer } => {
            events(Answer::notifications(count, &token, answer))
        }
    }
}

fn form(answer: Answer, way: Way) -> Response<Answer> {
    if way == Way::Events { events(answer.into_event()) } else { json(answer) }
}

fn json(answer: Answer) -> Response<Answer> {
    typed(answer, "application/json")
}

fn events(answer: Answer) -> Response<Answer> {
    typed(answer, "text/event-stream")
}

fn typed(answer: Answer, kind: &'static str) -> Response<Answer> {
    let mut response = Response::new(answer);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn empty(status: StatusCode) -> Response<Answer> {
    let mut response = Response::new(Answer::whole(Bytes::new()));
    *response.status_mut() = status;
    response
}

fn not_allowed() -> Response<Answer> {
    let mut response = empty(StatusCode::METHOD_NOT_ALLOWED);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST, DELETE"));
    response
}
