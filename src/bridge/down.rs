//! From the server, and from the bridge itself, to the client.

use std::sync::Arc;

use tokio::sync::mpsc;
use tracing::debug;

use super::{Asked, Ended, Shared, addressed};
use crate::message::{Head, Id, Message, peek, reply};
use crate::transport::Incoming;

pub(super) struct Down {
    pub(super) server: mpsc::Receiver<Incoming>,
    pub(super) client: mpsc::Sender<Message>,
    /// Answers that the other direction makes.
    pub(super) local: mpsc::Receiver<Message>,
    /// Requests of the server's that came when the client had left.
    pub(super) orphans: mpsc::Sender<Id>,
    pub(super) shared: Arc<Shared>,
}

/// The client's link takes no more.
struct Deaf;

impl Down {
    /// Carries until the server's link has ended, or the client no longer listens.
    pub(super) async fn run(mut self) -> Ended {
        loop {
            let carried = tokio::select! {
                biased;
                Some(reply) = self.local.recv() => self.write(reply).await,
                incoming = self.server.recv() => match incoming {
                    Some(incoming) => self.carry(incoming).await,
                    None => break,
                },
            };
            if carried.is_err() {
                return Ended::ClientDeaf;
            }
        }
        self.local.close();
        while let Some(reply) = self.local.recv().await {
            if self.write(reply).await.is_err() {
                return Ended::ClientDeaf;
            }
        }
        Ended::ServerClosed
    }

    async fn carry(&mut self, incoming: Incoming) -> Result<(), Deaf> {
        let message = match incoming {
            Incoming::Message(message) => message,
            Incoming::Failed { id, error } => {
                return match self.shared.end(&id) {
                    Some(id) => self.write(reply::error(Some(&id), &error)).await,
                    None => Ok(()),
                };
            }
            Incoming::Refused { error, .. } => {
                debug!("the server sent something that is no message: {error}");
                return Ok(());
            }
        };
        match message.head() {
            Head::Request { id, .. } => {
                if self.shared.ask_client(id) == Asked::Nobody {
                    // Bounded like all else; the drain that empties it has an end.
                    let _ = self.orphans.send(id.clone()).await;
                    return Ok(());
                }
            }
            Head::Notification { .. } => {
                if let Some(id) = peek::cancelled_request(&message) {
                    self.shared.lock().from_server.close(&id);
                }
            }
            Head::Response { id, .. } => {
                let Some(asked) = id.as_ref().and_then(|id| self.shared.end(id)) else {
                    debug!(?message, "an answer that nobody waits for was dropped");
                    return Ok(());
                };
                return self.write(addressed(message, &asked)).await;
            }
        }
        self.write(message).await
    }

    async fn write(&self, message: Message) -> Result<(), Deaf> {
        self.client.send(message).await.map_err(|_| Deaf)
    }
}
