//! A call as the request that HTTP/1.1 writes.

use std::fmt;
use std::sync::Arc;

use http::header::{CONTENT_LENGTH, HOST, PROXY_AUTHORIZATION};
use http::{HeaderMap, HeaderValue, Request};

use super::body::Outbound;
use super::proxy::Proxy;
use super::{Call, Endpoint};

/// The headers of the last request, for the next one: most calls of a session have the same.
///
/// To put two more into a copy of a call's headers takes as long as to copy them twice, since such a
/// copy has no room for them: 1,300 instructions of a call.
#[derive(Default)]
pub(super) struct Habit(Option<Kept>);

/// Headers are secrets.
impl fmt::Debug for Habit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Habit")
    }
}

struct Kept {
    /// Of which call they are; both are kept, or others might come to lie in the same place.
    of: (Arc<HeaderMap>, Arc<Endpoint>),
    /// All that go on the wire, with a length that stands for any other.
    headers: HeaderMap,
}

impl Habit {
    /// The request that carries `call`; `forwarder` is the proxy that passes it on, if one does. It
    /// is the same for all calls to a host.
    pub(super) fn request(
        &mut self,
        call: &Call,
        forwarder: Option<&Arc<Proxy>>,
    ) -> Request<Outbound> {
        let mut request = Request::new(Outbound::new(call.body.clone(), call.progress.clone()));
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = match forwarder {
            None => call.endpoint.path().clone(),
            Some(_) => call.endpoint.uri().clone(),
        };
        // What nobody shares is not seen again: headers with a cookie in them, or with a fresh token.
        let is_shared = Arc::strong_count(&call.headers) > 1;
        *request.headers_mut() = if call.body.is_empty() || !is_shared {
            headers(call, forwarder)
        } else {
            self.with_length(call, forwarder)
        };
        request
    }

    fn with_length(&mut self, call: &Call, forwarder: Option<&Arc<Proxy>>) -> HeaderMap {
        let kept = match self.0.take() {
            Some(kept) if kept.is_of(call) => self.0.insert(kept),
            _ => self.0.insert(Kept::new(call, forwarder)),
        };
        let mut headers = kept.headers.clone();
        if let Some(length) = headers.get_mut(CONTENT_LENGTH) {
            *length = call.body.len().into();
        }
        headers
    }
}

impl Kept {
    fn new(call: &Call, forwarder: Option<&Arc<Proxy>>) -> Self {
        let mut headers = headers(call, forwarder);
        headers.insert(CONTENT_LENGTH, HeaderValue::from(0));
        Self { of: (Arc::clone(&call.headers), Arc::clone(&call.endpoint)), headers }
    }

    fn is_of(&self, call: &Call) -> bool {
        Arc::ptr_eq(&self.of.0, &call.headers) && Arc::ptr_eq(&self.of.1, &call.endpoint)
    }
}

/// The headers of `call`, and those that HTTP itself needs.
fn headers(call: &Call, forwarder: Option<&Arc<Proxy>>) -> HeaderMap {
    let mut headers = HeaderMap::clone(&call.headers);
    if !headers.contains_key(HOST) {
        headers.insert(HOST, call.endpoint.host().clone());
    }
    if let Some(login) = forwarder.and_then(|proxy| proxy.login.as_ref()) {
        headers.insert(PROXY_AUTHORIZATION, login.basic.clone());
    }
    headers
}
