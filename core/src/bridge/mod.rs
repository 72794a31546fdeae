//! Joins two links: messages go across, and every request ends exactly once.
//!
//! What happens is decided in [`core`](self), which knows no wires and no clock; this file moves
//! messages between it and the links. One task owns all of it.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::OnceLock;
use std::task::Poll;
use std::time::Duration;

use tokio::task::unconstrained;
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};

use crate::engine::Dispatcher;
use crate::error::{Error, Kind};
use crate::limits::{self, Timeouts};
use crate::message::{Message, Method};
use crate::transport::channel::{Permit, Receiver, Sender, Weighed};
use crate::transport::{Incoming, Link, Written, until};

mod client_says;
mod core;
mod delivery;
mod eras;
mod farewell;
mod hidden_tools;
mod leaving;
mod login_tool;
mod overdue;
mod questions;
mod record;
mod recover;
mod reopen;
mod repeats;
mod returned;
mod server;
mod stand_in;
mod waiting;

use eras::Crossing;
pub use eras::Eras;
use farewell::all_read;
pub use hidden_tools::HiddenTools;
use leaving::late;
pub use server::ServerLink;
use server::{Inbox, Said, Server};

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

impl Ended {
    /// For logs.
    fn words(self) -> &'static str {
        match self {
            Self::ClientClosed => "the client has closed its input",
            Self::ClientDeaf => "the client reads no more",
            Self::ServerClosed => "the server has closed the connection",
            Self::Told => "it was told to",
        }
    }
}

/// How patient the bridge is, and what it keeps from the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How long what is in flight may take once the client has left.
    pub timeouts: Timeouts,
    /// How long `initialize` waits for a server that cannot be reached.
    pub connect_wait: Duration,
    /// How long any later message does.
    pub away_wait: Duration,
    /// How long `initialize` waits for a person to log in before it is answered without the server.
    pub login_wait: Duration,
    /// How long a session may be silent before the bridge pings; `None` for ever.
    pub keep_alive: Option<Duration>,
    /// Whether the bridge itself ends requests that are silent for longer than `timeouts`: where the
    /// server's link has no clock.
    pub watches: bool,
    /// Tools that the client neither sees nor calls.
    pub hidden_tools: HiddenTools,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            timeouts: Timeouts::default(),
            connect_wait: limits::CONNECT_WAIT,
            away_wait: limits::AWAY_WAIT,
            login_wait: limits::LOGIN_PATIENCE,
            keep_alive: None,
            watches: false,
            hidden_tools: HiddenTools::default(),
        }
    }
}

impl Policy {
    /// How long a request waits when a failure of this kind holds it up.
    fn patience(&self, method: &Method, kind: Kind) -> Duration {
        match (method, kind) {
            (_, Kind::Tls) => limits::TLS_WAIT.min(self.connect_wait),
            (Method::Initialize, _) => self.connect_wait,
            _ => self.away_wait,
        }
    }

    /// How long anything waits for a new session.
    fn reopening(&self) -> Duration {
        self.timeouts.quick.unwrap_or(limits::DRAIN_WITHOUT_TIMEOUT)
    }
}

/// Carries messages between `client` and `server` until the client leaves, one of the links ends
/// or `shutdown` completes; then says goodbye to both.
pub async fn run(
    client: Link,
    server: impl Into<ServerLink>,
    policy: Policy,
    eras: Eras,
    shutdown: impl Future<Output = ()>,
) -> Ended {
    let why = OnceLock::new();
    let ended = run_telling(client, server, policy, eras, shutdown, &why).await;
    // Nobody else tells a person; a client of the library has it in its failure.
    if let Some(error) = why.get() {
        warn!(reason = error.reason.as_deref(), "{}", error.message);
    }
    ended
}

/// The same; `why` is where it is written why the server's link has ended, if it has said so, before
/// the client's link ends.
pub async fn run_telling(
    client: Link,
    server: impl Into<ServerLink>,
    policy: Policy,
    eras: Eras,
    shutdown: impl Future<Output = ()>,
    why: &OnceLock<Error>,
) -> Ended {
    let mut bridge = Bridge {
        crossing: Crossing::new(policy.clone(), eras),
        from_client: client.inbox,
        to_client: client.outbox,
        server: Server::from(server.into()),
        blocked_since: None,
        left_at: None,
        has_heard: false,
        written: client.written.clone(),
    };
    let mut shutdown = pin!(shutdown);
    let mut ended = unless(shutdown.as_mut(), bridge.work()).await.unwrap_or(Ended::Told);
    if ended == Ended::ServerClosed
        && unless(shutdown.as_mut(), bridge.server_is_gone(why)).await.is_none()
    {
        ended = Ended::Told;
    }
    if ended == Ended::ClientClosed {
        ended = match unless(shutdown.as_mut(), bridge.last_words(policy)).await {
            Some(true) => Ended::ClientClosed,
            Some(false) => Ended::ClientDeaf,
            None => Ended::Told,
        };
    }
    debug!("the bridge ends: {}", ended.words());
    // All ends are dropped now: both links close, each within its own limit.
    let Bridge { crossing, from_client, to_client, server, .. } = bridge;
    drop((from_client, to_client));
    let remembering = crossing.translators.finish();
    let written = client.written;
    let client = async {
        match ended {
            Ended::ClientClosed | Ended::ServerClosed => {
                let mut done = client.done;
                if unless(shutdown, all_read(&mut done, &written)).await.is_none() {
                    let _ = timeout(limits::FLUSH, done).await;
                }
            }
            Ended::ClientDeaf | Ended::Told => drop(timeout(limits::FLUSH, client.done).await),
        }
    };
    let farewell = limits::GOODBYE + limits::FLUSH + limits::RENEWAL_FAREWELL;
    let limit = match ended {
        Ended::ClientClosed => limits::GOODBYE,
        Ended::ClientDeaf | Ended::ServerClosed | Ended::Told => limits::GOODBYE_IN_A_HURRY,
    };
    let server = timeout(farewell, close(server, limit));
    let _ = tokio::join!(server, client, remembering);
    ended
}

