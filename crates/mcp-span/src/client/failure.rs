//! Why a request failed, sorted by what the caller can do about it.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use crate::error::{Delivery, Error, Kind};

/// What lies between a client and its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Transport {
    /// A child process.
    Child,
    /// Streamable HTTP, or whichever of the two was found.
    Http,
    /// HTTP+SSE, because it was asked for.
    Sse,
    /// A link of the caller's own.
    Other,
}

/// How far a request got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// There was no connection, no process, no login.
    Connect,
    /// It could not be sent.
    Send,
    /// No answer came, or another one than HTTP has for success.
    Receive,
    /// What came could not be read.
    Decode,
    /// The server answered with an error.
    Protocol,
}

/// The sort of a failure: one of the library's, or the server's own error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Something on the way; see [`Kind`].
    Link(Kind),
    /// The server's own error.
    Rpc,
}

/// A request that failed.
///
/// Its text is for a person; all else is for programs.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// What lies between.
    pub transport: Transport,
    /// How far the request got.
    pub stage: Stage,
    /// What sort of failure it is.
    pub class: Class,
    /// Whether the request may have been carried out.
    pub delivery: Delivery,
    /// Whether the same request may succeed later, and can be sent again without harm.
    pub is_retryable: bool,
    /// The JSON-RPC code.
    pub code: i64,
    /// What happened.
    pub message: String,
    /// What to do next.
    pub next_step: Option<String>,
    /// The HTTP status, where there was one.
    pub status: Option<u16>,
    /// What came with the error: a server's `data`, or the library's own details.
    pub data: Option<Box<Value>>,
}

impl Transport {
    /// The stable text form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Child => "stdio",
            Self::Http => "http",
            Self::Sse => "sse",
            Self::Other => "link",
        }
    }
}

impl Stage {
    /// The stable text form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Decode => "decode",
            Self::Protocol => "protocol",
        }
    }

    fn of(kind: Kind, delivery: Delivery) -> Self {
        match kind {
            Kind::Spawn
            | Kind::Connect
            | Kind::Dns
            | Kind::Tls
            | Kind::Proxy
            | Kind::ProxyAuth
            | Kind::BadUrl
            | Kind::Credentials
            | Kind::Login
            | Kind::Redirect => Self::Connect,
            Kind::BadResponse | Kind::TooLarge => Self::Decode,
            Kind::InvalidRequest => Self::Protocol,
            Kind::Overloaded | Kind::Shutdown => Self::Send,
            Kind::Closed | Kind::Timeout if delivery == Delivery::NotDelivered => Self::Send,
            // `Closed`, `Timeout`, `NoResponse`, `Status`, `SessionLost`.
            _ => Self::Receive,
        }
    }
}

/// The stable text form.
impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(kind) => kind.fmt(f),
            Self::Rpc => f.write_str("json-rpc"),
        }
    }
}

/// The error of an answer.
#[derive(Deserialize)]
pub(super) struct RpcError {
    #[serde(default)]
    code: i64,
    #[serde(default)]
    message: String,
    data: Option<Value>,
}

impl Failure {
    /// A failure of the link.
    #[must_use]
    pub fn of(transport: Transport, error: Error) -> Self {
        let Error { kind, delivery, .. } = error;
        Self {
            transport,
            stage: Stage::of(kind, delivery),
            class: Class::Link(kind),
            delivery,
            is_retryable: may_heal(kind, error.status) && delivery == Delivery::NotDelivered,
            code: error.code().into(),
            next_step: error.hint,
            status: error.status,
            data: error.reason.map(|reason| Box::new(serde_json::json!({"reason": reason}))),
            message: error.message,
        }
    }

    /// What an error answer means: the bridge's errors say what they are, all others are the
    /// server's, whatever they say.
    pub(super) fn answered(transport: Transport, error: RpcError, is_bridges: bool) -> Self {
        let value = |name: &str| error.data.as_ref()?.get(name);
        let text = |name: &str| value(name)?.as_str();
        let kind = value("kind").and_then(|kind| Kind::deserialize(kind).ok());
        let delivery = value("delivery").and_then(|known| Delivery::deserialize(known).ok());
        let next_step = text("hint").map(str::to_owned);
        let status = error.data.as_ref().and_then(|data| data.get("status")?.as_u64());
        let status = status.and_then(|status| u16::try_from(status).ok());
        let ours = kind.zip(delivery).filter(|_| is_bridges);
        let (class, delivery) = match ours {
            Some((kind, delivery)) => (Class::Link(kind), delivery),
            None => (Class::Rpc, Delivery::Unknown),
        };
        Self {
            transport,
            stage: ours.map_or(Stage::Protocol, |(kind, delivery)| Stage::of(kind, delivery)),
            class,
            delivery,
            is_retryable: ours.is_some_and(|(kind, delivery)| {
                may_heal(kind, status) && delivery == Delivery::NotDelivered
            }),
            code: error.code,
            message: error.message,
            next_step: ours.and(next_step),
            status: ours.and(status),
            data: error.data.map(Box::new),
        }
    }

    /// The sort of failure, if it is one of the link's.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        match self.class {
            Class::Link(kind) => Some(kind),
            Class::Rpc => None,
        }
    }

    /// Whether the same try may succeed a moment later, whatever became of this one.
    pub(crate) fn may_heal(&self) -> bool {
        self.kind().is_some_and(|kind| may_heal(kind, self.status))
    }
}

/// Whether the same try may succeed a moment later. What a person has to mend, or to log in for, does
/// not.
fn may_heal(kind: Kind, status: Option<u16>) -> bool {
    match kind {
        Kind::Connect
        | Kind::Dns
        | Kind::Proxy
        | Kind::Closed
        | Kind::Timeout
        | Kind::SessionLost
        | Kind::Overloaded
        | Kind::NoResponse => true,
        Kind::Status => matches!(status, Some(404 | 408 | 429 | 500..)),
        _ => false,
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.class {
            Class::Rpc => write!(f, "MCP error {}: {}", self.code, self.message),
            Class::Link(_) => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_a_person_does_not_heal() {
        let may_heal = |kind, status| {
            let error = Error { status, ..Error::new(kind, "no") };
            Failure::of(Transport::Http, error).may_heal()
        };
        for kind in [Kind::Spawn, Kind::Tls, Kind::Login, Kind::Credentials, Kind::BadUrl] {
            assert!(!may_heal(kind, None), "{kind}");
        }
        for status in [400, 401, 403, 405] {
            assert!(!may_heal(Kind::Status, Some(status)), "{status}");
        }
        assert!(may_heal(Kind::Status, Some(503)) && may_heal(Kind::Connect, None));
    }
}
