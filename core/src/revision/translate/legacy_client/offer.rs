//! What a modern server says of itself, and how a legacy client hears it.

use serde::Deserialize;

use super::filter::Filter;
use crate::message::{Head, Members, Message, reply};
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
        let members = Members::of_message(answer)?;
        let result = Members::of(members.get("result")?)?;
        let versions: Vec<String> = serde_json::from_str(result.get("supportedVersions")?).ok()?;
        if !versions.iter().any(|name| Revision::is_modern(name)) {
            return None;
        }
        let capabilities = result.get("capabilities").unwrap_or("{}");
        let meta = result.get("_meta").and_then(Members::of);
        let server_info = meta.as_ref().and_then(|meta| meta.get(SERVER_INFO));
        Some(Self {
            capabilities: tasks::without_tasks(capabilities),
            // Legacy clients insist on one; this server gives none.
            server_info: server_info.unwrap_or(r#"{"name":"MCP server","version":""}"#).to_owned(),
            instructions: result.get("instructions").map(str::to_owned),
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
        let knows_extensions = || {
            let members = Members::of_message(initialize)?;
            let params = Members::of(members.get("params")?)?;
            Some(Members::of(params.get("capabilities")?)?.has("extensions"))
        };
        if knows_extensions() == Some(true) {
            return self.capabilities.clone();
        }
        let mut capabilities = Members::of(&self.capabilities).unwrap_or_default();
        capabilities.remove("extensions");
        capabilities.to_json()
    }
}

/// The revision in which the client is answered: its own if we know it, else the newest legacy one.
fn client_version(initialize: &Message) -> String {
    #[derive(Deserialize)]
    struct Body {
        params: Params,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        protocol_version: String,
    }
    let asked = serde_json::from_slice::<Body>(initialize.bytes());
    asked
        .map(|body| body.params.protocol_version)
        .ok()
        .filter(|version| Revision::is_legacy(version))
        .unwrap_or_else(|| Revision::LATEST_LEGACY.to_owned())
}
