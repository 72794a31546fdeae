//! One JSON-RPC message, kept as the bytes that came in; only its head is looked at.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

mod batch;
pub mod edit;
mod head;
mod id;
mod in_flight;
mod lenient;
mod members;
mod outline;
pub mod peek;
pub mod reply;
mod scan;
pub(crate) mod table;

pub use batch::{Each, parse_each};
pub use head::Malformed;
pub use id::Id;
pub use in_flight::InFlight;
pub use lenient::{lenient, string_length};
pub use members::Members;
pub use outline::{Outline, Outliner};

/// One JSON-RPC message: its bytes, and what its head says. Shared, since it passes through many
/// hands on its way and never changes.
#[derive(Clone)]
pub struct Message(Arc<Content>);

#[derive(Clone)]
struct Content {
    bytes: Bytes,
    head: Head,
    /// An answer of this program's own: an error, or a result in the server's place. It is not in
    /// the bytes, so that no peer can claim it.
    is_own: bool,
}

/// What a message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    /// Wants an answer.
    Request {
        /// Under this id.
        id: Id,
        /// What is asked.
        method: Arc<str>,
    },
    /// Wants none.
    Notification {
        /// What is told.
        method: Arc<str>,
    },
    /// Answers a request.
    Response {
        /// Which one; `None` for `"id": null` or no id, an error that could not be attributed.
        id: Option<Id>,
        /// Whether it has an `error` instead of a `result`.
        is_error: bool,
    },
}

impl Message {
    fn new(bytes: Bytes, head: Head) -> Self {
        Self(Arc::new(Content { bytes, head, is_own: false }))
    }

    /// The same, as an answer of this program's own or not.
    fn marked(mut self, is_own: bool) -> Self {
        if self.0.is_own != is_own {
            Arc::make_mut(&mut self.0).is_own = is_own;
        }
        self
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

    /// Whether this program wrote it to say why there is no answer of the server's.
    pub fn is_own(&self) -> bool {
        self.0.is_own
    }

    /// What the message is.
    #[must_use]
    pub fn head(&self) -> &Head {
        &self.0.head
    }

    /// The id, if it has one.
    #[must_use]
    pub fn id(&self) -> Option<&Id> {
        match &self.0.head {
            Head::Request { id, .. } => Some(id),
            Head::Response { id, .. } => id.as_ref(),
            Head::Notification { .. } => None,
        }
    }

    /// The method, if it has one.
    #[must_use]
    pub fn method(&self) -> Option<&str> {
        match &self.0.head {
            Head::Request { method, .. } | Head::Notification { method } => Some(method),
            Head::Response { .. } => None,
        }
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
