//! Reads what the server says, and gives each message to whoever it is for.

use std::sync::{Arc, OnceLock, Weak};

use serde::Deserialize;
use serde_json::Value;
use tracing::debug;

use super::handlers::{Answers, ServerRequest};
use super::notifications::Notification;
use super::request::Progress;
use super::{Options, Shared, closed};
use crate::error::{Error, RpcError};
use crate::lock::lock;
use crate::message::{Head, Id, Json, Message, Method, peek};
use crate::transport::{Incoming, channel};

/// The task that owns a link's inbox. It does not keep the connection open: the handles do.
pub(super) struct Reader {
    shared: Weak<Shared>,
    options: Options,
    answers: Answers,
    /// Why the bridge below has ended, once it has: its own link cannot say.
    why: Arc<OnceLock<Error>>,
}

impl Reader {
    pub(super) fn new(shared: &Arc<Shared>, options: Options, why: Arc<OnceLock<Error>>) -> Self {
        let answers = Answers::new(options.handler.clone());
        Self { shared: Arc::downgrade(shared), options, answers, why }
    }

    pub(super) async fn run(mut self, mut inbox: channel::Receiver<Incoming>) {
        let mut why = closed();
        while let Some(incoming) = inbox.recv().await {
            match incoming {
                Incoming::Message(message) => self.on_message(&message),
                Incoming::Ended(error) => why = *error,
                Incoming::Refused { error, .. } => self.on_error(&error),
            }
        }
        // Whoever closes a connection knows.
        let Some(shared) = self.shared.upgrade().filter(|shared| shared.ended.borrow().is_none())
        else {
            return;
        };
        let why = self.why.get().unwrap_or(&why);
        shared.end(why);
        self.on_error(why);
    }

    fn on_error(&self, error: &Error) {
        debug!("an error that belongs to no request: {error}");
        if let Some(on_error) = &self.options.on_error {
            on_error(error);
        }
    }

    fn on_message(&mut self, message: &Message) {
        match message.head() {
            Head::Request { id, method } => {
                self.answers.begin(id, ServerRequest::new(method, message), &self.shared);
            }
            Head::Notification { method } => self.on_notification(method, message),
            Head::Response { id: Some(id), .. } => self.on_response(id, message),
            Head::Response { id: None, .. } => {
                let rpc = serde_json::from_slice::<Refused>(message.bytes());
                match (message.failure(), rpc) {
                    (Some(failure), _) => self.on_error(failure),
                    (None, Ok(Refused { error })) => self.on_error(&Error::from_rpc(error)),
                    (None, Err(why)) => debug!("a response to nothing was dropped: {why}"),
                }
            }
        }
    }

    /// S1-11: answers that nobody waits for are passed over.
    fn on_response(&self, id: &Id, message: &Message) {
        let Some(shared) = self.shared.upgrade() else { return };
        let waiting = lock(&shared.waiting).close(id);
        match waiting {
            Some((_, waiting)) => drop(waiting.answer.send(Ok(message.clone()))),
            None => debug!(%id, "an answer that nobody waits for was dropped"),
        }
    }

    fn on_notification(&mut self, method: &Method, message: &Message) {
        if *method == Method::Cancelled
            && let Some(id) = peek::cancelled_request(message)
        {
            self.answers.cancel(&id);
        }
        let Some(shared) = self.shared.upgrade() else { return };
        if *method == Method::Progress {
            progressed(&shared, message);
        }
        if self.options.on_notification.is_none() && shared.listeners.is_empty() {
            return;
        }
        let told = Notification::new(method.name(), params(message));
        shared.listeners.tell(&told);
        if let Some(on_notification) = &self.options.on_notification {
            on_notification(told);
        }
    }
}

/// Progress goes to the request that has asked for it.
fn progressed(shared: &Shared, message: &Message) {
    let Some(id) = peek::progress_token(message).and_then(Id::from_json) else { return };
    let Ok(progress) = serde_json::from_value::<Progress>(params(message)) else { return };
    let mut waiting = lock(&shared.waiting);
    if let Some(sender) = waiting.get_mut(&id).and_then(|waiting| waiting.progress.as_ref()) {
        let _ = sender.try_send(progress);
    }
}

/// An error response without an id.
#[derive(Deserialize)]
struct Refused {
    error: RpcError,
}

pub(super) fn params(message: &Message) -> Value {
    let params = message.get(&["params"]).map(Json::as_str);
    params.and_then(|params| serde_json::from_str(params).ok()).unwrap_or_default()
}
