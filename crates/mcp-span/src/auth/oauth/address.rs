//! Which addresses of others are used at all: encrypted ones, and no way into a private network.

use std::net::{IpAddr, Ipv4Addr};

use serde::{Deserialize, Serialize};
use url::{Host, Url};

use super::words::login_error;
use crate::error::Error;
use crate::net::is_localhost;
use crate::secret::shown;

/// How near a host is to us.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Reach {
    Public,
    Private,
    Loopback,
}

/// Takes an address that `server`, or somebody whom it named, has given.
///
/// A server of the public network has no business to send us to a machine of ours.
pub(super) fn checked(text: &str, what: &str, server: &Url) -> Result<Url, Error> {
    let refuse = |why: &str| {
        Err(login_error(format!("{} gives an address for {what} that {why}", shown(server))))
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

/// Takes the issuer that the user has named: it may lie anywhere, but secrets go there.
pub(super) fn of_user(issuer: &str) -> Result<Url, Error> {
    let is_safe = |url: &Url| checked(issuer, "itself", url).is_ok();
    let url = Url::parse(issuer).ok().filter(is_safe);
    url.ok_or_else(|| login_error("The issuer of --oauth-issuer is no address with https"))
}

/// By what stands in the URL; a name may lead anywhere.
pub(super) fn reach(url: &Url) -> Reach {
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

/// What IANA's registries of special-purpose addresses do not call globally reachable is private.
pub(super) fn of_address(ip: IpAddr) -> Reach {
    match ip {
        _ if ip.is_loopback() || ip.is_unspecified() => Reach::Loopback,
        IpAddr::V4(ip) if is_special_v4(ip) => Reach::Private,
        IpAddr::V4(_) => Reach::Public,
        IpAddr::V6(ip) => match ip.segments() {
            // They stand for an IPv4 address: mapped, by NAT64, or by 6to4.
            [0, 0, 0, 0, 0, 0xffff, high, low]
            | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
            | [0x2002, high, low, ..] => of_address(v4(high, low)),
            // The oldest form, which is not in use any more.
            [0, 0, 0, 0, 0, 0, high, low] => of_address(v4(high, low)).max(Reach::Private),
            // Assignments of the IETF: Teredo, benchmarks, ORCHID; then two for documentation.
            [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Reach::Private,
            // Global unicast is `2000::/3`. All else is local, multicast, reserved or for translators.
            [first, ..] if first & 0xe000 != 0x2000 => Reach::Private,
            _ => Reach::Public,
        },
    }
}

/// Nobody has these on the public network.
fn is_special_v4(ip: Ipv4Addr) -> bool {
    match ip.octets() {
        // This network, multicast and what is reserved, shared address space (RFC 6598).
        [0 | 224..=255, ..] | [100, 64..=127, ..] => true,
        // Assignments of the IETF, the former anycast of 6to4 relays, benchmarks.
        [192, 0, 0, _] | [192, 88, 99, _] | [198, 18 | 19, ..] => true,
        _ => ip.is_private() || ip.is_link_local() || ip.is_documentation(),
    }
}

fn v4(high: u16, low: u16) -> IpAddr {
    Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)).into()
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
            "https://[::ffff:127.0.0.1]/",
            "https://[64:ff9b::10.0.0.1]/",
            "https://[2002:a00:1::]/",
            "https://[fe80::1]/",
            "https://0.0.0.0/",
            "https://0x7f.1/",
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
    fn special_purpose_addresses_are_not_public() {
        let private = "
            0.1.2.3 10.0.0.1 100.127.255.255 169.254.169.254 172.31.0.1 192.0.0.8
            192.0.2.1 192.88.99.1 192.168.0.1 198.18.0.1 198.19.255.255
            198.51.100.1 203.0.113.1 224.0.0.1 240.0.0.1 255.255.255.255
            64:ff9b:1::1 64:ff9b::10.0.0.1 64:ff9b::198.18.0.1 100::1 100:0:0:1::1
            2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:2::1 2001:10::1
            2001:db8::1 2002:a00:1:: 2002:c612:1:: 3fff::1 5f00::1 4000::1 fc00::1
            fe80::1 fec0::1 feff::1 ff02::1 ::ffff:240.0.0.1 ::10.0.0.1 ::8.8.8.8";
        let loopback = "
            127.0.0.1 ::1 :: 0.0.0.0 ::127.0.0.1 64:ff9b::127.0.0.1";
        let public = "
            8.8.8.8 192.0.1.1 198.17.0.1 198.20.0.1 100.63.0.1 223.255.255.255
            2606::1 2001:200::1 2620:4f:8000::1 2a00::1 ::ffff:8.8.8.8
            64:ff9b::8.8.8.8 2002:808:808::";
        let all = [(private, Reach::Private), (loopback, Reach::Loopback), (public, Reach::Public)];
        for (texts, reach) in all {
            for text in texts.split_whitespace() {
                assert_eq!(of_address(text.parse().unwrap()), reach, "{text}");
            }
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
