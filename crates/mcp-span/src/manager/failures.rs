//! What a failure says of the server, and what those are told who get no connection. Pure.

use super::state::Refusal;
use crate::client::{Class, Failure, Transport};
use crate::error::{Delivery, Error, Kind};

/// Whether the same try may succeed a moment later. What a person has to mend, or to log in for, is
/// not tried again unasked.
pub(super) fn may_heal(failure: &Failure) -> bool {
    match failure.class {
        Class::Link(Kind::Status) => matches!(failure.status, Some(404 | 408 | 429 | 500..)),
        Class::Link(kind) => matches!(
            kind,
            Kind::Connect
                | Kind::Dns
                | Kind::Proxy
                | Kind::Closed
                | Kind::Timeout
                | Kind::NoResponse
                | Kind::SessionLost
                | Kind::Overloaded
        ),
        Class::Rpc => false,
    }
}

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

/// The failure of somebody who gets no connection to `name`.
pub(super) fn refused(name: &str, transport: Transport, refusal: Refusal) -> Failure {
    let own = |kind, message: String| Error::new(kind, message).not_delivered();
    let error = match refusal {
        // Whatever became of the handshake: what was asked for now has not been sent.
        Refusal::Failed(why) => {
            let (delivery, is_retryable) = (Delivery::NotDelivered, may_heal(&why));
            return Failure { delivery, is_retryable, ..Failure::clone(&why) };
        }
        Refusal::Suspended(why) => {
            let message = format!("'{name}' does not stay up, and is left alone for now: {why}");
            own(Kind::Closed, message)
                .hint("Mend what ends it, then reconnect; or try again in half a minute")
        }
        Refusal::NotYet(None) => own(Kind::Timeout, format!("'{name}' is not ready yet"))
            .hint("Try again later, or look whether the server is stuck"),
        Refusal::NotYet(Some(why)) => {
            own(Kind::Timeout, format!("'{name}' is not ready yet: {why}")).hint("Try again later")
        }
        Refusal::Closed => closed(name),
    };
    Failure::of(transport, error)
}

/// Nothing more is wanted of the server.
pub(super) fn closed(name: &str) -> Error {
    Error::new(Kind::Closed, format!("The connection to '{name}' was closed")).not_delivered()
}

/// There is no such server.
pub(super) fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Failure {
    let known: Vec<_> = known.collect();
    let hint = match known.as_slice() {
        [] => "There are no servers at all".to_owned(),
        names => format!("There are: {}", names.join(", ")),
    };
    let error = Error::new(Kind::InvalidRequest, format!("There is no server '{name}'"));
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
    fn what_needs_a_person_is_not_tried_again_unasked() {
        for kind in [Kind::Spawn, Kind::Tls, Kind::Login, Kind::Credentials, Kind::BadUrl] {
            assert!(!may_heal(&failure(kind, None)), "{kind}");
        }
        for status in [400, 401, 403, 405] {
            assert!(!may_heal(&failure(Kind::Status, Some(status))), "{status}");
        }
        assert!(may_heal(&failure(Kind::Status, Some(503))));
        assert!(may_heal(&failure(Kind::Connect, None)));
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
        let told = |refusal| refused("a", Transport::Child, refusal);
        let failed = told(Refusal::Failed(Arc::new(why.clone())));
        assert_eq!((failed.delivery, failed.is_retryable), (Delivery::NotDelivered, true));
        let suspended = told(Refusal::Suspended(Arc::new(why)));
        assert!(suspended.message.contains("'a'") && suspended.message.contains("it has ended: 7"));
        for refusal in [Refusal::NotYet(None), Refusal::Closed] {
            let failure = told(refusal);
            assert_eq!(failure.delivery, Delivery::NotDelivered);
            assert!(failure.message.contains("'a'"), "{failure}");
        }
        let unknown = unknown("b", ["a", "c"].into_iter());
        assert_eq!(unknown.next_step.as_deref(), Some("There are: a, c"));
    }
}
