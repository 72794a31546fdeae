//! From the client to the server.

use std::sync::Arc;

use tokio::sync::mpsc;
use tracing::{debug, warn};

use super::{Shared, addressed};
use crate::error::{Error, Kind};
use crate::limits::Timeouts;
use crate::message::{Head, Id, Message, peek, reply};
use crate::transport::Incoming;

pub(super) struct Up {
    pub(super) client: mpsc::Receiver<Incoming>,
    pub(super) server: mpsc::Sender<Message>,
    /// Answers of the bridge's own; the other direction writes them, since it owns the way back.
    pub(super) replies: mpsc::Sender<Message>,
    pub(super) shared: Arc<Shared>,
    pub(super) timeouts: Timeouts,
}

impl Up {
    /// Carries until the client has nothing more to say.
    pub(super) async fn run(&mut self) {
        while let Some(incoming) = self.client.recv().await {
            match incoming {
                Incoming::Message(message) => self.carry(message).await,
                Incoming::Refused { id, error } => self.reply(id.as_ref(), &error).await,
                // Requests of the server's that the client's link could not put to it.
                Incoming::Failed { id, error } => self.answer_for_client(&id, &error).await,
            }
        }
    }

    async fn carry(&mut self, message: Message) {
        let message = match message.head() {
            Head::Request { id, method } => {
                let limit = self.timeouts.farewell(method);
                let id = id.clone();
                if !self.shared.lock().from_client.open(&id, limit) {
                    return self.refuse_duplicate(&id).await;
                }
                message
            }
            Head::Notification { .. } => {
                if let Some(id) = peek::cancelled_request(&message) {
                    // It ends silently: what may still come for it finds nobody.
                    self.shared.end(&id);
                }
                message
            }
            Head::Response { id, .. } => {
                let closed = id.as_ref().and_then(|id| self.shared.lock().from_server.close(id));
                let Some((asked, ())) = closed else {
                    return debug!(?message, "an answer that nobody waits for was dropped");
                };
                addressed(message, &asked)
            }
        };
        // The server's link is gone: the other direction notices and ends the bridge.
        let _ = self.server.send(message).await;
    }

    async fn refuse_duplicate(&self, id: &Id) {
        let message = format!("Invalid request: a request with ID {id} is still in flight");
        warn!("{message}");
        let error = Error::new(Kind::InvalidRequest, message).not_delivered();
        self.reply(Some(id), &error).await;
    }

    async fn reply(&self, id: Option<&Id>, error: &Error) {
        let _ = self.replies.send(reply::error(id, error)).await;
    }

    /// Answers a request of the server's in the client's place.
    pub(super) async fn answer_for_client(&self, id: &Id, error: &Error) {
        let closed = self.shared.lock().from_server.close(id);
        if let Some((id, ())) = closed {
            let _ = self.server.send(reply::error(Some(&id), error)).await;
        }
    }
}
