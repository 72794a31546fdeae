//! A call as the request that goes on a connection.

use std::fmt;
use std::sync::Arc;

use http::header::{CONTENT_LENGTH, HOST, PROXY_AUTHORIZATION};
use http::{HeaderMap, HeaderValue, Request, Uri};

use super::body::Outbound;
use super::proxy::Proxy;
use super::{Call, Endpoint};

/// The headers of the last request, for the next one: most calls of a session have the same.
///
/// To put two more into a copy of a call's headers takes as long as to copy them twice, since such a
/// copy has no room for them: 1,300 instructions of a call.
#[derive(Default)]
pub(super) struct HeaderCache(Option<CachedHeaders>);

/// Headers are secrets.
impl fmt::Debug for HeaderCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeaderCache")
    }
}

struct CachedHeaders {
    /// Of which call they are; both are kept, or others might come to lie in the same place.
    of: (Arc<HeaderMap>, Arc<Endpoint>),
    /// All that go on the wire, with a length that stands for any other.
    headers: HeaderMap,
}

impl HeaderCache {
    /// The request that carries `call`; `forwarder` is the proxy that passes it on, if one does. It
    /// is the same for all calls to a host.
    pub(super) fn request(&mut self, call: &Call, forwarder: Option<&Proxy>) -> Request<Outbound> {
        let uri = match forwarder {
            None => &call.endpoint.path,
            Some(_) => call.endpoint.uri(),
        };
        // What nobody shares is not seen again: headers with a cookie in them, or with a fresh token.
        let is_shared = Arc::strong_count(&call.headers) > 1;
        let headers = if call.body.is_empty() || !is_shared {
            headers(call, forwarder)
        } else {
            self.with_length(call, forwarder)
        };
        request(call, uri, headers)
    }

    fn with_length(&mut self, call: &Call, forwarder: Option<&Proxy>) -> HeaderMap {
        self.0.take_if(|CachedHeaders { of: (headers, endpoint), .. }| {
            !(Arc::ptr_eq(headers, &call.headers) && Arc::ptr_eq(endpoint, &call.endpoint))
        });
        let kept = self.0.get_or_insert_with(|| {
            let mut headers = headers(call, forwarder);
            headers.insert(CONTENT_LENGTH, HeaderValue::from(0));
            CachedHeaders { of: (Arc::clone(&call.headers), Arc::clone(&call.endpoint)), headers }
        });
        let mut headers = kept.headers.clone();
        if let Some(length) = headers.get_mut(CONTENT_LENGTH) {
            *length = call.body.len().into();
        }
        headers
    }
}

/// The request that carries `call` over HTTP/2.
pub(super) fn over_http2(call: &Call) -> Request<Outbound> {
    request(call, call.endpoint.uri(), HeaderMap::clone(&call.headers))
}

fn request(call: &Call, uri: &Uri, headers: HeaderMap) -> Request<Outbound> {
    let mut request =
        Request::new(Outbound { bytes: call.body.clone(), progress: call.progress.clone() });
    *request.method_mut() = call.method.clone();
    *request.uri_mut() = uri.clone();
    *request.headers_mut() = headers;
    request
}

/// The headers of `call`, and those that HTTP/1.1 itself needs.
fn headers(call: &Call, forwarder: Option<&Proxy>) -> HeaderMap {
    let mut headers = HeaderMap::clone(&call.headers);
    if !headers.contains_key(HOST) {
        headers.insert(HOST, call.endpoint.host.clone());
    }
    if let Some(login) = forwarder.and_then(|proxy| proxy.login.as_ref()) {
        headers.insert(PROXY_AUTHORIZATION, login.basic.clone());
    }
    headers
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::Method;

    use super::super::{Lane, Progress};
    use super::*;

    fn call(headers: &Arc<HeaderMap>, endpoint: &Arc<Endpoint>, body: &'static str) -> Call {
        Call {
            method: Method::POST,
            endpoint: Arc::clone(endpoint),
            headers: Arc::clone(headers),
            body: Bytes::from_static(body.as_bytes()),
            lane: Lane::Calls,
            progress: Progress::default(),
        }
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> Arc<HeaderMap> {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (http::HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        Arc::new(pairs.iter().map(pair).collect())
    }

    fn endpoint(url: &str) -> Arc<Endpoint> {
        Arc::new(Endpoint::new(&url.parse().unwrap()).unwrap())
    }

    /// What goes on the wire: host, length, and a header of the call's own.
    fn sent(header_cache: &mut HeaderCache, call: &Call) -> [String; 3] {
        let request = header_cache.request(call, None);
        ["host", "content-length", "x-own"].map(|name| {
            let value = request.headers().get(name);
            value.map_or("-".to_owned(), |value| value.to_str().unwrap().to_owned())
        })
    }

    #[test]
    fn each_request_has_its_own_length_host_and_headers_whatever_was_kept() {
        let mut header_cache = HeaderCache::default();
        let (one, other) = (headers(&[("x-own", "1")]), headers(&[("x-own", "2")]));
        let (here, there) = (endpoint("http://here:1/mcp"), endpoint("http://there:2/mcp"));
        assert_eq!(sent(&mut header_cache, &call(&one, &here, "{}")), ["here:1", "2", "1"]);
        assert_eq!(sent(&mut header_cache, &call(&one, &here, "{   }")), ["here:1", "5", "1"]);
        assert_eq!(sent(&mut header_cache, &call(&other, &here, "[]")), ["here:1", "2", "2"]);
        // A redirect leads elsewhere with the same headers.
        assert_eq!(sent(&mut header_cache, &call(&other, &there, "[]")), ["there:2", "2", "2"]);
        assert_eq!(sent(&mut header_cache, &call(&one, &here, "")), ["here:1", "-", "1"]);
        let named = headers(&[("host", "of the user's")]);
        assert_eq!(
            sent(&mut header_cache, &call(&named, &here, "{}")),
            ["of the user's", "2", "-"]
        );
    }

    #[test]
    fn headers_that_nobody_shares_are_not_kept() {
        let (mut header_cache, here) = (HeaderCache::default(), endpoint("http://here:1/mcp"));
        let mut call = call(&headers(&[]), &here, "{}");
        call.headers = headers(&[("authorization", "Bearer secret")]);
        header_cache.request(&call, None);
        assert!(header_cache.0.is_none());
        assert_eq!(format!("{header_cache:?}"), "HeaderCache");
    }
}
