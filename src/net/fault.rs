//! Turns what the HTTP client reports into an error that says what happened and where.

use std::error::Error as StdError;
use std::io;

use hyper_util::client::legacy;
use url::Url;

use super::Progress;
use super::connect::ConnectFault;
use crate::error::{Error, Kind};
use crate::secret::shown;

/// Explains why `url` gave no answer.
pub(super) fn explain(error: &legacy::Error, url: &Url, progress: &Progress) -> Error {
    if let Some(fault) = find::<ConnectFault>(error) {
        return unconnected(fault, url);
    }
    let explained = Error::new(Kind::Closed, format!("The connection to {} broke", place(url)))
        .because(innermost(error));
    let untouched = !progress.is_raised() || is_canceled(error);
    if untouched { explained.not_delivered() } else { explained }
}

/// Explains why the body of an answer from `url` broke off.
pub(super) fn explain_body(error: &hyper::Error, url: &Url) -> Error {
    let message = format!("The connection to {} broke in the middle of the answer", place(url));
    Error::new(Kind::Closed, message).because(innermost(error))
}

fn unconnected(fault: &ConnectFault, url: &Url) -> Error {
    let place = place(url);
    let error = match fault {
        ConnectFault::Dns(_) => {
            let host = url.host_str().unwrap_or_default();
            Error::new(Kind::Dns, format!("The host name {host} could not be resolved"))
                .hint("Check the host in the URL, and that this machine is online")
        }
        ConnectFault::Tcp(cause) => {
            let refused = find::<io::Error>(cause.as_ref())
                .is_some_and(|e| e.kind() == io::ErrorKind::ConnectionRefused);
            let what = if refused { "refused the connection" } else { "cannot be reached" };
            Error::new(Kind::Connect, format!("{place} {what}"))
                .hint(format!("Check that the server runs and that {} is its URL", shown(url)))
        }
        ConnectFault::Tls(_) => Error::new(Kind::Tls, format!("No secure connection to {place}"))
            .hint("Check the server's certificate, and that the URL should begin with https"),
        ConnectFault::Timeout(limit) => Error::new(
            Kind::Connect,
            format!("No connection to {place} within {} ms", limit.as_millis()),
        )
        .hint("Check the network between here and the server, or allow more --connect-timeout"),
    };
    error.because(fault).not_delivered()
}

/// `host:port`, which is what one can check.
fn place(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port_or_known_default().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// hyper gave the request back without having written any of it.
fn is_canceled(error: &legacy::Error) -> bool {
    find::<hyper::Error>(error).is_some_and(hyper::Error::is_canceled)
}

fn find<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    causes(error).find_map(|cause| cause.downcast_ref::<T>())
}

fn innermost(error: &(dyn StdError + 'static)) -> String {
    causes(error).last().map_or_else(String::new, ToString::to_string)
}

/// The error itself, and what lies behind it.
fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let cause = next?;
        next = cause.source();
        Some(cause)
    })
}
