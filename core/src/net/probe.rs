//! Looks at the way to a server step by step, as a connection goes it: names, TCP or a proxy, TLS.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Uri;
use http::uri::Scheme;
use hyper_util::rt::TokioIo;
use rustls::ProtocolVersion;
use rustls::pki_types::CertificateDer;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{timeout, timeout_at};
use tokio_rustls::client::TlsStream;

use super::carrier::Carrier;
use super::certificate::Certificate;
use super::connect::{ConnectFault, Connector, handshake};
use super::fault::unconnected;
use super::protocol::Protocol;
use super::proxy::{Proxy, port};
use super::proxy_fault::{ProxyFault, Trouble};
use super::tls::LazyTls;
use super::tls_fault::TlsFault;
use super::{Endpoint, Options, TlsOptions, Trust};
use crate::error::Error;
use crate::limits;

/// How far the way to a server leads.
#[derive(Debug)]
pub struct Look {
    /// What stands in between.
    pub proxy: Option<Arc<Proxy>>,
    /// The addresses of the host; `None` where nothing is looked up here.
    pub names: Option<Step<Vec<IpAddr>>>,
    /// The connection, by the proxy if there is one; `None` if it did not come to that.
    pub connection: Option<Step<Reached>>,
    /// TLS on it; `None` for http, or if it did not come to that.
    pub tls: Option<Step<Secured>>,
    /// What a server that is not trusted has shown.
    pub refused: Vec<Certificate>,
}

/// One step of the way.
#[derive(Debug)]
pub struct Step<T> {
    /// How long it took.
    pub took: Duration,
    /// What came of it.
    pub outcome: Result<T, Error>,
}

/// A connection.
#[derive(Debug, PartialEq, Eq)]
pub struct Reached {
    /// The address at the other end; `None` if that is a proxy's.
    pub address: Option<SocketAddr>,
    /// Others of the host's addresses that did not answer, and why.
    pub dead: Vec<(SocketAddr, String)>,
}

/// A secure connection.
#[derive(Debug)]
pub struct Secured {
    /// `TLS 1.3`
    pub version: String,
    /// The server's own certificate, and those that it sent along.
    pub chain: Vec<Certificate>,
}

impl Look {
    /// Why there is no connection.
    #[must_use]
    pub fn fault(&self) -> Option<&Error> {
        let names = self.names.as_ref().and_then(|step| step.outcome.as_ref().err());
        let connection = self.connection.as_ref().and_then(|step| step.outcome.as_ref().err());
        let tls = self.tls.as_ref().and_then(|step| step.outcome.as_ref().err());
        names.or(connection).or(tls)
    }
}

/// Goes the way to `endpoint`, within the time that a connection may take. Nothing is sent there
/// but what TLS needs.
pub async fn look(options: &Options, endpoint: &Endpoint) -> Look {
    let connector = Connector::new(options, LazyTls::new(options.tls.clone()));
    let proxy = options.proxies.of(endpoint.uri()).cloned();
    let (names, connection, tls) = (None, None, None);
    let look = Look { proxy, names, connection, tls, refused: Vec::new() };
    let until = Instant::now() + options.connect_timeout;
    let mut way = Way { connector, endpoint, limit: options.connect_timeout, until, look };
    if let Some(carrier) = way.connect().await
        && endpoint.uri().scheme() == Some(&Scheme::HTTPS)
        && !way.secure(carrier).await
        && Instant::now() < until
    {
        let trust = Trust::Anybody { files: Vec::new() };
        let tls = TlsOptions { trust, ..TlsOptions::default() };
        let unwary = Options { tls, ..options.clone() };
        way.look.refused = shown_anyway(&unwary, endpoint, way.look.proxy.clone(), until).await;
    }
    way.look
}

/// A walk that is under way.
struct Way<'a> {
    connector: Connector,
    endpoint: &'a Endpoint,
    limit: Duration,
    until: Instant,
    look: Look,
}

