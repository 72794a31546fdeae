//! The way to a server by a proxy: to the proxy, into TLS if it wants that, and on from there.

use std::sync::Arc;

use http::Uri;
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use tracing::debug;

use super::connect::{Carrier, ConnectFault, Connector, bare_host};
use super::options::Addresses;
use super::proxy::{Proxy, ProxyProtocol, port};
use super::proxy_fault::ProxyFault;
use super::socks::{self, SocksTarget};
use super::tls::HTTP_1_ONLY;
use super::tunnel;

impl Connector {
    /// Opens a way to the server of `uri` through `proxy`.
    pub(super) async fn via_proxy(
        &self,
        proxy: &Arc<Proxy>,
        uri: &Uri,
    ) -> Result<Carrier, ConnectFault> {
        debug!(%proxy, origin = proxy.origin, "connecting through a proxy");
        let fault = |fault| ConnectFault::Proxy(Arc::clone(proxy), fault);
        if !proxy.speaks.is_socks() {
            return self.via_http(proxy, uri).await.map_err(fault);
        }
        let host = bare_host(uri);
        let targets = match host.parse() {
            Ok(ip) => vec![SocksTarget::Address(ip)],
            Err(_) if proxy.speaks == ProxyProtocol::Socks5h => vec![SocksTarget::Name(host)],
            Err(_) => self.resolve(host).await?.into_iter().map(SocksTarget::Address).collect(),
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
        let tcp = self.tcp(Addresses::default(), &proxy.address).await?;
        if proxy.speaks != ProxyProtocol::Https {
            return Ok(MaybeHttpsStream::Http(tcp));
        }
        // CONNECT is spoken in HTTP/1.1 only.
        let stream = self.tls.handshake(&proxy.address, HTTP_1_ONLY, tcp).await;
        Ok(MaybeHttpsStream::Https(TokioIo::new(stream.map_err(ProxyFault::Tls)?)))
    }
}
