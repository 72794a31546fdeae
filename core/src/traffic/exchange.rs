//! One HTTP request and its answer, told together: the answer says whose it is and how long it took.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, Method, Response};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use url::Url;

use super::changes::Recovery;
use super::retried::{Retried, Subject};
use super::{Head, Kind, headers, in_words, is_on, milliseconds, tell, tell_text};
use crate::error::Error;
use crate::message::Message;
use crate::secret::shown;

/// A request that is out. Dropping it tells that nobody waits for its answer any more.
#[derive(Debug)]
pub struct Exchange {
    number: u64,
    method: Method,
    url: Url,
    message: Head,
    /// What it is a try of.
    subject: Subject,
    since: Instant,
    is_over: bool,
    /// A try at a server that was away, of which nothing was told yet.
    retry: Option<Retry>,
}

/// Another try at a server that is away: one line if it fails, those of any other exchange if not.
#[derive(Debug)]
struct Retry {
    number: u32,
    /// What is told as soon as it leaves.
    request: String,
    _retried: Retried,
}

/// Gives each exchange a name that its two lines share.
static NUMBER: AtomicU64 = AtomicU64::new(1);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    exchange: u64,
    method: &'a str,
    url: String,
    headers: Map<String, Value>,
    size: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rpc_method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    exchange: u64,
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    given_up: bool,
    ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rpc_method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
}

impl Head {
    /// By what it is known again when it is sent again. An id of the bridge's own is another one
    /// each time.
    fn subject(&self, method: &Method) -> String {
        let id = self.id.as_deref().map(RawValue::get).unwrap_or_default();
        let id = if id.starts_with("\"mcp-span-") { "" } else { id };
        format!("{method} {} {id}", self.method.as_deref().unwrap_or_default())
    }
}

impl Exchange {
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
        let message = Message::parse(body.clone()).ok();
        let message = message.as_ref().map(Head::of).unwrap_or_default();
        let mut exchange = Self {
            subject: Subject::new(url, message.subject(method)),
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            method: method.clone(),
            url: url.clone(),
            message,
            since: Instant::now(),
            is_over: false,
            retry: None,
        };
        let request = Request {
            exchange: exchange.number,
            method: method.as_str(),
            url: shown(url),
            headers: headers::told(headers, url),
            size: body.len(),
            id: exchange.message.id.as_deref(),
            rpc_method: exchange.message.method.as_deref(),
            name: exchange.message.name.as_deref(),
        };
        match exchange.subject.vain_tries() {
            0 if !is_away => tell(Kind::HttpReq, &request),
            number => {
                let request = serde_json::to_string(&request).unwrap_or_default();
                exchange.retry = Some(Retry { number, request, _retried: Retried::begin(url) });
            }
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
            tell_text(Kind::HttpReq, &retry.request);
        }
    }

    /// Tells what came of it.
    pub fn end<B>(mut self, answer: &Result<Response<B>, Error>) {
        self.is_over = true;
        match answer {
            Err(error) if error.is_unreachable() => self.subject.note_vain_try(),
            _ => self.subject.note_reached(),
        }
        if let (Some(retry), Err(error)) = (&self.retry, answer)
            && error.is_unreachable()
        {
            return self.tell_retry(retry, error);
        }
        self.leaves();
        let told = match answer {
            Ok(response) => Answer {
                status: Some(response.status().as_u16()),
                headers: Some(headers::told(response.headers(), &self.url)),
                ..self.answer()
            },
            Err(error) => {
                Answer { status: error.status, error: Some(in_words(error)), ..self.answer() }
            }
        };
        tell(Kind::HttpRes, &told);
    }

    fn tell_retry(&self, retry: &Retry, error: &Error) {
        #[derive(Serialize)]
        struct Told<'a> {
            what: Recovery,
            why: String,
            number: u32,
            #[serde(flatten)]
            answer: Answer<'a>,
        }
        let (what, number) = (Recovery::Retry, retry.number);
        tell(Kind::Recovery, &Told { what, why: in_words(error), number, answer: self.answer() });
    }

    fn answer(&self) -> Answer<'_> {
        Answer {
            exchange: self.number,
            method: self.method.as_str(),
            ms: milliseconds(self.since.elapsed()),
            id: self.message.id.as_deref(),
            rpc_method: self.message.method.as_deref(),
            name: self.message.name.as_deref(),
            ..Answer::default()
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.is_over {
            self.leaves();
            tell(Kind::HttpRes, &Answer { given_up: true, ..self.answer() });
        }
    }
}
