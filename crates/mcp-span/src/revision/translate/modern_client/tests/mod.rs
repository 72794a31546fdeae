//! A rig that plays client and server, and the tests of one rule each.

mod any_order;
mod believing;
mod calls;
mod finding;
mod listening;
mod parked;

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::error::{Error, ErrorKind};
use crate::limits;
use crate::message::reply;
use crate::revision::Revision;
use crate::revision::translate::{
    CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION, SERVER_INFO, SUBSCRIPTION_ID,
};

/// What one message has led to.
#[derive(Debug, Default)]
struct Said {
    to_client: Vec<Value>,
    to_server: Vec<Value>,
    /// The same as they are written.
    client_text: Vec<String>,
    server_text: Vec<String>,
}

impl Said {
    fn of(rig: &mut Rig) -> Self {
        let mut said = Self::default();
        while let Some(step) = rig.it.next_step() {
            let (message, values, texts) = match step {
                Step::ToClient(m) => (m, &mut said.to_client, &mut said.client_text),
                Step::ToServer(m) => (m, &mut said.to_server, &mut said.server_text),
                Step::Found(era) => {
                    rig.found = Some(era);
                    continue;
                }
                Step::Failed { .. } | Step::SessionLost => panic!("nothing fails here"),
            };
            assert_eq!(Message::parse(message.bytes().clone()).as_ref(), Ok(&message));
            values.push(serde_json::from_slice(message.bytes()).unwrap());
            texts.push(String::from_utf8(message.bytes().to_vec()).unwrap());
        }
        said
    }

    fn nothing(&self) {
        assert!(self.to_client.is_empty() && self.to_server.is_empty(), "{self:?}");
    }

    /// The only thing that was said, to the client.
    #[track_caller]
    fn client(self) -> Value {
        assert!(self.to_server.is_empty() && self.to_client.len() == 1, "{self:?}");
        self.to_client.into_iter().next().unwrap()
    }

    /// The only thing that was said, to the server.
    #[track_caller]
    fn server(self) -> Value {
        assert!(self.to_client.is_empty() && self.to_server.len() == 1, "{self:?}");
        self.to_server.into_iter().next().unwrap()
    }

    fn methods_to_server(&self) -> Vec<&str> {
        self.to_server.iter().map(|m| m["method"].as_str().unwrap_or("-")).collect()
    }
}

struct Rig {
    it: ModernClient,
    now: Instant,
    /// The era that was found out last.
    found: Option<Era>,
}

impl Rig {
    fn new(protocol: Protocol, known: Option<Era>) -> Self {
        let now = Instant::now();
        Self {
            it: ModernClient::new(
                protocol,
                known,
                TranslatorContext::new(9, now),
                MemoryBudget::new(limits::UNANSWERED_BYTES),
            ),
            now,
            found: None,
        }
    }

    /// One that has opened a session at a server with these capabilities.
    fn serving(capabilities: Value) -> Self {
        let mut rig = Self::new(Protocol::Auto, Some(Era::Legacy));
        let said = rig.client(request(json!("first"), "tools/list", json!({})));
        let said = rig.server(opened(&said.server(), capabilities));
        assert_eq!(said.methods_to_server(), ["notifications/initialized", "tools/list"]);
        let said = rig.server(result(&said.to_server[1], json!({"tools": []})));
        assert_eq!(said.client()["id"], "first");
        rig
    }

    fn client(&mut self, message: Value) -> Said {
        self.client_text(&message.to_string())
    }

    fn client_text(&mut self, text: &str) -> Said {
        self.it.on_client_message(parse(text), self.now);
        Said::of(self)
    }

    fn server(&mut self, message: Value) -> Said {
        self.it.on_server_message(from_server(&message), self.now);
        Said::of(self)
    }

    fn server_text(&mut self, text: &str) -> Said {
        self.it.on_server_message(parse(text), self.now);
        Said::of(self)
    }

    fn leave(&mut self) -> Said {
        self.it.on_client_closed(self.now);
        Said::of(self)
    }

    fn wait(&mut self, time: Duration) -> Said {
        self.now += time;
        self.it.tick(self.now);
        Said::of(self)
    }
}

fn parse(text: &str) -> Message {
    Message::parse(Bytes::copy_from_slice(text.as_bytes())).expect("a message")
}

fn envelope() -> Value {
    json!({
        PROTOCOL_VERSION: Revision::LATEST_MODERN,
        CLIENT_CAPABILITIES: {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}},
        CLIENT_INFO: {"name": "tester", "version": "7"},
    })
}

/// A request in its envelope; `params` may have a `_meta` of its own.
fn request(id: Value, method: &str, mut params: Value) -> Value {
    let mut meta = envelope();
    if let Some(more) = params.get("_meta").and_then(Value::as_object) {
        meta.as_object_mut().unwrap().extend(more.clone());
    }
    params["_meta"] = meta;
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// A request as the legacy era writes it.
fn plain(id: Value, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn notice(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

fn cancel(id: Value) -> Value {
    notice("notifications/cancelled", json!({"requestId": id, "reason": "why"}))
}

fn result(request: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": request["id"], "result": result})
}

fn error(request: &Value, code: i64, data: Value) -> Value {
    let error = json!({"code": code, "message": "no", "data": data});
    json!({"jsonrpc": "2.0", "id": request["id"], "error": error})
}

/// The message, or the failure that [`bridge_error`] stands for.
fn from_server(message: &Value) -> Message {
    let parsed = parse(&message.to_string());
    let data = &message["error"]["data"];
    if data.get("delivery").is_none() {
        return parsed;
    }
    let status = data["status"].as_u64().map(|status| u16::try_from(status).unwrap());
    let error = Error { status, ..Error::new(ErrorKind::Status, "no").not_delivered() };
    parsed.like(&reply::error(None, &error))
}

/// An error as the bridge writes it.
fn bridge_error(request: &Value, status: Option<u16>) -> Value {
    let mut data = json!({"kind": "http-status", "delivery": "not-delivered"});
    if let Some(status) = status {
        data["status"] = status.into();
    }
    error(request, -32001, data)
}

fn opened(initialize: &Value, capabilities: Value) -> Value {
    assert_eq!(initialize["method"], "initialize");
    let answer = json!({
        "protocolVersion": Revision::LATEST_LEGACY,
        "capabilities": capabilities,
        "serverInfo": {"name": "old", "version": "1"},
        "instructions": "be kind",
    });
    result(initialize, answer)
}

fn discovered(discover: &Value, versions: &[&str]) -> Value {
    assert_eq!(discover["method"], "server/discover");
    result(discover, json!({"resultType": "complete", "supportedVersions": versions}))
}

fn listen_to_nothing(id: Value) -> Value {
    request(id, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}))
}

fn modern_list() -> Value {
    json!({"resultType": "complete", "tools": []})
}
