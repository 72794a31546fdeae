//! The connections to one host: those that are idle, and those that requests share.

use std::sync::{Arc, Mutex, MutexGuard, Weak};

use http::uri::{Authority, PathAndQuery};
use http::{Response, StatusCode, Uri};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tracing::debug;

use super::body::Inbound;
use super::client::{Call, Lane};
use super::connect::{ConnectFault, Connector};
use super::connection::{Connection, Http1, Http2};
use super::fault::RequestFailure;
use super::proxy::Proxy;
use super::proxy_fault::{ProxyFault, Refused};
use super::request::{HeaderCache, over_http2};
use super::tls::{HTTP_1_ONLY, HTTP_2_OR_1};
use crate::limits;
use crate::lock::lock;

/// One host, and the connections to it.
#[derive(Debug)]
pub(super) struct Host {
    connector: Arc<Connector>,
    /// Scheme and authority.
    origin: Uri,
    /// What connections go through.
    proxy: Option<Arc<Proxy>>,
    state: Mutex<HostState>,
    /// Let one request at a time open a shared connection for calls, or for what is urgent.
    opening: [Semaphore; 2],
    /// Somebody who waits for a new HTTP/1.1 connection can have an old one.
    came_back: Notify,
}

#[derive(Debug, Default)]
struct HostState {
    /// Its last connection has shown that.
    speaks_http2: bool,
    /// It has said that it wants HTTP/1.1, whatever it negotiates.
    refuses_http2: bool,
    /// Idle connections, each with the time since when; the last to come is the first to go, as it
    /// is the freshest.
    http1: Vec<(Http1, Instant)>,
    /// One for calls and one for what is urgent, each with the time when it was last asked for. A
    /// server takes only so many requests at once on a connection, and long calls may hold them all;
    /// what must not wait behind them needs another.
    http2: [Option<(Http2, Instant)>; 2],
    /// Closes those that are idle for too long, as long as there are any.
    watch: Option<AbortHandle>,
    /// What most requests have in common.
    header_cache: HeaderCache,
}

impl HostState {
    /// Lets go of connections that will have been idle for too long when it is looked again; `false`
    /// if there are no others.
    fn close_idle(&mut self) -> bool {
        let now = Instant::now();
        self.http1.retain(|(_, since)| now - *since < limits::POOL_IDLE - limits::POOL_LOOK);
        for shared in &mut self.http2 {
            shared.take_if(|(_, asked)| now - *asked >= limits::HTTP2_IDLE);
        }
        let has_connections = self.has_connections();
        if !has_connections {
            self.watch = None;
        }
        has_connections
    }

    fn has_connections(&self) -> bool {
        !self.http1.is_empty() || self.http2.iter().any(Option::is_some)
    }

    /// The place of the HTTP/2 connection for `lane`, which is empty if that has to be opened yet.
    fn slot(&mut self, lane: Lane) -> &mut Option<(Http2, Instant)> {
        let slot = &mut self.http2[usize::from(lane == Lane::Urgent)];
        slot.take_if(|(connection, _)| !connection.sender.is_ready());
        slot
    }
}

impl Host {
    pub(super) fn new(uri: &Uri, connector: Arc<Connector>) -> Self {
        let mut parts = uri.clone().into_parts();
        parts.path_and_query = Some(PathAndQuery::from_static("/"));
        let origin = Uri::from_parts(parts).unwrap_or_else(|_| uri.clone());
        let proxy = connector.options.proxies.of(&origin).cloned();
        let opening = [Semaphore::new(1), Semaphore::new(1)];
        let (state, came_back) = Default::default();
        Self { connector, origin, proxy, state, opening, came_back }
    }

    /// The same host with all that was learnt of it, and without any connection.
    pub(super) fn without_connections(&self) -> Self {
        let HostState { speaks_http2, refuses_http2, .. } = *self.lock();
        let state = Mutex::new(HostState { speaks_http2, refuses_http2, ..HostState::default() });
        Self { state, ..Self::new(&self.origin, Arc::clone(&self.connector)) }
    }

    pub(super) fn is_of(&self, uri: &Uri) -> bool {
        // As text: an authority would be compared without regard to case, letter by letter.
        let authority = uri.authority().map(Authority::as_str);
        self.origin.scheme() == uri.scheme()
            && self.origin.authority().map(Authority::as_str) == authority
    }

    /// Whether there is something to remember of it.
    pub(super) fn is_known(&self) -> bool {
        let state = self.lock();
        state.has_connections() || state.refuses_http2 || state.speaks_http2
    }

    /// It has said that it wants HTTP/1.1, after all.
    pub(super) fn refuses_http2(&self) {
        let mut state = self.lock();
        (state.speaks_http2, state.refuses_http2) = (false, true);
    }

