//! Sends one HTTP request and gives back the head of its answer, redirects followed by rule.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use http::{HeaderMap, Method, Response, Uri};
use tracing::debug;

use super::body::{Inbound, Progress, Withdrawal};
use super::connect::Connector;
use super::host::Host;
use super::recorder::Recorder;
use super::sleeps::Sleeps;
use super::{Endpoint, Options, fault, redirect};
use crate::error::{Error, ErrorKind};
use crate::limits;
use crate::lock::lock;

/// A pool of connections. Cheap to clone; connects on first use only.
///
/// That of hyper-util does the same for any number of hosts, protocols and waiting requests, and a
/// call pays for that: a fifth of all its instructions. There is one host here as a rule.
#[derive(Clone, Debug)]
pub struct HttpClient {
    connector: Arc<Connector>,
    hosts: Arc<Mutex<Hosts>>,
    recorder: Option<Recorder>,
}

#[derive(Debug, Default)]
struct Hosts {
    list: Vec<Arc<Host>>,
    sleeps: Sleeps,
}

/// One request.
#[derive(Clone)]
pub struct Call {
    /// The HTTP method.
    pub method: Method,
    /// Where to.
    pub endpoint: Arc<Endpoint>,
    /// All headers but those that HTTP itself needs. Shared: most calls of a session have the same.
    pub headers: Arc<HeaderMap>,
    /// The body; empty for none.
    pub body: Bytes,
    /// Which requests it may wait behind.
    pub lane: Lane,
    /// Notes when the request begins to leave.
    pub progress: Progress,
}

/// Which requests wait for each other where they share an HTTP/2 connection: a server takes only so
/// many of them at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lane {
    /// Its answer ends sooner or later: it waits for its turn.
    #[default]
    Calls,
    /// Must not wait behind calls, which may themselves wait for it.
    Urgent,
    /// A stream that stays open: nothing may wait behind it.
    Lasting,
}

/// Where redirects have led to; `None` if there were none.
#[must_use]
pub fn final_endpoint<B>(response: &Response<B>) -> Option<Arc<Endpoint>> {
    response.extensions().get().cloned()
}

/// Its headers are secrets, its body may be anything.
impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Call({} {}, {} bytes)", self.method, self.endpoint, self.body.len())
    }
}

