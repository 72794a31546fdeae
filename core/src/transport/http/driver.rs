//! The one task that owns the session: it lets messages leave, and hears how they fared.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{timeout, timeout_at};
use tracing::debug;

use super::express::Express;
use super::gate::{Lane, Outgoing};
use super::heeding::Report;
use super::legacy_sse::Takeover;
use super::line::Line;
use super::modern::Written;
use super::post::{Errand, Post};
use super::posters::{Posters, Sent};
use super::session::Session;
use super::tasks::{Tasks, deserted};
use super::{Context, Manner, legacy_sse, stream};
use crate::limits;
use crate::message::fnv_map::FnvMap;
use crate::message::{Head, Id, Message, Method, peek};
use crate::net::{self, Call, Progress};
use crate::revision::{Cancel, Envelope};
use crate::transport::channel;

pub(super) struct Driver {
    pub(super) context: Arc<Context>,
    pub(super) line: Line,
    /// Shared with the POSTs that were sent in it; replaced, not changed, when another begins.
    pub(super) session: Arc<Session>,
    /// Messages that are out and not settled.
    pub(super) flights: FnvMap<u64, Flight>,
    next_ticket: u64,
    /// Every task of the link: dropped with the driver.
    pub(super) tasks: Tasks,
    /// Those of them that send messages.
    posters: Posters<Errand>,
    server_stream: Option<AbortHandle>,
    /// For the tasks.
    reports: mpsc::Sender<Report>,
}

pub(super) struct Flight {
    pub(super) outgoing: Outgoing,
    pub(super) lane: Lane,
    cancel: Cancel,
    pub(super) progress: Progress,
    sent: Sent,
}

impl Flight {
    /// Whether it must arrive even though nothing more will be sent: whoever closes the link has
    /// all the answers that it wants.
    fn matters(&self) -> bool {
        !matches!(self.outgoing.message.head(), Head::Request { .. })
    }

    /// Not part of a handshake.
    pub(super) fn is_ordinary(&self) -> bool {
        !self.is_request(&Method::Initialize) && !self.is_notification(&Method::Initialized)
    }

    pub(super) fn is_request(&self, method: &Method) -> bool {
        self.outgoing.is_request(method)
    }

    pub(super) fn is_notification(&self, method: &Method) -> bool {
        self.outgoing.is_notification(method)
    }
}

/// Why the driver's work is over.
pub(super) enum End {
    /// Nothing more will be sent, and all that was sent is settled.
    Finished,
    /// Nobody listens any more.
    AtOnce,
    /// The server speaks the older transport; this message is to be sent that way.
    LegacySse(Outgoing, Box<legacy_sse::Stream>),
}

/// What the driver wakes up for.
enum Event {
    Report(Report),
    Said(Option<Message>),
    /// Those who wait in line have waited long enough.
    Time,
}

/// Reports first: what the client says next may depend on them.
async fn next_event(
    reports: &mut mpsc::Receiver<Report>,
    outgoing: &mut channel::Receiver<Message>,
    is_open: bool,
) -> Event {
    poll_fn(|context| match reports.poll_recv(context) {
        Poll::Ready(Some(report)) => Poll::Ready(Event::Report(report)),
        _ if is_open => outgoing.poll_recv(context).map(Event::Said),
        _ => Poll::Pending,
    })
    .await
}

