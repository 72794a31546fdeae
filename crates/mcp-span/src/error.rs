//! What went wrong, sorted by what the caller can do about it.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

use crate::limits;

/// A failure of one request, of one connection or of the input.
///
/// `message` is for a person; `kind` and `delivery` are for programs and stay stable.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mcp_span::{Client, Demo, ErrorKind};
///
/// let demo = Demo::start().await?;
/// let client = Client::builder(demo.url()).connect().await?;
/// let error = client.call("no-such-tool", ()).await.unwrap_err();
/// match error.kind {
///     ErrorKind::Rpc => println!("the server refused, with code {}: {error}", error.code()),
///     _ if error.is_retryable() => println!("try again later: {error}"),
///     kind => println!("{kind}: {error}"),
/// }
/// # assert_eq!((error.kind, error.code()), (ErrorKind::Rpc, -32602));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct Error {
    /// What sort of failure it is.
    pub kind: ErrorKind,
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
    /// Where a person has to log in first.
    pub login_url: Option<Box<Url>>,
    /// The server's own error, if that is what it is.
    pub rpc: Option<Box<RpcError>>,
}

/// The error of a JSON-RPC response: a server's, or the refusal of a server's request.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[non_exhaustive]
pub struct RpcError {
    /// The JSON-RPC code.
    #[serde(default)]
    pub code: i64,
    /// What happened.
    #[serde(default)]
    pub message: String,
    /// Details, in a form that only the sender knows.
    pub data: Option<Value>,
}

/// The sort of a failure; its text form is part of the interface.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ErrorKind {
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
    /// The options of the server cannot be used.
    InvalidOptions,
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
    /// The server answered with an error of its own.
    #[serde(rename = "json-rpc")]
    Rpc,
}

