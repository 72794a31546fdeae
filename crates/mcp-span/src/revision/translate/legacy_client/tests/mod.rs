//! The translation for a legacy client, line by line, without any wire.

mod any_order;
mod calls;
mod changing;
mod inputs;
mod listening;
mod opening;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;
use crate::error::ErrorKind;
use crate::limits;

fn message(value: impl ToString) -> Message {
    Message::parse(Bytes::from(value.to_string())).expect("a message")
}

fn value(message: &Message) -> Value {
    serde_json::from_slice(message.bytes()).expect("JSON")
}

fn initialize() -> Message {
    message(
        r#"{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"elicitation":{},"tasks":{}},"clientInfo":{"name":"c","version":"1"}}}"#,
    )
}

/// A translation, and what it has led to.
struct Rig {
    translation: LegacyClient,
    out: VecDeque<Step>,
    now: Instant,
    /// The era that was found out last.
    found: Option<Era>,
}

impl Rig {
    fn new(known: Option<Era>) -> Self {
        Self::with(Protocol::Auto, known)
    }

    fn with(protocol: Protocol, known: Option<Era>) -> Self {
        let now = Instant::now();
        let translation = LegacyClient::new(protocol, known, TranslatorContext::new(7, now));
        Self { translation, out: VecDeque::new(), now, found: None }
    }

    /// One whose server has said that it is modern.
    fn translating() -> Self {
        let mut rig = Self::new(Some(Era::Modern));
        rig.client(initialize());
        let asked = rig.heard_by_server();
        rig.server(result(&asked, offer()));
        rig.out.clear();
        rig
    }

    fn client(&mut self, message: Message) {
        self.translation.on_client_message(message, self.now);
        self.collect_steps();
    }

    fn server(&mut self, message: Message) {
        self.translation.on_server_message(message, self.now);
        self.collect_steps();
    }

    fn collect_steps(&mut self) {
        while let Some(step) = self.translation.next_step() {
            match step {
                Step::Found(era) => self.found = Some(era),
                step => self.out.push_back(step),
            }
        }
    }

    fn fail(&mut self, message: Message, error: Error) {
        self.translation.failed(message, error, self.now);
        self.collect_steps();
    }

    fn ask(&mut self, id: u32, method: &str, params: Value) -> Value {
        self.client(message(
            json!({"jsonrpc":"2.0","id":id,"method":method,"params":params}).to_string(),
        ));
        self.heard_by_server()
    }

    /// The next step, which must be towards the server.
    fn heard_by_server(&mut self) -> Value {
        match self.out.pop_front() {
            Some(Step::ToServer(message)) => value(&message),
            other => panic!("not to the server: {other:?}"),
        }
    }

    fn heard_by_client(&mut self) -> Value {
        match self.out.pop_front() {
            Some(Step::ToClient(message)) => value(&message),
            other => panic!("not to the client: {other:?}"),
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.translation.tick(self.now);
        self.collect_steps();
        assert!(self.translation.wake_at().is_none_or(|at| at > self.now), "it would spin");
    }
}

fn result(request: &Value, result: Value) -> Message {
    message(json!({"jsonrpc":"2.0","id":request["id"],"result":result}))
}

fn error(request: &Value, code: i64, data: Value) -> Message {
    let error = json!({"code":code,"message":"x","data":data});
    message(json!({"jsonrpc":"2.0","id":request["id"],"error":error}))
}

fn offer() -> Value {
    json!({
        "resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"private",
        "capabilities":{
            "tools":{"listChanged":true},"resources":{"subscribe":true},"tasks":{},
            "extensions":{"io.modelcontextprotocol/tasks":{},"x/y":{}},
        },
        "instructions":"Read me","_meta":{SERVER_INFO:{"name":"s","version":"9"}},
    })
}

const SERVER_INFO: &str = crate::revision::translate::SERVER_INFO;
const META: &str = "io.modelcontextprotocol/";

fn refused(request: &Value, code: i64, text: &str, data: &Value) -> Message {
    let error = json!({"code":code,"message":text,"data":data});
    message(json!({"jsonrpc":"2.0","id":request["id"],"error":error}))
}

fn told(listen: &Value, method: &str, params: Value) -> Message {
    let mut params = params;
    params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId":listen["id"]});
    message(json!({"jsonrpc":"2.0","method":method,"params":params}))
}

const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// A client that listens; gives the request for the stream.
fn listening(rig: &mut Rig) -> Value {
    rig.client(message(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#));
    let listen = rig.heard_by_server();
    rig.server(told(&listen, ACKNOWLEDGED, json!({"notifications":{}})));
    assert!(rig.out.is_empty());
    listen
}
