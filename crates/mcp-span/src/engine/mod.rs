//! The state machine that owns every message between its arrival and its end: order, limits, retries,
//! lost sessions, unreachable servers, deadlines, cancellation, shutdown.
//!
//! Pure: no sockets, no clock, no tasks. [`Engine`] takes the client's messages, the events of the
//! server's link and the time; it returns commands for the link and outputs for the client.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, warn};

mod answers;
mod delivery;
mod dispatch;
mod entry;
mod failures;
mod policy;
mod record;
mod recovery;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod schedule;
mod server;
mod server_requests;
mod session;
mod table;
#[cfg(test)]
mod tests;
mod time;

pub(crate) use entry::silence_limit;
use entry::{Entry, Order, Origin};
pub(crate) use policy::Limits;
pub use policy::Policy;
use record::Record;
#[cfg(test)]
pub(crate) use schedule::policy;
use server::Server;
use server_requests::ServerRequests;
use session::Session;
use table::Table;
pub(crate) use time::{drain_timed_out, earliest};

use crate::error::{Error, ErrorKind};
use crate::message::budget::MemoryBudget;
use crate::message::{Head, Id, Message, Method, edit, peek, reply};
use crate::revision::Envelope;
use crate::traffic::Absence;
use crate::transport::{Command, LoginStage, Ticket};

/// What the client gets, or has to know.
#[derive(Debug)]
pub(crate) enum Output {
    Message(Message),
    /// The client's request failed. Turned into JSON where it is written to the client.
    Failed {
        request: Message,
        error: Error,
    },
    /// The session was lost. Legacy clients need not know; the translator of a modern one does.
    SessionLost,
}

/// The transport to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    /// A child process, or any other pair of streams: what is written arrives, in order.
    Stream,
    StreamableHttp,
    /// Responses arrive on a stream of their own; the stream is the session.
    HttpSse {
        is_open: bool,
    },
}

/// A login that holds up the server's responses.
#[derive(Clone, Debug)]
pub(crate) struct PendingLogin {
    pub(crate) stage: LoginStage,
    /// When it reached this stage.
    since: Instant,
}

/// The state machine; see the module documentation.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) policy: Policy,
    /// For ids of the bridge's own and the jitter of backoffs: random, but fixed in tests.
    seed: u64,
    limits: Limits,
    wire: Wire,
    table: Table,
    /// What the messages in the table take, and those that wait in a stage.
    pub(crate) memory: MemoryBudget,
    session: Session,
    server: Server,
    /// The server's requests that the client has not answered.
    server_requests: ServerRequests,
    /// What a new session must be told again, and which requests are safe to repeat.
    record: Record,
    /// The time of the call that is being handled.
    now: Instant,
    /// Urgent messages beyond the limit on those in flight, in order.
    urgent: VecDeque<Ticket>,
    ordinary_out: usize,
    urgent_out: usize,
    /// The stand-in has answered `initialize`; the server has not opened the session yet.
    is_promised: bool,
    /// When a message was last sent, for the keep-alive.
    active: Instant,
    /// The keep-alive waits for its response, or to be sent.
    is_pinging: bool,
    /// Why the server cannot be reached or gives no session; the error of those that time out waiting.
    last_error: Option<Error>,
    /// Logs that the server became unreachable and reachable, once each.
    absence: Absence,
    login: Option<PendingLogin>,
    /// A login page was shown since the last attempt to open a promised session.
    has_shown_login: bool,
    /// Since when the client has not read its output: timeouts are paused meanwhile.
    blocked_since: Option<Instant>,
    /// No timeout fires before this: the process was suspended.
    not_before: Option<Instant>,
    /// The client has closed its input: requests in flight have until this.
    drain_deadline: Option<Instant>,
    /// Both directions are shutting down: nothing is retried any more.
    is_closed: bool,
    commands: VecDeque<Command>,
    outputs: VecDeque<Output>,
}