/// How far a request got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
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
    #[doc(hidden)]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            delivery: Delivery::Unknown,
            message: message.into(),
            status: None,
            body: None,
            reason: None,
            hint: None,
            retry_after: None,
            login_url: None,
            rpc: None,
        }
    }

    /// A server's own error.
    #[doc(hidden)]
    #[must_use]
    pub fn from_rpc(rpc: RpcError) -> Self {
        let message = format!("MCP error {}: {}", rpc.code, rpc.message);
        Self { rpc: Some(Box::new(rpc)), ..Self::new(ErrorKind::Rpc, message) }
    }

    /// Somebody has to log in before the request can be sent; `prompt` says where, and what for. What
    /// is too long for the sentence stands beside it: half an address leads nowhere.
    #[doc(hidden)]
    #[must_use]
    pub fn login_pending(prompt: &str) -> Self {
        let page = prompt.split_whitespace().find(|word| word.contains("://"));
        let mut message = format!("A login is pending: open {prompt}");
        if message.chars().count() > limits::ERROR_TEXT {
            let rest = page.and_then(|page| prompt.split_once(page)).map_or("", |(_, rest)| rest);
            let rest: String = rest.chars().take(limits::LOGIN_TEXT).collect();
            message = format!("A login is pending: open the address that is in `url`{rest}");
        }
        let mut error = Self::new(ErrorKind::Login, message).hint("Log in there, then try again");
        let page = page.filter(|page| page.len() <= limits::PAGE_TEXT);
        error.login_url = page.and_then(|page| Url::parse(page).ok()).map(Box::new);
        error.not_delivered()
    }

    /// The failure of what waited for a login that has no page to be named.
    #[doc(hidden)]
    #[must_use]
    pub fn login_unshown() -> Self {
        let message = "A login is under way, perhaps in another process, and takes too long";
        Self::new(ErrorKind::Login, message).hint("Try again later").not_delivered()
    }

    /// The same failure with the knowledge that the server did not carry the request out.
    #[doc(hidden)]
    #[must_use]
    pub fn not_delivered(mut self) -> Self {
        self.delivery = Delivery::NotDelivered;
        self
    }

    /// Adds the cause in the words of the layer below.
    #[doc(hidden)]
    #[must_use]
    pub fn because(mut self, reason: impl fmt::Display) -> Self {
        self.reason = Some(reason.to_string().into());
        self
    }

    /// Adds what to do next.
    #[doc(hidden)]
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Whether it says nothing about the server but that it is not to be had: nobody is there, or
    /// somebody who turns everything away because the server is not ready.
    #[doc(hidden)]
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        let is_absent = matches!(
            self.kind,
            ErrorKind::Connect
                | ErrorKind::Dns
                | ErrorKind::Tls
                | ErrorKind::Proxy
                | ErrorKind::Closed
        );
        let is_unready = self.kind == ErrorKind::Status
            && self.retry_after.is_none()
            && self.status.is_some_and(|status| status >= 500);
        self.delivery == Delivery::NotDelivered && (is_absent || is_unready)
    }

    /// Whether the same request may succeed later, and can be sent again without harm.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.may_heal() && self.delivery == Delivery::NotDelivered
    }

    /// Whether another try may succeed a moment later. What a person has to mend, or to log in for,
    /// does not.
    pub(crate) fn may_heal(&self) -> bool {
        match self.kind {
            ErrorKind::Connect
            | ErrorKind::Dns
            | ErrorKind::Proxy
            | ErrorKind::Closed
            | ErrorKind::Timeout
            | ErrorKind::SessionLost
            | ErrorKind::Overloaded
            | ErrorKind::NoResponse => true,
            ErrorKind::Status => matches!(self.status, Some(404 | 408 | 429 | 500..)),
            _ => false,
        }
    }

    /// How far the request got.
    #[must_use]
    pub fn stage(&self) -> Stage {
        match self.kind {
            ErrorKind::Spawn
            | ErrorKind::Connect
            | ErrorKind::Dns
            | ErrorKind::Tls
            | ErrorKind::Proxy
            | ErrorKind::ProxyAuth
            | ErrorKind::BadUrl
            | ErrorKind::InvalidOptions
            | ErrorKind::Credentials
            | ErrorKind::Login
            | ErrorKind::Redirect => Stage::Connect,
            ErrorKind::BadResponse | ErrorKind::TooLarge => Stage::Decode,
            ErrorKind::InvalidRequest | ErrorKind::Rpc => Stage::Protocol,
            ErrorKind::Overloaded | ErrorKind::Shutdown => Stage::Send,
            ErrorKind::Closed | ErrorKind::Timeout if self.delivery == Delivery::NotDelivered => {
                Stage::Send
            }
            // `Closed`, `Timeout`, `NoResponse`, `Status`, `SessionLost`.
            _ => Stage::Receive,
        }
    }

    /// The JSON-RPC error code: the server's, or the one that a bridge's client sees.
    #[must_use]
    pub fn code(&self) -> i64 {
        if let Some(rpc) = &self.rpc {
            return rpc.code;
        }
        match self.kind {
            ErrorKind::Status | ErrorKind::SessionLost => -32001,
            // They come from a refusal that has a status.
            ErrorKind::Login | ErrorKind::Credentials if self.status.is_some() => -32001,
            ErrorKind::InvalidRequest => -32600,
            // As a server answers that does not have the tool.
            ErrorKind::HiddenTool => -32602,
            _ => -32000,
        }
    }

    /// What goes with it for programs: a server's `data`, or all that is known of another failure.
    #[must_use]
    pub fn data(&self) -> Option<Value> {
        if let Some(rpc) = &self.rpc {
            return rpc.data.clone();
        }
        Some(self.details().into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
    }

    /// What is known of a failure, by the names that clients see.
    pub(crate) fn details(&self) -> [(&'static str, Option<Value>); 8] {
        let text = |text: &Option<Box<str>>| text.as_deref().map(Value::from);
        [
            ("kind", Some(json!(self.kind))),
            ("delivery", Some(json!(self.delivery))),
            ("status", self.status.map(Value::from)),
            ("body", text(&self.body)),
            ("reason", text(&self.reason)),
            ("hint", self.hint.as_deref().map(Value::from)),
            ("retryAfterMs", self.retry_after.map(|time| json!(time.as_millis()))),
            ("url", self.login_url.as_deref().map(|url| Value::from(url.as_str()))),
        ]
    }
}

impl RpcError {
    /// An error with this code and text.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The refusal of a method that is not known.
    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        Self::new(-32601, format!("Method not found: {method}"))
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}
