//! Hosts that no proxy is used for, written as in `NO_PROXY`. Pure.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// A list of hosts, networks and domains, each with a port if only that is meant.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Exceptions(Vec<Exception>);

#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
struct Exception {
    hosts: HostPattern,
    port: Option<u16>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
enum HostPattern {
    All,
    /// The address, and how many of its bits count.
    Network(IpAddr, u32),
    /// The name itself, and all names below it.
    Domain(String),
}

impl Exceptions {
    /// Reads a list. What is between commas and blanks may be `*`, an address, a network such as
    /// `10.0.0.0/8`, or a name with all names below it; a dot, or `*.`, in front makes no
    /// difference, and a port may follow.
    ///
    /// # Errors
    ///
    /// What can be read, and the first entry that means nothing.
    pub fn parse(text: &str) -> Result<Self, (Self, String)> {
        let texts = text.split([',', ' ', '\t', '\n', '\r']).filter(|text| !text.is_empty());
        let known = Self(texts.clone().filter_map(entry).collect());
        match texts.clone().find(|text| entry(text).is_none()) {
            None => Ok(known),
            Some(wrong) => Err((known, wrong.to_owned())),
        }
    }

    /// Whether it leaves nothing to any proxy.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.0.iter().any(|entry| entry.hosts == HostPattern::All && entry.port.is_none())
    }

    /// Whether `host`, as it stands in a URL, is among them.
    #[must_use]
    pub fn contains(&self, host: &str, port: u16) -> bool {
        let host = host.trim_matches(['[', ']']).trim_end_matches('.').to_ascii_lowercase();
        let address = host.parse::<IpAddr>().ok().map(|ip| ip.to_canonical());
        self.0.iter().any(|entry| {
            entry.port.is_none_or(|only| only == port)
                && match (&entry.hosts, address) {
                    (HostPattern::All, _) => true,
                    (HostPattern::Network(network, bits), Some(ip)) => is_in(ip, *network, *bits),
                    (HostPattern::Domain(name), None) => is_below(&host, name),
                    _ => false,
                }
        })
    }
}

fn entry(text: &str) -> Option<Exception> {
    if let Some(hosts) = network(text) {
        return Some(Exception { hosts, port: None });
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, Some(port.parse().ok()?)),
        None => (text, None),
    };
    let hosts = network(host).or_else(|| domain(host))?;
    Some(Exception { hosts, port })
}

/// An address with or without brackets, or a network.
fn network(text: &str) -> Option<HostPattern> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse().ok()?)),
        None => (text, None),
    };
    let inner = address.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let ip = inner.unwrap_or(address).parse::<IpAddr>().ok()?;
    let ip = if bits.is_none() { ip.to_canonical() } else { ip };
    let width = if ip.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(width);
    (bits <= width).then_some(HostPattern::Network(ip, bits))
}

fn domain(text: &str) -> Option<HostPattern> {
    if text == "*" {
        return Some(HostPattern::All);
    }
    let name = text.strip_prefix('*').unwrap_or(text);
    let name = name.trim_matches('.').to_ascii_lowercase();
    // A part of a name before or behind a star is nothing that others understand, either.
    let is_suffix = !text.starts_with('*') || text.starts_with("*.");
    let is_name = !name.is_empty() && !name.contains(['*', '/', ':', '@', '[', ']']);
    (is_suffix && is_name).then_some(HostPattern::Domain(name))
}

fn is_in(ip: IpAddr, network: IpAddr, bits: u32) -> bool {
    let alike = match (ip, network) {
        (IpAddr::V4(ip), IpAddr::V4(network)) => (ip.to_bits() ^ network.to_bits()).leading_zeros(),
        (IpAddr::V6(ip), IpAddr::V6(network)) => (ip.to_bits() ^ network.to_bits()).leading_zeros(),
        _ => return false,
    };
    alike >= bits
}

fn is_below(host: &str, name: &str) -> bool {
    host.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(text: &str) -> Exceptions {
        Exceptions::parse(text).unwrap()
    }

    #[test]
    fn names_stand_for_themselves_and_all_below_with_and_without_a_dot() {
        for text in
            ["example.com", ".example.com", "*.example.com", "EXAMPLE.com.", "x, example.com"]
        {
            let list = list(text);
            for host in ["example.com", "a.example.com", "a.b.Example.com", "example.com."] {
                assert!(list.contains(host, 443), "{text}: {host}");
            }
            for host in ["notexample.com", "example.com.evil", "com", "1.2.3.4"] {
                assert!(!list.contains(host, 443), "{text}: {host}");
            }
        }
    }

    #[test]
    fn addresses_and_networks_match_addresses_only() {
        let list = list("192.0.2.1 10.0.0.0/8,[2001:db8::1],fd00::/8\n0.0.0.0/32");
        for host in ["192.0.2.1", "10.255.1.2", "[2001:db8::1]", "[fdff::1]", "[::ffff:10.1.1.1]"] {
            assert!(list.contains(host, 443), "{host}");
        }
        for host in
            ["192.0.2.2", "11.0.0.1", "[2001:db8::2]", "[fe00::1]", "10.example", "a.10.0.0.0"]
        {
            assert!(!list.contains(host, 443), "{host}");
        }
        assert!(self::list("0.0.0.0/0").contains("8.8.8.8", 1));
        assert!(!self::list("0.0.0.0/0").contains("[::8]", 1));
        assert!(self::list("::/0").contains("[::8]", 1));
    }

    #[test]
    fn a_port_makes_an_entry_narrower() {
        let list = list("example.com:8443,[::2]:80,192.0.2.1:80");
        assert!(list.contains("a.example.com", 8443) && !list.contains("a.example.com", 443));
        assert!(list.contains("[::2]", 80) && !list.contains("[::2]", 443));
        assert!(list.contains("192.0.2.1", 80) && !list.contains("192.0.2.1", 8080));
    }

    #[test]
    fn a_star_is_everything_and_an_empty_list_is_nothing() {
        let all = list("a, *");
        assert!(all.is_all() && all.contains("anything", 1) && all.contains("::8", 1));
        let none = list(" , ");
        assert!(!none.is_all() && !none.contains("a", 1));
        assert!(!list("*:80").is_all() && list("*:80").contains("a", 80));
    }

    #[test]
    fn what_means_nothing_is_named_and_the_rest_counts() {
        for wrong in
            ["10.0.0.0/33", "a/8", "a:b", "169.254/16", "a*", "*a", "a.*.b", "http://a", "."]
        {
            let (rest, named) = Exceptions::parse(&format!("{wrong},b")).unwrap_err();
            assert_eq!(named, wrong);
            assert!(rest.contains("b", 1));
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(text in ".{0,40}", host in ".{0,20}") {
            let list = Exceptions::parse(&text).unwrap_or_else(|(list, _)| list);
            let _ = list.contains(&host, 443);
        }
    }
}
