//! What the driver does about what it hears: answers on the stream, acknowledgements, silence, and
//! the end of the stream.

use tokio::time::Instant;
use tracing::{debug, warn};

use super::driver::{Driver, Phase};
use super::flights::Flight;
use super::post::Posted;
use crate::error::{Delivery, Error, Kind};
use crate::limits;
use crate::message::{Head, Id, Message, Outline, peek, reply};
use crate::transport::Incoming;
use crate::transport::http::events::{Payload, timeout, too_large};
use crate::transport::http::gate::INITIALIZED;
use crate::transport::http::line::Line;
use crate::transport::http::log::Direction;
use crate::transport::http::session::Session;

/// What is known of messages that were told, but not acknowledged, when the session was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Nothing more will be.
    Sealed,
    /// Whether they were turned away.
    MayBeTold,
}

impl Driver {
    /// Something came on the stream, or it has ended.
    pub(super) async fn heard(&mut self, heard: Result<Option<Payload>, Error>) {
        match heard {
            Ok(Some(Payload::Oversized(outline))) => self.oversized(outline).await,
            Ok(Some(Payload::Other { name, .. })) if name == b"endpoint"[..] => {
                debug!("a further address for messages was ignored");
            }
            Ok(Some(payload)) => {
                for message in payload.messages() {
                    self.deliver(message).await;
                }
            }
            Ok(None) => {
                let ended = Error::new(Kind::NoResponse, "the server ended its stream");
                self.lose(&ended, Fate::Sealed).await;
            }
            Err(error) => {
                let error = self.context.scrubbed(error);
                self.lose(&error, Fate::Sealed).await;
            }
        }
    }

    async fn deliver(&mut self, message: Message) {
        if let Phase::Open(stream) = &self.phase {
            self.context.crossing(Direction::FromServer, &message, stream.session.as_ref());
        }
        match message.head() {
            Head::Response { id: Some(id), .. } => {
                if let Some(flight) = self.flights.answered(id) {
                    self.answered(&flight, &message).await;
                }
            }
            Head::Notification { method } if &**method == "notifications/progress" => {
                self.flights.progressed(&message, Instant::now());
            }
            _ => {}
        }
        self.pass_on(Incoming::Message(message)).await;
    }

    async fn answered(&mut self, flight: &Flight, answer: &Message) {
        self.land(flight);
        if !flight.outgoing.is_request("initialize") {
            return self.line.healed();
        }
        if matches!(answer.head(), Head::Response { is_error: true, .. }) {
            return self.ended(&flight.outgoing, None).await;
        }
        let version = peek::negotiated_version(answer);
        debug!(version, "a session begins");
        self.session.begin(None, version.as_deref());
        self.is_begun = true;
        self.line.gate.answered(flight.outgoing.order, true);
    }

    /// A message over the limit has passed by.
    async fn oversized(&mut self, outline: Outline) {
        let error = too_large(self.context.settings.max_message);
        match outline {
            Outline { id: Some(id), has_method: true } => {
                self.tell(reply::error(Some(&id), &error));
            }
            Outline { id: Some(id), has_method: false } => {
                let Some(flight) = self.flights.answered(&id) else { return };
                self.land(&flight);
                self.come_back(flight.outgoing, &error).await;
            }
            Outline { id: None, .. } => warn!("SSE error: an event was skipped: {error}"),
        }
    }

    pub(super) async fn posted(&mut self, ticket: u64, posted: Posted) {
        match posted {
            Posted::Accepted => {
                self.reached().await;
                self.accepted(ticket);
            }
            Posted::SessionLost(error) | Posted::Failed(error)
                if matches!(error.status, Some(404 | 405)) && self.goes_elsewhere(ticket) =>
            {
                self.reached().await;
            }
            Posted::SessionLost(error) => {
                self.reached().await;
                self.refused(ticket, error).await;
            }
            Posted::Failed(error) => {
                self.note_absence(&error);
                if error.status.is_some() {
                    self.reached().await;
                }
                self.failed(ticket, error).await;
            }
        }
    }

    fn accepted(&mut self, ticket: u64) {
        let is_serial = self.context.settings.serial;
        if let Phase::Open(stream) = &mut self.phase {
            stream.keep_address();
        }
        let Some(flight) = self.flights.get_mut(ticket) else { return };
        if flight.failure.is_some() {
            // In a session that is no more: nobody will answer it.
            return;
        }
        flight.is_accepted = true;
        if flight.request_id().is_none() {
            if let Some(flight) = self.flights.remove(ticket) {
                self.land(&flight);
            }
            return;
        }
        // Its answer comes by another way: the next may leave.
        if !is_serial && std::mem::take(&mut flight.holds_place) {
            self.line.gate.settled();
        }
        self.flights.heard_of(ticket, Instant::now());
    }

    /// Nobody is at the address: the first message may have to go to another one.
    fn goes_elsewhere(&mut self, ticket: u64) -> bool {
        let Phase::Open(stream) = &mut self.phase else { return false };
        let is_first =
            self.flights.get_mut(ticket).is_some_and(|f| f.outgoing.is_request("initialize"));
        if !is_first || !stream.try_other_address() {
            return false;
        }
        if let Some(flight) = self.flights.remove(ticket) {
            self.launch(flight.outgoing, flight.holds_place);
        }
        true
    }

