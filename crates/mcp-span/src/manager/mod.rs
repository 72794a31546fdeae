//! Many servers at once, each by its name: connected in parallel, watched, and reconnected.
//!
//! Each server has a task of its own, so that a slow one holds up nobody. What a server has last
//! listed is there at once, even before it is connected, and marked as such ([`ServerList`]). Each
//! has a [`ServerState`]; what happens to it, its notifications included, comes as [`ServerEvent`]s.
//!
//! A program that ends is started again, and a remote server that cannot be reached is tried again,
//! after pauses that grow ([`RetryPolicy`]); one that does not stay up is left alone for a while. A
//! call is sent again only if it has certainly not been carried out. What a URL's own link recovers
//! from (lost sessions, a server that is away for a moment) is left to it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::client::{Client, Prompt, Resource, ResourceTemplate};
use crate::error::Error;
use crate::limits;
use crate::lock::lock;

mod backoff;
mod breaker;
mod connection;
mod errors;
mod events;
mod lists;
mod options;
mod server_handle;
mod server_task;
mod state;
mod tool_filter;
mod tool_names;
mod tools;

pub use events::{Lagged, ServerChange, ServerEvent, ServerEvents};
pub use lists::{CachedLists, ListKind, ServerList};
pub use options::{ManagedServer, ManagerOptions, RetryPolicy};
pub use state::ServerState;
pub use tool_filter::ToolFilter;
pub use tools::ManagedTool;

use lists::View;
use server_handle::ServerHandle;
use server_task::{Command, ServerTask};

/// Many servers. Clones share them; when the last one is gone, all are closed.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mcp_span::{Client, Demo, ManagedServer, Manager, ManagerOptions, ServerChange, ToolFilter};
/// use serde_json::json;
/// use std::time::Duration;
///
/// let (first, second) = (Demo::start().await?, Demo::start().await?); // servers to try it on
/// let mut options = ManagerOptions::default();
/// options.tools = ToolFilter::default().deny(["first__*"]);
/// let servers = [
///     ("first", ManagedServer::new(Client::builder(first.url()))?),
///     ("second", ManagedServer::new(Client::builder(second.url()))?),
/// ];
/// let manager = Manager::start(servers, options);
/// let mut events = manager.events();
/// manager.settled(Duration::from_secs(5)).await;
///
/// let tools = manager.tools();
/// let names: Vec<_> = tools.iter().map(|tool| &*tool.name).collect();
/// assert_eq!(names, ["second__echo", "second__add", "second__countdown"]);
/// let sum = manager.call("second__add", json!({"a": 2, "b": 40})).await?;
/// assert_eq!(sum.text(), "42");
/// assert!(manager.call("first__add", ()).await.is_err(), "it is denied");
///
/// while let Some(event) = events.next().await {
///     match event {
///         Ok(event) => match event.change {
///             ServerChange::State(state) => println!("{} is {}", event.server, state.as_str()),
///             ServerChange::Notification(told) => println!("{}: {}", event.server, told.method),
///             _ => break,
///         },
///         Err(lagged) => println!("{lagged}"),
///     }
/// }
/// manager.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Manager {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: ManagerOptions,
    servers: Mutex<Servers>,
}

#[derive(Debug)]
struct Servers {
    by_name: BTreeMap<Arc<str>, ServerHandle>,
    /// Each server's task holds a clone, the subscribers hold the other ends; `None` when the
    /// manager is closed.
    events: Option<broadcast::Sender<ServerEvent>>,
}

impl Manager {
    /// Begins to connect to all servers, and waits for none. Of several with one name the first
    /// counts.
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime.
    pub fn start<N: Into<Arc<str>>>(
        servers: impl IntoIterator<Item = (N, ManagedServer)>,
        options: ManagerOptions,
    ) -> Self {
        let events = Some(broadcast::Sender::new(limits::MANAGER_EVENTS));
        let none = Mutex::new(Servers { by_name: BTreeMap::new(), events });
        let manager = Self { shared: Arc::new(Shared { options, servers: none }) };
        for (name, server) in servers {
            manager.add(name, server);
        }
        manager
    }

    /// Adds a server; `false` if the name is taken, or the manager closed.
    pub fn add(&self, name: impl Into<Arc<str>>, server: ManagedServer) -> bool {
        let name = name.into();
        let mut servers = lock(&self.shared.servers);
        let Some(events) = servers.events.clone() else { return false };
        if servers.by_name.contains_key(&name) {
            return false;
        }
        let tools = server.tools.clone();
        let ManagerOptions { ready_timeout, retry, .. } = &self.shared.options;
        let task = ServerTask::new(Arc::clone(&name), server, retry, events);
        let (commands, receiver) = mpsc::channel(limits::MANAGER_COMMANDS);
        let handle = ServerHandle {
            name: Arc::clone(&name),
            tools,
            commands,
            view: task.view(),
            ready_timeout: *ready_timeout,
        };
        tokio::spawn(task.run(receiver));
        servers.by_name.insert(name, handle);
        true
    }

    /// Closes a server, and forgets it when it is gone; `false` if there is none of that name.
    pub async fn remove(&self, name: &str) -> bool {
        let handle = lock(&self.shared.servers).by_name.remove(name);
        match handle {
            Some(handle) => {
                handle.close().await;
                true
            }
            None => false,
        }
    }

