//! What the driver does about what its tasks report: sessions that begin or are lost, messages that
//! are settled.

use std::sync::Arc;

use http::HeaderValue;
use tokio::time::timeout;
use tracing::debug;

use super::Manner;
use super::driver::{Driver, End, Flight};
use super::gate::{Lane, Outgoing};
use super::legacy_sse;
use super::line::Line;
use crate::error::{Error, Kind};
use crate::limits;
use crate::message::{Id, Message, Method, fnv_map};
use crate::transport::Incoming;

/// What a POST tells the driver.
#[derive(Debug)]
pub(super) enum Report {
    /// The answer to `initialize` is in; the client has not seen it yet.
    Initialized { ticket: u64, session_id: Option<HeaderValue>, version: Option<String> },
    /// The answer to `initialize` has begun, and names a session; what it says is still to come.
    Named { session_id: HeaderValue },
    /// A request was given up here; `notice` tells the server so.
    GivenUp { notice: Message },
    /// The message was answered or accepted (`well`), or has failed.
    Settled {
        ticket: u64,
        well: bool,
        session_id: Option<HeaderValue>,
        /// Boxed, as below: there is none as a rule, and every report would carry its size.
        failure: Option<Box<Error>>,
    },
    /// The server does not know the session that the message was sent in.
    SessionLost {
        ticket: u64,
        session: HeaderValue,
        error: Box<Error>,
        /// The server's own error, in case that it is not about the session.
        last_word: Option<Message>,
    },
    /// An answer to the request `id` came on a stream that is not its own.
    Answered { id: Id },
    /// The same, found out without any message of the client's.
    SessionGone { session: HeaderValue },
    /// Nobody listens to the link any more.
    Deserted,
    /// The server refused `initialize`, but opened a stream of the older transport.
    IsLegacySse { ticket: u64, stream: Box<legacy_sse::Stream> },
}

impl Driver {
    /// What a report leads to; `Some` if it is the end of the driver's work.
    pub(super) async fn heed(&mut self, report: Report) -> Option<End> {
        match report {
            Report::Initialized { ticket, session_id, version } => {
                self.session_begins(ticket, session_id, version.as_deref());
            }
            Report::Named { session_id } => {
                let old = Arc::make_mut(&mut self.session).foresee(session_id);
                self.discard(old);
            }
            Report::GivenUp { notice } => self.tell(notice),
            Report::Settled { ticket, well, session_id, failure } => {
                // Most answers name the session that is known: nothing is copied for these.
                if let Some(id) = session_id.filter(|_| self.session.would_adopt()) {
                    Arc::make_mut(&mut self.session).adopt(id);
                }
                let flight = self.settle(ticket)?;
                self.settled(flight, well, failure.map(|error| *error)).await;
            }
            Report::SessionLost { ticket, session, error, last_word } => {
                let flight = self.settle(ticket)?;
                self.message_lost(flight.outgoing, &session, *error, last_word).await;
            }
            Report::SessionGone { session } => {
                let error = Error::new(Kind::SessionLost, "The server no longer knows the session");
                self.lose_session(&session, &error.not_delivered()).await;
            }
            Report::Deserted => return Some(End::AtOnce),
            Report::IsLegacySse { ticket, stream } => {
                debug!("the server speaks HTTP+SSE");
                // Unless it was cancelled in the meantime: then the next will find out.
                let flight = self.flights.remove(&ticket)?;
                return Some(End::LegacySse(flight.outgoing, stream));
            }
            Report::Answered { id } => {
                if let Some((ticket, flight)) = self.find(&id) {
                    flight.progress.disown();
                    self.settle(ticket);
                }
            }
        }
        None
    }

    /// An `initialize` was answered: this is the session from now on.
    fn session_begins(&mut self, ticket: u64, id: Option<HeaderValue>, version: Option<&str>) {
        let Some(flight) = self.flights.get(&ticket) else { return };
        let order = flight.outgoing.order;
        let shown = id.as_ref().and_then(|id| id.to_str().ok());
        debug!(version, session = shown, "a session begins");
        self.context.note_connection("Streamable HTTP", version);
        self.close_server_stream();
        let old = Arc::make_mut(&mut self.session).begin(id, version);
        self.discard(old);
        self.line.gate.answered(order, true);
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

    /// A message was answered or accepted (`well`), or has failed.
    async fn settled(&mut self, flight: Flight, well: bool, failure: Option<Error>) {
        if well && flight.is_ordinary() {
            self.line.healed();
        }
        if let Some(error) = failure.as_ref().filter(|error| error.is_unreachable()) {
            self.line.return_all(error).await;
        }
        if flight.is_request(&Method::Initialize) {
            self.line.opened(flight.outgoing.order, failure).await;
        } else if well && flight.is_notification(&Method::Initialized) {
            self.open_server_stream();
        }
    }

    /// A message is no longer out: others may take its place.
    pub(super) fn settle(&mut self, ticket: u64) -> Option<Flight> {
        let flight = fnv_map::take(&mut self.flights, &ticket)?;
        match flight.lane {
            Lane::Line => self.line.gate.settled(),
            Lane::Express => {
                if let Some(next) = self.line.express.arrived(&flight.outgoing) {
                    self.launch(next, Lane::Express);
                }
            }
        }
        if flight.is_notification(&Method::Initialized) {
            self.line.gate.confirmed();
        }
        Some(flight)
    }

    /// The server has forgotten `session`.
    async fn lose_session(&mut self, session: &HeaderValue, error: &Error) {
        if self.session.id() == Some(session) {
            debug!(session = session.to_str().ok(), "the session is lost");
            Arc::make_mut(&mut self.session).forget();
            self.close_server_stream();
            self.line.lose(error).await;
        }
    }

    /// A message met the loss. If it has done so before, the server's own words are the answer.
    async fn message_lost(
        &mut self,
        outgoing: Outgoing,
        session: &HeaderValue,
        error: Error,
        last_word: Option<Message>,
    ) {
        if !Line::is_last_loss(&outgoing) {
            self.lose_session(session, &error).await;
            return self.line.wait_for_session(outgoing, error).await;
        }
        self.context.habits.note_last_loss(error.status);
        match last_word {
            Some(answer) => drop(self.context.incoming.send(Incoming::Message(answer)).await),
            // Neither it nor the session is lost: it was refused.
            None => {
                let error = Error { kind: Kind::Status, ..error };
                self.line.give_back(outgoing.message, error).await;
            }
        }
    }
}
