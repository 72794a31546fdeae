//! What changes, told to as many as want to hear it.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio::sync::mpsc;

use super::State;
use crate::limits;

/// Something has changed with one server.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its name.
    pub server: Arc<str>,
    /// What has changed.
    pub change: Change,
    /// So many events before this one were missed, because they were not taken in time.
    pub missed: u64,
}

/// What can change.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Change {
    /// How it stands with the server.
    State(State),
    /// Its tools were listed anew; see [`Manager::tools`](super::Manager::tools).
    Tools,
    /// Its resources were.
    Resources,
    /// Its prompts were.
    Prompts,
}

/// Events as they happen; they end when the manager is closed or gone.
#[derive(Debug)]
pub struct Events(mpsc::Receiver<Event>);

impl Events {
    /// The next one; `None` when there will be no more.
    pub async fn next(&mut self) -> Option<Event> {
        self.0.recv().await
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.0.poll_recv(cx)
    }
}

/// Those who listen; `None` when there is nothing more to hear.
#[derive(Debug)]
pub(super) struct Listeners(Mutex<Option<Vec<Listener>>>);

#[derive(Debug)]
struct Listener {
    sender: mpsc::Sender<Event>,
    missed: u64,
}

impl Default for Listeners {
    fn default() -> Self {
        Self(Mutex::new(Some(Vec::new())))
    }
}

impl Listeners {
    pub(super) fn add(&self) -> Events {
        let (sender, receiver) = mpsc::channel(limits::MANAGER_EVENTS);
        if let Some(listeners) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            listeners.push(Listener { sender, missed: 0 });
        }
        Events(receiver)
    }

    /// That was all.
    pub(super) fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Tells all. A slow one misses some, and learns how many: no server waits for it.
    pub(super) fn tell(&self, server: &Arc<str>, change: &Change) {
        let mut listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(listeners) = &mut *listeners else { return };
        listeners.retain_mut(|listener| {
            let (server, change) = (Arc::clone(server), change.clone());
            let event = Event { server, change, missed: listener.missed };
            match listener.sender.try_send(event) {
                Ok(()) => listener.missed = 0,
                Err(mpsc::error::TrySendError::Full(_)) => listener.missed += 1,
                Err(mpsc::error::TrySendError::Closed(_)) => return false,
            }
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_listener_learns_what_it_has_missed_and_holds_up_nobody() {
        let (listeners, server) = (Listeners::default(), Arc::from("a"));
        let (mut slow, gone) = (listeners.add(), listeners.add());
        drop(gone);
        for _ in 0..limits::MANAGER_EVENTS + 3 {
            listeners.tell(&server, &Change::Tools);
        }
        let count = listeners.0.lock().unwrap().as_ref().map(Vec::len);
        assert_eq!(count, Some(1), "who is gone is forgotten");
        for _ in 0..limits::MANAGER_EVENTS {
            assert_eq!(slow.next().await.unwrap().missed, 0);
        }
        listeners.tell(&server, &Change::State(State::Ready));
        let heard = slow.next().await.unwrap();
        assert_eq!((&*heard.server, heard.missed), ("a", 3));
        assert!(matches!(heard.change, Change::State(State::Ready)));
        listeners.end();
        assert!(slow.next().await.is_none());
        assert!(listeners.add().next().await.is_none(), "nothing comes after the end");
    }
}