    /// The server does not know the session that the message was sent in.
    async fn refused(&mut self, ticket: u64, error: Error) {
        let Some(flight) = self.flights.remove(ticket) else { return };
        self.land(&flight);
        let outgoing = flight.outgoing;
        if outgoing.is_request("initialize") {
            // It opens one: whatever the server means, there was none to be lost.
            return self.come_back(outgoing, &Error { kind: Kind::Status, ..error }).await;
        }
        if Line::is_last_loss(&outgoing) {
            return self.line.give_back(outgoing.message, error).await;
        }
        if flight.stream == self.streams && matches!(self.phase, Phase::Open(_)) {
            self.lose(&error, Fate::MayBeTold).await;
        }
        self.line.wait_for_session(outgoing, error).await;
    }

    async fn failed(&mut self, ticket: u64, error: Error) {
        let Some(flight) = self.flights.get_mut(ticket) else { return };
        let may_be_answered = flight.request_id().is_some()
            && error.kind == Kind::Closed
            && error.delivery == Delivery::Unknown;
        if may_be_answered {
            // Only its acknowledgement is missing, perhaps.
            let at = Instant::now() + limits::LINGER;
            return self.flights.expect_until(ticket, at, error);
        }
        let Some(flight) = self.flights.remove(ticket) else { return };
        self.land(&flight);
        self.come_back(flight.outgoing, &error).await;
        if error.is_unreachable() {
            self.line.return_all(&error).await;
        }
    }

    pub(super) async fn tick(&mut self, now: Instant) {
        while let Some(flight) = self.flights.pop_due(now) {
            self.expired(flight).await;
        }
        if self.line.give_up_at().is_some_and(|at| at <= now) {
            self.line.abandon().await;
        }
    }

    /// Nothing was heard of a message for too long.
    async fn expired(&mut self, mut flight: Flight) {
        self.land(&flight);
        flight.post.abort();
        let has_begun = flight.progress.is_raised();
        let what = if flight.request_id().is_some() { "Request" } else { "Notify" };
        let limit = flight.limit().unwrap_or_default();
        let error = match flight.failure.take() {
            Some(failure) => failure,
            None if has_begun => timeout(&format!("{what} timeout"), limit),
            None => timeout(&format!("{what} timeout"), limit).not_delivered(),
        };
        let is_handshake = flight.outgoing.is_request("initialize");
        if let Some(id) = flight.request_id().filter(|_| has_begun && !is_handshake) {
            // C19: it may still run there.
            self.tell(reply::cancelled(id, &error.message));
        }
        self.come_back(flight.outgoing, &error).await;
    }

    /// The stream has ended, and the session with it: what waited for an answer gets none (C7).
    async fn lose(&mut self, cause: &Error, fate: Fate) {
        debug!("the stream is lost: {cause}");
        self.phase = Phase::Closed;
        self.session = Session::new(&self.context.settings);
        let was_begun = std::mem::take(&mut self.is_begun);
        for ticket in self.flights.tickets(|_| true) {
            let Some(flight) = self.flights.get_mut(ticket) else { continue };
            // The server is there and will say of each that it does not know the session.
            let is_undecided = flight.progress.is_raised() && !flight.is_accepted;
            if fate == Fate::MayBeTold && is_undecided {
                let failure = flight.request_id().map(|id| no_response(id, cause));
                let failure = failure.unwrap_or_else(|| cause.clone());
                self.flights.expect_until(ticket, Instant::now() + limits::LINGER, failure);
            } else if let Some(flight) = self.flights.remove(ticket) {
                self.land(&flight);
                flight.post.abort();
                self.left_behind(flight, cause).await;
            }
        }
        let what = "The stream of the session has ended";
        let lost = Error::new(Kind::SessionLost, what).because(cause).not_delivered();
        if was_begun {
            self.line.lose(&lost).await;
        } else {
            self.line.return_all(&Error { kind: Kind::Closed, ..lost }).await;
        }
    }

    /// A message was out when the stream ended.
    async fn left_behind(&mut self, flight: Flight, cause: &Error) {
        let is_request = flight.request_id().is_some();
        let is_handshake = flight.outgoing.is_request("initialize");
        let has_begun = flight.progress.is_raised();
        match flight.request_id() {
            Some(id) if has_begun || is_handshake => {
                let error = no_response(id, cause);
                let error = if has_begun { error } else { error.not_delivered() };
                self.come_back(flight.outgoing, &error).await;
            }
            // Never sent: it waits for the next session.
            Some(_) => self.line.gate.put_back(flight.outgoing),
            None if has_begun || flight.outgoing.is_notification(INITIALIZED) => {
                debug!(is_request, "what was told on a stream that ended may be lost");
            }
            None if flight.message().method().is_some() => {
                self.line.gate.put_back(flight.outgoing);
            }
            None => debug!("an answer to a question of a lost session was dropped"),
        }
    }
}

/// S1-15
fn no_response(id: &Id, cause: &Error) -> Error {
    let message = format!("No response received for request ID {id}");
    let reason = cause.reason.as_ref().unwrap_or(&cause.message);
    Error::new(Kind::Closed, message).because(reason)
}
