//! Reads what the server says, and gives each message to whoever it is for.

use std::sync::{Arc, OnceLock, Weak};

use serde::Deserialize;
use serde_json::Value;
use tracing::debug;

use super::handlers::{Answers, Asked, Handler};
use super::request::Progress;
use super::{Shared, closed};
use crate::error::Error;
use crate::message::{Head, Id, Message, Method, peek};
use crate::transport::{Incoming, channel};

/// The task that owns a link's inbox. It does not keep the connection open: the handles do.
pub(super) struct Reader {
    shared: Weak<Shared>,
    answers: Answers,
    /// Why the bridge below has ended, once it has: its own link cannot say.
    why: Arc<OnceLock<Error>>,
}

impl Reader {
    pub(super) fn new(
        shared: &Arc<Shared>,
        handler: Option<Arc<dyn Handler>>,
        why: Arc<OnceLock<Error>>,
    ) -> Self {
        Self { shared: Arc::downgrade(shared), answers: Answers::new(handler), why }
    }

    pub(super) async fn run(mut self, mut inbox: channel::Receiver<Incoming>) {
        let mut why = closed();
        while let Some(incoming) = inbox.recv().await {
            match incoming {
                Incoming::Message(message) => self.hear(&message),
                Incoming::Ended(error) => why = *error,
                Incoming::Refused { error, .. } => debug!("the server sent no message: {error}"),
            }
        }
        if let Some(shared) = self.shared.upgrade() {
            shared.end(self.why.get().unwrap_or(&why));
        }
    }

    fn hear(&mut self, message: &Message) {
        match message.head() {
            Head::Request { id, method } => {
                let method = method.to_string();
                let asked = Asked { method, params: params(message), message: message.clone() };
                self.answers.begin(id, asked, &self.shared);
            }
            Head::Notification { method } => self.notified(method, message),
            Head::Response { id: Some(id), .. } => self.answered(id, message),
            Head::Response { id: None, .. } => debug!("an answer to nobody was dropped"),
        }
    }

    /// S1-11: answers that nobody waits for are passed over.
    fn answered(&self, id: &Id, message: &Message) {
        let Some(shared) = self.shared.upgrade() else { return };
        let waiting = shared.lock(&shared.waiting).close(id);
        match waiting {
            Some((_, waiting)) => drop(waiting.answer.send(Ok(message.clone()))),
            None => debug!(%id, "an answer that nobody waits for was dropped"),
        }
    }

    fn notified(&mut self, method: &Method, message: &Message) {
        if *method == Method::Cancelled
            && let Some(id) = peek::cancelled_request(message)
        {
            self.answers.cancel(&id);
        }
        let Some(shared) = self.shared.upgrade() else { return };
        if *method == Method::Progress {
            progressed(&shared, message);
        }
        if shared.listeners.are_there() {
            shared.listeners.tell(method.name(), &params(message));
        }
    }
}

/// Progress goes to the request that has asked for it.
fn progressed(shared: &Shared, message: &Message) {
    let Some(id) = peek::progress_token(message).and_then(Id::from_json) else { return };
    let Ok(progress) = serde_json::from_value::<Progress>(params(message)) else { return };
    let mut waiting = shared.lock(&shared.waiting);
    if let Some(sender) = waiting.get_mut(&id).and_then(|waiting| waiting.progress.as_ref()) {
        let _ = sender.try_send(progress);
    }
}

fn params(message: &Message) -> Value {
    #[derive(Deserialize)]
    struct Told {
        #[serde(default)]
        params: Value,
    }
    serde_json::from_slice::<Told>(message.bytes()).map_or(Value::Null, |told| told.params)
}
