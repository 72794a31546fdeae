//! Tests of the engine without sockets and with a simulated clock: each rule once, and all of them
//! over random schedules.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::schedule::{
    LIMITS, SEED, answer_to, cancelled, lost, message, modern, notification, policy, progress,
    refused, request,
};
use super::{Engine, Limits, Output, Policy};
use crate::error::{Error, ErrorKind};
use crate::message::{Message, Method};
use crate::transport::{Command, Event, Send, Ticket};

mod away;
mod http_sse;
mod schedules;
mod sending;
mod sessions;

const INITIALIZED: &str = "notifications/initialized";
const NOTHING: [&str; 0] = [];
const SSE: Limits = Limits { is_http_sse: true, ..LIMITS };

/// An engine with a link that does what a test says.
struct Scene {
    engine: Engine,
    now: Instant,
    out: BTreeMap<Ticket, Send>,
    dropped: Vec<Ticket>,
    is_http_sse: bool,
}

impl Scene {
    fn new(limits: Limits) -> Self {
        Self::with(policy(), Some(limits))
    }

    fn with(policy: Policy, limits: Option<Limits>) -> Self {
        let now = Instant::now();
        Self {
            engine: Engine::new(policy, SEED, limits, now),
            now,
            out: BTreeMap::new(),
            dropped: Vec::new(),
            is_http_sse: limits.is_some_and(|limits| limits.is_http_sse),
        }
    }

    /// One with a session, in the state after the handshake.
    fn opened(limits: Limits) -> Self {
        let mut scene = Self::new(limits);
        scene.open("0");
        scene
    }

    fn open(&mut self, id: &str) {
        assert_eq!(self.says(request(id, "initialize")), ["initialize"]);
        if self.is_http_sse {
            self.on(Event::StreamOpened);
        }
        self.answer("initialize");
        self.says(notification(INITIALIZED));
        self.accept(INITIALIZED);
        self.outputs();
    }

    /// The bridge opens the session again that was lost; gives back what leaves then.
    fn reopen(&mut self) -> Vec<String> {
        if self.is_http_sse {
            self.on(Event::StreamOpened);
        }
        assert_eq!(self.answer("initialize"), [INITIALIZED], "before anything else");
        self.accept(INITIALIZED)
    }

    /// The client says this; gives back the methods of what leaves.
    fn says(&mut self, message: Message) -> Vec<String> {
        self.engine.on_client_message(message, self.now);
        self.leaves()
    }

    /// The server asks the client.
    fn asks(&mut self, id: impl std::fmt::Display) {
        let question = message(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"roots/list"}}"#));
        self.on(Event::Message { message: question, answers: None });
    }

    fn on(&mut self, event: Event) -> Vec<String> {
        self.engine.on_event(event, self.now);
        self.leaves()
    }

    fn wait(&mut self, time: Duration) -> Vec<String> {
        self.now += time;
        self.engine.on_time(self.now);
        self.leaves()
    }

    /// What leaves, by method; with its id where the method is a letter.
    fn leaves(&mut self) -> Vec<String> {
        let mut left = Vec::new();
        while let Some(command) = self.engine.next_command() {
            match command {
                Command::Send(send) => {
                    let name = send.message.method().map_or("answer", Method::name);
                    let id = send.message.id().filter(|_| name.len() == 1);
                    left.push(id.map_or_else(|| name.to_owned(), |id| format!("{name}{id}")));
                    self.out.insert(send.ticket, *send);
                }
                Command::Cancel { ticket, .. } => {
                    self.out.remove(&ticket);
                    self.dropped.push(ticket);
                }
            }
        }
        left
    }

    /// The one that is out with this method; of several, the first that the client has said.
    fn find(&self, method: &str) -> Send {
        let is_it = |send: &&Send| send.message.method().map_or("answer", Method::name) == method;
        let order = |send: &&Send| self.engine.table.get(send.ticket).map(|entry| entry.order);
        self.out.values().filter(is_it).min_by_key(order).expect("it is out").clone()
    }

    fn take(&mut self, method: &str) -> Send {
        let ticket = self.find(method).ticket;
        self.out.remove(&ticket).expect("it is out")
    }

    fn answer(&mut self, method: &str) -> Vec<String> {
        let send = self.take(method);
        let answers = (!self.is_http_sse).then_some(send.ticket);
        self.on(Event::Message { message: answer_to(&send.message), answers })
    }

    fn accept(&mut self, method: &str) -> Vec<String> {
        let send = self.take(method);
        self.on(Event::Accepted(send.ticket))
    }

    fn fail(&mut self, method: &str, error: Error) -> Vec<String> {
        let send = self.take(method);
        self.on(Event::Failed { ticket: send.ticket, error: error.into() })
    }

    fn forget(&mut self, method: &str) -> Vec<String> {
        let send = self.take(method);
        let (ticket, session) = (send.ticket, send.session);
        let error = Box::new(lost());
        self.on(Event::SessionRejected { ticket, session, error, last_word: None })
    }

    fn lose(&mut self) -> Vec<String> {
        let session = self.engine.session.opened_by();
        self.on(Event::SessionLost { session, error: lost().into() })
    }

    /// What the client gets, in short.
    fn outputs(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.engine.next_output())
            .filter_map(|output| match output {
                Output::SessionLost => None,
                Output::Message(message) => Some(match (message.method(), message.id()) {
                    (None, Some(id)) => format!("answer {id}"),
                    (Some(method), Some(id)) => format!("{} {id}", method.name()),
                    (method, None) => method.map_or("-", Method::name).to_owned(),
                }),
                Output::Failed { request, error } => {
                    Some(format!("{} failed: {}", request.id().expect("a request"), error.kind))
                }
            })
            .collect()
    }

    /// The failure that the client gets next.
    fn failure(&mut self) -> Error {
        match self.engine.next_output() {
            Some(Output::Failed { error, .. }) => error,
            other => panic!("no failure: {other:?}"),
        }
    }
}

fn status(status: u16) -> Error {
    Error { status: Some(status), ..Error::new(ErrorKind::Status, format!("HTTP {status}")) }
}
