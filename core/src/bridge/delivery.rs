//! The table of what may be sent again: nothing that may have been carried out, unless it is safe.

use std::time::Duration;

use crate::error::{Delivery, Error, Kind};
use crate::message::Method;

/// What becomes of a message that came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// It ends here.
    No,
    /// It goes out once more, at once.
    Now,
    /// It waits for a server that cannot be reached.
    WhenBack,
    /// It waits as long as the server wants it to.
    After(Duration),
}

impl Again {
    /// For logs.
    pub(super) fn words(self) -> String {
        match self {
            Self::No => "no retry".to_owned(),
            Self::Now => "retry 1 of 1".to_owned(),
            Self::WhenBack => "retry when the server is reachable".to_owned(),
            Self::After(pause) => format!("retry after {pause:?}, as the server asks"),
        }
    }
}

/// What may be sent again after `error`.
///
/// `is_safe`: carrying it out twice does no harm. `was_repeated`: it has had its second chance.
pub(super) fn again(
    method: Option<&Method>,
    error: &Error,
    is_safe: bool,
    was_repeated: bool,
) -> Again {
    let is_probe = method == Some(&Method::Discover);
    match (error.kind, error.delivery) {
        // A probe is a question that wants a quick answer; what follows it may wait.
        (_, Delivery::NotDelivered) if is_probe => Again::No,
        _ if error.is_unreachable() => Again::WhenBack,
        (Kind::Status, _) if matches!(error.status, Some(429 | 503)) => match error.retry_after {
            Some(pause) => Again::After(pause),
            None if method == Some(&Method::Initialize) && error.status == Some(503) => {
                Again::WhenBack
            }
            None => Again::No,
        },
        (Kind::Status, _) if method == Some(&Method::Initialize) => match error.status {
            Some(502 | 504) => Again::WhenBack,
            _ => Again::No,
        },
        // Container hosts take connections for a server that still starts, and close them.
        (Kind::Closed, Delivery::Unknown)
            if method == Some(&Method::Initialize) && error.status.is_none() =>
        {
            Again::WhenBack
        }
        (Kind::Closed | Kind::NoResponse, Delivery::Unknown) if is_safe && !was_repeated => {
            Again::Now
        }
        _ => Again::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: Kind) -> Error {
        Error::new(kind, "x")
    }

    fn status(status: u16, retry_after: Option<u64>) -> Error {
        let mut error = error(Kind::Status);
        error.status = Some(status);
        error.retry_after = retry_after.map(Duration::from_secs);
        error
    }

    #[test]
    fn what_never_reached_the_server_is_sent_again_whatever_it_is() {
        for kind in [Kind::Connect, Kind::Dns, Kind::Tls, Kind::Proxy, Kind::Closed] {
            let error = error(kind).not_delivered();
            assert_eq!(
                again(Some(&Method::ToolsCall), &error, false, true),
                Again::WhenBack,
                "{kind}"
            );
        }
        let login = error(Kind::ProxyAuth).not_delivered();
        assert_eq!(
            again(Some(&Method::Initialize), &login, true, false),
            Again::No,
            "nobody mends that"
        );
        let lost = error(Kind::SessionLost).not_delivered();
        assert_eq!(
            again(Some(&Method::ToolsCall), &lost, false, false),
            Again::No,
            "the link tried"
        );
    }

    #[test]
    fn what_may_have_reached_it_is_sent_again_once_and_only_if_it_is_safe() {
        for kind in [Kind::Closed, Kind::NoResponse] {
            let error = error(kind);
            assert_eq!(again(Some(&Method::ToolsCall), &error, false, false), Again::No);
            assert_eq!(again(Some(&Method::ToolsList), &error, true, false), Again::Now);
            assert_eq!(again(Some(&Method::ToolsList), &error, true, true), Again::No);
        }
        for kind in [Kind::Timeout, Kind::BadResponse, Kind::TooLarge] {
            assert_eq!(again(Some(&Method::ToolsList), &error(kind), true, false), Again::No);
        }
    }

    #[test]
    fn a_servers_own_pause_is_kept_whatever_the_method() {
        // C6
        let pause = Again::After(Duration::from_secs(2));
        assert_eq!(again(Some(&Method::ToolsCall), &status(429, Some(2)), false, true), pause);
        assert_eq!(again(Some(&Method::ToolsCall), &status(503, Some(2)), false, true), pause);
        assert_eq!(again(Some(&Method::ToolsCall), &status(429, None), false, false), Again::No);
        assert_eq!(again(Some(&Method::ToolsList), &status(500, Some(2)), true, false), Again::No);
    }

    #[test]
    fn a_gateway_without_its_server_counts_as_away_for_initialize_only() {
        for code in [502, 503, 504] {
            let error = status(code, None);
            assert_eq!(
                again(Some(&Method::Initialize), &error, true, false),
                Again::WhenBack,
                "{code}"
            );
            assert_eq!(again(Some(&Method::ToolsList), &error, true, false), Again::No, "{code}");
        }
        assert_eq!(again(Some(&Method::Initialize), &status(500, None), true, false), Again::No);
    }

    #[test]
    fn a_connection_that_is_closed_without_an_answer_counts_as_away_for_initialize_only() {
        let closed = error(Kind::Closed);
        for was_repeated in [false, true] {
            let verdict = again(Some(&Method::Initialize), &closed, true, was_repeated);
            assert_eq!(verdict, Again::WhenBack);
        }
        assert_eq!(again(Some(&Method::ToolsList), &closed, true, false), Again::Now);
        assert_eq!(again(Some(&Method::ToolsCall), &closed, false, false), Again::No);
        let begun = Error { status: Some(200), ..closed };
        assert_eq!(again(Some(&Method::Initialize), &begun, true, false), Again::Now);
        assert_eq!(again(Some(&Method::Initialize), &begun, true, true), Again::No);
    }

    #[test]
    fn a_server_that_is_not_ready_to_take_anything_counts_as_away() {
        // 4(d)25: the hub's stream says 500 while it starts.
        let unready = status(500, None).not_delivered();
        assert_eq!(again(Some(&Method::Initialize), &unready, true, false), Again::WhenBack);
        assert_eq!(again(Some(&Method::ToolsCall), &unready, false, false), Again::WhenBack);
        assert_eq!(again(Some(&Method::ToolsCall), &status(500, None), false, false), Again::No);
        let turned_away = status(404, None).not_delivered();
        assert_eq!(again(Some(&Method::Initialize), &turned_away, true, false), Again::No);
    }

    #[test]
    fn a_probe_is_answered_at_once() {
        let refused = error(Kind::Connect).not_delivered();
        assert_eq!(again(Some(&Method::Discover), &refused, true, false), Again::No);
    }
}
