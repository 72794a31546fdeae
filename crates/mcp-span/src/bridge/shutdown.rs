//! The shutdown of a bridge: drains both sides, ends what is in flight, closes the links; every wait
//! has a limit.

use std::pin::pin;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use super::{BridgeTask, ServerLink};
use crate::error::{Error, ErrorKind};
use crate::limits::{self, Clock};
use crate::transport::channel::Weighed;
use crate::transport::{Written, until};

/// The result of `work`, for as long as the client reads; `None` if it reads nothing for a while.
pub(super) async fn while_reading<T>(
    written: &Written,
    work: impl Future<Output = T>,
) -> Option<T> {
    let mut work = pin!(work);
    loop {
        let before = written.count();
        match timeout(limits::LAST_READ, work.as_mut()).await {
            Ok(result) => return Some(result),
            Err(_) if written.count() == before => return None,
            Err(_) => {}
        }
    }
}

impl BridgeTask {
    /// The server's link has ended: requests in flight get no response.
    pub(super) async fn on_server_closed(&mut self, told: &OnceLock<Error>) {
        // It may have sent more before, and the reason; the link has limits of its own.
        while let Ok(Some(event)) = timeout(limits::SERVER_DRAIN, self.server.event(true)).await {
            self.pipeline.on_event(event, Instant::now());
            self.run_commands(Instant::now());
            if !self.flush_to_client().await {
                return;
            }
        }
        let why = self.server.take_reason();
        if let Some(why) = &why {
            let _ = told.set(why.clone());
        }
        let error = why.unwrap_or_else(|| Error::new(ErrorKind::Closed, "Transport closed"));
        self.pipeline.end_all(&error, Instant::now());
        // Requests that the client is about to send end with the same error, so that it learns why.
        let patience = if self.has_received { Duration::ZERO } else { limits::FIRST_QUESTION };
        let until = Instant::now() + patience;
        while Instant::now() < until + limits::FLUSH
            && let Ok(Some(incoming)) = timeout_at(until, self.from_client.recv()).await
        {
            self.pipeline.on_client_message(incoming, Instant::now());
            self.pipeline.end_all(&error.clone().not_delivered(), Instant::now());
        }
        self.flush_to_client().await;
    }

    /// Writes everything to the client, as long as it reads at all; `false` if it does not.
    async fn flush_to_client(&mut self) -> bool {
        let written = self.written.clone();
        while_reading(&written, self.write_all_to_client()).await.unwrap_or(false)
    }

    /// Writes everything to the client; a message stays in its queue until there is room for it.
    /// `false`: the client's link has ended.
    async fn write_all_to_client(&mut self) -> bool {
        while let Some(next) = self.pipeline.for_client.front() {
            tokio::select! {
                biased;
                room = self.to_client.room(next.size()) => {
                    if room.is_err() {
                        return false;
                    }
                    self.write_to_client();
                }
                event = self.server.event(false) => {
                    if let Some(event) = event {
                        self.pipeline.on_event(event, Instant::now());
                    }
                }
            }
        }
        true
    }

    /// The client has closed its input and has its responses: sends remaining notifications, and passes on
    /// what the server still sends. `false`: the client does not read.
    pub(super) async fn drain(&mut self) -> bool {
        // One bound for all of it, counted from the end of the client's input (C27).
        let quick = self.pipeline.engine.policy.timeouts.drain(Clock::Quick);
        let left = self.left_at.unwrap_or_else(Instant::now);
        // What waits for a person does not come in time.
        let rest = if self.pipeline.engine.login_page().is_some() { Duration::ZERO } else { quick };
        let deadline = (left + rest).max(Instant::now()) + limits::CLOSE;
        let finishing = self.finish_sending();
        match timeout_at(deadline, finishing).await {
            Ok(is_heard) => is_heard,
            // The server's time is up; a client that reads, however slowly, gets the rest.
            Err(_) => self.flush_to_client().await,
        }
    }

    /// Sends remaining notifications and responses. `false`: the client does not read.
    async fn finish_sending(&mut self) -> bool {
        // Events that are there already may lead to a notification.
        while let Some(event) = self.server.poll_once().await {
            self.pipeline.on_event(event, Instant::now());
        }
        self.pipeline.engine.close();
        loop {
            self.run_commands(Instant::now());
            if !self.write_all_to_client().await {
                return false;
            }
            // The end of a stream's output leads to the end of its input; HTTP has neither.
            self.server.finish_sending();
            if matches!(self.server, ServerLink::Http(_)) && self.pipeline.engine.is_idle() {
                return true;
            }
            let wake = self.pipeline.wake_at();
            tokio::select! {
                biased;
                event = self.server.event(true) => match event {
                    Some(event) => self.pipeline.on_event(event, Instant::now()),
                    None => return true,
                },
                () = until(wake) => self.tick(Instant::now()),
            }
        }
    }
}
