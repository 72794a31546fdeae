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
            is_retryable: is_retryable(kind, delivery, error.status),
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
            is_retryable: ours.is_some_and(|(kind, delivery)| is_retryable(kind, delivery, status)),
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
}

/// What can heal by itself, and was not carried out.
fn is_retryable(kind: Kind, delivery: Delivery, status: Option<u16>) -> bool {
    let may_heal = match kind {
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
    };
    may_heal && delivery == Delivery::NotDelivered
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
