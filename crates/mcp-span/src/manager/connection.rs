//! One connection of a server's task: its client, what the server says on its own account, and the
//! task's own requests. They end with it.

use std::future::pending;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::ListKind;
use super::lists::{self, Update};
use crate::client::{Client, Notification, Notifications};
use crate::error::Error;

pub(super) struct Connection {
    pub(super) client: Client,
    notifications: Notifications,
    requests: JoinSet<ConnectionEvent>,
}

/// What a connection brings.
pub(super) enum ConnectionEvent {
    Notified(Notification),
    Listed(ListKind, Result<Update, Error>),
    /// The server has answered a ping or a subscription, or has not.
    Answered(Result<(), Error>),
    Ended(Error),
}

impl Connection {
    pub(super) fn new(client: Client) -> Self {
        let notifications = client.notifications();
        Self { client, notifications, requests: JoinSet::new() }
    }

    /// The next event of the connection; never, if there is none.
    pub(super) async fn next_event(connection: &mut Option<Self>) -> ConnectionEvent {
        let Some(Self { client, notifications, requests }) = connection else {
            return pending().await;
        };
        tokio::select! {
            Some(Ok(answer)) = requests.join_next() => answer,
            notification = notifications.next() => match notification {
                Some(notification) => ConnectionEvent::Notified(notification),
                None => ConnectionEvent::Ended(client.ended().await),
            },
        }
    }

    /// Asks for a list after a pause.
    pub(super) fn list(&mut self, kind: ListKind, pause: Duration) {
        let client = self.client.clone();
        self.requests.spawn(async move {
            sleep(pause).await;
            ConnectionEvent::Listed(kind, lists::fetch(&client, kind).await)
        });
    }

    pub(super) fn ping(&mut self) {
        let client = self.client.clone();
        self.requests
            .spawn(async move { ConnectionEvent::Answered(client.ping().await.map(drop)) });
    }

    pub(super) fn subscribe(&mut self, uri: &str) {
        let (client, uri) = (self.client.clone(), uri.to_owned());
        self.requests.spawn(async move {
            ConnectionEvent::Answered(client.subscribe(&uri).await.map(drop))
        });
    }
}
