//! Keeps the connections that an HTTP client opens, and what it sends and receives, for whoever draws
//! conclusions from that afterwards.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode, Version};
use rustls::ProtocolVersion;
use tokio::sync::watch;
use tokio_rustls::client::TlsStream;
use url::Url;

use super::body::Inbound;
use super::certificate::Certificate;
use super::client::{Call, final_endpoint};
use super::proxy::Proxy;
use super::tls_fault::TlsFault;
use crate::error::Error;
use crate::limits;
use crate::secret::shown;

/// The connections and exchanges of one client, in the order in which they began. Clones share them.
///
/// Nothing is hidden in it: credentials stand in headers as they were sent.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Arc<watch::Sender<Recorded>>);

#[derive(Debug, Default)]
struct Recorded {
    connections: Vec<RecordedConnection>,
    exchanges: Vec<RecordedExchange>,
}

/// A connection, as far as it came: each step with the time that it took.
#[derive(Clone, Debug, Default)]
pub struct RecordedConnection {
    /// What stands in between.
    pub proxy: Option<Arc<Proxy>>,
    /// The addresses of the host, if they were looked up here.
    pub names: Option<(Vec<IpAddr>, Duration)>,
    /// The address at the other end; `None` in it if that is a proxy's.
    pub reached: Option<(Option<SocketAddr>, Duration)>,
    /// TLS: its version, and the certificates of the server, its own first.
    pub secured: Option<(&'static str, Vec<Certificate>, Duration)>,
    /// The certificates of a server that is not trusted.
    pub refused: Vec<Certificate>,
    /// When the last step was done.
    last_step: Option<Instant>,
}

/// A request, and what came of it so far.
#[derive(Clone)]
pub struct RecordedExchange {
    /// The HTTP method.
    pub method: Method,
    /// Where it was sent to, before any redirect.
    pub url: Url,
    /// All headers but those that HTTP itself needs.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// When it was sent.
    pub since: Instant,
    /// `None` as long as there is neither an answer nor an error: for ever if it was given up.
    pub outcome: Option<Result<RecordedResponse, Error>>,
}

/// The answer to a request.
#[derive(Clone)]
pub struct RecordedResponse {
    /// Its status.
    pub status: StatusCode,
    /// The version of HTTP.
    pub version: Version,
    /// Its headers.
    pub headers: HeaderMap,
    /// Where redirects have led.
    pub redirected_to: Option<Url>,
    /// The address of whoever has answered; `None` if a proxy stands in between.
    pub peer: Option<IpAddr>,
    /// The beginning of the body, as far as it was read.
    pub body: Vec<u8>,
    /// From the request to the last byte that was read.
    pub took: Duration,
    /// Nothing more comes.
    pub has_ended: bool,
}

impl Recorder {
    /// All exchanges until now.
    #[must_use]
    pub fn exchanges(&self) -> Vec<RecordedExchange> {
        self.0.borrow().exchanges.clone()
    }

    /// All connections until now.
    #[must_use]
    pub fn connections(&self) -> Vec<RecordedConnection> {
        self.0.borrow().connections.clone()
    }

    /// Completes when `test` is true of the exchanges.
    pub async fn wait_for(&self, mut test: impl FnMut(&[RecordedExchange]) -> bool) {
        // It fails only if the sender is gone, which is here.
        let _ = self.0.subscribe().wait_for(|recorded| test(&recorded.exchanges)).await;
    }

    pub(super) fn begin(&self, call: &Call) -> ExchangeRecording {
        let exchange = RecordedExchange {
            method: call.method.clone(),
            url: call.endpoint.url().clone(),
            headers: (*call.headers).clone(),
            body: call.body.clone(),
            since: Instant::now(),
            outcome: None,
        };
        let mut index = 0;
        self.0.send_modify(|recorded| {
            index = recorded.exchanges.len();
            recorded.exchanges.push(exchange);
        });
        ExchangeRecording { recorder: self.clone(), index }
    }

