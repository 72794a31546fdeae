//! The engine and the stages around it: era translation, hidden tools, the stand-in for a server that
//! waits for a login.
//!
//! The engine speaks the legacy era as soon as either side does, so that sessions, recovery and retries
//! are the same for all. A modern client is translated between its link and the engine, a modern server
//! between the engine and its link.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::hidden_tools::HiddenTools;
use super::stand_in;
use crate::engine::{Engine, Limits, Output, Policy, earliest};
use crate::error::{Error, ErrorKind};
use crate::limits;
use crate::message::fnv_map::FnvMap;
use crate::message::{Id, Message, Method, peek, reply};
use crate::net::Lane;
use crate::net::backoff::entropy;
use crate::revision::translate::legacy_client::LegacyClient;
use crate::revision::translate::modern_client::ModernClient;
use crate::revision::translate::{Memory, Protocol, Step, TranslatorContext};
use crate::revision::{Envelope, Era};
use crate::transport::{Command, Event, Incoming, Send, Ticket};

/// Which stages are offered and tried, and what is known of the server.
#[derive(Clone, Debug, Default)]
pub struct Stages {
    /// What is offered to the client and tried with the server.
    pub protocol: Protocol,
    /// Where the server's era is remembered from one run to the next.
    pub memory: Option<Memory>,
    /// Tools that the client neither sees nor calls.
    pub hidden_tools: HiddenTools,
    /// While a person has to log in, requests fail in place of being answered for the server.
    pub no_stand_in: bool,
}

/// Writes down which era the server speaks, in the order in which it was found out.
pub(super) struct EraWriter {
    memory: Option<Memory>,
    writing: Option<JoinHandle<()>>,
}

impl EraWriter {
    fn keep(&mut self, era: Era) {
        let Some(memory) = self.memory.clone() else { return };
        let before = self.writing.take();
        self.writing = Some(tokio::spawn(async move {
            // In order: the last finding is the one that stays.
            if let Some(before) = before {
                let _ = before.await;
            }
            // Disks may be slow.
            let _ = tokio::task::spawn_blocking(move || memory.keep(era)).await;
        }));
    }

    /// Waits a moment for the era memory to be written.
    pub(super) async fn finish(self) {
        if let Some(writing) = self.writing {
            let _ = timeout(limits::FLUSH, writing).await;
        }
    }
}

/// The engine and its stages.
pub(super) struct Pipeline {
    pub(super) engine: Engine,
    /// Translates a modern client, before the engine; inactive unless it is needed.
    modern_client: ModernClient,
    /// Translates a legacy client, behind the engine; inactive unless it is needed.
    legacy_client: LegacyClient,
    pub(super) era_writer: EraWriter,
    hidden_tools: HiddenTools,
    has_stand_in: bool,
    /// The link reports the outcome of each ticket.
    is_http: bool,
    /// Messages of the engine's that the translator has taken over.
    taken: FnvMap<Ticket, Box<Send>>,
    /// The translator's own messages in flight over HTTP.
    own: FnvMap<Ticket, Message>,
    own_count: u64,
    /// For the client, in its own era.
    pub(super) for_client: VecDeque<Message>,
    /// For the server's link.
    pub(super) for_server: VecDeque<Command>,
}

impl Pipeline {
    /// `limits` are those of an HTTP link; `None` for a pair of streams.
    pub(super) fn new(policy: Policy, stages: Stages, limits: Option<Limits>) -> Self {
        let now = Instant::now();
        let known = stages.memory.as_ref().and_then(Memory::recall);
        let context = || TranslatorContext::new(entropy(), now);
        let engine = Engine::new(policy, entropy(), limits, now);
        let memory = engine.memory.clone();
        Self {
            engine,
            modern_client: ModernClient::new(stages.protocol, known, context(), memory),
            legacy_client: LegacyClient::new(stages.protocol, known, context()),
            era_writer: EraWriter { memory: stages.memory, writing: None },
            hidden_tools: stages.hidden_tools,
            has_stand_in: !stages.no_stand_in,
            is_http: limits.is_some(),
            taken: FnvMap::default(),
            own: FnvMap::default(),
            own_count: 0,
            for_client: VecDeque::new(),
            for_server: VecDeque::new(),
        }
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        let stand_in = stand_in::wake_at(&self.engine);
        let (modern, legacy) = (self.modern_client.wake_at(), self.legacy_client.wake_at());
        earliest([modern, legacy, self.engine.deadline(), stand_in])
    }

