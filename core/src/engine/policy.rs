//! Limits on messages to a server, and how long they wait.

use std::time::Duration;

use crate::error::Kind;
use crate::limits::{self, Timeouts};
use crate::message::Method;

/// Timeouts and budgets of the engine.
#[derive(Clone, Debug)]
pub(crate) struct EnginePolicy {
    /// Silence timeouts; also how long requests may take once the client has closed its input.
    pub(crate) timeouts: Timeouts,
    /// How long `initialize` waits for an unreachable server.
    pub(crate) connect_wait: Duration,
    /// How long any later message waits for it.
    pub(crate) away_wait: Duration,
    /// How long requests wait for a person to log in.
    pub(crate) login_wait: Duration,
    /// How long a session may be silent before the engine pings; `None` for ever.
    pub(crate) keep_alive: Option<Duration>,
    /// The client is not read while its messages in the table take more bytes than this.
    pub(crate) memory: usize,
    /// For ids of the bridge's own and the jitter of backoffs: random, but fixed in tests.
    pub(crate) seed: u64,
    /// Whether the engine times out requests over a pair of streams.
    pub(crate) watches: bool,
}

impl EnginePolicy {
    /// How long a message waits for a server that failed in this way.
    pub(super) fn patience(&self, method: Option<&Method>, kind: Kind) -> Duration {
        match (method, kind) {
            (_, Kind::Tls) => limits::TLS_WAIT.min(self.connect_wait),
            (Some(Method::Initialize), _) => self.connect_wait,
            _ => self.away_wait,
        }
    }

    /// How long anything waits for a new session.
    pub(super) fn reopening(&self) -> Duration {
        self.timeouts.quick.unwrap_or(limits::DRAIN_WITHOUT_TIMEOUT)
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
    pub(super) fn none(policy: &EnginePolicy) -> Self {
        let timeouts = policy.timeouts;
        Self { parallel: usize::MAX, serial: false, timeouts, is_http_sse: false }
    }

    pub(super) fn normal(self) -> Self {
        let parallel = if self.serial { 1 } else { self.parallel.max(1) };
        Self { parallel, ..self }
    }
}
