//! Which hosts are this machine.

use std::net::IpAddr;

/// Whether `host`, as it stands in a URL, is this machine for certain.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(ip) => ip.to_canonical().is_loopback() || ip.is_unspecified(),
        Err(_) => is_localhost(host),
    }
}

/// `localhost` and all names below it mean this machine, whatever a name server says (RFC 6761).
#[must_use]
pub fn is_localhost(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_known_by_all_its_names() {
        for host in [
            "localhost",
            "LOCALHOST.",
            "a.localhost",
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "[::1]",
            "::",
            "[::ffff:127.0.0.1]",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["", "localhost.example", "notlocalhost", "128.0.0.1", "[fe80::1]", "10.0.0.1"]
        {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
