//! The server's side of a bridge: a stream of messages, or HTTP, where a dispatcher decides what is
//! sent when.

use std::task::{Context, Poll};

use tokio::task::JoinHandle;

use super::eras::Crossing;
use crate::engine::Dispatcher;
use crate::message::Message;
use crate::transport::channel::{Closed, Permit, Receiver, Sender};
use crate::transport::http::{self, Command, Event};
use crate::transport::{Incoming, Link};

/// A link to a server.
#[derive(Debug)]
pub enum ServerLink {
    /// A child process, or any other pair of streams.
    Stream(Link),
    /// HTTP.
    Http(http::Link),
}

impl From<Link> for ServerLink {
    fn from(link: Link) -> Self {
        Self::Stream(link)
    }
}

impl From<http::Link> for ServerLink {
    fn from(link: http::Link) -> Self {
        Self::Http(link)
    }
}

impl ServerLink {
    pub(super) fn split(self) -> (Outbox, Inbox, Option<Dispatcher>, JoinHandle<()>) {
        match self {
            Self::Stream(link) => {
                (Outbox::Stream(link.outbox), Inbox::Stream(link.inbox), None, link.done)
            }
            Self::Http(link) => {
                let dispatcher = Dispatcher::new(link.limits);
                let (outbox, inbox) = (Outbox::Http(link.commands), Inbox::Http(link.events));
                (outbox, inbox, Some(dispatcher), link.done)
            }
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
    Http(Receiver<Event>),
}

impl Inbox {
    pub(super) async fn recv(&mut self) -> Option<Said> {
        match self {
            Self::Stream(inbox) => inbox.recv().await.map(Said::Incoming),
            Self::Http(events) => events.recv().await.map(Said::Event),
        }
    }

    pub(super) fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<Said>> {
        match self {
            Self::Stream(inbox) => inbox.poll_recv(context).map(|i| i.map(Said::Incoming)),
            Self::Http(events) => events.poll_recv(context).map(|e| e.map(Said::Event)),
        }
    }

    pub(super) fn try_recv(&mut self) -> Option<Said> {
        match self {
            Self::Stream(inbox) => inbox.try_recv().map(Said::Incoming),
            Self::Http(events) => events.try_recv().map(Said::Event),
        }
    }
}

/// What goes to the server.
pub(super) enum Outbox {
    Stream(Sender<Message>),
    Http(Sender<Command>),
}

/// Room for one thing.
pub(super) enum Room<'a> {
    Stream(Permit<'a, Message>),
    Http(Permit<'a, Command>),
}

impl Outbox {
    /// Waits for room.
    pub(super) async fn reserve(&self, bytes: usize) -> Result<Room<'_>, Closed> {
        match self {
            Self::Stream(outbox) => outbox.reserve(bytes).await.map(Room::Stream),
            Self::Http(commands) => commands.reserve(bytes).await.map(Room::Http),
        }
    }

    /// Sends what there is room for now.
    pub(super) fn send_all(&self, crossing: &mut Crossing, dispatcher: Option<&mut Dispatcher>) {
        match (self, dispatcher) {
            (Self::Stream(outbox), _) => {
                while let Some(message) = crossing.next_for_server() {
                    if let Err(message) = outbox.try_send(message) {
                        return crossing.put_back(message);
                    }
                }
            }
            (Self::Http(commands), Some(dispatcher)) => {
                while let Some(command) = dispatcher.next_command() {
                    if let Err(command) = commands.try_send(command) {
                        return dispatcher.put_back(command);
                    }
                }
            }
            (Self::Http(_), None) => {}
        }
    }
}

impl Room<'_> {
    /// Sends what is next.
    pub(super) fn send_next(self, crossing: &mut Crossing, dispatcher: Option<&mut Dispatcher>) {
        match self {
            Self::Stream(permit) => crossing.next_for_server().map(|next| permit.send(next)),
            Self::Http(permit) => {
                dispatcher.and_then(Dispatcher::next_command).map(|next| permit.send(next))
            }
        };
    }
}
