//! How a connection is wished for: which server, who we are, and who answers what it asks.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use serde::Serialize;
use serde_json::{Value, json};
use url::Url;

use super::handlers::{Answering, Handler, ServerRequest};
use super::notifications::Notification;
use super::spec::{Server, Spec};
use super::{CallResult, Client};
use crate::error::{Error, ErrorKind, RpcError};
use crate::limits::Timeouts;
use crate::transport::Link;

/// Who the client is, what it can do, and who hears what happens.
#[derive(Clone)]
pub struct Options {
    /// Sent as `clientInfo`.
    pub info: Value,
    /// Sent as `capabilities`: what the server may ask for.
    pub capabilities: Value,
    /// Answers what the server asks for; `ping` is answered without it.
    pub handler: Option<Arc<dyn Handler>>,
    /// Hears every notification, in order.
    pub on_notification: Option<Arc<dyn Fn(Notification) + Send + Sync>>,
    /// Hears of failures that belong to no request.
    pub on_error: Option<Arc<dyn Fn(&Error) + Send + Sync>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            info: json!({"name": crate::NAME, "version": env!("CARGO_PKG_VERSION")}),
            capabilities: json!({}),
            handler: None,
            on_notification: None,
            on_error: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("info", &self.info).finish_non_exhaustive()
    }
}

/// What can be connected to: a URL, a described server, or a [`Link`].
#[derive(Debug)]
pub struct Target(pub(super) Result<Place, Error>);

#[derive(Debug)]
pub(super) enum Place {
    Server(Box<Spec>),
    Link(Link),
}

impl From<&str> for Target {
    fn from(url: &str) -> Self {
        let url = Url::parse(url).map_err(|why| {
            Error::new(ErrorKind::BadUrl, format!("'{url}' is not a URL: {why}"))
                .hint("Write it like https://example.com/mcp")
                .not_delivered()
        });
        url.map_or_else(|error| Self(Err(error)), Self::from)
    }
}

impl From<&String> for Target {
    fn from(url: &String) -> Self {
        Self::from(url.as_str())
    }
}

impl From<Url> for Target {
    fn from(url: Url) -> Self {
        Self::from(Spec::url(url))
    }
}

impl From<&Url> for Target {
    fn from(url: &Url) -> Self {
        Self::from(url.clone())
    }
}

impl From<Spec> for Target {
    fn from(spec: Spec) -> Self {
        Self(Ok(Place::Server(Box::new(spec))))
    }
}

impl From<Link> for Target {
    fn from(link: Link) -> Self {
        Self(Ok(Place::Link(link)))
    }
}

/// Calls one tool of a server: connects, calls and disconnects.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let demo = mcp_span::Demo::start().await?;
/// # let url = demo.url().as_str();
/// let sum = mcp_span::call(url, "add", serde_json::json!({"a": 2, "b": 40})).await?;
/// assert_eq!(sum.text(), "42");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// When there is no connection, or the call fails. A tool that reports a failure is a result
/// ([`CallResult::is_error`]).
pub async fn call(
    server: impl Into<Target>,
    tool: &str,
    arguments: impl Serialize,
) -> Result<CallResult, Error> {
    let client = Client::builder(server).connect().await?;
    let result = client.call(tool, arguments).await;
    client.close().await;
    result
}

/// A connection to be made. The capabilities that it announces follow from its handlers.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// # let demo = mcp_span::Demo::start().await?;
/// let client = mcp_span::Client::builder(demo.url())
///     .header("X-Team", "tools")
///     .timeout(Duration::from_secs(60))
///     .roots(["file:///home/me/project"])
///     .on_notification(|told| println!("{}: {}", told.method, told.params))
///     .on_error(|error| eprintln!("{error}"))
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a connection is made by `connect`"]
pub struct ClientBuilder {
    target: Target,
    options: Options,
    handlers: Handlers,
}

impl ClientBuilder {
    pub(super) fn new(target: Target) -> Self {
        Self { target, options: Options::default(), handlers: Handlers::default() }
    }

    /// A header of every HTTP request.
    pub fn header(self, name: &str, value: &str) -> Self {
        let header = HeaderName::from_bytes(name.as_bytes());
        let (Ok(name), Ok(mut value)) = (header, HeaderValue::from_str(value)) else {
            let text = format!("'{name}' is not a valid header");
            return self.refused(Error::new(ErrorKind::InvalidRequest, text).not_delivered());
        };
        value.set_sensitive(true);
        self.http(|http| drop(http.headers.insert(name, value)))
    }

