//! What the server says on its own account, for as many as want to hear it.

use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_core::Stream;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::limits;

/// Something that a server told.
#[derive(Clone, Debug, PartialEq)]
pub struct Notification {
    /// Which one.
    pub method: String,
    /// With these parameters; `null` for none.
    pub params: Value,
    /// So many before this one were missed, because they were not taken in time.
    pub missed: u64,
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
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.has_ended {
            state.listeners.push(Listener { sender, missed: 0 });
        }
        Notifications(receiver)
    }

    /// Whether anybody listens: nothing is read for nobody.
    pub(super) fn are_there(&self) -> bool {
        !self.0.lock().unwrap_or_else(PoisonError::into_inner).listeners.is_empty()
    }

    /// Tells all. A slow one misses some, and learns how many: answers must not wait for it.
    pub(super) fn tell(&self, method: &str, params: &Value) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.listeners.retain_mut(|listener| {
            let told = Notification {
                method: method.to_owned(),
                params: params.clone(),
                missed: listener.missed,
            };
            match listener.sender.try_send(told) {
                Ok(()) => listener.missed = 0,
                Err(mpsc::error::TrySendError::Full(_)) => listener.missed += 1,
                Err(mpsc::error::TrySendError::Closed(_)) => return false,
            }
            true
        });
    }

    pub(super) fn end(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
        assert!(!listeners.are_there());
        let mut slow = listeners.add();
        for number in 0..limits::NOTIFICATIONS + 3 {
            listeners.tell("a", &json!(number));
        }
        for number in 0..limits::NOTIFICATIONS {
            let heard = slow.next().await.unwrap();
            assert_eq!((heard.params, heard.missed), (json!(number), 0));
        }
        listeners.tell("a", &json!("last"));
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
        listeners.tell("a", &Value::Null);
        assert!(!listeners.are_there());
    }
}
