//! A client of one MCP server: requests with their answers, whatever link lies behind it.
//!
//! [`connect`] opens the link that a [`Spec`] describes and shakes hands. The link is the bridge's
//! own: sessions that are lost, servers that are away, logins and servers of the modern era are
//! dealt with below, and every request ends exactly once.
//!
//! ```
//! # async fn example(url: &str) -> Result<(), Box<dyn std::error::Error>> {
//! use mcp_span::client::{Options, Spec, connect};
//! use serde_json::json;
//!
//! let client = connect(Spec::url(url.parse()?), Options::default()).await?;
//! for tool in client.tools().await? {
//!     println!("{}", tool.name());
//! }
//! let result = client.call("echo", json!({"text": "hello"})).await?;
//! println!("{result}");
//! client.close().await;
//! # Ok(())
//! # }
//! # let demo = async {
//! #     let demo = mcp_span::demo::Demo::start().await.expect("a port");
//! #     example(demo.url().as_str()).await.expect("a call");
//! # };
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(demo);
//! ```

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::error::{Error, Kind};
use crate::lenient::lenient;
use crate::limits::{self, Timeouts};
use crate::message::{Id, InFlight, Message, reply};
use crate::revision::Revision;
use crate::transport::{Link, channel};

mod failure;
mod handlers;
mod items;
mod lists;
mod notifications;
mod page;
mod reader;
mod request;
mod spec;

pub use failure::{Class, Failure, Stage, Transport};
pub use handlers::{Answering, Asked, Handler, Refusal};
pub use items::{Item, Prompt, Resource, Template, Tool};
pub use notifications::{Notification, Notifications};
pub use request::{Progress, Request};
pub use spec::{Server, Spec};

use reader::Reader;
use request::Waiting;

/// Who the client is, what it can do, and how patient it is.
#[derive(Clone)]
pub struct Options {
    /// Sent as `clientInfo`.
    pub info: Value,
    /// Sent as `capabilities`: what the server may ask for.
    pub capabilities: Value,
    /// Answers what the server asks for; `ping` is answered without it.
    pub handler: Option<Arc<dyn Handler>>,
    /// How long requests may be silent, where the link has no clock of its own.
    pub timeouts: Timeouts,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            info: json!({"name": crate::NAME, "version": env!("CARGO_PKG_VERSION")}),
            capabilities: json!({}),
            handler: None,
            timeouts: Timeouts::default(),
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("info", &self.info).finish_non_exhaustive()
    }
}

/// Opens the link that `spec` describes, and shakes hands.
///
/// # Errors
///
/// When the server cannot be reached or started, or refuses the handshake.
pub async fn connect(spec: Spec, options: Options) -> Result<Client, Failure> {
    connect_unless(spec, options, std::future::pending()).await
}

/// The same, given up when `unwanted` completes; what has begun by then is ended and waited for.
pub async fn connect_unless(
    spec: Spec,
    options: Options,
    unwanted: impl Future<Output = ()>,
) -> Result<Client, Failure> {
    let transport = spec.transport();
    let mut options = options;
    if spec.has_clock() {
        options.timeouts = Timeouts { quick: None, work: None };
    }
    let why = Arc::default();
    let opened = spec.open(Arc::clone(&why)).map_err(|error| Failure::of(transport, error))?;
    let opening = Opening { stop: Some(opened.1), why };
    Client::open(opened.0, opening, transport, options, unwanted).await
}

/// A connection to one server. Clones share it; when the last one is gone, it is closed.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
    server: Arc<Value>,
}

/// What the handles and the reader share.
#[derive(Debug)]
struct Shared {
    transport: Transport,
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
    /// A client over any link: `initialize`, and `notifications/initialized` after its answer.
    ///
    /// # Errors
    ///
    /// When the server refuses, or does not answer in time.
    pub async fn over(link: Link, options: Options) -> Result<Self, Failure> {
        let opening = Opening { stop: None, why: Arc::default() };
        Self::open(link, opening, Transport::Other, options, std::future::pending()).await
    }

    async fn open(
        link: Link,
        mut opening: Opening,
        transport: Transport,
        options: Options,
        unwanted: impl Future<Output = ()>,
    ) -> Result<Self, Failure> {
        let Link { outbox, inbox, done, .. } = link;
        let shared = Arc::new(Shared {
            transport,
            timeouts: options.timeouts,
            outbox: Mutex::new(Some(outbox)),
            waiting: Mutex::default(),
            listeners: notifications::Listeners::default(),
            count: AtomicU64::new(0),
            ended: watch::Sender::new(None),
            closing: Mutex::new(Some(Closing { done, stop: None })),
        });
        let why = Arc::clone(&opening.why);
        tokio::spawn(Reader::new(&shared, options.handler, why).run(inbox));
        let mut client = Self { shared, server: Arc::new(Value::Null) };
        let params = json!({
            "protocolVersion": Revision::LATEST_LEGACY,
            "capabilities": options.capabilities,
            "clientInfo": options.info,
        });
        let answer = tokio::select! {
            answer = client.request("initialize", params).raw() => answer,
            () = unwanted => Err(Failure::of(transport, closed().not_delivered())),
        };
        client.server = match answer {
            Ok(result) => Arc::new(lenient(result.get())),
            Err(failure) => {
                drop(opening);
                client.close().await;
                return Err(failure);
            }
        };
        client.notify("notifications/initialized", Value::Null).await?;
        if let Some(closing) = &mut *client.shared.lock(&client.shared.closing) {
            closing.stop = opening.stop.take();
        }
        Ok(client)
    }