    /// A bearer token for every HTTP request.
    pub fn bearer_token(self, token: &str) -> Self {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    /// How long the server may be silent while a request waits; zero for as long as it likes. The
    /// default is 30 seconds for lists and the handshake, and five minutes for calls.
    pub fn timeout(self, limit: Duration) -> Self {
        self.spec(|spec| spec.set_timeouts(Timeouts::all(limit)))
    }

    /// How long [`Self::connect`] waits for a server that cannot be reached.
    pub fn connect_wait(self, limit: Duration) -> Self {
        self.spec(|spec| spec.policy.connect_wait = limit)
    }

    /// How long requests wait for a person to log in before they fail with [`ErrorKind::Login`].
    pub fn login_wait(self, limit: Duration) -> Self {
        self.spec(|spec| spec.policy.login_wait = limit).http(|http| http.login_wait = limit)
    }

    /// The name and version that the server is told.
    pub fn client_info(mut self, name: &str, version: &str) -> Self {
        self.options.info = json!({"name": name, "version": version});
        self
    }

    /// Announces a capability, or changes one that follows from a handler.
    pub fn capability(mut self, name: &str, value: Value) -> Self {
        self.options.capabilities[name] = value;
        self
    }

    /// Answers what the server wants to know of a person (`elicitation/create`).
    ///
    /// ```
    /// use serde_json::json;
    ///
    /// # let builder = mcp_span::Client::builder("http://localhost/mcp");
    /// let builder = builder.on_elicitation(|asked| async move {
    ///     println!("{}", asked.params["message"]);
    ///     Ok(json!({"action": "accept", "content": {"name": "Ada"}}))
    /// });
    /// ```
    pub fn on_elicitation<F, A>(self, handler: F) -> Self
    where
        F: Fn(ServerRequest) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Value, RpcError>> + Send + 'static,
    {
        self.capability("elicitation", json!({})).on_request("elicitation/create", handler)
    }

    /// Answers what the server wants a model to say (`sampling/createMessage`).
    pub fn on_sampling<F, A>(self, handler: F) -> Self
    where
        F: Fn(ServerRequest) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Value, RpcError>> + Send + 'static,
    {
        self.capability("sampling", json!({})).on_request("sampling/createMessage", handler)
    }

    /// The folders that the server may work in, as URIs (`file:///…`).
    pub fn roots<U: Into<String>>(self, uris: impl IntoIterator<Item = U>) -> Self {
        let roots: Vec<_> = uris.into_iter().map(|uri| json!({"uri": uri.into()})).collect();
        let roots = json!({"roots": roots});
        self.capability("roots", json!({})).on_request("roots/list", move |_| {
            let roots = roots.clone();
            async { Ok(roots) }
        })
    }

    /// Answers any other request of the server's. The future is dropped when the server cancels it.
    pub fn on_request<F, A>(mut self, method: &str, handler: F) -> Self
    where
        F: Fn(ServerRequest) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Value, RpcError>> + Send + 'static,
    {
        self.handlers.0.insert(method.to_owned(), Arc::new(handler));
        self
    }

    /// Hears every notification of the server in order, also those before [`Self::connect`] returns.
    /// Responses wait while this runs.
    pub fn on_notification(mut self, heard: impl Fn(Notification) + Send + Sync + 'static) -> Self {
        self.options.on_notification = Some(Arc::new(heard));
        self
    }

    /// Hears of failures that belong to no request: messages that cannot be read, and the end of the
    /// connection.
    pub fn on_error(mut self, heard: impl Fn(&Error) + Send + Sync + 'static) -> Self {
        self.options.on_error = Some(Arc::new(heard));
        self
    }

    /// Replaces all that was said of the client itself.
    #[doc(hidden)]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Connects: opens the link and performs the handshake.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached or started, or refuses the handshake. Where a person has to
    /// log in first, the error is an [`ErrorKind::Login`] with an [`Error::login_url`]; the login
    /// goes on meanwhile.
    pub async fn connect(self) -> Result<Client, Error> {
        self.connect_unless(std::future::pending()).await
    }

    /// The same, given up when `unwanted` completes; what has begun by then is ended and waited for.
    ///
    /// # Errors
    ///
    /// As [`Self::connect`]; also when it was given up.
    pub async fn connect_unless(self, unwanted: impl Future<Output = ()>) -> Result<Client, Error> {
        let (place, options) = self.into_parts()?;
        match place {
            Place::Server(spec) => Client::connect(*spec, options, unwanted).await,
            Place::Link(link) => Client::over(link, options, unwanted).await,
        }
    }

    /// What to connect to, and as whom, for who connects again and again: over a link, nobody can.
    pub(crate) fn into_server(self) -> Result<(Spec, Options), Error> {
        match self.into_parts()? {
            (Place::Server(spec), options) => Ok((*spec, options)),
            (Place::Link(_), _) => {
                let text = "A link is connected once only: give the server's URL or command";
                Err(Error::new(ErrorKind::InvalidRequest, text).not_delivered())
            }
        }
    }

    fn into_parts(self) -> Result<(Place, Options), Error> {
        let Self { target, mut options, handlers } = self;
        if !handlers.0.is_empty() {
            options.handler = Some(Arc::new(handlers));
        }
        Ok((target.0?, options))
    }

    fn refused(mut self, error: Error) -> Self {
        self.target.0 = self.target.0.and(Err(error));
        self
    }

    fn spec(mut self, change: impl FnOnce(&mut Spec)) -> Self {
        if let Ok(Place::Server(spec)) = &mut self.target.0 {
            change(spec);
        }
        self
    }

    fn http(self, change: impl FnOnce(&mut crate::transport::http::HttpSettings)) -> Self {
        self.spec(|spec| {
            if let Server::Http(http) = &mut spec.server {
                change(http);
            }
        })
    }
}

/// Handlers by the method that they answer.
#[derive(Clone, Default)]
struct Handlers(HashMap<String, Arc<dyn Handler>>);

impl Handler for Handlers {
    fn answer(&self, asked: ServerRequest) -> Answering {
        match self.0.get(&asked.method) {
            Some(handler) => handler.answer(asked),
            None => Box::pin(async move { Err(RpcError::method_not_found(&asked.method)) }),
        }
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
