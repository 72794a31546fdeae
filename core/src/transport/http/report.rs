//! What the jobs of a link tell it.

use std::sync::Arc;

use http::HeaderValue;

use super::legacy_sse::{EventStream, Refused};
use super::session::SessionHeaders;
use crate::error::Error;
use crate::message::Message;
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
    /// The server does not know the session that a message was sent in.
    SessionRejected {
        ticket: Ticket,
        session: Arc<SessionHeaders>,
        error: Error,
        /// The server's own error, in case that it is not about the session.
        last_word: Option<Message>,
        /// It has met a loss before: this one is about something else.
        is_last_try: bool,
    },
    /// The same, found out without a message of the client's.
    SessionGone { session: HeaderValue },
    /// The server refused `initialize`, but opened a stream of the older transport.
    IsLegacySse { send: Box<Send>, stream: Box<EventStream> },
    /// The stream of an HTTP+SSE server stands, or there is none.
    StreamOpened(Result<Box<EventStream>, Error>),
    /// An HTTP+SSE server did not acknowledge a POST.
    Refused(Refused),
}
