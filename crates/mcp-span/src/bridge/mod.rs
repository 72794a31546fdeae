//! Joins two links, so that every request ends exactly once.
//!
//! The engine decides; this file moves messages between it and the links. One task owns all of it.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::OnceLock;
use std::task::Poll;

use tokio::task::unconstrained;
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};

use crate::engine;
use crate::error::Error;
use crate::limits;
use crate::message::Message;
use crate::transport::channel::{Receiver, Sender, Weighed};
use crate::transport::{Event, Incoming, Link, Written, until};

mod hidden_tools;
mod login_tool;
mod pipeline;
mod server;
mod shutdown;
mod stand_in;

pub use crate::engine::Policy;
pub use hidden_tools::HiddenTools;
use pipeline::Pipeline;
pub use pipeline::Stages;
pub use server::{ServerLink, StreamLink};
use shutdown::while_reading;

/// Why a bridge has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BridgeEnd {
    /// The client has closed its input, and all its requests were answered.
    ClientClosed,
    /// The client no longer reads.
    ClientGone,
    /// The server's link has ended.
    ServerClosed,
    /// The bridge was told to shut down.
    Shutdown,
}

impl BridgeEnd {
    /// For logs.
    fn describe(self) -> &'static str {
        match self {
            Self::ClientClosed => "the client has closed its input",
            Self::ClientGone => "the client reads no more",
            Self::ServerClosed => "the server has closed the connection",
            Self::Shutdown => "it was told to",
        }
    }
}

/// Carries messages between `client` and `server` until the client closes its input, one of the links
/// ends or `shutdown` completes; then closes both.
pub async fn run(
    client: Link,
    server: impl Into<ServerLink>,
    policy: Policy,
    stages: Stages,
    shutdown: impl Future<Output = ()>,
) -> BridgeEnd {
    let why = OnceLock::new();
    let ended = run_telling(client, server, policy, stages, shutdown, &why).await;
    // A client of the library has the reason in its error; a person only has the log.
    if let Some(error) = why.get() {
        warn!(reason = error.reason.as_deref(), "{}", error.message);
    }
    ended
}

/// The same; `why` is set to the reason why the server's link has ended, if it gave one, before the
/// client's link ends.
pub async fn run_telling(
    client: Link,
    server: impl Into<ServerLink>,
    policy: Policy,
    stages: Stages,
    shutdown: impl Future<Output = ()>,
    why: &OnceLock<Error>,
) -> BridgeEnd {
    let server = server.into();
    let mut bridge = BridgeTask {
        pipeline: Pipeline::new(policy, stages, server.limits()),
        from_client: client.inbox,
        to_client: client.outbox,
        server,
        left_at: None,
        has_received: false,
        written: client.written.clone(),
    };
    let mut shutdown = pin!(shutdown);
    let work = async {
        let ended = bridge.work().await;
        match ended {
            BridgeEnd::ServerClosed => bridge.on_server_closed(why).await,
            BridgeEnd::ClientClosed if !bridge.drain().await => return BridgeEnd::ClientGone,
            _ => {}
        }
        ended
    };
    let ended = or_shutdown(shutdown.as_mut(), work).await.unwrap_or(BridgeEnd::Shutdown);
    debug!("the bridge ends: {}", ended.describe());
    // All ends are dropped now: both links close, each within its own limit.
    let BridgeTask { pipeline, from_client, to_client, server, .. } = bridge;
    drop((from_client, to_client));
    let remembering = pipeline.era_writer.finish();
    let client = async {
        let mut done = client.done;
        let may_read = matches!(ended, BridgeEnd::ClientClosed | BridgeEnd::ServerClosed);
        if !may_read
            || or_shutdown(shutdown, while_reading(&client.written, &mut done)).await.is_none()
        {
            let _ = timeout(limits::FLUSH, done).await;
        }
    };
    let close_timeout = limits::CLOSE + limits::FLUSH + limits::RENEWAL_CLOSE;
    let is_in_order = ended == BridgeEnd::ClientClosed;
    let limit = if is_in_order { limits::CLOSE } else { limits::SHUTDOWN_CLOSE };
    let server = timeout(close_timeout, server.close(limit));
    let _ = tokio::join!(server, client, remembering);
    ended
}

