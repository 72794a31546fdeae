//! HTTP+SSE: POSTs for all that the server is told, and one stream for all that it says.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tracing::{debug, warn};

use super::post::{RefusedPost, post};
use super::stream::{self, EventStream, First};
use crate::error::{Error, ErrorKind};
use crate::message::{Head, Message, Method, Outline, peek};
use crate::net::{Call, Lane};
use crate::traffic;
use crate::transport::http::SendOptions;
use crate::transport::http::answer::session_lost;
use crate::transport::http::events::{Item, too_large};
use crate::transport::http::link::Io;
use crate::transport::http::report::Report;
use crate::transport::http::session_loss::Fate;
use crate::transport::{Event, Send, Ticket};

#[derive(Debug, Default)]
pub(in super::super) struct HttpSse {
    phase: StreamPhase,
    /// How many streams there were: a POST belongs to the one that was open.
    streams: u64,
}

/// Where the stream stands.
#[derive(Debug, Default)]
enum StreamPhase {
    /// There is none; the next message opens one (C33).
    #[default]
    Closed,
    /// It is being opened for these.
    Opening(Vec<Send>),
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
            Report::Refused(refused) => self.refused(refused, io),
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
                let no_more = Error::new(ErrorKind::NoResponse, "the server ended its stream");
                let error = end.map_or_else(|error| io.context.scrubbed(error), |_| no_more);
                traffic::stream_cut(traffic::StreamKind::Session, Some(&error), None);
                self.end_stream(error, io);
            }
        }
        Poll::Ready(())
    }

    pub(in super::super) fn send(&mut self, send: Send, io: &mut Io) {
        // Nothing is sent into a session whose stream has slept along with the machine: it may look
        // open for minutes, and no answer would come.
        if let StreamPhase::Open(stream) = &self.phase
            && stream.sleeps != io.context.client.sleeps()
        {
            self.end_stream(Error::new(ErrorKind::Closed, "the machine has slept"), io);
        }
        let opened_by = match &self.phase {
            StreamPhase::Open(stream) => stream.headers.opened_by,
            StreamPhase::Closed | StreamPhase::Opening(_) => None,
        };
        let is_request = send.message.request_id().is_some();
        match &mut self.phase {
            // Between the decision to send it and now, the stream has ended: the engine hears of
            // that, and knows that it did not leave.
            _ if send.session.is_some() && send.session != opened_by => {
                let error =
                    Error::new(ErrorKind::SessionLost, "The stream of the session has ended");
                let (ticket, session) = (send.ticket, send.session);
                let error = error.not_delivered().into();
                io.report(Event::SessionRejected { ticket, session, error, last_word: None });
            }
            StreamPhase::Open(_) => self.launch(send, io),
            // It is about a session, and there is none.
            _ if send.lane == Lane::Urgent && !is_request => {}
            StreamPhase::Opening(waiting) => waiting.push(send),
            StreamPhase::Closed => self.open_for(send, io),
        }
    }

    fn open_for(&mut self, first: Send, io: &mut Io) {
        let context = Arc::clone(&io.context);
        let login = SendOptions::of(&first.message).login;
        io.exchanges.start_aside(async move {
            let opened = stream::open(&context, First::Anything, login).await;
            context.report(Report::StreamOpened(opened));
        });
        self.phase = StreamPhase::Opening(vec![first]);
    }

    fn opened(&mut self, opened: Result<Box<EventStream>, Error>, io: &mut Io) {
        let StreamPhase::Opening(waiting) = std::mem::take(&mut self.phase) else { return };
        io.context.note_answer(&opened);
        match opened {
            Ok(stream) => {
                self.phase = StreamPhase::Open(stream);
                io.report(Event::StreamOpened);
                waiting.into_iter().for_each(|send| self.launch(send, io));
            }
            Err(error) => {
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
        let (call, _) = io.context.post(&stream.headers, &send);
        let call = Call { endpoint: Arc::clone(&stream.address.endpoint), ..call };
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

    fn refused(&mut self, refused: RefusedPost, io: &mut Io) {
        let RefusedPost { send, stream, fate, answer, error } = refused;
        let (ticket, is_current) = (send.ticket, stream == self.streams);
        // An answer that came on the stream, or a cancellation, was first.
        let is_wanted = !send.progress.is_abandoned();
        match (fate, answer) {
            (Fate::Lost, _) | (_, Some(_)) if !is_wanted => {}
            (Fate::Lost, _) => {
                if is_current && !send.is_last_try {
                    self.close_stream();
                }
                let (session, error) = (send.session, session_lost(error).into());
                io.report(Event::SessionRejected { ticket, session, error, last_word: None });
            }
            (fate, Some(message)) => {
                io.report(Event::Message { message, answers: Some(ticket) });
                if fate == Fate::AnsweredThenLost && is_current {
                    self.end_stream(session_lost(error), io);
                }
            }
            (_, None) if is_wanted && self.goes_elsewhere(&send, &error) => self.launch(*send, io),
            (_, None) => io.report(Event::Failed { ticket, error: error.into() }),
        }
    }

    /// Nobody is at the address: the first message may have to go to another one.
    fn goes_elsewhere(&mut self, send: &Send, error: &Error) -> bool {
        let StreamPhase::Open(stream) = &mut self.phase else { return false };
        matches!(error.status, Some(404 | 405))
            && send.message.is_request(&Method::Initialize)
            && stream.headers.opened_by.is_none()
            && stream.address.try_other()
    }

    fn end_stream(&mut self, why: Error, io: &mut Io) {
        self.close_stream();
        io.report(Event::StreamEnded(why.into()));
    }

    /// The session ends with its stream.
    fn close_stream(&mut self) {
        self.phase = StreamPhase::Closed;
        self.streams += 1;
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
