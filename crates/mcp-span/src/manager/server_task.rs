//! The task that owns one server: its connection, its state, and its lists.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::debug;

use super::events::{Change, Listeners};
use super::failures::{closed, is_trouble, refused, shows_absence};
use super::lists::{ListKind, Listed, View};
use super::state::{Machine, State, Step};
use super::{ManagedServer, ManagerOptions};
use crate::client::{Client, Failure, Notification, Notifications, Server, connect_unless};
use crate::limits;

mod listing;

use listing::Asking;

/// Somebody who waits for a connection.
pub(super) type Waiter = oneshot::Sender<Result<Client, Failure>>;

/// What callers want, or have to tell.
#[derive(Debug)]
pub(super) enum Command {
    /// The connection, as soon as there is one.
    Want(Waiter, Instant),
    /// Another one.
    Reconnect(Waiter, Instant),
    /// The server has answered.
    Worked,
    /// It could not be reached over a connection that stands.
    Troubled(Failure),
    /// Nothing more.
    Close,
}

/// What the tasks of one server bring.
enum Outcome {
    Connected(Result<Client, Failure>),
    Listed {
        generation: u64,
        kind: ListKind,
        result: Result<Listed, Failure>,
    },
    Probed {
        generation: u64,
        result: Result<(), Failure>,
    },
    /// A connection that is no longer wanted was closed.
    Closed,
}

/// A connection.
struct Live {
    client: Client,
    notifications: Notifications,
}

/// What a connection says by itself.
enum Word {
    Told(Notification),
    Ended(Failure),
}

pub(super) struct ServerTask {
    name: Arc<str>,
    entry: ManagedServer,
    machine: Machine<Waiter>,
    live: Option<Live>,
    /// Counts tries: what was asked over the connection of an older one is of no interest.
    generation: u64,
    /// A connection that has ended; another program is not started before that one is gone.
    old: Option<Client>,
    asking: [Asking; ListKind::ALL.len()],
    tasks: JoinSet<Outcome>,
    /// Held while a try is under way: dropping it gives the try up.
    wanted: Option<oneshot::Sender<()>>,
    /// The manager's handles hold the other ends.
    view: watch::Sender<View>,
    listeners: Arc<Listeners>,
}

impl ServerTask {
    pub(super) fn new(
        name: Arc<str>,
        mut entry: ManagedServer,
        options: &ManagerOptions,
        listeners: Arc<Listeners>,
    ) -> Self {
        let is_remote = matches!(entry.spec.server, Server::Http(_));
        // One who is not there is tried again by our ladder, which tells why; the bridge below
        // would wait without a word.
        entry.spec.policy.connect_wait = Duration::ZERO;
        let machine = Machine::begin(is_remote, options, Instant::now());
        let view = View::new(machine.state(), std::mem::take(&mut entry.known));
        Self {
            name,
            entry,
            machine,
            live: None,
            generation: 0,
            old: None,
            asking: Default::default(),
            tasks: JoinSet::new(),
            wanted: None,
            view: watch::Sender::new(view),
            listeners,
        }
    }

    pub(super) fn view(&self) -> watch::Receiver<View> {
        self.view.subscribe()
    }

