//! What the driver does about what it hears: answers on the stream, acknowledgements, silence, and
//! the end of the stream.

use http::StatusCode;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::driver::{Driver, Phase};
use super::flights::Flight;
use super::post::Posted;
use crate::error::{Delivery, Error, Kind};
use crate::limits;
use crate::message::{Head, Message, Method, Outline, peek, reply};
use crate::traffic;
use crate::transport::Incoming;
use crate::transport::http::events::{Payload, lost_response, timeout, too_large};
use crate::transport::http::line::Line;
use crate::transport::http::log::Direction;
use crate::transport::http::session::Session;

impl Driver {
    /// Something came on the stream, or it has ended.
    pub(super) async fn heard(&mut self, heard: Result<Option<Payload>, Error>) {
        match heard {
            Ok(Some(Payload::Oversized(outline))) => self.oversized(outline).await,
            Ok(Some(Payload::Other { name, .. })) if name == b"endpoint"[..] => {
                debug!("a further address for messages was ignored");
            }
            Ok(Some(payload)) => {
                let mut messages = payload.messages();
                while let Some(message) = messages.next().await {
                    self.deliver(message).await;
                }
            }
            Ok(None) => {
                let error = Error::new(Kind::NoResponse, "the server ended its stream");
                traffic::stream_cut(traffic::Stream::Session, Some(&error), None);
                self.lose(&error).await;
            }
            Err(error) => {
                let error = self.context.scrubbed(error);
                traffic::stream_cut(traffic::Stream::Session, Some(&error), None);
                self.lose(&error).await;
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
            Head::Notification { method } if *method == Method::Progress => {
                self.flights.progressed(&message, Instant::now());
            }
            _ => {}
        }
        self.pass_on(Incoming::Message(message)).await;
    }

    async fn answered(&mut self, flight: &Flight, answer: &Message) {
        self.land(flight);
        self.let_go(flight);
        if !flight.outgoing.is_request(&Method::Initialize) {
            return self.line.healed();
        }
        if matches!(answer.head(), Head::Response { is_error: true, .. }) {
            return self.ended(&flight.outgoing, None).await;
        }
        let version = peek::negotiated_version(answer);
        debug!(version, "a session begins");
        self.context.note_connection("HTTP+SSE", version.as_deref());
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
                self.let_go(&flight);
                self.come_back(flight.outgoing, &error).await;
            }
            Outline { id: None, .. } => warn!("SSE error: an event was skipped: {error}"),
        }
    }

    pub(super) async fn posted(&mut self, ticket: u64, posted: Posted) {
        match posted {
            Posted::Accepted => {
                self.reached().await;
                self.accepted(ticket).await;
            }
            Posted::SessionLost(error) | Posted::Failed(error)
                if matches!(error.status, Some(404 | 405)) && self.goes_elsewhere(ticket) =>
            {
                self.reached().await;
            }
            Posted::Answered(answer) => {
                self.reached().await;
                self.answered_by_refusal(ticket, answer).await;
            }
            Posted::AnsweredThenLost(answer, error) => {
                self.reached().await;
                if self.answered_by_refusal(ticket, answer).await {
                    self.lose(&error).await;
                }
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

    /// Passes on an answer that came in place of an acknowledgement. Gives back whether the session
    /// that it was asked in is the one of now.
    async fn answered_by_refusal(&mut self, ticket: u64, answer: Message) -> bool {
        let Some(flight) = self.flights.remove(ticket) else { return false };
        self.answered(&flight, &answer).await;
        self.pass_on(Incoming::Message(answer)).await;
        !flight.is_left
    }

    async fn accepted(&mut self, ticket: u64) {
        let is_serial = self.context.settings.serial;
        if let Phase::Open(stream) = &mut self.phase {
            stream.keep_address();
        }
        let Some(flight) = self.flights.get_mut(ticket) else { return };
        flight.is_acknowledged = true;
        if flight.request_id().is_none() || flight.is_left {
            let Some(flight) = self.flights.remove(ticket) else { return };
            self.land(&flight);
            if let Some(failure) = flight.failure {
                // Taken after all, in a session whose answers nobody hears.
                self.come_back(flight.outgoing, &failure).await;
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
        let is_first = self
            .flights
            .get_mut(ticket)
            .is_some_and(|f| f.outgoing.is_request(&Method::Initialize));
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
        let (outgoing, is_left) = (flight.outgoing, flight.is_left);
        if Line::is_last_loss(&outgoing) {
            self.context.habits.note_last_loss(error.status);
            let error = Error { kind: Kind::Status, ..error };
            return self.line.give_back(outgoing.message, error).await;
        }
        if !is_left {
            self.lose(&error).await;
        }
        self.line.wait_for_session(outgoing, error).await;
    }

    async fn failed(&mut self, ticket: u64, error: Error) {
        let Some(flight) = self.flights.get_mut(ticket) else { return };
        let may_be_answered = flight.request_id().is_some()
            && !flight.is_left
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
        flight.sent.give_up();
        let has_begun = !flight.progress.withdraw();
        let what = if flight.request_id().is_some() { "Request" } else { "Notify" };
        let limit = flight.limit().unwrap_or_default();
        let error = match flight.failure.take() {
            Some(failure) => failure,
            None if has_begun => timeout(&format!("{what} timeout"), limit),
            None => timeout(&format!("{what} timeout"), limit).not_delivered(),
        };
        let is_known =
            has_begun && !flight.is_left && !flight.outgoing.is_request(&Method::Initialize);
        if let Some(id) = flight.request_id().filter(|_| is_known) {
            // C19: it may still run there.
            self.tell(reply::cancelled(id, &error.message));
        }
        self.come_back(flight.outgoing, &error).await;
    }

    /// Nothing is sent into a session whose stream has slept along with the machine: it may look
    /// open for minutes, and no answer would come.
    pub(super) async fn give_up_what_slept(&mut self) {
        if let Phase::Open(stream) = &self.phase
            && stream.has_slept(&self.context)
        {
            self.lose(&Error::new(Kind::Closed, "the machine has slept")).await;
        }
    }

    /// The stream has ended, and the session with it: what waited for an answer gets none (C7).
    ///
    /// Or the server has refused a message for it; then it will refuse all that are out.
    async fn lose(&mut self, cause: &Error) {
        debug!("the stream is lost: {cause}");
        self.phase = Phase::Closed;
        // None of them may be sent on its way while others land.
        self.line.express.clear();
        self.session = Session::new(&self.context.settings);
        let was_begun = std::mem::take(&mut self.is_begun);
        let is_refusal = cause.kind == Kind::SessionLost;
        for flight in self.flights.take(|flight| !is_refusal || !flight.may_be_refused()) {
            self.land(&flight);
            flight.sent.give_up();
            self.left_behind(flight, cause).await;
        }
        self.flights
            .leave(Instant::now() + limits::LINGER, |id| lost_response(id.as_json(), cause));
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
        let is_handshake = flight.outgoing.is_request(&Method::Initialize);
        let has_begun = !flight.progress.withdraw();
        match flight.request_id() {
            Some(id) if has_begun || is_handshake => {
                let mut error = lost_response(id.as_json(), cause);
                // The stream was open: whoever ends it is there, and `initialize` need not wait.
                error.status = is_handshake.then(|| StatusCode::OK.as_u16());
                let error = if has_begun { error } else { error.not_delivered() };
                self.come_back(flight.outgoing, &error).await;
            }
            // Never sent: it waits for the next session.
            Some(_) => self.line.gate.put_back(flight.outgoing),
            None if has_begun || flight.outgoing.is_notification(&Method::Initialized) => {
                debug!(is_request, "what was told on a stream that ended may be lost");
            }
            None if flight.message().method().is_some() => {
                self.line.gate.put_back(flight.outgoing);
            }
            None => debug!("an answer to a question of a lost session was dropped"),
        }
    }
}
