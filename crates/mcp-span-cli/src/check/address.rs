//! The URL, and the way to its server: names, a proxy, the connection.

use std::net::{IpAddr, SocketAddr};

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use url::{Host, Url};

use super::finding::{Finding, ms};
use mcp_span::error::Error;
use mcp_span::limits;
use mcp_span::net::{RecordedConnection, is_localhost, is_loopback};

/// The URL as it was understood.
pub(super) fn url(url: &Url) -> Finding {
    let host = url.host_str().unwrap_or_default();
    let port = url.port_or_known_default().unwrap_or_default();
    let place = format!("host {host}, port {port}, path {}", shown_path(url));
    match (url.scheme(), is_loopback(host)) {
        ("http", false) => Finding::warning("url", format!("plain http, {place}"))
            .meaning(
                "Anyone on the network path can read and change the traffic, credentials included",
            )
            .next_step("Use https, unless you trust the whole path"),
        ("http", true) => Finding::ok("url", format!("plain http on this machine, {place}")),
        _ => Finding::ok("url", format!("https, {place}")),
    }
}

fn shown_path(url: &Url) -> String {
    let mut bare = url.clone();
    bare.set_query(None);
    let shown = mcp_span::secret::shown(&bare);
    let origin = bare.origin().ascii_serialization();
    shown.strip_prefix(&origin).unwrap_or(&shown).to_owned()
}

/// The way to a server, as far as the client came.
pub(super) struct Way<'a> {
    pub(super) url: &'a Url,
    pub(super) connection: &'a RecordedConnection,
    /// Why it came no further.
    pub(super) fault: Option<&'a Error>,
}

impl Way<'_> {
    /// Name resolution, the proxy, and the connection; `dead` are addresses that do not answer.
    pub(super) fn findings(&self, dead: Vec<String>) -> [Finding; 3] {
        [self.name(), self.proxy(), self.connection().details(dead)]
    }

    /// Whether the host has a name that was to be looked up here.
    fn has_name(&self) -> bool {
        self.connection.proxy.is_none() && matches!(self.url.host(), Some(Host::Domain(_)))
    }

    fn name(&self) -> Finding {
        let host = self.url.host_str().unwrap_or_default();
        match (&self.connection.names, self.fault) {
            _ if self.connection.proxy.is_some() => {
                Finding::skipped("name", "resolved by the proxy")
            }
            _ if !self.has_name() => {
                Finding::ok("name", "an IP address: nothing to resolve")
            }
            _ if is_localhost(host) => {
                Finding::ok("name", format!("{host} is this machine: nothing to resolve"))
            }
            (Some((found, took)), _) => {
                let found = found.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ");
                Finding::ok("name", format!("{found} ({})", ms(*took))).took(*took)
            }
            (None, Some(error)) => Finding::of_error("name", error)
                .meaning("No name server knows the host: it is misspelled, known only inside another network (a VPN?), or this machine is offline"),
            (None, None) => Finding::skipped("name", "it was not resolved"),
        }
    }

    fn proxy(&self) -> Finding {
        match &self.connection.proxy {
            None => Finding::ok("proxy", "none"),
            Some(proxy) => Finding::ok("proxy", format!("{proxy}, from {}", proxy.origin)),
        }
    }

    fn connection(&self) -> Finding {
        match (&self.connection.reached, self.fault) {
            (Some((address, took)), _) => {
                let place = address.map_or("through the proxy".to_owned(), |ip| ip.to_string());
                Finding::ok("connection", format!("{place} ({})", ms(*took))).took(*took)
            }
            (None, Some(error)) if !self.has_name() || self.connection.names.is_some() => {
                let reason = error.reason.as_deref().unwrap_or_default();
                Finding::of_error("connection", error)
                    .meaning(meaning(reason, self.connection.proxy.is_some()))
            }
            (None, _) => Finding::skipped("connection", "no address to connect to"),
        }
    }
}

