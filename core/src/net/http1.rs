//! HTTP/1.1: one request at a time on a connection, which rests afterwards and is used again.
//!
//! The pool of hyper-util does the same for any protocol and any number of hosts, and a call pays
//! for that: a fifth of all its instructions. There is one host here as a rule.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{Extensions, Response, Uri};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::client::legacy::connect::{Connection as _, HttpInfo};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tower_service::Service;
use tracing::debug;

use super::Call;
use super::body::{Inbound, Outbound};
use super::connect::Connector;
use super::fault::Failure;
use super::protocol::Stream;
use super::proxy::Proxy;
use super::request::HeaderCache;
use crate::limits;

/// Connections to any number of hosts.
#[derive(Debug)]
pub(super) struct Http1 {
    connector: Connector,
    hosts: Mutex<Vec<Arc<Host>>>,
}

impl Http1 {
    pub(super) fn new(connector: Connector) -> Self {
        Self { connector, hosts: Mutex::default() }
    }

    /// Sends `call` and gives back the head of the answer; `forwarder` is the proxy that passes
    /// requests on, if one does.
    pub(super) async fn send(
        &self,
        call: &Call,
        forwarder: Option<&Arc<Proxy>>,
    ) -> Result<Response<Inbound>, Failure> {
        let host = self.host(call.endpoint.uri());
        loop {
            let mut connection = host.connection(&self.connector).await?;
            let request = host.lock().header_cache.request(call, forwarder);
            let sending = connection.sender.try_send_request(request);
            match sending.await {
                Ok(response) => {
                    call.progress.note_peer(connection.peer);
                    let lease = host.have_back(connection);
                    return Ok(response.map(|body| Inbound::new(body, lease)));
                }
                // It was closed while it rested, and none of the request was written.
                Err(error) if error.message().is_some() && connection.was_used => {
                    debug!("a connection has ended while it was idle");
                }
                Err(error) => return Err(Failure::Broken(error.into_error())),
            }
        }
    }

    fn host(&self, uri: &Uri) -> Arc<Host> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(host) = hosts.iter().find(|host| host.is_of(uri)) {
            return Arc::clone(host);
        }
        // Redirects may lead to ever new ones.
        hosts.retain(|host| Arc::strong_count(host) > 1 || !host.lock().connections.is_empty());
        let host = Arc::new(Host::new(uri));
        hosts.push(Arc::clone(&host));
        host
    }
}

/// One host, and the connections to it that rest.
#[derive(Debug)]
struct Host {
    /// Scheme and authority.
    origin: Uri,
    resting: Mutex<Resting>,
    /// Somebody who waits for a new connection can have an old one.
    came_back: Notify,
}

#[derive(Debug, Default)]
struct Resting {
    /// Each with how long it had rested at most when it was last looked at; the last to come is the
    /// first to go, as it is the freshest.
    connections: Vec<(Connection, Duration)>,
    /// Somebody looks after those that rest for too long.
    is_watched: bool,
    /// When it was last looked at them.
    looked: Option<Instant>,
    /// What most requests have in common.
    header_cache: HeaderCache,
}

impl Resting {
    /// Looks who rests, and lets go of those that may have rested for too long; `false` if nobody is
    /// left to look after.
    fn look(&mut self, now: Instant) -> bool {
        let passed = self.looked.replace(now).map_or(Duration::ZERO, |looked| now - looked);
        self.connections.retain_mut(|(_, rested)| {
            *rested += passed;
            *rested < limits::POOL_IDLE
        });
        self.is_watched = !self.connections.is_empty();
        self.is_watched
    }
}

/// An open connection.
#[derive(Debug)]
struct Connection {
    sender: SendRequest<Outbound>,
    /// Whoever is at the other end, unless that is a proxy.
    peer: Option<IpAddr>,
    was_used: bool,
}

impl Host {
    fn new(uri: &Uri) -> Self {
        let mut parts = uri.clone().into_parts();
        parts.path_and_query = Some(PathAndQuery::from_static("/"));
        let origin = Uri::from_parts(parts).unwrap_or_else(|_| uri.clone());
        Self { origin, resting: Mutex::default(), came_back: Notify::new() }
    }

