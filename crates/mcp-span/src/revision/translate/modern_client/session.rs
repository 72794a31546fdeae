//! What a modern client has under way at a legacy server: its calls, its subscriptions, the log level
//! that it wants, and our own requests because of them.

use std::collections::HashMap;

use serde_json::json;
use tokio::time::Instant;

use super::calls::ServerCall;
use super::json_string;
use super::listening::Subscriptions;
use super::parked::Parked;
use crate::limits;
use crate::message::{Id, InFlight, Json, Members, Message, Method, get, reply};
use crate::revision::Revision;
use crate::revision::translate::{
    CLIENT_CAPABILITIES, CLIENT_INFO, Introduction, SERVER_INFO, ServerDescription,
    TranslatorContext, tasks,
};

/// What a server hears whose question nobody will answer.
pub(super) const LEFT: &str = "The client has left";

/// What is under way; calls may outlive the session that they were made in.
pub(super) struct LegacySession {
    pub(super) cx: TranslatorContext,
    /// What the server has said of itself when it opened the last session.
    pub(super) server: ServerDescription,
    /// Requests of our own under way; their answers go no further.
    pub(super) own: HashMap<Id, Own>,
    /// The client's calls, by the ids under which the server knows them, and those that wait for the
    /// client.
    pub(super) calls: HashMap<Id, ServerCall>,
    pub(super) parked: HashMap<Id, Parked>,
    /// The client's requests that have no answer, by its own ids: the call of each, or `None` for a
    /// subscription, which is answered from here.
    pub(super) waiting: InFlight<Option<Id>>,
    pub(super) listening: Subscriptions,
    /// The log level that the server was told last, as JSON.
    level: Option<String>,
    /// Calls that want a level are held until the server has answered, or until then.
    pub(super) level_until: Option<Instant>,
    /// The client will say nothing more.
    pub(super) has_left: bool,
}

/// What a request of our own is for.
pub(super) enum Own {
    /// Of which era the server is, or whether it still is.
    Discover,
    Opening,
    /// Waited for until then.
    LogLevel(Instant),
    /// Whether its changes are to be told.
    Resource(String),
}

impl LegacySession {
    pub(super) fn new(cx: TranslatorContext) -> Self {
        Self {
            cx,
            server: ServerDescription::default(),
            own: HashMap::new(),
            calls: HashMap::new(),
            parked: HashMap::new(),
            waiting: InFlight::default(),
            listening: Subscriptions::default(),
            level: None,
            level_until: None,
            has_left: false,
        }
    }

    /// A request of our own goes out.
    pub(super) fn ask(&mut self, own: Own, request: impl FnOnce(&Id) -> Message) {
        let id = self.cx.string();
        self.cx.send_to_server(request(&id).own());
        self.own.insert(id, own);
    }

    /// Asks the server what it is, in the client's words.
    pub(super) fn discover(&mut self) {
        self.own.insert(self.cx.discover(), Own::Discover);
    }

    /// Sends `initialize` with what `request` says of the client.
    pub(super) fn open(&mut self, request: &Message) {
        self.cx.introduction = Introduction::of_modern(request);
        self.ask(Own::Opening, |id| initialize(id, request));
    }

    /// The server has opened a session.
    pub(super) fn opened(&mut self, answer: &Message) {
        self.cx.send_to_server(reply::notification("notifications/initialized", None));
        self.server = ServerDescription::of(answer, &["result", "serverInfo"]);
        (self.level, self.level_until) = (None, None);
    }

    /// Nobody waits for anything in the session any more, for this reason.
    pub(super) fn end(&mut self, reason: &str) {
        self.end_listens();
        self.give_up(reason, |_| true);
    }

    /// The client says something. `false`: it has to wait until the server has taken the log level.
    pub(super) fn serve(&mut self, id: &Id, method: &Method, message: &Message) -> bool {
        match method {
            Method::Discover => self.cx.send_to_client(self.described(id)),
            Method::Listen => self.listen(id, message),
            _ => return self.call(id, method, message),
        }
        true
    }

    /// The server tells something.
    pub(super) fn server_tells(&mut self, message: Message) {
        let Some(method) = message.method() else { return };
        match method {
            Method::Progress => self.progress(message),
            Method::LogMessage if !self.calls.values().any(|call| call.wants_logs) => {}
            Method::Cancelled => self.withdraw_question(&message),
            Method::ToolsChanged
            | Method::PromptsChanged
            | Method::ResourcesChanged
            | Method::ResourceUpdated => self.listening.tell(method, &message, &mut self.cx),
            // The modern era has no word for these.
            Method::ElicitationComplete | Method::TaskStatus => {}
            _ => self.cx.send_to_client(message),
        }
    }

    /// Whether a call that wants log messages from `level` on waits until the server knows.
    ///
    /// The level is the session's: the last request that names one decides.
    pub(super) fn waits_for_level(&mut self, level: Option<&str>) -> bool {
        let has_logs = get(&self.server.capabilities, &["logging"]).is_some();
        let Some(level) = level.filter(|_| has_logs) else { return false };
        if self.level_until.is_none() {
            if self.level.as_deref() == Some(level) {
                return false;
            }
            let until = self.cx.now + limits::LEVEL_WAIT;
            (self.level, self.level_until) = (Some(level.to_owned()), Some(until));
            let params = format!(r#"{{"level":{level}}}"#);
            self.ask(Own::LogLevel(until), |id| {
                reply::request(id, Method::SetLevel.name(), Some(&params))
            });
        }
        true
    }

    /// The answer to `server/discover`.
    fn described(&self, id: &Id) -> Message {
        let mut result = Members::default();
        let versions = format!("[{}]", json_string(Revision::LATEST_MODERN));
        result.set("supportedVersions", versions);
        result.set("capabilities", self.server.capabilities.as_str());
        if let Some(instructions) = &self.server.instructions {
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
        self.server.sign(result);
    }
}

impl ServerDescription {
    /// Adds to a result who the server is.
    pub(super) fn sign<'a>(&'a self, result: &mut Members<'a>) {
        if let Some(info) = &self.info {
            result.object("_meta").add(SERVER_INFO, info.as_str());
        }
    }
}

/// `initialize` with what a modern request says of the client.
fn initialize(id: &Id, request: &Message) -> Message {
    let meta = |name| request.get(&["params", "_meta", name]).filter(|json| json.is_object());
    let unnamed = json!({"name": "mcp-span client", "version": env!("CARGO_PKG_VERSION")});
    let mut params = Members::default();
    params.set("protocolVersion", json_string(Revision::LATEST_LEGACY));
    let capabilities = meta(CLIENT_CAPABILITIES).map_or("{}", Json::as_str);
    params.set("capabilities", tasks::without_tasks(capabilities));
    let info = meta(CLIENT_INFO).map(|info| info.as_str().to_owned());
    params.set("clientInfo", info.unwrap_or_else(|| unnamed.to_string()));
    reply::request(id, Method::Initialize.name(), Some(&params.to_json()))
}
