//! How connections are made: all that a client of HTTP can be told.

use std::time::Duration;

use super::proxy::Proxies;
use crate::limits;

/// What is asked of every connection.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long name resolution, TCP, a proxy and TLS may take together.
    pub connect_timeout: Duration,
    /// What connections go through.
    pub proxies: Proxies,
}

impl Default for Options {
    fn default() -> Self {
        Self { connect_timeout: limits::CONNECT_TIMEOUT, proxies: Proxies::default() }
    }
}