    fn lock(&self) -> MutexGuard<'_, HostState> {
        lock(&self.state)
    }

    /// The proxy that passes requests on, if one does.
    fn forwarder(&self) -> Option<&Arc<Proxy>> {
        self.proxy.as_ref().filter(|proxy| proxy.forwards(&self.origin))
    }

    /// Sends `call` and gives back the head of the answer.
    pub(super) async fn send(
        self: &Arc<Self>,
        call: &Call,
    ) -> Result<Response<Inbound>, RequestFailure> {
        loop {
            let mut connection = match self.connection(call.lane).await? {
                Connection::Http1(connection) => connection,
                Connection::Http2(mut connection) => {
                    // Boxed, so that HTTP/1.1 does not pay for its size.
                    let sending = Box::pin(connection.sender.send_request(over_http2(call)));
                    let response = sending.await.map_err(RequestFailure::Http2)?;
                    let peer = connection.peer;
                    return Ok(response.map(|body| Inbound {
                        body,
                        peer,
                        _lease: None,
                        recording: None,
                    }));
                }
            };
            let forwarder = self.forwarder();
            let request = self.lock().header_cache.request(call, forwarder.map(Arc::as_ref));
            match connection.sender.try_send_request(request).await {
                Ok(response) => {
                    let (peer, lease) = (connection.peer, self.have_back(connection));
                    if response.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED
                        && let Some(proxy) = forwarder
                    {
                        let refused = ProxyFault::Login(Refused::of(&response));
                        return Err(ConnectFault::Proxy(Arc::clone(proxy), refused).into());
                    }
                    return Ok(response.map(|body| Inbound {
                        body,
                        peer,
                        _lease: lease,
                        recording: None,
                    }));
                }
                // It was closed while it was idle, and none of the request was written.
                Err(error) if error.message().is_some() && connection.was_used => {
                    debug!("a connection has ended while it was idle");
                }
                Err(error) => return Err(RequestFailure::Http1(error.into_error())),
            }
        }
    }

    /// An idle connection, or a new one, or one that comes back before the new one is open.
    async fn connection(self: &Arc<Self>, lane: Lane) -> Result<Connection, RequestFailure> {
        if let Some(connection) = self.idle() {
            return Ok(Connection::Http1(connection));
        }
        if self.lock().speaks_http2 {
            return Box::pin(self.http2(lane)).await;
        }
        let mut opening = Box::pin(Arc::clone(self).open());
        loop {
            tokio::select! {
                biased;
                opened = &mut opening => return Ok(self.share(opened?, lane)),
                () = self.came_back.notified() => {
                    if let Some(connection) = self.idle() {
                        let host = Arc::clone(self);
                        // It would be a pity about the other; it has its own limit.
                        tokio::spawn(async move {
                            if let Ok(opened) = opening.await
                                && let Connection::Http1(opened) = host.share(opened, Lane::Calls)
                            {
                                host.keep(opened);
                            }
                        });
                        return Ok(Connection::Http1(connection));
                    }
                }
            }
        }
    }

    /// The connection that requests share; a new one for a stream that lasts. A server may take a
    /// single request at a time on each, and does not always tell how many it takes.
    async fn http2(self: &Arc<Self>, lane: Lane) -> Result<Connection, RequestFailure> {
        if lane == Lane::Lasting {
            return Arc::clone(self).open().await;
        }
        if let Some(shared) = self.shared(lane) {
            return Ok(shared);
        }
        let opening = async {
            let _turn = self.opening[usize::from(lane == Lane::Urgent)].acquire().await;
            match self.shared(lane) {
                Some(shared) => Ok(shared),
                None => Ok(self.share(Arc::clone(self).open().await?, lane)),
            }
        };
        // One request at a time opens the connection; the others would wait for each of those before
        // them, but all have the same limit.
        let limit = self.connector.options.connect_timeout;
        let opened = tokio::time::timeout(limit, opening).await;
        opened.unwrap_or_else(|_| Err(ConnectFault::Timeout(limit, self.proxy.clone()).into()))
    }

    async fn open(self: Arc<Self>) -> Result<Connection, RequestFailure> {
        let offer = if self.lock().refuses_http2 { HTTP_1_ONLY } else { HTTP_2_OR_1 };
        let proxy = self.proxy.as_ref();
        let stream = self.connector.connect(&self.origin, proxy, offer).await?;
        let opened = Connection::on(stream, proxy.is_none(), &self.connector).await?;
        self.lock().speaks_http2 = matches!(opened, Connection::Http2(_));
        Ok(opened)
    }

    /// Lets others have a new HTTP/2 connection, too. Of several that were opened at the same time,
    /// the first one counts.
    fn share(self: &Arc<Self>, opened: Connection, lane: Lane) -> Connection {
        match opened {
            Connection::Http2(opened) if lane != Lane::Lasting => {
                let since = Instant::now();
                self.lock().slot(lane).get_or_insert_with(|| (opened.clone(), since));
                self.shared(lane).unwrap_or(Connection::Http2(opened))
            }
            opened => opened,
        }
    }

    /// The HTTP/2 connection for `lane`, unless it has to be opened yet.
    fn shared(self: &Arc<Self>, lane: Lane) -> Option<Connection> {
        let mut state = self.lock();
        let (shared, asked) = state.slot(lane).as_mut()?;
        *asked = Instant::now();
        let shared = Connection::Http2(shared.clone());
        self.watch(&mut state);
        Some(shared)
    }

    /// An idle connection that is open.
    fn idle(&self) -> Option<Http1> {
        let now = Instant::now();
        let mut state = self.lock();
        let mut freshest_first = std::iter::from_fn(|| state.http1.pop());
        // Nobody has looked after them while the runtime stood still.
        let fresh = |since| now - since < limits::POOL_IDLE;
        let ready = freshest_first.find(|(idle, since)| fresh(*since) && idle.sender.is_ready());
        ready.map(|(connection, _)| connection)
    }

    /// Its request is answered. It is idle if all of the answer has come; else whoever reads the rest
    /// has it for so long.
    fn have_back(self: &Arc<Self>, mut connection: Http1) -> Option<Lease> {
        connection.was_used = true;
        if connection.sender.is_ready() {
            self.keep(connection);
            return None;
        }
        Some(Lease { host: Arc::downgrade(self), connection: Some(connection) })
    }

    fn keep(self: &Arc<Self>, connection: Http1) {
        let mut state = self.lock();
        state.http1.push((connection, Instant::now()));
        self.watch(&mut state);
        drop(state);
        self.came_back.notify_one();
    }

    fn watch(self: &Arc<Self>, state: &mut HostState) {
        // It may have gone with its runtime.
        if state.watch.as_ref().is_none_or(AbortHandle::is_finished) {
            state.watch = Some(tokio::spawn(watch(Arc::downgrade(self))).abort_handle());
        }
    }
}

