//! Which server is meant, and how it is reached.

use std::sync::{Arc, OnceLock};

use tokio::sync::oneshot;
use url::Url;

use super::{Client, Opening, Options};
use crate::bridge::{self, Policy, ServerLink, Stages};
use crate::error::Error;
use crate::limits::Timeouts;
use crate::transport::{Link, child, http, memory};

/// A server to connect to.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Where it is.
    pub server: Server,
    /// How patient the connection is with a server that is away.
    pub policy: Policy,
    /// Which eras of the protocol are tried.
    pub stages: Stages,
}

/// Where a server is.
#[derive(Clone, Debug)]
pub enum Server {
    /// A program that is started, and spoken to over its stdin and stdout.
    Child(child::ChildSettings),
    /// A URL, over Streamable HTTP or HTTP+SSE; which of them is found out unless it is said.
    Http(Box<http::HttpSettings>),
}

impl Spec {
    /// The server at `url`, with the defaults.
    #[must_use]
    pub fn url(url: Url) -> Self {
        Self::http(http::HttpSettings::new(url))
    }

    /// A server over HTTP.
    #[must_use]
    pub fn http(settings: http::HttpSettings) -> Self {
        Self::new(Server::Http(Box::new(settings)))
    }

    /// A server that is a child process.
    #[must_use]
    pub fn child(settings: child::ChildSettings) -> Self {
        Self::new(Server::Child(settings))
    }

    fn new(server: Server) -> Self {
        Self { server, policy: Policy::default(), stages: Stages::default() }
    }

    /// How long requests may be silent, over whichever transport.
    pub fn set_timeouts(&mut self, timeouts: Timeouts) {
        self.policy.timeouts = timeouts;
        if let Server::Http(http) = &mut self.server {
            http.timeouts = timeouts;
        }
    }

    /// A link to the server itself, for a bridge.
    ///
    /// # Errors
    ///
    /// When the program cannot be started, or the URL is none that HTTP can carry.
    pub fn link(self) -> Result<ServerLink, Error> {
        Ok(match self.server {
            Server::Child(settings) => child::open(settings)?.into(),
            Server::Http(settings) => http::open(*settings)?.into(),
        })
    }

    /// The near end of a bridge to the server, and what ends the bridge at once. `why` is set to the
    /// reason why the server's link has ended.
    fn open(self, why: Arc<OnceLock<Error>>) -> Result<(Link, oneshot::Sender<()>), Error> {
        let (policy, mut stages) = (self.policy.clone(), self.stages.clone());
        // A program gets an error that it can act on.
        stages.no_stand_in = true;
        let server = self.link()?;
        let (near, far) = memory::pair();
        let (stop, stopped) = oneshot::channel();
        let shutdown = async {
            // Who just drops it lets the bridge finish in order.
            if stopped.await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let done = tokio::spawn(async move {
            bridge::run_telling(far, server, policy, stages, shutdown, &why).await;
        });
        Ok((Link { done, ..near }, stop))
    }
}

impl Client {
    /// Connects to a server, unless `unwanted` completes before.
    pub(super) async fn connect(
        spec: Spec,
        options: Options,
        unwanted: impl Future<Output = ()>,
    ) -> Result<Self, Error> {
        let why = Arc::default();
        let (link, stop) = spec.open(Arc::clone(&why))?;
        // The bridge below keeps the time.
        let timeouts = Timeouts { quick: None, work: None };
        Self::open(link, Opening { stop: Some(stop), why }, timeouts, options, unwanted).await
    }

    /// A client right over a link.
    pub(super) async fn over(
        link: Link,
        timeouts: Timeouts,
        options: Options,
        unwanted: impl Future<Output = ()>,
    ) -> Result<Self, Error> {
        let opening = Opening { stop: None, why: Arc::default() };
        Self::open(link, opening, timeouts, options, unwanted).await
    }
}
