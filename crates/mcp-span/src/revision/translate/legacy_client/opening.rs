//! The handshake: `initialize` is passed on first, and only an answer that names the modern era
//! leads to `server/discover`, from whose result it is then answered.

use serde_json::Value;
use tracing::debug;

use super::listening::Subscription;
use super::{LegacyClient, Protocol, Translation, TranslatorState};
use crate::message::{Id, Json, Members, Message, edit, peek, reply};
use crate::revision::era_hints::{self, EraVerdict};
use crate::revision::subscription::Changes;
use crate::revision::translate::{Introduction, SERVER_INFO, ServerDescription};
use crate::revision::{Era, Revision};

/// An `initialize` whose answer depends on what the server is.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) initialize: Message,
    /// The id of our question; without one `initialize` has passed, and its answer tells.
    pub(super) discover: Option<Id>,
    /// What the server said to `initialize`, if it was asked that first.
    refusal: Option<Message>,
}

impl LegacyClient {
    /// The client opens, or the engine does so again in its name.
    pub(super) fn open(&mut self, initialize: Message) {
        self.cx.introduction = Introduction::of_legacy(&initialize);
        if let TranslatorState::Translating(translation) = &self.state {
            // What is in flight stays so; the server has said what it is.
            return self.cx.send_to_client(translation.server.initialize_result(&initialize));
        }
        match self.known {
            Some(Era::Modern) => self.ask(initialize, None),
            Some(Era::Legacy) | None => self.pass(initialize),
        }
    }

    /// The client takes back its `initialize`: it gets no answer. `false`: another request is meant.
    pub(super) fn close(&mut self, notice: &Message) -> bool {
        let TranslatorState::Asking(asking) = &self.state else { return false };
        let cancelled = peek::cancelled_request(notice).map(|id| id.canonical());
        if cancelled.is_none() || cancelled != asking.initialize.id().map(Id::canonical) {
            return false;
        }
        if let Some(id) = self.state.question() {
            self.cx.send_to_server(reply::cancelled(id, "cancelled"));
        }
        self.state = TranslatorState::Through;
        true
    }

    fn pass(&mut self, initialize: Message) {
        self.cx.send_to_server(initialize.clone());
        let asking = Asking { initialize, discover: None, refusal: None };
        self.state = TranslatorState::Asking(asking);
    }

    fn ask(&mut self, initialize: Message, refusal: Option<Message>) {
        let discover = Some(self.cx.discover());
        self.state = TranslatorState::Asking(Asking { initialize, discover, refusal });
    }

    /// The answer that tells what the server is.
    pub(super) fn question_answered(&mut self, answer: Message) {
        match std::mem::replace(&mut self.state, TranslatorState::Through) {
            TranslatorState::Through => {}
            TranslatorState::Asking(asking) if asking.discover.is_some() => {
                self.discovered(asking, &answer);
            }
            TranslatorState::Asking(asking) => self.initialize_answered(asking.initialize, answer),
            TranslatorState::Translating(translation) => self.asked_again(translation, &answer),
        }
    }

    fn initialize_answered(&mut self, initialize: Message, answer: Message) {
        if self.protocol != Protocol::Legacy && era_hints::refuses_initialize(&answer, false) {
            debug!("the server refuses initialize as a modern one does");
            return self.ask(initialize, Some(answer));
        }
        self.cx.send_to_client(answer);
    }

    /// The server has said what it is.
    fn discovered(&mut self, asking: Asking, answer: &Message) {
        let Some(server) = offer(answer) else { return self.not_modern(asking, answer) };
        if self.known.replace(Era::Modern) != Some(Era::Modern) {
            self.cx.found(Era::Modern);
        }
        self.cx.send_to_client(server.initialize_result(&asking.initialize));
        self.state = TranslatorState::Translating(Box::new(Translation {
            listening: Subscription::new(Changes::of(&server.capabilities)),
            server,
            ..Translation::default()
        }));
    }

    /// It does not know the question: what it said to `initialize` stands, or it is asked that.
    fn not_modern(&mut self, asking: Asking, answer: &Message) {
        let denies_modern = EraVerdict::of_discover(answer) == EraVerdict::Legacy;
        if self.known.take().is_some() && denies_modern {
            self.cx.found(Era::Legacy);
        }
        match (asking.refusal, asking.initialize.id()) {
            (Some(refusal), Some(id)) => self.cx.send_to_client(edit::with_id(&refusal, id)),
            _ => self.pass(asking.initialize),
        }
    }
}

/// What a modern server says of itself. `None`: it is no answer, or has no modern revision in it that
/// we know.
fn offer(answer: &Message) -> Option<ServerDescription> {
    let versions = peek::supported_versions(answer).filter(|_| !answer.is_error())?;
    let is_known = versions.iter().any(|name| Revision::is_modern(name));
    is_known.then(|| ServerDescription::of(answer, &["result", "_meta", SERVER_INFO]))
}

impl ServerDescription {
    fn initialize_result(&self, initialize: &Message) -> Message {
        // Its own revision if we know it.
        let asked = initialize.get(&["params", "protocolVersion"]).and_then(Json::to_text);
        let version = asked.as_deref().filter(|version| Revision::is_legacy(version));
        let mut result = Members::default();
        let version = version.unwrap_or(Revision::LATEST_LEGACY);
        result.set("protocolVersion", Value::from(version).to_string());
        result.set("capabilities", &*self.capabilities);
        // Extensions are spoken of only to those who speak of them.
        if initialize.get(&["params", "capabilities", "extensions"]).is_none() {
            result.object("capabilities").remove("extensions");
        }
        // Legacy clients insist on one; some servers give none.
        let unnamed = r#"{"name":"MCP server","version":""}"#;
        result.set("serverInfo", self.info.as_deref().unwrap_or(unnamed));
        if let Some(instructions) = &self.instructions {
            result.set("instructions", &**instructions);
        }
        reply::raw_result(initialize.id(), &result.to_json())
    }
}