    pub(super) fn connect(&self, proxy: Option<&Arc<Proxy>>) -> ConnectionRecording {
        let connection = RecordedConnection {
            proxy: proxy.cloned(),
            last_step: Some(Instant::now()),
            ..RecordedConnection::default()
        };
        let mut index = 0;
        self.0.send_modify(|recorded| {
            index = recorded.connections.len();
            recorded.connections.push(connection);
        });
        ConnectionRecording { recorder: self.clone(), index }
    }
}

/// The place of one connection.
#[derive(Clone, Debug)]
pub(super) struct ConnectionRecording {
    recorder: Recorder,
    index: usize,
}

impl ConnectionRecording {
    pub(super) fn resolved(&self, found: &[SocketAddr]) {
        let ips = found.iter().map(SocketAddr::ip).collect();
        self.change(|connection, took| connection.names = Some((ips, took)));
    }

    /// `address` is `None` if a proxy is at the other end.
    pub(super) fn reached(&self, address: Option<SocketAddr>) {
        self.change(|connection, took| connection.reached = Some((address, took)));
    }

    pub(super) fn secured_or_refused<T>(&self, handshake: &Result<TlsStream<T>, TlsFault>) {
        self.change(|connection, took| match handshake {
            Ok(stream) => {
                let tls = stream.get_ref().1;
                // No others are spoken.
                let is_newest = tls.protocol_version() == Some(ProtocolVersion::TLSv1_3);
                let version = if is_newest { "TLS 1.3" } else { "TLS 1.2" };
                let shown = tls.peer_certificates().into_iter().flatten().take(limits::CHAIN);
                let chain = shown.filter_map(|der| Certificate::read(der)).collect();
                connection.secured = Some((version, chain, took));
            }
            Err(TlsFault::Handshake { peer: Some(peer), .. }) => {
                let own = peer.certificate.as_deref().into_iter();
                connection.refused = own.chain(&peer.others).cloned().collect();
            }
            Err(_) => {}
        });
    }

    /// Notes a step with the time since the last one.
    fn change(&self, change: impl FnOnce(&mut RecordedConnection, Duration)) {
        self.recorder.0.send_modify(|recorded| {
            if let Some(connection) = recorded.connections.get_mut(self.index) {
                let took = connection.last_step.map_or(Duration::ZERO, |at| at.elapsed());
                connection.last_step = Some(Instant::now());
                change(connection, took);
            }
        });
    }
}

/// The place of one exchange, which its body keeps to add what is read of it.
#[derive(Debug)]
pub(super) struct ExchangeRecording {
    recorder: Recorder,
    index: usize,
}

impl ExchangeRecording {
    pub(super) fn answered(self, answer: &mut Result<Response<Inbound>, Error>) {
        self.change(|exchange| {
            exchange.outcome = Some(match answer {
                Ok(response) => Ok(RecordedResponse {
                    status: response.status(),
                    version: response.version(),
                    headers: response.headers().clone(),
                    redirected_to: final_endpoint(response).map(|to| to.url().clone()),
                    peer: response.body().peer,
                    body: Vec::new(),
                    took: exchange.since.elapsed(),
                    has_ended: false,
                }),
                Err(error) => Err(error.clone()),
            });
        });
        if let Ok(response) = answer {
            response.body_mut().recording = Some(Box::new(self));
        }
    }

    /// A piece of the body was read, or its end.
    pub(super) fn read(&self, piece: &Result<Option<Bytes>, Error>) {
        self.change(|exchange| {
            let took = exchange.since.elapsed();
            let Some(Ok(response)) = &mut exchange.outcome else { return };
            response.took = took;
            match piece {
                Ok(Some(piece)) => {
                    let room = limits::RECORDED_BODY.saturating_sub(response.body.len());
                    response.body.extend_from_slice(&piece[..piece.len().min(room)]);
                }
                Ok(None) | Err(_) => response.has_ended = true,
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut RecordedExchange)) {
        self.recorder.0.send_modify(|recorded| {
            if let Some(exchange) = recorded.exchanges.get_mut(self.index) {
                change(exchange);
            }
        });
    }
}

/// Its headers are secrets, its body may be anything.
impl fmt::Debug for RecordedExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {:?}", self.method, shown(&self.url), self.outcome)
    }
}

impl fmt::Debug for RecordedResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with {} bytes", self.status, self.body.len())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::super::authority::Authority;
    use super::super::{Content, Endpoint, HttpClient, Lane, Options, Progress, Roots, TlsOptions};
    use super::*;
    use crate::error::ErrorKind;

