//! The task that speaks HTTP+SSE: it opens the stream, sends what it is told to, and reports what
//! comes on the stream.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::mpsc;
use tracing::{debug, warn};

use super::post::{Errand, Posted};
use super::stream::{self, First, Stream};
use crate::error::{Error, Kind};
use crate::limits;
use crate::message::table::{self, Table};
use crate::message::{Head, Id, Message, Method, Outline, peek};
use crate::net::{Call, Lane};
use crate::traffic;
use crate::transport::channel;
use crate::transport::http::command::{Command, Event, Send, Ticket};
use crate::transport::http::events::{Payload, Position, too_large};
use crate::transport::http::log::Direction;
use crate::transport::http::posters::{self, Posters};
use crate::transport::http::session::Session;
use crate::transport::http::tasks::{Tasks, deserted};
use crate::transport::http::{Context, Manner};

/// What the tasks tell the driver.
#[derive(Debug)]
pub(super) enum Report {
    /// The stream stands, or there is none.
    Opened(Result<Box<Stream>, Error>),
    /// Nobody listens to the link any more.
    Deserted,
    /// What became of a POST.
    Posted { ticket: Ticket, posted: Posted },
}

/// What is left by a driver of the other transport, which found out that it is this one.
#[derive(Debug)]
pub(in super::super) struct Takeover {
    pub(in super::super) stream: Box<Stream>,
    /// The message whose refusal led here.
    pub(in super::super) initialize: Box<Send>,
    /// What it still has under way.
    pub(in super::super) tasks: Tasks,
}

pub(in super::super) struct Driver {
    context: Arc<Context>,
    phase: Phase,
    /// How many streams there were: a POST belongs to the one that was open.
    streams: u64,
    /// The headers; such a session has no id of its own in them.
    session: Session,
    /// The `initialize` that waits for its answer.
    initialize: Option<(Ticket, Id)>,
    /// Every session that was opened by this ticket or an earlier one is lost.
    lost: Option<Ticket>,
    /// The newest ticket.
    newest: Ticket,
    flights: Table<Ticket, Flight>,
    tasks: Tasks,
    /// Those of them that send messages.
    posters: Posters<Errand>,
    reports: mpsc::Sender<Report>,
    inbound: mpsc::Receiver<Report>,
}

/// A POST that is out.
struct Flight {
    send: Box<Send>,
    exchange: posters::Sent,
    stream: u64,
}

/// Where the stream stands.
enum Phase {
    /// There is none; the next message opens one (C33).
    Closed,
    /// It is being opened for these.
    Opening(Vec<Send>),
    Open(Box<Stream>),
}

/// What the driver wakes up for.
enum Wake {
    Report(Report),
    Heard(Result<Option<Payload>, Error>),
    Command(Option<Command>),
}

impl Driver {
    pub(in super::super) fn new(context: Arc<Context>) -> Self {
        let (reports, inbound) = mpsc::channel(limits::CHANNEL);
        Self {
            phase: Phase::Closed,
            streams: 0,
            session: Session::new(&context.settings),
            initialize: None,
            lost: None,
            newest: Ticket::default(),
            flights: Table::default(),
            tasks: Tasks::default(),
            posters: Posters::default(),
            reports,
            inbound,
            context,
        }
    }

    /// Goes on where the other transport has ended.
    pub(in super::super) fn take_over(context: Arc<Context>, takeover: Takeover) -> Self {
        let Takeover { stream, initialize, tasks } = takeover;
        let mut driver = Self { phase: Phase::Open(stream), tasks, ..Self::new(context) };
        driver.launch(initialize);
        driver
    }

    /// Works until the link is closed. Dropping the stream is the goodbye.
    pub(in super::super) async fn run(mut self, mut commands: channel::Receiver<Command>) {
        let context = Arc::clone(&self.context);
        self.tasks.spawn(deserted(Arc::clone(&context), self.reports.clone(), Report::Deserted));
        loop {
            let wake = self.next(&mut commands).await;
            if !matches!(wake, Wake::Heard(_)) {
                self.give_up_what_slept().await;
            }
            match wake {
                Wake::Report(Report::Opened(opened)) => self.opened(opened).await,
                Wake::Report(Report::Posted { ticket, posted }) => {
                    self.posted(ticket, posted).await;
                }
                Wake::Heard(heard) => self.heard(heard).await,
                Wake::Command(Some(Command::Send(send))) => self.send(send),
                Wake::Command(Some(Command::Cancel { ticket, grace })) => {
                    self.cancel(ticket, grace);
                }
                Wake::Report(Report::Deserted) | Wake::Command(None) => return,
            }
        }
    }