    fn is_of(&self, uri: &Uri) -> bool {
        // As text: an authority would be compared without regard to case, letter by letter.
        self.origin.scheme() == uri.scheme() && authority(&self.origin) == authority(uri)
    }

    fn lock(&self) -> MutexGuard<'_, Resting> {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that rests, or a new one, or one that comes back before the new one is open.
    async fn connection(self: &Arc<Self>, connector: &Connector) -> Result<Connection, Failure> {
        if let Some(connection) = self.rested() {
            return Ok(connection);
        }
        let mut opening = Box::pin(open(connector.clone(), self.origin.clone()));
        loop {
            tokio::select! {
                biased;
                opened = &mut opening => return opened,
                () = self.came_back.notified() => {
                    if let Some(connection) = self.rested() {
                        let host = Arc::clone(self);
                        // It would be a pity about the other; it has its own limit.
                        tokio::spawn(async move {
                            if let Ok(opened) = opening.await {
                                host.rest(opened);
                            }
                        });
                        return Ok(connection);
                    }
                }
            }
        }
    }

    fn rested(&self) -> Option<Connection> {
        let now = Instant::now();
        let mut resting = self.lock();
        // Whoever looks after them has no turn while the runtime stands still, and goes with it.
        if resting.looked.is_some_and(|looked| now - looked >= 2 * limits::POOL_LOOK) {
            resting.look(now);
            resting.is_watched = false;
        }
        let mut freshest_first = std::iter::from_fn(|| resting.connections.pop());
        let ready = freshest_first.find(|(connection, _)| connection.sender.is_ready());
        ready.map(|(connection, _)| connection)
    }

    /// Its request is answered. It rests if all of the answer has come; else whoever reads the rest
    /// has it for so long.
    fn have_back(self: &Arc<Self>, mut connection: Connection) -> Option<Lease> {
        connection.was_used = true;
        if connection.sender.is_ready() {
            self.rest(connection);
            return None;
        }
        Some(Lease { host: Arc::downgrade(self), connection: Some(connection) })
    }

    fn rest(self: &Arc<Self>, connection: Connection) {
        let mut resting = self.lock();
        resting.connections.push((connection, Duration::ZERO));
        if !std::mem::replace(&mut resting.is_watched, true) {
            resting.looked = Some(Instant::now());
            tokio::spawn(watch(Arc::downgrade(self)));
        }
        drop(resting);
        self.came_back.notify_one();
    }
}

/// A connection on which an answer comes, for as long as it is read.
#[derive(Debug)]
pub(super) struct Lease {
    host: Weak<Host>,
    connection: Option<Connection>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let (Some(host), Some(mut connection)) = (self.host.upgrade(), self.connection.take())
        else {
            return;
        };
        if connection.sender.is_ready() {
            return host.rest(connection);
        }
        // It is about to be, if all was read; it closes if not. Where there is no runtime any more,
        // there are no connections either.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                if connection.sender.ready().await.is_ok() {
                    host.rest(connection);
                }
            });
        }
    }
}

fn authority(uri: &Uri) -> &str {
    uri.authority().map_or("", |authority| authority.as_str())
}

/// Closes connections that have rested for too long, as long as there are any.
///
/// It looks now and then, and adds up what has passed: nobody has to look at a clock when a
/// connection comes back. Looks cannot be counted instead, as a program that was stopped for an hour
/// looks once in it.
async fn watch(host: Weak<Host>) {
    loop {
        tokio::time::sleep(limits::POOL_LOOK).await;
        let Some(host) = host.upgrade() else { return };
        if !host.lock().look(Instant::now()) {
            return;
        }
    }
}

/// Opens a connection that is ready for its first request.
async fn open(mut connector: Connector, origin: Uri) -> Result<Connection, Failure> {
    let is_direct = connector.proxies.of(&origin).is_none();
    let stream = connector.call(origin).await?;
    let peer = peer(&stream).filter(|_| is_direct);
    let mut http1 = http1::Builder::new();
    http1.max_buf_size(limits::HTTP1_BUFFER).max_headers(limits::HTTP1_HEADERS);
    let (mut sender, connection) = http1.handshake(stream).await?;
    let (tell, told) = oneshot::channel();
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            debug!("a connection has ended: {error}");
            let _ = tell.send(error);
        }
    });
    match sender.ready().await {
        Ok(()) => Ok(Connection { sender, peer, was_used: false }),
        // The connection itself knows more of why it has ended.
        Err(error) => Err(Failure::Broken(told.await.unwrap_or(error))),
    }
}

