//! One HTTP request and its answer, told together: the answer says whose it is and how long it took.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, Method, Response};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use url::Url;

use super::{Kind, head, headers, in_words, is_on, milliseconds, tell};
use crate::error::Error;
use crate::message::Message;
use crate::secret::shown;

/// A request that is out. Dropping it tells that nobody waits for its answer any more.
#[derive(Debug)]
pub struct Exchange {
    number: u64,
    method: Method,
    url: Url,
    id: Option<Box<RawValue>>,
    rpc_method: Option<String>,
    since: Instant,
    is_over: bool,
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
}

impl Exchange {
    /// Tells that a request leaves; `None` if nobody listens.
    #[must_use]
    pub fn begin(method: &Method, url: &Url, headers: &HeaderMap, body: &Bytes) -> Option<Self> {
        if !is_on() {
            return None;
        }
        let message = Message::parse(body.clone()).ok();
        let (id, rpc_method) = message.as_ref().map(head).unwrap_or_default();
        let exchange = Self {
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            method: method.clone(),
            url: url.clone(),
            id,
            rpc_method,
            since: Instant::now(),
            is_over: false,
        };
        let request = Request {
            exchange: exchange.number,
            method: method.as_str(),
            url: shown(url),
            headers: headers::told(headers, url),
            size: body.len(),
            id: exchange.id.as_deref(),
            rpc_method: exchange.rpc_method.as_deref(),
        };
        tell(Kind::HttpReq, &request);
        Some(exchange)
    }

    /// Tells what came of it.
    pub fn end<B>(mut self, answer: &Result<Response<B>, Error>) {
        self.is_over = true;
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

    fn answer(&self) -> Answer<'_> {
        Answer {
            exchange: self.number,
            method: self.method.as_str(),
            ms: milliseconds(self.since.elapsed()),
            id: self.id.as_deref(),
            rpc_method: self.rpc_method.as_deref(),
            ..Answer::default()
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.is_over {
            tell(Kind::HttpRes, &Answer { given_up: true, ..self.answer() });
        }
    }
}
