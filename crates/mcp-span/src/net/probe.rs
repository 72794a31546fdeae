//! Looks at the way to a server step by step, as a connection goes it: names, TCP or a proxy, TLS.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use rustls::ProtocolVersion;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{timeout, timeout_at};
use tokio_rustls::client::TlsStream;
use url::Url;

use super::certificate::Certificate;
use super::connect::{Carrier, ConnectFault, Connector, Unreachable, bare_host};
use super::fault::unconnected;
use super::proxy::{Proxy, is_secure, port};
use super::tls::HTTP_2_OR_1;
use super::{Endpoint, Options, TlsOptions};
use crate::error::Error;
use crate::limits;

/// How far the way to a server leads.
#[derive(Debug, Default)]
pub struct Look {
    /// What stands in between.
    pub proxy: Option<Arc<Proxy>>,
    /// The addresses of the host; `None` where nothing is looked up here.
    pub names: Option<ProbeStep<Vec<IpAddr>>>,
    /// The connection, by the proxy if there is one; `None` if it did not come to that.
    pub connection: Option<ProbeStep<Reached>>,
    /// TLS on it; `None` for http, or if it did not come to that.
    pub tls: Option<ProbeStep<Secured>>,
    /// What a server that is not trusted has shown.
    pub refused: Vec<Certificate>,
}

/// One step of the way.
#[derive(Debug)]
pub struct ProbeStep<T> {
    /// How long it took.
    pub took: Duration,
    /// What came of it.
    pub outcome: Result<T, Error>,
}

/// A connection.
#[derive(Debug, Default, PartialEq, Eq)]
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
    pub version: &'static str,
    /// The server's own certificate, and those that it sent along.
    pub chain: Vec<Certificate>,
}

impl Look {
    /// Why there is no connection.
    #[must_use]
    pub fn fault(&self) -> Option<&Error> {
        fn fault<T>(step: &Option<ProbeStep<T>>) -> Option<&Error> {
            step.as_ref()?.outcome.as_ref().err()
        }
        fault(&self.names).or(fault(&self.connection)).or(fault(&self.tls))
    }
}

/// Goes the way to `endpoint`, within the time that a connection may take. Nothing is sent there
/// but what TLS needs.
pub async fn look(options: &Options, endpoint: &Endpoint) -> Look {
    let until = Instant::now() + options.connect_timeout;
    let mut look = go(options, endpoint, until).await;
    let is_refused = look.tls.as_ref().is_some_and(|step| step.outcome.is_err());
    if is_refused && Instant::now() < until {
        let tls = TlsOptions { insecure: true, ..TlsOptions::default() };
        let again = go(&Options { tls, ..options.clone() }, endpoint, until).await;
        let secured = again.tls.and_then(|step| step.outcome.ok());
        look.refused = secured.map_or_else(Vec::new, |secured| secured.chain);
    }
    look
}

async fn go(options: &Options, endpoint: &Endpoint, until: Instant) -> Look {
    let (url, uri) = (endpoint.url(), endpoint.uri());
    let (connector, proxy) = (Connector::new(options), options.proxies.of(uri));
    let too_slow = || ConnectFault::Timeout(options.connect_timeout, proxy.cloned());
    let mut look = Look { proxy: proxy.cloned(), ..Look::default() };
    let addresses = match bare_host(uri).parse::<IpAddr>() {
        _ if proxy.is_some() => Vec::new(),
        // An address needs no look.
        Ok(ip) => vec![ip],
        Err(_) => {
            let late = Unreachable::Unresolved(io::ErrorKind::TimedOut.to_string());
            let resolving = async {
                let found = connector.resolver().resolve(bare_host(uri)).await?;
                Ok(found.iter().map(SocketAddr::ip).collect::<Vec<_>>())
            };
            let names = look.names.insert(step(url, until, late.into(), resolving).await);
            let Ok(found) = &names.outcome else { return look };
            found.clone()
        }
    };
    let begun = Instant::now();
    let connecting = async {
        let Some(proxy) = proxy else { return first_of(addresses, port(uri)).await };
        let carrier = connector.via_proxy(proxy, uri).await?;
        Ok((Reached::default(), carrier, begun.elapsed()))
    };
    let ProbeStep { took, outcome } = step(url, until, too_slow(), connecting).await;
    let (reached, carrier, took) = match outcome {
        Ok((reached, carrier, took)) => (Ok(reached), Some(carrier), took),
        Err(error) => (Err(error), None, took),
    };
    look.connection = Some(ProbeStep { took, outcome: reached });
    if let Some(carrier) = carrier.filter(|_| is_secure(uri)) {
        let securing = async {
            let stream = connector.tls.handshake(uri, HTTP_2_OR_1, carrier).await;
            stream.map(secured).map_err(|fault| ConnectFault::Tls(fault, proxy.cloned()))
        };
        look.tls = Some(step(url, until, too_slow(), securing).await);
    }
    look
}

/// Takes one step of the way to `url`, which fails with `late` if it is not done `until` then.
async fn step<T>(
    url: &Url,
    until: Instant,
    late: ConnectFault,
    work: impl Future<Output = Result<T, ConnectFault>>,
) -> ProbeStep<T> {
    let begun = Instant::now();
    let outcome = timeout_at(until.into(), work).await.unwrap_or(Err(late));
    ProbeStep { took: begun.elapsed(), outcome: outcome.map_err(|fault| unconnected(&fault, url)) }
}

/// Connects to all of them: the first that answers counts, with the time that it took, and the
/// others get a moment more.
async fn first_of(
    addresses: Vec<IpAddr>,
    port: u16,
) -> Result<(Reached, Carrier, Duration), ConnectFault> {
    let begun = Instant::now();
    let mut tries = JoinSet::new();
    for ip in addresses.into_iter().take(limits::PROBED_ADDRESSES) {
        let address = SocketAddr::new(ip, port);
        tries.spawn(async move { (address, TcpStream::connect(address).await) });
    }
    let mut found = None;
    let mut dead = Vec::new();
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    let mut wait = Duration::MAX;
    while let Ok(Some(tried)) = timeout(wait, tries.join_next()).await {
        match tried {
            Ok((address, Ok(stream))) => {
                found.get_or_insert((address, stream, begun.elapsed()));
                wait = limits::OTHER_ADDRESSES;
            }
            Ok((address, Err(error))) => {
                dead.push((address, error.to_string()));
                last = error;
            }
            Err(_) => {}
        }
    }
    let (address, stream, took) =
        found.ok_or_else(|| Unreachable::Tcp(last.kind(), last.to_string()))?;
    let carrier = MaybeHttpsStream::Http(TokioIo::new(stream));
    Ok((Reached { address: Some(address), dead }, carrier, took))
}

fn secured<T>(stream: TlsStream<T>) -> Secured {
    let connection = stream.get_ref().1;
    // No others are spoken.
    let is_newest = connection.protocol_version() == Some(ProtocolVersion::TLSv1_3);
    let version = if is_newest { "TLS 1.3" } else { "TLS 1.2" };
    let shown = connection.peer_certificates().into_iter().flatten().take(limits::CHAIN);
    Secured { version, chain: shown.filter_map(|der| Certificate::read(der)).collect() }
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
        let options =
            Options { tls: TlsOptions { roots, ..TlsOptions::default() }, ..Options::default() };
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
        let options =
            Options { tls: TlsOptions { roots, ..TlsOptions::default() }, ..Options::default() };
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
