//! One message on its way to the server.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::Error;
use crate::limits::{self, Timeouts};
use crate::message::{Head, Id, Message, Method};
use crate::net::Progress;
use crate::revision::Envelope;
use crate::transport::http::Ticket;
use crate::transport::weight;

/// A message that waits to be sent.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) message: Message,
    /// What makes it a modern one.
    pub(super) envelope: Option<Envelope>,
    /// Its place among all that came.
    pub(super) order: u64,
    /// How many times its session was lost under it.
    pub(super) losses: u8,
    /// Not sent at all where the server has given no session id.
    pub(super) needs_session_id: bool,
}

/// What a message that is out takes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// One of so many at once.
    Ordinary,
    /// Past the queue; notifications and answers are counted among their like.
    Urgent,
    /// None any more: HTTP+SSE has acknowledged it, and the answer comes on the stream.
    Free,
}

/// A message that is out.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) entry: Entry,
    pub(super) ticket: Ticket,
    pub(super) place: Place,
    /// Whether any of it may have left.
    pub(super) progress: Progress,
    /// The server has taken it (HTTP+SSE).
    pub(super) is_acknowledged: bool,
    /// Its session was lost since: only what becomes of its POST is of interest (HTTP+SSE).
    pub(super) is_left: bool,
    /// Why its POST failed, although it may have arrived (HTTP+SSE).
    pub(super) failure: Option<Error>,
    /// How long nothing may be heard of it, where the dispatcher keeps the time (HTTP+SSE).
    pub(super) limit: Option<Duration>,
    pub(super) due: Option<Instant>,
    /// The token of its progress.
    pub(super) token: Option<String>,
}

impl Entry {
    /// The id, if it is a request.
    pub(super) fn request_id(&self) -> Option<&Id> {
        match self.message.head() {
            Head::Request { id, .. } => Some(id),
            _ => None,
        }
    }

    pub(super) fn is_request(&self, wanted: &Method) -> bool {
        matches!(self.message.head(), Head::Request { method, .. } if method == wanted)
    }

    pub(super) fn is_notification(&self, wanted: &Method) -> bool {
        matches!(self.message.head(), Head::Notification { method } if method == wanted)
    }

    pub(super) fn is_answer(&self) -> bool {
        matches!(self.message.head(), Head::Response { .. })
    }

    /// A handshake's message goes past the limit: what fills it may be waiting for the handshake.
    pub(super) fn is_handshake(&self) -> bool {
        self.envelope.is_none()
            && (self.is_request(&Method::Initialize) || self.is_notification(&Method::Initialized))
    }

    /// Whether this is the request `id`, given in canonical form.
    pub(super) fn is_named(&self, canonical: &Id) -> bool {
        self.request_id().is_some_and(|id| id.canonical() == *canonical)
    }

    /// The bytes that it counts for.
    pub(super) fn weight(&self) -> usize {
        weight(&self.message)
    }

    /// What is refused in a new session as well is not about the session.
    pub(super) fn is_last_try(&self) -> bool {
        self.losses >= limits::REOPENINGS_FOR_ONE
    }
}

impl Sent {
    /// Whether the server may yet say that it did not take it.
    pub(super) fn may_be_refused(&self) -> bool {
        let is_out = self.progress.has_started() && !self.is_acknowledged && self.failure.is_none();
        is_out && self.entry.request_id().is_some() && !self.entry.is_request(&Method::Initialize)
    }
}

/// How long nothing may be heard of `message`. Answers and cancellations always have a limit, or
/// those that hang would keep back all others of their kind.
pub(crate) fn silence_limit(message: &Message, timeouts: &Timeouts) -> Option<Duration> {
    match (message.method(), timeouts.of(message.clock())) {
        (None | Some(Method::Cancelled), None) => Some(limits::QUICK_TIMEOUT),
        (_, limit) => limit,
    }
}
