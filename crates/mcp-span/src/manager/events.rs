//! What happens to the servers of a manager, for any number of subscribers.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::{ListKind, State};
use crate::client::Notification;

/// Something that has happened to one server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Event {
    /// The name of the server.
    pub server: Arc<str>,
    /// What has happened.
    pub change: Change,
}

/// What can happen to a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Change {
    /// The server is in another state.
    State(State),
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
pub struct Events(Receiving);

/// Waits for the next event and gives the receiver back: a broadcast channel cannot be polled.
type Receiving = Pin<Box<dyn Future<Output = (Result<Event, RecvError>, Receiver<Event>)> + Send>>;

impl Events {
    pub(super) fn new(receiver: Receiver<Event>) -> Self {
        Self(Box::pin(receive(receiver)))
    }

    /// The next event; `None` when there will be no more.
    pub async fn next(&mut self) -> Option<Result<Event, Lagged>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

async fn receive(mut receiver: Receiver<Event>) -> (Result<Event, RecvError>, Receiver<Event>) {
    (receiver.recv().await, receiver)
}

impl Stream for Events {
    type Item = Result<Event, Lagged>;

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

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::broadcast;

    use super::*;

    #[tokio::test]
    async fn a_slow_subscriber_learns_how_many_events_it_has_missed() {
        let (sender, receiver) = broadcast::channel(4);
        let mut events = Events::new(receiver);
        for number in 0..7 {
            let server = number.to_string().into();
            sender.send(Event { server, change: Change::List(ListKind::Tools) }).unwrap();
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