    /// Whether there is output for either side.
    pub(super) fn has_output(&self) -> bool {
        self.engine.has_work() || !self.for_client.is_empty() || !self.for_server.is_empty()
    }

    /// Whether to translate a message for the server: only for a legacy client, since a modern one is
    /// translated before the engine.
    fn is_to_be_translated(&self, message: &Message) -> bool {
        self.modern_client.client_era() != Some(Era::Modern) && self.legacy_client.takes(message)
    }

    /// Whether to read more from the client.
    pub(super) fn has_room(&self) -> bool {
        match self.modern_client.is_holding() {
            // No response of the client's to the server is behind those that wait here.
            true => self.engine.memory.has_room(),
            false => self.engine.has_room(),
        }
    }

    /// Ends every request in flight with this error.
    pub(super) fn end_all(&mut self, error: &Error, now: Instant) {
        self.engine.end_all(error, now);
        self.run(now);
    }

    pub(super) fn on_client_message(&mut self, incoming: Incoming, now: Instant) {
        let message = match incoming {
            Incoming::Message(message) => message,
            Incoming::Refused { id, error } => {
                return self.send_to_client(reply::error(id.as_ref(), &error), now);
            }
            Incoming::Ended(_) => return,
        };
        if let Some(error) = self.hidden_tools.refusal_of(&message) {
            // Nobody would hear why a notification is dropped.
            let id = message.request_id();
            return self.for_client.extend(id.map(|id| reply::error(Some(id), &error)));
        }
        if self.modern_client.is_through() {
            return self.pass_to_engine(message, now);
        }
        self.modern_client.on_client_message(message, now);
        self.run_client_steps(now);
    }

    /// A message of the client's, in the era of the engine.
    fn pass_to_engine(&mut self, message: Message, now: Instant) {
        match stand_in::on_client_message(&mut self.engine, &message, now) {
            Some(answer) => self.send_to_client(answer, now),
            None => self.engine.on_client_message(message, now),
        }
    }

    pub(super) fn on_client_closed(&mut self, now: Instant) {
        // First: it may have something to send.
        self.modern_client.on_client_closed(now);
        self.run_client_steps(now);
        self.engine.on_client_closed(now);
    }

    /// Whether the client has closed its input and has all the responses it may expect.
    pub(super) fn is_finished(&self) -> bool {
        self.engine.is_finished() && !self.modern_client.is_holding()
    }

    /// Handles an event of the server's link.
    pub(super) fn on_event(&mut self, event: Event, now: Instant) {
        match event {
            Event::Message { message, answers } => self.on_message(message, answers, now),
            Event::Failed { ticket, error } => self.on_failed(ticket, *error, now),
            Event::SessionRejected { ticket, error, .. } if self.own.contains_key(&ticket) => {
                self.on_failed(ticket, *error, now);
            }
            Event::Accepted(ticket) if self.own.remove(&ticket).is_some() => {}
            other => self.engine.on_event(other, now),
        }
    }

    fn on_message(&mut self, message: Message, answers: Option<Ticket>, now: Instant) {
        let is_own = answers.is_some_and(|ticket| self.own.remove(&ticket).is_some());
        if self.legacy_client.is_through() && !is_own {
            let is_suspect = self.legacy_client.suspects_modern(&message, now);
            self.engine.on_event(Event::Message { message, answers }, now);
            if is_suspect {
                self.engine.lose_session(&other_era(), now);
            }
            return;
        }
        self.legacy_client.on_server_message(message, now);
        self.run_server_steps(now);
    }

    fn on_failed(&mut self, ticket: Ticket, error: Error, now: Instant) {
        let own = self.own.remove(&ticket);
        let is_through = self.legacy_client.is_through();
        let known = own.or_else(|| self.engine.request(ticket).filter(|_| !is_through).cloned());
        let Some(message) = known else {
            return self.engine.on_event(Event::Failed { ticket, error: error.into() }, now);
        };
        self.legacy_client.failed(message, error, now);
        self.run_server_steps(now);
    }

