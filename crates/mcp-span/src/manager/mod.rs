//! Many servers at once, each by its name: connected in parallel, watched, and come back to.
//!
//! Each server has a task of its own, so that a slow one holds up nobody. What a server has last
//! listed is there at once, even before it is connected, and marked as such ([`ServerList`]). How it
//! stands with each is its [`State`]; changes are told as [`Event`]s.
//!
//! A program that ends is started again, and a remote server that is not there is tried again,
//! after pauses that grow ([`RetryPolicy`]); one that does not stay up is left alone for a while. A call
//! is made again only if it has certainly not been carried out. What a URL's own link heals (lost
//! sessions, a server that is away for a moment) is left to it.
//!
//! ```
//! use mcp_span::client::Spec;
//! use mcp_span::manager::{ManagedServer, Manager, ManagerOptions};
//! use serde_json::json;
//! use std::time::Duration;
//!
//! # async fn example(first: &str, second: &str) -> Result<(), Box<dyn std::error::Error>> {
//! let servers = [
//!     ("first", ManagedServer::new(Spec::url(first.parse()?))),
//!     ("second", ManagedServer::new(Spec::url(second.parse()?))),
//! ];
//! let manager = Manager::start(servers, ManagerOptions::default());
//! manager.settled(Duration::from_secs(5)).await;
//! for listing in manager.tools() {
//!     let names: Vec<_> = listing.items.iter().map(|tool| tool.name()).collect();
//!     println!("{}: {}", listing.server, names.join(", "));
//! #   assert_eq!(names, ["echo", "add", "countdown"]);
//! #   assert!(listing.is_current);
//! }
//! let sum = manager.call("second", "add", json!({"a": 2, "b": 40})).await?;
//! println!("{sum}");
//! # assert_eq!(sum["content"][0]["text"], "42");
//! manager.close().await;
//! # Ok(())
//! # }
//! # let demo = async {
//! #     let first = mcp_span::demo::Demo::start().await.expect("a port");
//! #     let second = mcp_span::demo::Demo::start().await.expect("a port");
//! #     example(first.url().as_str(), second.url().as_str()).await.expect("a sum");
//! # };
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(demo);
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::client::{self, Client, Failure, Prompt, Resource, Spec, Tool};
use crate::limits;

mod backoff;
mod breaker;
mod events;
mod failures;
mod handle;
mod lists;
mod server_task;
mod state;

pub use events::{Change, Event, Events};
pub use lists::{CachedLists, ServerList};
pub use state::State;

use events::Listeners;
use handle::Handle;
use lists::{CachedList, View};
use server_task::ServerTask;

/// One server of a manager's.
#[derive(Clone, Debug)]
pub struct ManagedServer {
    /// Where it is. A server that is not there yet is tried again as the manager's [`RetryPolicy`] say,
    /// in place of [`Policy::connect_wait`](crate::bridge::Policy::connect_wait).
    pub spec: Spec,
    /// Who its client is, and how patient.
    pub options: client::Options,
    /// What it has listed when it was last there.
    pub known: CachedLists,
}

impl ManagedServer {
    /// A server of which nothing is known yet, with the defaults.
    #[must_use]
    pub fn new(spec: Spec) -> Self {
        Self { spec, options: client::Options::default(), known: CachedLists::default() }
    }

    /// The same with what is known of it.
    #[must_use]
    pub fn known(mut self, known: CachedLists) -> Self {
        self.known = known;
        self
    }
}

/// How patient a manager is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagerOptions {
    /// How long a caller waits for a server that is being connected to.
    pub ready_timeout: Duration,
    /// When a server is tried again.
    pub retry: RetryPolicy,
}

impl Default for ManagerOptions {
    fn default() -> Self {
        Self { ready_timeout: limits::MANAGER_READY_TIMEOUT, retry: RetryPolicy::default() }
    }
}

/// When a server is tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Before each of the first tries.
    pub pauses: Arc<[Duration]>,
    /// Before the first quiet try, for remote servers that had been there; doubles.
    pub slow_pause: Duration,
    /// The longest of those.
    pub slow_pause_cap: Duration,
    /// So many reconnects are allowed within `window`.
    pub max_reconnects: usize,
    /// See `reconnects`.
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

/// Many servers. Clones share them; when the last one is gone, all are closed.
#[derive(Clone, Debug)]
pub struct Manager {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: ManagerOptions,
    servers: Mutex<Servers>,
    listeners: Arc<Listeners>,
}

#[derive(Debug, Default)]
struct Servers {
    by_name: BTreeMap<Arc<str>, Handle>,
    are_closed: bool,
}

impl Manager {
    /// Begins to connect to all of them, and waits for none. Of several with one name the first
    /// counts.
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime.
    pub fn start<N: Into<Arc<str>>>(
        servers: impl IntoIterator<Item = (N, ManagedServer)>,
        options: ManagerOptions,
    ) -> Self {
        let (listeners, known) = (Arc::default(), Mutex::default());
        let manager = Self { shared: Arc::new(Shared { options, servers: known, listeners }) };
        for (name, entry) in servers {
            manager.add(name, entry);
        }
        manager
    }

