//! Opens a session at the legacy server in the client's place, and tells the client what it is like.

use tokio::time::Instant;
use tracing::debug;

use super::changing::Introduction;
use super::{ModernClient, Own, Phase, json_string, readdressed};
use crate::message::{Head, Id, Json, Members, Message, get, reply};
use crate::revision::Revision;
use crate::revision::translate::{
    CLIENT_CAPABILITIES, CLIENT_INFO, SERVER_INFO, Step, Steps, tasks,
};

/// What the server has said of itself, as JSON texts.
#[derive(Debug)]
pub(super) struct Server {
    capabilities: String,
    pub(super) info: Option<String>,
    instructions: Option<String>,
    pub(super) logs: bool,
    pub(super) news: News,
}

/// What the server tells without being asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct News {
    pub(super) tools: bool,
    pub(super) prompts: bool,
    pub(super) resources: bool,
    /// Changes of single resources.
    pub(super) updates: bool,
}

impl Server {
    fn of(answer: &Message) -> Self {
        let member = |name| answer.get(&["result", name]).map(|json| json.as_str().to_owned());
        let capabilities = member("capabilities").unwrap_or_else(|| "{}".to_owned());
        let offers = |what, member| get(&capabilities, &[what, member]).is_some_and(Json::is_true);
        let news = News {
            tools: offers("tools", "listChanged"),
            prompts: offers("prompts", "listChanged"),
            resources: offers("resources", "listChanged"),
            updates: offers("resources", "subscribe"),
        };
        let logs = get(&capabilities, &["logging"]).is_some();
        let (info, instructions) = (member("serverInfo"), member("instructions"));
        Self { capabilities, info, instructions, logs, news }
    }

    /// The answer to `server/discover`.
    pub(super) fn described(&self, id: &Id) -> Message {
        let head = Head::Response { id: Some(id.clone()), is_error: false };
        let mut answer = Members::headed(&head);
        let result = answer.object("result");
        let versions = format!("[{}]", json_string(Revision::LATEST_MODERN));
        result.set("supportedVersions", versions);
        result.set("capabilities", tasks::without_tasks(&self.capabilities));
        if let Some(instructions) = &self.instructions {
            result.set("instructions", instructions.as_str());
        }
        self.complete(result, true);
        answer.into_message(head)
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
    /// Sends `initialize` with what `request` says of the client; `request` itself follows when
    /// there is a session.
    pub(super) fn open(&mut self, request: Message, out: &mut Steps) {
        self.phase = Phase::Opening;
        self.introduction = Introduction::of(&request);
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
        self.ask(Own::Opening, "initialize", fill, out);
        self.held.push_first(request);
    }

    pub(super) fn opened(&mut self, answer: &Message, now: Instant, out: &mut Steps) {
        let is_error = matches!(answer.head(), Head::Response { is_error: true, .. });
        match is_error {
            false => {
                out.push_back(Step::ToServer(reply::notification("notifications/initialized")));
                self.forget_level();
                self.phase = Phase::Serving(Box::new(Server::of(answer)));
            }
            _ if self.refuses_legacy(answer) => {}
            _ => {
                self.phase = Phase::Fresh;
                return self.refuse_held(answer, out);
            }
        }
        self.release(now, out);
    }

    /// There is no session: all who wait for one hear why. The next one tries again.
    fn refuse_held(&mut self, answer: &Message, out: &mut Steps) {
        while let Some(message) = self.held.pop() {
            match message.head() {
                Head::Request { id, .. } => out.push_back(readdressed(answer, id)),
                _ => debug!(what = ?message, "dropped: there is no session for it"),
            }
        }
    }
}