    pub(super) fn tick(&mut self, now: Instant) {
        self.engine.on_time(now);
        self.on_login_wait_over(now);
        self.legacy_client.tick(now);
        self.run_server_steps(now);
        self.modern_client.tick(now);
        self.run_client_steps(now);
    }

    /// Answers an `initialize` that has waited long enough for a person to log in.
    fn on_login_wait_over(&mut self, now: Instant) {
        if stand_in::wake_at(&self.engine).is_none_or(|at| at > now) {
            return;
        }
        if !self.has_stand_in {
            let error = self.engine.pending_error();
            return self.engine.end_all(&error, now);
        }
        if let Some(answer) = stand_in::on_time(&mut self.engine, now) {
            self.send_to_client(answer, now);
        }
    }

    /// Takes commands and outputs of the engine through the stages until there are none left.
    pub(super) fn run(&mut self, now: Instant) {
        while self.engine.has_work() {
            while let Some(output) = self.engine.next_output() {
                match output {
                    Output::Message(message) => self.send_to_client(message, now),
                    Output::SessionLost => {
                        self.modern_client.session_lost(now);
                        self.run_client_steps(now);
                    }
                    Output::Failed { request, error } => {
                        let stood_in = self.has_stand_in.then_some(&self.engine);
                        let stood_in = stood_in
                            .and_then(|engine| stand_in::on_failed(engine, &request, &error));
                        let answer = stood_in.unwrap_or_else(|| reply::error(request.id(), &error));
                        self.send_to_client(answer, now);
                    }
                }
            }
            while let Some(command) = self.engine.next_command() {
                self.pass_to_server(command, now);
            }
        }
    }

    fn send_to_client(&mut self, message: Message, now: Instant) {
        if self.modern_client.is_through() {
            self.modern_client.on_message_to_client(&message);
            return self.for_client.push_back(self.hidden_tools.on_message_to_client(message));
        }
        self.modern_client.on_server_message(message, now);
        self.run_client_steps(now);
    }

    fn pass_to_server(&mut self, command: Command, now: Instant) {
        match command {
            Command::Send(send) if self.is_to_be_translated(&send.message) => {
                let (ticket, message) = (send.ticket, send.message.clone());
                let is_request = message.request_id().is_some();
                // Over a pair of streams a cancellation is a message, and nothing answers what it
                // is about.
                if let Some(id) = peek::cancelled_request(&message).map(|id| id.canonical()) {
                    let is_it = |sent: &Send| sent.message.request_id().map(Id::canonical);
                    self.taken.retain(|_, sent| is_it(sent).is_none_or(|sent| sent != id));
                }
                self.taken.insert(ticket, send);
                self.legacy_client.on_client_message(message, now);
                self.run_server_steps(now);
                // Whatever the translator made of it: what needs no response counts as accepted.
                if !is_request && self.taken.remove(&ticket).is_some() {
                    self.engine.on_event(Event::Accepted(ticket), now);
                }
            }
            Command::Cancel { ticket, .. } if let Some(send) = self.taken.remove(&ticket) => {
                let Some(id) = send.message.id() else { return };
                self.legacy_client.on_client_message(reply::cancelled(id, "cancelled"), now);
                self.run_server_steps(now);
            }
            command => self.for_server.push_back(command),
        }
    }

    /// Executes the steps of the client's translator.
    fn run_client_steps(&mut self, now: Instant) {
        while let Some(step) = self.modern_client.next_step() {
            match step {
                Step::ToServer(message) => self.pass_to_engine(message, now),
                Step::ToClient(message) => {
                    self.for_client.push_back(self.hidden_tools.on_message_to_client(message));
                }
                Step::Found(era) => self.era_writer.keep(era),
                // Nothing fails on this side of the engine.
                Step::Failed { .. } | Step::SessionLost => {}
            }
        }
    }

