//! Keeps a subscription open: its stream is opened again whenever it ends without a last word.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::debug;

use super::SendOptions;
use super::answer::{Answer, Refusal};
use super::events::{Events, Position};
use super::post::Exchange;
use super::stream;
use crate::error::{Error, Kind};
use crate::limits;
use crate::message::{Id, Message, Method};
use crate::net::Content;
use crate::net::backoff::{Backoff, entropy};
use crate::revision::subscription::{self, Promise};
use crate::traffic::{self, Recovery};

/// What asking for the stream once more led to.
enum Again {
    Stream(Content),
    /// Not now, and not before this time has passed.
    NotNow(Duration),
    /// There is nobody.
    Unreachable,
    /// Somebody is there and says nothing: it may be that he keeps the head of the answer back.
    Silent,
    /// The request has ended, in this way.
    Over(Result<(), Error>),
}

impl Exchange {
    /// Whether it is the request for a stream that stays.
    pub(super) fn is_subscription(&self) -> bool {
        self.send.envelope.is_some() && self.is(&Method::Listen)
    }

    /// Whether it is such a request that broke on the way. If nobody could be reached at all, it goes
    /// the way of all requests; else it may be sent once more, since to subscribe twice does no harm.
    pub(super) fn is_cut_subscription(&self, error: &Error) -> bool {
        self.is_subscription() && error.kind == Kind::Closed && !error.is_unreachable()
    }

    /// Delivers what the subscription brings, on `stream` and on those that follow it, until the
    /// server ends it, or the task is dropped.
    pub(super) async fn listen(&mut self, mut stream: Option<Content>) -> Result<(), Error> {
        let mut position = Position::default();
        let mut backoff = Backoff::default();
        let mut hasty = 0;
        loop {
            position.moved = false;
            if let Some(body) = stream.take() {
                let since = Instant::now();
                self.hear(body, &mut position).await;
                if self.is_settled || self.send.progress.is_abandoned() {
                    return Ok(());
                }
                if since.elapsed() > limits::STREAM_STEADY {
                    backoff.reset();
                    hasty = 0;
                }
                hasty += 1;
                // A server that ends its stream again and again is not asked as often as it says.
                position.moved &= hasty <= limits::HASTY_REOPENINGS;
            }
            tokio::time::sleep(stream::pause(&position, &mut backoff)).await;
            stream = match self.keep_asking(&mut backoff).await {
                Ok(body) => Some(body),
                Err(end) => return end,
            };
            traffic::recovery(Recovery::StreamReopened, None);
            self.tell_reached().await;
        }
    }

    /// The next stream; or the end of the request.
    async fn keep_asking(&mut self, backoff: &mut Backoff) -> Result<Content, Result<(), Error>> {
        loop {
            match self.open_again().await {
                Again::Stream(body) => return Ok(body),
                Again::NotNow(wanted) => {
                    tokio::time::sleep(backoff.next_pause().max(wanted)).await;
                }
                Again::Unreachable => tokio::select! {
                    () = tokio::time::sleep(backoff.next_pause()) => {}
                    // Another request got through: after hours, pauses are long.
                    () = self.context.is_back.notified() => backoff.reset(),
                },
                Again::Silent => {
                    backoff.reset();
                    tokio::time::sleep(backoff.next_pause()).await;
                }
                Again::Over(end) => return Err(end),
            }
        }
    }

    /// Delivers what one connection brings. No limit on silence: there may be nothing to tell for
    /// days.
    async fn hear(&mut self, body: Content, position: &mut Position) {
        let max_message = self.context.settings.max_message;
        let events = Events::new(body, max_message, Arc::clone(&self.context.endpoint));
        let mut events = events.skipping_oversized();
        let mut may_have_missed = self.promise.clone();
        while !self.is_settled {
            let payload = match events.next_payload(position, None).await {
                Ok(Some(payload)) => payload,
                Ok(None) => return traffic::stream_cut(traffic::Stream::Own, None, None),
                Err(error) => {
                    let error = self.context.scrubbed(error);
                    return traffic::stream_cut(traffic::Stream::Own, Some(&error), None);
                }
            };
            let mut messages = payload.messages();
            while let Some(message) = messages.next().await {
                let message = self.as_subscribed(message);
                let Some(promise) = Promise::of(&message) else {
                    self.deliver(message).await;
                    continue;
                };
                if self.promise.is_none() {
                    self.promise = Some(promise);
                    self.deliver(message).await;
                } else if let Some(promise) = may_have_missed.take() {
                    // The client knows nothing of another stream: it hears what that is about.
                    self.tell_what_may_have_changed(&promise).await;
                }
            }
        }
    }

    /// The client knows the subscription by the id of its own request.
    fn as_subscribed(&self, message: Message) -> Message {
        match (self.request_id(), &self.alias) {
            (Some(own), Some(_)) => subscription::of_request(message, own),
            _ => message,
        }
    }

    async fn tell_what_may_have_changed(&mut self, promise: &Promise) {
        let Some(id) = self.request_id().cloned() else { return };
        for message in promise.missed(&id) {
            self.deliver(message).await;
        }
    }

    async fn open_again(&mut self) -> Again {
        // To the server it is another request.
        self.alias = Some(Id::string(&format!("mcp-span-{:016x}", entropy())));
        let call = self.written_again();
        // Nobody is bothered with a login for it; a client that is told of the end can ask again.
        let sending = self.context.send(call, SendOptions::aside());
        let limit = self.context.settings.timeouts.quick.unwrap_or(limits::QUICK_TIMEOUT);
        let response = match tokio::time::timeout(limit, sending).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) if is_final(&error) => return Again::Over(Err(error)),
            Ok(Err(error)) => {
                self.context.note_absence(&error);
                debug!("no stream for a subscription: {}", self.context.scrubbed(error));
                return Again::Unreachable;
            }
            Err(_) => return Again::Silent,
        };
        match Answer::sort(response, true, self.context.endpoint.url()) {
            Answer::Events(body) => Again::Stream(body),
            Answer::Json(body) => Again::Over(self.read_json(body).await),
            Answer::Unreadable(error) => Again::Over(Err(error)),
            Answer::Accepted(_) => Again::Over(Err(self.no_response())),
            Answer::Refused(response) => {
                let refusal = Refusal::read(response, &self.context).await;
                match refusal.status().as_u16() {
                    408 | 425 | 429 | 500.. => {
                        let error = refusal.error();
                        debug!("no stream for a subscription: {error}");
                        Again::NotNow(error.retry_after.unwrap_or_default())
                    }
                    _ => Again::Over(self.heed_refusal(refusal).await),
                }
            }
        }
    }
}

/// Whether trying again would not help, or do harm: a proxy may lock accounts.
fn is_final(error: &Error) -> bool {
    matches!(error.kind, Kind::ProxyAuth | Kind::Redirect | Kind::BadUrl)
}
