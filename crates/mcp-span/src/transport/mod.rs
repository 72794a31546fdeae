//! A [`Link`] is a two-way channel of messages to one peer, whatever lies behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::error::Error;
use crate::limits;
use crate::message::{Id, Message};

pub mod channel;
pub mod child;
mod command;
mod elements;
pub mod http;
pub mod memory;
pub mod stdio;
mod time_limit;

pub(crate) use command::{Command, Event, LoginStage, Send, Ticket};
pub(crate) use time_limit::within;

/// A two-way channel of messages to one peer, whatever lies behind it.
///
/// A [`Bridge`](crate::Bridge) joins one to a server, and a [`Client`](crate::Client) can use one.
///
/// It is closed by ownership. Dropping `outbox` says that nothing more will be sent: notifications
/// and answers that are under way are finished, requests are given up (who wants their answers
/// waits for them first), the peer is told goodbye, `inbox` ends. Dropping `inbox` as well means
/// at once.
#[derive(Debug)]
#[non_exhaustive]
pub struct Link {
    /// Messages to the peer. Bounded: a slow peer slows its sender down.
    #[doc(hidden)]
    pub outbox: channel::Sender<Message>,
    /// What comes from the peer.
    #[doc(hidden)]
    pub inbox: channel::Receiver<Incoming>,
    /// Ends when everything was written and the goodbye was said.
    #[doc(hidden)]
    pub done: JoinHandle<()>,
    /// Moves as long as the peer takes what is written to it.
    #[doc(hidden)]
    pub written: Written,
}

impl Link {
    /// A peer that writes one message a line to `input`, and reads them from `output`.
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime.
    pub fn over<I, O>(input: I, output: O) -> Self
    where
        I: AsyncRead + Unpin + std::marker::Send + 'static,
        O: AsyncWrite + Unpin + std::marker::Send + 'static,
    {
        stdio::open(input, output, limits::MESSAGE_SIZE)
    }

    /// Two links that are each other's peer: what is sent into one comes out of the other.
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime.
    #[must_use]
    pub fn pair() -> (Self, Self) {
        memory::pair()
    }
}

/// Counts the writes that a peer has taken.
#[derive(Clone, Debug, Default)]
pub struct Written(Arc<AtomicU64>);

impl Written {
    /// So many so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn note(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// What a link brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// The peer said this.
    Message(Message),
    /// The peer said something that is no message, and waits for an answer to it; without an id
    /// that can be repeated, the answer goes to `null`.
    Refused {
        /// The id under which it waits.
        id: Option<Id>,
        /// What is wrong. Boxed, here as below: it is rare, and all that comes would carry its size.
        error: Box<Error>,
    },
    /// The link ends now, by the peer's doing, and this is why.
    Ended(Box<Error>),
}

/// The two ends of a link's channels that its own tasks hold.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) outgoing: channel::Receiver<Message>,
    pub(crate) incoming: channel::Sender<Incoming>,
    pub(crate) written: Written,
}

/// The channels of a new link; `run` gets the far ends and is the link's life.
pub(crate) fn spawn<F>(run: impl FnOnce(Ends) -> F) -> Link
where
    F: Future<Output = ()> + std::marker::Send + 'static,
{
    let (outbox, outgoing) = channel::channel();
    let (incoming, inbox) = channel::channel();
    let written = Written::default();
    let ends = Ends { outgoing, incoming, written: written.clone() };
    let done = tokio::spawn(run(ends));
    Link { outbox, inbox, done, written }
}

/// Completes at `time`; never, if there is none. No timer is made before it is waited for: this is
/// called for each message.
pub(crate) async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
