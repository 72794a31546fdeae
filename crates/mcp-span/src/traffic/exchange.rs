//! One HTTP request and its answer, told together: the answer says whose it is and how long it took.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, Method, Response};
use serde_json::value::RawValue;
use url::Url;

use super::changes::Recovery;
use super::retried::{RetriedSubject, RetryTrace};
use super::{Data, MessageSummary, TrafficKind, headers, in_words, is_on, milliseconds, tell};
use crate::error::Error;
use crate::secret::shown;

/// A request that is out. Dropping it tells that nobody waits for its answer any more.
#[derive(Debug)]
pub struct ExchangeTrace {
    number: u64,
    method: Method,
    url: Url,
    message: MessageSummary,
    /// What it is a try of.
    subject: RetriedSubject,
    since: Instant,
    is_over: bool,
    /// A try at a server that was away, of which nothing was told yet.
    retry: Option<RetryTrace>,
}

/// Gives each exchange a name that its two lines share.
static NUMBER: AtomicU64 = AtomicU64::new(1);

impl MessageSummary {
    /// By what it is known again when it is sent again. An id of the bridge's own is another one
    /// each time.
    fn subject(&self, method: &Method) -> String {
        let id = self.id.as_deref().map(RawValue::get).unwrap_or_default();
        let id = if id.starts_with("\"mcp-span-") { "" } else { id };
        format!("{method} {} {id}", self.method.as_deref().unwrap_or_default())
    }

    fn add_to(&self, data: Data) -> Data {
        data.with_some("id", self.id.as_ref())
            .with_some("rpcMethod", self.method.as_ref())
            .with_some("name", self.name.as_ref())
    }
}

impl ExchangeTrace {
    /// Tells that a request leaves; `None` if nobody listens. `is_away`: the server could not be
    /// reached by whatever was sent last.
    #[must_use]
    pub fn begin(
        method: &Method,
        url: &Url,
        headers: &HeaderMap,
        body: &Bytes,
        is_away: bool,
    ) -> Option<Self> {
        if !is_on() {
            return None;
        }
        let message = MessageSummary::of(body);
        let mut exchange = Self {
            subject: RetriedSubject::new(url, message.subject(method)),
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            method: method.clone(),
            url: url.clone(),
            message,
            since: Instant::now(),
            is_over: false,
            retry: None,
        };
        let request = exchange
            .data(Data::default())
            .with("url", shown(url))
            .with("headers", headers::told(headers, url))
            .with("size", body.len());
        let request = exchange.message.add_to(request);
        match exchange.subject.vain_tries() {
            0 if !is_away => tell(TrafficKind::HttpReq, &request),
            number => exchange.retry = Some(exchange.subject.retry(number, request)),
        }
        Some(exchange)
    }

    /// Whether nothing was told of it yet.
    #[must_use]
    pub fn is_retry(&self) -> bool {
        self.retry.is_some()
    }

    /// It is on its way: there is a connection.
    pub fn leaves(&mut self) {
        if let Some(retry) = self.retry.take() {
            tell(TrafficKind::HttpReq, &retry.request);
        }
    }

    /// Tells what came of it.
    pub fn end<B>(mut self, answer: &Result<Response<B>, Error>) {
        self.is_over = true;
        let unreachable = answer.as_ref().err().filter(|error| error.is_unreachable());
        match unreachable {
            Some(_) => self.subject.note_vain_try(),
            None => self.subject.note_reached(),
        }
        if let (Some(retry), Some(error)) = (&self.retry, unreachable) {
            let data = Data::default()
                .with("what", Recovery::Retry)
                .with("why", in_words(error))
                .with("number", retry.number);
            return tell(TrafficKind::Recovery, &self.ended(self.data(data)));
        }
        self.leaves();
        let data = self.data(Data::default());
        let data = match answer {
            Ok(response) => data
                .with("status", response.status().as_u16())
                .with("headers", headers::told(response.headers(), &self.url)),
            Err(error) => data.with_some("status", error.status).with("error", in_words(error)),
        };
        tell(TrafficKind::HttpRes, &self.ended(data));
    }

    /// Which exchange it is.
    fn data(&self, data: Data) -> Data {
        data.with("exchange", self.number).with("method", self.method.as_str())
    }

    /// How long it took, and for what.
    fn ended(&self, data: Data) -> Data {
        self.message.add_to(data.with("ms", milliseconds(self.since.elapsed())))
    }
}

impl Drop for ExchangeTrace {
    fn drop(&mut self) {
        if !self.is_over {
            self.leaves();
            tell(
                TrafficKind::HttpRes,
                &self.ended(self.data(Data::default()).with("givenUp", true)),
            );
        }
    }
}
