//! What happens to the servers of a manager, for any number of subscribers.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::{ListKind, ServerState};
use crate::client::Notification;

/// Something that has happened to one server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerEvent {
    /// The name of the server.
    pub server: Arc<str>,
    /// What has happened.
    pub change: ServerChange,
}

/// What can happen to a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ServerChange {
    /// The server is in another state.
    State(ServerState),
    /// The server has listed this anew; see [`Manager::tools`](super::Manager::tools) and its
    /// siblings.
    List(ListKind),
    /// The server has sent a notification.
    Notification(Notification),
}

/// A subscriber was too slow: the oldest events, this many, are lost to it.
///
/// States and lists can be asked for again; notifications cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("missed {0} events")]
pub struct Lagged(pub u64);

/// The events of all servers, in order, across reconnects; they end when the manager is closed.
// A broadcast channel cannot be polled: a future waits for the next event.
pub struct ServerEvents(Pin<Box<dyn Future<Output = Received> + Send>>);

/// What a receiver has got, and the receiver for the next one.
type Received = (Result<ServerEvent, RecvError>, Receiver<ServerEvent>);

impl ServerEvents {
    pub(super) fn new(receiver: Receiver<ServerEvent>) -> Self {
        Self(Box::pin(receive(receiver)))
    }

    /// The next event; `None` when there will be no more.
    pub async fn next(&mut self) -> Option<Result<ServerEvent, Lagged>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

async fn receive(mut receiver: Receiver<ServerEvent>) -> Received {
    (receiver.recv().await, receiver)
}

impl Stream for ServerEvents {
    type Item = Result<ServerEvent, Lagged>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let (received, receiver) = ready!(self.0.as_mut().poll(context));
        self.0 = Box::pin(receive(receiver));
        Poll::Ready(match received {
            Ok(event) => Some(Ok(event)),
            Err(RecvError::Lagged(missed)) => Some(Err(Lagged(missed))),
            Err(RecvError::Closed) => None,
        })
    }
}

impl std::fmt::Debug for ServerEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerEvents").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::broadcast;

    use super::*;

    #[tokio::test]
    async fn a_slow_subscriber_learns_how_many_events_it_has_missed() {
        let (sender, receiver) = broadcast::channel(4);
        let mut events = ServerEvents::new(receiver);
        for number in 0..7 {
            let server = number.to_string().into();
            sender
                .send(ServerEvent { server, change: ServerChange::List(ListKind::Tools) })
                .unwrap();
        }
        drop(sender);
        assert_eq!(events.next().await.unwrap().unwrap_err(), Lagged(3));
        for number in 3..7 {
            let event = events.next().await.unwrap().unwrap();
            assert_eq!(*event.server, *number.to_string());
        }
        assert!(events.next().await.is_none());
        assert!(events.next().await.is_none(), "nothing comes after the end");
    }
}
