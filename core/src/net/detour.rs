//! The way to a server by a proxy: to the proxy, into TLS if it wants that, and on from there.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::Uri;
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use tower_service::Service;
use tracing::debug;

use super::carrier::{Carrier, ToProxy};
use super::connect::{ConnectFault, Connector, handshake, tcp_fault};
use super::protocol::Protocol;
use super::proxy::{Proxy, Speaks, port};
use super::proxy_fault::{ProxyFault, Trouble};
use super::socks::{self, Target};
use super::tunnel;

impl Connector {
    /// Opens a way to the server of `uri` through `proxy`.
    pub(super) async fn detour(
        &mut self,
        proxy: &Arc<Proxy>,
        uri: &Uri,
    ) -> Result<Carrier, ConnectFault> {
        debug!(%proxy, origin = proxy.origin, "connecting through a proxy");
        let fault = |trouble| ConnectFault::Proxy(ProxyFault::new(proxy, trouble));
        let host = uri.host().unwrap_or_default();
        if proxy.is_socks() {
            return self.by_socks(proxy, host.trim_matches(['[', ']']), port(uri)).await;
        }
        let stream = self.reach(proxy).await.map_err(fault)?;
        if proxy.forwards(uri) {
            return Ok(Carrier::Forwarder(Box::new(stream)));
        }
        let mut stream = TokioIo::new(stream);
        let target = format!("{host}:{}", port(uri));
        let authorization = proxy.login.as_ref().map(|login| &login.basic);
        tunnel::establish(&mut stream, &target, authorization).await.map_err(fault)?;
        Ok(Carrier::Tunnel(Box::new(stream.into_inner())))
    }

    async fn by_socks(
        &mut self,
        proxy: &Arc<Proxy>,
        host: &str,
        port: u16,
    ) -> Result<Carrier, ConnectFault> {
        let fault = |trouble| ConnectFault::Proxy(ProxyFault::new(proxy, trouble));
        let targets = match host.parse::<IpAddr>() {
            Ok(ip) => vec![Target::Address(SocketAddr::new(ip, port))],
            Err(_) if proxy.speaks == Speaks::Socks5h => vec![Target::Name(host, port)],
            Err(_) => {
                let found = self.resolve(host).await?;
                found.map(|ip| Target::Address(SocketAddr::new(ip, port))).collect()
            }
        };
        let mut last = Trouble::Garbage("the host has no address");
        // A host may have addresses that the proxy cannot reach; each takes a new connection.
        for target in targets {
            let mut stream = TokioIo::new(self.reach(proxy).await.map_err(fault)?);
            match socks::establish(&mut stream, target, proxy.login.as_ref()).await {
                Ok(()) => return Ok(Carrier::Tunnel(Box::new(stream.into_inner()))),
                Err(trouble @ Trouble::Refused(_)) => last = trouble,
                Err(trouble) => return Err(fault(trouble)),
            }
        }
        Err(fault(last))
    }

    /// A connection to the proxy itself.
    async fn reach(&mut self, proxy: &Proxy) -> Result<ToProxy, Trouble> {
        let tcp =
            self.to_proxy.call(proxy.address.clone()).await.map_err(|error| {
                match tcp_fault(error) {
                    ConnectFault::Dns(error) => Trouble::Dns(error),
                    ConnectFault::Tcp(error) => Trouble::Tcp(error),
                    other => Trouble::Tcp(other.into()),
                }
            })?;
        if proxy.speaks != Speaks::Https {
            return Ok(MaybeHttpsStream::Http(tcp));
        }
        // CONNECT is spoken in HTTP/1.1 only.
        let stream = handshake(&self.tls, &[Protocol::Http1], &proxy.address, tcp).await;
        Ok(MaybeHttpsStream::Https(TokioIo::new(stream.map_err(Trouble::Tls)?)))
    }
}
