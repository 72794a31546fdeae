//! A client of one MCP server: requests and their responses, whatever link lies below.
//!
//! [`ClientBuilder::connect`] puts a bridge below the client, so that lost sessions, unreachable
//! servers, logins and servers of the modern era are dealt with there, and every request ends
//! exactly once.

use std::ffi::OsString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::error::{Error, ErrorKind};
use crate::lenient::lenient;
use crate::limits::{self, Timeouts};
use crate::lock::lock;
use crate::message::{Id, InFlight, Message, reply};
use crate::options::ServerOptions;
use crate::revision::Revision;
use crate::transport::{Link, channel};

mod bridge;
mod builder;
mod handlers;
mod items;
mod lists;
mod notifications;
mod page;
mod reader;
mod request;
mod results;
mod spec;

pub use bridge::Bridge;
pub use builder::{ClientBuilder, Options, Target, call};
pub use handlers::{Answering, Handler, ServerRequest};
pub use items::{Item, Prompt, Resource, ResourceTemplate, Tool};
pub use lists::Listed;
pub use notifications::{Notification, Notifications};
pub use request::{Progress, Request};
pub use results::{CallResult, Content, PromptMessage, PromptResult, ReadResult, ResourceContents};
pub use spec::{Server, Spec};

use reader::Reader;
use request::{Waiting, json_of};

/// A connection to one server.
///
/// Clones share it; when the last one is dropped, it is closed.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mcp_span::{Client, Demo};
/// use serde_json::json;
///
/// let demo = Demo::start().await?; // a server to try it on
/// let client = Client::builder(demo.url()).connect().await?;
/// for tool in client.tools().await? {
///     println!("{}: {}", tool.name(), tool.description());
/// }
/// let result = client.call("add", json!({"a": 2, "b": 40})).await?;
/// assert_eq!(result.text(), "42");
/// client.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
    server: Arc<Value>,
}

/// What the handles and the reader share.
#[derive(Debug)]
struct Shared {
    /// How long requests may be silent, where nothing below keeps the time.
    timeouts: Timeouts,
    /// `None` when nothing more will be sent.
    outbox: Mutex<Option<channel::Sender<Message>>>,
    waiting: Mutex<InFlight<Waiting>>,
    listeners: notifications::Listeners,
    count: AtomicU64,
    /// Why the link has ended, once it has.
    ended: watch::Sender<Option<Error>>,
    closing: Mutex<Option<Closing>>,
}

/// What is needed to wait for the end.
#[derive(Debug)]
struct Closing {
    done: JoinHandle<()>,
    stop: Option<oneshot::Sender<()>>,
}

/// Ends the bridge below at once if there is no handshake: it would wait for the answer to
/// `initialize`, and a program that never gives it would outlive whoever has given up.
struct Opening {
    stop: Option<oneshot::Sender<()>>,
    /// Where the bridge writes why its server has left.
    why: Arc<OnceLock<Error>>,
}

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }
}

impl Client {
    /// Begins a connection to a URL, to a server that is described by options, or over a link.
    pub fn builder(server: impl Into<Target>) -> ClientBuilder {
        ClientBuilder::new(server.into())
    }

