//! What servers list: what was last known, and whether that is what they say now.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Change, State};
use crate::client::{Class, Client, Failure, Item, Prompt, Resource, Tool};

/// What a server has listed, to be kept between two runs of a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CachedLists {
    /// Its tools.
    pub tools: Vec<Tool>,
    /// Its resources.
    pub resources: Vec<Resource>,
    /// Its prompts.
    pub prompts: Vec<Prompt>,
}

/// A list of one server's.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerList<T> {
    /// The server's name.
    pub server: Arc<str>,
    /// What it has listed.
    pub items: Arc<[T]>,
    /// Whether the server is there and has not said since that this has changed. If not, this is
    /// what was last known.
    pub is_current: bool,
}

/// A list, without the name of whose it is.
#[derive(Clone, Debug)]
pub(super) struct CachedList<T> {
    pub(super) items: Arc<[T]>,
    pub(super) is_current: bool,
    /// Nothing more is to be expected of this connection, unless the server tells of a change.
    is_settled: bool,
}

impl<T: Clone + PartialEq> CachedList<T> {
    fn new(items: Vec<T>) -> Self {
        Self { items: items.into(), is_current: false, is_settled: false }
    }

    /// Gives back whether that is any different from what was known.
    fn put(&mut self, items: Vec<T>) -> bool {
        let is_new = *self.items != *items;
        if is_new {
            self.items = items.into();
        }
        let is_news = is_new || !self.is_current;
        (self.is_current, self.is_settled) = (true, true);
        is_news
    }

    fn mark_stale(&mut self) {
        (self.is_current, self.is_settled) = (false, false);
    }
}

/// All that a program can see of one server without asking anybody.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) state: State,
    pub(super) tools: CachedList<Tool>,
    pub(super) resources: CachedList<Resource>,
    pub(super) prompts: CachedList<Prompt>,
}

impl View {
    pub(super) fn new(state: State, known: CachedLists) -> Self {
        Self {
            state,
            tools: CachedList::new(known.tools),
            resources: CachedList::new(known.resources),
            prompts: CachedList::new(known.prompts),
        }
    }

    pub(super) fn known(&self) -> CachedLists {
        CachedLists {
            tools: self.tools.items.to_vec(),
            resources: self.resources.items.to_vec(),
            prompts: self.prompts.items.to_vec(),
        }
    }

    /// Whether all is there that comes without waiting for the world to change.
    pub(super) fn is_settled(&self) -> bool {
        match self.state {
            State::Connecting { .. } => false,
            State::Ready => {
                self.tools.is_settled && self.resources.is_settled && self.prompts.is_settled
            }
            _ => true,
        }
    }

    /// Gives back whether that is news.
    pub(super) fn put(&mut self, listed: Listed) -> bool {
        match listed {
            Listed::Tools(items) => self.tools.put(items),
            Listed::Resources(items) => self.resources.put(items),
            Listed::Prompts(items) => self.prompts.put(items),
        }
    }

    pub(super) fn is_current(&self, kind: ListKind) -> bool {
        match kind {
            ListKind::Tools => self.tools.is_current,
            ListKind::Resources => self.resources.is_current,
            ListKind::Prompts => self.prompts.is_current,
        }
    }

    /// The server will not list it: what was known stays.
    pub(super) fn settle(&mut self, kind: ListKind) {
        match kind {
            ListKind::Tools => self.tools.is_settled = true,
            ListKind::Resources => self.resources.is_settled = true,
            ListKind::Prompts => self.prompts.is_settled = true,
        }
    }

    /// It may have changed.
    pub(super) fn mark_stale(&mut self, kind: ListKind) {
        match kind {
            ListKind::Tools => self.tools.mark_stale(),
            ListKind::Resources => self.resources.mark_stale(),
            ListKind::Prompts => self.prompts.mark_stale(),
        }
    }
}

/// The sorts of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListKind {
    Tools,
    Resources,
    Prompts,
}

