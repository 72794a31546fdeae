//! What the exchanges of a link bring, until the link is polled for it. Bounded in number and bytes: who
//! reads slowly slows them down.
//!
//! Both ends are in one task: whoever polls the link has polled the exchanges just before, so nobody
//! has to be woken for what they put in.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Mutex;
use std::task::{Poll, Waker};

use crate::limits;
use crate::lock::lock;
use crate::transport::Event;
use crate::transport::channel::Weighed;

#[derive(Debug, Default)]
pub(super) struct EventQueue(Mutex<Queued>);

#[derive(Debug, Default)]
struct Queued {
    events: VecDeque<Event>,
    bytes: usize,
    /// Exchanges that wait for room.
    waiting: Vec<Waker>,
}

impl EventQueue {
    /// Waits for room, then puts a message in. One that is larger than all the room goes in alone.
    pub(super) async fn send(&self, message: Event) {
        let size = message.size();
        poll_fn(|context| {
            let mut queued = lock(&self.0);
            let has_room = queued.events.len() < limits::CHANNEL
                && (queued.bytes + size <= limits::CHANNEL_BYTES || queued.events.is_empty());
            if has_room {
                return Poll::Ready(());
            }
            queued.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await;
        self.push(message);
    }

    /// Puts in what is small, and of which there is no more than a little for each message out.
    pub(super) fn push(&self, event: Event) {
        let mut queued = lock(&self.0);
        queued.bytes += event.size();
        queued.events.push_back(event);
    }

    pub(super) fn pop(&self) -> Option<Event> {
        let (event, waiting) = {
            let mut queued = lock(&self.0);
            let event = queued.events.pop_front()?;
            queued.bytes -= event.size();
            (event, std::mem::take(&mut queued.waiting))
        };
        waiting.into_iter().for_each(Waker::wake);
        Some(event)
    }

    /// Takes out an acknowledgement, past all messages: it frees a place, whoever reads.
    pub(super) fn pop_accepted(&self) -> Option<Event> {
        let mut queued = lock(&self.0);
        let at = queued.events.iter().position(|event| matches!(event, Event::Accepted(_)))?;
        queued.events.remove(at)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::message::Message;

    fn event(bytes: usize) -> Event {
        let text = format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, "m".repeat(bytes));
        let message = Message::parse(Bytes::from(text)).expect("a message");
        Event::Message { message, answers: None }
    }

    #[tokio::test]
    async fn who_finds_no_room_waits_until_something_was_taken_out() {
        for (size, fits) in [(1, limits::CHANNEL), (limits::CHANNEL_BYTES / 3, 2)] {
            let queue = Arc::new(EventQueue::default());
            for _ in 0..fits {
                queue.send(event(size)).await;
            }
            let (more, size) = (Arc::clone(&queue), size);
            let sending = tokio::spawn(async move { more.send(event(size)).await });
            tokio::task::yield_now().await;
            assert!(!sending.is_finished());
            assert!(queue.pop().is_some());
            sending.await.unwrap();
            assert_eq!(std::iter::from_fn(|| queue.pop()).count(), fits);
        }
        let queue = EventQueue::default();
        queue.send(event(2 * limits::CHANNEL_BYTES)).await;
        assert!(queue.pop().is_some(), "one that is too large goes in alone");
    }
}
