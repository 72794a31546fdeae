//! Which addresses of others are used at all: encrypted ones, and no way into a private network.

use std::net::{IpAddr, Ipv6Addr};

use url::{Host, Url};

use crate::error::{Error, Kind};
use crate::net::is_localhost;
use crate::secret::shown;

/// How near a host is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    Public,
    Private,
    Loopback,
}

/// Takes an address that `server`, or somebody whom it named, has given.
///
/// A server of the public network has no business to send us to a machine of ours.
pub(super) fn checked(text: &str, what: &str, server: &Url) -> Result<Url, Error> {
    let refuse = |why: &str| {
        let message = format!("{} gives an address for {what} that {why}", shown(server));
        Err(Error::new(Kind::Login, message).not_delivered())
    };
    let Ok(url) = Url::parse(text) else { return refuse("is not a URL") };
    if !url.username().is_empty() || url.password().is_some() {
        return refuse("holds a user name");
    }
    match (url.scheme(), reach(&url)) {
        ("https", _) | ("http", Reach::Loopback) => {}
        ("http", _) => return refuse("is not encrypted"),
        _ => return refuse("is neither http nor https"),
    }
    if reach(&url) > reach(server) {
        return refuse("lies in a private network");
    }
    Ok(url)
}

fn reach(url: &Url) -> Reach {
    match url.host() {
        Some(Host::Domain(name)) if is_localhost(name) => Reach::Loopback,
        Some(Host::Domain(name)) if is_local_name(name) => Reach::Private,
        Some(Host::Domain(_)) => Reach::Public,
        Some(Host::Ipv4(ip)) => of_address(IpAddr::V4(ip)),
        Some(Host::Ipv6(ip)) => of_address(IpAddr::V6(ip)),
        None => Reach::Loopback,
    }
}

/// Names that only local networks have.
fn is_local_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    !name.contains('.')
        || [".local", ".internal", ".lan", ".home.arpa"].iter().any(|e| name.ends_with(e))
}

fn of_address(ip: IpAddr) -> Reach {
    match ip {
        _ if ip.is_loopback() || ip.is_unspecified() => Reach::Loopback,
        IpAddr::V4(ip) => {
            let shared = ip.octets()[0] == 100 && (64..128).contains(&ip.octets()[1]);
            let is_private = ip.is_private() || ip.is_link_local() || ip.is_broadcast() || shared;
            if is_private { Reach::Private } else { Reach::Public }
        }
        IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
            Some(mapped) => of_address(IpAddr::V4(mapped)),
            None if is_local_v6(ip) => Reach::Private,
            None => Reach::Public,
        },
    }
}

fn is_local_v6(ip: Ipv6Addr) -> bool {
    ip.is_unique_local() || ip.is_unicast_link_local()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_taken(server: &str, text: &str) -> bool {
        checked(text, "tokens", &Url::parse(server).unwrap()).is_ok()
    }

    #[test]
    fn a_public_server_cannot_send_us_into_our_own_network() {
        let server = "https://mcp.example.com/mcp";
        for text in ["https://login.example.com/token", "https://8.8.8.8/x", "https://[2606::1]/"] {
            assert!(is_taken(server, text), "{text}");
        }
        for text in [
            "http://login.example.com/token",
            "https://localhost/token",
            "http://127.0.0.1:8080/",
            "https://10.0.0.1/",
            "https://192.168.1.1/",
            "https://169.254.169.254/latest/meta-data",
            "https://100.64.0.1/",
            "https://[::1]/",
            "https://[fd00::1]/",
            "https://[::ffff:10.0.0.1]/",
            "https://router/",
            "https://db.internal/",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "https://user@login.example.com/",
            "not a url",
            "",
        ] {
            assert!(!is_taken(server, text), "{text}");
        }
    }

    #[test]
    fn a_server_of_our_own_may_name_what_is_as_near() {
        assert!(is_taken("http://localhost:3000/mcp", "http://127.0.0.1:9000/token"));
        assert!(is_taken("http://localhost:3000/mcp", "https://10.0.0.1/token"));
        assert!(is_taken("https://10.0.0.1/mcp", "https://10.0.0.2/token"));
        assert!(!is_taken("https://10.0.0.1/mcp", "http://127.0.0.1/token"));
        assert!(!is_taken("http://localhost/mcp", "http://login.example.com/token"));
    }
}
