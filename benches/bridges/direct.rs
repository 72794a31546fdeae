//! The calls without anything in between: what the server and HTTP itself take.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::Uri;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::contestant::{Burst, Contestant, LONG_WAIT, Load, SHORT_WAIT};
use crate::exchange::{Fault, HttpClient, client, is_event_stream, post};
use crate::figures::failure::Failure;
use crate::messages::{self, Expected, INITIALIZE, INITIALIZED};

/// An HTTP client in this very process.
pub(crate) struct Direct {
    runtime: Runtime,
    client: HttpClient,
    uri: Uri,
    next_id: u64,
}

impl Direct {
    /// Connects and opens a session; also how long that took.
    pub(crate) fn start(url: &str) -> Result<(Self, Duration), Failure> {
        let uri = url.parse().map_err(Failure::error)?;
        let began = Instant::now();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Failure::error)?;
        let client = client();
        let exchange = |line: &'static str| {
            runtime.block_on(call(&client, &uri, Bytes::from_static(line.as_bytes()), SHORT_WAIT))
        };
        exchange(INITIALIZE)?;
        let took = began.elapsed();
        exchange(INITIALIZED)?;
        Ok((Self { runtime, client, uri, next_id: 1 }, took))
    }

    fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// One call with much in it or in its answer: how long, and the lines of the answer.
    fn one(&self, line: String) -> Result<(Duration, Bytes), Failure> {
        let line = Bytes::from(line);
        let began = Instant::now();
        let answer = self.runtime.block_on(call(&self.client, &self.uri, line, LONG_WAIT))?;
        Ok((began.elapsed(), answer))
    }
}

impl Contestant for Direct {
    fn sequential(&mut self, load: Load) -> Result<Vec<Duration>, Failure> {
        let expected = Expected::small();
        let mut took = Vec::with_capacity(load.calls);
        let start = Instant::now();
        while load.has_room(took.len(), start) {
            let id = self.take_id();
            let began = Instant::now();
            self.runtime.block_on(small(&self.client, &self.uri, id, &expected))?;
            took.push(began.elapsed());
        }
        Ok(took)
    }

    fn in_flight(&mut self, load: Load, window: usize) -> Result<Burst, Failure> {
        let first = self.next_id + 1;
        self.next_id += load.calls as u64;
        let taken = Arc::new(AtomicUsize::new(0));
        let began = Instant::now();
        self.runtime.block_on(async {
            let mut tasks: JoinSet<Result<usize, Failure>> = JoinSet::new();
            for _ in 0..window {
                let (client, uri, taken) =
                    (self.client.clone(), self.uri.clone(), Arc::clone(&taken));
                tasks.spawn(async move {
                    let expected = Expected::small();
                    for done in 0.. {
                        let at = taken.fetch_add(1, Ordering::Relaxed);
                        if !load.has_room(at, began) {
                            return Ok(done);
                        }
                        small(&client, &uri, first + at as u64, &expected).await?;
                    }
                    Ok(0)
                });
            }
            let mut calls = 0;
            while let Some(task) = tasks.join_next().await {
                calls += task.map_err(Failure::error)??;
            }
            Ok(Burst { calls, took: began.elapsed() })
        })
    }

    fn large(&mut self, bytes: usize) -> Result<Duration, Failure> {
        let id = self.take_id();
        let (took, answer) = self.one(messages::large(id, bytes))?;
        check(&answer, id, &Expected::Large(bytes)).map(|()| took)
    }

    fn request(&mut self, bytes: usize) -> Result<Duration, Failure> {
        let id = self.take_id();
        let (took, answer) = self.one(messages::request(id, bytes))?;
        check(&answer, id, &Expected::Text(bytes.to_string())).map(|()| took)
    }

    fn notifications(&mut self, count: usize) -> Result<Duration, Failure> {
        let id = self.take_id();
        let (took, lines) = self.one(messages::notify(id, count))?;
        let lines = lines.trim_ascii_end();
        let cut =
            memchr::memrchr(b'\n', lines).ok_or_else(|| Failure::lost("no notification came"))?;
        let (notifications, answer) = lines.split_at(cut);
        messages::check_notifications(notifications, count)?;
        check(answer.trim_ascii_start(), id, &Expected::Text("done".into())).map(|()| took)
    }

    fn process_id(&self) -> Option<u32> {
        None
    }
}

async fn small(
    client: &HttpClient,
    uri: &Uri,
    id: u64,
    expected: &Expected,
) -> Result<(), Failure> {
    check(&call(client, uri, messages::small(id).into(), SHORT_WAIT).await?, id, expected)
}

fn check(answer: &[u8], id: u64, expected: &Expected) -> Result<(), Failure> {
    match messages::answer(answer, expected)? {
        Some(answered) if answered == id => Ok(()),
        answered => Err(Failure::wrong(format!("the answer to {id} has the id {answered:?}"))),
    }
}

async fn call(
    client: &HttpClient,
    uri: &Uri,
    line: Bytes,
    limit: Duration,
) -> Result<Bytes, Failure> {
    let exchange = async {
        let response = post(client, uri, line).await?;
        let is_events = is_event_stream(&response);
        let body = whole(response.into_body()).await?;
        Ok::<_, Fault>(if is_events { data(&body) } else { body })
    };
    timeout(limit, exchange)
        .await
        .map_err(|_| Failure::hang("no answer in time"))?
        .map_err(Failure::error)
}

/// The body in one piece; copied, once, only if it comes in several.
async fn whole(mut body: Incoming) -> Result<Bytes, Fault> {
    let length = body.size_hint().exact().and_then(|length| usize::try_from(length).ok());
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame?.into_data() else {
            continue;
        };
        if first.is_empty() {
            first = piece;
            continue;
        }
        if all.is_empty() {
            all.reserve(length.unwrap_or(first.len() + piece.len()));
            all.extend_from_slice(&first);
        }
        all.extend_from_slice(&piece);
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

/// The data of all events, one line each; of a single event without a copy.
fn data(body: &Bytes) -> Bytes {
    let mut lines =
        body.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data: "));
    let (Some(first), second) = (lines.next(), lines.next()) else {
        return Bytes::new();
    };
    let Some(second) = second else {
        return body.slice_ref(first);
    };
    let mut joined = Vec::with_capacity(body.len());
    for line in [first, second].into_iter().chain(lines) {
        joined.extend_from_slice(line);
        joined.push(b'\n');
    }
    joined.into()
}