    /// Begins a connection to a server that is a program, started with these arguments.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), mcp_span::Error> {
    /// let server = ["-y", "@modelcontextprotocol/server-everything"];
    /// let client = mcp_span::Client::command("npx", server).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn command<A: Into<OsString>>(
        program: impl Into<OsString>,
        args: impl IntoIterator<Item = A>,
    ) -> ClientBuilder {
        Self::builder(ServerOptions::from_command(program, args))
    }

    /// Sends `initialize` over `link`, and `notifications/initialized` after its answer.
    async fn open(
        link: Link,
        mut opening: Opening,
        timeouts: Timeouts,
        options: Options,
        unwanted: impl Future<Output = ()>,
    ) -> Result<Self, Error> {
        let Link { outbox, inbox, done, .. } = link;
        let shared = Arc::new(Shared {
            timeouts,
            outbox: Mutex::new(Some(outbox)),
            waiting: Mutex::default(),
            listeners: notifications::Listeners::default(),
            count: AtomicU64::new(0),
            ended: watch::Sender::new(None),
            closing: Mutex::new(Some(Closing { done, stop: None })),
        });
        let params = json!({
            "protocolVersion": Revision::LATEST_LEGACY,
            "capabilities": options.capabilities,
            "clientInfo": options.info,
        });
        let why = Arc::clone(&opening.why);
        tokio::spawn(Reader::new(&shared, options, why).run(inbox));
        let mut client = Self { shared, server: Arc::new(Value::Null) };
        let answer = tokio::select! {
            answer = client.request("initialize", params).raw() => answer,
            () = unwanted => Err(closed().not_delivered()),
        };
        client.server = match answer {
            Ok(result) => Arc::new(lenient(result.get())),
            Err(error) => {
                drop(opening);
                client.close().await;
                return Err(error);
            }
        };
        client.notify("notifications/initialized", ()).await?;
        if let Some(closing) = &mut *lock(&client.shared.closing) {
            closing.stop = opening.stop.take();
        }
        Ok(client)
    }

    /// The server's answer to `initialize`: `serverInfo`, `capabilities`, `instructions` and whatever
    /// else it said.
    #[must_use]
    pub fn server(&self) -> &Value {
        &self.server
    }

    /// The negotiated revision of the protocol.
    #[must_use]
    pub fn protocol_version(&self) -> &str {
        self.server["protocolVersion"].as_str().unwrap_or_default()
    }

    /// Whether the server has `capability`: `tools`, `resources`, `prompts`, `logging`…
    #[must_use]
    pub fn has_capability(&self, capability: &str) -> bool {
        self.server["capabilities"].get(capability).is_some_and(|offer| !offer.is_null())
    }

    /// Any request, sent when it is awaited. Dropped before its end, it is cancelled at the server.
    ///
    /// Parameters are anything that serializes to JSON, `()` for none; a
    /// [`RawValue`](serde_json::value::RawValue) is sent as it is written.
    pub fn request(&self, method: impl Into<String>, params: impl Serialize) -> Request<'_> {
        Request::new(&self.shared, method.into(), json_of(params))
    }

    /// Sends a notification; see [`Self::request`] for the parameters.
    ///
    /// # Errors
    ///
    /// When the connection has ended, or the server takes nothing.
    pub async fn notify(&self, method: &str, params: impl Serialize) -> Result<(), Error> {
        let message = reply::notification(method, json_of(params)?.as_deref());
        let limit = self.shared.timeouts.quick.unwrap_or(limits::QUICK_TIMEOUT);
        timeout(limit, self.shared.send(message)).await.unwrap_or_else(|_| {
            let text = format!("Notify timeout after {}ms", limit.as_millis());
            Err(Error::new(ErrorKind::Timeout, text).not_delivered())
        })
    }

    /// All notifications of the server from now on. [`ClientBuilder::on_notification`] gets those
    /// that come before this is called, too.
    #[must_use]
    pub fn notifications(&self) -> Notifications {
        self.shared.listeners.add()
    }

    /// Whether the connection is open. A server that is unreachable for a moment does not change
    /// that.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.shared.ended.borrow().is_none()
    }

    /// Waits until the connection has ended, and returns why.
    pub async fn ended(&self) -> Error {
        let mut ended = self.shared.ended.subscribe();
        let error = ended.wait_for(Option::is_some).await.ok().and_then(|error| error.clone());
        error.unwrap_or_else(closed)
    }

    /// Closes the connection: requests in flight fail with `Transport closed`, the session is ended,
    /// and a child process has left when this returns.
    pub async fn close(&self) {
        let was_waiting = self.shared.end(&closed());
        let closing = lock(&self.shared.closing).take();
        let Some(Closing { mut done, mut stop }) = closing else { return };
        // The bridge below would wait for the answers.
        if was_waiting && let Some(stop) = stop.take() {
            let _ = stop.send(());
        }
        // A peer that takes nothing more is not waited for without end either.
        if timeout(limits::CLIENT_CLOSES, &mut done).await.is_err()
            && let Some(stop) = stop.take()
        {
            let _ = stop.send(());
            let _ = timeout(limits::CLIENT_CLOSES, done).await;
        }
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "Transport closed")
}

impl Shared {
    /// Integers from 1: some servers never answer other ids.
    fn next_id(&self) -> Id {
        Id::number(self.count.fetch_add(1, Ordering::Relaxed) + 1)
    }

    async fn send(&self, message: Message) -> Result<(), Error> {
        let outbox = lock(&self.outbox).clone();
        let sent = match outbox {
            Some(outbox) => outbox.send(message).await.is_ok(),
            None => false,
        };
        if sent { Ok(()) } else { Err(self.gone()) }
    }

    /// The failure of what cannot be sent any more.
    fn gone(&self) -> Error {
        self.ended.borrow().clone().unwrap_or_else(closed).not_delivered()
    }

    /// Sends without waiting, for those who cannot; what there is no room for is sent by a task.
    fn send_soon(&self, message: Message) {
        let Some(outbox) = lock(&self.outbox).clone() else { return };
        if let Err(message) = outbox.try_send(message)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move { timeout(limits::CLOSE, outbox.send(message)).await });
        }
    }

    /// Nothing more is sent, and nothing waited for. Gives back whether anything was.
    fn end(&self, why: &Error) -> bool {
        drop(lock(&self.outbox).take());
        self.ended.send_if_modified(|ended| {
            let is_first = ended.is_none();
            ended.get_or_insert_with(|| why.clone());
            is_first
        });
        let waiting = lock(&self.waiting).close_all();
        let was_waiting = !waiting.is_empty();
        for (_, waiting) in waiting {
            let _ = waiting.answer.send(Err(why.clone()));
        }
        self.listeners.end();
        was_waiting
    }
}

#[cfg(test)]
mod tests;