impl Way<'_> {
    async fn connect(&mut self) -> Option<Carrier> {
        if let Some(proxy) = self.look.proxy.clone() {
            return self.by(&proxy).await;
        }
        let addresses = self.resolve().await?;
        let begun = Instant::now();
        let timed = timeout_at(self.until.into(), first_of(addresses)).await;
        let outcome = timed.unwrap_or_else(|_| Err(ConnectFault::Timeout(self.limit)));
        let (reached, found) = self.split(outcome);
        let (stream, took) = found.unzip();
        let took = took.unwrap_or_else(|| begun.elapsed());
        self.look.connection = Some(Step { took, outcome: reached });
        stream.map(|stream| Carrier::Direct(TokioIo::new(stream)))
    }

    fn split<T>(
        &self,
        outcome: Result<(Reached, T), ConnectFault>,
    ) -> (Result<Reached, Error>, Option<T>) {
        match outcome {
            Ok((reached, stream)) => (Ok(reached), Some(stream)),
            Err(fault) => (Err(unconnected(&fault, self.endpoint.url())), None),
        }
    }

    async fn by(&mut self, proxy: &Arc<Proxy>) -> Option<Carrier> {
        let begun = Instant::now();
        let detour = self.connector.detour(proxy, self.endpoint.uri());
        let timed = timeout_at(self.until.into(), detour).await;
        let outcome =
            timed.unwrap_or_else(|_| Err(ConnectFault::too_slow(self.limit, Some(proxy))));
        let outcome = outcome.map(|carrier| (Reached { address: None, dead: Vec::new() }, carrier));
        let (reached, carrier) = self.split(outcome);
        self.look.connection = Some(Step { took: begun.elapsed(), outcome: reached });
        carrier
    }

    /// An address needs no look.
    async fn resolve(&mut self) -> Option<Vec<SocketAddr>> {
        let uri = self.endpoint.uri();
        let (host, port) = (bare_host(uri), port(uri));
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Some(vec![SocketAddr::new(ip, port)]);
        }
        let begun = Instant::now();
        let timed = timeout_at(self.until.into(), self.connector.resolve(host)).await;
        let outcome = match timed {
            Ok(found) => found.map(Iterator::collect::<Vec<_>>),
            Err(_) => Err(ConnectFault::Dns(io::ErrorKind::TimedOut.into())),
        };
        let outcome = outcome.map_err(|fault| unconnected(&fault, self.endpoint.url()));
        let found = outcome.as_ref().ok().cloned();
        self.look.names = Some(Step { took: begun.elapsed(), outcome });
        Some(found?.into_iter().map(|ip| SocketAddr::new(ip, port)).collect())
    }

    /// `false`: there was a handshake, and it failed.
    async fn secure(&mut self, carrier: Carrier) -> bool {
        let begun = Instant::now();
        let uri = self.endpoint.uri();
        let shaking = handshake(&self.connector.tls, &Protocol::ALL, uri, carrier);
        let proxy = self.look.proxy.as_ref();
        let outcome = match timeout_at(self.until.into(), shaking).await {
            Ok(Ok(stream)) => Ok(secured(&stream)),
            Ok(Err(fault)) => Err(refusal(fault, proxy)),
            Err(_) => Err(ConnectFault::too_slow(self.limit, proxy)),
        };
        let outcome = outcome.map_err(|fault| unconnected(&fault, self.endpoint.url()));
        let is_secure = outcome.is_ok();
        self.look.tls = Some(Step { took: begun.elapsed(), outcome });
        is_secure
    }
}

fn refusal(fault: TlsFault, proxy: Option<&Arc<Proxy>>) -> ConnectFault {
    match proxy {
        None => ConnectFault::Tls(fault),
        Some(proxy) => ConnectFault::Proxy(ProxyFault::new(proxy, Trouble::ServerTls(fault))),
    }
}

fn bare_host(uri: &Uri) -> &str {
    uri.host().unwrap_or_default().trim_matches(['[', ']'])
}

type Found = (TcpStream, Duration);

/// Connects to all of them: the first that answers counts, and the others get a moment more.
async fn first_of(addresses: Vec<SocketAddr>) -> Result<(Reached, Found), ConnectFault> {
    let begun = Instant::now();
    let mut tries = JoinSet::new();
    for address in addresses.into_iter().take(limits::PROBED_ADDRESSES) {
        tries.spawn(async move { (address, TcpStream::connect(address).await) });
    }
    let mut found: Option<(SocketAddr, Found)> = None;
    let mut dead = Vec::new();
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    loop {
        let next = match found {
            None => tries.join_next().await,
            Some(_) => timeout(limits::OTHER_ADDRESSES, tries.join_next()).await.unwrap_or(None),
        };
        match next {
            None => break,
            Some(Ok((address, Ok(stream)))) => {
                found.get_or_insert((address, (stream, begun.elapsed())));
            }
            Some(Ok((address, Err(error)))) => {
                dead.push((address, error.to_string()));
                last = error;
            }
            Some(Err(_)) => {}
        }
    }
    let Some((address, found)) = found else { return Err(ConnectFault::Tcp(last.into())) };
    Ok((Reached { address: Some(address), dead }, found))
}

