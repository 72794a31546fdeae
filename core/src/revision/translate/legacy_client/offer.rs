//! What a modern server says of itself, and how a legacy client hears it.

use super::filter::Filter;
use crate::message::{Head, Json, Members, Message, peek, reply};
use crate::revision::Revision;
use crate::revision::translate::{SERVER_INFO, tasks};

/// What a modern server says of itself.
#[derive(Debug)]
pub(super) struct Offer {
    capabilities: String,
    server_info: String,
    instructions: Option<String>,
    pub(super) filter: Filter,
}

impl Offer {
    /// `None`: it is no answer, or has no modern revision in it that we know.
    pub(super) fn of(answer: &Message) -> Option<Self> {
        if matches!(answer.head(), Head::Response { is_error: true, .. }) {
            return None;
        }
        if !peek::supported_versions(answer)?.iter().any(|name| Revision::is_modern(name)) {
            return None;
        }
        let member = |path: &[&str]| answer.get(path).map(Json::as_str);
        let capabilities = member(&["result", "capabilities"]).unwrap_or("{}");
        let server_info = member(&["result", "_meta", SERVER_INFO]);
        Some(Self {
            capabilities: tasks::without_tasks(capabilities),
            // Legacy clients insist on one; this server gives none.
            server_info: server_info.unwrap_or(r#"{"name":"MCP server","version":""}"#).to_owned(),
            instructions: member(&["result", "instructions"]).map(str::to_owned),
            filter: Filter::of(capabilities),
        })
    }

    pub(super) fn initialize_result(&self, initialize: &Message) -> Message {
        let mut result = Members::default();
        let version = serde_json::Value::from(client_version(initialize)).to_string();
        result.set("protocolVersion", version);
        result.set("capabilities", self.capabilities_for(initialize));
        result.set("serverInfo", &*self.server_info);
        if let Some(instructions) = &self.instructions {
            result.set("instructions", &**instructions);
        }
        reply::raw_result(initialize.id(), &result.to_json())
    }
}

impl Offer {
    /// Extensions are spoken of only to those who speak of them.
    fn capabilities_for(&self, initialize: &Message) -> String {
        if initialize.get(&["params", "capabilities", "extensions"]).is_some() {
            return self.capabilities.clone();
        }
        let mut capabilities = Members::of(&self.capabilities).unwrap_or_default();
        capabilities.remove("extensions");
        capabilities.to_json()
    }
}

/// The revision in which the client is answered: its own if we know it, else the newest legacy one.
fn client_version(initialize: &Message) -> String {
    let asked = initialize.get(&["params", "protocolVersion"]).and_then(Json::to_text);
    asked
        .filter(|version| Revision::is_legacy(version))
        .unwrap_or_else(|| Revision::LATEST_LEGACY.to_owned())
}
