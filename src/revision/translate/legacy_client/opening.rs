//! The handshake: `initialize` is passed on first, and only an answer that names the modern era
//! leads to `server/discover`, from whose result it is then answered.

use std::collections::VecDeque;

use serde::Deserialize;
use tokio::time::Instant;
use tracing::debug;

use super::calls::Envelope;
use super::inputs::Inputs;
use super::listening::{Filter, Listening};
use super::{LegacyClient, Protocol, State, Step, Steps, Translation};
use crate::error::{Error, Kind};
use crate::message::{Head, Id, Members, Message, edit, peek, reply};
use crate::revision::translate::SERVER_INFO;
use crate::revision::{self, Era, Revision};

/// An `initialize` that has passed.
#[derive(Debug)]
pub(super) struct Watching {
    initialize: Message,
    pub(super) held: Held,
}

impl Watching {
    pub(super) fn is_answered_by(&self, id: Option<&Id>) -> bool {
        id.map(Id::canonical) == self.initialize.id().map(Id::canonical)
    }
}

/// A server that is being asked what it is.
#[derive(Debug)]
pub(super) struct Asking {
    initialize: Message,
    envelope: Envelope,
    /// The id of our question.
    id: Id,
    /// What the server said to `initialize`, if it was asked that first.
    refusal: Option<Message>,
    pub(super) held: Held,
}

impl Asking {
    pub(super) fn id(&self) -> &Id {
        &self.id
    }
}

/// What the client says before it is known how the server wants to hear it; whoever hands it over
/// bounds it.
#[derive(Debug, Default)]
pub(super) struct Held {
    messages: VecDeque<Message>,
    /// Bytes of those among them that get no answer.
    told: usize,
}

impl Held {
    /// Keeps it back, unless it may be said at any time.
    pub(super) fn take(&mut self, message: Message, out: &mut Steps) {
        if let Some(id) = peek::cancelled_request(&message) {
            let before = self.messages.len();
            self.messages.retain(|held| held.id() != Some(&id));
            if self.messages.len() == before {
                out.push_back(Step::ToServer(message));
            }
            return;
        }
        let is_probe = matches!(message.method(), Some("ping" | "server/discover"));
        if is_probe || revision::Envelope::of(&message).is_some() {
            return out.push_back(Step::ToServer(message));
        }
        if message.id().is_none() {
            self.told += message.bytes().len();
        }
        self.messages.push_back(message);
    }

    pub(super) fn bytes(&self) -> usize {
        self.told
    }

    fn release(self, out: &mut Steps) {
        out.extend(self.messages.into_iter().map(Step::ToServer));
    }

    /// Nobody is there: they need not find out one by one.
    fn give_back(self, error: &Error, out: &mut Steps) {
        if !error.is_unreachable() {
            return self.release(out);
        }
        let failed = |message| Step::Failed { message, error: error.clone() };
        out.extend(self.messages.into_iter().map(failed));
    }
}

impl LegacyClient {
    /// The client opens, or the core does so again in its name.
    pub(super) fn open(&mut self, initialize: Message, out: &mut Steps) {
        let held = match std::mem::replace(&mut self.state, State::Through) {
            State::Translating(mut translation) => {
                // What is in flight stays so; the server has said what it is.
                let answer = translation.offer.initialize_result(&initialize);
                out.push_back(Step::ToClient(answer));
                translation.envelope = Envelope::of(&initialize);
                self.state = State::Translating(translation);
                return;
            }
            State::Watching(watching) => watching.held,
            State::Asking(asking) => asking.held,
            State::Through => Held::default(),
        };
        if self.known == Some(Era::Modern) {
            return self.ask(initialize, None, held, out);
        }
        self.pass(initialize, held, out);
    }

    /// The client takes back its `initialize`: it gets no answer. `false`: another request is meant.
    pub(super) fn close(&mut self, notice: &Message, out: &mut Steps) -> bool {
        let (initialize, asked) = match &self.state {
            State::Watching(watching) => (&watching.initialize, watching.initialize.id()),
            State::Asking(asking) => (&asking.initialize, Some(&asking.id)),
            State::Through | State::Translating(_) => return false,
        };
        let cancelled = peek::cancelled_request(notice).map(|id| id.canonical());
        if cancelled.is_none() || cancelled != initialize.id().map(Id::canonical) {
            return false;
        }
        out.extend(asked.map(|id| Step::ToServer(reply::cancelled(id, "cancelled"))));
        match std::mem::replace(&mut self.state, State::Through) {
            State::Watching(Watching { held, .. }) | State::Asking(Asking { held, .. }) => {
                held.release(out);
            }
            State::Through | State::Translating(_) => {}
        }
        true
    }

    fn pass(&mut self, initialize: Message, held: Held, out: &mut Steps) {
        out.push_back(Step::ToServer(initialize.clone()));
        self.state = State::Watching(Watching { initialize, held });
    }

    fn ask(&mut self, initialize: Message, refusal: Option<Message>, held: Held, out: &mut Steps) {
        let envelope = Envelope::of(&initialize);
        // The form of id tells that it is not the client who probes: a login may come of it.
        let id = self.ids.string();
        let question = envelope.put_around(&reply::request(&id, "server/discover"), Some(&id));
        out.push_back(Step::ToServer(question));
        self.state = State::Asking(Asking { initialize, envelope, id, refusal, held });
    }