fn secured<T>(stream: &TlsStream<T>) -> Secured {
    let connection = stream.get_ref().1;
    let version = match connection.protocol_version() {
        Some(ProtocolVersion::TLSv1_3) => "TLS 1.3".to_owned(),
        Some(ProtocolVersion::TLSv1_2) => "TLS 1.2".to_owned(),
        other => format!("{other:?}"),
    };
    Secured { version, chain: chain(connection.peer_certificates()) }
}

fn chain(shown: Option<&[CertificateDer<'_>]>) -> Vec<Certificate> {
    let shown = shown.unwrap_or_default().iter().take(limits::CHAIN);
    shown.filter_map(|der| Certificate::read(der)).collect()
}

/// The certificates of a server that is not trusted: nothing is sent to it. It has what is left of
/// the time.
async fn shown_anyway(
    options: &Options,
    endpoint: &Endpoint,
    proxy: Option<Arc<Proxy>>,
    until: Instant,
) -> Vec<Certificate> {
    let look = Look { proxy, names: None, connection: None, tls: None, refused: Vec::new() };
    let connector = Connector::new(options, LazyTls::new(options.tls.clone()));
    let mut way = Way { connector, endpoint, limit: options.connect_timeout, until, look };
    if let Some(carrier) = way.connect().await {
        way.secure(carrier).await;
    }
    way.look.tls.and_then(|step| step.outcome.ok()).map_or_else(Vec::new, |tls| tls.chain)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::super::Roots;
    use super::super::authority::Authority;
    use super::*;
    use crate::error::Kind;

    fn at(url: &str) -> Endpoint {
        Endpoint::new(&url.parse().unwrap()).unwrap()
    }

    async fn secure_server(authority: &Authority) -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
        let acceptor = TlsAcceptor::from(Arc::new(authority.config(&["http/1.1"])));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = acceptor.accept(stream).await;
            }
        });
        at(&url)
    }

    #[tokio::test]
    async fn each_step_of_a_good_way_is_told() {
        let authority = Authority::new("localhost");
        let endpoint = secure_server(&authority).await;
        let mut roots = Roots::default();
        roots.add_pem(authority.root.as_bytes()).unwrap();
        let trust = Trust::Platform { roots, files: Vec::new() };
        let options =
            Options { tls: TlsOptions { trust, ..TlsOptions::default() }, ..Options::default() };
        let look = look(&options, &endpoint).await;
        assert!(look.fault().is_none(), "{look:?}");
        assert_eq!(look.names.unwrap().outcome.unwrap().len(), 2, "both families");
        let reached = look.connection.unwrap().outcome.unwrap();
        assert!(reached.address.unwrap().ip().is_loopback());
        let tls = look.tls.unwrap().outcome.unwrap();
        assert_eq!(tls.version, "TLS 1.3");
        assert_eq!(tls.chain[0].names, ["localhost"]);
        assert!(look.refused.is_empty());
    }

    #[tokio::test]
    async fn a_server_that_is_not_trusted_still_shows_its_certificates() {
        let authority = Authority::new("elsewhere");
        let endpoint = secure_server(&authority).await;
        let mut roots = Roots::default();
        roots.add_pem(authority.root.as_bytes()).unwrap();
        let trust = Trust::Platform { roots, files: Vec::new() };
        let options =
            Options { tls: TlsOptions { trust, ..TlsOptions::default() }, ..Options::default() };
        let look = look(&options, &endpoint).await;
        let fault = look.fault().unwrap();
        assert_eq!(fault.kind, Kind::Tls, "{fault}");
        assert!(fault.message.contains("elsewhere"), "{fault}");
        assert_eq!(look.refused[0].names, ["elsewhere"]);
    }

    #[tokio::test]
    async fn a_way_ends_at_its_first_fault() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let refused = look(&Options::default(), &at(&format!("https://127.0.0.1:{port}/"))).await;
        assert_eq!(refused.fault().unwrap().kind, Kind::Connect);
        assert!(refused.names.is_none() && refused.tls.is_none());
        let unknown = look(&Options::default(), &at("http://nobody.invalid/")).await;
        assert_eq!(unknown.fault().unwrap().kind, Kind::Dns);
        assert!(unknown.connection.is_none());
    }

    #[tokio::test]
    async fn silence_in_the_handshake_has_an_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = at(&format!("https://{}/", listener.local_addr().unwrap()));
        let short = Duration::from_millis(100);
        let options = Options { connect_timeout: short, ..Options::default() };
        let look = look(&options, &endpoint).await;
        assert!(look.connection.as_ref().unwrap().outcome.is_ok());
        assert!(look.fault().unwrap().message.contains("100 ms"), "{look:?}");
    }
}
