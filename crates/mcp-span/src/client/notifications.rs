//! What the server says on its own account, for as many as want to hear it.

use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};

use futures_core::Stream;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::limits;
use crate::lock::lock;

/// A notification of a server's.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Notification {
    /// Its method.
    pub method: String,
    /// Its parameters; `null` for none.
    pub params: Value,
    /// How many before this one were missed, because they were not taken in time.
    pub missed: u64,
}

impl Notification {
    pub(super) fn new(method: &str, params: Value) -> Self {
        Self { method: method.to_owned(), params, missed: 0 }
    }
}

/// The notifications of one server, in order; ends with the connection.
#[derive(Debug)]
pub struct Notifications(mpsc::Receiver<Notification>);

impl Notifications {
    /// The next one; `None` when the connection has ended.
    pub async fn next(&mut self) -> Option<Notification> {
        self.0.recv().await
    }
}

impl Stream for Notifications {
    type Item = Notification;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Notification>> {
        self.0.poll_recv(cx)
    }
}

/// Those who listen.
#[derive(Debug, Default)]
pub(super) struct Listeners(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    listeners: Vec<Listener>,
    has_ended: bool,
}

#[derive(Debug)]
struct Listener {
    sender: mpsc::Sender<Notification>,
    missed: u64,
}

impl Listeners {
    pub(super) fn add(&self) -> Notifications {
        let (sender, receiver) = mpsc::channel(limits::NOTIFICATIONS);
        let mut state = lock(&self.0);
        if !state.has_ended {
            state.listeners.push(Listener { sender, missed: 0 });
        }
        Notifications(receiver)
    }

    /// Whether nobody listens: nothing is read for nobody.
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.0).listeners.is_empty()
    }

    /// Tells all. A slow one misses some, and learns how many: answers must not wait for it.
    pub(super) fn tell(&self, told: &Notification) {
        lock(&self.0).listeners.retain_mut(|listener| {
            let told = Notification { missed: listener.missed, ..told.clone() };
            match listener.sender.try_send(told) {
                Ok(()) => listener.missed = 0,
                Err(mpsc::error::TrySendError::Full(_)) => listener.missed += 1,
                Err(mpsc::error::TrySendError::Closed(_)) => return false,
            }
            true
        });
    }

    pub(super) fn end(&self) {
        let mut state = lock(&self.0);
        state.has_ended = true;
        state.listeners.clear();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_slow_listener_learns_what_it_has_missed_and_hurts_nobody() {
        let listeners = Listeners::default();
        assert!(listeners.is_empty());
        let mut slow = listeners.add();
        for number in 0..limits::NOTIFICATIONS + 3 {
            listeners.tell(&Notification::new("a", json!(number)));
        }
        for number in 0..limits::NOTIFICATIONS {
            let heard = slow.next().await.unwrap();
            assert_eq!((heard.params, heard.missed), (json!(number), 0));
        }
        listeners.tell(&Notification::new("a", json!("last")));
        let heard = slow.next().await.unwrap();
        assert_eq!((heard.params, heard.missed), (json!("last"), 3));
        listeners.end();
        assert_eq!(slow.next().await, None);
        assert_eq!(listeners.add().next().await, None, "nothing comes after the end");
    }

    #[tokio::test]
    async fn who_is_gone_is_forgotten() {
        let listeners = Listeners::default();
        drop(listeners.add());
        listeners.tell(&Notification::new("a", Value::Null));
        assert!(listeners.is_empty());
    }
}