    /// The stream last: the others yield after so many, and what is left of a piece of the stream
    /// does not.
    async fn next(&mut self, commands: &mut channel::Receiver<Command>) -> Wake {
        let Self { inbound, phase, .. } = self;
        let mut hearing = pin!(phase.next());
        poll_fn(|context| {
            if let Poll::Ready(Some(report)) = inbound.poll_recv(context) {
                return Poll::Ready(Wake::Report(report));
            }
            if let Poll::Ready(command) = commands.poll_recv(context) {
                return Poll::Ready(Wake::Command(command));
            }
            hearing.as_mut().poll(context).map(Wake::Heard)
        })
        .await
    }

    fn send(&mut self, send: Box<Send>) {
        self.newest = self.newest.max(send.ticket);
        let is_request = matches!(send.message.head(), Head::Request { .. });
        // Between the decision to send it and now, the stream has ended: the dispatcher hears of
        // that, and knows that it did not leave.
        let is_stale = send.session.is_some_and(|session| Some(session) <= self.lost);
        match &mut self.phase {
            _ if is_stale => debug!("a message of a lost session was not sent"),
            Phase::Open(_) => self.launch(send),
            // It is about a session, and there is none.
            _ if send.lane == Lane::Urgent && !is_request => {}
            Phase::Opening(waiting) => waiting.push(*send),
            Phase::Closed => self.open_for(*send),
        }
    }

    fn open_for(&mut self, first: Send) {
        let (context, reports) = (Arc::clone(&self.context), self.reports.clone());
        let headers = self.session.stream_headers();
        let login = Manner::aside().with_login_for(&first.message).login;
        self.tasks.spawn(async move {
            let opened = stream::open(&context, headers, First::Anything, login).await;
            let _ = reports.send(Report::Opened(opened)).await;
        });
        self.phase = Phase::Opening(vec![first]);
    }

    async fn opened(&mut self, opened: Result<Box<Stream>, Error>) {
        let Phase::Opening(waiting) = std::mem::replace(&mut self.phase, Phase::Closed) else {
            return;
        };
        match opened {
            Ok(stream) => {
                self.phase = Phase::Open(stream);
                self.report(Event::StreamOpened).await;
                self.reached().await;
                waiting.into_iter().for_each(|send| self.launch(Box::new(send)));
            }
            Err(error) => {
                self.context.note_absence(&error);
                // None of them could leave without a stream.
                for send in waiting {
                    self.failed(send.ticket, error.clone()).await;
                }
            }
        }
    }

    /// Starts the POST of one message.
    fn launch(&mut self, send: Box<Send>) {
        let Phase::Open(stream) = &self.phase else { return };
        let (ticket, message) = (send.ticket, &send.message);
        self.newest = self.newest.max(ticket);
        let direction = Direction::ToServer { retry: send.retry };
        self.context.crossing(direction, message, stream.session.as_ref());
        if let (Head::Request { id, .. }, true) =
            (message.head(), send.is_request(&Method::Initialize))
        {
            self.initialize = Some((ticket, id.clone()));
        }
        let call = Call {
            method: http::Method::POST,
            endpoint: Arc::clone(&stream.endpoint),
            headers: self.session.post_headers(&send),
            body: message.bytes().clone(),
            lane: send.lane,
            progress: send.progress.clone(),
        };
        let manner = Manner::within(None, "Request").with_login_for(message);
        let errand = Errand { ticket, call, manner, reports: self.reports.clone() };
        let exchange = self.posters.send(&self.context, errand, &mut self.tasks);
        self.flights.insert(ticket, Flight { send, exchange, stream: self.streams });
    }

    /// Nobody waits for the answer any more.
    fn cancel(&mut self, ticket: Ticket, grace: Duration) {
        if let Phase::Opening(waiting) = &mut self.phase {
            waiting.retain(|send| send.ticket != ticket);
        }
        let Some(flight) = table::take(&mut self.flights, &ticket) else { return };
        if grace.is_zero() {
            return flight.exchange.give_up();
        }
        self.tasks.spawn(async move {
            tokio::time::sleep(grace).await;
            flight.exchange.give_up();
        });
    }

    /// Something came on the stream, or it has ended.
    async fn heard(&mut self, heard: Result<Option<Payload>, Error>) {
        let error = match heard {
            Ok(Some(Payload::Oversized(outline))) => return self.oversized(outline).await,
            Ok(Some(Payload::Other { name, .. })) if name == b"endpoint"[..] => {
                return debug!("a further address for messages was ignored");
            }
            Ok(Some(payload)) => {
                let mut messages = payload.messages();
                while let Some(message) = messages.next().await {
                    self.deliver(message).await;
                }
                return;
            }
            Ok(None) => Error::new(Kind::NoResponse, "the server ended its stream"),
            Err(error) => self.context.scrubbed(error),
        };
        traffic::stream_cut(traffic::Stream::Session, Some(&error), None);
        self.close_stream();
        self.report(Event::StreamEnded(error.into())).await;
    }

