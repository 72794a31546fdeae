//! The calls without anything in between: what the server and HTTP itself take.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Uri;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::calls::{self, INITIALIZE, INITIALIZED};
use super::contest::{LONG_WAIT, Peer, SHORT_WAIT};
use super::exchange::{HttpClient, client, post};

/// An HTTP client in this very process.
pub(crate) struct Direct {
    runtime: Runtime,
    client: HttpClient,
    uri: Uri,
    next_id: u64,
}

impl Direct {
    /// Connects and opens a session; also how long that took.
    pub(crate) fn start(url: &str) -> Result<(Self, Duration), String> {
        let uri = url.parse().map_err(|error| format!("{url}: {error}"))?;
        let began = Instant::now();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
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
}

impl Peer for Direct {
    fn sequential(&mut self, calls: usize) -> Result<Vec<Duration>, String> {
        let mut took = Vec::with_capacity(calls);
        for _ in 0..calls {
            let id = self.take_id();
            let began = Instant::now();
            self.runtime.block_on(small(&self.client, &self.uri, id))?;
            took.push(began.elapsed());
        }
        Ok(took)
    }

    fn in_flight(&mut self, calls: usize, window: usize) -> Result<Duration, String> {
        let first = self.next_id + 1;
        self.next_id += calls as u64;
        let taken = Arc::new(AtomicUsize::new(0));
        let began = Instant::now();
        self.runtime.block_on(async {
            let mut tasks: JoinSet<Result<(), String>> = JoinSet::new();
            for _ in 0..window {
                let (client, uri, taken) =
                    (self.client.clone(), self.uri.clone(), Arc::clone(&taken));
                tasks.spawn(async move {
                    loop {
                        let at = taken.fetch_add(1, Ordering::Relaxed);
                        if at >= calls {
                            return Ok(());
                        }
                        small(&client, &uri, first + at as u64).await?;
                    }
                });
            }
            while let Some(task) = tasks.join_next().await {
                task.map_err(|error| error.to_string())??;
            }
            Ok(began.elapsed())
        })
    }

    fn large(&mut self, bytes: usize) -> Result<Duration, String> {
        let id = self.take_id();
        let line = calls::large(id, bytes).into();
        let began = Instant::now();
        let answer = self.runtime.block_on(call(&self.client, &self.uri, line, LONG_WAIT))?;
        let took = began.elapsed();
        calls::check_large(&answer, id, bytes)?;
        Ok(took)
    }

    fn process_id(&self) -> Option<u32> {
        None
    }
}

async fn small(client: &HttpClient, uri: &Uri, id: u64) -> Result<(), String> {
    let answer = call(client, uri, calls::small(id).into(), SHORT_WAIT).await?;
    match calls::answered(&answer)? {
        answered if answered == id => Ok(()),
        answered => Err(format!("wrong: the answer to {id} has the id {answered}")),
    }
}

async fn call(
    client: &HttpClient,
    uri: &Uri,
    line: Bytes,
    limit: Duration,
) -> Result<Bytes, String> {
    let mut answer = Bytes::new();
    timeout(limit, post(client, uri, line, |payload| answer = payload))
        .await
        .map_err(|_| "hang: no answer in time")?
        .map_err(|error| format!("lost: {error}"))?;
    Ok(answer)
}
