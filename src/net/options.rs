//! How connections are made: all that a client of HTTP can be told.

use std::time::Duration;

use super::TlsOptions;
use crate::limits;

/// What is asked of every connection.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long name resolution, TCP and TLS may take together.
    pub connect_timeout: Duration,
    /// Whom https trusts, and who we are to it.
    pub tls: TlsOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self { connect_timeout: limits::CONNECT_TIMEOUT, tls: TlsOptions::default() }
    }
}
