//! One request, from its sending to its end.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::Shared;
use super::failure::{Failure, RpcError};
use crate::error::{Error, Kind};
use crate::limits;
use crate::message::{Id, Members, Message, Method, reply};

/// Word of how far a request is.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Progress {
    /// So much is done.
    pub progress: f64,
    /// Of so much, if that is known.
    pub total: Option<f64>,
    /// What is being done.
    pub message: Option<String>,
}

/// Somebody who waits for an answer.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) answer: oneshot::Sender<Result<Message, Failure>>,
    pub(super) progress: Option<mpsc::Sender<Progress>>,
}

type OnProgress<'a> = Box<dyn FnMut(Progress) + Send + 'a>;

/// A request that is sent when it is awaited.
#[must_use = "a request is sent when it is awaited"]
pub struct Request<'a> {
    shared: &'a Arc<Shared>,
    method: String,
    /// As JSON; nothing for none.
    params: Option<String>,
    limit: Option<Duration>,
    on_progress: Option<OnProgress<'a>>,
}

impl std::fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request").field("method", &self.method).finish_non_exhaustive()
    }
}

impl<'a> Request<'a> {
    pub(super) fn new(shared: &'a Arc<Shared>, method: String, params: Option<String>) -> Self {
        let limit = shared.timeouts.of(Method::named(&method).properties().clock);
        Self { shared, method, params, limit, on_progress: None }
    }

    /// How long the server may be silent: progress counts as a sign of life.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Asks the server for progress, and gets it.
    pub fn on_progress(mut self, heard: impl FnMut(Progress) + Send + 'a) -> Self {
        self.on_progress = Some(Box::new(heard));
        self
    }

    /// The result as the server wrote it: nothing in it is changed, large numbers included.
    ///
    /// # Errors
    ///
    /// When there is no result.
    pub async fn raw(self) -> Result<Box<RawValue>, Failure> {
        #[derive(Deserialize)]
        struct Answer {
            result: Option<Box<RawValue>>,
            error: Option<RpcError>,
        }
        let transport = self.shared.transport;
        let message = self.answer().await?;
        let unreadable = |why: &dyn std::fmt::Display| {
            let error = Error::new(Kind::BadResponse, "The answer cannot be read").because(why);
            Failure::of(transport, error)
        };
        let answer: Answer =
            serde_json::from_slice(message.bytes()).map_err(|error| unreadable(&error))?;
        match (answer.result, answer.error) {
            (_, Some(error)) => Err(Failure::answered(transport, error, message.is_own())),
            (Some(result), None) => Ok(result),
            (None, None) => RawValue::from_string("null".to_owned()).map_err(|e| unreadable(&e)),
        }
    }

    async fn value(self) -> Result<Value, Failure> {
        let transport = self.shared.transport;
        let raw = self.raw().await?;
        serde_json::from_str(raw.get()).map_err(|why| {
            let error = Error::new(Kind::BadResponse, "The result cannot be read").because(why);
            Failure::of(transport, error)
        })
    }

    async fn answer(mut self) -> Result<Message, Failure> {
        let id = self.shared.next_id();
        let (answer, mut answered) = oneshot::channel();
        let (told, mut heard) = mpsc::channel(limits::PROGRESS);
        let progress = self.on_progress.is_some().then_some(told);
        if progress.is_some() {
            self.params = Some(with_progress(self.params.as_deref(), &id));
        }
        let message = reply::request(&id, &self.method, self.params.as_deref());
        self.shared.lock(&self.shared.waiting).open(&id, Waiting { answer, progress });
        let mut guard = Guard { shared: self.shared, id, is_sent: false, is_over: false };
        let mut until = self.deadline();
        tokio::select! {
            biased;
            sent = self.shared.send(message) => sent?,
            // A server that takes nothing is silent as well.
            () = passed(until) => return Err(self.too_late(Error::not_delivered)),
        }
        // The handshake is never cancelled: there is nothing yet to cancel it in.
        guard.is_sent = self.method != "initialize";
        loop {
            tokio::select! {
                biased;
                Some(progress) = heard.recv() => {
                    until = self.deadline();
                    if let Some(on_progress) = &mut self.on_progress {
                        on_progress(progress);
                    }
                }
                answer = &mut answered => {
                    guard.is_over = true;
                    return answer.unwrap_or_else(|_| Err(self.shared.gone()));
                }
                () = passed(until) => return Err(self.too_late(std::convert::identity)),
            }
        }
    }

    fn too_late(&self, known: impl FnOnce(Error) -> Error) -> Failure {
        let limit = self.limit.unwrap_or_default().as_millis();
        let error = Error::new(Kind::Timeout, format!("Request timeout after {limit}ms"))
            .hint("Allow more time, or look whether the server is stuck");
        Failure::of(self.shared.transport, known(error))
    }

    fn deadline(&self) -> Option<Instant> {
        self.limit.map(|limit| Instant::now() + limit)
    }
}

impl<'a> IntoFuture for Request<'a> {
    type Output = Result<Value, Failure>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.value())
    }
}

/// Completes at that time; never if there is none.
async fn passed(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
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
    is_over: bool,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let was_waiting = self.shared.lock(&self.shared.waiting).close_exactly(&self.id).is_some();
        if self.is_sent && was_waiting {
            self.shared.send_soon(reply::cancelled(&self.id, "nobody waits for it any more"));
        }
    }
}