impl ListKind {
    pub(super) const ALL: [Self; 3] = [Self::Tools, Self::Resources, Self::Prompts];

    /// The one that has changed when a server says this.
    pub(super) fn changed_by(notification: &str) -> Option<Self> {
        match notification {
            "notifications/tools/list_changed" => Some(Self::Tools),
            "notifications/resources/list_changed" => Some(Self::Resources),
            "notifications/prompts/list_changed" => Some(Self::Prompts),
            _ => None,
        }
    }

    pub(super) fn change(self) -> Change {
        match self {
            Self::Tools => Change::Tools,
            Self::Resources => Change::Resources,
            Self::Prompts => Change::Prompts,
        }
    }

    fn capability(self) -> &'static str {
        match self {
            Self::Tools => Tool::CAPABILITY,
            Self::Resources => Resource::CAPABILITY,
            Self::Prompts => Prompt::CAPABILITY,
        }
    }

    fn none(self) -> Listed {
        match self {
            Self::Tools => Listed::Tools(Vec::new()),
            Self::Resources => Listed::Resources(Vec::new()),
            Self::Prompts => Listed::Prompts(Vec::new()),
        }
    }
}

/// A list of one kind.
#[derive(Debug)]
pub(super) enum Listed {
    Tools(Vec<Tool>),
    Resources(Vec<Resource>),
    Prompts(Vec<Prompt>),
}

/// Asks for a list. A server that does not have such a thing has none of it.
pub(super) async fn list(client: &Client, kind: ListKind) -> Result<Listed, Failure> {
    if !client.offers(kind.capability()) {
        return Ok(kind.none());
    }
    let listed = match kind {
        ListKind::Tools => client.tools().await.map(Listed::Tools),
        ListKind::Resources => client.resources().await.map(Listed::Resources),
        ListKind::Prompts => client.prompts().await.map(Listed::Prompts),
    };
    match listed {
        Err(failure) if failure.class == Class::Rpc && failure.code == METHOD_NOT_FOUND => {
            Ok(kind.none())
        }
        listed => listed,
    }
}

/// JSON-RPC's code for what a server does not know.
const METHOD_NOT_FOUND: i64 = -32601;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn tool(name: &str) -> Tool {
        let Value::Object(members) = json!({"name": name, "x-own": 1}) else { unreachable!() };
        Tool(members)
    }

    #[test]
    fn what_was_known_is_shown_and_marked_until_the_server_has_spoken() {
        // S1-46
        let known = CachedLists { tools: vec![tool("a")], ..CachedLists::default() };
        let mut view = View::new(State::Ready, known.clone());
        assert_eq!((&*view.tools.items, view.tools.is_current), (&[tool("a")][..], false));
        assert!(!view.is_settled());
        assert!(view.put(Listed::Tools(vec![tool("a")])), "that it is true is news");
        assert!(!view.put(Listed::Tools(vec![tool("a")])));
        assert!(view.put(Listed::Tools(vec![tool("b")])));
        view.settle(ListKind::Prompts);
        view.put(Listed::Resources(Vec::new()));
        assert!(view.is_settled() && view.tools.is_current && !view.prompts.is_current);
        view.mark_stale(ListKind::Tools);
        assert_eq!((&*view.tools.items, view.tools.is_current), (&[tool("b")][..], false));
        assert!(!view.is_settled());
    }

    #[test]
    fn what_is_kept_between_runs_comes_back_with_all_its_members() {
        let known = CachedLists { tools: vec![tool("a")], ..CachedLists::default() };
        let text = serde_json::to_string(&known).unwrap();
        assert!(text.contains(r#""tools":[{"name":"a","x-own":1}]"#), "{text}");
        assert_eq!(serde_json::from_str::<CachedLists>(&text).unwrap(), known);
        assert_eq!(serde_json::from_str::<CachedLists>("{}").unwrap(), CachedLists::default());
    }
}
