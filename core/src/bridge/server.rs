//! The server's side of a bridge: a stream of messages, or HTTP.

use std::future::{pending, poll_fn};
use std::task::{Context, Poll};

use tokio::task::JoinHandle;

use crate::engine::Limits;
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
    Http(Box<http::HttpLink>),
}

impl From<Link> for ServerLink {
    fn from(link: Link) -> Self {
        Self::Stream(link)
    }
}

impl From<http::HttpLink> for ServerLink {
    fn from(link: http::HttpLink) -> Self {
        Self::Http(Box::new(link))
    }
}

/// What a bridge holds of a server's link.
pub(super) struct ServerSide {
    /// Events of the server's.
    pub(super) inbox: Inbox,
    /// `None` over HTTP, and when nothing more will be sent.
    pub(super) outbox: Option<Sender<Message>>,
    /// Ends when a stream's output was flushed and closed.
    pub(super) done: Option<JoinHandle<()>>,
}

impl From<ServerLink> for ServerSide {
    fn from(link: ServerLink) -> Self {
        match link {
            ServerLink::Stream(link) => Self {
                inbox: Inbox::Stream(link.inbox),
                outbox: Some(link.outbox),
                done: Some(link.done),
            },
            ServerLink::Http(link) => Self { inbox: Inbox::Http(link), outbox: None, done: None },
        }
    }
}

/// An event of a server's link.
pub(super) enum ServerEvent {
    Incoming(Incoming),
    Event(Event),
}

/// The receiving side of a server's link.
pub(super) enum Inbox {
    Stream(Receiver<Incoming>),
    Http(Box<http::HttpLink>),
}

impl Inbox {
    /// The limits of an HTTP link.
    pub(super) fn limits(&self) -> Option<Limits> {
        match self {
            Self::Http(link) => Some(link.limits()),
            Self::Stream(_) => None,
        }
    }

    /// The next event. Unless `is_taken`, only those that need no reader; an HTTP link goes on meanwhile.
    pub(super) async fn recv_if(&mut self, is_taken: bool) -> Option<ServerEvent> {
        match self {
            Self::Stream(inbox) if is_taken => inbox.recv().await.map(ServerEvent::Incoming),
            Self::Http(link) if is_taken => Some(ServerEvent::Event(link.event().await)),
            Self::Http(link) => Some(ServerEvent::Event(link.drive().await)),
            Self::Stream(_) => pending().await,
        }
    }

    pub(super) async fn recv(&mut self) -> Option<ServerEvent> {
        self.recv_if(true).await
    }

    pub(super) fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<ServerEvent>> {
        match self {
            Self::Stream(inbox) => inbox.poll_recv(context).map(|i| i.map(ServerEvent::Incoming)),
            Self::Http(link) => {
                link.poll_event(context).map(|event| Some(ServerEvent::Event(event)))
            }
        }
    }

    pub(super) fn try_recv(&mut self) -> Option<ServerEvent> {
        match self {
            Self::Stream(inbox) => inbox.try_recv().map(ServerEvent::Incoming),
            Self::Http(link) => link.try_event().map(ServerEvent::Event),
        }
    }

    /// The next event that is there without waiting, after polling the link once.
    pub(super) async fn recv_now(&mut self) -> Option<ServerEvent> {
        poll_fn(|context| match self.poll_recv(context) {
            Poll::Ready(event) => Poll::Ready(event),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }
}
