//! Opens connections: name resolution, TCP, proxies and TLS, each with an error of its own.

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
use tokio_rustls::client::TlsStream;
use tower_service::Service;

use super::Options;
use super::addresses::Addresses;
use super::carrier::Carrier;
use super::loopback::is_localhost;
use super::protocol::{Known, Protocol, Stream};
use super::proxy::{Proxies, Proxy};
use super::proxy_fault::{ProxyFault, Trouble};
use super::tls::LazyTls;
use super::tls_fault::TlsFault;
use crate::limits;
use crate::traffic;

/// What can go wrong before a request is on its way.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectFault {
    #[error("{0}")]
    Dns(io::Error),
    /// The name leads to where nobody should go.
    #[error("{0} is not to be connected to")]
    Forbidden(IpAddr),
    #[error("{0}")]
    Tcp(Box<dyn std::error::Error + Send + Sync>),
    #[error("{0}")]
    Tls(TlsFault),
    #[error("{0}")]
    Proxy(ProxyFault),
    #[error("no connection within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// Not a failure: the connection is parked for the pool of the other protocol.
    #[error("the server changes between HTTP/1.1 and HTTP/2")]
    OtherProtocol,
}

impl ConnectFault {
    /// There is no connection in time.
    pub(super) fn too_slow(limit: Duration, proxy: Option<&Arc<Proxy>>) -> Self {
        match proxy {
            None => Self::Timeout(limit),
            Some(proxy) => Self::Proxy(ProxyFault::new(proxy, Trouble::Timeout(limit))),
        }
    }
}

/// Makes connections for a pool.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    tcp: HttpConnector<Resolver>,
    /// The same for proxies, which are the user's own and may be anywhere.
    pub(super) to_proxy: HttpConnector<Resolver>,
    addresses: Addresses,
    pub(super) tls: Arc<LazyTls>,
    pub(super) proxies: Proxies,
    timeout: Duration,
    /// What the pool can use.
    wanted: Protocol,
    pub(super) known: Known,
}

impl Connector {
    pub(super) fn new(options: &Options, tls: LazyTls) -> Self {
        let addresses = options.addresses.clone().of_ipv4(options.ipv4);
        let anywhere = Addresses::default().of_ipv4(options.ipv4);
        let (tcp, to_proxy) = (dialer(addresses.clone()), dialer(anywhere));
        let (tls, known) = (Arc::new(tls), Known::default());
        let (timeout, proxies) = (options.connect_timeout, options.proxies.clone());
        let wanted = Protocol::Http1;
        Self { tcp, to_proxy, addresses, tls, proxies, timeout, wanted, known }
    }

    /// The same for another sort of pool.
    pub(super) fn wanting(&self, wanted: Protocol) -> Self {
        Self { wanted, ..self.clone() }
    }

    /// How long a connection may take.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    async fn connect(
        mut self,
        uri: Uri,
        proxy: Option<Arc<Proxy>>,
    ) -> Result<Stream, ConnectFault> {
        let secure = uri.scheme() == Some(&Scheme::HTTPS);
        let Some(authority) = uri.authority().filter(|_| secure).cloned() else {
            return Ok(MaybeHttpsStream::Http(self.carrier(uri, proxy.as_ref()).await?));
        };
        if let Some(stream) = self.known.take(&authority, self.wanted) {
            return Ok(stream);
        }
        let stream = self.secure(uri, proxy.as_ref(), self.known.offer(&authority)).await?;
        if Protocol::of(&stream) == self.wanted {
            return Ok(stream);
        }
        self.known.park(authority, stream);
        Err(ConnectFault::OtherProtocol)
    }

    async fn secure(
        &mut self,
        uri: Uri,
        proxy: Option<&Arc<Proxy>>,
        offer: &[Protocol],
    ) -> Result<Stream, ConnectFault> {
        let carrier = self.carrier(uri.clone(), proxy).await?;
        let stream = handshake(&self.tls, offer, &uri, carrier).await;
        let stream = stream.map_err(|error| match proxy {
            None => ConnectFault::Tls(error),
            Some(proxy) => ConnectFault::Proxy(ProxyFault::new(proxy, Trouble::ServerTls(error))),
        })?;
        Ok(MaybeHttpsStream::Https(TokioIo::new(stream)))
    }

    async fn carrier(
        &mut self,
        uri: Uri,
        proxy: Option<&Arc<Proxy>>,
    ) -> Result<Carrier, ConnectFault> {
        match proxy {
            None => Ok(Carrier::Direct(self.tcp.call(uri).await.map_err(tcp_fault)?)),
            // Boxed, so that the usual way does not pay for its size.
            Some(proxy) => Box::pin(self.detour(proxy, &uri)).await,
        }
    }

    /// The addresses of `host`, for those who do not connect to them themselves.
    pub(super) async fn resolve(
        &self,
        host: &str,
    ) -> Result<impl Iterator<Item = IpAddr> + use<>, ConnectFault> {
        let invalid = |error| ConnectFault::Dns(io::Error::new(io::ErrorKind::InvalidInput, error));
        let name = host.parse::<Name>().map_err(invalid)?;
        let addresses = Resolver::new(self.addresses.clone()).call(name).await;
        let addresses = addresses.map_err(|unresolved| unresolved.fault())?;
        Ok(addresses.map(|address| address.ip()))
    }
}

