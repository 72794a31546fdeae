//! The pools of connections: one for each version of HTTP, one for what is urgent, and one for each
//! stream that lasts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tracing::debug;

use super::Options;
use super::body::Outbound;
use super::client::Lane;
use super::connect::Connector;
use super::http1::Http1;
use super::protocol::{Known, Protocol};
use super::proxy::Proxies;
use super::sleeps::Sleeps;
use super::tls::LazyTls;
use crate::limits;

pub(super) type Pool = Arc<Client<Connector, Outbound>>;

/// When an HTTP/2 connection has to show that it lives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pings {
    /// After so much silence it is asked.
    pub(super) interval: Duration,
    /// So long it has for an answer.
    pub(super) timeout: Duration,
}

impl Default for Pings {
    fn default() -> Self {
        Self { interval: limits::HTTP2_PING, timeout: limits::HTTP2_PONG }
    }
}

/// All connections of a client.
#[derive(Debug)]
pub(super) struct Pools {
    connector: Connector,
    pings: Pings,
    sleeps: Sleeps,
    current: Mutex<Current>,
}

/// Connections, and how many times the machine had slept when the first of them was made.
#[derive(Debug)]
struct Current {
    http1: Arc<Http1>,
    http2: Pool,
    /// HTTP/2 as well. A server takes only so many requests at once on a connection, and long calls
    /// may hold them all; what must not wait behind them needs another.
    express: Pool,
    after_sleeps: u64,
}

impl Pools {
    pub(super) fn new(options: &Options, tls: LazyTls, pings: Pings) -> Self {
        let connector = Connector::new(options, tls);
        let current = Mutex::new(Current::new(&connector, pings, 0));
        Self { connector, pings, sleeps: Sleeps::default(), current }
    }

    /// How many times the machine has slept so far.
    pub(super) fn sleeps(&self) -> &Sleeps {
        &self.sleeps
    }

    /// What is known of servers.
    pub(super) fn known(&self) -> &Known {
        &self.connector.known
    }

    /// What stands between us and servers.
    pub(super) fn proxies(&self) -> &Proxies {
        &self.connector.proxies
    }

    pub(super) fn connect_timeout(&self) -> Duration {
        self.connector.timeout()
    }

    /// For one request at a time on a connection; what is urgent has its own here anyway.
    pub(super) fn http1(&self) -> Arc<Http1> {
        Arc::clone(&self.current().http1)
    }

    /// For many requests on one connection; what lasts has one to itself. A server may take a single
    /// request at a time on each, and no API of the pool's tells how many it takes.
    pub(super) fn http2(&self, lane: Lane) -> Pool {
        match lane {
            Lane::Calls => Arc::clone(&self.current().http2),
            Lane::Urgent => Arc::clone(&self.current().express),
            // Dropping the pool leaves the connection to the stream that is open on it.
            Lane::Lasting => http2(&self.connector, self.pings),
        }
    }

    /// The pools; new ones after a sleep. What slept along is dead, or soon will be, and a request
    /// that is written to it is lost in a way that nobody can tell from having been carried out.
    fn current(&self) -> MutexGuard<'_, Current> {
        let sleeps = self.sleeps.count();
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.after_sleeps != sleeps {
            debug!("the machine has slept: all connections are given up");
            *current = Current::new(&self.connector, self.pings, sleeps);
        }
        current
    }
}

impl Current {
    fn new(connector: &Connector, pings: Pings, after_sleeps: u64) -> Self {
        Self {
            http1: Arc::new(Http1::new(connector.wanting(Protocol::Http1))),
            http2: http2(connector, pings),
            express: http2(connector, pings),
            after_sleeps,
        }
    }
}

fn http2(connector: &Connector, pings: Pings) -> Pool {
    let pool = Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(limits::HTTP2_IDLE)
        .http2_only(true)
        .timer(TokioTimer::new())
        .http2_keep_alive_interval(pings.interval)
        .http2_keep_alive_timeout(pings.timeout)
        // An idle one that died must not be found out by the next call.
        .http2_keep_alive_while_idle(true)
        .http2_initial_max_send_streams(limits::HTTP2_FIRST_STREAMS)
        .http2_initial_stream_window_size(limits::HTTP2_STREAM_WINDOW)
        .http2_initial_connection_window_size(limits::HTTP2_CONNECTION_WINDOW)
        .http2_max_header_list_size(limits::HTTP2_HEAD)
        .build(connector.wanting(Protocol::Http2));
    Arc::new(pool)
}
