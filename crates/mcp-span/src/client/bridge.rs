//! A bridge inside a program: a client's link on one side, any server on the other.

use super::builder::{Place, Target};
use crate::bridge::{self, BridgeEnd};
use crate::error::Error;
use crate::options::Context;
use crate::transport::Link;

/// Joins an MCP client to a server, whatever transport and revision each of them speaks.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mcp_span::{Bridge, Client, Demo, Link};
///
/// let demo = Demo::start().await?;
/// let (near, far) = Link::pair();
/// let bridge = tokio::spawn(Bridge::new(far, demo.url()).run());
///
/// let client = Client::builder(near).connect().await?;
/// assert_eq!(client.call("echo", serde_json::json!({"text": "hello"})).await?.text(), "hello");
/// client.close().await; // nothing more to say: the bridge ends
/// bridge.await??;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a bridge does nothing until it is run"]
pub struct Bridge {
    client: Link,
    server: Target,
    context: Context,
}

impl Bridge {
    /// A bridge from the client at the other end of `client` to `server`.
    pub fn new(client: Link, server: impl Into<Target>) -> Self {
        Self { client, server: server.into(), context: Context::default() }
    }

    /// What the server's options may refer to, such as variables.
    pub fn context(mut self, context: Context) -> Self {
        self.context = context;
        self
    }

    /// Carries messages until the client closes its input, or the server ends.
    ///
    /// # Errors
    ///
    /// When the server cannot be started, or its URL cannot be used.
    pub async fn run(self) -> Result<BridgeEnd, Error> {
        self.run_until(std::future::pending()).await
    }

    /// The same, until `shutdown` completes.
    ///
    /// # Errors
    ///
    /// When the server cannot be started, or its URL cannot be used.
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) -> Result<BridgeEnd, Error> {
        let spec = match self.server.0 {
            Place::Options(server) => server.resolve(&self.context)?,
            Place::Spec(spec) => *spec,
            Place::Link(link) => {
                let (policy, stages) = Default::default();
                return Ok(bridge::run(self.client, link, policy, stages, shutdown).await);
            }
        };
        let (policy, stages) = (spec.policy.clone(), spec.stages.clone());
        Ok(bridge::run(self.client, spec.link()?, policy, stages, shutdown).await)
    }
}
