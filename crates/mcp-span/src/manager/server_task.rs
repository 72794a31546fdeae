//! The task that owns one server: its connection, its state, and its lists.

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tracing::debug;

use super::connection::{Connection, ConnectionEvent};
use super::errors::{closed, is_trouble, login_pending, refused};
use super::lists::{ListKind, ListStatus, View};
use super::state::{Action, Machine, ServerState};
use super::{ManagedServer, RetryPolicy, ServerChange, ServerEvent};
use crate::client::{Client, Notification, Server, Tool};
use crate::error::Error;
use crate::limits;
use crate::transport::until;

/// Somebody who waits for a connection.
pub(super) type Waiter = oneshot::Sender<Result<Client, Error>>;

/// What callers want, or have to report.
#[derive(Debug)]
pub(super) enum Command {
    /// The connection, as soon as there is one.
    Want(Waiter, Instant),
    /// Another one.
    Reconnect(Waiter, Instant),
    /// The server has answered.
    Answered,
    /// It could not be reached over a connection that stands.
    Unreachable(Error),
    /// The resource was subscribed to; the next connections do so as well.
    Subscribed(String),
    /// No longer.
    Unsubscribed(String),
    /// Nothing more.
    Close,
}

pub(super) struct ServerTask {
    name: Arc<str>,
    server: ManagedServer,
    machine: Machine<Waiter>,
    connection: Option<Connection>,
    /// The resources that callers have subscribed to.
    subscriptions: BTreeSet<String>,
    /// A connection that has ended; another program is not started before that one is gone.
    old: Option<Client>,
    /// A try to connect, which has a result, and goodbyes, which have none.
    tasks: JoinSet<Option<Result<Client, Error>>>,
    /// Held while a try is under way: dropping it gives the try up.
    wanted: Option<oneshot::Sender<()>>,
    /// What a person has to do, while a login is pending. The credentials hold the other end.
    logins: Option<watch::Receiver<Option<String>>>,
    /// The manager's handles hold the other ends.
    view: watch::Sender<View>,
    /// The manager's subscribers hold the other ends.
    events: broadcast::Sender<ServerEvent>,
}

impl ServerTask {
    pub(super) fn new(
        name: Arc<str>,
        mut server: ManagedServer,
        retry: &RetryPolicy,
        events: broadcast::Sender<ServerEvent>,
    ) -> Self {
        let policy = &mut server.spec.policy;
        // A server that is not there is tried again by the machine, which says why; the bridge below
        // would wait without a word.
        policy.connect_wait = Duration::ZERO;
        // Nor is it to stand in for a server that waits for a login: that is a state of its own.
        let login_wait = std::mem::replace(&mut policy.login_wait, limits::MANAGER_LOGIN);
        let own = server.options.on_notification.take();
        let (subscribers, origin) = (events.clone(), Arc::clone(&name));
        server.options.on_notification = Some(Arc::new(move |notification: Notification| {
            if let Some(own) = &own {
                own(notification.clone());
            }
            tell(&subscribers, &origin, ServerChange::Notification(notification));
        }));
        let logins = logins(&server.spec.server);
        let is_remote = matches!(server.spec.server, Server::Http(_));
        let machine = Machine::new(is_remote, retry, login_wait, Instant::now());
        let mut cached = std::mem::take(&mut server.cached);
        // From now on the bridge below hides them.
        let hidden = &server.spec.stages.hidden_tools;
        let is_shown = |tool: &&Tool| hidden.pattern_hiding(tool.name()).is_none();
        cached.tools = cached.tools.iter().filter(is_shown).cloned().collect();
        let view = View::new(machine.state(), cached);
        Self {
            name,
            server,
            machine,
            connection: None,
            subscriptions: BTreeSet::new(),
            old: None,
            tasks: JoinSet::new(),
            wanted: None,
            logins,
            view: watch::Sender::new(view),
            events,
        }
    }

    pub(super) fn view(&self) -> watch::Receiver<View> {
        self.view.subscribe()
    }

