//! Turns what the HTTP client reports into an error that says what happened and where.

use std::error::Error as StdError;
use std::io;

use h2::Reason;
use url::Url;

use super::Progress;
use super::connect::{ConnectFault, Unreachable};
use super::proxy::Proxy;
use super::{proxy_fault, tls_fault};
use crate::error::{Error, ErrorKind};
use crate::limits;
use crate::secret::shown;

/// Why a request has brought no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestFailure {
    #[error("there is no connection")]
    Unconnected(#[from] ConnectFault),
    #[error("the connection broke")]
    Http1(#[source] hyper::Error),
    #[error("there is no answer over HTTP/2")]
    Http2(#[source] hyper::Error),
}

/// Explains why `url` gave no answer.
pub(super) fn explain(error: &RequestFailure, url: &Url, progress: &Progress) -> Error {
    if let RequestFailure::Unconnected(fault) = error {
        return unconnected(fault, url);
    }
    if let Some(refusal) = find(error).and_then(|e| tls_fault::late_refusal(e, &place(url))) {
        return refusal;
    }
    if let Some(limit) = exceeded_head(error) {
        let message = format!("The answer of {} has too many headers: {limit}", place(url));
        return Error::new(ErrorKind::TooLarge, message)
            .hint("Look which headers the server, or a proxy before it, adds to its answers")
            .because(innermost(error));
    }
    let explained =
        Error::new(ErrorKind::Closed, format!("The connection to {} broke", place(url)))
            .because(innermost(error));
    // hyper gave the request back without having written any of it.
    let is_canceled = find::<hyper::Error>(error).is_some_and(hyper::Error::is_canceled);
    let untouched = !progress.has_started() || is_canceled || is_turned_away(error);
    if untouched { explained.not_delivered() } else { explained }
}

/// The limit that the head of an answer is over, if it is.
fn exceeded_head(error: &RequestFailure) -> Option<String> {
    if find::<hyper::Error>(error).is_some_and(hyper::Error::is_parse_too_large) {
        // The parser does not tell which.
        let (lines, size) = (limits::HTTP1_HEADERS, limits::HTTP1_BUFFER / 1024);
        return Some(format!("more than {lines}, or than {size} KiB"));
    }
    // Over HTTP/2 the stream is reset by our own side, as it is for headers that are malformed.
    let is_reset = |error: &&h2::Error| error.is_library() && error.is_reset();
    let reason = find::<h2::Error>(error).filter(is_reset)?.reason()?;
    let size = limits::HTTP2_HEAD / 1024;
    (reason == Reason::PROTOCOL_ERROR).then(|| format!("more than {size} KiB, or malformed ones"))
}

/// Whether the server has certainly not looked at a request that failed: it can go again at once.
pub(super) fn is_untouched(error: &RequestFailure, progress: &Progress) -> bool {
    // It waited for a place on a connection that broke under others.
    let waited = matches!(error, RequestFailure::Http2(_)) && !progress.has_started();
    waited || is_turned_away(error)
}

/// Whether the server says that it has not looked at it.
fn is_turned_away(error: &RequestFailure) -> bool {
    let is_unseen = |reason| matches!(reason, Reason::HTTP_1_1_REQUIRED | Reason::REFUSED_STREAM);
    // h2 gives a farewell to those streams only that the server has not looked at: they are behind
    // the last one that it names. The others live on, or break without it.
    find::<h2::Error>(error).is_some_and(|error| {
        error.is_remote() && (error.is_go_away() || error.reason().is_some_and(is_unseen))
    })
}

/// Whether the server wants it over HTTP/1.1.
pub(super) fn wants_http1(error: &RequestFailure) -> bool {
    find::<h2::Error>(error)
        .is_some_and(|error| error.is_remote() && error.reason() == Some(Reason::HTTP_1_1_REQUIRED))
}

/// Explains why the body of an answer from `url` broke off.
pub(super) fn explain_body(error: &hyper::Error, url: &Url) -> Error {
    let message = format!("The connection to {} broke in the middle of the answer", place(url));
    Error::new(ErrorKind::Closed, message).because(innermost(error))
}

/// Explains why there is no connection to `url`.
pub(super) fn unconnected(fault: &ConnectFault, url: &Url) -> Error {
    let place = place(url);
    let host = url.host_str().unwrap_or_default();
    let through = |proxy: &Proxy| format!("{place} through the proxy {}", proxy.place());
    let error = match fault {
        ConnectFault::Unreachable(Unreachable::Unresolved(_)) => {
            Error::new(ErrorKind::Dns, format!("The host name {host} could not be resolved"))
                .hint("Check the host in the URL, and that this machine is online")
        }
        ConnectFault::Unreachable(Unreachable::Forbidden(_)) => {
            Error::new(ErrorKind::Dns, format!("The host name {host} leads into a private network"))
                .hint("Whoever named this host has no business to send us there")
        }
        ConnectFault::Unreachable(Unreachable::Tcp(kind, _)) => {
            Error::new(ErrorKind::Connect, format!("{place} {}", connect_failure(*kind)))
                .hint(format!("Check that the server runs and that {} is its URL", shown(url)))
        }
        ConnectFault::Proxy(proxy, fault) => fault.explain(proxy, &place),
        ConnectFault::Tls(fault, None) => tls_fault::explain(fault, &place, ""),
        ConnectFault::Tls(fault, Some(proxy)) => {
            let trust = "If the proxy looks into https, its certificate authority must be trusted \
                         here. ";
            tls_fault::explain(fault, &through(proxy), trust)
        }
        ConnectFault::Timeout(limit, proxy) => {
            let (kind, way, check) = match proxy {
                None => (
                    ErrorKind::Connect,
                    place,
                    "Check the network between here and the server".into(),
                ),
                Some(proxy) => (ErrorKind::Proxy, through(proxy), proxy_fault::check(proxy)),
            };
            Error::new(kind, format!("No connection to {way} within {} ms", limit.as_millis()))
                .hint(format!("{check}, or allow more --connect-timeout"))
        }
    };
    error.because(fault).not_delivered()
}

/// What a host did that cannot be connected to.
pub(super) fn connect_failure(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::ConnectionRefused => "refused the connection",
        _ => "cannot be reached",
    }
}

/// `host:port`, which is what one can check.
fn place(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port_or_known_default().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

fn find<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    causes(error).find_map(|cause| cause.downcast_ref::<T>())
}

fn innermost(error: &(dyn StdError + 'static)) -> String {
    causes(error).last().map_or_else(String::new, ToString::to_string)
}

/// The error itself, and what lies behind it.
pub(super) fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let cause = next?;
        next = cause.source();
        Some(cause)
    })
}