/// The result of `work`; `None` if `end` completes first.
// Not `select!`, which looks at the task's budget each time: this is polled for every message.
async fn or_shutdown<T>(
    mut end: Pin<&mut impl Future<Output = ()>>,
    work: impl Future<Output = T>,
) -> Option<T> {
    let mut work = pin!(work);
    poll_fn(|context| match end.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(None),
        Poll::Pending => work.as_mut().poll(context).map(Some),
    })
    .await
}

/// The task that owns the engine, its stages and both links.
struct BridgeTask {
    pipeline: Pipeline,
    from_client: Receiver<Incoming>,
    to_client: Sender<Message>,
    server: ServerLink,
    /// When the client closed its input.
    left_at: Option<Instant>,
    /// The client has sent something, or closed its input.
    has_received: bool,
    /// Counts what the client has read.
    written: Written,
}

impl BridgeTask {
    /// Carries messages until the bridge ends.
    async fn work(&mut self) -> BridgeEnd {
        loop {
            if self.pipeline.has_output() {
                self.flush(Instant::now());
            }
            if self.pipeline.is_finished() {
                self.pipeline.end_all(&engine::drain_timed_out(), Instant::now());
                return BridgeEnd::ClientClosed;
            }
            let wake = self.pipeline.wake_at();
            // Back-pressure: do not read for a side that does not read.
            let client_takes = self.pipeline.for_client.is_empty();
            let is_read = self.left_at.is_none() && self.has_room();
            let for_client = self.pipeline.for_client.front().map_or(0, Weighed::size);
            tokio::select! {
                biased;
                // Timers first: a flood from either side must not delay them.
                () = until(wake), if wake.is_some() => self.tick(Instant::now()),
                // What waits is written above.
                room = self.to_client.room(for_client), if !client_takes => {
                    if room.is_err() {
                        return BridgeEnd::ClientGone;
                    }
                }
                event = self.server.event(client_takes) => match event {
                    Some(event) => self.on_server_message(event),
                    None => return BridgeEnd::ServerClosed,
                },
                // Outside of the task's cooperative budget, which exchanges may have used up.
                incoming = unconstrained(self.from_client.recv()), if is_read => match incoming {
                    Some(incoming) => self.on_client_message(incoming),
                    None => self.on_client_closed(),
                },
            }
        }
    }

    fn tick(&mut self, now: Instant) {
        self.pipeline.tick(now);
        self.flush(now);
    }

    /// Whether to read more from the client: the server takes it, and the client reads what is written
    /// to it. One that only writes would fill the memory with refusals.
    fn has_room(&self) -> bool {
        self.pipeline.has_room() && self.pipeline.for_client.len() < limits::WAITING_FOR_CLIENT
    }

    /// The client has closed its input.
    fn on_client_closed(&mut self) {
        let now = Instant::now();
        self.has_received = true;
        self.left_at = Some(now);
        self.pipeline.on_client_closed(now);
    }

    /// Handles an event of the server's and those right behind it: looking at everything else between
    /// two messages costs more than the messages do.
    fn on_server_message(&mut self, mut event: Event) {
        let now = Instant::now();
        for more in (0..limits::BURST).rev() {
            self.pipeline.on_event(event, now);
            self.flush(now);
            // What is taken from the link is handled, so the last one of a burst takes no other.
            if more == 0 || !self.pipeline.for_client.is_empty() {
                return;
            }
            let Some(next) = self.server.try_event() else { return };
            event = next;
        }
    }

    /// The same for messages of the client's.
    fn on_client_message(&mut self, mut incoming: Incoming) {
        let now = Instant::now();
        self.has_received = true;
        for more in (0..limits::BURST).rev() {
            self.pipeline.on_client_message(incoming, now);
            self.flush(now);
            if more == 0 || self.server.is_blocked() || !self.has_room() {
                return;
            }
            let Some(next) = self.from_client.try_recv() else { return };
            incoming = next;
        }
    }

    /// Writes whatever the links have room for, without waiting.
    fn flush(&mut self, now: Instant) {
        self.run_commands(now);
        self.write_to_client();
        self.pipeline.engine.set_client_ready(self.pipeline.for_client.is_empty(), now);
    }

    fn write_to_client(&mut self) {
        while let Some(message) = self.pipeline.for_client.pop_front() {
            if let Err(message) = self.to_client.try_send(message) {
                return self.pipeline.for_client.push_front(message);
            }
        }
    }

    /// Executes the engine's commands until there are none left.
    fn run_commands(&mut self, now: Instant) {
        self.pipeline.run(now);
        while let Some(command) = self.pipeline.for_server.pop_front() {
            self.server.execute(command);
        }
    }
}
