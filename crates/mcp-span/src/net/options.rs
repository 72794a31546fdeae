//! How connections are made: all that a client of HTTP can be told, and where names may lead.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::TlsOptions;
use super::proxy::Proxies;
use super::recorder::Recorder;
use crate::limits;

/// What is asked of every connection.
///
/// What another process is handed of it leaves out what has to go there by itself: secrets, and what
/// has no form to be written in.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Options {
    /// How long name resolution, TCP, a proxy and TLS may take together.
    pub connect_timeout: Duration,
    /// Whom https trusts, and who we are to it.
    pub tls: TlsOptions,
    /// What connections go through.
    pub proxies: Proxies,
    /// Where names may lead, if they are resolved here.
    #[serde(skip)]
    pub addresses: Addresses,
    /// Names that are resolved here lead to IPv4 addresses only.
    pub ipv4: bool,
    /// Keeps all exchanges, for whoever has a clone of it.
    #[serde(skip)]
    pub recorder: Option<Recorder>,
}

impl Default for Options {
    fn default() -> Self {
        let (tls, proxies) = (TlsOptions::default(), Proxies::default());
        let addresses = Addresses::default();
        let connect_timeout = limits::CONNECT_TIMEOUT;
        Self { connect_timeout, tls, proxies, addresses, ipv4: false, recorder: None }
    }
}

/// Which of the addresses that a name stands for may be connected to: all of them, unless somebody
/// has a say in it.
///
/// They are looked at where they are connected to, so that no second answer of a name server can
/// lead elsewhere. Names that a proxy resolves, and addresses that stand in the URL itself, are the
/// business of whoever has the URL.
#[derive(Clone, Default)]
pub struct Addresses(Option<Arc<AddressTest>>);

type AddressTest = dyn Fn(IpAddr) -> bool + Send + Sync;

impl Addresses {
    /// Those that pass the test. It is asked for each connection, and may change its mind.
    pub fn only(test: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(test)))
    }

    pub(super) fn allow(&self, ip: IpAddr) -> bool {
        self.0.as_ref().is_none_or(|test| test(ip))
    }
}

impl fmt::Debug for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Addresses(some)" } else { "Addresses(all)" })
    }
}
