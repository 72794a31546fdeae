//! A channel that is bounded by what it holds, in messages and in bytes.
//!
//! A bound on the number alone would let a slow reader pile up gigabytes of large messages.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::Incoming;
use crate::limits;
use crate::message::Message;

/// The bytes that one permit stands for.
const UNIT: usize = 1024;

/// Smaller items are bounded well enough by their number, and go without a permit.
const SMALL: usize = 8 * 1024;

/// What an item holds of the budget until it is taken out.
type Share = Option<OwnedSemaphorePermit>;

/// Something that takes room.
pub trait Weighed {
    /// How many bytes it takes.
    fn size(&self) -> usize;
}

impl Weighed for Message {
    fn size(&self) -> usize {
        self.bytes().len()
    }
}

impl Weighed for Incoming {
    fn size(&self) -> usize {
        match self {
            Self::Message(message) => message.size(),
            Self::Refused { .. } | Self::Ended(_) => 0,
        }
    }
}

/// The sending end.
#[derive(Debug)]
pub struct Sender<T> {
    slots: mpsc::Sender<(T, Share)>,
    budget: Arc<Semaphore>,
}

/// The receiving end. What it takes out makes room.
#[derive(Debug)]
pub struct Receiver<T> {
    slots: Slots<T>,
}

#[derive(Debug)]
enum Slots<T> {
    Items(mpsc::Receiver<(T, Share)>),
    /// Messages, which are items once they are taken out.
    Messages(mpsc::Receiver<(Message, Share)>, fn(Message) -> T),
}

/// Nobody receives any more; the item comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody receives any more")]
pub struct Closed;

/// A new channel.
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = slots();
    (sender, Receiver { slots: Slots::Items(receiver) })
}

/// A new channel from one link's outbox to another's inbox.
pub(super) fn crossed() -> (Sender<Message>, Receiver<Incoming>) {
    let (sender, receiver) = slots();
    (sender, Receiver { slots: Slots::Messages(receiver, Incoming::Message) })
}

fn slots<T>() -> (Sender<T>, mpsc::Receiver<(T, Share)>) {
    let (slots, receiver) = mpsc::channel(limits::CHANNEL);
    let budget = Arc::new(Semaphore::new(limits::CHANNEL_BYTES / UNIT));
    (Sender { slots, budget }, receiver)
}

/// Larger items than the budget take all of it.
fn permits(bytes: usize) -> u32 {
    let units = (bytes / UNIT + 1).min(limits::CHANNEL_BYTES / UNIT);
    u32::try_from(units).unwrap_or(u32::MAX)
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self { slots: self.slots.clone(), budget: Arc::clone(&self.budget) }
    }
}

impl<T: Weighed> Sender<T> {
    /// Waits for room, then sends.
    ///
    /// # Errors
    ///
    /// When nobody receives any more.
    pub async fn send(&self, item: T) -> Result<(), Closed> {
        // As a rule there is room, and nobody to wait behind: room that others wait for is theirs.
        let permit = match self.try_reserve(item.size()) {
            Some(permit) => permit,
            None => self.reserve(item.size()).await?,
        };
        permit.send(item);
        Ok(())
    }

