//! Sends one HTTP request and gives back the head of its answer, redirects followed by rule.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tracing::debug;

use super::body::{Outbound, Progress};
use super::connect::Connector;
use super::{Endpoint, fault, redirect};
use crate::error::{Error, Kind};
use crate::limits;

/// A pool of connections. Cheap to clone; connects on first use only.
#[derive(Clone, Debug)]
pub struct HttpClient {
    pool: Arc<Mutex<Pool>>,
    connect_timeout: Duration,
}

/// Connections, and when they were last used by two clocks, of which one stops while the machine
/// sleeps.
#[derive(Debug)]
struct Pool {
    connections: Client<Connector, Outbound>,
    running: Instant,
    wall: SystemTime,
}

/// One request.
#[derive(Clone)]
pub struct Call {
    /// The HTTP method.
    pub method: Method,
    /// Where to.
    pub endpoint: Arc<Endpoint>,
    /// All headers but those that HTTP itself needs.
    pub headers: HeaderMap,
    /// The body; empty for none.
    pub body: Bytes,
    /// Notes when the request begins to leave.
    pub progress: Progress,
}

/// Where an answer came from in the end.
#[derive(Clone, Debug)]
struct Moved(Arc<Endpoint>);

/// Where redirects have led to; `None` if there were none.
#[must_use]
pub fn final_endpoint<B>(response: &Response<B>) -> Option<Arc<Endpoint>> {
    response.extensions().get::<Moved>().map(|moved| Arc::clone(&moved.0))
}

/// Its headers are secrets, its body may be anything.
impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Call({} {}, {} bytes)", self.method, self.endpoint, self.body.len())
    }
}

impl HttpClient {
    /// A client that takes at most `connect_timeout` for a connection.
    #[must_use]
    pub fn new(connect_timeout: Duration) -> Self {
        let pool = Pool {
            connections: connections(connect_timeout),
            running: Instant::now(),
            wall: SystemTime::now(),
        };
        Self { pool: Arc::new(Mutex::new(pool)), connect_timeout }
    }

    /// The pool; a new one after a sleep. What slept along is dead, or soon will be, and a request
    /// that is written to it is lost in a way that nobody can tell from having been carried out.
    fn connections(&self) -> Client<Connector, Outbound> {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        let (running, wall) = (Instant::now(), SystemTime::now());
        let passed = wall.duration_since(pool.wall).unwrap_or_default();
        if slept(running - pool.running, passed) {
            debug!("the machine has slept: all connections are given up");
            pool.connections = connections(self.connect_timeout);
        }
        (pool.running, pool.wall) = (running, wall);
        pool.connections.clone()
    }

    /// Sends `call`.
    ///
    /// # Errors
    ///
    /// When there is no answer, or one that redirects to where we do not follow.
    pub async fn send(&self, mut call: Call) -> Result<Response<Incoming>, Error> {
        let mut moved = false;
        for _ in 0..=limits::REDIRECTS {
            let mut response = self
                .connections()
                .request(request(&call))
                .await
                .map_err(|error| fault::explain(&error, call.endpoint.url(), &call.progress))?;
            let (url, status) = (call.endpoint.url(), response.status());
            match redirect::target(url, &call.method, status, response.headers())? {
                Some(next) => {
                    call.endpoint = Arc::new(Endpoint::new(&next)?);
                    moved = true;
                }
                None => {
                    if moved {
                        response.extensions_mut().insert(Moved(call.endpoint));
                    }
                    return Ok(response);
                }
            }
        }
        let message =
            format!("{} redirected more than {} times in a row", call.endpoint, limits::REDIRECTS);
        Err(Error::new(Kind::Redirect, message).not_delivered())
    }
}

fn connections(connect_timeout: Duration) -> Client<Connector, Outbound> {
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(limits::POOL_IDLE)
        .build(Connector::new(connect_timeout))
}

/// Whether much more time has passed on the wall than for the process. A clock that was set does no
/// harm here: it costs a new connection.
fn slept(running: Duration, wall: Duration) -> bool {
    wall.saturating_sub(running) > limits::POOL_IDLE
}

fn request(call: &Call) -> Request<Outbound> {
    let mut request = Request::new(Outbound::new(call.body.clone(), call.progress.clone()));
    *request.method_mut() = call.method.clone();
    *request.uri_mut() = call.endpoint.uri().clone();
    *request.headers_mut() = call.headers.clone();
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_is_seen_by_the_clocks_drifting_apart() {
        let seconds = Duration::from_secs;
        assert!(slept(seconds(2), seconds(8 * 3600)));
        assert!(!slept(seconds(8 * 3600), seconds(8 * 3600 + 1)), "a night awake");
        assert!(!slept(seconds(10), seconds(0)), "a clock that was set back");
    }
}