/// Other addresses of the host than the one that was connected to, if they do not answer. Whoever
/// connects does not notice; a person wants to know.
pub(super) async fn dead_addresses(connection: &RecordedConnection) -> Vec<String> {
    let (Some((Some(address), _)), Some((names, _))) = (connection.reached, &connection.names)
    else {
        return Vec::new();
    };
    let mut tries = JoinSet::new();
    // `localhost` has two addresses, and servers mostly listen on one of them.
    let others = names.iter().filter(|ip| **ip != address.ip() && !ip.is_loopback());
    for ip in others.take(limits::PROBED_ADDRESSES) {
        let other = SocketAddr::new(*ip, address.port());
        tries.spawn(async move { (other, TcpStream::connect(other).await) });
    }
    let mut dead = Vec::new();
    while let Ok(Some(Ok(tried))) = timeout(limits::OTHER_ADDRESSES, tries.join_next()).await {
        if let (other, Err(why)) = tried {
            dead.push(format!("{other} does not answer: {why}"));
        }
    }
    dead
}

fn meaning(reason: &str, has_proxy: bool) -> &'static str {
    match () {
        () if has_proxy => "The proxy is unreachable, or refuses to connect to the server",
        () if reason.contains("refused") => {
            "The machine is up, but nothing listens on this port: the server is down, or uses another port"
        }
        () if reason.contains("no connection within") => {
            "No answer at all: the machine is off, or a firewall drops the packets"
        }
        () => "The network has no route there",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::finding::Status;
    use super::*;
    use mcp_span::error::ErrorKind;

    fn at(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn found(url: &str, connection: &RecordedConnection, fault: Option<&Error>) -> [Finding; 3] {
        Way { url: &at(url), connection, fault }.findings(Vec::new())
    }

    #[test]
    fn urls_are_told_without_their_secrets() {
        let told = url(&at("https://me:pw@h.example/mcp/0123456789abcdef0?key=v"));
        assert_eq!(told.summary, "https, host h.example, port 443, path /mcp/[secret]");
        assert_eq!(url(&at("http://h.example/")).status, Status::Warning);
        assert_eq!(url(&at("http://127.0.0.1:1/")).status, Status::Ok);
    }

    #[test]
    fn each_step_of_a_way_is_told_with_its_time() {
        let mut connection = RecordedConnection::default();
        let took = Duration::from_millis(3);
        connection.names = Some((vec!["192.0.2.1".parse().unwrap()], took));
        connection.reached = Some((Some("192.0.2.1:443".parse().unwrap()), took));
        let [name, proxy, connected] = found("https://h/", &connection, None);
        assert_eq!((&*name.summary, &*proxy.summary), ("192.0.2.1 (3.0 ms)", "none"));
        assert_eq!(
            (&*connected.summary, &*connected.times),
            ("192.0.2.1:443 (3.0 ms)", &[took][..])
        );
    }

    #[test]
    fn a_way_ends_at_its_first_fault() {
        let statuses = |url, connection: &RecordedConnection| {
            let error = Error::new(ErrorKind::Dns, "no");
            found(url, connection, Some(&error)).map(|finding| finding.status)
        };
        let mut connection = RecordedConnection::default();
        let [failed, ok, skipped] = [Status::Failed, Status::Ok, Status::Skipped];
        assert_eq!(statuses("https://h/", &connection), [failed, ok, skipped]);
        assert_eq!(statuses("https://127.0.0.1/", &connection), [ok, ok, failed]);
        connection.names = Some((Vec::new(), Duration::ZERO));
        assert_eq!(statuses("https://h/", &connection), [ok, ok, failed]);
    }

    #[tokio::test]
    async fn dead_addresses_of_a_live_host_are_named() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut connection = RecordedConnection::default();
        // The first is no address of a host, and refused at once.
        let names = vec!["255.255.255.255".parse().unwrap(), address.ip(), "::1".parse().unwrap()];
        connection.names = Some((names, Duration::ZERO));
        connection.reached = Some((Some(address), Duration::ZERO));
        let dead = dead_addresses(&connection).await;
        assert_eq!(dead.len(), 1, "{dead:?}");
        assert!(dead[0].starts_with("255.255.255.255:"), "{dead:?}");
    }
}