    /// Lives until it is told to close, or nobody can want anything any more.
    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        self.listeners.tell(&self.name, &Change::State(self.machine.state()));
        self.start();
        loop {
            let wake = self.machine.wake_at();
            let steps = tokio::select! {
                command = commands.recv() => match command {
                    Some(Command::Close) | None => break,
                    Some(command) => self.on_command(command).await,
                },
                Some(outcome) = self.tasks.join_next() => self.on_task_end(outcome),
                word = hear(&mut self.live) => self.on_word(word),
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {
                    self.machine.tick(Instant::now())
                }
            };
            self.perform(steps);
            self.publish();
        }
        // Who waits in it is told that there is nobody.
        drop(commands);
        self.leave().await;
    }

    async fn on_command(&mut self, command: Command) -> Vec<Step<Waiter>> {
        let now = Instant::now();
        match command {
            Command::Want(waiter, until) => {
                let mut steps = self.notice_the_end().await;
                steps.extend(self.machine.want(waiter, until, now));
                steps
            }
            Command::Reconnect(waiter, until) => self.machine.reconnect(waiter, until, now),
            Command::Worked => {
                self.worked();
                Vec::new()
            }
            Command::Troubled(failure) => self.machine.troubled(failure, now),
            Command::Close => Vec::new(),
        }
    }

    /// A caller may know sooner than we do that a connection has ended.
    async fn notice_the_end(&mut self) -> Vec<Step<Waiter>> {
        match &self.live {
            Some(live) if !live.client.is_connected() => {
                let why = live.client.ended().await;
                self.lost(why)
            }
            _ => Vec::new(),
        }
    }

    fn on_task_end(&mut self, outcome: Result<Outcome, JoinError>) -> Vec<Step<Waiter>> {
        let now = Instant::now();
        match outcome {
            Ok(Outcome::Connected(Ok(client))) => {
                self.wanted = None;
                let notifications = client.notifications();
                self.live = Some(Live { client, notifications });
                self.asking = Default::default();
                let steps = self.machine.connected();
                ListKind::ALL.into_iter().for_each(|kind| self.ask_for(kind, Duration::ZERO));
                steps
            }
            Ok(Outcome::Connected(Err(why))) => {
                self.wanted = None;
                debug!(server = &*self.name, "not connected: {why}");
                self.machine.failed(why, now)
            }
            Ok(Outcome::Listed { generation, kind, result }) if generation == self.generation => {
                self.listed(kind, result)
            }
            Ok(Outcome::Probed { generation, result }) if generation == self.generation => {
                match result {
                    Err(why) if is_trouble(&why) => self.machine.missed(why, now),
                    // Also if it refuses to be pinged: it is there.
                    _ => {
                        self.worked();
                        Vec::new()
                    }
                }
            }
            Ok(Outcome::Listed { .. } | Outcome::Probed { .. } | Outcome::Closed) => Vec::new(),
            Err(error) => {
                debug!(server = &*self.name, "a task has failed: {error}");
                self.machine
                    .failed(Failure::of(self.entry.spec.transport(), closed(&self.name)), now)
            }
        }
    }

    fn on_word(&mut self, word: Word) -> Vec<Step<Waiter>> {
        match word {
            Word::Ended(why) => self.lost(why),
            Word::Told(told) => {
                let changed = ListKind::changed_by(&told.method);
                // Whatever was missed may have been word of a change.
                let all = if told.missed > 0 { &ListKind::ALL[..] } else { &[] };
                for kind in all.iter().copied().chain(changed) {
                    self.view.send_modify(|view| view.mark_stale(kind));
                    self.ask_for(kind, limits::RELIST_PAUSE);
                }
                Vec::new()
            }
        }
    }

    fn lost(&mut self, why: Failure) -> Vec<Step<Waiter>> {
        debug!(server = &*self.name, "the connection has ended: {why}");
        self.old = self.live.take().map(|live| live.client);
        self.generation += 1;
        self.machine.lost(why, Instant::now())
    }

    fn perform(&mut self, steps: Vec<Step<Waiter>>) {
        for step in steps {
            match step {
                Step::Start => self.start(),
                Step::Probe => self.probe(),
                Step::Serve(waiter) => {
                    // Who has left no longer wants it.
                    if let Some(live) = &self.live {
                        let _ = waiter.send(Ok(live.client.clone()));
                    }
                }
                Step::Refuse(waiter, refusal) => {
                    let failure = refused(&self.name, self.entry.spec.transport(), refusal);
                    let _ = waiter.send(Err(failure));
                }
            }
        }
    }

    fn start(&mut self) {
        let (spec, options) = (self.entry.spec.clone(), self.entry.options.clone());
        let (wanted, mut unwanted) = oneshot::channel::<()>();
        self.wanted = Some(wanted);
        self.generation += 1;
        let old = self.live.take().map(|live| live.client).or_else(|| self.old.take());
        // Two of the same program may be in each other's way; remote servers know such things, and
        // the goodbye to one that is away takes long.
        let (before, aside) = match spec.server {
            Server::Child(_) => (old, None),
            Server::Http(_) => (None, old),
        };
        self.tasks.spawn(say_goodbye(aside));
        self.tasks.spawn(async move {
            say_goodbye(before).await;
            if unwanted.try_recv() == Err(TryRecvError::Closed) {
                return Outcome::Closed;
            }
            let unwanted = async { drop(unwanted.await) };
            Outcome::Connected(connect_unless(spec, options, unwanted).await)
        });
    }

    fn probe(&mut self) {
        let Some(live) = &self.live else { return };
        let (client, generation) = (live.client.clone(), self.generation);
        self.tasks.spawn(async move {
            let result = client.ping().await.map(drop);
            Outcome::Probed { generation, result }
        });
    }

    /// Shows what has changed.
    fn publish(&self) {
        let state = self.machine.state();
        let has_changed = self.view.send_if_modified(|view| {
            let has_changed = view.state != state;
            if has_changed {
                view.state = state.clone();
                if state != State::Ready {
                    ListKind::ALL.into_iter().for_each(|kind| view.mark_stale(kind));
                }
            }
            has_changed
        });
        if has_changed {
            self.listeners.tell(&self.name, &Change::State(state));
        }
    }

    /// Says goodbye, and waits until all is over, but not for ever.
    async fn leave(mut self) {
        let steps = self.machine.close();
        self.perform(steps);
        self.wanted = None;
        self.tasks.spawn(say_goodbye(self.live.take().map(|live| live.client)));
        self.tasks.spawn(say_goodbye(self.old.take()));
        let closing = async {
            while let Some(outcome) = self.tasks.join_next().await {
                if let Ok(Outcome::Connected(Ok(client))) = outcome {
                    self.tasks.spawn(say_goodbye(Some(client)));
                }
            }
        };
        let _ = timeout(limits::MANAGER_CLOSES, closing).await;
        self.publish();
    }
}

async fn say_goodbye(client: Option<Client>) -> Outcome {
    if let Some(client) = client {
        client.close().await;
    }
    Outcome::Closed
}

/// What a failed request of a caller's says of the server, if anything.
pub(super) fn report(client: &Client, failure: Option<&Failure>) -> Option<Command> {
    match failure {
        // The end of a connection is noticed by its server_task.
        Some(failure) if shows_absence(failure) => {
            client.is_connected().then(|| Command::Troubled(failure.clone()))
        }
        Some(failure) if failure.kind().is_some() => None,
        _ => Some(Command::Worked),
    }
}

async fn hear(live: &mut Option<Live>) -> Word {
    let Some(live) = live else { return std::future::pending().await };
    match live.notifications.next().await {
        Some(told) => Word::Told(told),
        None => Word::Ended(live.client.ended().await),
    }
}