/// Says goodbye to the server.
async fn close(mut server: Server, limit: Duration) {
    drop(server.outbox);
    server.inbox.close(limit).await;
    if let Some(done) = server.done {
        let _ = done.await;
    }
}

/// What `work` comes to; `None` if `end` completes first.
async fn unless<T>(
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

/// Room for the next message to a server; `None` if it takes no more.
async fn reserve(
    outbox: Option<&Sender<Message>>,
    size: Option<usize>,
) -> Option<Permit<'_, Message>> {
    outbox?.reserve(size?).await.ok()
}

struct Bridge {
    crossing: Crossing,
    from_client: Receiver<Incoming>,
    to_client: Sender<Message>,
    server: Server,
    /// The client does not take what there is for it.
    blocked_since: Option<Instant>,
    /// When the client had nothing more to say.
    left_at: Option<Instant>,
    /// The client has said something.
    has_heard: bool,
    /// What the client has taken.
    written: Written,
}

/// What a side has said; `None`: it says nothing more.
enum Heard {
    Client(Option<Incoming>),
    Server(Option<Said>),
}

impl Bridge {
    /// Carries until there is nothing left to carry.
    async fn work(&mut self) -> Ended {
        loop {
            // Also to note that the client takes something again.
            if self.has_to_pass_on() || self.blocked_since.is_some() {
                self.hand_over(Instant::now());
            }
            if self.crossing.is_finished() {
                self.crossing.end_all(&late());
                return Ended::ClientClosed;
            }
            let wake = self.wake_at();
            if wake.is_none() && self.only_listens() {
                let heard = self.hear().await;
                if let Some(ended) = self.heed(heard) {
                    return ended;
                }
                continue;
            }
            let backlog = self.backlog();
            // A side that takes nothing is not read for: it would only pile up.
            let client_takes = self.crossing.for_client.is_empty();
            let server_takes = self.crossing.has_room();
            let for_client = self.crossing.for_client.front().map_or(0, Weighed::size);
            let heard = tokio::select! {
                biased;
                // Time first: a flood from either side must not hold it up.
                () = until(wake) => None,
                permit = self.to_client.reserve(for_client), if !client_takes => {
                    let Ok(permit) = permit else { return Ended::ClientDeaf };
                    if let Some(message) = self.crossing.for_client.pop_front() {
                        permit.send(message);
                    }
                    continue;
                }
                permit = reserve(self.server.outbox.as_ref(), backlog), if backlog.is_some() => {
                    let Some(permit) = permit else { return Ended::ServerClosed };
                    if let Some(message) = self.crossing.next_for_server() {
                        permit.send(message);
                    }
                    continue;
                }
                said = self.server.inbox.recv_if(client_takes) => Some(Heard::Server(said)),
                // Without a share in the budget of this task, which exchanges may have used up.
                incoming = unconstrained(self.from_client.recv()),
                    if self.left_at.is_none() && server_takes && self.client_keeps_up() =>
                {
                    Some(Heard::Client(incoming))
                }
            };
            let Some(heard) = heard else {
                self.tick(Instant::now());
                continue;
            };
            if let Some(ended) = self.heed(heard) {
                return ended;
            }
        }
    }

    /// When [`Self::tick`] is due. Clocks of requests stand still while the client takes nothing.
    fn wake_at(&self) -> Option<Instant> {
        let dispatcher = self.server.dispatcher.as_ref().filter(|_| self.blocked_since.is_none());
        let both = [self.crossing.wake_at(), dispatcher.and_then(Dispatcher::deadline)];
        both.into_iter().flatten().min()
    }

    fn tick(&mut self, now: Instant) {
        self.crossing.tick(now);
        if let Some(dispatcher) =
            self.server.dispatcher.as_mut().filter(|_| self.blocked_since.is_none())
        {
            dispatcher.on_time(now);
        }
        self.hand_over(now);
    }

    /// Whether anything is to be written, to either side.
    fn has_to_pass_on(&self) -> bool {
        self.crossing.has_to_pass_on()
    }