impl Driver {
    pub(super) fn new(context: Arc<Context>) -> (Self, mpsc::Receiver<Report>) {
        let (reports, inbound) = mpsc::channel(limits::CHANNEL);
        let driver = Self {
            line: Line::new(Arc::clone(&context)),
            session: Arc::new(Session::new(&context.settings)),
            flights: FnvMap::default(),
            next_ticket: 0,
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
        outgoing: &mut channel::Receiver<Message>,
        reports: mpsc::Receiver<Report>,
    ) -> Option<Takeover> {
        let limit = match self.work(outgoing, reports).await {
            End::Finished => limits::GOODBYE,
            End::AtOnce => limits::GOODBYE_IN_A_HURRY,
            End::LegacySse(initialize, stream) => {
                let (mut line, tasks) = (self.line, self.tasks);
                line.gate.keep_one_place();
                line.express = Express::default();
                return Some(Takeover { line, stream, initialize, tasks });
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
        outgoing: &mut channel::Receiver<Message>,
        mut reports: mpsc::Receiver<Report>,
    ) -> End {
        let context = Arc::clone(&self.context);
        self.tasks.spawn(deserted(Arc::clone(&context), self.reports.clone(), Report::Deserted));
        loop {
            while let Some(next) = self.line.gate.pop() {
                self.launch(next, Lane::Line);
            }
            let has_sent_all = self.line.gate.is_empty() && self.line.express.is_empty();
            let is_over = !self.line.is_open && has_sent_all;
            if is_over && !self.flights.values().any(Flight::matters) {
                return End::Finished;
            }
            let next = next_event(&mut reports, outgoing, self.line.is_open);
            let event = match self.line.give_up_at() {
                None => next.await,
                Some(time) => timeout_at(time, next).await.unwrap_or(Event::Time),
            };
            match event {
                Event::Report(report) => {
                    if let Some(end) = self.heed(report).await {
                        return end;
                    }
                }
                Event::Said(Some(message)) => self.accept(message).await,
                // Who listens no more wants no more.
                Event::Said(None) if context.incoming.is_closed() => return End::AtOnce,
                Event::Said(None) => self.line.close(),
                Event::Time => self.line.abandon().await,
            }
        }
    }

    async fn accept(&mut self, message: Message) {
        if let Some(id) = peek::cancelled_request(&message) {
            return self.cancel(&id, message).await;
        }
        let envelope = Envelope::of(&message);
        let lane = match self.line.gate.lane(&message) {
            // There is no session to say it in.
            Lane::Express if self.line.gate.is_lost() && message.method().is_none() => {
                return debug!("an answer to a question of a lost session was dropped");
            }
            // To a question that was asked during the handshake.
            Lane::Express if message.method().is_none() => Lane::Express,
            Lane::Express if self.line.gate.is_held() && envelope.is_none() => Lane::Line,
            Lane::Express if message.method() == Some(&Method::Ping) && self.has_many_pings() => {
                Lane::Line
            }
            lane => lane,
        };
        let outgoing = self.line.outgoing(message, envelope);
        match lane {
            Lane::Express => self.overtake(outgoing),
            Lane::Line => self.line.gate.push(outgoing),
        }
    }

    fn has_many_pings(&self) -> bool {
        let pings = self.flights.values().filter(|flight| flight.is_request(&Method::Ping));
        pings.count() >= limits::PINGS_AT_ONCE
    }

    /// Starts the POST of one message.
    pub(super) fn launch(&mut self, outgoing: Outgoing, lane: Lane) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.context.stir();
        let rules = self.session.rules_for(&outgoing);
        let Written { headers, body, mirrored } = self.context.written(&self.session, &outgoing);
        let mut call = self.context.call(http::Method::POST, headers, body);
        call.lane = self.lane_on_the_wire(&outgoing, lane);
        let progress = call.progress.clone();
        let post = Post {
            ticket,
            outgoing: outgoing.clone(),
            mirrored,
            progress: progress.clone(),
            rules,
            session: Arc::clone(&self.session),
            reports: self.reports.clone(),
        };
        let sent = self.posters.send(&self.context, Errand { post, call }, &mut self.tasks);
        let flight = Flight { outgoing, lane, cancel: rules.cancel, progress, sent };
        self.flights.insert(ticket, flight);
    }

    /// What it waits behind where all share a connection. Calls that hold every place may themselves
    /// wait for the session that is being opened anew.
    fn lane_on_the_wire(&self, outgoing: &Outgoing, lane: Lane) -> net::Lane {
        match lane {
            _ if outgoing.lasts() => net::Lane::Lasting,
            Lane::Express => net::Lane::Urgent,
            Lane::Line if self.line.gate.is_held() => net::Lane::Urgent,
            Lane::Line => net::Lane::Calls,
        }
    }

    /// The request `id`, if it is out.
    pub(super) fn find(&self, id: &Id) -> Option<(u64, &Flight)> {
        let wanted = id.canonical();
        let is_it = |flight: &Flight| match flight.outgoing.message.head() {
            Head::Request { id, .. } => id.canonical() == wanted,
            _ => false,
        };
        self.flights.iter().find(|(_, flight)| is_it(flight)).map(|(ticket, f)| (*ticket, f))
    }

    /// The client no longer wants the answer to `id`; the bridge has forgotten it already.
    async fn cancel(&mut self, id: &Id, notice: Message) {
        if self.line.gate.withdraw(id) {
            return debug!(%id, "cancelled before it was sent");
        }
        let Some((ticket, flight)) = self.find(id) else {
            // Answered already, or the bridge's own matter; the server may want to know.
            if self.session.id().is_some() {
                self.tell(notice);
            }
            return;
        };
        let unsent = flight.progress.withdraw();
        let silently = unsent
            || flight.cancel == Cancel::ClosingTheStream
            || flight.is_request(&Method::Initialize);
        flight.progress.disown();
        let Some(flight) = self.settle(ticket) else {
            return;
        };
        if silently {
            debug!(%id, unsent, "cancelled by dropping it");
            flight.sent.give_up();
            if flight.is_request(&Method::Initialize) {
                self.line.opened(flight.outgoing.order, None).await;
            }
            return;
        }
        self.tell(notice);
        // Its stream may bring the rest of what the server had to say; some never end it.
        self.tasks.spawn(async move {
            tokio::time::sleep(limits::CANCEL_GRACE).await;
            flight.sent.give_up();
        });
    }

    /// Sends a legacy notification past the line.
    pub(super) fn tell(&mut self, notice: Message) {
        let outgoing = self.line.outgoing(notice, None);
        self.overtake(outgoing);
    }

    /// Past the line; but not any number at once.
    fn overtake(&mut self, outgoing: Outgoing) {
        if let Some(outgoing) = self.line.express.offer(outgoing) {
            self.launch(outgoing, Lane::Express);
        }
    }

    pub(super) fn open_server_stream(&mut self) {
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

    pub(super) fn close_server_stream(&mut self) {
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

    pub(super) fn delete(&self, id: &HeaderValue) -> Call {
        let headers = self.session.goodbye_headers(id);
        self.context.call(http::Method::DELETE, headers, Bytes::new())
    }
}
