//! What a server's link is told to do, and what it reports. It decides nothing about a message itself:
//! order, limits, retries and lost sessions are the engine's.

use std::time::Duration;

use super::channel::Weighed;
use crate::error::Error;
use crate::message::{Id, Message};
use crate::net::{Lane, Progress};
use crate::revision::Envelope;

/// The number of one send of a message. It is never on the wire, so no peer can imitate it.
///
/// The engine counts from 1; the others that need tickets have ranges of their own above that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ticket(pub(crate) u64);

impl Ticket {
    /// For a message that a stage between engine and link sends.
    pub(crate) fn of_stage(number: u64) -> Self {
        Self(1 << 62 | number)
    }

    /// For a job of the link that belongs to no message.
    pub(super) const fn of_link(number: u64) -> Self {
        Self(1 << 63 | number)
    }
}

/// One message to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Send {
    pub(crate) ticket: Ticket,
    pub(crate) message: Message,
    /// What makes it a modern one.
    pub(crate) envelope: Option<Envelope>,
    /// The `initialize` whose session it belongs to. `None`: whichever session there is.
    pub(crate) session: Option<Ticket>,
    /// Not sent at all where the server has given no session id.
    pub(crate) needs_session_id: bool,
    /// What it shares a connection with, where all share one.
    pub(crate) lane: Lane,
    /// It has met a lost session before, and a loss once more is taken for its answer.
    pub(crate) is_last_try: bool,
    /// How often it has come back, for logs.
    pub(crate) retry: Option<u32>,
    /// Tells whether any of it has left.
    pub(crate) progress: Progress,
}

impl Send {
    /// A message on the link's own account.
    pub(crate) fn new(ticket: Ticket, message: Message) -> Self {
        Self {
            ticket,
            message,
            envelope: None,
            session: None,
            needs_session_id: false,
            lane: Lane::Calls,
            is_last_try: false,
            retry: None,
            progress: Progress::default(),
        }
    }
}

/// What a link does.
#[derive(Debug)]
pub(crate) enum Command {
    Send(Box<Send>),
    /// Nobody waits for this message any more. Its exchange is dropped after `grace`: until then it
    /// may bring what else the server has to say on it.
    Cancel {
        ticket: Ticket,
        grace: Duration,
    },
}

/// What a link reports.
#[derive(Debug)]
pub(crate) enum Event {
    /// The server said this; `answers` is the request that it answers, where the wire proves that.
    Message { message: Message, answers: Option<Ticket> },
    /// The server said something over the limit, as the answer to the request with this id, or as a
    /// request of its own.
    Oversized { id: Id, is_request: bool, error: Box<Error> },
    /// The server said something that is no message.
    Malformed { id: Option<Id>, error: Box<Error> },
    /// The server has taken a message.
    Accepted(Ticket),
    /// A message did not arrive or, if it is a request, gets no answer.
    Failed { ticket: Ticket, error: Box<Error> },
    /// The server does not know the session that the message was sent in.
    SessionRejected {
        ticket: Ticket,
        session: Option<Ticket>,
        error: Box<Error>,
        /// The server's own error, in case that it is not about the session.
        last_word: Option<Message>,
    },
    /// The same, found out without a message.
    SessionLost { session: Option<Ticket>, error: Box<Error> },
    /// The server speaks HTTP+SSE, and its stream is open.
    StreamOpened,
    /// The stream of an HTTP+SSE session has ended.
    StreamEnded(Box<Error>),
    /// A server that could not be reached can be reached again.
    Reached,
    /// How far a login is that messages wait for; `None`: it is over.
    LoginPending(Option<LoginStage>),
}

/// How far a login is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LoginStage {
    /// It is prepared, or somebody has done their part and the rest follows.
    UnderWay,
    /// Somebody has to do what this says.
    Page(String),
}

impl Weighed for Event {
    fn size(&self) -> usize {
        match self {
            Self::Message { message, .. } => message.size(),
            _ => 0,
        }
    }
}
