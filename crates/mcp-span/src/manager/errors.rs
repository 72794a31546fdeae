//! What an error says of the server, and the errors of callers who get no connection. Pure.

use std::sync::Arc;

use url::Url;

use super::ServerState;
use crate::error::{Delivery, Error, ErrorKind};

/// Whether a request's failure shows that the server is not there; its own errors show that it is.
pub(super) fn shows_absence(error: &Error) -> bool {
    match error.kind {
        ErrorKind::Status => matches!(error.status, Some(404 | 502..=504)),
        kind => matches!(
            kind,
            ErrorKind::Connect
                | ErrorKind::Dns
                | ErrorKind::Tls
                | ErrorKind::Proxy
                | ErrorKind::Closed
                | ErrorKind::NoResponse
                | ErrorKind::SessionLost
        ),
    }
}

/// Whether the failure of a list or a ping shows trouble: they are quick, silence is no good sign.
pub(super) fn is_trouble(error: &Error) -> bool {
    shows_absence(error) || error.kind == ErrorKind::Timeout
}

/// Whether a call may be made once more over another connection: it has certainly not been carried
/// out, and what is wrong is the connection.
pub(super) fn may_repeat(error: &Error) -> bool {
    error.delivery == Delivery::NotDelivered && shows_absence(error)
}

/// The error of a caller who gets no connection to `name`, which is in this state.
pub(super) fn refused(name: &str, state: ServerState) -> Error {
    let error = match state {
        ServerState::Failed(why)
        | ServerState::Degraded(why)
        | ServerState::NeedsLogin { why, .. } => Error::clone(&why),
        ServerState::Suspended(why) => {
            let message = format!("Server '{name}' keeps ending and is suspended: {why}");
            Error::new(ErrorKind::Closed, message)
                .hint("Fix what ends it, then reconnect, or try again in half a minute")
        }
        ServerState::Connecting { why: Some(why), .. } => {
            Error::new(ErrorKind::Timeout, format!("Server '{name}' is not ready yet: {why}"))
                .hint("Try again later")
        }
        ServerState::Connecting { why: None, .. } | ServerState::Ready => {
            Error::new(ErrorKind::Timeout, format!("Server '{name}' is not ready yet"))
                .hint("Try again later, or check whether the server hangs")
        }
        ServerState::Closed => closed(name),
    };
    // Whatever became of the handshake: what was asked for now has not been sent.
    error.not_delivered()
}

/// The state of a server that waits for a person to do what `prompt` says.
pub(super) fn login_pending(prompt: &str) -> ServerState {
    let why = Error::login_pending(prompt);
    let url = why.login_url.as_deref().map_or(prompt, Url::as_str).into();
    ServerState::NeedsLogin { url, why: Arc::new(why) }
}

/// The server was removed, or the manager closed.
pub(super) fn closed(name: &str) -> Error {
    Error::new(ErrorKind::Closed, format!("The connection to '{name}' was closed")).not_delivered()
}

/// There is no such server.
pub(super) fn unknown_server<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Error {
    let known: Vec<_> = known.collect();
    let hint = match known.as_slice() {
        [] => "The manager has no servers".to_owned(),
        names => format!("Known servers: {}", names.join(", ")),
    };
    invalid(format!("Unknown server '{name}'")).hint(hint)
}

/// The name stands for no tool.
pub(super) fn unknown_tool(name: &str) -> Error {
    invalid(format!("Unknown tool '{name}'"))
        .hint("Use a name that the manager lists: server__tool")
}

/// The name stands for several tools.
pub(super) fn ambiguous_tool(name: &str) -> Error {
    invalid(format!("The name '{name}' stands for several tools"))
        .hint("Use the names that the manager lists now: they have a suffix")
}

/// The tool is denied, or not among those that are allowed.
pub(super) fn denied_tool(name: &str) -> Error {
    Error::new(ErrorKind::HiddenTool, format!("The tool '{name}' is not allowed")).not_delivered()
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidRequest, message).not_delivered()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_made_again_only_if_it_was_certainly_not_carried_out() {
        // S1-45: 2(c) would also repeat what may have run; the table of deliveries wins.
        let error = |kind, status| Error { status, ..Error::new(kind, "no") };
        for kind in [ErrorKind::Connect, ErrorKind::Closed] {
            assert!(may_repeat(&error(kind, None).not_delivered()), "{kind}");
            assert!(!may_repeat(&error(kind, None)), "{kind}");
        }
        for (status, may) in [(404, true), (502, true), (503, true), (400, false), (401, false)]
            .into_iter()
            .chain([(429, false), (500, false)])
        {
            let error = error(ErrorKind::Status, Some(status)).not_delivered();
            assert_eq!(may_repeat(&error), may, "{status}");
        }
        for kind in
            [ErrorKind::Timeout, ErrorKind::TooLarge, ErrorKind::Login, ErrorKind::Overloaded]
        {
            assert!(!may_repeat(&error(kind, None).not_delivered()), "{kind}");
        }
    }

    #[test]
    fn who_gets_no_connection_knows_that_nothing_was_sent_and_why() {
        let why = Arc::new(Error::new(ErrorKind::Closed, "it has ended: 7"));
        assert_eq!(why.delivery, Delivery::Unknown);
        assert!(refused("a", ServerState::Failed(Arc::clone(&why))).is_retryable());
        let suspended = refused("a", ServerState::Suspended(why));
        assert!(suspended.message.contains("'a'") && suspended.message.contains("it has ended: 7"));
        for state in [ServerState::Connecting { attempt: 1, why: None }, ServerState::Closed] {
            let error = refused("a", state);
            assert_eq!(error.delivery, Delivery::NotDelivered);
            assert!(error.message.contains("'a'"), "{error}");
        }
        let unknown = unknown_server("b", ["a", "c"].into_iter());
        assert_eq!(unknown.hint.as_deref(), Some("Known servers: a, c"));
        assert_eq!(unknown_server("b", [].into_iter()).delivery, Delivery::NotDelivered);
    }

    #[test]
    fn who_meets_a_pending_login_learns_its_page_and_its_code() {
        let state = login_pending("https://as/device and enter the code A-1, to h");
        let ServerState::NeedsLogin { url, .. } = &state else { panic!("{state:?}") };
        assert_eq!(&**url, "https://as/device");
        let error = refused("a", state);
        assert_eq!((error.kind, error.delivery), (ErrorKind::Login, Delivery::NotDelivered));
        assert!(error.message.contains("enter the code A-1"), "{error}");
        assert_eq!(error.login_url.unwrap().as_str(), "https://as/device");
    }
}
