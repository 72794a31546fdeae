//! The table of what may be retried: nothing that may have been carried out, unless it is safe.

use std::time::Duration;

use crate::error::{Delivery, Error, ErrorKind};
use crate::message::Method;

/// Whether and when a failed message is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    /// It ends with its error.
    No,
    /// Once more, at once.
    Now,
    /// When the server is reachable again.
    WhenReachable,
    /// After the delay that the server asked for.
    After(Duration),
}

impl Retry {
    /// For logs.
    pub(super) fn describe(self) -> String {
        match self {
            Self::No => "no retry".to_owned(),
            Self::Now => "retry 1 of 1".to_owned(),
            Self::WhenReachable => "retry when the server is reachable".to_owned(),
            Self::After(pause) => format!("retry after {pause:?}, as the server asks"),
        }
    }
}

/// Decides about a retry after `error`.
///
/// `is_safe`: carrying it out twice does no harm. `was_repeated`: it was retried before.
pub(super) fn decide(
    method: Option<&Method>,
    error: &Error,
    is_safe: bool,
    was_repeated: bool,
) -> Retry {
    let is_initialize = method == Some(&Method::Initialize);
    let is_unknown = error.delivery == Delivery::Unknown;
    match (error.kind, error.status, error.retry_after) {
        // A probe needs a quick response; what follows it may wait.
        _ if method == Some(&Method::Discover) && !is_unknown => Retry::No,
        _ if error.is_unreachable() => Retry::WhenReachable,
        (ErrorKind::Status, Some(429 | 503), Some(pause)) => Retry::After(pause),
        (ErrorKind::Status, Some(502..=504), _) if is_initialize => Retry::WhenReachable,
        // Container hosts accept connections for a server that is still starting, and close them.
        (ErrorKind::Closed, None, _) if is_initialize => Retry::WhenReachable,
        (ErrorKind::Closed | ErrorKind::NoResponse, ..)
            if is_unknown && is_safe && !was_repeated =>
        {
            Retry::Now
        }
        _ => Retry::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: ErrorKind) -> Error {
        Error::new(kind, "x")
    }

    fn status(status: u16, retry_after: Option<u64>) -> Error {
        let mut error = error(ErrorKind::Status);
        error.status = Some(status);
        error.retry_after = retry_after.map(Duration::from_secs);
        error
    }

    #[test]
    fn what_never_reached_the_server_is_sent_again_whatever_it_is() {
        for kind in [
            ErrorKind::Connect,
            ErrorKind::Dns,
            ErrorKind::Tls,
            ErrorKind::Proxy,
            ErrorKind::Closed,
        ] {
            let error = error(kind).not_delivered();
            assert_eq!(
                decide(Some(&Method::ToolsCall), &error, false, true),
                Retry::WhenReachable,
                "{kind}"
            );
        }
        let login = error(ErrorKind::ProxyAuth).not_delivered();
        assert_eq!(
            decide(Some(&Method::Initialize), &login, true, false),
            Retry::No,
            "nobody mends that"
        );
        let lost = error(ErrorKind::SessionLost).not_delivered();
        assert_eq!(
            decide(Some(&Method::ToolsCall), &lost, false, false),
            Retry::No,
            "the link tried"
        );
    }

    #[test]
    fn what_may_have_reached_it_is_sent_again_once_and_only_if_it_is_safe() {
        for kind in [ErrorKind::Closed, ErrorKind::NoResponse] {
            let error = error(kind);
            assert_eq!(decide(Some(&Method::ToolsCall), &error, false, false), Retry::No);
            assert_eq!(decide(Some(&Method::ToolsList), &error, true, false), Retry::Now);
            assert_eq!(decide(Some(&Method::ToolsList), &error, true, true), Retry::No);
        }
        for kind in [ErrorKind::Timeout, ErrorKind::BadResponse, ErrorKind::TooLarge] {
            assert_eq!(decide(Some(&Method::ToolsList), &error(kind), true, false), Retry::No);
        }
    }

    #[test]
    fn a_servers_own_pause_is_kept_whatever_the_method() {
        // C6
        let pause = Retry::After(Duration::from_secs(2));
        assert_eq!(decide(Some(&Method::ToolsCall), &status(429, Some(2)), false, true), pause);
        assert_eq!(decide(Some(&Method::ToolsCall), &status(503, Some(2)), false, true), pause);
        assert_eq!(decide(Some(&Method::ToolsCall), &status(429, None), false, false), Retry::No);
        assert_eq!(decide(Some(&Method::ToolsList), &status(500, Some(2)), true, false), Retry::No);
    }

    #[test]
    fn a_gateway_without_its_server_counts_as_away_for_initialize_only() {
        for code in [502, 503, 504] {
            let error = status(code, None);
            assert_eq!(
                decide(Some(&Method::Initialize), &error, true, false),
                Retry::WhenReachable,
                "{code}"
            );
            assert_eq!(decide(Some(&Method::ToolsList), &error, true, false), Retry::No, "{code}");
        }
        assert_eq!(decide(Some(&Method::Initialize), &status(500, None), true, false), Retry::No);
    }

    #[test]
    fn a_connection_that_is_closed_without_an_answer_counts_as_away_for_initialize_only() {
        let closed = error(ErrorKind::Closed);
        for was_repeated in [false, true] {
            let verdict = decide(Some(&Method::Initialize), &closed, true, was_repeated);
            assert_eq!(verdict, Retry::WhenReachable);
        }
        assert_eq!(decide(Some(&Method::ToolsList), &closed, true, false), Retry::Now);
        assert_eq!(decide(Some(&Method::ToolsCall), &closed, false, false), Retry::No);
        let begun = Error { status: Some(200), ..closed };
        assert_eq!(decide(Some(&Method::Initialize), &begun, true, false), Retry::Now);
        assert_eq!(decide(Some(&Method::Initialize), &begun, true, true), Retry::No);
    }

    #[test]
    fn a_server_that_is_not_ready_to_take_anything_counts_as_away() {
        // 4(d)25: the hub's stream says 500 while it starts.
        let unready = status(500, None).not_delivered();
        assert_eq!(decide(Some(&Method::Initialize), &unready, true, false), Retry::WhenReachable);
        assert_eq!(decide(Some(&Method::ToolsCall), &unready, false, false), Retry::WhenReachable);
        assert_eq!(decide(Some(&Method::ToolsCall), &status(500, None), false, false), Retry::No);
        let turned_away = status(404, None).not_delivered();
        assert_eq!(decide(Some(&Method::Initialize), &turned_away, true, false), Retry::No);
    }

    #[test]
    fn a_probe_is_answered_at_once() {
        let refused = error(ErrorKind::Connect).not_delivered();
        assert_eq!(decide(Some(&Method::Discover), &refused, true, false), Retry::No);
    }
}