    /// The answer to `initialize` is what is watched for; all else passes.
    pub(super) fn watch(&mut self, message: Message, out: &mut Steps) {
        let watching = match (std::mem::replace(&mut self.state, State::Through), message.head()) {
            (State::Watching(watching), Head::Response { id, .. })
                if watching.is_answered_by(id.as_ref()) =>
            {
                watching
            }
            (other, _) => {
                self.state = other;
                return out.push_back(Step::ToClient(message));
            }
        };
        let is_error = matches!(message.head(), Head::Response { is_error: true, .. });
        if is_error && self.protocol != Protocol::Legacy && names_modern(&message) {
            debug!("the server refuses initialize as a modern one does");
            return self.ask(watching.initialize, Some(message), watching.held, out);
        }
        out.push_back(Step::ToClient(message));
        watching.held.release(out);
    }

    pub(super) fn initialize_failed(&mut self, error: Error, out: &mut Steps) {
        if let State::Watching(watching) = std::mem::replace(&mut self.state, State::Through) {
            watching.held.give_back(&error, out);
            out.push_back(Step::Failed { message: watching.initialize, error });
        }
    }

    /// The server has said what it is.
    pub(super) fn discovered(&mut self, message: Message, now: Instant, out: &mut Steps) {
        let asking = match std::mem::replace(&mut self.state, State::Through) {
            State::Asking(asking) if message.id() == Some(&asking.id) => asking,
            other => {
                self.state = other;
                return out.push_back(Step::ToClient(message));
            }
        };
        let Some(offer) = Offer::of(&message) else {
            return self.not_modern(asking, out);
        };
        if self.known != Some(Era::Modern) {
            self.finding = Some(Era::Modern);
        }
        self.known = Some(Era::Modern);
        let answer = offer.initialize_result(&asking.initialize);
        out.push_back(Step::ToClient(answer));
        let listening = Listening::new(offer.filter.clone());
        let mut translation = Translation {
            offer,
            envelope: asking.envelope,
            asked: Default::default(),
            inputs: Inputs::default(),
            listening,
            wrapped: Default::default(),
        };
        for message in asking.held.messages {
            translation.client_says(message, &mut self.ids, now, out);
        }
        self.state = State::Translating(Box::new(translation));
    }

    /// It does not know the question: what it said to `initialize` stands, or it is asked that.
    fn not_modern(&mut self, asking: Asking, out: &mut Steps) {
        if self.known.take().is_some() {
            self.finding = Some(Era::Legacy);
        }
        match asking.refusal {
            Some(refusal) => {
                let id = asking.initialize.id();
                let refusal = id.map_or_else(|| refusal.clone(), |id| edit::with_id(&refusal, id));
                out.push_back(Step::ToClient(refusal));
                asking.held.release(out);
            }
            None => self.pass(asking.initialize, asking.held, out),
        }
    }

    /// The question did not get through; whoever waits for `initialize` decides about another try.
    pub(super) fn discovery_failed(&mut self, error: Error, out: &mut Steps) {
        if let State::Asking(asking) = std::mem::replace(&mut self.state, State::Through) {
            asking.held.give_back(&error, out);
            out.push_back(Step::Failed { message: asking.initialize, error });
        }
    }

    /// The server that was modern is so no longer: the core opens a session with it.
    pub(super) fn turn_legacy(&mut self, refusal: &Message, out: &mut Steps) {
        let State::Translating(translation) = std::mem::replace(&mut self.state, State::Through)
        else {
            return;
        };
        debug!("the server no longer speaks the modern era");
        self.known = None;
        self.finding = Some(Era::Legacy);
        out.push_back(Step::SessionLost);
        let changed = Error::new(Kind::NoResponse, "The server was replaced by another");
        translation.inputs.end_all(&changed, out);
        translation.listening.end_all(&changed, out);
        for (id, asked) in translation.asked {
            let error = if Some(&id) == refusal.id() {
                // It was turned away: it may go out again when there is a session.
                Error { kind: Kind::Closed, ..changed.clone().not_delivered() }
            } else {
                changed.clone()
            };
            out.push_back(Step::Failed { message: asked.request, error });
        }
    }
}

/// Whether an error in answer to `initialize` can only come from a modern server, or is what one
/// says that knows neither the method nor a request without an envelope. `server/discover` then
/// tells for certain.
fn names_modern(answer: &Message) -> bool {
    match peek::error_code(answer) {
        Some((-32022, supported)) => {
            supported.is_empty() || supported.iter().any(|name| Revision::is_modern(name))
        }
        Some((code, _)) => matches!(code, -32020 | -32021 | -32601 | -32602),
        None => false,
    }
}

/// What a modern server says of itself.
#[derive(Debug)]
pub(super) struct Offer {
    capabilities: String,
    server_info: String,
    instructions: Option<String>,
    filter: Filter,
}

impl Offer {
    /// `None`: it is no answer, or has no modern revision in it that we know.
    fn of(answer: &Message) -> Option<Self> {
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
            capabilities: legacy_capabilities(capabilities),
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
        result.set("capabilities", &*self.capabilities);
        result.set("serverInfo", &*self.server_info);
        if let Some(instructions) = &self.instructions {
            result.set("instructions", &**instructions);
        }
        reply::raw_result(initialize.id(), &result.to_json())
    }
}

/// What a legacy client may make use of: not the tasks of either era, whose forms differ, and log
/// messages only because the envelope can ask for them.
fn legacy_capabilities(capabilities: &str) -> String {
    let Some(mut members) = Members::of(capabilities) else { return "{}".to_owned() };
    members.remove("tasks");
    if members.has("extensions") {
        members.object("extensions").remove("io.modelcontextprotocol/tasks");
        members.drop_if_empty("extensions");
    }
    members.to_json()
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