    /// Sends a request there, and gives back what was recorded of it.
    async fn send(url: &str, options: Options) -> (RecordedConnection, RecordedExchange) {
        let url: Url = url.parse().unwrap();
        let recorder = Recorder::default();
        let options = Options { recorder: Some(recorder.clone()), ..options };
        let call = Call {
            method: Method::POST,
            endpoint: Arc::new(Endpoint::new(&url).unwrap()),
            headers: Arc::default(),
            body: Bytes::from_static(b"{}"),
            lane: Lane::Calls,
            progress: Progress::default(),
        };
        if let Ok(response) = HttpClient::new(&options).send(&call).await {
            let head = recorder.exchanges().remove(0).outcome.unwrap().unwrap();
            assert!(head.body.is_empty() && !head.has_ended);
            let mut body = Content::of(response, &url).unwrap().into_body();
            while body.next(&url).await.unwrap().is_some() {}
        }
        recorder.wait_for(|exchanges| !exchanges.is_empty()).await;
        (recorder.connections().remove(0), recorder.exchanges().remove(0))
    }

    async fn serve(mut stream: impl AsyncReadExt + AsyncWriteExt + Unpin) {
        let _ = stream.read(&mut [0; 1024]).await;
        let answer = "HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\ngone";
        let _ = stream.write_all(answer.as_bytes()).await;
    }

    async fn secure_server(authority: &Authority) -> (String, Options) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
        let acceptor = TlsAcceptor::from(Arc::new(authority.config(&["http/1.1"])));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if let Ok(stream) = acceptor.accept(stream).await {
                    serve(stream).await;
                }
            }
        });
        let mut roots = Roots::default();
        roots.add_pem(authority.root.as_bytes()).unwrap();
        let tls = TlsOptions { roots, ..TlsOptions::default() };
        (url, Options { tls, ..Options::default() })
    }

    fn fault(exchange: &RecordedExchange) -> &Error {
        exchange.outcome.as_ref().unwrap().as_ref().unwrap_err()
    }

    #[tokio::test]
    async fn an_exchange_is_kept_with_what_is_read_of_its_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        tokio::spawn(async move { serve(listener.accept().await.unwrap().0).await });
        let (_, exchange) = send(&url, Options::default()).await;
        assert_eq!((exchange.url.as_str(), &exchange.body[..]), (&*url, &b"{}"[..]));
        let response = exchange.outcome.unwrap().unwrap();
        assert_eq!((response.status.as_u16(), &response.body[..]), (404, &b"gone"[..]));
        assert!(response.has_ended);
    }

    #[tokio::test]
    async fn each_step_of_a_connection_is_kept() {
        let (url, options) = secure_server(&Authority::new("localhost")).await;
        let (connection, _) = send(&url, options).await;
        assert_eq!(connection.names.unwrap().0.len(), 2, "both families");
        assert!(connection.reached.unwrap().0.unwrap().ip().is_loopback());
        let (version, chain, _) = connection.secured.unwrap();
        assert_eq!((version, &chain[0].names[..]), ("TLS 1.3", &["localhost".to_owned()][..]));
        assert!(connection.refused.is_empty());
    }

    #[tokio::test]
    async fn a_server_that_is_not_trusted_still_shows_its_certificates() {
        let (url, options) = secure_server(&Authority::new("elsewhere")).await;
        let (connection, exchange) = send(&url, options).await;
        let fault = fault(&exchange);
        assert_eq!(fault.kind, ErrorKind::Tls, "{fault}");
        assert!(fault.message.contains("elsewhere") && connection.secured.is_none(), "{fault}");
        assert_eq!(connection.refused[0].names, ["elsewhere"]);
    }

    #[tokio::test]
    async fn a_connection_ends_at_its_first_fault() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let url = format!("https://127.0.0.1:{port}/");
        let (refused, exchange) = send(&url, Options::default()).await;
        assert_eq!(fault(&exchange).kind, ErrorKind::Connect);
        assert!(refused.names.is_none() && refused.reached.is_none());
        let (unknown, exchange) = send("http://nobody.invalid/", Options::default()).await;
        assert_eq!(fault(&exchange).kind, ErrorKind::Dns);
        assert!(unknown.names.is_none() && unknown.reached.is_none());
    }

    #[tokio::test]
    async fn silence_in_the_handshake_has_an_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap());
        let connect_timeout = Duration::from_millis(100);
        let (silent, exchange) =
            send(&url, Options { connect_timeout, ..Options::default() }).await;
        assert!(silent.reached.is_some() && silent.secured.is_none());
        assert!(fault(&exchange).message.contains("100 ms"), "{exchange:?}");
    }
}
