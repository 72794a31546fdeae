//! HTTP+SSE: POSTs for all that the server is told, and one stream for all that it says.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tracing::{debug, warn};

use super::post::{Posted, post};
use super::stream::{self, EventStream, First};
use crate::error::{Error, Kind};
use crate::lock::lock;
use crate::message::{Head, Message, Method, Outline, peek};
use crate::net::{Call, Lane};
use crate::traffic;
use crate::transport::http::SendOptions;
use crate::transport::http::events::{Item, too_large};
use crate::transport::http::link::Io;
use crate::transport::http::report::Report;
use crate::transport::http::session::SessionHeaders;
use crate::transport::{Event, Send, Ticket};

#[derive(Debug, Default)]
pub(in super::super) struct HttpSse {
    phase: StreamPhase,
    /// How many streams there were: a POST belongs to the one that was open.
    streams: u64,
    /// Every session that was opened by this ticket or an earlier one is lost.
    lost: Option<Ticket>,
    /// The newest ticket of the engine's.
    newest: Ticket,
}

/// Where the stream stands.
#[derive(Debug, Default)]
enum StreamPhase {
    /// There is none; the next message opens one (C33).
    #[default]
    Closed,
    /// It is being opened for these.
    Opening(VecDeque<Send>),
    Open(Box<EventStream>),
}

impl HttpSse {
    /// Goes on where the other transport has found out that it is this one: its `initialize` is sent
    /// once more.
    pub(in super::super) fn take_over(
        initialize: Send,
        stream: Box<EventStream>,
        io: &mut Io,
    ) -> Self {
        debug!("the server speaks HTTP+SSE");
        let mut sse = Self { phase: StreamPhase::Open(stream), ..Self::default() };
        io.report(Event::StreamOpened);
        sse.send(initialize, io);
        sse
    }

    pub(in super::super) fn on_report(&mut self, report: Report, io: &mut Io) {
        match report {
            Report::StreamOpened(opened) => self.opened(opened, io),
            Report::Posted(posted) => self.posted(posted, io),
            // Of the other transport, from before it was known that it is this one.
            _ => debug!("a report of the other transport was ignored"),
        }
    }

    /// Takes what comes on the stream; `Pending` if that is nothing.
    pub(in super::super) fn poll_stream(
        &mut self,
        context: &mut Context<'_>,
        io: &mut Io,
    ) -> Poll<()> {
        let StreamPhase::Open(stream) = &mut self.phase else { return Poll::Pending };
        // No idle limit: a server may have nothing to say for days.
        let next = ready!(pin!(stream.events.next(None)).poll(context));
        match next {
            Ok(Some(Item::Message(message))) => self.deliver(message, io),
            Ok(Some(Item::Oversized(outline))) => oversized(outline, io),
            end => {
                let no_more = Error::new(Kind::NoResponse, "the server ended its stream");
                let error = end.map_or_else(|error| io.context.scrubbed(error), |_| no_more);
                traffic::stream_cut(traffic::StreamKind::Session, Some(&error), None);
                self.end_stream(error, io);
            }
        }
        Poll::Ready(())
    }

    pub(in super::super) fn send(&mut self, send: Send, io: &mut Io) {
        self.give_up_what_slept(io);
        if send.ticket.is_of_engine() {
            self.newest = self.newest.max(send.ticket);
        }
        let is_request = send.message.request_id().is_some();
        // Between the decision to send it and now, the stream has ended: the engine hears of
        // that, and knows that it did not leave.
        let is_stale = send.session.is_some_and(|session| Some(session) <= self.lost);
        match &mut self.phase {
            _ if is_stale => {
                let error = Error::new(Kind::SessionLost, "The stream of the session has ended");
                let (ticket, session) = (send.ticket, send.session);
                let error = error.not_delivered().into();
                io.report(Event::SessionRejected { ticket, session, error, last_word: None });
            }
            StreamPhase::Open(_) => self.launch(send, io),
            // It is about a session, and there is none.
            _ if send.lane == Lane::Urgent && !is_request => {}
            StreamPhase::Opening(waiting) => waiting.push_back(send),
            StreamPhase::Closed => self.open_for(send, io),
        }
    }

    fn open_for(&mut self, first: Send, io: &mut Io) {
        let context = Arc::clone(&io.context);
        let headers = SessionHeaders::new(&context.settings).stream_headers();
        let login = SendOptions::of(&first.message).login;
        io.exchanges.start_aside(async move {
            let opened = stream::open(&context, headers, First::Anything, login).await;
            context.report(Report::StreamOpened(opened));
        });
        self.phase = StreamPhase::Opening(VecDeque::from([first]));
    }

    fn opened(&mut self, opened: Result<Box<EventStream>, Error>, io: &mut Io) {
        let StreamPhase::Opening(waiting) = std::mem::replace(&mut self.phase, StreamPhase::Closed)
        else {
            return;
        };
        match opened {
            Ok(stream) => {
                self.phase = StreamPhase::Open(stream);
                io.report(Event::StreamOpened);
                io.context.note_presence();
                waiting.into_iter().for_each(|send| self.launch(send, io));
            }
            Err(error) => {
                io.context.note_absence(&error);
                // None of them could leave without a stream.
                for send in waiting {
                    let (ticket, error) = (send.ticket, error.clone().into());
                    io.report(Event::Failed { ticket, error });
                }
            }
        }
    }

