//! How a connection is wished for: which server, who we are, and who answers what it asks.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use url::Url;

use super::handlers::{Answering, Handler, ServerRequest};
use super::notifications::Notification;
use super::spec::Spec;
use super::{CallResult, Client};
use crate::error::{Error, RpcError};
use crate::limits::Timeouts;
use crate::options::{Context, Header, ServerOptions};
use crate::secret::Secret;
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
    pub on_notification: Option<OnNotification>,
    /// Hears of failures that belong to no request.
    pub on_error: Option<OnError>,
}

type OnNotification = Arc<dyn Fn(Notification) + Send + Sync>;
type OnError = Arc<dyn Fn(&Error) + Send + Sync>;

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

/// What can be connected to: a URL, a server that is described by [`ServerOptions`], or a [`Link`].
#[derive(Debug)]
pub struct Target(pub(super) Place);

#[derive(Debug)]
pub(super) enum Place {
    Options(Box<ServerOptions>),
    /// Options that were resolved already.
    Spec(Box<Spec>),
    Link(Link),
}

impl From<&str> for Target {
    fn from(url: &str) -> Self {
        Self::from(ServerOptions::from_url(url))
    }
}

impl From<&String> for Target {
    fn from(url: &String) -> Self {
        Self::from(url.as_str())
    }
}

impl From<&Url> for Target {
    fn from(url: &Url) -> Self {
        Self::from(url.as_str())
    }
}

impl From<ServerOptions> for Target {
    fn from(options: ServerOptions) -> Self {
        Self(Place::Options(Box::new(options)))
    }
}

impl From<Link> for Target {
    fn from(link: Link) -> Self {
        Self(Place::Link(link))
    }
}

impl From<Spec> for Target {
    fn from(spec: Spec) -> Self {
        Self(Place::Spec(Box::new(spec)))
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
///
/// What has no method here is a field of [`ServerOptions`]. A link has none of these options but the
/// timeout.
#[derive(Debug)]
#[must_use = "a connection is made by `connect`"]
pub struct ClientBuilder {
    place: Place,
    context: Context,
    options: Options,
    handlers: Handlers,
    timeouts: Timeouts,
}

impl ClientBuilder {
    pub(super) fn new(Target(place): Target) -> Self {
        Self {
            place,
            context: Context::default(),
            options: Options::default(),
            handlers: Handlers::default(),
            timeouts: Timeouts::default(),
        }
    }

    /// A header of every HTTP request.
    pub fn header(self, name: &str, value: &str) -> Self {
        let header = Header::new(name, value);
        self.set(|server| server.headers.get_or_insert_default().push(header))
    }

    /// A bearer token for every HTTP request.
    pub fn bearer_token(self, token: Secret) -> Self {
        self.set(|server| server.bearer_token = Some(token))
    }

    /// A file with a bearer token; it is read again when it was replaced.
    pub fn bearer_file(self, path: impl Into<PathBuf>) -> Self {
        self.set(|server| server.bearer_file = Some(path.into()))
    }

    /// A command that prints a bearer token; it is run again when the server refuses the token.
    pub fn bearer_command(self, command: impl Into<String>) -> Self {
        self.set(|server| server.bearer_command = Some(command.into()))
    }

    /// The directory in which the tokens of OAuth logins are kept; without one, they are gone with
    /// the program.
    pub fn state_dir(self, path: impl Into<PathBuf>) -> Self {
        self.set(|server| server.state_dir = Some(path.into()))
    }

    /// How long requests wait for a person to log in before they fail with [`ErrorKind::Login`](crate::ErrorKind::Login).
    pub fn login_wait(self, limit: Duration) -> Self {
        self.set(|server| server.oauth_wait = Some(limit))
    }

    /// Hears where a person has to log in, as soon as that is known; for as long as
    /// [`Self::login_wait`] allows, the request waits for it.
    pub fn on_login(mut self, heard: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.context.show = Some(Arc::new(move |prompt, _| heard(&prompt.to_string())));
        self
    }

    /// What the options may refer to, such as variables.
    pub fn context(mut self, context: Context) -> Self {
        self.context = context;
        self
    }

    /// A variable for a server that is a program.
    pub fn env(self, name: impl Into<String>, value: Secret) -> Self {
        self.set(|server| server.env.get_or_insert_default().push((name.into(), value)))
    }

    /// How long the server may be silent while a request waits; zero for as long as it likes. The
    /// default is 30 seconds for lists and the handshake, and five minutes for calls.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeouts = Timeouts::all(limit);
        self.set(|server| server.timeout = Some(limit))
    }

    /// How long [`Self::connect`] waits for a server that cannot be reached.
    pub fn connect_wait(self, limit: Duration) -> Self {
        self.set(|server| server.connect_wait = Some(limit))
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
    /// log in first, the error is an [`ErrorKind::Login`](crate::ErrorKind::Login) with an [`Error::login_url`]; the login
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
        if let Place::Link(link) = self.place {
            let options = self.handlers.put_into(self.options);
            return Client::over(link, self.timeouts, options, unwanted).await;
        }
        let (spec, options) = self.into_server()?;
        Client::connect(spec, options, unwanted).await
    }

    /// The server and the client's side of the connection, for who connects again and again.
    pub(crate) fn into_server(self) -> Result<(Spec, Options), Error> {
        let spec = match self.place {
            Place::Options(server) => server.resolve(&self.context)?,
            Place::Spec(spec) => *spec,
            Place::Link(_) => {
                let text = "A link is connected once only: give the server's URL or command";
                let kind = crate::ErrorKind::InvalidRequest;
                return Err(Error::new(kind, text).not_delivered());
            }
        };
        Ok((spec, self.handlers.put_into(self.options)))
    }

    fn set(mut self, change: impl FnOnce(&mut ServerOptions)) -> Self {
        if let Place::Options(server) = &mut self.place {
            change(server);
        }
        self
    }
}

/// Handlers by the method that they answer.
#[derive(Clone, Default)]
struct Handlers(HashMap<String, Arc<dyn Handler>>);

impl Handlers {
    fn put_into(self, mut options: Options) -> Options {
        if !self.0.is_empty() {
            options.handler = Some(Arc::new(self));
        }
        options
    }
}

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