impl Engine {
    /// `limits` are those of an HTTP link; `None` for a pair of streams.
    pub(crate) fn new(policy: Policy, seed: u64, limits: Option<Limits>, now: Instant) -> Self {
        let wire = match limits {
            None => Wire::Stream,
            Some(Limits { is_http_sse: true, .. }) => Wire::HttpSse { is_open: false },
            Some(_) => Wire::StreamableHttp,
        };
        Self {
            limits: limits.unwrap_or_else(|| Limits::none(&policy)).normal(),
            wire,
            table: Table::default(),
            memory: MemoryBudget::new(policy.memory),
            session: Session::default(),
            server: Server::new(seed),
            policy,
            seed,
            server_requests: ServerRequests::default(),
            record: Record::default(),
            now,
            urgent: VecDeque::new(),
            ordinary_out: 0,
            urgent_out: 0,
            is_promised: false,
            active: now,
            is_pinging: false,
            last_error: None,
            absence: Absence::default(),
            login: None,
            has_shown_login: false,
            blocked_since: None,
            not_before: None,
            drain_deadline: None,
            is_closed: false,
            commands: VecDeque::new(),
            outputs: VecDeque::new(),
        }
    }

    /// The next command for the server's link.
    pub(crate) fn next_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// The next output for the client.
    pub(crate) fn next_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Whether any command or output is pending.
    pub(crate) fn has_work(&self) -> bool {
        !(self.commands.is_empty() && self.outputs.is_empty())
    }

    /// Whether to read more from the client. While the server waits for responses of the client's, the
    /// client is read even over the memory budget: they may be queued behind requests.
    pub(crate) fn has_room(&self) -> bool {
        self.memory.has_room() || !self.server_requests.is_empty()
    }

    /// Why nothing but answers of the client's is taken: it is read over the memory budget.
    fn overload(&self) -> Option<Error> {
        let is_overloaded = !self.memory.has_room() && !self.server_requests.is_empty();
        let most = self.policy.memory;
        let text = || format!("More than {most} bytes of messages wait for the server");
        is_overloaded.then(|| Error::new(ErrorKind::Overloaded, text()).not_delivered())
    }

    /// Whether the stream of HTTP+SSE is open, for tests.
    #[cfg(any(test, feature = "fuzzing"))]
    fn is_stream_open(&self) -> bool {
        self.wire == Wire::HttpSse { is_open: true }
    }

    /// The request under this ticket.
    pub(crate) fn request(&self, ticket: Ticket) -> Option<&Message> {
        let entry = self.table.get(ticket)?;
        entry.message.request_id().map(|_| &entry.message)
    }

    /// The ticket of the request in flight with this id.
    pub(crate) fn ticket_of(&self, id: &Id) -> Option<Ticket> {
        self.table.answered(id)
    }

    /// The client sent this message.
    pub(crate) fn on_client_message(&mut self, message: Message, now: Instant) {
        self.now = now;
        match message.head() {
            Head::Request { id, method } => {
                let (id, method) = (id.clone(), method.clone());
                self.on_client_request(&id, &method, message);
            }
            Head::Notification { .. } => self.on_client_notification(message),
            Head::Response { id, .. } => {
                let asked = id.as_ref().and_then(|id| self.server_requests.answered(id));
                match asked {
                    Some(asked) => self.submit(addressed(message, &asked)),
                    None => debug!(what = ?message, "dropped a response to no open request"),
                }
            }
        }
    }

    fn on_client_request(&mut self, id: &Id, method: &Method, message: Message) {
        if let Some(error) = self.overload() {
            return self.fail(message, error);
        }
        if self.table.find(id).is_some() {
            let text = format!("Invalid request: a request with ID {id} is still in flight");
            warn!("{text}");
            let error = Error::new(ErrorKind::InvalidRequest, text).not_delivered();
            return self.fail(message, error);
        }
        if *method == Method::Initialize {
            self.cancel_server_requests();
            self.record.on_client_message(&message);
            self.is_promised = false;
            self.cancel_own_handshake();
        }
        let is_http_sse = matches!(self.wire, Wire::HttpSse { .. });
        if *method == Method::Discover && (is_http_sse || self.session.is_awaited()) {
            // C22: the server does not know the method, and a probe must be answered at once.
            return self.send_to_client(reply::method_not_found(id, "server/discover"));
        }
        self.submit(message);
    }

    /// The client opens a session itself: cancels the handshake of the bridge's own.
    fn cancel_own_handshake(&mut self) {
        let own =
            self.table.tickets(|entry| matches!(entry.origin, Origin::Reopen | Origin::Restore));
        for ticket in own {
            if let Some(entry) = self.remove_entry(ticket)
                && entry.sent().is_some()
            {
                self.drop_exchange(ticket, Duration::ZERO);
                self.session.not_opened(ticket);
            }
        }
    }

