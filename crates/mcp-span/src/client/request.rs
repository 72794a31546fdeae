//! One request, from its sending to its end.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::Shared;
use crate::error::{Error, ErrorKind, RpcError};
use crate::limits;
use crate::lock::lock;
use crate::message::{Id, Members, Message, Method, reply};
use crate::transport::until;

/// How far a request is.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Progress {
    /// How much is done.
    pub progress: f64,
    /// Of how much, if that is known.
    pub total: Option<f64>,
    /// What is being done.
    pub message: Option<String>,
}

/// The sender of a request that waits for its answer.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) answer: oneshot::Sender<Result<Message, Error>>,
    pub(super) progress: Option<mpsc::Sender<Progress>>,
}

type OnProgress<'a> = Box<dyn FnMut(Progress) + Send + 'a>;

/// A request that is sent when it is awaited, with a result of type `T`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// # let demo = mcp_span::Demo::start().await?;
/// # let client = mcp_span::Client::builder(demo.url()).connect().await?;
/// let result = client
///     .call("countdown", serde_json::json!({"from": 3}))
///     .timeout(Duration::from_secs(600))
///     .on_progress(|step| println!("{} of {:?}", step.progress, step.total))
///     .await?;
/// println!("{}", result.text());
/// # Ok(())
/// # }
/// ```
#[must_use = "a request is sent when it is awaited"]
pub struct Request<'a, T = Value> {
    shared: &'a Arc<Shared>,
    method: String,
    /// As JSON; nothing for none.
    params: Result<Option<String>, Error>,
    /// The caller's own limit; the link below knows it, too.
    own_limit: Option<Duration>,
    on_progress: Option<OnProgress<'a>>,
    result: PhantomData<fn() -> T>,
}

impl<T> std::fmt::Debug for Request<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request").field("method", &self.method).finish_non_exhaustive()
    }
}

impl<'a> Request<'a> {
    pub(super) fn new(
        shared: &'a Arc<Shared>,
        method: String,
        params: Result<Option<String>, Error>,
    ) -> Self {
        let (own_limit, on_progress, result) = (None, None, PhantomData);
        Self { shared, method, params, own_limit, on_progress, result }
    }
}

impl<'a, T> Request<'a, T> {
    /// How long the server may be silent, in place of the client's timeout; progress counts as a
    /// sign of life.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.own_limit = Some(limit);
        self
    }

    /// Asks the server for progress, and calls this with it.
    pub fn on_progress(mut self, on_progress: impl FnMut(Progress) + Send + 'a) -> Self {
        self.on_progress = Some(Box::new(on_progress));
        self
    }

    /// The same request with a result that is read as a `U`.
    pub fn typed<U>(self) -> Request<'a, U> {
        let Self { shared, method, params, own_limit, on_progress, .. } = self;
        Request { shared, method, params, own_limit, on_progress, result: PhantomData }
    }

    /// The result as the server wrote it: large numbers and the order of members are untouched.
    ///
    /// # Errors
    ///
    /// When there is no result.
    pub async fn raw(self) -> Result<Box<RawValue>, Error> {
        #[derive(Deserialize)]
        struct Answer {
            #[serde(default)]
            result: Box<RawValue>,
            error: Option<RpcError>,
        }
        let message = self.answer().await?;
        if let Some(failure) = message.failure() {
            return Err(failure.clone());
        }
        match serde_json::from_slice(message.bytes()) {
            Ok(Answer { error: Some(error), .. }) => Err(Error::from_rpc(error)),
            Ok(Answer { result, .. }) => Ok(result),
            Err(why) => Err(unreadable(why)),
        }
    }

    async fn answer(mut self) -> Result<Message, Error> {
        let id = self.shared.next_id();
        let mut params = std::mem::replace(&mut self.params, Ok(None))?;
        let (answer, mut answered) = oneshot::channel();
        let (sender, mut steps) = mpsc::channel(limits::PROGRESS);
        let progress = self.on_progress.is_some().then_some(sender);
        if progress.is_some() {
            params = Some(with_progress(params.as_deref(), &id));
        }
        let message = reply::request(&id, &self.method, params.as_deref());
        let message = message.with_timeout(self.own_limit);
        let limit = self.own_limit.or(self.shared.timeouts.of(message.clock()));
        let deadline = || limit.and_then(|limit| Instant::now().checked_add(limit));
        lock(&self.shared.waiting).open(&id, Waiting { answer, progress });
        let mut guard = Guard { shared: self.shared, id, is_sent: false };
        let mut end = deadline();
        tokio::select! {
            biased;
            sent = self.shared.send(message) => sent?,
            // A server that takes nothing is silent as well.
            () = until(end) => return Err(too_late(limit).not_delivered()),
        }
        // The handshake is never cancelled: there is nothing yet to cancel it in.
        guard.is_sent = self.method != Method::Initialize.name();
        loop {
            tokio::select! {
                biased;
                Some(step) = steps.recv() => {
                    end = deadline();
                    if let Some(on_progress) = &mut self.on_progress {
                        on_progress(step);
                    }
                }
                answer = &mut answered => {
                    return answer.unwrap_or_else(|_| Err(self.shared.gone()));
                }
                () = until(end) => return Err(too_late(limit)),
            }
        }
    }
}

impl<'a, T: DeserializeOwned + 'a> IntoFuture for Request<'a, T> {
    type Output = Result<T, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async {
            let raw = self.raw().await?;
            serde_json::from_str(raw.get()).map_err(unreadable)
        })
    }
}

/// Parameters as JSON; nothing for `null`.
pub(super) fn json_of(params: impl Serialize) -> Result<Option<String>, Error> {
    match serde_json::to_string(&params) {
        Ok(json) => Ok(Some(json).filter(|json| json != "null")),
        Err(why) => {
            let text = "The parameters cannot be written as JSON";
            Err(Error::new(ErrorKind::InvalidRequest, text).because(why).not_delivered())
        }
    }
}

fn unreadable(why: serde_json::Error) -> Error {
    Error::new(ErrorKind::BadResponse, "The result cannot be read").because(why)
}

fn too_late(limit: Option<Duration>) -> Error {
    let limit = limit.unwrap_or_default().as_millis();
    Error::new(ErrorKind::Timeout, format!("Request timeout after {limit}ms"))
        .hint("Allow more time, or look whether the server is stuck")
}

/// The same parameters with the wish for progress; the token is the request's own id.
fn with_progress(params: Option<&str>, id: &Id) -> String {
    let mut members = params.and_then(Members::of).unwrap_or_default();
    members.object("_meta").set("progressToken", id.as_json().to_owned());
    members.to_json()
}

/// Sees to it that a request that nobody waits for any more is forgotten here, and given up there.
struct Guard<'a> {
    shared: &'a Shared,
    id: Id,
    is_sent: bool,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let was_waiting = lock(&self.shared.waiting).close_exactly(&self.id).is_some();
        if self.is_sent && was_waiting {
            self.shared.send_soon(reply::cancelled(&self.id, "nobody waits for it any more"));
        }
    }
}
