//! Streamable HTTP: each message is a POST. Owns the session's id and headers, and the stream for what
//! the server says on its own account.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use tokio::time::timeout;
use tracing::debug;

use super::link::Io;
use super::post::Exchange;
use super::report::Report;
use super::session::SessionHeaders;
use super::{Context, SendOptions, stream};
use crate::auth::Login;
use crate::error::{Error, ErrorKind};
use crate::limits;
use crate::net::Call;
use crate::transport::{Event, Send, Ticket};
use crate::wire::header;

#[derive(Debug)]
pub(super) struct Streamable {
    /// Shared with the POSTs that were sent in it; replaced, not changed, when another begins.
    session: Arc<SessionHeaders>,
    /// Why the last session was lost.
    loss: Error,
}

/// The job that keeps the server's own stream open.
const SERVER_STREAM: Ticket = Ticket::of_link(0);

impl Streamable {
    pub(super) fn new(context: &Context) -> Self {
        let session = Arc::new(SessionHeaders::new(&context.settings));
        Self { session, loss: session_gone() }
    }

    pub(super) fn on_report(&mut self, report: Report, io: &mut Io) {
        match report {
            Report::Initialized { ticket, session_id, version } => {
                let shown = session_id.as_ref().and_then(|id| id.to_str().ok());
                debug!(version, session = shown, "a session begins");
                io.context.note_connection("Streamable HTTP", version.as_deref());
                io.exchanges.give_up(SERVER_STREAM, Duration::ZERO);
                let session = Arc::make_mut(&mut self.session);
                let old = session.begin(ticket, session_id, version.as_deref());
                self.discard(old, io);
            }
            Report::Named { session_id } => {
                let old = Arc::make_mut(&mut self.session).foresee(session_id);
                self.discard(old, io);
            }
            Report::Adopted { session_id } => {
                Arc::make_mut(&mut self.session).adopt(session_id);
            }
            Report::Confirmed if io.context.settings.server_stream => {
                let stream = stream::keep_open(Arc::clone(&io.context), Arc::clone(&self.session));
                io.exchanges.start(SERVER_STREAM, Box::pin(stream));
            }
            Report::SessionGone { session, error } if self.session.id() == Some(&session) => {
                debug!(session = session.to_str().ok(), "the session is lost");
                let opened_by = self.session.opened_by;
                Arc::make_mut(&mut self.session).forget();
                io.exchanges.give_up(SERVER_STREAM, Duration::ZERO);
                self.loss = error.clone();
                // No news to who was told by the message that met the loss.
                if opened_by.is_some() {
                    io.report(Event::SessionLost { session: opened_by, error: error.into() });
                }
            }
            // Nobody wants the stream, or another session has begun.
            Report::Confirmed | Report::SessionGone { .. } => {}
            // Of the other transport, or for the link itself.
            Report::StreamOpened(_) | Report::Refused(_) | Report::IsLegacySse { .. } => {}
        }
    }

    /// Another has taken its place: the server need not keep it.
    fn discard(&mut self, session: Option<HeaderValue>, io: &mut Io) {
        let Some(session) = session else { return };
        let context = Arc::clone(&io.context);
        let call = delete(&context, &self.session, &session);
        io.exchanges.start_aside(async move {
            end_session(&context, call, Login::Never, limits::CLOSE).await;
        });
    }

    /// Starts the POST of one message.
    pub(super) fn send(&mut self, send: Send, io: &mut Io) {
        let ticket = send.ticket;
        // Between the decision to send it and now, its session was lost.
        if send.session.is_some() && send.session != self.session.opened_by {
            let (session, last_word, error) = (None, None, self.loss.clone().into());
            return io.report(Event::SessionRejected { ticket, session, error, last_word });
        }
        if send.needs_session_id && self.session.id().is_none() {
            return io.report(Event::Accepted(ticket));
        }
        io.context.wake_retries();
        let exchange = Exchange::new(Arc::clone(&io.context), Arc::clone(&self.session), send);
        io.exchanges.start(ticket, Box::pin(exchange.run()));
    }

    /// Nothing more is sent in the session; gives back what tells the server so.
    pub(super) fn end(&mut self, context: &Context) -> Option<Call> {
        let call = self.session.id().map(|id| delete(context, &self.session, id));
        Arc::make_mut(&mut self.session).forget();
        call
    }
}

fn delete(context: &Context, session: &SessionHeaders, id: &HeaderValue) -> Call {
    let mut headers = session.stream_headers();
    headers.insert(header::SESSION_ID, id.clone());
    context.call(http::Method::DELETE, headers, Bytes::new())
}

/// Sends the `call` that ends a session.
pub(super) async fn end_session(context: &Context, call: Call, login: Login, limit: Duration) {
    let sending = context.send(call, SendOptions { login, ..SendOptions::aside() });
    match timeout(limit, sending).await {
        Ok(Ok(response)) => debug!(status = response.status().as_u16(), "session deleted"),
        Ok(Err(error)) => debug!("the session was not deleted: {}", context.scrubbed(error)),
        Err(_) => debug!("the session was not deleted in time"),
    }
}

/// The loss of a session in general.
pub(super) fn session_gone() -> Error {
    Error::new(ErrorKind::SessionLost, "The server no longer knows the session").not_delivered()
}
