//! Opens a session at the legacy server in the client's place, and tells the client what it is like.

use tracing::debug;

use super::levels::Level;
use super::{EraPhase, ModernClient, Own, json_string};
use crate::message::{Head, Id, Json, Members, Message, get, reply};
use crate::revision::Revision;
use crate::revision::era_hints::EraVerdict;
use crate::revision::translate::{
    CLIENT_CAPABILITIES, CLIENT_INFO, Introduction, Protocol, SERVER_INFO, ServerDescription, tasks,
};

impl ServerDescription {
    /// Whether it has log messages.
    pub(super) fn logs(&self) -> bool {
        get(&self.capabilities, &["logging"]).is_some()
    }

    /// The answer to `server/discover`.
    pub(super) fn described(&self, id: &Id) -> Message {
        let mut result = Members::default();
        let versions = format!("[{}]", json_string(Revision::LATEST_MODERN));
        result.set("supportedVersions", versions);
        result.set("capabilities", self.capabilities.as_str());
        if let Some(instructions) = &self.instructions {
            result.set("instructions", instructions.as_str());
        }
        self.complete(&mut result, true);
        reply::raw_result(Some(id), &result.to_json())
    }

    /// Adds to a result what every modern one has; `is_cacheable`: those that are kept say for how
    /// long.
    pub(super) fn complete<'a>(&'a self, result: &mut Members<'a>, is_cacheable: bool) {
        result.add("resultType", "\"complete\"");
        if is_cacheable {
            result.add("ttlMs", "0");
            result.add("cacheScope", "\"private\"");
        }
        self.sign(result);
    }

    /// Adds who the server is.
    pub(super) fn sign<'a>(&'a self, result: &mut Members<'a>) {
        if let Some(info) = &self.info {
            result.object("_meta").add(SERVER_INFO, info.as_str());
        }
    }
}

impl ModernClient {
    /// Adds to a result what every modern one has.
    pub(super) fn complete<'a>(&'a self, result: &mut Members<'a>, is_cacheable: bool) {
        match self.server() {
            Some(server) => server.complete(result, is_cacheable),
            None => result.add("resultType", "\"complete\""),
        }
    }

    /// Sends `initialize` with what `request` says of the client; `request` itself follows when
    /// there is a session.
    pub(super) fn open(&mut self, request: Message) {
        self.phase = EraPhase::Opening;
        self.introduction = Introduction::of_modern(&request);
        let fill = |params: &mut Members<'_>| {
            let meta = |name| request.get(&["params", "_meta", name]);
            let object = |name| meta(name).filter(|json| json.is_object()).map(Json::as_str);
            let unnamed = || {
                let version = json_string(env!("CARGO_PKG_VERSION"));
                format!(r#"{{"name":"mcp-span client","version":{version}}}"#)
            };
            params.set("protocolVersion", json_string(Revision::LATEST_LEGACY));
            let capabilities = object(CLIENT_CAPABILITIES).unwrap_or("{}");
            params.set("capabilities", tasks::without_tasks(capabilities));
            params.set("clientInfo", object(CLIENT_INFO).map_or_else(unnamed, str::to_owned));
        };
        self.ask(Own::Opening, "initialize", fill);
        self.hold_first(request);
    }

    pub(super) fn opened(&mut self, answer: &Message) {
        let is_error = matches!(answer.head(), Head::Response { is_error: true, .. });
        if !is_error {
            self.cx.send_to_server(reply::notification("notifications/initialized"));
            self.level = Level::default();
            self.phase = EraPhase::Serving(Box::new(ServerDescription::of(
                answer,
                &["result", "serverInfo"],
            )));
        } else if self.protocol != Protocol::Legacy
            && EraVerdict::of_initialize(answer, self.is_certain) == EraVerdict::Modern
        {
            self.is_modern();
        } else {
            self.phase = EraPhase::Fresh;
            // All who wait for a session hear why there is none. The next one tries again.
            for (message, _) in std::mem::take(&mut self.held) {
                match message.head() {
                    Head::Request { id, .. } => self.send_readdressed(answer, id),
                    _ => debug!(what = ?message, "dropped: there is no session for it"),
                }
            }
        }
        self.release();
    }
}
