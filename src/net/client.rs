//! Sends one HTTP request and gives back the head of its answer, redirects followed by rule.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use url::Url;

use super::body::{Outbound, Progress};
use super::connect::Connector;
use super::{fault, redirect};
use crate::error::{Error, Kind};
use crate::limits;
use crate::secret::shown;

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
    pub url: Url,
    /// All headers but those that HTTP itself needs.
    pub headers: HeaderMap,
    /// The body; empty for none.
    pub body: Bytes,
    /// Notes when the request begins to leave.
    pub progress: Progress,
}

/// Its URL may hold a password, its body anything.
impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Call({} {}, {} bytes)", self.method, shown(&self.url), self.body.len())
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
    pub async fn send(&self, call: Call) -> Result<Response<Incoming>, Error> {
        let mut url = call.url.clone();
        for _ in 0..=limits::REDIRECTS {
            let request = request(&call, &url)?;
            let response = self
                .pool
                .request(request)
                .await
                .map_err(|error| fault::explain(&error, &url, &call.progress))?;
            match redirect::target(&url, &call.method, response.status(), response.headers())? {
                Some(next) => url = next,
                None => return Ok(response),
            }
        }
        let message = format!(
            "{} redirected more than {} times in a row",
            shown(&call.url),
            limits::REDIRECTS
        );
        Err(Error::new(Kind::Redirect, message).not_delivered())
    }
}

fn request(call: &Call, url: &Url) -> Result<Request<Outbound>, Error> {
    let mut request = Request::new(Outbound::new(call.body.clone(), call.progress.clone()));
    *request.method_mut() = call.method.clone();
    *request.uri_mut() = url.as_str().parse().map_err(|error| {
        let message = format!("{} cannot be requested over HTTP", shown(url));
        Error::new(Kind::Redirect, message).because(error).not_delivered()
    })?;
    *request.headers_mut() = call.headers.clone();
    Ok(request)
}
