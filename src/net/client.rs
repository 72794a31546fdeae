//! Sends one HTTP request and gives back the head of its answer, redirects followed by rule.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::body::{Outbound, Progress};
use super::connect::Connector;
use super::{Endpoint, fault, redirect};
use crate::error::{Error, Kind};
use crate::limits;

/// A pool of connections. Cheap to clone; connects on first use only.
#[derive(Clone, Debug)]
pub struct HttpClient {
    pool: Client<Connector, Outbound>,
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
        let pool = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(limits::POOL_IDLE)
            .build(Connector::new(connect_timeout));
        Self { pool }
    }

    /// Sends `call`.
    ///
    /// # Errors
    ///
    /// When there is no answer, or one that redirects to where we do not follow.
    pub async fn send(&self, mut call: Call) -> Result<Response<Incoming>, Error> {
        for _ in 0..=limits::REDIRECTS {
            let response = self
                .pool
                .request(request(&call))
                .await
                .map_err(|error| fault::explain(&error, call.endpoint.url(), &call.progress))?;
            let (url, status) = (call.endpoint.url(), response.status());
            match redirect::target(url, &call.method, status, response.headers())? {
                Some(next) => call.endpoint = Arc::new(Endpoint::new(&next)?),
                None => return Ok(response),
            }
        }
        let message =
            format!("{} redirected more than {} times in a row", call.endpoint, limits::REDIRECTS);
        Err(Error::new(Kind::Redirect, message).not_delivered())
    }
}

fn request(call: &Call) -> Request<Outbound> {
    let mut request = Request::new(Outbound::new(call.body.clone(), call.progress.clone()));
    *request.method_mut() = call.method.clone();
    *request.uri_mut() = call.endpoint.uri().clone();
    *request.headers_mut() = call.headers.clone();
    request
}