    /// Starts the POST of one message.
    fn launch(&mut self, send: Send, io: &mut Io) {
        let StreamPhase::Open(stream) = &mut self.phase else { return };
        let ticket = send.ticket;
        io.context.log_sent(&send, stream.address.session.as_ref());
        if send.message.is_request(&Method::Initialize) {
            stream.initialize = send.message.request_id().map(|id| (ticket, id.clone()));
        }
        let headers = stream.headers.post_headers(&send);
        let call = Call {
            endpoint: Arc::clone(&stream.address.endpoint),
            lane: send.lane,
            progress: send.progress.clone(),
            ..io.context.call(http::Method::POST, headers, send.message.bytes().clone())
        };
        let context = Arc::clone(&io.context);
        io.exchanges.start(ticket, Box::pin(post(context, Box::new(send), self.streams, call)));
    }

    /// Nobody waits for the answer any more.
    pub(in super::super) fn cancel(&mut self, ticket: Ticket) {
        if let StreamPhase::Opening(waiting) = &mut self.phase {
            waiting.retain(|send| send.ticket != ticket);
        }
    }

    fn deliver(&mut self, message: Message, io: &mut Io) {
        let StreamPhase::Open(stream) = &mut self.phase else { return };
        io.context.log_received(&message, None, stream.address.session.as_ref());
        if let Head::Response { id: Some(id), is_error } = message.head()
            && let Some((ticket, _)) = stream.initialize.take_if(|(_, own)| id.resembles(own))
            && !is_error
        {
            let version = peek::negotiated_version(&message);
            debug!(version, "a session begins");
            io.context.note_connection("HTTP+SSE", version.as_deref());
            stream.headers.begin(ticket, None, version.as_deref());
        }
        io.report(Event::Message { message, answers: None });
    }

    fn posted(&mut self, posted: Posted, io: &mut Io) {
        let Posted { send, stream, answer, outcome } = posted;
        let is_lost = |error: &Error| error.kind == Kind::SessionLost;
        let is_session_lost = outcome.as_ref().err().is_some_and(is_lost);
        let (ticket, is_current) = (send.ticket, stream == self.streams);
        // An answer that came on the stream, or a cancellation, was first.
        let is_wanted = !send.progress.is_abandoned();
        if let Err(error) = &outcome {
            io.context.note_absence(error);
        }
        if outcome.as_ref().err().is_none_or(|error| error.status.is_some()) {
            io.context.note_presence();
        }
        match (answer, outcome) {
            (None, Ok(())) => {
                if let StreamPhase::Open(stream) = &mut self.phase {
                    stream.address.others.clear();
                }
                io.report(Event::Accepted(ticket));
            }
            (Some(_), _) if !is_wanted => {}
            (Some(message), outcome) => {
                io.report(Event::Message { message, answers: Some(ticket) });
                if let (Err(error), true) = (outcome, is_current) {
                    self.end_stream(error, io);
                }
            }
            (None, Err(error)) if is_wanted && self.goes_elsewhere(&send, &error) => {
                self.launch(*send, io);
            }
            (None, Err(_)) if is_session_lost && !is_wanted => {}
            (None, Err(error)) if is_session_lost => {
                if send.is_last_try {
                    lock(&io.context.habits).note_last_loss(error.status);
                } else if is_current {
                    self.close_stream();
                }
                let (session, error) = (send.session, error.into());
                io.report(Event::SessionRejected { ticket, session, error, last_word: None });
            }
            (None, Err(error)) => io.report(Event::Failed { ticket, error: error.into() }),
        }
    }

    /// Nobody is at the address: the first message may have to go to another one.
    fn goes_elsewhere(&mut self, send: &Send, error: &Error) -> bool {
        let StreamPhase::Open(stream) = &mut self.phase else { return false };
        matches!(error.status, Some(404 | 405))
            && send.message.is_request(&Method::Initialize)
            && stream.address.try_other()
    }

    /// Nothing is sent into a session whose stream has slept along with the machine: it may look
    /// open for minutes, and no answer would come.
    fn give_up_what_slept(&mut self, io: &mut Io) {
        if let StreamPhase::Open(stream) = &self.phase
            && stream.sleeps != io.context.client.sleeps()
        {
            self.end_stream(Error::new(Kind::Closed, "the machine has slept"), io);
        }
    }

    fn end_stream(&mut self, why: Error, io: &mut Io) {
        self.close_stream();
        io.report(Event::StreamEnded(why.into()));
    }

    /// The session ends with its stream.
    fn close_stream(&mut self) {
        self.phase = StreamPhase::Closed;
        self.streams += 1;
        self.lost = Some(self.newest);
    }
}

/// A message over the limit has passed by.
fn oversized(outline: Outline, io: &mut Io) {
    let error = too_large(io.context.settings.max_message);
    match outline {
        Outline { id: Some(id), has_method } => {
            io.report(Event::Oversized { id, is_request: has_method, error: error.into() });
        }
        Outline { id: None, .. } => warn!("SSE error: an event was skipped: {error}"),
    }
}