    fn on_client_notification(&mut self, message: Message) {
        if self.is_promised {
            // Accepted in the server's place.
            return self.record.on_client_message(&message);
        }
        if let Some(id) = peek::cancelled_request(&message) {
            self.cancel(&id, message);
            return self.dispatch();
        }
        if let Some(error) = self.overload() {
            return log_undelivered(&message, &error);
        }
        self.record.on_client_message(&message);
        self.submit(message);
    }

    /// Accepts a message: sends it now, or queues it.
    fn submit(&mut self, message: Message) {
        let mut entry = self.entry(Origin::Client, Order::Arrival, message);
        if !matches!(self.wire, Wire::HttpSse { .. }) {
            entry.envelope = Envelope::of(&entry.message);
        }
        self.enqueue(entry);
    }

    /// A message that is not in the table yet.
    fn entry(&mut self, origin: Origin, order: fn(u64) -> Order, message: Message) -> Box<Entry> {
        let permit = self.memory.acquire(&message);
        Entry::new(origin, message, permit, order(self.table.next_number()), self.now)
    }

    /// An id for a request of the bridge's own. Unguessable, so that it collides with no id of the
    /// client's or the server's (C13).
    fn own_id(&mut self) -> Id {
        Id::string(&format!("mcp-span-{:016x}-{}", self.seed, self.table.next_number()))
    }

    fn send_to_client(&mut self, message: Message) {
        self.outputs.push_back(Output::Message(message));
    }

    fn fail(&mut self, request: Message, error: Error) {
        self.outputs.push_back(Output::Failed { request, error });
    }

    /// The login that is pending, if any.
    pub(crate) fn login(&self) -> Option<&PendingLogin> {
        self.login.as_ref()
    }

    /// Where a person has to log in, if it is their turn.
    pub(crate) fn login_page(&self) -> Option<&str> {
        match &self.login.as_ref()?.stage {
            LoginStage::Page(page) => Some(page),
            LoginStage::UnderWay => None,
        }
    }

    /// Whether a login page was shown since the last attempt to open a promised session.
    pub(crate) fn has_shown_login(&self) -> bool {
        self.has_shown_login
    }

    /// Why the server cannot be reached or gives no session.
    pub(crate) fn last_error(&self) -> Option<&Error> {
        self.last_error.as_ref()
    }

    /// The client's `initialize` in flight, and when it arrived.
    pub(crate) fn opening(&self) -> Option<(&Message, Instant)> {
        let entry = self.table.opening()?;
        Some((&entry.message, entry.since))
    }

    /// Whether the client has sent `initialize`.
    pub(crate) fn has_opened(&self) -> bool {
        self.record.initialize().is_some()
    }

    /// Whether the client has closed its input.
    pub(crate) fn is_draining(&self) -> bool {
        self.drain_deadline.is_some()
    }

    /// Whether the stand-in has answered `initialize`, and the session is yet to be opened.
    pub(crate) fn is_promised(&self) -> bool {
        self.is_promised
    }

    /// The stand-in answers the client's `initialize`; the server's response, when it comes, counts as
    /// a session that was reopened.
    pub(crate) fn promise_session(&mut self, now: Instant) {
        self.now = now;
        let Some(ticket) = self.table.opening().map(|entry| entry.ticket) else { return };
        let Some(entry) = self.table.get_mut(ticket) else { return };
        entry.origin = Origin::Reopen;
        self.is_promised = true;
        self.session.promise(ticket, now);
        self.start_all_waits();
    }

    /// Opens the session that the stand-in has promised, unless a handshake is already under way, or it
    /// is too early for one.
    pub(crate) fn open_promised(&mut self, now: Instant) {
        self.now = now;
        let is_reopening = |entry: &Entry| entry.origin == Origin::Reopen;
        let is_asked = self.table.opening().is_some() || self.table.values().any(is_reopening);
        if !is_asked && !self.server.is_delayed(now) && self.session.may_reopen(now) {
            self.has_shown_login = false;
            self.ask_for_session();
        }
    }
}

/// The same response, under the id that its request had.
fn addressed(answer: Message, id: &Id) -> Message {
    match answer.id() {
        Some(own) if own == id || own.canonical() == id.canonical() => answer,
        _ => edit::with_id(&answer, id),
    }
}

fn session_lost() -> Error {
    let lost = "The server has lost the session, and no new one was opened in time";
    Error::new(ErrorKind::SessionLost, lost).not_delivered()
}

/// Logs that a notification or response did not reach the server.
fn log_undelivered(message: &Message, error: &Error) {
    let what = message.method().map_or("an answer", Method::name);
    warn!(kind = %error.kind, "{what} did not reach the server: {error}");
}
