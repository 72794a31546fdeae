//! One message to the server: its origin, its state, how often it was sent.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::Error;
use crate::limits::{self, Timeouts};
use crate::message::budget::MemoryPermit;
use crate::message::{Id, Message, Method};
use crate::net::Progress;
use crate::revision::Envelope;
use crate::transport::Ticket;

/// A message from its arrival to its end.
#[derive(Debug)]
pub(super) struct Entry {
    /// Given by the table; another one for each time that it is queued.
    pub(super) ticket: Ticket,
    pub(super) origin: Origin,
    pub(super) message: Message,
    /// Its share of the memory budget.
    _permit: MemoryPermit,
    /// Set for requests of the modern era.
    pub(super) envelope: Option<Envelope>,
    pub(super) order: Order,
    pub(super) state: MessageState,
    /// When it arrived.
    pub(super) since: Instant,
    /// Until when it waits for an unreachable server, counted from its first failure.
    pub(super) patience: Option<Instant>,
    /// How often it was sent.
    pub(super) sends: u32,
    /// How often the server has rejected it because the session was lost.
    pub(super) losses: u8,
    /// It was retried once after a failure that may have happened after delivery.
    pub(super) was_repeated: bool,
    /// An earlier send of it may have been delivered.
    pub(super) may_have_arrived: bool,
    /// The client has seen progress.
    pub(super) progressed: bool,
    /// Drop it where the server has given no session id.
    pub(super) needs_session_id: bool,
    /// When it times out, or its delay ends; maintained by the table.
    pub(super) timer: Option<Instant>,
}

/// Who sent a message and waits for its outcome: the client, or the bridge for one of its purposes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Client,
    /// Replaces a lost session, or opens the one that the stand-in has promised.
    Reopen,
    /// Restores a subscription or the log level in a new session.
    Restore,
    KeepAlive,
    /// A notification, or an error response to a server's request.
    Notice,
}

/// The position of a message in the queue: what restores a session precedes what waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    Restoring(u64),
    Arrival(u64),
}

/// The state of a message.
#[derive(Debug)]
pub(super) enum MessageState {
    /// Waits for the session, the server or the limit on messages in flight.
    Queued,
    /// Waits for its timer, as the server asked with `Retry-After`.
    Delayed,
    /// Bypasses the queue: leaves now, or when there is room among urgent messages.
    Ready,
    Sent(Sent),
}

/// Which limit a message in flight counts towards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Place {
    /// The limit on parallel messages.
    #[default]
    Ordinary,
    /// The limit on urgent messages.
    Urgent,
    /// None: an urgent request, anything urgent on a pair of streams, or what HTTP+SSE has accepted, whose
    /// response comes on the stream.
    Free,
}

/// What is known of a message in flight.
#[derive(Debug, Default)]
pub(super) struct Sent {
    pub(super) place: Place,
    /// Whether any of it may have been written.
    pub(super) progress: Progress,
    /// The server has accepted the POST (HTTP+SSE).
    pub(super) is_acknowledged: bool,
    /// The session was lost meanwhile: only the status of its POST matters (HTTP+SSE).
    pub(super) is_left: bool,
    /// Why its POST failed; the response may arrive on the stream all the same (HTTP+SSE).
    pub(super) failure: Option<Error>,
}

impl Entry {
    /// Boxed, because entries move between the table and functions all the time.
    pub(super) fn new(
        origin: Origin,
        message: Message,
        permit: MemoryPermit,
        order: Order,
        now: Instant,
    ) -> Box<Self> {
        Box::new(Self {
            ticket: Ticket::default(),
            origin,
            message,
            _permit: permit,
            envelope: None,
            order,
            state: MessageState::Queued,
            since: now,
            patience: None,
            sends: 0,
            losses: 0,
            was_repeated: false,
            may_have_arrived: false,
            progressed: false,
            needs_session_id: false,
            timer: None,
        })
    }

    /// Whether it is the client's `initialize`.
    pub(super) fn is_opening(&self) -> bool {
        self.origin == Origin::Client && self.message.is_request(&Method::Initialize)
    }

    /// Handshake messages are exempt from the limit: the messages that exhaust it may be waiting for
    /// the handshake.
    pub(super) fn is_handshake(&self) -> bool {
        self.envelope.is_none()
            && (self.message.is_request(&Method::Initialize)
                || self.message.is_notification(&Method::Initialized))
    }

    /// Whether it is in the queue.
    pub(super) fn is_in_queue(&self) -> bool {
        matches!(self.state, MessageState::Queued | MessageState::Delayed)
    }

    /// The id that it is sent under, if not the client's: in the modern era a retry is a new request to
    /// the server.
    pub(super) fn wire_id(&self, seed: u64) -> Option<Id> {
        let is_new = self.was_repeated && self.envelope.is_some();
        is_new.then(|| Id::string(&format!("again-{seed:016x}-{}", self.ticket.0)))
    }

    /// Whether a further rejection is its final response: what a new session rejects as well is not
    /// about the session.
    pub(super) fn is_last_try(&self) -> bool {
        self.losses >= limits::REOPENINGS_FOR_ONE
    }

    pub(super) fn sent(&self) -> Option<&Sent> {
        let MessageState::Sent(sent) = &self.state else { return None };
        Some(sent)
    }

    pub(super) fn sent_mut(&mut self) -> Option<&mut Sent> {
        let MessageState::Sent(sent) = &mut self.state else { return None };
        Some(sent)
    }

    /// Whether the status of its POST may still say that the server rejected it.
    pub(super) fn may_be_refused(&self) -> bool {
        let is_out = self.sent().is_some_and(|sent| {
            sent.progress.has_started() && !sent.is_acknowledged && sent.failure.is_none()
        });
        is_out
            && self.message.request_id().is_some()
            && !self.message.is_request(&Method::Initialize)
    }
}

/// The silence timeout of `message`. Responses and cancellations always have one: those that hang would
/// block all other urgent messages.
pub(crate) fn silence_limit(message: &Message, timeouts: &Timeouts) -> Option<Duration> {
    match (message.method(), message.timeout().or(timeouts.of(message.clock()))) {
        (None | Some(Method::Cancelled), None) => Some(limits::QUICK_TIMEOUT),
        (_, limit) => limit,
    }
}
