//! The server's side of a bridge: a pair of streams, or HTTP; both execute commands and report events.

use std::collections::VecDeque;
use std::future::{pending, ready};
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::engine::Limits;
use crate::error::Error;
use crate::message::Message;
use crate::transport::channel::{Receiver, Sender, Weighed};
use crate::transport::http::HttpLink;
use crate::transport::{Command, Event, Incoming, Link, Send};

/// A link to a server.
#[derive(Debug)]
pub enum ServerLink {
    /// A child process, or any other pair of streams.
    Stream(Box<StreamLink>),
    /// HTTP.
    Http(Box<HttpLink>),
}

impl From<Link> for ServerLink {
    fn from(link: Link) -> Self {
        Self::Stream(Box::new(StreamLink {
            inbox: link.inbox,
            outbox: Some(link.outbox),
            done: link.done,
            waiting: VecDeque::new(),
            is_finishing: false,
            accepted: VecDeque::new(),
            reason: None,
        }))
    }
}

impl From<HttpLink> for ServerLink {
    fn from(link: HttpLink) -> Self {
        Self::Http(Box::new(link))
    }
}

impl ServerLink {
    /// The limits of an HTTP link; a pair of streams has none.
    pub(super) fn limits(&self) -> Option<Limits> {
        match self {
            Self::Http(link) => Some(link.limits()),
            Self::Stream(_) => None,
        }
    }

    pub(super) fn execute(&mut self, command: Command) {
        match (self, command) {
            (Self::Http(link), command) => link.execute(command),
            (Self::Stream(link), Command::Send(send)) => link.send(send),
            // Over a stream, a request is cancelled by a notification.
            (Self::Stream(_), Command::Cancel { .. }) => {}
        }
    }

    /// The next event; `None` when the link has ended. Unless `is_taken`, only those that need no reader;
    /// the link goes on meanwhile.
    pub(super) async fn event(&mut self, is_taken: bool) -> Option<Event> {
        match self {
            Self::Stream(link) => link.event(is_taken).await,
            Self::Http(link) if is_taken => Some(link.event().await),
            Self::Http(link) => Some(link.drive().await),
        }
    }

    /// An event that has happened already.
    pub(super) fn try_event(&mut self) -> Option<Event> {
        match self {
            Self::Stream(link) => link.try_event(),
            Self::Http(link) => link.try_event(),
        }
    }

    /// The next event that is there without waiting, after polling the link once.
    pub(super) async fn poll_once(&mut self) -> Option<Event> {
        tokio::select! {
            biased;
            event = self.event(true) => event,
            () = ready(()) => None,
        }
    }

    /// Whether messages wait until the server reads.
    pub(super) fn is_blocked(&self) -> bool {
        matches!(self, Self::Stream(link) if !link.waiting.is_empty())
    }

    /// Nothing more will be sent. A stream ends when all was written; the session of an HTTP link is
    /// deleted when it is closed, where no signal can interrupt that.
    pub(super) fn finish_sending(&mut self) {
        if let Self::Stream(link) = self {
            link.is_finishing = true;
            link.write();
        }
    }

    /// Why the link has ended, if the server gave a reason.
    pub(super) fn take_reason(&mut self) -> Option<Error> {
        match self {
            Self::Stream(link) => link.reason.take(),
            Self::Http(_) => None,
        }
    }

    /// Closes the link. `limit` is for deleting an HTTP session.
    pub(super) async fn close(self, limit: Duration) {
        match self {
            Self::Stream(link) => {
                drop((link.outbox, link.inbox));
                let _ = link.done.await;
            }
            Self::Http(link) => link.close(limit).await,
        }
    }
}

/// A pair of streams that executes commands and reports events, as an HTTP link does.
#[derive(Debug)]
pub struct StreamLink {
    inbox: Receiver<Incoming>,
    /// `None` when nothing more can be sent.
    outbox: Option<Sender<Message>>,
    /// Ends when the output was flushed and closed.
    done: JoinHandle<()>,
    /// Messages that the outbox has no room for.
    waiting: VecDeque<Box<Send>>,
    /// The outbox is closed when nothing waits for it any more.
    is_finishing: bool,
    /// Written means accepted: events about that, to be reported.
    accepted: VecDeque<Event>,
    /// Why the server's streams have ended, if it gave a reason.
    reason: Option<Error>,
}

impl StreamLink {
    fn send(&mut self, send: Box<Send>) {
        if self.outbox.is_some() {
            self.waiting.push_back(send);
            self.write();
        }
    }

    /// Writes what there is room for.
    fn write(&mut self) {
        let Some(outbox) = &self.outbox else { return };
        while let Some(send) = self.waiting.pop_front() {
            let Some(permit) = outbox.try_reserve(send.message.size()) else {
                return self.waiting.push_front(send);
            };
            if send.message.request_id().is_none() {
                self.accepted.push_back(Event::Accepted(send.ticket));
            }
            permit.send(send.message);
        }
        if self.is_finishing {
            self.outbox = None;
        }
    }

    async fn event(&mut self, is_taken: bool) -> Option<Event> {
        loop {
            self.write();
            if let Some(event) = self.accepted.pop_front() {
                return Some(event);
            }
            let incoming = match self.outbox.as_ref().zip(self.waiting.front()) {
                None if is_taken => self.inbox.recv().await,
                None => return pending().await,
                Some((outbox, next)) => tokio::select! {
                    biased;
                    room = outbox.room(next.message.size()) => {
                        if room.is_err() {
                            self.outbox = None;
                            self.waiting.clear();
                            return None;
                        }
                        continue;
                    }
                    incoming = self.inbox.recv(), if is_taken => incoming,
                },
            };
            if let Some(event) = self.event_of(incoming?) {
                return Some(event);
            }
        }
    }

    fn try_event(&mut self) -> Option<Event> {
        self.accepted.pop_front().or_else(|| {
            let incoming = self.inbox.try_recv()?;
            self.event_of(incoming)
        })
    }

    fn event_of(&mut self, incoming: Incoming) -> Option<Event> {
        match incoming {
            Incoming::Message(message) => Some(Event::Message { message, answers: None }),
            Incoming::Refused { id, error } => Some(Event::Malformed { id, error }),
            Incoming::Ended(reason) => {
                self.reason = Some(*reason);
                None
            }
        }
    }
}
