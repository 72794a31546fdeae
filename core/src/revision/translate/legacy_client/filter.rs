//! What a modern server can be listened to for, by what it says of itself.

use std::collections::BTreeSet;

use crate::message::{Json, get};

/// Which lists a client hears of, and whether it may of single resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Filter {
    tools: bool,
    prompts: bool,
    resources: bool,
    /// Whether single resources can be subscribed to.
    pub(super) can_subscribe: bool,
}

impl Filter {
    /// All lists that a server with these capabilities tells of.
    pub(super) fn of(capabilities: &str) -> Self {
        let offers = |path: &[&str]| get(capabilities, path).is_some_and(Json::is_true);
        Self {
            tools: offers(&["tools", "listChanged"]),
            prompts: offers(&["prompts", "listChanged"]),
            resources: offers(&["resources", "listChanged"]),
            can_subscribe: offers(&["resources", "subscribe"]),
        }
    }

    /// Whether no list is told of.
    pub(super) fn is_empty(self) -> bool {
        !(self.tools || self.prompts || self.resources)
    }

    /// The lists, by their names in `subscriptions/listen`, and the notifications about them.
    pub(super) fn lists(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        [
            (self.tools, "toolsListChanged", "notifications/tools/list_changed"),
            (self.prompts, "promptsListChanged", "notifications/prompts/list_changed"),
            (self.resources, "resourcesListChanged", "notifications/resources/list_changed"),
        ]
        .into_iter()
        .filter_map(|(wanted, name, method)| wanted.then_some((name, method)))
    }

    /// The parameters of `subscriptions/listen` for these and for single resources, as JSON.
    pub(super) fn params(self, uris: &BTreeSet<String>) -> String {
        let mut notifications = serde_json::Map::new();
        for (name, _) in self.lists() {
            notifications.insert(name.to_owned(), true.into());
        }
        if !uris.is_empty() {
            let uris: Vec<&str> = uris.iter().map(String::as_str).collect();
            notifications.insert("resourceSubscriptions".to_owned(), uris.into());
        }
        serde_json::json!({ "notifications": notifications }).to_string()
    }
}
