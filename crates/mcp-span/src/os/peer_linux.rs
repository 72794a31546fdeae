//! Which user has opened a connection within this machine: Linux lists all sockets with their users.

use std::net::{IpAddr, SocketAddr};

use rustix::process::geteuid;

const ROOT: u32 = 0;

/// Where IPv4 and IPv6 sockets are listed.
const LISTS: [&str; 2] = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];

/// Whether the socket at `peer`, which is connected to `local`, belongs to another user of this
/// machine. Root is none: it can do everything anyway. What cannot be known is taken to be ours.
#[must_use]
pub fn is_another_users(peer: SocketAddr, local: SocketAddr) -> bool {
    let lists = LISTS.iter().filter_map(|list| std::fs::read_to_string(list).ok());
    let owner = lists.filter_map(|list| owner(&list, peer, local)).next();
    owner.is_some_and(|owner| owner != geteuid().as_raw() && owner != ROOT)
}

/// The user of the socket at `peer` that is connected to `local`.
fn owner(list: &str, peer: SocketAddr, local: SocketAddr) -> Option<u32> {
    let (peers, locals) = (forms(peer), forms(local));
    list.lines().skip(1).find_map(|line| {
        let mut columns = line.split_ascii_whitespace().skip(1);
        let (own, other) = (columns.next()?, columns.next()?);
        let is_it = peers.iter().any(|form| form == own) && locals.iter().any(|form| form == other);
        is_it.then(|| columns.nth(4)?.parse().ok()).flatten()
    })
}

/// An address as the lists write it, in the words of either family: numbers of four bytes in the
/// order of this machine.
fn forms(address: SocketAddr) -> Vec<String> {
    let port = address.port();
    let words = |bytes: &[u8]| -> String {
        let words = bytes.chunks_exact(4).filter_map(|word| <[u8; 4]>::try_from(word).ok());
        words.map(|word| format!("{:08X}", u32::from_ne_bytes(word))).collect()
    };
    let form = |bytes: &[u8]| format!("{}:{port:04X}", words(bytes));
    match address.ip() {
        IpAddr::V4(ip) => vec![form(&ip.octets()), form(&ip.to_ipv6_mapped().octets())],
        IpAddr::V6(ip) => {
            let mapped = ip.to_ipv4_mapped().map(|ip| form(&ip.octets()));
            mapped.into_iter().chain([form(&ip.octets())]).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_user_is_found_by_both_ends_of_the_connection() {
        let list = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            \x20  0: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 1 1 0 20 4 30 10 -1\n\
            \x20  1: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 2 1 0 20 4 30 10 -1\n";
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        if cfg!(target_endian = "little") {
            assert_eq!(owner(list, at(50000), at(8080)), Some(1000));
            assert_eq!(owner(list, at(8080), at(50000)), Some(0));
        }
        assert_eq!(owner(list, at(50001), at(8080)), None);
        assert_eq!(owner("", at(1), at(2)), None);
        assert_eq!(owner("x\n 1: 2 3\n", at(1), at(2)), None);
    }

    #[test]
    fn a_connection_of_our_own_is_ours_in_either_family() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let local = listener.local_addr().unwrap();
            let stream = TcpStream::connect(local).unwrap();
            let peer = stream.local_addr().unwrap();
            let lists = LISTS.iter().filter_map(|list| std::fs::read_to_string(list).ok());
            let found = lists.filter_map(|list| owner(&list, peer, local)).next();
            assert_eq!(found, Some(geteuid().as_raw()), "{address}");
            assert!(!is_another_users(peer, local));
        }
    }
}
