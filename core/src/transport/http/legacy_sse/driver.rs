//! The one task that owns the stream: it opens it, lets messages leave, and matches the answers.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::debug;

use super::flights::{Flight, Flights};
use super::post::{Errand, Posted};
use super::stream::{self, First, Stream};
use crate::error::Error;
use crate::limits;
use crate::message::{Head, Id, Message, Method, peek, reply};
use crate::net::{self, Call, Progress};
use crate::transport::http::events::{Payload, Position};
use crate::transport::http::gate::{Lane, Outgoing};
use crate::transport::http::line::Line;
use crate::transport::http::log::Direction;
use crate::transport::http::posters::Posters;
use crate::transport::http::session::Session;
use crate::transport::http::tasks::{Tasks, deserted};
use crate::transport::http::{Context, Manner, express};
use crate::transport::{Alarm, Incoming, channel};

/// What the tasks tell the driver.
#[derive(Debug)]
pub(super) enum Report {
    /// The stream stands, or there is none.
    Opened(Result<Box<Stream>, Error>),
    /// Nobody listens to the link any more.
    Deserted,
    /// What became of a POST.
    Posted { ticket: u64, posted: Posted },
}

/// What is left by a driver of the other transport, which found out that it is this one.
#[derive(Debug)]
pub(in super::super) struct Takeover {
    pub(in super::super) line: Line,
    pub(in super::super) stream: Box<Stream>,
    /// The message whose refusal led here.
    pub(in super::super) initialize: Outgoing,
    /// What it still has under way.
    pub(in super::super) tasks: Tasks,
}

pub(in super::super) struct Driver {
    pub(super) context: Arc<Context>,
    pub(super) line: Line,
    pub(super) phase: Phase,
    /// The headers; such a session has no id of its own in them.
    pub(super) session: Session,
    /// `initialize` was answered on this stream.
    pub(super) is_begun: bool,
    pub(super) flights: Flights,
    next_ticket: u64,
    tasks: Tasks,
    /// Those of them that send messages.
    posters: Posters<Errand>,
    reports: mpsc::Sender<Report>,
    inbound: mpsc::Receiver<Report>,
}

/// Where the stream stands.
pub(super) enum Phase {
    /// There is none; the next message opens one (C33).
    Closed,
    /// It is being opened for this message, unless that was cancelled.
    Opening(Option<Outgoing>),
    Open(Box<Stream>),
}

/// What the driver wakes up for.
enum Event {
    Report(Report),
    Heard(Result<Option<Payload>, Error>),
    Said(Option<Message>),
    Time,
}

impl Driver {
    pub(in super::super) fn new(context: Arc<Context>) -> Self {
        let (reports, inbound) = mpsc::channel(limits::CHANNEL);
        Self {
            line: Line::new(Arc::clone(&context)),
            phase: Phase::Closed,
            session: Session::new(&context.settings),
            is_begun: false,
            flights: Flights::default(),
            next_ticket: 0,
            tasks: Tasks::default(),
            posters: Posters::default(),
            reports,
            inbound,
            context,
        }
    }

    /// Goes on where the other transport has ended.
    pub(in super::super) fn take_over(context: Arc<Context>, takeover: Takeover) -> Self {
        let Takeover { line, stream, initialize, tasks } = takeover;
        let phase = Phase::Open(stream);
        let mut driver = Self { line, phase, tasks, ..Self::new(context) };
        driver.launch(initialize, true);
        driver
    }

    /// Works until the link is closed. Dropping the stream is the goodbye.
    pub(in super::super) async fn run(mut self, mut outgoing: channel::Receiver<Message>) {
        let context = Arc::clone(&self.context);
        self.tasks.spawn(deserted(Arc::clone(&context), self.reports.clone(), Report::Deserted));
        let mut alarm = Alarm::default();
        loop {
            self.send_what_may();
            if self.is_finished() {
                return;
            }
            let wake =
                [self.line.give_up_at(), self.flights.next_due()].into_iter().flatten().min();
            let event = self.next_event(&mut outgoing, &mut alarm, wake).await;
            if !matches!(event, Event::Heard(_)) {
                self.give_up_what_slept().await;
            }
            match event {
                Event::Report(Report::Opened(opened)) => self.opened(opened).await,
                Event::Report(Report::Deserted) => return,
                Event::Report(Report::Posted { ticket, posted }) => {
                    self.posted(ticket, posted).await;
                }
                Event::Heard(heard) => self.heard(heard).await,
                Event::Said(Some(message)) => self.accept(message).await,
                // Who listens no more wants no more.
                Event::Said(None) if context.incoming.is_closed() => return,
                Event::Said(None) => self.line.close(),
                Event::Time => self.tick(Instant::now()).await,
            }
        }
    }

