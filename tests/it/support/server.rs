//! A scripted HTTP server: it notes every request and replies as the test says.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::rustls::ServerConfig;

use super::http2::{self, Http2Behavior};
use super::reply::{Reply, Then};
use super::{Request, result, soon};

pub(super) type Script = Arc<dyn Fn(&Request) -> Reply + Send + Sync>;

/// Listens on a free port of the loopback interface as long as it lives.
pub(crate) struct Server {
    pub(crate) url: String,
    log: Arc<Log>,
    accepting: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
pub(super) struct Log {
    seen: Mutex<Seen>,
    changed: Notify,
    stop: Notify,
    /// HTTP/2: no more streams on the connections that there are.
    pub(super) goodbye: Notify,
    open: AtomicUsize,
}

#[derive(Clone, Default)]
pub(super) struct Seen {
    pub(super) requests: Vec<Request>,
    /// Requests whose connection the peer closed before the reply had ended.
    pub(super) abandoned: Vec<String>,
    connections: usize,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Listens at an address that was in use before. A connection of another test may have been given
/// the port meanwhile: it is waited for.
pub(crate) async fn bind_again(address: SocketAddr) -> TcpListener {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(error) if Instant::now() > until => panic!("{address} is not free again: {error}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

impl Server {
    /// Plain HTTP, with `script` for what it replies.
    pub(crate) async fn start(script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
        Self::accept(listener, url, Arc::new(script), |stream| async { Some(stream) })
    }

    /// The same at an address that a test has chosen.
    pub(crate) async fn start_at(
        address: SocketAddr,
        script: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = bind_again(address).await;
        let url = format!("http://{address}/mcp");
        Self::accept(listener, url, Arc::new(script), |stream| async { Some(stream) })
    }

    /// Closes all connections; new ones are accepted.
    pub(crate) fn close_connections(&self) {
        self.log.stop.notify_waiters();
    }

    /// Closes the listener and all connections.
    pub(crate) async fn stop(self) {
        // The listener first: whoever loses a connection must not find it open.
        self.accepting.abort();
        while !self.accepting.is_finished() {
            tokio::task::yield_now().await;
        }
        self.log.stop.notify_waiters();
        self.is_alone().await;
        // The other end learns of it when it is scheduled; a request that is written before is lost.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    /// Says goodbye on all HTTP/2 connections; new ones are accepted.
    pub(crate) fn say_goodbye(&self) {
        self.log.goodbye.notify_waiters();
    }

    /// Waits until all connections are closed.
    pub(crate) async fn is_alone(&self) {
        let closing = async {
            while self.log.open.load(Ordering::SeqCst) > 0 {
                tokio::task::yield_now().await;
            }
        };
        soon("the end of all connections", closing).await;
    }

    /// HTTPS for the name `localhost`, HTTP/1.1 or HTTP/2 as the client chooses.
    pub(crate) async fn start_tls(
        config: ServerConfig,
        script: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::start_tls_with(config, Http2Behavior::default(), script).await
    }

    /// The same with a manner of speaking HTTP/2.
    pub(crate) async fn start_tls_with(
        config: ServerConfig,
        manner: Http2Behavior,
        script: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let url = format!("https://localhost:{port}/mcp");
        let unprocessed = Arc::new(AtomicUsize::new(manner.unprocessed));
        Self::accept(listener, url, Arc::new(script), move |stream| {
            let (acceptor, unprocessed) = (acceptor.clone(), Arc::clone(&unprocessed));
            async move {
                let stream = acceptor.accept(stream).await.ok()?;
                if unprocessed.load(Ordering::SeqCst) > 0 {
                    unprocessed.fetch_sub(1, Ordering::SeqCst);
                    http2::go_away(stream).await;
                    return None;
                }
                Some((stream, manner))
            }
        })
    }

    fn accept<S, F>(
        listener: TcpListener,
        url: String,
        script: Script,
        open: impl Fn(TcpStream) -> F + Clone + Send + 'static,
    ) -> Self
    where
        S: Connection,
        F: Future<Output = Option<S>> + Send + 'static,
    {
        let log = Arc::new(Log::default());
        let noted = Arc::clone(&log);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                let (log, script) = (Arc::clone(&noted), Arc::clone(&script));
                log.change(|seen| seen.connections += 1);
                let opening = open(stream);
                tokio::spawn(async move {
                    let Some(stream) = opening.await else { return };
                    log.open.fetch_add(1, Ordering::SeqCst);
                    tokio::select! {
                        () = stream.converse(&log, script) => {}
                        () = log.stop.notified() => {}
                    }
                    log.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { url, log, accepting }
    }

    /// All requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.log.seen.lock().expect("no panic under the lock").requests.clone()
    }

    /// What was asked, in the order it came.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.requests().iter().map(Request::what).collect()
    }

    pub(crate) fn connections(&self) -> usize {
        self.log.seen.lock().expect("no panic under the lock").connections
    }

    /// The requests with this JSON-RPC or HTTP method.
    pub(crate) fn all(&self, what: &str) -> Vec<Request> {
        self.requests().into_iter().filter(|request| request.what() == what).collect()
    }

    /// Waits until a request `what` has come, and gives the first.
    pub(crate) async fn saw(&self, what: &str) -> Request {
        let seen = self.until(what, |seen| seen.requests.iter().any(|r| r.what() == what)).await;
        seen.requests.into_iter().find(|r| r.what() == what).expect("it was just there")
    }

    /// Waits until the client has answered something that this server has asked.
    pub(crate) async fn until_answer(&self) {
        let answered = |seen: &Seen| seen.requests.iter().any(|r| !r.json()["result"].is_null());
        self.until("an answer", answered).await;
    }

    /// Waits until the client has refused so many things that this server has asked.
    pub(crate) async fn until_refused(&self, count: usize) {
        let is_refusal = |r: &&Request| !r.json()["error"].is_null();
        let refused = |seen: &Seen| seen.requests.iter().filter(is_refusal).count() >= count;
        self.until("refusals", refused).await;
    }

    /// Waits until so many requests `what` have come.
    pub(crate) async fn saw_count(&self, what: &str, count: usize) {
        let enough =
            |seen: &Seen| seen.requests.iter().filter(|r| r.what() == what).count() >= count;
        self.until(what, enough).await;
    }

    /// Waits until the peer has given up the connection of a request `what`.
    pub(crate) async fn saw_abandoned(&self, what: &str) {
        self.until(what, |seen| seen.abandoned.iter().any(|w| w == what)).await;
    }

    /// The same for so many of them.
    pub(crate) async fn saw_abandoned_count(&self, what: &str, count: usize) {
        let enough = |seen: &Seen| seen.abandoned.iter().filter(|w| *w == what).count() >= count;
        self.until(what, enough).await;
    }

    /// How many connections of requests `what` the peer has given up.
    pub(crate) fn abandoned(&self, what: &str) -> usize {
        let seen = self.log.seen.lock().expect("no panic under the lock");
        seen.abandoned.iter().filter(|w| *w == what).count()
    }

    async fn until(&self, what: &str, reached: impl Fn(&Seen) -> bool) -> Seen {
        let waiting = async {
            loop {
                let changed = self.log.changed.notified();
                let seen = self.log.seen.lock().expect("no panic under the lock").clone();
                if reached(&seen) {
                    return seen;
                }
                changed.await;
            }
        };
        soon(&format!("{what} at the server"), waiting).await
    }
}

impl Log {
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Seen) -> T) -> T {
        let result = change(&mut self.seen.lock().expect("no panic under the lock"));
        self.changed.notify_waiters();
        result
    }
}

/// A connection on which the script is played.
trait Connection: Send + 'static {
    fn converse(self, log: &Arc<Log>, script: Script) -> impl Future<Output = ()> + Send;
}

/// A byte stream that can be reset.
pub(crate) trait Resettable: AsyncRead + AsyncWrite + Send + Unpin + 'static {
    fn reset(self);
}

pub(super) type Tls = tokio_rustls::server::TlsStream<TcpStream>;

impl Resettable for TcpStream {
    fn reset(self) {
        // Closing with a linger of zero sends a reset.
        let _ = self.set_zero_linger();
    }
}

impl Resettable for Tls {
    fn reset(self) {
        let _ = self.get_ref().0.set_zero_linger();
    }
}

impl Connection for TcpStream {
    async fn converse(self, log: &Arc<Log>, script: Script) {
        converse(self, log, script).await;
    }
}

impl Connection for (Tls, Http2Behavior) {
    async fn converse(self, log: &Arc<Log>, script: Script) {
        match self.0.get_ref().1.alpn_protocol() {
            Some(b"h2") => http2::converse(self.0, self.1, log, script).await,
            _ => converse(self.0, log, script).await,
        }
    }
}

async fn converse(mut stream: impl Resettable, log: &Log, script: Script) {
    while let Some(request) = Request::read(&mut stream).await {
        let what = request.what();
        let reply = script(&request);
        log.change(|seen| seen.requests.push(request));
        match reply.play(&mut stream).await {
            Then::NextRequest => {}
            Then::Close => {
                let _ = stream.shutdown().await;
                return;
            }
            Then::Reset => return stream.reset(),
            Then::PeerClosed => return log.change(|seen| seen.abandoned.push(what)),
        }
    }
}

/// What a well-behaved legacy server replies: session `s1`, JSON answers, no stream of its own.
pub(crate) fn polite(request: &Request) -> Reply {
    let json = request.json();
    if request.http_method == "GET" {
        return Reply::status(405, "", "");
    }
    if request.http_method == "DELETE" {
        return Reply::status(200, "", "");
    }
    if json.get("id").is_none() || json.get("method").is_none() {
        return Reply::accepted();
    }
    let id = request.id();
    match &*request.what() {
        // Modern requests have this header; they are served as well.
        what if request.header("mcp-method").is_some() => {
            let answer = format!(
                r#"{{"resultType":"complete","supportedVersions":["2026-07-28"],"did":"{what}"}}"#
            );
            Reply::json(result(id, &answer))
        }
        "initialize" => {
            let version = json["params"]["protocolVersion"].as_str().unwrap_or("2025-06-18");
            let answer = format!(
                r#"{{"protocolVersion":"{version}","capabilities":{{}},"serverInfo":{{"name":"s","version":"1"}}}}"#
            );
            Reply::json(result(id, &answer)).header("Mcp-Session-Id", "s1")
        }
        what => Reply::json(result(id, &format!(r#"{{"did":"{what}"}}"#))),
    }
}