/// A connection on which an answer comes, for as long as it is read.
#[derive(Debug)]
pub(super) struct Lease {
    host: Weak<Host>,
    connection: Option<Http1>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let (Some(host), Some(mut connection)) = (self.host.upgrade(), self.connection.take())
        else {
            return;
        };
        if connection.sender.is_ready() {
            return host.keep(connection);
        }
        // It is about to be, if all was read; it closes if not. Where there is no runtime any more,
        // there are no connections either.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                if connection.sender.ready().await.is_ok() {
                    host.keep(connection);
                }
            });
        }
    }
}

/// Closes connections that have been idle for too long, as long as there are any.
async fn watch(host: Weak<Host>) {
    loop {
        tokio::time::sleep(limits::POOL_LOOK).await;
        let Some(host) = host.upgrade() else { return };
        if !host.lock().close_idle() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use http::Method;
    use http_body_util::BodyExt;
    use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::JoinHandle;
    use tokio_rustls::TlsAcceptor;

    use super::super::authority::Authority;
    use super::super::{Endpoint, HttpClient, Options, Progress, Roots, TlsOptions};
    use super::*;

    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

    fn plain() -> HttpClient {
        HttpClient::new(&Options::default())
    }

    async fn listener(scheme: &str) -> (TcpListener, Call) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = format!("{scheme}://localhost:{port}/mcp?a=b").parse().unwrap();
        let call = Call {
            method: Method::POST,
            endpoint: Arc::new(Endpoint::new(&url).unwrap()),
            headers: Arc::default(),
            body: Bytes::from_static(b"[]"),
            lane: Lane::Calls,
            progress: Progress::default(),
        };
        (listener, call)
    }

    /// Reads one request, which ends with its body.
    async fn request(stream: &mut (impl AsyncRead + Unpin)) -> String {
        let mut text = Vec::new();
        while !text.ends_with(b"\r\n\r\n[]") {
            assert_ne!(stream.read_buf(&mut text).await.unwrap(), 0, "it ended");
        }
        String::from_utf8(text).unwrap()
    }

    async fn answer(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> String {
        let request = request(stream).await;
        stream.write_all(ANSWER).await.unwrap();
        request
    }

    async fn send(client: &HttpClient, call: &Call) -> Bytes {
        let response = client.host(call.endpoint.uri()).send(call).await.unwrap();
        response.into_body().body.collect().await.unwrap().to_bytes()
    }

    #[tokio::test]
    async fn a_connection_is_used_again_and_the_request_has_what_a_server_needs() {
        let (listener, call) = listener("http").await;
        let port = listener.local_addr().unwrap().port();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            drop(listener);
            (answer(&mut stream).await, answer(&mut stream).await)
        });
        let client = plain();
        assert_eq!(send(&client, &call).await, "{}");
        let response = client.host(call.endpoint.uri()).send(&call).await.unwrap().into_body();
        assert!(response.peer.unwrap().is_loopback());
        assert_eq!(response.body.collect().await.unwrap().to_bytes(), "{}");
        let (first, second) = server.await.unwrap();
        assert_eq!(first, second);
        assert!(first.starts_with("POST /mcp?a=b HTTP/1.1\r\n"), "{first}");
        assert!(first.contains(&format!("host: localhost:{port}\r\n")), "{first}");
    }

    #[tokio::test]
    async fn one_that_has_ended_while_it_rested_costs_no_request() {
        let (listener, call) = listener("http").await;
        let server = tokio::spawn(async move {
            let mut requests = Vec::new();
            for _ in 0..20 {
                let (mut stream, _) = listener.accept().await.unwrap();
                requests.push(answer(&mut stream).await);
            }
            requests.len()
        });
        let client = plain();
        for _ in 0..20 {
            assert_eq!(send(&client, &call).await, "{}");
        }
        assert_eq!(server.await.unwrap(), 20);
    }

    /// A server that answers once on each of two connections, and leaves both open.
    async fn two_connections() -> (Call, JoinHandle<[TcpStream; 2]>) {
        let (listener, call) = listener("http").await;
        let server = tokio::spawn(async move {
            let (mut first, _) = listener.accept().await.unwrap();
            answer(&mut first).await;
            let (mut second, _) = listener.accept().await.unwrap();
            answer(&mut second).await;
            [first, second]
        });
        (call, server)
    }

    /// The host of `call`, which is sent, as soon as its connection rests.
    async fn rests_after(client: &HttpClient, call: &Call) -> Arc<Host> {
        send(client, call).await;
        let host = client.host(call.endpoint.uri());
        let resting = async {
            while host.lock().http1.is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), resting).await.expect("it rests");
        host
    }

    #[tokio::test]
    async fn one_that_has_rested_for_too_long_is_not_used() {
        let (call, server) = two_connections().await;
        let client = plain();
        let host = rests_after(&client, &call).await;
        assert!(host.lock().close_idle(), "it may rest for longer");
        host.lock().http1[0].1 -= limits::POOL_IDLE / 2;
        assert!(host.lock().close_idle(), "it may still");
        host.lock().http1[0].1 -= limits::POOL_IDLE / 2;
        assert!(!host.lock().close_idle(), "nobody is left");
        send(&client, &call).await;
        server.await.unwrap();
    }

    #[tokio::test]
    async fn nor_where_nobody_looked_after_it() {
        let (call, server) = two_connections().await;
        let client = plain();
        let host = rests_after(&client, &call).await;
        // As if the runtime had stood still, or had been another.
        host.lock().http1[0].1 -= limits::POOL_IDLE;
        host.lock().watch.take().unwrap().abort();
        rests_after(&client, &call).await;
        let _open = server.await.unwrap();
        assert!(host.lock().watch.as_ref().is_some_and(|watch| !watch.is_finished()));
    }

    #[tokio::test]
    async fn whoever_waits_for_a_new_one_takes_one_that_comes_back() {
        let authority = Authority::new("localhost");
        let acceptor = TlsAcceptor::from(Arc::new(authority.config(&["http/1.1"])));
        let mut roots = Roots::default();
        roots.add_pem(authority.root.as_bytes()).unwrap();
        let tls = TlsOptions { roots, ..TlsOptions::default() };
        let client = HttpClient::new(&Options { tls, ..Options::default() });
        let (listener, call) = listener("https").await;
        let server = tokio::spawn(async move {
            let (first, _) = listener.accept().await.unwrap();
            let mut first = acceptor.accept(first).await.unwrap();
            request(&mut first).await;
            // The other is never opened: its handshake has no answer.
            let (_second, _) = listener.accept().await.unwrap();
            first.write_all(ANSWER).await.unwrap();
            answer(&mut first).await;
        });
        let both = async { tokio::join!(send(&client, &call), send(&client, &call)) };
        let both = tokio::time::timeout(Duration::from_secs(20), both).await;
        assert_eq!(both.expect("in time"), (Bytes::from("{}"), Bytes::from("{}")));
        server.await.unwrap();
    }
}
