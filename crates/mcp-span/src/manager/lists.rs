//! The lists of one server: as last known, and whether that is what it says now.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ServerState;
use crate::client::{Client, Item, Prompt, Resource, ResourceTemplate, Tool};
use crate::error::Error;

/// What a server has listed, to be kept from one run of a program to the next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CachedLists {
    /// Its tools.
    pub tools: Arc<[Tool]>,
    /// Its resources.
    pub resources: Arc<[Resource]>,
    /// Its resource templates.
    pub resource_templates: Arc<[ResourceTemplate]>,
    /// Its prompts.
    pub prompts: Arc<[Prompt]>,
}

/// A list of one server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerList<T> {
    /// The name of the server.
    pub server: Arc<str>,
    /// What the server has listed.
    pub items: Arc<[T]>,
    /// Whether the server is connected and has announced no change since. If not, this is what was
    /// last known.
    pub is_current: bool,
}

/// The kinds of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListKind {
    /// Tools.
    Tools,
    /// Resources.
    Resources,
    /// Resource templates.
    ResourceTemplates,
    /// Prompts.
    Prompts,
}

impl ListKind {
    pub(super) const ALL: [Self; 4] =
        [Self::Tools, Self::Resources, Self::ResourceTemplates, Self::Prompts];

    /// The lists that may have changed when a server sends this notification.
    pub(super) fn changed_by(notification: &str) -> &'static [Self] {
        match notification {
            "notifications/tools/list_changed" => &[Self::Tools],
            // The protocol has no notification of its own for templates.
            "notifications/resources/list_changed" => &[Self::Resources, Self::ResourceTemplates],
            "notifications/prompts/list_changed" => &[Self::Prompts],
            _ => &[],
        }
    }
}

/// Whether a list is what the server says now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ListStatus {
    /// It is what was last known.
    #[default]
    Stale,
    /// The server was asked for it; `again`: it has changed since.
    Asked { again: bool },
    /// The server has listed it.
    Current,
    /// The server does not list it: what was last known stays.
    Unlisted,
}

/// All that a program can see of one server without asking anybody.
#[derive(Debug)]
pub(super) struct View {
    pub(super) state: ServerState,
    pub(super) cached: CachedLists,
    /// By [`ListKind`].
    pub(super) status: [ListStatus; ListKind::ALL.len()],
}

impl View {
    pub(super) fn new(state: ServerState, cached: CachedLists) -> Self {
        Self { state, cached, status: Default::default() }
    }

    pub(super) fn is_current(&self, kind: ListKind) -> bool {
        self.status[kind as usize] == ListStatus::Current
    }

    /// Whether nothing more comes unless the world changes.
    pub(super) fn is_settled(&self) -> bool {
        let is_listed = |status| matches!(status, ListStatus::Current | ListStatus::Unlisted);
        match self.state {
            ServerState::Connecting { .. } => false,
            ServerState::Ready => self.status.into_iter().all(is_listed),
            _ => true,
        }
    }

    /// The lists may have changed. What the server was asked for is still to come.
    pub(super) fn mark_stale(&mut self) {
        for status in &mut self.status {
            if !matches!(status, ListStatus::Asked { .. }) {
                *status = ListStatus::Stale;
            }
        }
    }
}

/// Puts a list into its place.
pub(super) type Update = Box<dyn FnOnce(&mut CachedLists) + Send>;

/// Asks for a list.
pub(super) async fn fetch(client: &Client, kind: ListKind) -> Result<Update, Error> {
    match kind {
        ListKind::Tools => fetch_into(client, |cached| &mut cached.tools).await,
        ListKind::Resources => fetch_into(client, |cached| &mut cached.resources).await,
        ListKind::ResourceTemplates => {
            fetch_into(client, |cached| &mut cached.resource_templates).await
        }
        ListKind::Prompts => fetch_into(client, |cached| &mut cached.prompts).await,
    }
}

async fn fetch_into<T: Item + Send + Sync + 'static>(
    client: &Client,
    place: fn(&mut CachedLists) -> &mut Arc<[T]>,
) -> Result<Update, Error> {
    let listed = match client.has_capability(T::CAPABILITY) {
        true => client.list::<T>().await,
        false => Ok(Vec::new()),
    };
    let items = match listed {
        // Servers with resources need not know of templates.
        Err(error) if error.code() == METHOD_NOT_FOUND => Vec::new(),
        listed => listed?,
    };
    Ok(Box::new(move |cached| *place(cached) = items.into()))
}

/// JSON-RPC's code for a method that a server does not have.
const METHOD_NOT_FOUND: i64 = -32601;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cached(tool: &str) -> CachedLists {
        let Value::Object(members) = json!({"name": tool, "x-own": 1}) else { unreachable!() };
        CachedLists { tools: [Tool(members)].into(), ..CachedLists::default() }
    }

    #[test]
    fn a_view_is_settled_when_each_list_is_there_or_refused() {
        let mut view = View::new(ServerState::Ready, cached("a"));
        assert!(!view.is_settled() && !view.is_current(ListKind::Tools));
        view.status = [ListStatus::Current; 4];
        view.status[ListKind::Prompts as usize] = ListStatus::Unlisted;
        assert!(view.is_settled() && view.is_current(ListKind::Tools));
        assert!(!view.is_current(ListKind::Prompts));
        view.status[ListKind::Resources as usize] = ListStatus::Asked { again: true };
        assert!(!view.is_settled());
        view.mark_stale();
        assert_eq!(view.status[ListKind::Tools as usize], ListStatus::Stale);
        let resources = view.status[ListKind::Resources as usize];
        assert_eq!(resources, ListStatus::Asked { again: true }, "its answer is still to come");
        view.state = ServerState::Closed;
        assert!(view.is_settled());
    }

    #[test]
    fn cached_lists_come_back_with_all_their_members() {
        let text = serde_json::to_string(&cached("a")).unwrap();
        assert!(text.contains(r#""tools":[{"name":"a","x-own":1}]"#), "{text}");
        assert_eq!(serde_json::from_str::<CachedLists>(&text).unwrap(), cached("a"));
        assert_eq!(serde_json::from_str::<CachedLists>("{}").unwrap(), CachedLists::default());
    }
}
