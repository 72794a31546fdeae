//! The URL, and the way to its server: names, a proxy, the connection. Pure.

use std::net::{IpAddr, SocketAddr};

use url::Url;

use super::finding::{Finding, ms};
use mcp_span::net::{Look, Reached, is_localhost, is_loopback};

/// The URL as it was understood.
pub(super) fn url(url: &Url) -> Finding {
    let host = url.host_str().unwrap_or_default();
    let port = url.port_or_known_default().unwrap_or_default();
    let place = format!("host {host}, port {port}, path {}", shown_path(url));
    match (url.scheme(), is_loopback(host)) {
        ("http", false) => Finding::warning("url", format!("plain http, {place}"))
            .meaning("Everybody on the way to this machine can read and change what is said, credentials included")
            .next_step("Use https, unless you trust the whole way"),
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

/// Name resolution, the proxy, and the connection.
pub(super) fn way(url: &Url, look: &Look) -> Vec<Finding> {
    vec![name(url, look), proxy(look), connection(look)]
}

fn name(url: &Url, look: &Look) -> Finding {
    let host = url.host_str().unwrap_or_default();
    match &look.names {
        None if look.proxy.is_some() => Finding::skipped("name", "the proxy looks it up"),
        None => Finding::ok("name", "an address: there is nothing to look up"),
        Some(step) => match &step.outcome {
            Ok(_) if is_localhost(host) => {
                Finding::ok("name", format!("{host} is this machine: nothing is looked up"))
            }
            Ok(found) => {
                let found = found.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ");
                Finding::ok("name", format!("{found} ({})", ms(step.took))).took(step.took)
            }
            Err(error) => Finding::of_error("name", error)
                .meaning("No name server that this machine asks knows the host: it is misspelled, is known only inside another network (a VPN?), or this machine is not online")
                .took(step.took),
        },
    }
}

fn proxy(look: &Look) -> Finding {
    match &look.proxy {
        None => Finding::ok("proxy", "none"),
        Some(proxy) => Finding::ok("proxy", format!("{proxy}, from {}", proxy.origin)),
    }
}

fn connection(look: &Look) -> Finding {
    let Some(step) = &look.connection else {
        return Finding::skipped("connection", "there is no address to connect to");
    };
    let took = ms(step.took);
    let finding = match &step.outcome {
        Ok(Reached { address: None, .. }) => {
            Finding::ok("connection", format!("through the proxy ({took})"))
        }
        Ok(Reached { address: Some(address), dead }) => {
            let dead = dead.iter().filter(|(dead, _)| !is_twin(*dead, *address));
            Finding::ok("connection", format!("{address} ({took})"))
                .details(dead.map(|(address, why)| format!("{address} does not answer: {why}")))
        }
        Err(error) => {
            let meaning = meaning(error.reason.as_deref().unwrap_or_default(), look);
            Finding::of_error("connection", error).meaning(meaning)
        }
    };
    finding.took(step.took)
}

/// `localhost` has two addresses, and servers mostly listen on one of them.
fn is_twin(dead: SocketAddr, address: SocketAddr) -> bool {
    dead.ip().is_loopback() && address.ip().is_loopback()
}

fn meaning(reason: &str, look: &Look) -> &'static str {
    match look.proxy {
        Some(_) => "The proxy cannot be reached, or does not let us through to the server",
        None if reason.contains("refused") => {
            "The machine is there, and nothing listens on this port: the server is down, or has another port"
        }
        None if reason.contains("no connection within") => {
            "Nothing came back at all: the machine is off, or a firewall drops what is sent there"
        }
        None => "The network does not lead there",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::finding::Status;
    use super::*;
    use mcp_span::error::{Error, Kind};
    use mcp_span::net::ProbeStep;

    fn nothing() -> Look {
        Look { proxy: None, names: None, connection: None, tls: None, refused: Vec::new() }
    }

    fn at(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn urls_are_told_without_their_secrets() {
        let told = url(&at("https://me:pw@h.example/mcp/0123456789abcdef0?key=v"));
        assert_eq!(told.summary, "https, host h.example, port 443, path /mcp/[secret]");
        assert_eq!(url(&at("http://h.example/")).status, Status::Warning);
        assert_eq!(url(&at("http://127.0.0.1:1/")).status, Status::Ok);
    }

    #[test]
    fn dead_addresses_of_a_live_host_are_named() {
        let live: SocketAddr = "192.0.2.1:443".parse().unwrap();
        let dead = vec![("[2001:db8::1]:443".parse().unwrap(), "no route".to_owned())];
        let outcome = Ok(Reached { address: Some(live), dead });
        let step = ProbeStep { took: Duration::from_millis(3), outcome };
        let found = connection(&Look { connection: Some(step), ..nothing() });
        assert_eq!(found.summary, "192.0.2.1:443 (3.0 ms)");
        assert_eq!(found.details, ["[2001:db8::1]:443 does not answer: no route"]);
    }

    #[test]
    fn a_name_that_nobody_knows_ends_it() {
        let outcome = Err(Error::new(Kind::Dns, "The host name h could not be resolved"));
        let step = ProbeStep { took: Duration::ZERO, outcome };
        let look = Look { names: Some(step), ..nothing() };
        let statuses = way(&at("https://h/"), &look).into_iter().map(|f| f.status);
        assert_eq!(statuses.collect::<Vec<_>>(), [Status::Failed, Status::Ok, Status::Skipped]);
    }
}