    async fn deliver(&mut self, message: Message) {
        if let Phase::Open(stream) = &self.phase {
            self.context.crossing(Direction::FromServer, &message, stream.session.as_ref());
        }
        if let Head::Response { id: Some(id), is_error } = message.head()
            && let Some((ticket, _)) = self.initialize.take_if(|(_, own)| id.resembles(own))
            && !is_error
        {
            let version = peek::negotiated_version(&message);
            debug!(version, "a session begins");
            self.context.note_connection("HTTP+SSE", version.as_deref());
            self.session.begin(ticket, None, version.as_deref());
        }
        self.report(Event::Message { message, answers: None }).await;
    }

    /// A message over the limit has passed by.
    async fn oversized(&mut self, outline: Outline) {
        let error = too_large(self.context.settings.max_message);
        match outline {
            Outline { id: Some(id), has_method } => {
                let error = Box::new(error);
                self.report(Event::Oversized { id, is_request: has_method, error }).await;
            }
            Outline { id: None, .. } => warn!("SSE error: an event was skipped: {error}"),
        }
    }

    async fn posted(&mut self, ticket: Ticket, posted: Posted) {
        match posted {
            Posted::Accepted => {
                self.reached().await;
                if let Phase::Open(stream) = &mut self.phase {
                    stream.keep_address();
                }
                table::take(&mut self.flights, &ticket);
                self.report(Event::Accepted(ticket)).await;
            }
            Posted::SessionLost(error) | Posted::Failed(error)
                if matches!(error.status, Some(404 | 405)) && self.goes_elsewhere(ticket) =>
            {
                self.reached().await;
            }
            Posted::Answered(answer) => {
                self.reached().await;
                self.answered(ticket, answer).await;
            }
            Posted::AnsweredThenLost(answer, error) => {
                self.reached().await;
                if self.answered(ticket, answer).await {
                    self.close_stream();
                    self.report(Event::StreamEnded(error.into())).await;
                }
            }
            Posted::SessionLost(error) => {
                self.reached().await;
                self.forgotten(ticket, error).await;
            }
            Posted::Failed(error) => {
                self.context.note_absence(&error);
                if error.status.is_some() {
                    self.reached().await;
                }
                table::take(&mut self.flights, &ticket);
                self.failed(ticket, error).await;
            }
        }
    }

    /// Passes on an answer that came in place of an acknowledgement. Gives back whether the session
    /// that it was asked in is the one of now.
    async fn answered(&mut self, ticket: Ticket, answer: Message) -> bool {
        let Some(flight) = table::take(&mut self.flights, &ticket) else { return false };
        self.report(Event::Message { message: answer, answers: Some(ticket) }).await;
        flight.stream == self.streams
    }

    /// The server does not know the session that the message was sent in.
    async fn forgotten(&mut self, ticket: Ticket, error: Error) {
        let Some(flight) = table::take(&mut self.flights, &ticket) else { return };
        if flight.send.is_last_try {
            self.context.habits.note_last_loss(error.status);
        } else if flight.stream == self.streams {
            self.close_stream();
        }
        let (session, error) = (flight.send.session, error.into());
        self.report(Event::Forgotten { ticket, session, error, last_word: None }).await;
    }

    /// Nobody is at the address: the first message may have to go to another one.
    fn goes_elsewhere(&mut self, ticket: Ticket) -> bool {
        let Phase::Open(stream) = &mut self.phase else { return false };
        let is_initialize = |flight: &Flight| flight.send.is_request(&Method::Initialize);
        if !self.flights.get(&ticket).is_some_and(is_initialize) || !stream.try_other_address() {
            return false;
        }
        if let Some(flight) = table::take(&mut self.flights, &ticket) {
            self.launch(flight.send);
        }
        true
    }

    /// Nothing is sent into a session whose stream has slept along with the machine: it may look
    /// open for minutes, and no answer would come.
    async fn give_up_what_slept(&mut self) {
        if let Phase::Open(stream) = &self.phase
            && stream.has_slept(&self.context)
        {
            self.close_stream();
            let error = Error::new(Kind::Closed, "the machine has slept");
            self.report(Event::StreamEnded(error.into())).await;
        }
    }

    /// The session ends with its stream.
    fn close_stream(&mut self) {
        self.phase = Phase::Closed;
        self.streams += 1;
        self.initialize = None;
        self.lost = Some(self.newest);
        self.session = Session::new(&self.context.settings);
    }

    async fn failed(&self, ticket: Ticket, error: Error) {
        self.report(Event::Failed { ticket, error: error.into() }).await;
    }

    /// The server is there, if it was not.
    async fn reached(&self) {
        if self.context.note_presence() {
            self.report(Event::Reached).await;
        }
    }

    /// To whoever holds the link; nobody is there any more only when it is closed.
    async fn report(&self, event: Event) {
        let _ = self.context.events.send(event).await;
    }
}

impl Phase {
    /// The next that comes on the stream. No idle limit: a server may have nothing to say for days.
    async fn next(&mut self) -> Result<Option<Payload>, Error> {
        match self {
            Self::Open(stream) => stream.events.next_payload(&mut Position::default(), None).await,
            _ => std::future::pending().await,
        }
    }
}
