//! What the jobs of a link tell it.

use http::HeaderValue;

use super::legacy_sse::{EventStream, RefusedPost};
use crate::error::Error;
use crate::transport::{Send, Ticket};

#[derive(Debug)]
pub(super) enum Report {
    /// The answer to `initialize` is in; the client has not seen it yet.
    Initialized { ticket: Ticket, session_id: Option<HeaderValue>, version: Option<String> },
    /// The answer to `initialize` has begun, and names a session; what it says is still to come.
    Named { session_id: HeaderValue },
    /// The answer to another message names a session.
    Adopted { session_id: HeaderValue },
    /// `notifications/initialized` was accepted.
    Confirmed,
    /// The server no longer knows this session.
    SessionGone { session: HeaderValue, error: Error },
    /// The server refused `initialize`, but opened a stream of the older transport.
    IsLegacySse { send: Box<Send>, stream: Box<EventStream> },
    /// The stream of an HTTP+SSE server stands, or there is none.
    StreamOpened(Result<Box<EventStream>, Error>),
    /// An HTTP+SSE server did not acknowledge a POST.
    Refused(RefusedPost),
}
