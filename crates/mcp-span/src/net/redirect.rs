//! Which redirects are followed: to the same origin, and never with another method.

use http::header::LOCATION;
use http::{Method, Response, StatusCode};
use url::Url;

use super::Call;
use crate::error::{Error, ErrorKind};
use crate::secret::shown;

/// Where the answer sends us; `None` if it does not.
///
/// Headers with credentials go along, so another origin is out of the question; and a POST that
/// became a GET would lose the message.
pub(super) fn target<B>(call: &Call, response: &Response<B>) -> Result<Option<Url>, Error> {
    let (url, status) = (call.endpoint.url(), response.status());
    let keeps_method = match status.as_u16() {
        307 | 308 => true,
        301..=303 => call.method == Method::GET,
        _ => return Ok(None),
    };
    let refuse = |how: &str, hint: &str| {
        let message = format!("HTTP {status}: {} redirects {how}", shown(url));
        let mut error = Error::new(ErrorKind::Redirect, message).hint(hint);
        error.status = Some(status.as_u16());
        // 303 says that the request was carried out, and its result is elsewhere.
        Err(if status == StatusCode::SEE_OTHER { error } else { error.not_delivered() })
    };
    let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let Some(next) = location.and_then(|location| url.join(location).ok()) else {
        return refuse("to nowhere", "Ask who runs the server for its right URL");
    };
    let to = shown(&next);
    if next.origin() != url.origin() {
        let how = format!("to another origin, {to}, which is not followed");
        return refuse(&how, "If you trust that address, use it as the URL");
    }
    if !keeps_method {
        let how = format!("to {to} with a status that drops the message");
        return refuse(&how, "Use the address that it redirects to as the URL");
    }
    Ok(Some(next))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::super::{Endpoint, Lane, Progress};
    use super::*;

    fn follow(method: &Method, status: u16, location: &'static str) -> Result<Option<Url>, Error> {
        let url = Url::parse("http://localhost:1/mcp?k=v").unwrap();
        let call = Call {
            method: method.clone(),
            endpoint: Arc::new(Endpoint::new(&url).unwrap()),
            headers: Arc::default(),
            body: Bytes::new(),
            lane: Lane::Calls,
            progress: Progress::default(),
        };
        target(
            &call,
            &Response::builder().status(status).header(LOCATION, location).body(()).unwrap(),
        )
    }

    #[test]
    fn same_origin_and_method_are_followed() {
        let to = |r: Result<Option<Url>, Error>| r.unwrap().unwrap().to_string();
        assert_eq!(to(follow(&Method::POST, 307, "/mcp/")), "http://localhost:1/mcp/");
        assert_eq!(to(follow(&Method::POST, 308, "http://localhost:1/x")), "http://localhost:1/x");
        assert_eq!(to(follow(&Method::GET, 302, "y")), "http://localhost:1/y");
        assert_eq!(follow(&Method::POST, 200, "/x").unwrap(), None);
        assert_eq!(follow(&Method::POST, 304, "/x").unwrap(), None);
    }

    #[test]
    fn everything_else_is_refused_with_a_reason() {
        let refused = |r: Result<Option<Url>, Error>| r.unwrap_err().message;
        assert!(
            refused(follow(&Method::POST, 307, "http://localhost:2/")).contains("another origin")
        );
        assert!(
            refused(follow(&Method::POST, 308, "https://localhost:1/")).contains("another origin")
        );
        assert!(refused(follow(&Method::POST, 302, "/x")).contains("drops the message"));
        assert!(refused(follow(&Method::POST, 307, "http://")).contains("nowhere"));
        let shown = refused(follow(&Method::POST, 307, "http://evil/?token=abcdef"));
        assert!(!shown.contains("abcdef"));
    }
}
