//! One JSON-RPC message, kept as the bytes that came in; only its head is looked at.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::error::Error;
use crate::limits::Clock;

mod batch;
pub(crate) mod budget;
pub mod edit;
pub(crate) mod fnv_map;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod head;
mod id;
mod in_flight;
mod json;
mod members;
pub mod method;
mod outline;
pub mod peek;
pub mod reply;
mod scan;

pub use batch::{Each, parse_each};
pub use head::Malformed;
pub use id::Id;
pub use in_flight::InFlight;
pub use json::{Json, get};
pub use members::Members;
pub use method::Method;
pub use outline::{Outline, Outliner};

/// One JSON-RPC message: its bytes, and what its head says. Shared, since it passes through many
/// hands on its way and never changes.
#[derive(Clone)]
pub struct Message(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    bytes: Bytes,
    head: Head,
    author: Author,
    /// How long the server may be silent, in place of the link's own limit.
    timeout: Option<Duration>,
}

/// Who wrote a message. It is not in the bytes, so that no peer can claim it: a server may be
/// another mcp-span, with the same ids and errors.
#[derive(Clone, PartialEq, Eq)]
enum Author {
    /// A peer; or it stands for what a peer would have written.
    Peer,
    /// This program, on its own account.
    Bridge,
    /// This program, to say why there is no answer of the peer's.
    Failure(Arc<Error>),
}

/// What a message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    /// Wants an answer.
    Request {
        /// Under this id.
        id: Id,
        /// What is asked.
        method: Method,
    },
    /// Wants none.
    Notification {
        /// What is told.
        method: Method,
    },
    /// Answers a request.
    Response {
        /// Which one; `None` for `"id": null` or no id, an error that could not be attributed.
        id: Option<Id>,
        /// Whether it has an `error` instead of a `result`.
        is_error: bool,
    },
}

impl Head {
    fn id(&self) -> Option<&Id> {
        match self {
            Self::Request { id, .. } => Some(id),
            Self::Response { id, .. } => id.as_ref(),
            Self::Notification { .. } => None,
        }
    }

    fn method(&self) -> Option<&Method> {
        match self {
            Self::Request { method, .. } | Self::Notification { method } => Some(method),
            Self::Response { .. } => None,
        }
    }

    /// The same request or answer under another id; a notification has none.
    #[must_use]
    pub fn with_id(mut self, new: &Id) -> Self {
        match &mut self {
            Self::Request { id, .. } => *id = new.clone(),
            Self::Response { id, .. } => *id = Some(new.clone()),
            Self::Notification { .. } => {}
        }
        self
    }
}

impl Message {
    fn new(bytes: Bytes, head: Head) -> Self {
        Self(Arc::new(Inner { bytes, head, author: Author::Peer, timeout: None }))
    }

    fn by(mut self, author: Author) -> Self {
        if self.0.author != author {
            Arc::make_mut(&mut self.0).author = author;
        }
        self
    }

    /// The same, as a request or an answer of this program's own.
    pub(crate) fn own(self) -> Self {
        self.by(Author::Bridge)
    }

    /// The same, written by whoever wrote `other`.
    pub(crate) fn like(self, other: &Self) -> Self {
        self.by(other.0.author.clone())
    }

    /// The same, with this limit on the server's silence in place of the link's own.
    pub(crate) fn with_timeout(mut self, timeout: Option<Duration>) -> Self {
        if self.0.timeout != timeout {
            Arc::make_mut(&mut self.0).timeout = timeout;
        }
        self
    }

    /// How long the server may be silent, if not as long as the link allows.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.0.timeout
    }

    /// Reads one message; arrays are refused (see [`parse_each`]).
    ///
    /// # Errors
    ///
    /// When the bytes are not JSON, or not a JSON-RPC 2.0 message.
    pub fn parse(bytes: Bytes) -> Result<Self, Malformed> {
        head::parse(&bytes)
    }

    /// The bytes as they came, without white space around them.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.0.bytes
    }

    /// Whether this program wrote it on its own account.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.0.author != Author::Peer
    }

    /// Why there is no answer of the peer's, if this program wrote it to say so.
    #[must_use]
    pub fn failure(&self) -> Option<&Error> {
        let Author::Failure(failure) = &self.0.author else { return None };
        Some(failure)
    }

    /// What the message is.
    #[must_use]
    pub fn head(&self) -> &Head {
        &self.0.head
    }

    /// The id, if it has one.
    #[must_use]
    pub fn id(&self) -> Option<&Id> {
        self.0.head.id()
    }

    /// The method, if it has one.
    #[must_use]
    pub fn method(&self) -> Option<&Method> {
        self.0.head.method()
    }

    /// The id, if it is a request.
    #[must_use]
    pub fn request_id(&self) -> Option<&Id> {
        let Head::Request { id, .. } = &self.0.head else { return None };
        Some(id)
    }

    /// Whether it is a request with this method.
    #[must_use]
    pub fn is_request(&self, wanted: &Method) -> bool {
        matches!(&self.0.head, Head::Request { method, .. } if method == wanted)
    }

    /// Whether it is a notification with this method.
    #[must_use]
    pub fn is_notification(&self, wanted: &Method) -> bool {
        matches!(&self.0.head, Head::Notification { method } if method == wanted)
    }

    /// Whether it is a response, be it a result or an error.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        matches!(&self.0.head, Head::Response { .. })
    }

    /// Whether it is a response that is an error.
    #[must_use]
    pub fn is_error(&self) -> bool {
        matches!(&self.0.head, Head::Response { is_error: true, .. })
    }

    /// How long it may be silent, if it is a request.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.method().map_or(Clock::Quick, |method| method.properties().clock)
    }

    /// The word for it in logs.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match &self.0.head {
            Head::Request { .. } => "request",
            Head::Notification { .. } => "notification",
            Head::Response { is_error: false, .. } => "response",
            Head::Response { is_error: true, .. } => "error",
        }
    }
}

/// By what a peer would see of them.
impl PartialEq for Message {
    fn eq(&self, other: &Self) -> bool {
        self.0.bytes == other.0.bytes && self.0.head == other.0.head
    }
}

impl Eq for Message {}

/// Payloads may hold secrets: the head is all that is ever printed.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.type_name())?;
        if let Some(method) = self.method() {
            write!(f, " {method}")?;
        }
        if let Some(id) = self.id() {
            write!(f, ", id {id}")?;
        }
        write!(f, ", {} bytes", self.0.bytes.len())
    }
}
