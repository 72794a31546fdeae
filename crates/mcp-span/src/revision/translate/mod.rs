//! Translation between the two eras: a legacy client at a modern server, and the reverse.
//!
//! Each direction is a state and two functions over messages, one for each side; neither knows a
//! transport, waits for anything or reads a clock. What must change is spliced; payloads stay the
//! bytes that they were.

use std::collections::VecDeque;

use tokio::time::Instant;

use crate::error::Error;
use crate::limits;
use crate::message::{Id, Json, Members, Message, Method, reply};
use crate::revision::{Era, Revision};

pub(crate) mod legacy_client;
mod memory;
pub(crate) mod modern_client;
mod tasks;
#[cfg(test)]
mod tests;

pub use memory::Memory;

/// The member of `_meta` that says which revision a request speaks.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The member of `_meta` that says what the client can do.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The member of `_meta` that says who the client is.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// The member of `_meta` by which a request asks for log messages.
pub(crate) const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The member of a result's `_meta` that says who the server is.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The member of `_meta` that says which subscription a notification belongs to.
pub(crate) const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// Which eras a bridge offers and tries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Whatever the two sides speak; translated where they have nothing in common.
    #[default]
    Auto,
    /// The server is never spoken to in the modern way.
    Legacy,
    /// The client is offered the modern era, whatever the server speaks.
    Modern,
}

/// One thing that a translation leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// This goes on towards the server.
    ToServer(Message),
    /// This goes on towards the client.
    ToClient(Message),
    /// This message, as it came from the client's side, did not arrive or gets no answer.
    Failed {
        /// As it came.
        message: Message,
        /// Why.
        error: Error,
    },
    /// This is the server's era, to be remembered for the next run.
    Found(Era),
    /// The server knows nothing of what was settled with it: it is to be opened anew.
    SessionLost,
}

/// What a client says of itself in the envelope of a modern request: members of `_meta` as JSON.
#[derive(Clone, Debug, Default)]
struct Introduction(Vec<(&'static str, String)>);

impl Introduction {
    /// Out of the envelope of a request.
    fn of_modern(request: &Message) -> Self {
        let names = [PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO];
        let said = names.into_iter().filter_map(|name| {
            Some((name, request.get(&["params", "_meta", name])?.as_str().to_owned()))
        });
        Self(said.collect())
    }

    /// Out of the `initialize` of a legacy client.
    fn of_legacy(initialize: &Message) -> Self {
        let parameter = |name| initialize.get(&["params", name]).map(Json::as_str);
        let capabilities = tasks::without_tasks(parameter("capabilities").unwrap_or("{}"));
        let info = parameter("clientInfo").map(|info| (CLIENT_INFO, info.to_owned()));
        let version = format!("\"{}\"", Revision::LATEST_MODERN);
        let said = [(PROTOCOL_VERSION, version), (CLIENT_CAPABILITIES, capabilities)];
        Self(said.into_iter().chain(info).collect())
    }

    /// Also says this, from now on.
    fn set(&mut self, name: &'static str, json: String) {
        self.0.retain(|(known, _)| *known != name);
        self.0.push((name, json));
    }

    /// Into the parameters of a request.
    fn fill<'a>(&'a self, params: &mut Members<'a>) {
        for (name, value) in &self.0 {
            params.object("_meta").set(*name, value.as_str());
        }
    }
}

/// What a server says of itself, as JSON texts.
#[derive(Debug, Default)]
struct ServerDescription {
    /// Without what is about tasks.
    capabilities: String,
    info: Option<String>,
    instructions: Option<String>,
}

impl ServerDescription {
    /// Out of its answer to `initialize` or `server/discover`, in which its name stands at `info`.
    fn of(answer: &Message, info: &[&str]) -> Self {
        let member = |path: &[&str]| answer.get(path).map(|json| json.as_str().to_owned());
        let capabilities = answer.get(&["result", "capabilities"]).map_or("{}", Json::as_str);
        Self {
            info: member(info),
            instructions: member(&["result", "instructions"]),
            capabilities: tasks::without_tasks(capabilities),
        }
    }
}

/// What every part of a translator needs: the time of the event, ids of the bridge's own, and the
/// queue of what the event leads to.
#[derive(Debug)]
pub(crate) struct TranslatorContext {
    now: Instant,
    steps: VecDeque<Step>,
    prefix: u64,
    first_id: u64,
    last_id: u64,
    /// When the server was last suspected of having changed its era.
    suspected: Option<Instant>,
    /// What the client says of itself in every request.
    introduction: Introduction,
}

impl TranslatorContext {
    /// `prefix`: some unpredictable bits.
    pub(crate) fn new(prefix: u64, now: Instant) -> Self {
        // Far from where clients count, whose pings may be out under ids of their own.
        let first_id = (1 << 40) + (prefix >> 24);
        Self {
            now,
            steps: VecDeque::new(),
            prefix,
            first_id,
            last_id: first_id,
            suspected: None,
            introduction: Introduction::default(),
        }
    }

    fn send_to_client(&mut self, message: Message) {
        self.steps.push_back(Step::ToClient(message));
    }

    fn send_to_server(&mut self, message: Message) {
        self.steps.push_back(Step::ToServer(message));
    }

    /// Asks the server what it is, under the id that is given back. It is not the client who asks: a
    /// login may come of it.
    fn discover(&mut self) -> Id {
        let id = self.string();
        let mut params = Members::default();
        self.introduction.fill(&mut params);
        let question = reply::request(&id, Method::Discover.name(), Some(&params.to_json()));
        self.send_to_server(question.own());
        id
    }

    /// The server's era was found out: whatever it was suspected of before is settled.
    fn found(&mut self, era: Era) {
        self.steps.push_back(Step::Found(era));
        self.suspected = None;
    }

    /// The client's request `id` ends with this error of the bridge's.
    fn fail(&mut self, id: &Id, error: &Error) {
        self.send_to_client(reply::error(Some(id), error));
    }

    /// The parameters of the client's request `id` are not what they should be.
    fn refuse(&mut self, id: &Id, message: &str) {
        self.send_to_client(reply::refusal(id, -32602, message));
    }

    /// An id towards the server, which sees nobody else's: a number.
    fn number(&mut self) -> Id {
        self.last_id += 1;
        Id::number(self.last_id)
    }

    /// An id that is unlike the ids of the client.
    fn string(&mut self) -> Id {
        self.last_id += 1;
        Id::string(&format!("mcp-span-{:x}-{}", self.prefix, self.last_id))
    }

    /// Whether [`Self::number`] gave this id.
    fn gave(&self, id: &Id) -> bool {
        let number = id.as_json().parse::<u64>();
        number.is_ok_and(|number| (self.first_id..=self.last_id).contains(&number))
    }

    /// Whether to follow up an error that sounds like a server of the other era: tools write errors,
    /// too, so the server is asked only every [`limits::DOUBT_PAUSE`].
    fn may_suspect(&mut self) -> bool {
        let is_due = self.suspected.is_none_or(|at| self.now >= at + limits::DOUBT_PAUSE);
        if is_due {
            self.suspected = Some(self.now);
        }
        is_due
    }
}
