//! What went wrong, sorted by what the caller can do about it.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limits;

/// A failure of one request, of one connection or of the input.
///
/// `message` is for a person; `kind` and `delivery` are for programs and stay stable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// What sort of failure it is.
    pub kind: Kind,
    /// Whether the request may have been carried out.
    pub delivery: Delivery,
    /// What happened and where, in one sentence.
    pub message: String,
    /// The HTTP status, where there was one.
    pub status: Option<u16>,
    /// The beginning of the body that came with it.
    pub body: Option<Box<str>>,
    /// The cause in the words of the layer below.
    pub reason: Option<Box<str>>,
    /// What to do next.
    pub hint: Option<String>,
    /// How long the server wants to be left alone.
    pub retry_after: Option<Duration>,
    /// Where a person has to go.
    pub page: Option<Box<str>>,
}

/// The sort of a failure; its text form is part of the interface.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Kind {
    /// The program of the server cannot be started.
    Spawn,
    /// No connection: refused, unreachable, or timed out.
    Connect,
    /// The host name cannot be resolved.
    Dns,
    /// The TLS handshake failed: certificate, version or protocol.
    Tls,
    /// The proxy cannot be reached, or does not reach the server.
    Proxy,
    /// The proxy requires credentials, or other ones.
    ProxyAuth,
    /// The server was silent for too long.
    Timeout,
    /// The connection broke before the answer was complete.
    Closed,
    /// The server ended its answer without answering the request.
    NoResponse,
    /// The server answered with an HTTP error.
    #[serde(rename = "http-status")]
    Status,
    /// The server lost the session of the request, and opened no other in time.
    SessionLost,
    /// The server answered with something that is not an MCP answer.
    BadResponse,
    /// A message is over the size limit.
    TooLarge,
    /// The URL, or the target of a redirect, cannot be used with HTTP.
    BadUrl,
    /// Too much is waiting for an answer.
    Overloaded,
    /// The source of credentials failed.
    Credentials,
    /// A login failed, or is still pending.
    Login,
    /// A redirect that must not or cannot be followed.
    Redirect,
    /// The tool is hidden from the client.
    #[serde(rename = "tool-hidden")]
    HiddenTool,
    /// The client sent something that is not JSON-RPC 2.0, or an id that is in use.
    InvalidRequest,
    /// The bridge shut down before the answer came.
    Shutdown,
}

/// What is known about the request having reached the server; its text form is part of the interface.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// It did not reach the server, or the server turned it away: sending it again is safe.
    NotDelivered,
    /// It may have been carried out.
    Unknown,
}

impl Error {
    /// A failure after which nothing is known about the request's fate.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            delivery: Delivery::Unknown,
            message: message.into(),
            status: None,
            body: None,
            reason: None,
            hint: None,
            retry_after: None,
            page: None,
        }
    }

    /// Somebody has to log in before the request can be sent; `prompt` says where, and what for. What
    /// is too long for the sentence stands beside it: half an address leads nowhere.
    #[must_use]
    pub fn login_pending(prompt: &str) -> Self {
        let page = prompt.split_whitespace().find(|word| word.contains("://"));
        let mut message = format!("A login is pending: open {prompt}");
        if message.chars().count() > limits::ERROR_TEXT {
            let rest = page.and_then(|page| prompt.split_once(page)).map_or("", |(_, rest)| rest);
            let rest: String = rest.chars().take(limits::LOGIN_TEXT).collect();
            message = format!("A login is pending: open the address that is in `url`{rest}");
        }
        let mut error = Self::new(Kind::Login, message).hint("Log in there, then try again");
        error.page = page.filter(|page| page.len() <= limits::PAGE_TEXT).map(Into::into);
        error.not_delivered()
    }

    /// The failure of what waited for a login that has no page to be named.
    #[must_use]
    pub fn login_unshown() -> Self {
        let message = "A login is under way, perhaps in another process, and takes too long";
        Self::new(Kind::Login, message).hint("Try again later").not_delivered()
    }

    /// The same failure with the knowledge that the server did not carry the request out.
    #[must_use]
    pub fn not_delivered(mut self) -> Self {
        self.delivery = Delivery::NotDelivered;
        self
    }

    /// Adds the cause in the words of the layer below.
    #[must_use]
    pub fn because(mut self, reason: impl fmt::Display) -> Self {
        self.reason = Some(reason.to_string().into());
        self
    }

    /// Adds what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Whether it says nothing about the server but that it is not to be had: nobody is there, or
    /// somebody who turns everything away because the server is not ready.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        let is_absent =
            matches!(self.kind, Kind::Connect | Kind::Dns | Kind::Tls | Kind::Proxy | Kind::Closed);
        let is_unready = self.kind == Kind::Status
            && self.retry_after.is_none()
            && self.status.is_some_and(|status| status >= 500);
        self.delivery == Delivery::NotDelivered && (is_absent || is_unready)
    }

    /// The JSON-RPC error code that a client sees.
    #[must_use]
    pub fn code(&self) -> i32 {
        match self.kind {
            Kind::Status | Kind::SessionLost => -32001,
            // They come from a refusal that has a status.
            Kind::Login | Kind::Credentials if self.status.is_some() => -32001,
            Kind::InvalidRequest => -32600,
            // As a server answers that does not have the tool.
            Kind::HiddenTool => -32602,
            _ => -32000,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}