    /// Executes the steps of the server's translator.
    fn run_server_steps(&mut self, now: Instant) {
        while let Some(step) = self.legacy_client.next_step() {
            match step {
                Step::ToServer(message) => self.send_translated(message),
                Step::ToClient(message) => {
                    let id = message.id().filter(|_| message.method().is_none());
                    let answers = id.and_then(|id| self.engine.ticket_of(id));
                    answers.and_then(|ticket| self.taken.remove(&ticket));
                    self.engine.on_event(Event::Message { message, answers }, now);
                }
                Step::Failed { message, error } => {
                    let ticket = message.id().and_then(|id| self.engine.ticket_of(id));
                    let Some(ticket) = ticket else { continue };
                    self.taken.remove(&ticket);
                    self.engine.on_event(Event::Failed { ticket, error: error.into() }, now);
                }
                Step::Found(era) => self.era_writer.keep(era),
                Step::SessionLost => self.engine.lose_session(&other_era(), now),
            }
        }
    }

    /// Sends a message of the translator's: one of the engine's unchanged, or one of its own.
    fn send_translated(&mut self, message: Message) {
        if let Some((_, send)) = self.taken.extract_if(|_, send| send.message == message).next() {
            return self.for_server.push_back(Command::Send(send));
        }
        if let (Some(id), true) = (peek::cancelled_request(&message), self.is_http) {
            // A modern request is cancelled by closing its stream.
            let cancelled = self.own.extract_if(|_, own| own.id() == Some(&id)).next();
            let cancel = |(ticket, _)| Command::Cancel { ticket, grace: Duration::ZERO };
            return self.for_server.extend(cancelled.map(cancel));
        }
        self.own_count += 1;
        let ticket = Ticket::of_stage(self.own_count);
        let envelope = Envelope::of(&message);
        let lane = match message.method() {
            Some(Method::Listen) => Lane::Lasting,
            _ => Lane::Calls,
        };
        if self.is_http {
            self.own.insert(ticket, message.clone());
        }
        let send = Send { envelope, lane, ..Send::new(ticket, message) };
        self.for_server.push_back(Command::Send(Box::new(send)));
    }
}

/// The server was replaced by one of the other era, which knows nothing of the session.
fn other_era() -> Error {
    Error::new(ErrorKind::SessionLost, "The server was replaced by another").not_delivered()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    struct Rig(Pipeline);

    impl Rig {
        fn client(&mut self, message: Value) -> Vec<Value> {
            let message = Message::parse(message.to_string().into()).unwrap();
            self.0.on_client_message(Incoming::Message(message), Instant::now());
            self.0.run(Instant::now());
            self.sent()
        }

        fn server(&mut self, message: Value) -> Vec<Value> {
            let message = Message::parse(message.to_string().into()).unwrap();
            let event = Event::Message { message, answers: None };
            self.0.on_event(event, Instant::now());
            self.0.run(Instant::now());
            self.sent()
        }

        /// What went to the server.
        fn sent(&mut self) -> Vec<Value> {
            let commands = self.0.for_server.drain(..);
            let messages = commands.filter_map(|command| match command {
                Command::Send(send) => serde_json::from_slice(send.message.bytes()).ok(),
                _ => None,
            });
            messages.collect()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_request_is_not_kept_for_a_server_that_will_not_answer_it() {
        let mut rig = Rig(Pipeline::new(Policy::default(), Stages::default(), None));
        let sent =
            rig.client(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"}}}));
        let refusal =
            json!({"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}});
        let sent = rig.server(json!({"jsonrpc": "2.0", "id": sent[0]["id"], "error": refusal}));
        assert_eq!(sent[0]["method"], "server/discover", "{sent:?}");
        rig.server(json!({"jsonrpc": "2.0", "id": sent[0]["id"], "result": {
            "resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}}}}));
        rig.client(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        let sent = rig.client(json!({"jsonrpc": "2.0", "id": "a", "method": "tools/call",
            "params": {"name": "t"}}));
        assert_eq!((&sent[0]["method"], rig.0.taken.len()), (&json!("tools/call"), 1), "{sent:?}");
        let sent = rig.client(json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": "a"}}));
        assert_eq!(sent[0]["method"], "notifications/cancelled");
        assert_eq!(rig.0.taken.len(), 0);
    }
}