    /// Waits for room for an item of `bytes`.
    ///
    /// # Errors
    ///
    /// When nobody receives any more.
    async fn reserve(&self, bytes: usize) -> Result<Permit<'_, T>, Closed> {
        let mut share = None;
        if bytes >= SMALL {
            let budget = Arc::clone(&self.budget).acquire_many_owned(permits(bytes));
            share = tokio::select! {
                biased;
                share = budget => share.ok(),
                // The budget may be held by items that nobody will ever take out.
                () = self.slots.closed() => return Err(Closed),
            };
        }
        let slot = self.slots.reserve().await.map_err(|_| Closed)?;
        Ok(Permit { slot, share })
    }

    /// Waits until there is room for an item of `bytes`, for the only sender.
    ///
    /// # Errors
    ///
    /// When nobody receives any more.
    pub(crate) async fn room(&self, bytes: usize) -> Result<(), Closed> {
        self.reserve(bytes).await.map(drop)
    }

    /// Sends if there is room now; else the item comes back.
    ///
    /// # Errors
    ///
    /// When there is no room, or nobody receives any more.
    pub fn try_send(&self, item: T) -> Result<(), T> {
        match self.try_reserve(item.size()) {
            Some(permit) => {
                permit.send(item);
                Ok(())
            }
            None => Err(item),
        }
    }

    /// Room for an item of `bytes`, if there is any now.
    pub fn try_reserve(&self, bytes: usize) -> Option<Permit<'_, T>> {
        let share = match bytes {
            ..SMALL => None,
            _ => Some(Arc::clone(&self.budget).try_acquire_many_owned(permits(bytes)).ok()?),
        };
        Some(Permit { slot: self.slots.try_reserve().ok()?, share })
    }

    /// Whether whoever sends has to wait: there is no place, or no room for more than a little.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.slots.capacity() == 0 || self.budget.available_permits() == 0
    }

    /// Completes when nobody receives any more.
    pub async fn closed(&self) {
        self.slots.closed().await;
    }
}

/// Room for one item.
#[derive(Debug)]
pub struct Permit<'a, T> {
    slot: mpsc::Permit<'a, (T, Share)>,
    share: Share,
}

impl<T> Permit<'_, T> {
    /// Sends it.
    pub fn send(self, item: T) {
        self.slot.send((item, self.share));
    }
}

impl<T> Receiver<T> {
    /// The next item; `None` when nobody can send any more.
    pub async fn recv(&mut self) -> Option<T> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    /// The same for whoever listens to several at once, and for each message.
    pub(crate) fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        match &mut self.slots {
            Slots::Items(slots) => slots.poll_recv(context).map(|next| next.map(|(item, _)| item)),
            Slots::Messages(slots, item) => {
                slots.poll_recv(context).map(|next| next.map(|(message, _)| item(message)))
            }
        }
    }

    /// The next item, if it is there already.
    pub fn try_recv(&mut self) -> Option<T> {
        match &mut self.slots {
            Slots::Items(slots) => slots.try_recv().ok().map(|(item, _)| item),
            Slots::Messages(slots, item) => slots.try_recv().ok().map(|(message, _)| item(message)),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn message(bytes: usize) -> Message {
        let text = format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, "x".repeat(bytes));
        Message::parse(Bytes::from(text)).expect("a message")
    }

    #[tokio::test]
    async fn large_messages_fill_it_sooner_than_small_ones() {
        let (sender, mut receiver) = channel();
        let sent = (0..1000).take_while(|_| sender.try_send(message(1 << 20)).is_ok()).count();
        assert!((1..=limits::CHANNEL_BYTES >> 20).contains(&sent), "{sent}");
        receiver.recv().await.expect("the first");
        assert!(sender.try_send(message(1 << 20)).is_ok(), "taking one out makes room for one");
        let (sender, _receiver) = channel();
        let sent = (0..1000).take_while(|_| sender.try_send(message(10)).is_ok()).count();
        assert_eq!(sent, limits::CHANNEL);
    }

    #[tokio::test]
    async fn one_message_fits_however_large_it_is() {
        let (sender, mut receiver) = channel();
        sender.send(message(3 * limits::CHANNEL_BYTES)).await.expect("room");
        assert!(sender.try_send(message(SMALL)).is_err());
        assert!(sender.try_send(message(1)).is_ok(), "small ones are bounded by their number");
        assert!(receiver.recv().await.is_some());
        assert!(sender.try_send(message(SMALL)).is_ok());
    }

    #[tokio::test]
    async fn whoever_waits_learns_that_nobody_receives() {
        let (sender, receiver) = channel();
        sender.send(message(2 * limits::CHANNEL_BYTES)).await.expect("room");
        let waiting = sender.send(message(SMALL));
        drop(receiver);
        assert_eq!(waiting.await, Err(Closed));
    }
}