    /// The state of a server; `None` if there is none of that name.
    #[must_use]
    pub fn state(&self, name: &str) -> Option<ServerState> {
        let servers = lock(&self.shared.servers);
        servers.by_name.get(name).map(|handle| handle.view.borrow().state.clone())
    }

    /// The states of all servers.
    #[must_use]
    pub fn states(&self) -> BTreeMap<Arc<str>, ServerState> {
        self.each(|name, view| (Arc::clone(name), view.state.clone()))
    }

    /// The resources of all servers, as last known.
    #[must_use]
    pub fn resources(&self) -> Vec<ServerList<Resource>> {
        self.lists(ListKind::Resources, |cached| &cached.resources)
    }

    /// The resource templates of all servers, as last known.
    #[must_use]
    pub fn resource_templates(&self) -> Vec<ServerList<ResourceTemplate>> {
        self.lists(ListKind::ResourceTemplates, |cached| &cached.resource_templates)
    }

    /// The prompts of all servers, as last known.
    #[must_use]
    pub fn prompts(&self) -> Vec<ServerList<Prompt>> {
        self.lists(ListKind::Prompts, |cached| &cached.prompts)
    }

    /// All that the servers have listed, for the next run ([`ManagedServer::cached`]).
    #[must_use]
    pub fn cached_lists(&self) -> BTreeMap<Arc<str>, CachedLists> {
        self.each(|name, view| (Arc::clone(name), view.cached.clone()))
    }

    /// The connection to a server: at once if it stands, else as soon as it does. A server that had
    /// failed is tried again for this. Ask anew for each piece of work: a connection ends with its
    /// server, and the next one is another. No [`ToolFilter`] holds for it.
    ///
    /// # Errors
    ///
    /// When there is no such server, or it is not there within [`ManagerOptions::ready_timeout`].
    pub async fn client(&self, server: &str) -> Result<Client, Error> {
        let handle = self.handle(server)?;
        handle.client().await
    }

    /// Connects anew, whatever the state, also to a server that was left alone; done when it is
    /// ready.
    ///
    /// # Errors
    ///
    /// When there is no such server, or it is not there within [`ManagerOptions::ready_timeout`].
    pub async fn reconnect(&self, server: &str) -> Result<(), Error> {
        let handle = self.handle(server)?;
        handle.ask(Command::Reconnect).await.map(drop)
    }

    /// Subscribes to updates of a resource, over this connection and all that follow. They come as
    /// notifications ([`Self::events`]).
    ///
    /// # Errors
    ///
    /// When there is no such server, it is not there within [`ManagerOptions::ready_timeout`], or it
    /// refuses.
    pub async fn subscribe(&self, server: &str, uri: &str) -> Result<(), Error> {
        let handle = self.handle(server)?;
        handle.client().await?.subscribe(uri).await?;
        handle.tell(Command::Subscribed(uri.to_owned())).await;
        Ok(())
    }

    /// Ends a subscription.
    ///
    /// # Errors
    ///
    /// As for [`Self::subscribe`]; later connections do not subscribe either way.
    pub async fn unsubscribe(&self, server: &str, uri: &str) -> Result<(), Error> {
        let handle = self.handle(server)?;
        handle.tell(Command::Unsubscribed(uri.to_owned())).await;
        handle.client().await?.unsubscribe(uri).await.map(drop)
    }

    /// All that happens from now on to any server, until the manager is closed: states, lists and
    /// notifications, whatever connections come and go. One that is not read in time is told how
    /// many events it has missed.
    #[must_use]
    pub fn events(&self) -> ServerEvents {
        let servers = lock(&self.shared.servers);
        // A closed manager has no events: this channel has no sender any more.
        let closed = || broadcast::Sender::new(1).subscribe();
        ServerEvents::new(servers.events.as_ref().map_or_else(closed, broadcast::Sender::subscribe))
    }

    /// Waits until each server is connected and has listed what it has, or cannot be connected to;
    /// `false` if that takes longer.
    pub async fn settled(&self, within: Duration) -> bool {
        let servers = lock(&self.shared.servers).by_name.clone();
        let settling = async {
            for mut handle in servers.into_values() {
                let _ = handle.view.wait_for(View::is_settled).await;
            }
        };
        timeout(within, settling).await.is_ok()
    }

    /// Closes all servers, side by side, and waits until they are gone. Their lists can still be
    /// read.
    pub async fn close(&self) {
        let handles = {
            let mut servers = lock(&self.shared.servers);
            servers.events = None;
            servers.by_name.clone()
        };
        let closing: JoinSet<()> = handles.into_values().map(ServerHandle::close).collect();
        closing.join_all().await;
    }

    fn handle(&self, server: &str) -> Result<ServerHandle, Error> {
        let servers = lock(&self.shared.servers);
        let handle = servers.by_name.get(server).cloned();
        let known = || servers.by_name.keys().map(|name| &**name);
        handle.ok_or_else(|| errors::unknown_server(server, known()))
    }

    fn lists<T>(&self, kind: ListKind, items: fn(&CachedLists) -> &Arc<[T]>) -> Vec<ServerList<T>> {
        self.each(|name, view| ServerList {
            server: Arc::clone(name),
            items: Arc::clone(items(&view.cached)),
            is_current: view.is_current(kind),
        })
    }

    fn each<T, C: FromIterator<T>>(&self, shown: impl Fn(&Arc<str>, &View) -> T) -> C {
        let servers = lock(&self.shared.servers);
        servers.by_name.iter().map(|(name, handle)| shown(name, &handle.view.borrow())).collect()
    }
}