/// Speaks TLS with the host of `uri`.
pub(super) async fn handshake<T>(
    tls: &LazyTls,
    offer: &[Protocol],
    uri: &Uri,
    stream: T,
) -> Result<TlsStream<TokioIo<T>>, TlsFault>
where
    T: hyper::rt::Read + hyper::rt::Write + Unpin,
{
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    tls.handshake(host, offer, TokioIo::new(stream)).await
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
        let told = traffic::Connecting::begin(&uri);
        let proxy = self.proxies.of(&uri).cloned();
        let connect = self.clone().connect(uri, proxy.clone());
        Box::pin(async move {
            let timed = tokio::time::timeout(limit, connect).await;
            let opened =
                timed.unwrap_or_else(|_| Err(ConnectFault::too_slow(limit, proxy.as_ref())));
            if let Some(told) = told {
                // One that is kept for another pool is open all the same.
                let fault = opened.as_ref().err();
                told.end(fault.filter(|fault| !matches!(fault, ConnectFault::OtherProtocol)));
            }
            opened
        })
    }
}

pub(super) fn tcp_fault(error: impl std::error::Error + Send + Sync + 'static) -> ConnectFault {
    let mut source: Option<&dyn std::error::Error> = Some(&error);
    while let Some(cause) = source {
        if let Some(unresolved) = cause.downcast_ref::<Unresolved>() {
            return unresolved.fault();
        }
        // The innermost error is the one that says what happened.
        if let (Some(error), None) = (cause.downcast_ref::<io::Error>(), cause.source()) {
            return ConnectFault::Tcp(io::Error::new(error.kind(), error.to_string()).into());
        }
        source = cause.source();
    }
    ConnectFault::Tcp(Box::new(error))
}

/// Opens TCP connections.
fn dialer(addresses: Addresses) -> HttpConnector<Resolver> {
    let mut tcp = HttpConnector::new_with_resolver(Resolver::new(addresses));
    tcp.enforce_http(false);
    // Small messages that wait for an answer: Nagle and delayed ACK would add 40 ms each.
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(limits::TCP_KEEPALIVE));
    tcp.set_keepalive_interval(Some(limits::TCP_KEEPALIVE / 3));
    tcp.set_keepalive_retries(Some(3));
    tcp
}

/// The system's name resolution, except for `localhost`, which needs none. It gives out allowed
/// addresses only, and those are the ones that are connected to.
#[derive(Clone, Debug)]
pub(super) struct Resolver {
    system: GaiResolver,
    addresses: Addresses,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Unresolved {
    #[error("{0}")]
    Failed(io::Error),
    #[error("{0} is not to be connected to")]
    Forbidden(IpAddr),
}

impl Unresolved {
    fn fault(&self) -> ConnectFault {
        match self {
            Self::Failed(error) => {
                ConnectFault::Dns(io::Error::new(error.kind(), error.to_string()))
            }
            Self::Forbidden(ip) => ConnectFault::Forbidden(*ip),
        }
    }
}

impl Resolver {
    fn new(addresses: Addresses) -> Self {
        Self { system: GaiResolver::new(), addresses }
    }

    /// Leaves out what is not allowed; an error if nothing else is there.
    fn allowed(
        addresses: &Addresses,
        mut found: Vec<SocketAddr>,
    ) -> Result<std::vec::IntoIter<SocketAddr>, Unresolved> {
        let is_empty = found.is_empty();
        found.retain(|address| addresses.has_family(address.ip()));
        if found.is_empty() && !is_empty {
            let why = "it has no IPv4 address, and --ipv4 allows no other";
            return Err(Unresolved::Failed(io::Error::new(io::ErrorKind::NotFound, why)));
        }
        let first = found.first().map(SocketAddr::ip);
        found.retain(|address| addresses.allow(address.ip()));
        match first {
            Some(ip) if found.is_empty() => Err(Unresolved::Forbidden(ip)),
            _ => Ok(found.into_iter()),
        }
    }
}

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
            let found = loopback.into_iter().map(|ip| SocketAddr::new(ip, 0)).collect();
            return Box::pin(std::future::ready(Self::allowed(&self.addresses, found)));
        }
        let (resolving, addresses) = (self.system.call(name), self.addresses.clone());
        Box::pin(async move {
            let found = resolving.await.map_err(Unresolved::Failed)?.collect();
            Self::allowed(&addresses, found)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_to_allowed_addresses_only() {
        // peers c 6: names that lead into a private network, alone or among others
        let public = Addresses::only(|ip| ip != IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
        let at = |text: &str| SocketAddr::new(text.parse().unwrap(), 0);
        let both = vec![at("10.0.0.1"), at("8.8.8.8")];
        let left: Vec<_> = Resolver::allowed(&public, both.clone()).unwrap().collect();
        assert_eq!(left, [at("8.8.8.8")]);
        let all: Vec<_> = Resolver::allowed(&Addresses::default(), both.clone()).unwrap().collect();
        assert_eq!(all, both);
        let families = vec![at("::1"), at("8.8.8.8")];
        let ipv4 = Addresses::default().of_ipv4(true);
        let left: Vec<_> = Resolver::allowed(&ipv4, families).unwrap().collect();
        assert_eq!(left, [at("8.8.8.8")]);
        let none = Resolver::allowed(&ipv4, vec![at("::1")]).unwrap_err();
        assert!(none.to_string().contains("--ipv4"), "{none}");
        let refused = Resolver::allowed(&public, vec![at("10.0.0.1")]).unwrap_err();
        assert!(
            matches!(refused.fault(), ConnectFault::Forbidden(ip) if ip == at("10.0.0.1").ip())
        );
    }
}
