//! A link to a Streamable HTTP server: each message a POST, each answer JSON or an event stream.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use tokio::sync::mpsc;
use url::Url;

use super::{Ends, Incoming, Link, channel, spawn};
use crate::error::Error;
use crate::limits::{self, Timeouts};
use crate::net::{Call, Endpoint, HttpClient, Progress};
use crate::secret::{Scrubber, shown};

mod answer;
mod driver;
mod events;
mod gate;
mod log;
mod lost;
mod post;
mod reading;
mod session;
mod stream;

use driver::{Driver, Report};
pub use session::basic_authorization;

/// All that a link to a server needs to know.
#[derive(Clone)]
pub struct Settings {
    /// The MCP endpoint.
    pub url: Url,
    /// Headers of the user's; those that the transport sets itself win over them.
    pub headers: HeaderMap,
    /// Sent as `MCP-Protocol-Version` in place of what was negotiated.
    pub protocol_version: Option<HeaderValue>,
    /// How long requests may be silent.
    pub timeouts: Timeouts,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long messages wait for a new session before they come back.
    pub away_wait: Duration,
    /// The largest single message, in bytes.
    pub max_message: usize,
    /// How many POSTs run at once.
    pub parallel: usize,
    /// One message at a time, in strict order.
    pub serial: bool,
    /// Whether to open the stream for what the server says on its own account.
    pub server_stream: bool,
    /// Knows the secrets that must not show up in error texts.
    pub scrubber: Scrubber,
}

/// The URL may hold a password.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = shown(&self.url);
        f.debug_struct("Settings").field("url", &url).finish_non_exhaustive()
    }
}

impl Settings {
    /// The defaults for `url`.
    #[must_use]
    pub fn new(url: Url) -> Self {
        Self {
            url,
            headers: HeaderMap::new(),
            protocol_version: None,
            timeouts: Timeouts::default(),
            connect_timeout: limits::CONNECT_TIMEOUT,
            away_wait: limits::AWAY_WAIT,
            max_message: limits::MESSAGE_SIZE,
            parallel: limits::PARALLEL_POSTS,
            serial: false,
            server_stream: true,
            scrubber: Scrubber::default(),
        }
    }
}

/// Opens a link. Nothing is sent before the first message.
///
/// # Errors
///
/// When the URL is not one that HTTP can carry.
pub fn open(settings: Settings) -> Result<Link, Error> {
    let endpoint = Arc::new(Endpoint::new(&settings.url)?);
    Ok(spawn(|Ends { outgoing, incoming, .. }| {
        let (reports, inbound_reports) = mpsc::channel(limits::CHANNEL);
        let client = HttpClient::new(settings.connect_timeout);
        let context = Arc::new(Context {
            client,
            endpoint,
            settings,
            incoming,
            is_away: AtomicBool::new(false),
            reports,
        });
        Driver::new(context).run(outgoing, inbound_reports)
    }))
}

/// What every task of the link shares.
#[derive(Debug)]
struct Context {
    client: HttpClient,
    endpoint: Arc<Endpoint>,
    settings: Settings,
    /// To whoever holds the link.
    incoming: channel::Sender<Incoming>,
    /// The last word is that the server cannot be reached.
    is_away: AtomicBool,
    /// To the driver, which owns the session.
    reports: mpsc::Sender<Report>,
}

impl Context {
    /// A request to the endpoint.
    fn call(&self, method: Method, headers: HeaderMap, body: Bytes) -> Call {
        let endpoint = Arc::clone(&self.endpoint);
        Call { method, endpoint, headers, body, urgent: false, progress: Progress::default() }
    }

    /// The same error without any secret that a server may have echoed.
    fn scrubbed(&self, mut error: Error) -> Error {
        let scrubber = &self.settings.scrubber;
        error.message = scrubber.clean(&error.message);
        error.body = error.body.map(|body| scrubber.clean(&body));
        error.reason = error.reason.map(|reason| scrubber.clean(&reason));
        error
    }
}