    /// Lives until it is told to close, or nobody can want anything any more.
    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        self.tell(ServerChange::State(self.machine.state()));
        loop {
            self.act();
            self.publish();
            let wake = self.machine.wake_at();
            tokio::select! {
                command = commands.recv() => match command {
                    Some(Command::Close) | None => break,
                    Some(command) => self.on_command(command).await,
                },
                Some(ended) = self.tasks.join_next() => match ended {
                    Ok(Some(result)) => self.on_connected(result),
                    Ok(None) => {}
                    Err(error) => {
                        debug!(server = &*self.name, "a task has failed: {error}");
                        self.on_connected(Err(closed(&self.name)));
                    }
                },
                event = Connection::next_event(&mut self.connection) => self.on_event(event),
                login = next_login(&mut self.logins) => {
                    let login = login.map(|login| login_pending(&login));
                    self.machine.login(login, Instant::now());
                }
                () = until(wake), if wake.is_some() => self.machine.tick(Instant::now()),
            }
        }
        // Who waits in it learns that there is nobody.
        drop(commands);
        self.close().await;
    }

    async fn on_command(&mut self, command: Command) {
        let now = Instant::now();
        match command {
            Command::Want(waiter, until) => {
                // A caller may know sooner than we do that a connection has ended.
                if let Some(Connection { client, .. }) = &self.connection
                    && !client.is_connected()
                {
                    let why = client.ended().await;
                    self.on_ended(why);
                }
                self.machine.want(waiter, until, now);
            }
            Command::Reconnect(waiter, until) => self.machine.reconnect(waiter, until, now),
            Command::Answered => self.machine.answered(),
            Command::Unreachable(why) => self.machine.unreachable(why, now),
            Command::Subscribed(uri) => drop(self.subscriptions.insert(uri)),
            Command::Unsubscribed(uri) => drop(self.subscriptions.remove(&uri)),
            Command::Close => {}
        }
    }

    /// A try to connect has ended.
    fn on_connected(&mut self, result: Result<Client, Error>) {
        self.wanted = None;
        match result {
            Ok(client) => {
                let connection = self.connection.insert(Connection::new(client));
                self.subscriptions.iter().for_each(|uri| connection.subscribe(uri));
                self.machine.connected();
                self.view.send_modify(|view| view.status = Default::default());
            }
            Err(why) => {
                debug!(server = &*self.name, "not connected: {why}");
                self.machine.failed(why, Instant::now());
            }
        }
    }

    fn on_event(&mut self, event: ConnectionEvent) {
        match event {
            ConnectionEvent::Ended(why) => self.on_ended(why),
            ConnectionEvent::Answered(Err(why)) if is_trouble(&why) => {
                self.machine.unreachable(why, Instant::now());
            }
            // Also if it refuses to be pinged: it is there.
            ConnectionEvent::Answered(_) => self.machine.answered(),
            ConnectionEvent::Notified(notification) => {
                let changed = match notification.missed {
                    0 => ListKind::changed_by(&notification.method),
                    // What was missed may have been word of a change.
                    _ => &ListKind::ALL[..],
                };
                changed.iter().for_each(|kind| self.list(*kind, limits::RELIST_PAUSE));
            }
            ConnectionEvent::Listed(kind, Ok(update)) => {
                let was_changed = self.status(kind) == ListStatus::Asked { again: true };
                self.view.send_modify(|view| {
                    update(&mut view.cached);
                    view.status[kind as usize] = ListStatus::Current;
                });
                if was_changed {
                    self.list(kind, limits::RELIST_PAUSE);
                }
                self.machine.answered();
                self.tell(ServerChange::List(kind));
            }
            ConnectionEvent::Listed(kind, Err(why)) => {
                debug!(server = &*self.name, ?kind, "not listed: {why}");
                self.set_status(kind, ListStatus::Unlisted);
                let is_connected = |connection: &Connection| connection.client.is_connected();
                if self.connection.as_ref().is_some_and(is_connected) && is_trouble(&why) {
                    self.machine.unreachable(why, Instant::now());
                }
            }
        }
    }

    fn on_ended(&mut self, why: Error) {
        debug!(server = &*self.name, "the connection has ended: {why}");
        self.old = self.connection.take().map(|connection| connection.client);
        self.machine.lost(why, Instant::now());
    }

    /// Asks for a list, one question at a time.
    fn list(&mut self, kind: ListKind, pause: Duration) {
        let Some(connection) = &mut self.connection else { return };
        let again = matches!(self.view.borrow().status[kind as usize], ListStatus::Asked { .. });
        if !again {
            connection.list(kind, pause);
        }
        self.set_status(kind, ListStatus::Asked { again });
    }

    fn status(&self, kind: ListKind) -> ListStatus {
        self.view.borrow().status[kind as usize]
    }

    fn set_status(&self, kind: ListKind, status: ListStatus) {
        self.view.send_modify(|view| view.status[kind as usize] = status);
    }

    /// Does what the machine wants.
    fn act(&mut self) {
        while let Some(action) = self.machine.next_action() {
            match (action, &mut self.connection) {
                (Action::Connect, _) => self.connect(),
                (Action::Ping, Some(connection)) => connection.ping(),
                // Who has left no longer wants it.
                (Action::Serve(waiter), Some(Connection { client, .. })) => {
                    let _ = waiter.send(Ok(client.clone()));
                }
                (Action::Refuse(waiter, state), _) => {
                    let _ = waiter.send(Err(refused(&self.name, state)));
                }
                (Action::Ping | Action::Serve(_), None) => {}
            }
        }
    }

    fn connect(&mut self) {
        let (spec, options) = (self.server.spec.clone(), self.server.options.clone());
        let (wanted, mut unwanted) = oneshot::channel::<()>();
        self.wanted = Some(wanted);
        let mut old = self.take_client();
        // Two of the same program may be in each other's way; remote servers know such things, and
        // the goodbye to one that is away takes long.
        if let Server::Http(_) = spec.server {
            self.say_goodbye(old.take());
        }
        self.tasks.spawn(async move {
            if let Some(old) = old {
                old.close().await;
            }
            if unwanted.try_recv() == Err(TryRecvError::Closed) {
                return None;
            }
            let client = Client::builder(spec).options(options);
            Some(client.connect_unless(async { drop(unwanted.await) }).await)
        });
    }

    /// Shows what has changed. A server that has become ready is asked for all its lists.
    fn publish(&mut self) {
        let state = self.machine.state();
        let has_changed = self.view.send_if_modified(|view| {
            let has_changed = view.state != state;
            if has_changed {
                view.state = state.clone();
                if state != ServerState::Ready {
                    view.mark_stale();
                }
            }
            has_changed
        });
        if !has_changed {
            return;
        }
        let is_ready = state == ServerState::Ready;
        self.tell(ServerChange::State(state));
        for kind in ListKind::ALL {
            if is_ready && !matches!(self.status(kind), ListStatus::Asked { .. }) {
                self.list(kind, Duration::ZERO);
            }
        }
    }

    fn tell(&self, change: ServerChange) {
        tell(&self.events, &self.name, change);
    }

    /// Says goodbye, and waits until all is over, but not for ever.
    async fn close(mut self) {
        self.machine.close();
        self.act();
        self.wanted = None;
        let client = self.take_client();
        self.say_goodbye(client);
        let closing = async {
            while let Some(ended) = self.tasks.join_next().await {
                if let Ok(Some(Ok(client))) = ended {
                    self.say_goodbye(Some(client));
                }
            }
        };
        let _ = timeout(limits::MANAGER_CLOSES, closing).await;
        self.publish();
    }

    fn take_client(&mut self) -> Option<Client> {
        self.connection.take().map(|connection| connection.client).or_else(|| self.old.take())
    }

    fn say_goodbye(&mut self, client: Option<Client>) {
        if let Some(client) = client {
            self.tasks.spawn(async move {
                client.close().await;
                None
            });
        }
    }
}

fn tell(events: &broadcast::Sender<ServerEvent>, server: &Arc<str>, change: ServerChange) {
    // Whether anybody listens is of no interest.
    let _ = events.send(ServerEvent { server: Arc::clone(server), change });
}

/// Tells what a person has to do, while a login is pending.
fn logins(server: &Server) -> Option<watch::Receiver<Option<String>>> {
    let Server::Http(http) = server else { return None };
    let mut logins = http.credentials.as_ref()?.pending()?;
    // Several servers may share them: the login of another counts, too.
    logins.mark_changed();
    Some(logins)
}

/// What a person has to do from now on; `None` if nothing. Never, where nobody logs in.
async fn next_login(logins: &mut Option<watch::Receiver<Option<String>>>) -> Option<String> {
    if let Some(logins) = logins
        && logins.changed().await.is_ok()
    {
        return logins.borrow_and_update().clone();
    }
    pending().await
}
