//! Opens connections: name resolution, TCP and TLS, each with an error of its own.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use hyper_rustls::MaybeHttpsStream;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tower_service::Service;

use super::loopback::is_localhost;
use super::protocol::{Known, Protocol, Stream};
use super::tls::LazyTls;
use crate::limits;

/// What can go wrong before a request is on its way.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectFault {
    #[error("{0}")]
    Dns(io::Error),
    #[error("{0}")]
    Tcp(Box<dyn std::error::Error + Send + Sync>),
    #[error("{0}")]
    Tls(Box<dyn std::error::Error + Send + Sync>),
    #[error("no connection within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// Not a failure: the connection is parked for the pool of the other protocol.
    #[error("the server changes between HTTP/1.1 and HTTP/2")]
    OtherProtocol,
}

/// Makes connections for a pool.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    tcp: HttpConnector<Resolver>,
    tls: Arc<LazyTls>,
    timeout: Duration,
    /// What the pool can use.
    wanted: Protocol,
    pub(super) known: Known,
}

impl Connector {
    pub(super) fn new(timeout: Duration, tls: LazyTls) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(Resolver(GaiResolver::new()));
        tcp.enforce_http(false);
        // Small messages that wait for an answer: Nagle and delayed ACK would add 40 ms each.
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(limits::TCP_KEEPALIVE));
        tcp.set_keepalive_interval(Some(limits::TCP_KEEPALIVE / 3));
        tcp.set_keepalive_retries(Some(3));
        let (tls, known) = (Arc::new(tls), Known::default());
        Self { tcp, tls, timeout, wanted: Protocol::Http1, known }
    }

    /// The same for another sort of pool.
    pub(super) fn wanting(&self, wanted: Protocol) -> Self {
        Self { wanted, ..self.clone() }
    }

    /// How long a connection may take.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    async fn connect(mut self, uri: Uri) -> Result<Stream, ConnectFault> {
        let secure = uri.scheme() == Some(&Scheme::HTTPS);
        let Some(authority) = uri.authority().filter(|_| secure).cloned() else {
            let tcp = self.tcp.call(uri).await.map_err(tcp_fault)?;
            return Ok(MaybeHttpsStream::Http(tcp));
        };
        if let Some(stream) = self.known.take(&authority, self.wanted) {
            return Ok(stream);
        }
        let stream = self.secure(uri, self.known.offer(&authority)).await?;
        if Protocol::of(&stream) == self.wanted {
            return Ok(stream);
        }
        self.known.park(authority, stream);
        Err(ConnectFault::OtherProtocol)
    }

    async fn secure(&mut self, uri: Uri, offer: &[Protocol]) -> Result<Stream, ConnectFault> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let tcp = self.tcp.call(uri).await.map_err(tcp_fault)?;
        let config = self.tls.config(offer).map_err(|error| ConnectFault::Tls(error.into()))?;
        let name = ServerName::try_from(host).map_err(|error| ConnectFault::Tls(error.into()))?;
        let stream = tokio_rustls::TlsConnector::from(config)
            .connect(name, TokioIo::new(tcp))
            .await
            .map_err(|error| ConnectFault::Tls(error.into()))?;
        Ok(MaybeHttpsStream::Https(TokioIo::new(stream)))
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = ConnectFault;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, ConnectFault>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectFault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let limit = self.timeout;
        let connect = self.clone().connect(uri);
        Box::pin(async move {
            let timed = tokio::time::timeout(limit, connect).await;
            timed.unwrap_or(Err(ConnectFault::Timeout(limit)))
        })
    }
}

fn tcp_fault(error: impl std::error::Error + Send + Sync + 'static) -> ConnectFault {
    let mut source: Option<&dyn std::error::Error> = Some(&error);
    while let Some(cause) = source {
        if let Some(Unresolved(reason)) = cause.downcast_ref() {
            return ConnectFault::Dns(io::Error::new(reason.kind(), reason.to_string()));
        }
        // The innermost error is the one that says what happened.
        if let (Some(error), None) = (cause.downcast_ref::<io::Error>(), cause.source()) {
            return ConnectFault::Tcp(io::Error::new(error.kind(), error.to_string()).into());
        }
        source = cause.source();
    }
    ConnectFault::Tcp(Box::new(error))
}

/// The system's name resolution, except for `localhost`, which needs none.
#[derive(Clone, Debug)]
struct Resolver(GaiResolver);

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unresolved(io::Error);

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = Unresolved;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Unresolved>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Unresolved>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        // Asking the system would start a thread; both families, since servers listen on either.
        if is_localhost(name.as_str()) {
            let loopback = [IpAddr::V6(Ipv6Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::LOCALHOST)];
            let addresses: Vec<SocketAddr> =
                loopback.into_iter().map(|ip| SocketAddr::new(ip, 0)).collect();
            return Box::pin(std::future::ready(Ok(addresses.into_iter())));
        }
        let resolving = self.0.call(name);
        Box::pin(async move {
            let addresses: Vec<SocketAddr> = resolving.await.map_err(Unresolved)?.collect();
            Ok(addresses.into_iter())
        })
    }
}
