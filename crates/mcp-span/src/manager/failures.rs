//! What a failure says of the server, and the failures of callers who get no connection. Pure.

use std::sync::Arc;

use serde_json::json;

use super::State;
use crate::client::{Class, Failure, Transport};
use crate::error::{Delivery, Error, Kind};

/// Whether a request's failure shows that the server is not there; its own errors show that it is.
pub(super) fn shows_absence(failure: &Failure) -> bool {
    match failure.class {
        Class::Link(Kind::Status) => matches!(failure.status, Some(404 | 502..=504)),
        Class::Link(kind) => matches!(
            kind,
            Kind::Connect
                | Kind::Dns
                | Kind::Tls
                | Kind::Proxy
                | Kind::Closed
                | Kind::NoResponse
                | Kind::SessionLost
        ),
        Class::Rpc => false,
    }
}

/// Whether the failure of a list shows trouble: lists are quick, silence is no good sign.
pub(super) fn is_trouble(failure: &Failure) -> bool {
    shows_absence(failure) || failure.class == Class::Link(Kind::Timeout)
}

/// Whether a call may be made once more over another connection: it has certainly not been carried
/// out, and what is wrong is the connection.
pub(super) fn may_repeat(failure: &Failure) -> bool {
    failure.delivery == Delivery::NotDelivered && shows_absence(failure)
}

/// The failure of a caller who gets no connection to `name`, which is in this state.
pub(super) fn refused(name: &str, transport: Transport, state: State) -> Failure {
    let own = |kind, message: String| Error::new(kind, message).not_delivered();
    let error = match state {
        // Whatever became of the handshake: what was asked for now has not been sent.
        State::Failed(why) | State::Degraded(why) | State::NeedsLogin { why, .. } => {
            let (delivery, is_retryable) = (Delivery::NotDelivered, why.may_heal());
            return Failure { delivery, is_retryable, ..Failure::clone(&why) };
        }
        State::Suspended(why) => {
            own(Kind::Closed, format!("Server '{name}' keeps ending and is suspended: {why}"))
                .hint("Fix what ends it, then reconnect, or try again in half a minute")
        }
        State::Connecting { why: Some(why), .. } => {
            own(Kind::Timeout, format!("Server '{name}' is not ready yet: {why}"))
                .hint("Try again later")
        }
        State::Connecting { why: None, .. } | State::Ready => {
            own(Kind::Timeout, format!("Server '{name}' is not ready yet"))
                .hint("Try again later, or check whether the server hangs")
        }
        State::Closed => closed(name),
    };
    Failure::of(transport, error)
}

/// The state of a server that waits for a person to do what `prompt` says.
pub(super) fn login_pending(transport: Transport, prompt: &str) -> State {
    let error = Error::login_pending(prompt);
    let url: Arc<str> = error.page.as_deref().unwrap_or(prompt).into();
    let mut why = Failure::of(transport, error);
    why.data = Some(Box::new(json!({ "url": url })));
    State::NeedsLogin { url, why: Arc::new(why) }
}

/// The server was removed, or the manager closed.
pub(super) fn closed(name: &str) -> Error {
    Error::new(Kind::Closed, format!("The connection to '{name}' was closed")).not_delivered()
}

/// There is no such server.
pub(super) fn unknown_server<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Failure {
    let known: Vec<_> = known.collect();
    let hint = match known.as_slice() {
        [] => "The manager has no servers".to_owned(),
        names => format!("Known servers: {}", names.join(", ")),
    };
    invalid(format!("Unknown server '{name}'"), hint)
}

/// The name stands for no tool.
pub(super) fn unknown_tool(name: &str) -> Failure {
    invalid(format!("Unknown tool '{name}'"), "Use a name that the manager lists: server__tool")
}

/// The name stands for several tools.
pub(super) fn ambiguous_tool(name: &str) -> Failure {
    let message = format!("The name '{name}' stands for several tools");
    invalid(message, "Use the names that the manager lists now: they have a suffix")
}

/// The tool is denied, or not among those that are allowed.
pub(super) fn denied_tool(name: &str) -> Failure {
    let error = Error::new(Kind::HiddenTool, format!("The tool '{name}' is not allowed"));
    Failure::of(Transport::Other, error.not_delivered())
}

fn invalid(message: String, hint: impl Into<String>) -> Failure {
    let error = Error::new(Kind::InvalidRequest, message);
    Failure::of(Transport::Other, error.hint(hint).not_delivered())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn failure(kind: Kind, status: Option<u16>) -> Failure {
        let error = Error { status, ..Error::new(kind, "no") };
        Failure::of(Transport::Http, error.not_delivered())
    }

    #[test]
    fn a_call_is_made_again_only_if_it_was_certainly_not_carried_out() {
        // S1-45: 2(c) would also repeat what may have run; the table of deliveries wins.
        for kind in [Kind::Connect, Kind::Closed] {
            let failure = failure(kind, None);
            assert!(may_repeat(&failure), "{kind}");
            assert!(!may_repeat(&Failure { delivery: Delivery::Unknown, ..failure }), "{kind}");
        }
        for status in [404, 502, 503] {
            assert!(may_repeat(&failure(Kind::Status, Some(status))), "{status}");
        }
        for status in [400, 401, 429, 500] {
            assert!(!may_repeat(&failure(Kind::Status, Some(status))), "{status}");
        }
        for kind in [Kind::Timeout, Kind::TooLarge, Kind::Login, Kind::Overloaded] {
            assert!(!may_repeat(&failure(kind, None)), "{kind}");
        }
    }

    #[test]
    fn who_gets_no_connection_knows_that_nothing_was_sent_and_why() {
        let why = Failure::of(Transport::Child, Error::new(Kind::Closed, "it has ended: 7"));
        assert_eq!(why.delivery, Delivery::Unknown);
        let why = Arc::new(why);
        let told = |state| refused("a", Transport::Child, state);
        let failed = told(State::Failed(Arc::clone(&why)));
        assert_eq!((failed.delivery, failed.is_retryable), (Delivery::NotDelivered, true));
        let suspended = told(State::Suspended(why));
        assert!(suspended.message.contains("'a'") && suspended.message.contains("it has ended: 7"));
        for state in [State::Connecting { attempt: 1, why: None }, State::Closed] {
            let failure = told(state);
            assert_eq!(failure.delivery, Delivery::NotDelivered);
            assert!(failure.message.contains("'a'"), "{failure}");
        }
        let unknown = unknown_server("b", ["a", "c"].into_iter());
        assert_eq!(unknown.next_step.as_deref(), Some("Known servers: a, c"));
        assert_eq!(unknown_server("b", [].into_iter()).delivery, Delivery::NotDelivered);
    }

    #[test]
    fn who_meets_a_pending_login_learns_its_page_and_its_code() {
        let state =
            login_pending(Transport::Http, "https://as/device and enter the code A-1, to h");
        let State::NeedsLogin { url, .. } = &state else { panic!("{state:?}") };
        assert_eq!(&**url, "https://as/device");
        let failure = refused("a", Transport::Http, state);
        assert_eq!((failure.kind(), failure.delivery), (Some(Kind::Login), Delivery::NotDelivered));
        assert!(failure.message.contains("enter the code A-1"), "{failure}");
        assert_eq!(failure.data.unwrap()["url"], "https://as/device");
    }
}
