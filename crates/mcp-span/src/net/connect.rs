//! Opens connections: name resolution, TCP, proxies and TLS, each with an error of its own.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_rustls::MaybeHttpsStream;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, lookup_host};
use tower_service::Service;
use tracing::debug;

use super::Options;
use super::fault::causes;
use super::loopback::is_localhost;
use super::options::Addresses;
use super::proxy::{Proxy, ProxyProtocol, is_secure, port};
use super::proxy_fault::ProxyFault;
use super::recorder::ConnectionRecording;
use super::socks::{self, SocksTarget};
use super::tls::{Alpn, HTTP_1_ONLY, LazyTls};
use super::tls_fault::TlsFault;
use super::tunnel;
use crate::limits;
use crate::traffic;

/// What carries the bytes to a server: TCP to it, or a connection to a proxy, which may be inside
/// TLS itself.
pub(super) type Carrier = MaybeHttpsStream<TokioIo<TcpStream>>;

/// A connection, ready for its first request.
pub(super) type NetStream = MaybeHttpsStream<Carrier>;

/// What can go wrong before a request is on its way.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectFault {
    #[error("{0}")]
    Unreachable(#[from] Unreachable),
    /// TLS to the server, through a proxy if there is one.
    #[error("{0}")]
    Tls(TlsFault, Option<Arc<Proxy>>),
    #[error("{1}")]
    Proxy(Arc<Proxy>, ProxyFault),
    #[error("no connection within {} ms", .0.as_millis())]
    Timeout(Duration, Option<Arc<Proxy>>),
}

/// Why there is no TCP connection to a host.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Unreachable {
    #[error("{0}")]
    Unresolved(String),
    /// The name leads to where nobody should go.
    #[error("{0} is not to be connected to")]
    Forbidden(IpAddr),
    #[error("{1}")]
    Tcp(io::ErrorKind, String),
}

impl Unreachable {
    /// Takes it out of the connector's error. The innermost one says what happened.
    fn of(error: impl std::error::Error + 'static) -> Self {
        if let Some(unresolved) = causes(&error).find_map(|cause| cause.downcast_ref::<Self>()) {
            return unresolved.clone();
        }
        match causes(&error).filter_map(|cause| cause.downcast_ref::<io::Error>()).last() {
            Some(error) => Self::Tcp(error.kind(), error.to_string()),
            None => Self::Tcp(io::ErrorKind::Other, error.to_string()),
        }
    }
}

/// Opens connections as the options say.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) options: Options,
    pub(super) tls: LazyTls,
    /// After so much silence an HTTP/2 connection has to show that it lives.
    pub(super) ping_interval: Duration,
    /// So long it has for an answer.
    pub(super) ping_timeout: Duration,
}

impl Connector {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            options: options.clone(),
            tls: LazyTls::new(options.tls.clone()),
            ping_interval: limits::HTTP2_PING,
            ping_timeout: limits::HTTP2_PONG,
        }
    }

    /// Opens a connection to the server of `uri`, to which these protocols are offered; through
    /// `proxy`, if there is one.
    pub(super) async fn connect(
        &self,
        uri: &Uri,
        proxy: Option<&Arc<Proxy>>,
        offer: Alpn,
    ) -> Result<NetStream, ConnectFault> {
        let limit = self.options.connect_timeout;
        let told = traffic::Connecting::begin(uri);
        let recording = self.options.recorder.as_ref().map(|recorder| recorder.connect(proxy));
        let opening = async {
            let (carrier, address) = match proxy {
                None => {
                    let resolver = Resolver { recording: recording.clone(), ..self.resolver() };
                    let tcp = tcp(resolver, uri).await?;
                    let address = tcp.inner().peer_addr().ok();
                    (MaybeHttpsStream::Http(tcp), address)
                }
                // Boxed, so that the usual way does not pay for its size.
                Some(proxy) => (Box::pin(self.via_proxy(proxy, uri)).await?, None),
            };
            if let Some(recording) = &recording {
                recording.reached(address);
            }
            if !is_secure(uri) {
                return Ok(MaybeHttpsStream::Http(carrier));
            }
            let secured = self.tls.handshake(uri, offer, carrier).await;
            if let Some(recording) = &recording {
                recording.secured_or_refused(&secured);
            }
            let secured = secured.map_err(|fault| ConnectFault::Tls(fault, proxy.cloned()))?;
            Ok(MaybeHttpsStream::Https(TokioIo::new(secured)))
        };
        let timed = tokio::time::timeout(limit, opening).await;
        let opened = timed.unwrap_or_else(|_| Err(ConnectFault::Timeout(limit, proxy.cloned())));
        if let Some(told) = told {
            told.end(opened.as_ref().err());
        }
        opened
    }

    /// Opens a way to the server of `uri` through `proxy`.
    async fn via_proxy(&self, proxy: &Arc<Proxy>, uri: &Uri) -> Result<Carrier, ConnectFault> {
        debug!(%proxy, origin = proxy.origin, "connecting through a proxy");
        let fault = |fault| ConnectFault::Proxy(Arc::clone(proxy), fault);
        if !proxy.speaks.is_socks() {
            return self.via_http(proxy, uri).await.map_err(fault);
        }
        let host = bare_host(uri);
        let targets = match host.parse() {
            Ok(ip) => vec![SocksTarget::Address(ip)],
            Err(_) if proxy.speaks == ProxyProtocol::Socks5h => vec![SocksTarget::Name(host)],
            Err(_) => {
                let found = self.resolver().resolve(host).await?;
                found.iter().map(|address| SocksTarget::Address(address.ip())).collect()
            }
        };
        let mut last = ProxyFault::Garbage("the host has no address");
        // A host may have addresses that the proxy cannot reach; each takes a new connection.
        for target in targets {
            match self.via_socks(proxy, target, port(uri)).await {
                Err(refused @ ProxyFault::Refused(_)) => last = refused,
                established => return established.map_err(fault),
            }
        }
        Err(fault(last))
    }

    async fn via_http(&self, proxy: &Proxy, uri: &Uri) -> Result<Carrier, ProxyFault> {
        let stream = self.to_proxy(proxy).await?;
        if proxy.forwards(uri) {
            return Ok(stream);
        }
        let target = format!("{}:{}", uri.host().unwrap_or_default(), port(uri));
        let authorization = proxy.login.as_ref().map(|login| &login.basic);
        tunnel::establish(stream, &target, authorization).await
    }

    async fn via_socks(
        &self,
        proxy: &Proxy,
        target: SocksTarget<'_>,
        port: u16,
    ) -> Result<Carrier, ProxyFault> {
        let mut stream = TokioIo::new(self.to_proxy(proxy).await?);
        socks::establish(&mut stream, target, port, proxy.login.as_ref()).await?;
        Ok(stream.into_inner())
    }

    /// A connection to the proxy itself, which is the user's own and may be anywhere.
    async fn to_proxy(&self, proxy: &Proxy) -> Result<Carrier, ProxyFault> {
        let resolver = Resolver { addresses: Addresses::default(), ..self.resolver() };
        let tcp = tcp(resolver, &proxy.address).await?;
        if proxy.speaks != ProxyProtocol::Https {
            return Ok(MaybeHttpsStream::Http(tcp));
        }
        // CONNECT is spoken in HTTP/1.1 only.
        let stream = self.tls.handshake(&proxy.address, HTTP_1_ONLY, tcp).await?;
        Ok(MaybeHttpsStream::Https(TokioIo::new(stream)))
    }

    /// What finds the addresses of servers.
    fn resolver(&self) -> Resolver {
        let (addresses, ipv4) = (self.options.addresses.clone(), self.options.ipv4);
        Resolver { addresses, ipv4, recording: None }
    }
}