    /// The size of what the server's link has no room for yet.
    fn backlog(&self) -> Option<usize> {
        self.crossing.for_server.front().map(Weighed::size)
    }

    /// Whether all there is to do is to wait for what either side says, and to take it: so it is
    /// between any two messages as a rule.
    fn only_listens(&self) -> bool {
        let is_idle = self.crossing.for_client.is_empty() && self.backlog().is_none();
        is_idle && self.crossing.has_room() && self.left_at.is_none()
    }

    /// Whether not too many answers wait for the client to read them: one that only writes would
    /// fill the memory with refusals.
    fn client_keeps_up(&self) -> bool {
        self.crossing.for_client.len() < limits::WAITING_FOR_CLIENT
    }

    /// What either side says next; what a server has to say comes first.
    async fn hear(&mut self) -> Heard {
        poll_fn(|context| match self.server.inbox.poll_recv(context) {
            Poll::Ready(said) => Poll::Ready(Heard::Server(said)),
            Poll::Pending => {
                let next = unconstrained(poll_fn(|context| self.from_client.poll_recv(context)));
                pin!(next).poll(context).map(Heard::Client)
            }
        })
        .await
    }

    /// What it leads to; `Some` if there is nothing left to carry.
    fn heed(&mut self, heard: Heard) -> Option<Ended> {
        match heard {
            Heard::Server(Some(said)) => self.server_says(said),
            Heard::Server(None) => return Some(Ended::ServerClosed),
            Heard::Client(Some(incoming)) => self.client_says(incoming),
            Heard::Client(None) => self.client_leaves(),
        }
        None
    }

    /// The client has nothing more to say.
    fn client_leaves(&mut self) {
        let now = Instant::now();
        self.has_heard = true;
        self.left_at = Some(now);
        self.crossing.client_leaves(now);
    }

    /// Takes in what the server says, and what has come behind it: to look at everything else
    /// between any two messages would take more than the messages do.
    fn server_says(&mut self, mut said: Said) {
        let now = Instant::now();
        for _ in 0..limits::BURST {
            self.take_in(said, now);
            self.hand_over(now);
            if !self.crossing.for_client.is_empty() {
                return;
            }
            let Some(next) = self.server.inbox.try_recv() else { return };
            said = next;
        }
    }

    /// Takes in one thing that the server's link has brought.
    fn take_in(&mut self, said: Said, now: Instant) {
        match (said, &mut self.server.dispatcher) {
            (Said::Event(event), Some(dispatcher)) => dispatcher.on_event(event, now),
            (Said::Incoming(incoming), _) => self.crossing.server_says(incoming, now),
            (Said::Event(_), None) => {}
        }
        self.take_in_events(now);
    }

    fn take_in_events(&mut self, now: Instant) {
        let Some(dispatcher) = &mut self.server.dispatcher else { return };
        while let Some(incoming) = dispatcher.next_event() {
            self.crossing.server_says(incoming, now);
        }
    }

    /// The same for what the client says.
    fn client_says(&mut self, mut incoming: Incoming) {
        let now = Instant::now();
        self.has_heard = true;
        for _ in 0..limits::BURST {
            self.crossing.client_says(incoming, now);
            self.hand_over(now);
            let has_room = self.crossing.has_room() && self.client_keeps_up();
            if self.backlog().is_some() || !has_room {
                return;
            }
            let Some(next) = self.from_client.try_recv() else { return };
            incoming = next;
        }
    }

    /// Passes on what the other ends have room for, without waiting.
    fn hand_over(&mut self, now: Instant) {
        self.settle(now);
        while let Some(message) = self.crossing.for_client.pop_front() {
            if let Err(message) = self.to_client.try_send(message) {
                self.crossing.for_client.push_front(message);
                break;
            }
        }
        self.note_blocked(now);
        if let Some(outbox) = &self.server.outbox {
            while let Some(message) = self.crossing.next_for_server() {
                if let Err(message) = outbox.try_send(message) {
                    self.crossing.put_back(message);
                    break;
                }
            }
        }
    }

    /// Translates and dispatches until nothing leads to anything more.
    fn settle(&mut self, now: Instant) {
        loop {
            self.crossing.translate(now);
            let Some(dispatcher) = &mut self.server.dispatcher else { return };
            while let Some(message) = self.crossing.next_for_server() {
                dispatcher.send(message, now);
            }
            if let Inbox::Http(link) = &mut self.server.inbox {
                while let Some(command) = dispatcher.next_command() {
                    link.execute(command);
                }
            }
            self.crossing.out.held = dispatcher.held_bytes();
            let Some(incoming) = dispatcher.next_event() else { return };
            self.crossing.server_says(incoming, now);
        }
    }

    /// Notes since when the client takes nothing: for so long, no request is overdue.
    fn note_blocked(&mut self, now: Instant) {
        if !self.crossing.for_client.is_empty() {
            self.blocked_since.get_or_insert(now);
        } else if let Some(since) = self.blocked_since.take()
            && let Some(dispatcher) = &mut self.server.dispatcher
        {
            dispatcher.pause_clocks(now.saturating_duration_since(since));
        }
    }
}
