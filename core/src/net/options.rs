//! How connections are made: all that a client of HTTP can be told.

use std::time::Duration;

use super::TlsOptions;
use super::addresses::Addresses;
use super::proxy::Proxies;
use crate::limits;

/// What is asked of every connection.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long name resolution, TCP, a proxy and TLS may take together.
    pub connect_timeout: Duration,
    /// Whom https trusts, and who we are to it.
    pub tls: TlsOptions,
    /// What connections go through.
    pub proxies: Proxies,
    /// Where names may lead, if they are resolved here.
    pub addresses: Addresses,
    /// Names that are resolved here lead to IPv4 addresses only.
    pub ipv4: bool,
}

impl Default for Options {
    fn default() -> Self {
        let (tls, proxies) = (TlsOptions::default(), Proxies::default());
        let addresses = Addresses::default();
        let connect_timeout = limits::CONNECT_TIMEOUT;
        Self { connect_timeout, tls, proxies, addresses, ipv4: false }
    }
}
