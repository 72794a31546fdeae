//! The task that speaks Streamable HTTP: it sends what it is told to, and owns the session's id and
//! headers and the stream for what the server says on its own account.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tracing::debug;

use super::command::{Command, Event, Send, Ticket};
use super::legacy_sse::Takeover;
use super::modern::Written;
use super::post::{Errand, Post};
use super::posters::{self, Posters};
use super::session::Session;
use super::tasks::{Tasks, deserted};
use super::{Context, Manner, legacy_sse, stream};
use crate::error::{Error, Kind};
use crate::limits;
use crate::message::table::{self, Table};
use crate::message::{Message, Method};
use crate::net::Call;
use crate::transport::channel;

pub(super) struct Driver {
    context: Arc<Context>,
    /// Shared with the POSTs that were sent in it; replaced, not changed, when another begins.
    session: Arc<Session>,
    /// Why the last session was lost.
    loss: Error,
    /// Messages that are out.
    flights: Table<Ticket, Flight>,
    /// Every task of the link: dropped with the driver.
    tasks: Tasks,
    /// Those of them that send messages.
    posters: Posters<Errand>,
    server_stream: Option<AbortHandle>,
    /// For the tasks.
    reports: mpsc::Sender<Report>,
}

/// A message that is out.
struct Flight {
    exchange: posters::Sent,
    /// It is `notifications/initialized`.
    confirms: bool,
}

/// What an exchange tells the driver.
#[derive(Debug)]
pub(super) enum Report {
    /// The answer to `initialize` is in; the client has not seen it yet.
    Initialized { ticket: Ticket, session_id: Option<HeaderValue>, version: Option<String> },
    /// The answer to `initialize` has begun, and names a session; what it says is still to come.
    Named { session_id: HeaderValue },
    /// The message was answered or accepted (`well`), or has failed.
    Settled { ticket: Ticket, well: bool, session_id: Option<HeaderValue> },
    /// The server does not know the session that the message was sent in.
    Forgotten(Box<Forgotten>),
    /// The same, found out without a message of the client's.
    SessionGone { session: HeaderValue },
    /// Nobody listens to the link any more.
    Deserted,
    /// The server refused `initialize`, but opened a stream of the older transport.
    IsLegacySse { send: Box<Send>, stream: Box<legacy_sse::Stream> },
}

/// A message that met the loss of its session.
#[derive(Debug)]
pub(super) struct Forgotten {
    pub(super) ticket: Ticket,
    pub(super) session: Arc<Session>,
    pub(super) error: Error,
    /// The server's own error, in case that it is not about the session.
    pub(super) last_word: Option<Message>,
    /// It has met a loss before: this one is about something else.
    pub(super) is_last_try: bool,
}

/// Why the driver's work is over.
enum End {
    /// Nothing more will be sent.
    Finished,
    /// Nobody listens any more.
    AtOnce,
    /// The server speaks the older transport; this message is to be sent that way.
    LegacySse(Box<Send>, Box<legacy_sse::Stream>),
}

/// What the driver wakes up for.
enum Wake {
    Report(Report),
    Command(Option<Command>),
}

/// Reports first: what is to be sent next may depend on them.
async fn next(
    reports: &mut mpsc::Receiver<Report>,
    commands: &mut channel::Receiver<Command>,
) -> Wake {
    poll_fn(|context| match reports.poll_recv(context) {
        Poll::Ready(Some(report)) => Poll::Ready(Wake::Report(report)),
        _ => commands.poll_recv(context).map(Wake::Command),
    })
    .await
}

impl Driver {
    pub(super) fn new(context: Arc<Context>) -> (Self, mpsc::Receiver<Report>) {
        let (reports, inbound) = mpsc::channel(limits::CHANNEL);
        let driver = Self {
            session: Arc::new(Session::new(&context.settings)),
            loss: Error::new(Kind::SessionLost, "The server no longer knows the session")
                .not_delivered(),
            flights: Table::default(),
            tasks: Tasks::default(),
            posters: Posters::default(),
            server_stream: None,
            reports,
            context,
        };
        (driver, inbound)
    }

