//! Lets messages leave for the server: in order, no more at once than allowed, urgent ones past the
//! queue.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;
use tracing::debug;

use super::entry::{Entry, Place, Sent, silence_limit};
use super::returned::Returned;
use super::sent::SentTable;
use super::session::Session;
use crate::error::Error;
use crate::limits::{self, Timeouts};
use crate::message::{Head, Id, Message, Method, method, peek, reply};
use crate::net::{Lane, Progress};
use crate::revision::{Cancel, Envelope, Era, Revision};
use crate::transport::Incoming;
use crate::transport::http::{Command, Send, Ticket};

/// What limits the messages to one server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How many are out at once.
    pub(crate) parallel: usize,
    /// One message at a time, in strict order.
    pub(crate) serial: bool,
    /// How long nothing may be heard of a message.
    pub(crate) timeouts: Timeouts,
    /// How long messages wait for somebody to open a session.
    pub(crate) away_wait: Duration,
    /// Only HTTP+SSE is spoken.
    pub(crate) is_http_sse: bool,
}

/// Decides which message leaves now, and follows it until it has its answer or has failed.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    pub(super) limits: Limits,
    pub(super) transport: Transport,
    pub(super) session: Session,
    /// Messages that wait, in the order in which they came.
    pub(super) queue: VecDeque<Entry>,
    /// Urgent ones that wait for nothing but their like.
    pub(super) urgent: VecDeque<Entry>,
    pub(super) sent: SentTable,
    /// How many of them take up an ordinary place.
    ordinary_out: usize,
    /// How many notifications and answers are out past the queue.
    urgent_out: usize,
    returned: Returned,
    /// Bytes of what is here and gets no answer.
    held: usize,
    /// Nothing more comes.
    pub(super) is_closed: bool,
    /// No clock ends anything before this: the program was stopped for a while.
    pub(super) not_before: Option<Instant>,
    next: u64,
    commands: VecDeque<Command>,
    events: VecDeque<Incoming>,
}

/// How the server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    StreamableHttp,
    /// The answers come on a stream, which is the session.
    HttpSse {
        is_open: bool,
    },
}

impl Dispatcher {
    pub(crate) fn new(limits: Limits) -> Self {
        let parallel = if limits.serial { 1 } else { limits.parallel.max(1) };
        let transport = match limits.is_http_sse {
            true => Transport::HttpSse { is_open: false },
            false => Transport::StreamableHttp,
        };
        Self {
            limits: Limits { parallel, ..limits },
            transport,
            session: Session::default(),
            queue: VecDeque::new(),
            urgent: VecDeque::new(),
            sent: SentTable::default(),
            ordinary_out: 0,
            urgent_out: 0,
            returned: Returned::default(),
            held: 0,
            is_closed: false,
            not_before: None,
            next: 0,
            commands: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// The next command for the link.
    pub(crate) fn next_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// The next thing that the bridge has to know.
    pub(crate) fn next_event(&mut self) -> Option<Incoming> {
        self.events.pop_front()
    }

    /// Bytes of notifications and answers that are here or out.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held
    }

    /// Nothing more comes, and nobody waits for answers any more.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
        self.queue.retain(|entry| entry.request_id().is_none());
    }