    /// The server's answer to `initialize`: `serverInfo`, `capabilities`, `instructions` and what
    /// else it said.
    #[must_use]
    pub fn server(&self) -> &Value {
        &self.server
    }

    /// The revision of the protocol that was agreed on.
    #[must_use]
    pub fn revision(&self) -> &str {
        self.server["protocolVersion"].as_str().unwrap_or_default()
    }

    /// Whether the server offers `capability`: `tools`, `resources`, `prompts`, `logging`…
    #[must_use]
    pub fn offers(&self, capability: &str) -> bool {
        self.server["capabilities"].get(capability).is_some_and(|offer| !offer.is_null())
    }

    /// What lies behind it.
    #[must_use]
    pub fn transport(&self) -> Transport {
        self.shared.transport
    }

    /// A request that is sent when it is awaited. Dropped before its end, it is cancelled, and the
    /// server is told.
    pub fn request(&self, method: impl Into<String>, params: Value) -> Request<'_> {
        let params = (!params.is_null()).then(|| params.to_string());
        Request::new(&self.shared, method.into(), params)
    }

    /// The same with parameters that are sent as they are written, large numbers included.
    pub fn request_raw(&self, method: impl Into<String>, params: &RawValue) -> Request<'_> {
        Request::new(&self.shared, method.into(), Some(params.get().to_owned()))
    }

    /// Tells the server something.
    ///
    /// # Errors
    ///
    /// When the connection has ended.
    pub async fn notify(&self, method: &str, params: Value) -> Result<(), Failure> {
        let params = (!params.is_null()).then(|| params.to_string());
        self.shared.tell(reply::notification(method, params.as_deref())).await
    }

    /// The same with parameters that are sent as they are written.
    ///
    /// # Errors
    ///
    /// When the connection has ended.
    pub async fn notify_raw(&self, method: &str, params: Option<&RawValue>) -> Result<(), Failure> {
        self.shared.tell(reply::notification(method, params.map(RawValue::get))).await
    }

    /// All that the server says on its own account from now on.
    #[must_use]
    pub fn notifications(&self) -> Notifications {
        self.shared.listeners.add()
    }

    /// Whether the connection is there. A server that is away for a moment does not change that.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.shared.ended.borrow().is_none()
    }

    /// Completes when the connection has ended, and says why.
    pub async fn ended(&self) -> Failure {
        let mut ended = self.shared.ended.subscribe();
        let error = ended.wait_for(Option::is_some).await.ok().and_then(|error| error.clone());
        Failure::of(self.shared.transport, error.unwrap_or_else(closed))
    }

    /// Ends it: what is in flight fails with `Transport closed`, the server is told goodbye, and
    /// waited for as long as that may take.
    pub async fn close(&self) {
        let was_waiting = self.shared.end(&closed());
        let closing = self.shared.lock(&self.shared.closing).take();
        let Some(Closing { mut done, mut stop }) = closing else { return };
        // The bridge below would wait for the answers.
        if was_waiting && let Some(stop) = stop.take() {
            let _ = stop.send(());
        }
        // One who takes nothing more is not waited for without end either.
        if timeout(limits::CLIENT_CLOSES, &mut done).await.is_err()
            && let Some(stop) = stop.take()
        {
            let _ = stop.send(());
            let _ = timeout(limits::CLIENT_CLOSES, done).await;
        }
    }
}

fn closed() -> Error {
    Error::new(Kind::Closed, "Transport closed")
}

impl Shared {
    fn lock<'a, T>(&self, value: &'a Mutex<T>) -> MutexGuard<'a, T> {
        value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Integers from 1: some servers never answer other ids.
    fn next_id(&self) -> Id {
        Id::number(self.count.fetch_add(1, Ordering::Relaxed) + 1)
    }

    async fn send(&self, message: Message) -> Result<(), Failure> {
        let outbox = self.lock(&self.outbox).clone();
        let sent = match outbox {
            Some(outbox) => outbox.send(message).await.is_ok(),
            None => false,
        };
        if sent { Ok(()) } else { Err(self.gone()) }
    }

    /// Sends what has no answer, within a time.
    async fn tell(&self, message: Message) -> Result<(), Failure> {
        let limit = self.timeouts.quick.unwrap_or(limits::QUICK_TIMEOUT);
        timeout(limit, self.send(message)).await.unwrap_or_else(|_| {
            let text = format!("Notify timeout after {}ms", limit.as_millis());
            let error = Error::new(Kind::Timeout, text).not_delivered();
            Err(Failure::of(self.transport, error))
        })
    }

    /// The failure of what cannot be sent any more.
    fn gone(&self) -> Failure {
        let why = self.ended.borrow().clone();
        Failure::of(self.transport, why.unwrap_or_else(closed).not_delivered())
    }

    /// Sends without waiting, for those who cannot; what there is no room for is sent by a task.
    fn send_soon(&self, message: Message) {
        let Some(outbox) = self.lock(&self.outbox).clone() else { return };
        if let Err(message) = outbox.try_send(message)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move { timeout(limits::CLOSE, outbox.send(message)).await });
        }
    }

    /// Nothing more is sent, and nothing waited for. Gives back whether anything was.
    fn end(&self, why: &Error) -> bool {
        drop(self.lock(&self.outbox).take());
        self.ended.send_if_modified(|ended| {
            let is_first = ended.is_none();
            if is_first {
                *ended = Some(why.clone());
            }
            is_first
        });
        let waiting = self.lock(&self.waiting).close_all();
        let was_waiting = !waiting.is_empty();
        for (_, waiting) in waiting {
            let _ = waiting.answer.send(Err(Failure::of(self.transport, why.clone())));
        }
        self.listeners.end();
        was_waiting
    }
}

#[cfg(test)]
mod tests;