    /// One more server; `false` if the name is taken, or the manager closed.
    pub fn add(&self, name: impl Into<Arc<str>>, entry: ManagedServer) -> bool {
        let name = name.into();
        let mut servers = self.servers();
        if servers.are_closed || servers.by_name.contains_key(&name) {
            return false;
        }
        let transport = entry.spec.transport();
        let listeners = Arc::clone(&self.shared.listeners);
        let server_task =
            ServerTask::new(Arc::clone(&name), entry, &self.shared.options, listeners);
        let (commands, receiver) = mpsc::channel(limits::MANAGER_COMMANDS);
        let handle = Handle {
            name: Arc::clone(&name),
            transport,
            commands,
            view: server_task.view(),
            ready_timeout: self.shared.options.ready_timeout,
        };
        tokio::spawn(server_task.run(receiver));
        servers.by_name.insert(name, handle);
        true
    }

    /// Closes a server, and forgets it when it is gone; `false` if there is none of that name.
    pub async fn remove(&self, name: &str) -> bool {
        let handle = self.servers().by_name.remove(name);
        match handle {
            Some(handle) => {
                handle.close().await;
                true
            }
            None => false,
        }
    }

    /// How it stands with a server; `None` if there is none of that name.
    #[must_use]
    pub fn state(&self, name: &str) -> Option<State> {
        self.servers().by_name.get(name).map(|handle| handle.view.borrow().state.clone())
    }

    /// How it stands with all of them.
    #[must_use]
    pub fn states(&self) -> BTreeMap<Arc<str>, State> {
        self.each(|name, view| (Arc::clone(name), view.state.clone()))
    }

    /// The tools of all servers, as last known.
    #[must_use]
    pub fn tools(&self) -> Vec<ServerList<Tool>> {
        self.each(|name, view| listing(name, &view.tools))
    }

    /// The resources of all servers, as last known.
    #[must_use]
    pub fn resources(&self) -> Vec<ServerList<Resource>> {
        self.each(|name, view| listing(name, &view.resources))
    }

    /// The prompts of all servers, as last known.
    #[must_use]
    pub fn prompts(&self) -> Vec<ServerList<Prompt>> {
        self.each(|name, view| listing(name, &view.prompts))
    }

    /// All that the servers have listed, to be given to the next manager ([`ManagedServer::known`]).
    #[must_use]
    pub fn known(&self) -> BTreeMap<Arc<str>, CachedLists> {
        self.each(|name, view| (Arc::clone(name), view.known()))
    }

    /// The connection to a server: at once if it stands, else as soon as it does. A server that had
    /// failed is tried again for this. Ask anew for each piece of work: a connection ends with its
    /// server, and the next one is another.
    ///
    /// # Errors
    ///
    /// When there is no such server, or it is not there within [`ManagerOptions::ready_timeout`].
    pub async fn client(&self, name: &str) -> Result<Client, Failure> {
        let handle = self.handle(name)?;
        handle.client().await
    }

    /// Calls a tool of a server's. If the connection turns out to be gone before anything was sent,
    /// it is made over the next one.
    ///
    /// # Errors
    ///
    /// When the server is not there, or the call fails; `delivery` says whether it may have been
    /// carried out.
    pub async fn call(&self, name: &str, tool: &str, arguments: Value) -> Result<Value, Failure> {
        let handle = self.handle(name)?;
        handle.call(tool, arguments).await
    }

    /// Connects anew, whatever there is, also to a server that was left alone; done when it is
    /// ready.
    ///
    /// # Errors
    ///
    /// When there is no such server, or it is not there within [`ManagerOptions::ready_timeout`].
    pub async fn reconnect(&self, name: &str) -> Result<(), Failure> {
        let handle = self.handle(name)?;
        handle.reconnect().await.map(drop)
    }

    /// All that changes from now on.
    #[must_use]
    pub fn events(&self) -> Events {
        self.shared.listeners.add()
    }

    /// Waits until each server is there with its lists, or has failed; `false` if that takes longer.
    pub async fn settled(&self, within: Duration) -> bool {
        let mut views: Vec<_> =
            self.servers().by_name.values().map(|handle| handle.view.clone()).collect();
        let settling = async {
            for view in &mut views {
                let _ = view.wait_for(View::is_settled).await;
            }
        };
        timeout(within, settling).await.is_ok()
    }

    /// Closes all servers, side by side, and waits until they are gone. What is known of them can
    /// still be asked for.
    pub async fn close(&self) {
        let handles: Vec<_> = {
            let mut servers = self.servers();
            servers.are_closed = true;
            servers.by_name.values().cloned().collect()
        };
        let mut closing = JoinSet::new();
        for handle in handles {
            closing.spawn(async move { handle.close().await });
        }
        closing.join_all().await;
        self.shared.listeners.end();
    }

    fn servers(&self) -> MutexGuard<'_, Servers> {
        self.shared.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, name: &str) -> Result<Handle, Failure> {
        let servers = self.servers();
        let handle = servers.by_name.get(name).cloned();
        handle.ok_or_else(|| failures::unknown(name, servers.by_name.keys().map(|name| &**name)))
    }

    fn each<T, C: FromIterator<T>>(&self, shown: impl Fn(&Arc<str>, &View) -> T) -> C {
        let servers = self.servers();
        servers.by_name.iter().map(|(name, handle)| shown(name, &handle.view.borrow())).collect()
    }
}

fn listing<T>(server: &Arc<str>, list: &CachedList<T>) -> ServerList<T> {
    let (server, items) = (Arc::clone(server), Arc::clone(&list.items));
    ServerList { server, items, is_current: list.is_current }
}