    /// Whether all has left that gets no answer, and was taken.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty()
            && self.urgent.is_empty()
            && self.commands.is_empty()
            && !self.sent.has_notices()
    }

    /// Takes a message on its way.
    pub(crate) fn send(&mut self, message: Message, now: Instant) {
        if let Some(id) = peek::cancelled_request(&message) {
            self.cancel(&id, message, now);
            return self.dispatch(now);
        }
        let is_http_sse = self.transport != Transport::StreamableHttp;
        if let (Head::Request { id, method: Method::Discover }, true) =
            (message.head(), is_http_sse)
        {
            // C22: nobody there knows it, and a question opens no stream.
            let answer = reply::method_not_found(id, "server/discover");
            return self.tell(Incoming::Message(answer));
        }
        let envelope = if is_http_sse { None } else { Envelope::of(&message) };
        let entry = self.entry(message, envelope);
        match self.place_of(&entry) {
            Some(Place::Urgent) => self.overtake(entry, now),
            Some(_) => {
                self.queue.push_back(entry);
                self.dispatch(now);
            }
            None => {
                self.held -= entry.weight();
                debug!("an answer to a request of a lost session was dropped");
            }
        }
    }

    fn entry(&mut self, message: Message, envelope: Option<Envelope>) -> Entry {
        self.next += 1;
        let entry =
            Entry { message, envelope, order: self.next, losses: 0, needs_session_id: false };
        self.held += entry.weight();
        entry
    }

    /// Answers and cancellations never wait behind calls; pings only where order is asked for, or
    /// where there are many. `None`: there is no session to say it in.
    fn place_of(&self, entry: &Entry) -> Option<Place> {
        let is_open = self.transport != Transport::HttpSse { is_open: false };
        let Some(method) = entry.message.method() else {
            // To a request that may have been made during the handshake.
            return (is_open && !self.session.is_lost()).then_some(Place::Urgent);
        };
        let is_urgent = match method.properties().lane {
            method::Lane::Always => true,
            method::Lane::Urgent => !self.limits.serial,
            method::Lane::Handshake | method::Lane::Ordinary => false,
        };
        let is_held = entry.envelope.is_none() && self.session.is_replaced();
        let is_one_of_many = *method == Method::Ping && self.sent.pings() >= limits::PINGS_AT_ONCE;
        match is_urgent && is_open && !is_held && !is_one_of_many {
            true => Some(Place::Urgent),
            false => Some(Place::Ordinary),
        }
    }

    /// Lets leave whatever may.
    pub(super) fn dispatch(&mut self, now: Instant) {
        // As a rule nothing waits, and this is asked for each message and for each answer.
        while !self.queue.is_empty() {
            let Some(at) = self.queue.iter().position(|entry| self.session.admits(entry)) else {
                return;
            };
            let is_full = self.ordinary_out >= self.limits.parallel;
            if is_full && !self.queue.get(at).is_some_and(Entry::is_handshake) {
                return;
            }
            let Some(entry) = self.queue.remove(at) else { return };
            self.launch(entry, Place::Ordinary, now);
        }
    }

    /// Sends a message past the queue; but not any number at once. Requests are counted elsewhere.
    fn overtake(&mut self, entry: Entry, now: Instant) {
        if entry.request_id().is_none() && self.urgent_out >= limits::OVERTAKING {
            return self.urgent.push_back(entry);
        }
        self.launch(entry, Place::Urgent, now);
    }

    /// Sends a notification of the bridge's own past the queue, if there is anybody to hear it.
    pub(super) fn notify(&mut self, notice: Message, now: Instant) {
        if self.transport == (Transport::HttpSse { is_open: false }) {
            return;
        }
        let entry = self.entry(notice, None);
        self.overtake(entry, now);
    }

    fn launch(&mut self, entry: Entry, place: Place, now: Instant) {
        self.next += 1;
        let ticket = Ticket(self.next);
        match place {
            Place::Ordinary => self.ordinary_out += 1,
            Place::Urgent if entry.request_id().is_none() => self.urgent_out += 1,
            Place::Urgent | Place::Free => {}
        }
        let is_held = self.session.is_replaced();
        if place == Place::Ordinary {
            self.session.leaves(&entry, ticket);
        }
        // Answers belong to the session in which they were asked for, which may just be opened; and
        // an `initialize` to none.
        let is_bound = entry.envelope.is_none()
            && !entry.is_answer()
            && !entry.is_request(&Method::Initialize);
        let session = self.session.opened_by().filter(|_| is_bound);
        let progress = Progress::default();
        let send = Send {
            ticket,
            message: entry.message.clone(),
            envelope: entry.envelope.clone(),
            session,
            needs_session_id: entry.needs_session_id,
            lane: match place {
                _ if entry.is_request(&Method::Listen) => Lane::Lasting,
                // Calls that hold every place may themselves wait for the new session.
                Place::Ordinary if !is_held => Lane::Calls,
                _ => Lane::Urgent,
            },
            is_last_try: entry.is_last_try(),
            retry: self.returned.retry(&entry.message),
            progress: progress.clone(),
        };
        let is_http_sse = self.transport != Transport::StreamableHttp;
        let sent = Sent {
            ticket,
            place,
            progress,
            is_acknowledged: false,
            is_left: false,
            failure: None,
            // The exchange of Streamable HTTP knows of every byte that comes.
            limit: is_http_sse
                .then(|| silence_limit(&entry.message, &self.limits.timeouts))
                .flatten(),
            due: None,
            token: None,
            entry,
        };
        match self.transport {
            Transport::HttpSse { is_open: false } => self.sent.insert_early(sent),
            _ => self.sent.insert(sent, is_http_sse, now),
        }
        self.commands.push_back(Command::Send(Box::new(send)));
    }

    /// The client no longer wants the answer to `id`.
    fn cancel(&mut self, id: &Id, notice: Message, now: Instant) {
        let canonical = id.canonical();
        if let Some(at) = self.queue.iter().position(|entry| entry.is_named(&canonical)) {
            self.queue.remove(at);
            return debug!(%id, "cancelled before it was sent");
        }
        let Some(sent) = self.sent.find(id).and_then(|ticket| self.settle(ticket, now)) else {
            return self.notify_of_unknown(notice, now);
        };
        let is_unsent = sent.progress.withdraw();
        sent.progress.abandon();
        let is_initialize = sent.entry.is_request(&Method::Initialize);
        if is_unsent || is_initialize || sent.is_left || closes_stream(&sent.entry) {
            debug!(%id, is_unsent, "cancelled by dropping it");
            self.drop_exchange(&sent, Duration::ZERO);
            return self.initialize_ended(&sent, None);
        }
        self.notify(notice, now);
        // Its stream may bring the rest of what the server had to say; some never end it.
        self.drop_exchange(&sent, limits::CANCEL_GRACE);
    }

    /// Answered already, or a matter of others: the server may want to know.
    fn notify_of_unknown(&mut self, notice: Message, now: Instant) {
        if self.transport == Transport::StreamableHttp {
            let entry = self.entry(notice, None);
            self.overtake(Entry { needs_session_id: true, ..entry }, now);
        } else if !self.session.is_replaced() {
            self.notify(notice, now);
        }
    }

    /// What is left of its exchange is not waited for much longer.
    pub(super) fn drop_exchange(&mut self, sent: &Sent, grace: Duration) {
        self.commands.push_back(Command::Cancel { ticket: sent.ticket, grace });
    }

    /// A message is no longer out: others may take its place.
    pub(super) fn settle(&mut self, ticket: Ticket, now: Instant) -> Option<Sent> {
        let sent = self.sent.remove(ticket)?;
        self.held -= sent.entry.weight();
        self.free_place(&sent.entry, sent.place, now);
        if sent.entry.is_notification(&Method::Initialized) {
            self.session.confirmed();
        }
        Some(sent)
    }

    /// Who waits for the place may leave when the caller has finished.
    pub(super) fn free_place(&mut self, entry: &Entry, place: Place, now: Instant) {
        match place {
            Place::Ordinary => self.ordinary_out -= 1,
            Place::Urgent if entry.request_id().is_none() => {
                self.urgent_out -= 1;
                if let Some(next) = self.urgent.pop_front() {
                    self.launch(next, Place::Urgent, now);
                }
            }
            Place::Urgent | Place::Free => {}
        }
    }

    /// It is out, but others may take its place.
    pub(super) fn free_ordinary_place(&mut self) {
        self.ordinary_out -= 1;
    }

    /// Only these still hold a place: the others are nobody's concern any more.
    pub(super) fn keep_places_of(&mut self, is_kept: impl Fn(&Entry) -> bool) {
        for sent in self.sent.values_mut().filter(|sent| !is_kept(&sent.entry)) {
            sent.place = Place::Free;
        }
        self.ordinary_out = self.sent.tickets(|sent| sent.place == Place::Ordinary).len();
        self.urgent_out = 0;
    }

    /// Back to its place in the queue.
    pub(super) fn requeue(&mut self, entry: Entry) {
        self.held += entry.weight();
        let at = self.queue.partition_point(|waiting| waiting.order < entry.order);
        self.queue.insert(at, entry);
    }

    /// Their session is no more: nobody wants to hear what waited past the queue.
    pub(super) fn drop_urgent(&mut self) {
        for entry in std::mem::take(&mut self.urgent) {
            self.held -= entry.weight();
        }
    }

    /// Gives back those in the queue that `is_meant` picks.
    pub(super) fn give_back_queued(&mut self, error: &Error, is_meant: impl Fn(&Entry) -> bool) {
        let (meant, rest) = std::mem::take(&mut self.queue).into_iter().partition(is_meant);
        self.queue = rest;
        let meant: VecDeque<Entry> = meant;
        for entry in meant {
            self.held -= entry.weight();
            self.give_back(entry.message, error.clone());
        }
    }

    /// The message comes back to the bridge, which may send it again.
    pub(super) fn give_back(&mut self, message: Message, error: Error) {
        self.returned.note(&message);
        self.tell(Incoming::Failed { message, error: error.into() });
    }

    pub(super) fn note_return(&mut self, message: &Message) {
        self.returned.note(message);
    }

    pub(super) fn tell(&mut self, incoming: Incoming) {
        self.events.push_back(incoming);
    }
}

/// Whether a request is cancelled by closing the stream of its answer.
fn closes_stream(entry: &Entry) -> bool {
    let rules = entry.envelope.as_ref().map(|e| Revision::of(&e.version, Era::Modern));
    rules.is_some_and(|rules| rules.cancel == Cancel::ClosingTheStream)
}
