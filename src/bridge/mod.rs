//! Joins two links: messages go across, and every request ends exactly once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;
use tracing::debug;

use crate::limits::{self, Timeouts};
use crate::message::{Id, Message};
use crate::transport::Link;

mod down;
mod drain;
mod pending;
mod up;

use pending::InFlight;

/// Why the bridge has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The client has nothing more to say, and all it asked was answered.
    ClientClosed,
    /// The client no longer listens.
    ClientDeaf,
    /// The server's link is closed.
    ServerClosed,
    /// It was told to.
    Told,
}

/// Carries messages between `client` and `server` until the client leaves, one of the links ends
/// or `shutdown` completes; then says goodbye to both.
///
/// `timeouts` bound how long what is in flight may take once the client has left.
pub async fn run(
    client: Link,
    server: Link,
    timeouts: Timeouts,
    shutdown: impl Future<Output = ()>,
) -> Ended {
    let shared = Arc::new(Shared::default());
    let (replies, local) = mpsc::channel(limits::CHANNEL);
    let (orphans, orphaned) = mpsc::channel(limits::CHANNEL);
    let mut up = up::Up {
        client: client.inbox,
        server: server.outbox,
        replies,
        shared: Arc::clone(&shared),
        timeouts,
    };
    let down = down::Down { server: server.inbox, client: client.outbox, local, orphans, shared };
    let ended = {
        let down = down.run();
        tokio::pin!(down, shutdown);
        let up = async {
            up.run().await;
            drain::finish(up, orphaned).await;
        };
        tokio::select! {
            biased;
            () = &mut shutdown => Ended::Told,
            ended = &mut down => ended,
            // What the client left behind is finished; the server's link closes by itself.
            () = up => tokio::select! {
                () = &mut shutdown => Ended::Told,
                _ = timeout(last_words(timeouts), &mut down) => Ended::ClientClosed,
            },
        }
    };
    debug!(?ended, "the bridge ends");
    // All ends are dropped by now: both links close, each within its own limit.
    let (server, client) = (server.done, client.done);
    let limit = limits::GOODBYE + limits::FLUSH;
    let _ = tokio::join!(timeout(limit, server), timeout(limits::FLUSH, client));
    ended
}

/// The server's link finishes what needs no answer, and says goodbye.
fn last_words(timeouts: Timeouts) -> Duration {
    timeouts.quick.unwrap_or(limits::DRAIN_WITHOUT_TIMEOUT) + limits::GOODBYE
}

/// What both directions know.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Told whenever a request of the client's has ended.
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Requests of the client's, and how long each may take once the client has left.
    from_client: InFlight<Duration>,
    /// Requests of the server's.
    from_server: InFlight<()>,
    /// The client can answer no more requests.
    client_left: bool,
}

/// Who can answer a request of the server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Client,
    Nobody,
}

impl Shared {
    /// Never held over an await; a panic elsewhere leaves nothing half done in it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a request of the server's.
    fn ask_client(&self, id: &Id) -> Asked {
        let mut state = self.lock();
        state.from_server.open(id, ());
        if state.client_left { Asked::Nobody } else { Asked::Client }
    }

    /// A request of the client's has ended. `None`: nobody waits for it.
    fn end(&self, id: &Id) -> Option<Id> {
        let ended = self.lock().from_client.close(id).map(|(id, _)| id);
        self.ended.notify_one();
        ended
    }
}

/// The same answer, under the id that its request really had.
fn addressed(answer: Message, id: &Id) -> Message {
    match answer.id() {
        Some(own) if own.canonical() == id.canonical() => answer,
        _ => crate::message::edit::with_id(&answer, id),
    }
}
