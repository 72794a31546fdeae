//! Reads the event stream of an HTTP answer: messages out, and the place to go on from.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use hyper::body::Incoming;
use url::Url;

use tracing::{debug, warn};

use super::answer::next_piece;
use crate::error::{Error, Kind};
use crate::message::Malformed;
use crate::wire::sse::{Decoder, TooLarge};

/// How far a stream has been read, across the connections that carry it.
#[derive(Clone, Debug, Default)]
pub(super) struct Position {
    /// The last event id, from which the server can go on.
    pub(super) last_id: Option<HeaderValue>,
    /// How long the server wants us to wait before we ask again.
    pub(super) retry: Option<Duration>,
    /// Whether this connection brought any event.
    pub(super) moved: bool,
}

impl Position {
    fn note(&mut self, id: Option<&Bytes>, retry: Option<Duration>) {
        self.moved = true;
        self.retry = retry.or(self.retry);
        match id {
            Some(id) if id.is_empty() => self.last_id = None,
            // An id that cannot be sent back cannot be resumed from.
            Some(id) => self.last_id = HeaderValue::from_bytes(id).ok(),
            None => {}
        }
    }
}

/// The events of one connection.
pub(super) struct Events<'a> {
    body: Incoming,
    decoder: Decoder,
    url: &'a Url,
    max_message: usize,
}

impl<'a> Events<'a> {
    pub(super) fn new(body: Incoming, max_message: usize, url: &'a Url) -> Self {
        Self { body, decoder: Decoder::new(max_message), url, max_message }
    }

    /// The next payload that is not empty; `None` at the end of the stream.
    ///
    /// `idle` limits the silence between two pieces of the body, comments included (C2).
    pub(super) async fn next_payload(
        &mut self,
        position: &mut Position,
        idle: Option<Duration>,
    ) -> Result<Option<Payload>, Error> {
        loop {
            match self.decoder.next_event() {
                Ok(Some(event)) => {
                    position.note(event.id.as_ref(), event.retry);
                    // Empty data primes a stream or keeps it alive.
                    if let Some(data) = event.data.filter(|data| !data.is_empty()) {
                        let is_message = event.name.as_deref().is_none_or(|n| n == b"message");
                        return Ok(Some(Payload { data, is_message }));
                    }
                    continue;
                }
                Ok(None) => {}
                Err(TooLarge { id }) => {
                    // Whoever goes on from here goes on behind it, or would meet it for ever.
                    position.note(id.as_ref(), None);
                    return Err(too_large(self.max_message));
                }
            }
            let piece = next_piece(&mut self.body, self.url);
            let piece = match idle {
                None => piece.await?,
                Some(limit) => tokio::time::timeout(limit, piece)
                    .await
                    .map_err(|_| timeout("SSE response timeout", limit))??,
            };
            match piece {
                Some(piece) => self.decoder.push(piece),
                None => return Ok(None),
            }
        }
    }
}

/// What an event carries.
pub(super) struct Payload {
    pub(super) data: Bytes,
    /// By its name it is a message; events of other names are tried, but may be anything (C18).
    pub(super) is_message: bool,
}

/// One bad event does not end the stream (S0-21, C3, C18).
pub(super) fn skipped(malformed: &Malformed, is_message: bool) {
    if is_message {
        warn!("SSE error: an event was skipped: {malformed}");
    } else {
        debug!("an event of another sort was skipped: {malformed}");
    }
}

/// The error for silence (S1-34).
pub(super) fn timeout(what: &str, limit: Duration) -> Error {
    Error::new(Kind::Timeout, format!("{what} after {}ms", limit.as_millis()))
        .hint("Allow more with --timeout SECONDS, or 0 for no limit")
}

/// The error for an answer over the limit.
pub(super) fn too_large(limit: usize) -> Error {
    Error::new(Kind::TooLarge, format!("The answer is larger than {limit} bytes"))
        .hint("Allow larger messages with --max-message-size")
}
