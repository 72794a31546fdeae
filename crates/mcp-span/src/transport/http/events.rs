//! Reads the event stream of an HTTP answer: messages out, and the place to go on from.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderValue;
use tracing::{debug, warn};

use super::Context;
use crate::error::{Error, ErrorKind};
use crate::limits;
use crate::message::{Message, Outline, Outliner};
use crate::net::backoff::Backoff;
use crate::net::{Content, Endpoint};
use crate::traffic;
use crate::transport::elements::Elements;
use crate::transport::within;
use crate::wire::sse::{Decoder, TooLarge};

/// How far a stream has been read, across the connections that carry it, and when it is asked for
/// again.
#[derive(Clone, Debug, Default)]
pub(super) struct Position {
    /// The last event id, from which the server can go on.
    pub(super) last_id: Option<HeaderValue>,
    /// How long the server wants us to wait before we ask again.
    pub(super) retry: Option<Duration>,
    /// Whether this connection brought any event.
    pub(super) moved: bool,
    /// Our own delay.
    pub(super) backoff: Backoff,
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

    /// How long to wait before the stream is asked for again (C29): what the server said, exactly,
    /// if it brought anything since (and it is no invitation to a storm); else the longer of that and
    /// our own backoff.
    pub(super) fn pause(&mut self) -> Duration {
        let has_moved = std::mem::take(&mut self.moved);
        match self.retry.map(|retry| retry.max(limits::RETRY_FLOOR)) {
            Some(retry) if has_moved => retry,
            Some(retry) => retry.max(self.backoff.next_pause()),
            None => self.backoff.next_pause(),
        }
    }
}

/// The events of one connection, and the messages in them.
#[derive(Debug)]
pub(super) struct Events {
    body: Content,
    decoder: Decoder,
    /// Where they come from, in the end.
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) position: Position,
    max_message: usize,
    /// Whether an event over the limit is passed by; if not, it ends the stream.
    skips_oversized: bool,
    /// One that is passing by.
    oversized: Option<Outliner>,
    /// What is left of the payload that is being read, and whether it is a message by its name.
    reading: Option<(Elements, bool)>,
    /// Payloads that came close behind one another, and how the stream has ended behind those.
    gathered: VecDeque<Result<Option<Payload>, Error>>,
    /// When one last came.
    last: Option<Instant>,
}

/// What a stream brings.
#[derive(Debug)]
pub(super) enum Item {
    Message(Message),
    /// In place of an event over the limit, where that does not end the stream.
    Oversized(Outline),
}

impl Events {
    /// Those that `body` brings, behind `position`.
    pub(super) fn new(body: Content, context: &Context, position: Position) -> Self {
        let max_message = context.settings.max_message;
        Self {
            body,
            decoder: Decoder::new(max_message),
            endpoint: Arc::clone(&context.endpoint),
            position,
            max_message,
            skips_oversized: false,
            oversized: None,
            reading: None,
            gathered: VecDeque::new(),
            last: None,
        }
    }

    /// An event over the limit does not end the stream: others wait for what follows it.
    pub(super) fn skipping_oversized(self) -> Self {
        Self { skips_oversized: true, ..self }
    }

    /// The next message; `None` at the end of the stream. Nothing is lost if it is dropped and asked
    /// for again.
    ///
    /// `idle` limits the silence between two pieces of the body, comments included (C2).
    pub(super) async fn next(&mut self, idle: Option<Duration>) -> Result<Option<Item>, Error> {
        loop {
            if let Some(message) = self.read_on().await {
                return Ok(Some(Item::Message(message)));
            }
            self.reading = match self.next_payload(idle).await? {
                Some(Payload::Event { name, data }) => {
                    let is_message = name.is_none_or(|name| name == b"message"[..]);
                    Some((Elements::of(data), is_message))
                }
                Some(Payload::Oversized(outline)) => return Ok(Some(Item::Oversized(outline))),
                None => return Ok(None),
            };
        }
    }

    /// The next message of the payload that is being read; what is none is skipped.
    async fn read_on(&mut self) -> Option<Message> {
        let (elements, is_message) = self.reading.as_mut()?;
        while let Some(element) = elements.next().await {
            if let Ok(message) = element {
                return Some(message);
            }
        }
        // One bad event does not end the stream (S0-21, C3, C18).
        if !*is_message {
            if let Some(skipped) = elements.skipped("an event of another sort") {
                debug!("{skipped}");
            }
        } else if let Some(skipped) = elements.skipped("an event") {
            warn!("SSE error: {skipped}");
        }
        self.reading = None;
        None
    }

    /// The same as `next`, but with the payload as it came, if it is not empty.
    pub(super) async fn next_payload(
        &mut self,
        idle: Option<Duration>,
    ) -> Result<Option<Payload>, Error> {
        if let Some(next) = self.gathered.pop_front() {
            return next;
        }
        let Some(payload) = self.wait(idle).await? else { return Ok(None) };
        let now = Instant::now();
        if self.last.replace(now).is_none_or(|last| now - last >= limits::BURST_GAP) {
            return Ok(Some(payload));
        }
        let bytes = payload.len();
        self.gathered.push_back(Ok(Some(payload)));
        self.gather(bytes).await;
        self.gathered.pop_front().unwrap_or(Ok(None))
    }

    /// What comes next within `limit`, if anything does. Most streams end with the answer, and where
    /// that has come already, no clock is needed.
    pub(super) async fn rest(&mut self, limit: Duration) -> Option<Item> {
        yield_once().await;
        within(Some(limit), self.next(None)).await.ok()?.ok().flatten()
    }