    /// Time first: a flood from either side must not hold it up. The stream last: the others yield
    /// after so many, and what is left of a piece of the stream does not.
    async fn next_event(
        &mut self,
        outgoing: &mut channel::Receiver<Message>,
        alarm: &mut Alarm,
        wake: Option<Instant>,
    ) -> Event {
        let Self { inbound, phase, line, .. } = self;
        let mut hearing = pin!(phase.next());
        poll_fn(|context| {
            if alarm.poll(wake, context).is_ready() {
                return Poll::Ready(Event::Time);
            }
            if let Poll::Ready(Some(report)) = inbound.poll_recv(context) {
                return Poll::Ready(Event::Report(report));
            }
            if line.is_open
                && let Poll::Ready(message) = outgoing.poll_recv(context)
            {
                return Poll::Ready(Event::Said(message));
            }
            hearing.as_mut().poll(context).map(Event::Heard)
        })
        .await
    }

    /// Nothing more will be sent, and all that nobody waits for has been.
    fn is_finished(&self) -> bool {
        let opens_for_notice = match &self.phase {
            Phase::Opening(Some(first)) => !matches!(first.message.head(), Head::Request { .. }),
            _ => false,
        };
        let has_sent_all = self.line.gate.is_empty() && self.line.express.is_empty();
        let is_idle = has_sent_all && !self.flights.has_told() && !opens_for_notice;
        !self.line.is_open && is_idle
    }

    fn send_what_may(&mut self) {
        while !matches!(self.phase, Phase::Opening(_)) {
            let Some(next) = self.line.gate.pop() else { return };
            match self.phase {
                Phase::Open(_) => self.launch(next, true),
                _ => self.open_for(next),
            }
        }
    }

    async fn accept(&mut self, message: Message) {
        if let Some(id) = peek::cancelled_request(&message) {
            return self.cancel(&id, message).await;
        }
        if let (Head::Request { id, .. }, Some(Method::Discover)) =
            (message.head(), message.method())
        {
            // C22: nobody here knows it, and a question opens no stream.
            let answer = reply::method_not_found(id, "server/discover");
            return self.pass_on(Incoming::Message(answer)).await;
        }
        let is_open = matches!(self.phase, Phase::Open(_));
        let can_leave = is_open && !self.line.gate.is_held();
        let lane = match self.line.gate.lane(&message) {
            Lane::Express if message.method().is_none() => {
                if !is_open || self.line.gate.is_lost() {
                    return debug!("an answer to a question of a lost session was dropped");
                }
                // To a question that may have been asked during the handshake.
                Lane::Express
            }
            Lane::Express if !can_leave => Lane::Line,
            Lane::Express if message.method() == Some(&Method::Ping) && self.has_many_pings() => {
                Lane::Line
            }
            lane => lane,
        };
        // Modern requests have no way of their own here: all go in line.
        let outgoing = self.line.outgoing(message, None);
        match lane {
            Lane::Express => self.overtake(outgoing),
            Lane::Line => self.line.gate.push(outgoing),
        }
    }

    fn has_many_pings(&self) -> bool {
        self.flights.pings() >= limits::PINGS_AT_ONCE
    }

    fn open_for(&mut self, first: Outgoing) {
        let (context, reports) = (Arc::clone(&self.context), self.reports.clone());
        let headers = self.session.stream_headers();
        let login = Manner::aside().with_login_for(&first.message).login;
        self.tasks.spawn(async move {
            let opened = stream::open(&context, headers, First::Anything, login).await;
            let _ = reports.send(Report::Opened(opened)).await;
        });
        self.phase = Phase::Opening(Some(first));
    }

    async fn opened(&mut self, opened: Result<Box<Stream>, Error>) {
        let Phase::Opening(first) = std::mem::replace(&mut self.phase, Phase::Closed) else {
            return;
        };
        match opened {
            Ok(stream) => {
                self.phase = Phase::Open(stream);
                self.reached().await;
                if let Some(first) = first {
                    self.launch(first, true);
                }
            }
            Err(error) => {
                self.note_absence(&error);
                if let Some(first) = first {
                    self.line.gate.settled();
                    self.come_back(first, &error).await;
                }
                // None of them could leave without a stream.
                self.line.return_all(&error).await;
            }
        }
    }

