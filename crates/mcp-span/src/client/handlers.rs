//! What the server asks of the client: answered by a handler of the program's, one task each.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Weak};

use serde_json::{Value, json};
use tokio::task::AbortHandle;

use super::Shared;
use super::reader::params;
use crate::error::RpcError;
use crate::limits;
use crate::lock::lock;
use crate::message::{Id, Json, Message, Method, reply};

/// A request of the server's.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerRequest {
    /// What is asked: `sampling/createMessage`, `elicitation/create`, `roots/list`…
    pub method: String,
    /// Its parameters; `null` for none.
    pub params: Value,
    message: Message,
}

impl ServerRequest {
    pub(super) fn new(method: &Method, message: &Message) -> Self {
        Self { method: method.to_string(), params: params(message), message: message.clone() }
    }

    /// The parameters as the server wrote them: large numbers and the order of members are untouched.
    #[must_use]
    pub fn raw_params(&self) -> &str {
        self.message.get(&["params"]).map_or("null", Json::as_str)
    }
}

/// The answer to a request of the server's, when it is there.
pub type Answering = Pin<Box<dyn Future<Output = Result<Value, RpcError>> + Send>>;

/// Answers what a server asks. A function of [`ServerRequest`] that gives a future is one.
pub trait Handler: Send + Sync + 'static {
    /// Answers `asked`. The future is dropped when the server takes its request back.
    fn answer(&self, asked: ServerRequest) -> Answering;
}

impl<F, A> Handler for F
where
    F: Fn(ServerRequest) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Value, RpcError>> + Send + 'static,
{
    fn answer(&self, asked: ServerRequest) -> Answering {
        Box::pin(self(asked))
    }
}

/// The requests of one server that are being answered.
pub(super) struct Answers {
    handler: Option<Arc<dyn Handler>>,
    running: HashMap<Id, AbortHandle>,
}

impl Answers {
    pub(super) fn new(handler: Option<Arc<dyn Handler>>) -> Self {
        Self { handler, running: HashMap::new() }
    }

    /// Sees to it that the server gets an answer.
    pub(super) fn begin(&mut self, id: &Id, asked: ServerRequest, shared: &Weak<Shared>) {
        self.running.retain(|_, task| !task.is_finished());
        let at_once = match (asked.method.as_str(), &self.handler) {
            ("ping", _) => Some(reply::result(id, &json!({}))),
            (_, Some(_)) if self.running.len() >= limits::SERVER_REQUESTS => {
                Some(reply::refusal(id, -32000, "Too many requests at once"))
            }
            (_, Some(_)) => None,
            (method, None) => Some(reply::method_not_found(id, method)),
        };
        if let Some(answer) = at_once {
            if let Some(shared) = shared.upgrade() {
                shared.send_soon(answer);
            }
            return;
        }
        let Some(handler) = &self.handler else { return };
        let (handler, answered) = (Arc::clone(handler), id.clone());
        let shared = Weak::clone(shared);
        let task = tokio::spawn(async move {
            // A task of its own: if it panics, the server gets an answer all the same.
            let answering = tokio::spawn(async move { handler.answer(asked).await });
            let _ended_with_us = Ended(answering.abort_handle());
            let answer = match answering.await {
                Ok(Ok(result)) => reply::result(&answered, &result),
                Ok(Err(refused)) => reply::rpc_error(&answered, &refused),
                Err(_) => reply::refusal(&answered, -32603, "Internal error"),
            };
            let outbox = shared.upgrade().and_then(|shared| lock(&shared.outbox).clone());
            if let Some(outbox) = outbox {
                let _ = outbox.send(answer).await;
            }
        });
        self.running.insert(id.canonical(), task.abort_handle());
    }

    /// The server no longer wants to know.
    pub(super) fn cancel(&mut self, id: &Id) {
        if let Some(task) = self.running.remove(&id.canonical()) {
            task.abort();
        }
    }
}

/// Ends a task with whoever waits for it.
struct Ended(AbortHandle);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.running.values().for_each(AbortHandle::abort);
    }
}