    /// Works until the link is closed, then says goodbye; or until somebody else must take over.
    pub(super) async fn run(
        mut self,
        commands: &mut channel::Receiver<Command>,
        reports: mpsc::Receiver<Report>,
    ) -> Option<Takeover> {
        let limit = match self.work(commands, reports).await {
            End::Finished => limits::GOODBYE,
            End::AtOnce => limits::GOODBYE_IN_A_HURRY,
            End::LegacySse(initialize, stream) => {
                let _ = self.context.events.send(Event::StreamOpened).await;
                return Some(Takeover { stream, initialize, tasks: self.tasks });
            }
        };
        self.tasks.abort_all();
        if let Some(id) = self.session.id() {
            self.goodbye(id, limit).await;
        }
        None
    }

    async fn work(
        &mut self,
        commands: &mut channel::Receiver<Command>,
        mut reports: mpsc::Receiver<Report>,
    ) -> End {
        let context = Arc::clone(&self.context);
        self.tasks.spawn(deserted(Arc::clone(&context), self.reports.clone(), Report::Deserted));
        loop {
            match next(&mut reports, commands).await {
                Wake::Report(report) => {
                    if let Some(end) = self.on_report(report).await {
                        return end;
                    }
                }
                Wake::Command(Some(Command::Send(send))) => self.send(send).await,
                Wake::Command(Some(Command::Cancel { ticket, grace })) => {
                    self.cancel(ticket, grace);
                }
                // Who listens no more wants no more.
                Wake::Command(None) if context.events.is_closed() => return End::AtOnce,
                Wake::Command(None) => return End::Finished,
            }
        }
    }

    /// What a report leads to; `Some` if it is the end of the driver's work.
    async fn on_report(&mut self, report: Report) -> Option<End> {
        match report {
            Report::Initialized { ticket, session_id, version } => {
                self.begin_session(ticket, session_id, version.as_deref());
            }
            Report::Named { session_id } => {
                let old = Arc::make_mut(&mut self.session).foresee(session_id);
                self.discard(old);
            }
            Report::Settled { ticket, well, session_id } => {
                // Most answers name the session that is known: nothing is copied for these.
                if let Some(id) = session_id.filter(|_| self.session.would_adopt()) {
                    Arc::make_mut(&mut self.session).adopt(id);
                }
                let flight = table::take(&mut self.flights, &ticket)?;
                if flight.confirms && well {
                    self.open_server_stream();
                }
            }
            Report::Forgotten(forgotten) => {
                let Forgotten { ticket, session, error, last_word, is_last_try } = *forgotten;
                self.flights.remove(&ticket);
                if let Some(id) = session.id().filter(|_| !is_last_try) {
                    self.forget_session(id, &error);
                }
                let session = session.opened_by();
                let error = Box::new(error);
                let event = Event::Forgotten { ticket, session, error, last_word };
                let _ = self.context.events.send(event).await;
            }
            Report::SessionGone { session } => {
                let error = Error::new(Kind::SessionLost, "The server no longer knows the session");
                let error = error.not_delivered();
                let opened_by = self.session.opened_by();
                if self.forget_session(&session, &error) {
                    let event = Event::SessionLost { session: opened_by, error: error.into() };
                    let _ = self.context.events.send(event).await;
                }
            }
            Report::Deserted => return Some(End::AtOnce),
            Report::IsLegacySse { send, stream } => {
                debug!("the server speaks HTTP+SSE");
                // Unless it was cancelled in the meantime: then the next will find out.
                self.flights.remove(&send.ticket)?;
                return Some(End::LegacySse(send, stream));
            }
        }
        None
    }