/// Opens a TCP connection to the host of `uri`, at one of the addresses that `resolver` finds.
async fn tcp(resolver: Resolver, uri: &Uri) -> Result<TokioIo<TcpStream>, Unreachable> {
    let mut tcp = HttpConnector::new_with_resolver(resolver);
    tcp.enforce_http(false);
    // Small messages that wait for an answer: Nagle and delayed ACK would add 40 ms each.
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(limits::TCP_KEEPALIVE));
    tcp.set_keepalive_interval(Some(limits::TCP_KEEPALIVE / 3));
    tcp.set_keepalive_retries(Some(3));
    tcp.call(uri.clone()).await.map_err(Unreachable::of)
}

/// The host of `uri`, without the brackets of an address.
pub(super) fn bare_host(uri: &Uri) -> &str {
    uri.host().unwrap_or_default().trim_matches(['[', ']'])
}

/// The system's name resolution, except for `localhost`, which needs none. It gives out allowed
/// addresses only, and those are the ones that are connected to.
#[derive(Clone, Debug)]
pub(super) struct Resolver {
    addresses: Addresses,
    /// Of the two families, IPv4 alone.
    ipv4: bool,
    /// Hears what was found.
    recording: Option<ConnectionRecording>,
}

impl Resolver {
    /// The allowed addresses of `host`, without a port.
    async fn resolve(&self, host: &str) -> Result<Vec<SocketAddr>, Unreachable> {
        // Asking the system would start a thread; both families, since servers listen on either.
        if is_localhost(host) {
            let loopback = [IpAddr::V6(Ipv6Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::LOCALHOST)];
            return self.allowed(loopback.map(|ip| SocketAddr::new(ip, 0)).to_vec());
        }
        let found = lookup_host((host, 0)).await;
        let found = found.map_err(|error| Unreachable::Unresolved(error.to_string()))?;
        self.allowed(found.collect())
    }

    /// Leaves out what is not allowed; an error if nothing else is there.
    fn allowed(&self, mut found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Unreachable> {
        let is_empty = found.is_empty();
        found.retain(|address| address.is_ipv4() || !self.ipv4);
        if found.is_empty() && !is_empty {
            let why = "it has no IPv4 address, and --ipv4 allows no other";
            return Err(Unreachable::Unresolved(why.to_owned()));
        }
        let first = found.first().map(SocketAddr::ip);
        found.retain(|address| self.addresses.allow(address.ip()));
        match first {
            Some(ip) if found.is_empty() => Err(Unreachable::Forbidden(ip)),
            _ => Ok(found),
        }
    }
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = Unreachable;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Unreachable>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Unreachable>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let resolver = self.clone();
        Box::pin(async move {
            let found = resolver.resolve(name.as_str()).await?;
            if let Some(recording) = &resolver.recording {
                recording.resolved(&found);
            }
            Ok(found.into_iter())
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
        let public = Resolver { addresses: public, ipv4: false, recording: None };
        let left = public.allowed(both.clone()).unwrap();
        assert_eq!(left, [at("8.8.8.8")]);
        let any = |ipv4| Resolver { addresses: Addresses::default(), ipv4, recording: None };
        let all = any(false).allowed(both.clone()).unwrap();
        assert_eq!(all, both);
        let families = vec![at("::1"), at("8.8.8.8")];
        let left = any(true).allowed(families).unwrap();
        assert_eq!(left, [at("8.8.8.8")]);
        let none = any(true).allowed(vec![at("::1")]).unwrap_err();
        assert!(none.to_string().contains("--ipv4"), "{none}");
        let refused = public.allowed(vec![at("10.0.0.1")]).unwrap_err();
        assert!(matches!(refused, Unreachable::Forbidden(ip) if ip == at("10.0.0.1").ip()));
    }
}