    /// Takes in what comes close behind the first `bytes`, for as long as every turn of whoever reads
    /// from the network brings more: all of it goes on together, at a fraction of the cost.
    async fn gather(&mut self, mut bytes: usize) {
        // Large ones are not held up: there is little to be gained, and much to be held.
        while self.gathered.len() < limits::BURST && bytes < limits::READ_CHUNK {
            let next = match self.decoded().transpose() {
                Some(payload) => payload.map(Some),
                None => {
                    yield_once().await;
                    let Some(next) = poll_once(self.wait(None)).await else { return };
                    next
                }
            };
            let Ok(Some(payload)) = &next else { return self.gathered.push_back(next) };
            bytes += payload.len();
            self.gathered.push_back(next);
        }
    }

    async fn wait(&mut self, idle: Option<Duration>) -> Result<Option<Payload>, Error> {
        loop {
            if let Some(payload) = self.decoded()? {
                return Ok(Some(payload));
            }
            let piece = self.body.next(self.endpoint.url());
            let piece = within(idle, piece).await;
            match piece.map_err(|limit| timeout("SSE response timeout", limit))?? {
                Some(piece) => self.decoder.push(piece),
                None => return Ok(None),
            }
        }
    }

    /// What the pieces so far hold.
    fn decoded(&mut self) -> Result<Option<Payload>, Error> {
        loop {
            if let Some(outliner) = &mut self.oversized {
                if !self.decoder.skip_event(|bytes| outliner.feed(bytes)) {
                    return Ok(None);
                }
                let outline = std::mem::take(outliner).finish();
                self.oversized = None;
                return Ok(Some(Payload::Oversized(outline)));
            }
            match self.decoder.next_event() {
                Ok(Some(event)) => {
                    traffic::event(&event, self.endpoint.url());
                    self.position.note(event.id.as_ref(), event.retry);
                    if let Some(data) = event.data.filter(|data| !is_priming(data)) {
                        return Ok(Some(Payload::Event { name: event.name, data }));
                    }
                }
                Ok(None) => return Ok(None),
                Err(TooLarge { .. }) if self.skips_oversized => {
                    self.oversized = Some(Outliner::default());
                }
                Err(TooLarge { id }) => {
                    // Whoever goes on from here goes on behind it, or would meet it for ever.
                    self.position.note(id.as_ref(), None);
                    return Err(too_large(self.max_message));
                }
            }
        }
    }
}

/// What an event carries.
#[derive(Debug)]
pub(super) enum Payload {
    /// By its name it is a message. Events of other names are tried, but may be anything (C18).
    Event { name: Option<Bytes>, data: Bytes },
    /// It was over the limit and not kept.
    Oversized(Outline),
}

impl Payload {
    fn len(&self) -> usize {
        match self {
            Self::Event { data, .. } => data.len(),
            Self::Oversized(_) => 0,
        }
    }
}

/// Empty data primes a stream or keeps it alive. The TypeScript SDK stores it as `{}`, and its
/// servers repeat that where a stream is resumed behind it.
fn is_priming(data: &Bytes) -> bool {
    data.is_empty() || data[..] == b"{}"[..]
}

/// Lets all others have their turn that are ready for one.
async fn yield_once() {
    let mut has_waited = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        // Not the runtime's own way to yield: that looks for news from the system every time.
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// What a future has to say now; it is dropped if that is nothing.
async fn poll_once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// S1-15: the request with this id has no answer, and there will be none.
pub(super) fn no_response(id: &str) -> Error {
    Error::new(ErrorKind::NoResponse, format!("No response received for request ID {id}"))
}

/// The same, because the connection broke.
pub(crate) fn lost_response(id: &str, cause: &Error) -> Error {
    let reason = cause.reason.as_deref().unwrap_or(&cause.message);
    Error { kind: ErrorKind::Closed, ..no_response(id).because(reason) }
}

/// The error for silence (S1-34).
pub(crate) fn timeout(what: &str, limit: Duration) -> Error {
    Error::new(ErrorKind::Timeout, format!("{what} after {}ms", limit.as_millis()))
        .hint("Allow more with --timeout SECONDS, or 0 for no limit")
}

/// The error for an answer over the limit.
pub(super) fn too_large(limit: usize) -> Error {
    Error::new(ErrorKind::TooLarge, format!("The answer is larger than {limit} bytes"))
        .hint("Allow larger messages with --max-message-size")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn the_servers_own_delay_is_kept_exactly() {
        // C29
        let of = |retry: Option<u64>, moved| {
            let retry = retry.map(Duration::from_millis);
            let mut position = Position { retry, moved, ..Position::default() };
            let pause = position.pause();
            assert!(!position.moved);
            pause
        };
        assert_eq!(of(Some(1234), true), Duration::from_millis(1234));
        assert_eq!(of(Some(1234), false), Duration::from_millis(1234));
        assert_eq!(of(Some(0), true), limits::RETRY_FLOOR);
        assert!(of(Some(0), false) >= limits::BACKOFF_BASE / 2);
        assert!(of(None, false) >= limits::BACKOFF_BASE / 2);
    }

    #[tokio::test]
    async fn others_have_their_turn_and_nobody_waits() {
        let has_run = Arc::new(AtomicBool::new(false));
        let other = Arc::clone(&has_run);
        tokio::spawn(async move { other.store(true, Ordering::Relaxed) });
        assert!(!has_run.load(Ordering::Relaxed));
        yield_once().await;
        assert!(has_run.load(Ordering::Relaxed));
        assert_eq!(poll_once(async { 5 }).await, Some(5));
        assert_eq!(poll_once(std::future::pending::<()>()).await, None);
    }
}
