//! Reads the answer to a POST: JSON, or an event stream, which is gone on with where it was cut.

use std::time::Duration;

use tokio::time::Instant;

use super::answer::whole;
use super::events::{Events, Item, Position, lost_response, no_response, timeout};
use super::post::Exchange;
use super::stream::{self, NotNow, Opened};
use crate::error::{Error, ErrorKind};
use crate::limits;
use crate::message::{Id, Method};
use crate::net::{Content, Lane};
use crate::traffic::{self, Recovery};
use crate::transport::elements::Elements;
use crate::transport::within;
use crate::wire::lines::without_mark;
use crate::wire::page;

impl Exchange {
    pub(super) async fn read_json(&mut self, body: Content) -> Result<(), Error> {
        // A subscription may be silent for ever; a body that has begun may not.
        let quick = self.context.settings.timeouts.quick;
        let limit = if self.is_subscription() { quick } else { self.limit };
        let body = whole(body, &self.context, limit).await?;
        traffic::message(traffic::TrafficKind::HttpBody, &body);
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
        if self.is_settled {
            return Ok(());
        }
        let Some(malformed) = wrong else { return Err(self.no_response()) };
        let message = format!("The server's answer is {malformed}");
        let mut error = Error::new(ErrorKind::BadResponse, message);
        let text = &body[..body.len().min(limits::ERROR_BODY)];
        error.body = Some(page::readable(&String::from_utf8_lossy(text)).into());
        Err(error)
    }

    /// Reads events until the stream ends, and goes on with it where it was cut.
    pub(super) async fn read_events(&mut self, mut body: Content) -> Result<(), Error> {
        let mut position = Position::default();
        let mut active = Instant::now();
        loop {
            let cause = match self.read_connection(body, &mut position).await {
                Err(error) if error.kind != ErrorKind::Closed => return Err(error),
                read => read.err(),
            };
            if self.is_settled || self.request_id().is_none() {
                return Ok(());
            }
            let after = position.last_id.as_ref().filter(|_| self.is_in_session());
            traffic::stream_cut(traffic::StreamKind::Answer, cause.as_ref(), after);
            let lost = match cause {
                Some(cause) => lost_response(self.answer_id(), &cause),
                None => self.no_response(),
            };
            if position.moved {
                active = Instant::now();
                position.backoff.reset();
            }
            body = Box::pin(self.resume(lost, &mut position, active)).await?;
            traffic::recovery(Recovery::StreamResumed, None);
        }
    }

    /// Delivers what one connection brings behind `position`.
    async fn read_connection(
        &mut self,
        body: Content,
        position: &mut Position,
    ) -> Result<(), Error> {
        let mut events = Events::new(body, &self.context, std::mem::take(position));
        let mut linger = None;
        loop {
            if self.is_settled && self.request_id().is_some() {
                linger.get_or_insert_with(|| Instant::now() + limits::LINGER);
            }
            let next = match linger {
                None => events.next(self.limit).await,
                // Answered: the rest is read for what else it may bring, but not for long.
                Some(end) => Ok(events.rest(end - Instant::now()).await),
            };
            match next {
                Ok(Some(Item::Message(message))) => self.deliver(message).await,
                end => {
                    *position = events.position;
                    return end.map(drop);
                }
            }
        }
    }

    /// The rest of a stream that was cut at `position`, if the server goes on with it; else `lost`.
    /// It was last `active` then.
    async fn resume(
        &self,
        mut lost: Error,
        position: &mut Position,
        active: Instant,
    ) -> Result<Content, Error> {
        let last_id = position.last_id.clone().filter(|_| self.is_in_session());
        if last_id.is_none() {
            return Err(lost);
        }
        let headers = match self.is(&Method::Initialize) {
            true => self.session.opening_stream_headers(self.named_session.as_ref()),
            false => self.session.stream_headers(),
        };
        let (mut away, mut wanted) = (None::<Instant>, None);
        loop {
            let cap = away.map_or(Duration::MAX, |_| limits::AWAY_CAP);
            let pause = position.pause().min(cap).max(wanted.unwrap_or_default());
            if self.limit.is_some_and(|limit| active.elapsed() + pause > limit) {
                return Err(Error { kind: ErrorKind::Timeout, ..lost });
            }
            tokio::time::sleep(pause).await;
            let opening =
                stream::open(&self.context, headers.clone(), last_id.as_ref(), Lane::Calls);
            let opened = match within(self.limit, opening).await {
                Ok(opened) => opened,
                Err(limit) => {
                    let why = timeout("SSE response timeout", limit);
                    return Err(Error { kind: ErrorKind::Timeout, ..lost.because(why) });
                }
            };
            wanted = None;
            match opened {
                Opened::Stream(body) => return Ok(body),
                // Nobody is there to go on with it: the answer is lost with its server.
                Opened::NotNow(NotNow::Unreachable) => {
                    let since = *away.get_or_insert_with(Instant::now);
                    if since.elapsed() >= self.context.settings.away_wait {
                        return Err(lost);
                    }
                }
                Opened::NotNow(NotNow::Busy(pause)) => (away, wanted) = (None, pause),
                Opened::NotNow(NotNow::Soon | NotNow::Silent) => away = None,
                Opened::Never | Opened::Suspicious | Opened::NotNow(NotNow::Later) => {
                    let why = "the server did not go on with the stream that was cut";
                    return Err(lost.because(why));
                }
            }
            lost = self.no_response();
        }
    }

    pub(super) fn no_response(&self) -> Error {
        no_response(self.answer_id())
    }

    /// The id under which an answer is waited for.
    fn answer_id(&self) -> &str {
        self.request_id().map_or("null", Id::as_json)
    }
}
