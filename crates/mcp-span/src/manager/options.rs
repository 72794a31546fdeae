//! What a manager is told about its servers, and how patient it is.

use std::sync::Arc;
use std::time::Duration;

use super::{CachedLists, ToolFilter};
use crate::client::{self, ClientBuilder, Spec};
use crate::error::Error;
use crate::limits;

/// A server to be managed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ManagedServer {
    pub(super) spec: Spec,
    pub(super) options: client::Options,
    /// Which of its tools are shown and called, within [`ManagerOptions::tools`].
    pub tools: ToolFilter,
    /// What it listed when it was last connected.
    pub cached: CachedLists,
}

impl ManagedServer {
    /// A server that is connected to as `client` would, again and again. When it is tried again is
    /// up to the manager's [`RetryPolicy`], in place of [`ClientBuilder::connect_wait`].
    ///
    /// # Errors
    ///
    /// When `client` has a URL that is none, or a link, over which nobody can connect twice.
    pub fn new(client: ClientBuilder) -> Result<Self, Error> {
        let (spec, options) = client.into_server()?;
        let (tools, cached) = (ToolFilter::default(), CachedLists::default());
        Ok(Self { spec, options, tools, cached })
    }

    /// The same server with this filter for its tools.
    #[must_use]
    pub fn tools(mut self, tools: ToolFilter) -> Self {
        self.tools = tools;
        self
    }

    /// The same server with the lists of an earlier run.
    #[must_use]
    pub fn cached(mut self, cached: CachedLists) -> Self {
        self.cached = cached;
        self
    }
}

/// How a manager treats its servers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ManagerOptions {
    /// How long a caller waits for a server that is being connected to.
    pub ready_timeout: Duration,
    /// When a server is tried again.
    pub retry: RetryPolicy,
    /// Which tools of all servers are shown and called.
    pub tools: ToolFilter,
}

impl Default for ManagerOptions {
    fn default() -> Self {
        Self {
            ready_timeout: limits::MANAGER_READY_TIMEOUT,
            retry: RetryPolicy::default(),
            tools: ToolFilter::default(),
        }
    }
}

/// When a server is tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// The pauses before the quick tries.
    pub pauses: Arc<[Duration]>,
    /// The pause before the first slow try, for remote servers that had been connected; doubles.
    pub slow_pause: Duration,
    /// The longest pause between slow tries.
    pub slow_pause_cap: Duration,
    /// How many reconnects are allowed within [`RetryPolicy::window`].
    pub max_reconnects: usize,
    /// See [`RetryPolicy::max_reconnects`].
    pub window: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            pauses: Arc::new(limits::RECONNECT_PAUSES),
            slow_pause: limits::RECONNECT_SLOW_PAUSE,
            slow_pause_cap: limits::RECONNECT_SLOW_PAUSE_CAP,
            max_reconnects: limits::RECONNECTS,
            window: limits::RECONNECT_WINDOW,
        }
    }
}
