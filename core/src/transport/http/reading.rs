//! Reads the answer to a POST: JSON, or an event stream, which is gone on with where it was cut.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use tokio::time::Instant;

use super::answer::{whole, without_mark};
use super::events::{Events, Position, lost_response, no_response};
use super::post::Exchange;
use super::stream::{self, Resumed};
use crate::error::{Error, Kind};
use crate::limits;
use crate::message::{Id, Method};
use crate::net::Content;
use crate::net::backoff::Backoff;
use crate::traffic::{self, Recovery};
use crate::transport::elements::Elements;
use crate::wire::{header, page};

impl Exchange {
    pub(super) async fn read_json(&mut self, body: Content) -> Result<(), Error> {
        // A subscription may be silent for ever; a body that has begun may not.
        let quick = self.context.settings.timeouts.quick;
        let limit = if self.is_subscription() { quick } else { self.limit };
        let body = whole(body, &self.context, limit).await?;
        self.deliver_body(body).await
    }

    async fn deliver_body(&mut self, body: Bytes) -> Result<(), Error> {
        traffic::message(traffic::Kind::HttpBody, &body);
        if body.trim_ascii().is_empty() {
            return Err(self.no_response().because("the body of the answer is empty"));
        }
        let mut wrong = None;
        let body = without_mark(body);
        let mut elements = Elements::of(body.clone());
        while let Some(element) = elements.next().await {
            match element {
                Ok(message) => self.deliver(message).await,
                Err(malformed) => wrong = Some(malformed),
            }
        }
        match wrong {
            Some(malformed) if !self.is_settled => {
                let message = format!("The server's answer is {malformed}");
                let mut error = Error::new(Kind::BadResponse, message);
                let text = &body[..body.len().min(limits::ERROR_BODY)];
                error.body = Some(page::readable(&String::from_utf8_lossy(text)).into());
                Err(error)
            }
            _ if !self.is_settled => Err(self.no_response()),
            _ => Ok(()),
        }
    }

    /// Reads events until the stream ends, and goes on with it where it was cut.
    pub(super) async fn read_events(&mut self, body: Content) -> Result<(), Error> {
        let mut position = Position::default();
        let mut backoff = Backoff::default();
        let mut active = Instant::now();
        let (mut away, mut wanted) = (None, None::<Duration>);
        let mut body = Some(body);
        loop {
            let mut cause = None;
            position.moved = false;
            let is_cut = body.is_some();
            if let Some(body) = body.take() {
                match self.read_connection(body, &mut position).await {
                    Ok(()) => {}
                    Err(error) if error.kind == Kind::Closed => cause = Some(error),
                    Err(error) => return Err(error),
                }
                if position.moved {
                    active = Instant::now();
                    backoff.reset();
                }
            }
            if self.is_settled || self.request_id().is_none() {
                return Ok(());
            }
            if is_cut {
                self.tell_cut(&position, cause.as_ref());
            }
            let lost = cause.map_or_else(|| self.no_response(), |cause| self.lost(&cause));
            let Some(last_id) = position.last_id.clone().filter(|_| self.rules.resumable) else {
                return Err(lost);
            };
            let cap = away.map_or(Duration::MAX, |_| limits::AWAY_CAP);
            let pause = stream::pause(&position, &mut backoff).min(cap);
            let pause = pause.max(wanted.take().unwrap_or_default());
            if self.limit.is_some_and(|limit| active.elapsed() + pause > limit) {
                return Err(Error { kind: Kind::Timeout, ..lost });
            }
            tokio::time::sleep(pause).await;
            match Box::pin(self.resume(last_id)).await {
                Ok(Resumed::Stream(resumed)) => {
                    traffic::recovery(Recovery::StreamResumed, None);
                    (body, away) = (Some(resumed), None);
                }
                Ok(Resumed::Busy(pause)) => (away, wanted) = (None, pause),
                // Nobody is there to go on with it: the answer is lost with its server.
                Ok(Resumed::Unreachable) => {
                    let since: Instant = *away.get_or_insert_with(Instant::now);
                    if since.elapsed() >= self.context.settings.away_wait {
                        return Err(lost);
                    }
                }
                Err(error) if error.kind == Kind::Timeout => {
                    return Err(Error { kind: Kind::Timeout, ..lost.because(error) });
                }
                Err(error) => return Err(lost.because(error)),
            }
        }
    }

    fn tell_cut(&self, position: &Position, cause: Option<&Error>) {
        let after = position.last_id.as_ref().filter(|_| self.rules.resumable);
        traffic::stream_cut(traffic::Stream::Answer, cause, after);
    }

    async fn read_connection(
        &mut self,
        body: Content,
        position: &mut Position,
    ) -> Result<(), Error> {
        let max_message = self.context.settings.max_message;
        let mut events = Events::new(body, max_message, Arc::clone(&self.context.endpoint));
        let mut linger = None;
        loop {
            if self.is_settled && self.request_id().is_some() {
                linger.get_or_insert_with(|| Instant::now() + limits::LINGER);
            }
            let payload = match linger {
                None => events.next_payload(position, self.limit).await?,
                // Answered: the rest is read for what else it may bring, but not for long.
                Some(end) => events.rest(position, end.into()).await,
            };
            let Some(payload) = payload else {
                return Ok(());
            };
            let mut messages = payload.messages();
            while let Some(message) = messages.next().await {
                self.deliver(message).await;
            }
        }
    }

    /// Asks the server to go on behind `last_id`.
    async fn resume(&self, last_id: HeaderValue) -> Result<Resumed, Error> {
        let mut headers = match self.is(&Method::Initialize) {
            true => self.session.opening_stream_headers(self.named_session.as_ref()),
            false => self.session.stream_headers(),
        };
        headers.insert(header::LAST_EVENT_ID, last_id);
        stream::reopen(&self.context, headers, self.limit).await
    }

    pub(super) fn no_response(&self) -> Error {
        no_response(self.request_id().map_or("null", Id::as_json))
    }

    /// The same, because the connection broke.
    pub(super) fn lost(&self, cause: &Error) -> Error {
        lost_response(self.request_id().map_or("null", Id::as_json), cause)
    }
}