    /// Starts the POST of one message.
    pub(super) fn launch(&mut self, outgoing: Outgoing, holds_place: bool) {
        let Phase::Open(stream) = &self.phase else { return };
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let message = &outgoing.message;
        self.context.crossing(Direction::ToServer, message, stream.session.as_ref());
        let progress = Progress::default();
        let call = Call {
            method: http::Method::POST,
            endpoint: Arc::clone(&stream.endpoint),
            headers: self.session.post_headers(&outgoing),
            body: message.bytes().clone(),
            lane: if holds_place { net::Lane::Calls } else { net::Lane::Urgent },
            progress: progress.clone(),
        };
        let limit = express::limit(message, &self.context.settings.timeouts);
        let manner = Manner::within(None, "Request").with_login_for(message);
        let errand = Errand { ticket, call, manner, reports: self.reports.clone() };
        let sent = self.posters.send(&self.context, errand, &mut self.tasks);
        let flight = Flight::new(outgoing, holds_place, progress, sent, limit);
        self.flights.insert(ticket, flight, Instant::now());
    }

    /// The client no longer wants the answer to `id`; the bridge has forgotten it already.
    async fn cancel(&mut self, id: &Id, notice: Message) {
        if self.line.gate.withdraw(id) {
            return debug!(%id, "cancelled before it was sent");
        }
        if let Phase::Opening(first) = &mut self.phase
            && let Some(unsent) = first.take_if(|first| first.message.id() == Some(id))
        {
            self.line.gate.settled();
            return self.ended(&unsent, None).await;
        }
        let Some(flight) = self.flights.withdraw(id) else {
            // Answered already; the server may want to know, unless that was in a lost session.
            if !self.line.gate.is_held() {
                self.tell(notice);
            }
            return;
        };
        self.land(&flight);
        let is_handshake = flight.outgoing.is_request(&Method::Initialize);
        if flight.progress.withdraw() || is_handshake || flight.is_left {
            flight.sent.give_up();
            return self.ended(&flight.outgoing, None).await;
        }
        self.let_go(&flight);
        self.tell(notice);
    }

    /// Its POST matters no more: it is not waited for much longer, as some servers never
    /// acknowledge what they have answered.
    pub(super) fn let_go(&mut self, flight: &Flight) {
        if flight.is_acknowledged {
            return;
        }
        let sent = flight.sent.clone();
        self.tasks.spawn(async move {
            tokio::time::sleep(limits::LINGER).await;
            sent.give_up();
        });
    }

    /// Sends a message past the line, if there is a stream to say it on.
    pub(super) fn tell(&mut self, notice: Message) {
        let outgoing = self.line.outgoing(notice, None);
        self.overtake(outgoing);
    }

    /// The same, but not any number at once.
    fn overtake(&mut self, outgoing: Outgoing) {
        if matches!(self.phase, Phase::Open(_))
            && let Some(outgoing) = self.line.express.offer(outgoing)
        {
            self.launch(outgoing, false);
        }
    }

    /// A message is no longer out: others may take its place.
    pub(super) fn land(&mut self, flight: &Flight) {
        if flight.holds_place {
            self.line.gate.settled();
        } else if let Some(next) = self.line.express.arrived(&flight.outgoing) {
            self.launch(next, false);
        }
        if flight.outgoing.is_notification(&Method::Initialized) {
            self.line.gate.confirmed();
        }
    }

    /// A message comes back.
    pub(super) async fn come_back(&mut self, outgoing: Outgoing, error: &Error) {
        self.line.give_back(outgoing.message.clone(), error.clone()).await;
        self.ended(&outgoing, Some(error.clone())).await;
    }

    /// If it was an `initialize`, those who waited for it must know.
    pub(super) async fn ended(&mut self, outgoing: &Outgoing, failure: Option<Error>) {
        if outgoing.is_request(&Method::Initialize) {
            self.line.opened(outgoing.order, failure).await;
        }
    }

    /// To whoever holds the link. While nobody takes it, nobody's time runs.
    pub(super) async fn pass_on(&mut self, incoming: Incoming) {
        if let Err(incoming) = self.context.incoming.try_send(incoming) {
            let since = Instant::now();
            let _ = self.context.incoming.send(incoming).await;
            self.flights.stop_clock(since.elapsed());
        }
    }

    pub(super) fn note_absence(&self, error: &Error) {
        self.context.note_absence(error);
    }

    /// The server is there, if it was not.
    pub(super) async fn reached(&mut self) {
        if self.context.note_presence() {
            self.pass_on(Incoming::Reached).await;
        }
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