fn peer(stream: &Stream) -> Option<IpAddr> {
    let mut extras = Extensions::new();
    stream.connected().get_extras(&mut extras);
    extras.get::<HttpInfo>().map(|info| info.remote_addr().ip())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::Method;
    use http_body_util::BodyExt;
    use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::JoinHandle;
    use tokio_rustls::TlsAcceptor;

    use super::super::authority::Authority;
    use super::super::tls::LazyTls;
    use super::super::{Endpoint, Lane, Options, Progress, Roots, TlsOptions, Trust};
    use super::*;

    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

    fn http1(tls: LazyTls) -> Arc<Http1> {
        Arc::new(Http1::new(Connector::new(&Options::default(), tls)))
    }

    fn plain() -> Arc<Http1> {
        http1(LazyTls::new(TlsOptions::default()))
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

    async fn send(http1: &Http1, call: &Call) -> Bytes {
        let response = http1.send(call, None).await.unwrap();
        response.into_body().collect().await.unwrap().to_bytes()
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
        let http1 = plain();
        assert_eq!(send(&http1, &call).await, "{}");
        assert_eq!(send(&http1, &call).await, "{}");
        assert!(call.progress.peer().unwrap().is_loopback());
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
        let http1 = plain();
        for _ in 0..20 {
            assert_eq!(send(&http1, &call).await, "{}");
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
    async fn rests_after(http1: &Http1, call: &Call) -> Arc<Host> {
        send(http1, call).await;
        let host = http1.host(call.endpoint.uri());
        let resting = async {
            while host.lock().connections.is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), resting).await.expect("it rests");
        host
    }

    #[tokio::test]
    async fn one_that_has_rested_for_too_long_is_not_used() {
        let (call, server) = two_connections().await;
        let http1 = plain();
        let host = rests_after(&http1, &call).await;
        let now = Instant::now();
        assert!(host.lock().look(now + limits::POOL_IDLE / 2), "it may rest for longer");
        assert!(!host.lock().look(now + limits::POOL_IDLE * 2), "nobody is left");
        send(&http1, &call).await;
        server.await.unwrap();
    }

    #[tokio::test]
    async fn nor_where_nobody_looked_after_it() {
        let (call, server) = two_connections().await;
        let http1 = plain();
        let host = rests_after(&http1, &call).await;
        // As if the runtime had stood still, or had been another.
        let long_ago = Instant::now().checked_sub(limits::POOL_IDLE).unwrap();
        host.lock().looked = Some(long_ago);
        rests_after(&http1, &call).await;
        let _open = server.await.unwrap();
        assert!(host.lock().is_watched);
        assert!(host.lock().looked.unwrap() > long_ago);
    }

    #[tokio::test]
    async fn whoever_waits_for_a_new_one_takes_one_that_comes_back() {
        let authority = Authority::new("localhost");
        let acceptor = TlsAcceptor::from(Arc::new(authority.config(&["http/1.1"])));
        let mut roots = Roots::default();
        roots.add_pem(authority.root.as_bytes()).unwrap();
        let trust = Trust::Platform { roots, files: Vec::new() };
        let http1 = http1(LazyTls::new(TlsOptions { trust, ..TlsOptions::default() }));
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
        let both = async { tokio::join!(send(&http1, &call), send(&http1, &call)) };
        let both = tokio::time::timeout(Duration::from_secs(20), both).await;
        assert_eq!(both.expect("in time"), (Bytes::from("{}"), Bytes::from("{}")));
        server.await.unwrap();
    }

    #[tokio::test]
    async fn hosts_that_nobody_needs_are_forgotten() {
        let http1 = plain();
        for n in 0..100 {
            http1.host(&format!("http://host-{n}/").parse().unwrap());
        }
        let kept = http1.host(&"http://host-7:80/x".parse().unwrap());
        assert!(kept.is_of(&"http://host-7:80/".parse().unwrap()));
        assert!(!kept.is_of(&"https://host-7:80/".parse().unwrap()));
        assert!(http1.hosts.lock().unwrap().len() <= 2);
    }
}
