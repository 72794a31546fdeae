//! The server's side of a bridge: a stream of messages, or HTTP, where a dispatcher decides what is
//! sent when.

use std::future::{pending, poll_fn};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::engine::Dispatcher;
use crate::message::Message;
use crate::transport::channel::{Receiver, Sender};
use crate::transport::http::{self, Event};
use crate::transport::{Incoming, Link};

/// A link to a server.
#[derive(Debug)]
pub enum ServerLink {
    /// A child process, or any other pair of streams.
    Stream(Link),
    /// HTTP.
    Http(Box<http::Link>),
}

impl From<Link> for ServerLink {
    fn from(link: Link) -> Self {
        Self::Stream(link)
    }
}

impl From<http::Link> for ServerLink {
    fn from(link: http::Link) -> Self {
        Self::Http(Box::new(link))
    }
}

/// What a bridge holds of a server's link.
pub(super) struct Server {
    /// The server says nothing more once this is `None`.
    pub(super) inbox: Inbox,
    /// `None` over HTTP, and when nothing more will be sent.
    pub(super) outbox: Option<Sender<Message>>,
    /// Where the server is spoken to over HTTP.
    pub(super) dispatcher: Option<Dispatcher>,
    /// Ends when a stream's goodbye was said.
    pub(super) done: Option<JoinHandle<()>>,
}

impl From<ServerLink> for Server {
    fn from(link: ServerLink) -> Self {
        match link {
            ServerLink::Stream(link) => Self {
                inbox: Inbox::Stream(link.inbox),
                outbox: Some(link.outbox),
                dispatcher: None,
                done: Some(link.done),
            },
            ServerLink::Http(link) => Self {
                dispatcher: Some(Dispatcher::new(link.limits())),
                inbox: Inbox::Http(link),
                outbox: None,
                done: None,
            },
        }
    }
}

/// What a server's link has brought.
pub(super) enum Said {
    Incoming(Incoming),
    Event(Event),
}

/// What comes from the server.
pub(super) enum Inbox {
    Stream(Receiver<Incoming>),
    Http(Box<http::Link>),
    Closed,
}

impl Inbox {
    /// What comes next, if it is taken now; else the link only goes on with its work.
    pub(super) async fn recv_if(&mut self, is_taken: bool) -> Option<Said> {
        match self {
            Self::Stream(inbox) if is_taken => inbox.recv().await.map(Said::Incoming),
            Self::Http(link) if is_taken => Some(Said::Event(link.event().await)),
            Self::Closed if is_taken => None,
            Self::Http(link) => Some(Said::Event(link.drive().await)),
            Self::Stream(_) | Self::Closed => pending().await,
        }
    }

    pub(super) async fn recv(&mut self) -> Option<Said> {
        self.recv_if(true).await
    }

    pub(super) fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<Said>> {
        match self {
            Self::Stream(inbox) => inbox.poll_recv(context).map(|i| i.map(Said::Incoming)),
            Self::Http(link) => link.poll_event(context).map(|event| Some(Said::Event(event))),
            Self::Closed => Poll::Ready(None),
        }
    }

    pub(super) fn try_recv(&mut self) -> Option<Said> {
        match self {
            Self::Stream(inbox) => inbox.try_recv().map(Said::Incoming),
            Self::Http(link) => link.try_event().map(Said::Event),
            Self::Closed => None,
        }
    }

    /// What there is to be had without waiting, after a look at all that goes on.
    pub(super) async fn recv_now(&mut self) -> Option<Said> {
        poll_fn(|context| match self.poll_recv(context) {
            Poll::Ready(said) => Poll::Ready(said),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    /// Says goodbye over HTTP, for no longer than `limit`; a stream is just dropped.
    pub(super) async fn close(&mut self, limit: Duration) {
        if let Self::Http(link) = std::mem::replace(self, Self::Closed) {
            link.close(limit).await;
        }
    }
}
