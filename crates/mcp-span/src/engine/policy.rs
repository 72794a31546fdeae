//! Limits on messages to a server, and how long they wait.

use std::time::Duration;

use crate::error::ErrorKind;
use crate::limits::{self, Timeouts};
use crate::message::Method;

/// How patient the bridge is with a server, and how much of a client's it keeps meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Silence timeouts; also how long requests may take once the client has closed its input.
    pub timeouts: Timeouts,
    /// How long `initialize` waits for a server that cannot be reached.
    pub connect_wait: Duration,
    /// How long any later message does.
    pub away_wait: Duration,
    /// How long requests wait for a person to log in before they are answered without the server.
    pub login_wait: Duration,
    /// How long a session may be silent before the bridge pings; `None` for ever.
    pub keep_alive: Option<Duration>,
    /// The client is not read while its messages that wait or are in flight take more bytes than this.
    pub memory: usize,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            timeouts: Timeouts::default(),
            connect_wait: limits::CONNECT_WAIT,
            away_wait: limits::AWAY_WAIT,
            login_wait: limits::LOGIN_PATIENCE,
            keep_alive: None,
            memory: limits::UNANSWERED_BYTES,
        }
    }
}

impl Policy {
    /// How long a message waits for a server that failed in this way.
    pub(super) fn patience(&self, method: Option<&Method>, kind: ErrorKind) -> Duration {
        match (method, kind) {
            (_, ErrorKind::Tls) => limits::TLS_WAIT.min(self.connect_wait),
            (Some(Method::Initialize), _) => self.connect_wait,
            _ => self.away_wait,
        }
    }
}

/// Limits on messages to one HTTP server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How many may be in flight.
    pub(crate) parallel: usize,
    /// One message at a time, in strict order.
    pub(crate) serial: bool,
    /// Silence timeouts.
    pub(crate) timeouts: Timeouts,
    /// The transport is fixed to HTTP+SSE.
    pub(crate) is_http_sse: bool,
}

impl Limits {
    /// For a pair of streams: no limit but the peer's reading.
    pub(super) fn none(policy: &Policy) -> Self {
        let timeouts = policy.timeouts;
        Self { parallel: usize::MAX, serial: false, timeouts, is_http_sse: false }
    }

    pub(super) fn normal(self) -> Self {
        let parallel = if self.serial { 1 } else { self.parallel.max(1) };
        Self { parallel, ..self }
    }
}