impl HttpClient {
    /// A client that connects as `options` say, on first use.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        let (connector, recorder) = (Arc::new(Connector::new(options)), options.recorder.clone());
        Self { connector, hosts: Arc::default(), recorder }
    }

    /// How many times the machine has slept so far. What was connected before a sleep is dead, or
    /// soon will be: idle connections are given up here, streams by those who read them.
    #[must_use]
    pub fn sleeps(&self) -> u64 {
        self.hosts().sleeps.count
    }

    /// As if the machine had slept for an hour.
    #[cfg(test)]
    pub(crate) fn pretend_sleep(&self) {
        lock(&self.hosts).sleeps.pretend();
    }

    /// Sends `call`.
    ///
    /// # Errors
    ///
    /// When there is no answer, or one that redirects to where we do not follow.
    pub async fn send(&self, call: &Call) -> Result<Response<Inbound>, Error> {
        let Some(recorder) = &self.recorder else { return self.send_and_follow(call).await };
        let recording = recorder.begin(call);
        // Boxed, so that the usual way does not pay for its size.
        let mut answer = Box::pin(self.send_and_follow(call)).await;
        recording.answered(&mut answer);
        answer
    }

    async fn send_and_follow(&self, call: &Call) -> Result<Response<Inbound>, Error> {
        let _withdrawal = Withdrawal(call.progress.clone());
        // A copy is made where a redirect leads elsewhere, and only there.
        let mut call = Cow::Borrowed(call);
        for _ in 0..=limits::REDIRECTS {
            let mut response = self.exchange(&call).await?;
            let Some(next) = redirect::target(&call, &response)? else {
                if let Cow::Owned(moved) = call {
                    response.extensions_mut().insert(moved.endpoint);
                }
                return Ok(response);
            };
            call.to_mut().endpoint = Arc::new(Endpoint::new(&next)?);
        }
        let last = &call.endpoint;
        let message = format!("{last} redirected more than {} times in a row", limits::REDIRECTS);
        Err(Error::new(ErrorKind::Redirect, message).not_delivered())
    }

    /// One request and its answer. What the server has certainly not looked at goes out again.
    async fn exchange(&self, call: &Call) -> Result<Response<Inbound>, Error> {
        let mut tries = 0;
        loop {
            let host = self.host(call.endpoint.uri());
            let error = match host.send(call).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            tries += 1;
            if tries > limits::UNTOUCHED_TRIES || !fault::is_untouched(&error, &call.progress) {
                return Err(fault::explain(&error, call.endpoint.url(), &call.progress));
            }
            if fault::wants_http1(&error) {
                host.refuses_http2();
            }
            debug!("retry {tries} of {}: {error}", limits::UNTOUCHED_TRIES);
            call.progress.reset();
        }
    }

    /// All hosts, without connections that are older than the machine's last sleep: what slept along
    /// is dead, or soon will be, and a request that is written to it is lost in a way that nobody can
    /// tell from having been carried out.
    fn hosts(&self) -> MutexGuard<'_, Hosts> {
        let mut hosts = lock(&self.hosts);
        if hosts.sleeps.look() {
            debug!("the machine has slept: all connections are given up");
            for host in &mut hosts.list {
                *host = Arc::new(host.without_connections());
            }
        }
        hosts
    }

    /// The host of `uri`.
    pub(super) fn host(&self, uri: &Uri) -> Arc<Host> {
        let mut hosts = self.hosts();
        if let Some(host) = hosts.list.iter().find(|host| host.is_of(uri)) {
            return Arc::clone(host);
        }
        // Redirects may lead to ever new ones.
        hosts.list.retain(|host| Arc::strong_count(host) > 1 || host.is_known());
        let host = Arc::new(Host::new(uri, Arc::clone(&self.connector)));
        hosts.list.push(Arc::clone(&host));
        host
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use h2::server;
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::super::authority::Authority;
    use super::super::{Roots, TlsOptions};
    use super::*;
    use crate::error::Delivery;

    /// A client that trusts `authority` and loses patience soon.
    fn client(authority: &Authority) -> HttpClient {
        let mut roots = Roots::default();
        roots.add_pem(authority.root.as_bytes()).unwrap();
        let tls = TlsOptions { roots, ..TlsOptions::default() };
        let connect_timeout = Duration::from_secs(5);
        let mut connector = Connector::new(&Options { connect_timeout, tls, ..Options::default() });
        connector.ping_interval = Duration::from_millis(200);
        connector.ping_timeout = Duration::from_millis(200);
        HttpClient { connector: Arc::new(connector), hosts: Arc::default(), recorder: None }
    }

    #[tokio::test]
    async fn hosts_that_nobody_needs_are_forgotten() {
        let client = HttpClient::new(&Options::default());
        for n in 0..100 {
            client.host(&format!("http://host-{n}/").parse().unwrap());
        }
        let kept = client.host(&"http://host-7:80/x".parse().unwrap());
        assert!(kept.is_of(&"http://host-7:80/".parse().unwrap()));
        assert!(!kept.is_of(&"https://host-7:80/".parse().unwrap()));
        assert!(client.hosts.lock().unwrap().list.len() <= 2);
    }

    fn call(port: u16) -> Call {
        let url = format!("https://localhost:{port}/mcp").parse().unwrap();
        Call {
            method: Method::POST,
            endpoint: Arc::new(Endpoint::new(&url).unwrap()),
            headers: Arc::default(),
            body: Bytes::from_static(b"{}"),
            lane: Lane::Calls,
            progress: Progress::default(),
        }
    }

    /// Answers one request on its only connection, takes two more, and falls silent.
    async fn dies_with_two_requests(listener: TcpListener, acceptor: TlsAcceptor) {
        let (stream, _) = listener.accept().await.unwrap();
        drop(listener);
        let stream = acceptor.accept(stream).await.unwrap();
        let mut builder = server::Builder::new();
        let builder = builder.max_concurrent_streams(2);
        let mut connection = builder.handshake::<_, Bytes>(stream).await.unwrap();
        let (_, mut respond) = connection.accept().await.unwrap().unwrap();
        respond.send_response(Response::new(()), true).unwrap();
        let _first = connection.accept().await.unwrap().unwrap();
        let _second = connection.accept().await.unwrap().unwrap();
        // Not polled any more: neither pings nor requests are answered, nothing is closed.
        std::future::pending::<()>().await;
    }

    #[tokio::test]
    async fn a_connection_that_died_in_silence_is_noticed() {
        let authority = Authority::new("localhost");
        let acceptor = TlsAcceptor::from(Arc::new(authority.config(&["h2"])));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = tokio::spawn(dies_with_two_requests(listener, acceptor));
        let client = client(&authority);
        client.send(&call(port)).await.unwrap();
        let calls: Vec<Call> = (0..3).map(|_| call(port)).collect();
        let sending = calls.iter().cloned().map(|call| {
            let client = client.clone();
            tokio::spawn(async move { client.send(&call).await.map(drop).unwrap_err() })
        });
        let mut errors = Vec::new();
        for task in sending.collect::<Vec<_>>() {
            errors
                .push(tokio::time::timeout(Duration::from_secs(20), task).await.unwrap().unwrap());
        }
        for error in &errors[..2] {
            assert_eq!(
                (error.kind, error.delivery),
                (ErrorKind::Closed, Delivery::Unknown),
                "{error}"
            );
        }
        // It waited for a stream, then for a connection that nobody accepts any more.
        let last = &errors[2];
        assert_eq!(
            (last.kind, last.delivery),
            (ErrorKind::Connect, Delivery::NotDelivered),
            "{last}"
        );
        let begun: Vec<bool> = calls.iter().map(|call| call.progress.has_started()).collect();
        assert_eq!(begun, [true, true, false]);
        server.abort();
    }
}