    /// An `initialize` was answered: this is the session from now on.
    fn begin_session(&mut self, ticket: Ticket, id: Option<HeaderValue>, version: Option<&str>) {
        // It was cancelled.
        if !self.flights.contains_key(&ticket) {
            return;
        }
        let shown = id.as_ref().and_then(|id| id.to_str().ok());
        debug!(version, session = shown, "a session begins");
        self.context.note_connection("Streamable HTTP", version);
        self.close_server_stream();
        let old = Arc::make_mut(&mut self.session).begin(ticket, id, version);
        self.discard(old);
    }

    /// Another has taken its place: the server need not keep it.
    fn discard(&mut self, session: Option<HeaderValue>) {
        let Some(session) = session else { return };
        let call = self.delete(&session);
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move {
            let _ = timeout(limits::GOODBYE, context.send(call, Manner::aside())).await;
        });
    }

    /// The server has forgotten the session with this id. `false`: it is another one by now.
    fn forget_session(&mut self, id: &HeaderValue, error: &Error) -> bool {
        let is_current = self.session.id() == Some(id);
        if is_current {
            debug!(session = id.to_str().ok(), "the session is lost");
            Arc::make_mut(&mut self.session).forget();
            self.loss = error.clone();
            self.close_server_stream();
        }
        is_current
    }

    /// Starts the POST of one message.
    async fn send(&mut self, send: Box<Send>) {
        let ticket = send.ticket;
        // Between the decision to send it and now, its session was lost.
        if let Some(session) = send.session.filter(|wanted| self.session.is_not(*wanted)) {
            let (session, error) = (Some(session), Box::new(self.loss.clone()));
            let event = Event::Forgotten { ticket, session, error, last_word: None };
            let _ = self.context.events.send(event).await;
            return;
        }
        if send.needs_session_id && self.session.id().is_none() {
            let _ = self.context.events.send(Event::Accepted(ticket)).await;
            return;
        }
        self.context.stir();
        let rules = self.session.rules_for(&send);
        let Written { headers, body, mirrored } = self.context.written(&self.session, &send);
        let mut call = self.context.call(http::Method::POST, headers, body);
        call.lane = send.lane;
        call.progress = send.progress.clone();
        let confirms = send.is_notification(&Method::Initialized);
        let post = Post {
            send: *send,
            mirrored,
            rules,
            session: Arc::clone(&self.session),
            reports: self.reports.clone(),
        };
        let exchange = self.posters.send(&self.context, Errand { post, call }, &mut self.tasks);
        self.flights.insert(ticket, Flight { exchange, confirms });
    }

    /// Nobody waits for the answer any more.
    fn cancel(&mut self, ticket: Ticket, grace: Duration) {
        let Some(flight) = table::take(&mut self.flights, &ticket) else { return };
        if grace.is_zero() {
            return flight.exchange.give_up();
        }
        self.tasks.spawn(async move {
            tokio::time::sleep(grace).await;
            flight.exchange.give_up();
        });
    }

    fn open_server_stream(&mut self) {
        if !self.context.settings.server_stream || !self.session.rules().server_stream {
            return;
        }
        self.close_server_stream();
        let headers = self.session.stream_headers();
        let ping = self.session.own_post_headers();
        let reports = self.reports.clone();
        let task = stream::keep_open(Arc::clone(&self.context), reports, headers, ping);
        self.server_stream = Some(self.tasks.spawn(task));
    }

    fn close_server_stream(&mut self) {
        if let Some(stream) = self.server_stream.take() {
            stream.abort();
        }
    }

    async fn goodbye(&self, id: &HeaderValue, limit: Duration) {
        let call = self.delete(id);
        match timeout(limit, self.context.send(call, Manner::leaving())).await {
            Ok(Ok(response)) => debug!(status = response.status().as_u16(), "session deleted"),
            Ok(Err(error)) => {
                debug!("the session was not deleted: {}", self.context.scrubbed(error));
            }
            Err(_) => debug!("the session was not deleted in time"),
        }
    }

    fn delete(&self, id: &HeaderValue) -> Call {
        let headers = self.session.goodbye_headers(id);
        self.context.call(http::Method::DELETE, headers, Bytes::new())
    }
}
