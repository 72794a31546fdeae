//! Events of the server's link: responses, requests and notifications of the server's, acceptance.

use tokio::time::Instant;
use tracing::debug;

use super::entry::{Entry, Origin, Place};
use super::{Engine, PendingLogin, Wire, addressed};
use crate::error::{Error, ErrorKind};
use crate::limits;
use crate::message::{Head, Id, Message, Method, edit, peek, reply};
use crate::transport::{Event, LoginStage, Ticket};

impl Engine {
    pub(crate) fn on_event(&mut self, event: Event, now: Instant) {
        self.now = now;
        match event {
            Event::Message { message, answers } => self.on_message(message, answers),
            Event::Oversized { id, is_request, error } => {
                self.on_oversized(&id, is_request, *error);
            }
            Event::Malformed { id, error } => self.on_malformed(id.as_ref(), &error),
            Event::Accepted(ticket) => self.on_accepted(ticket),
            Event::Failed { ticket, error } => self.on_failed(ticket, *error),
            Event::SessionRejected { ticket, session, error, last_word } => {
                self.on_session_rejected(ticket, session, *error, last_word);
            }
            Event::SessionLost { session, error } => {
                if session == self.session.opened_by() {
                    self.lose_session(&error, now);
                }
            }
            Event::StreamOpened => self.stream_opened(),
            Event::StreamEnded(error) => self.stream_ended(&error),
            Event::Reached => self.on_server_reachable(),
            Event::LoginPending(stage) => self.on_login(stage),
        }
        self.dispatch();
    }

    /// A login has begun, has progressed, or is over.
    fn on_login(&mut self, stage: Option<LoginStage>) {
        self.login = stage.map(|stage| PendingLogin { stage, since: self.now });
        self.has_shown_login |= self.login_page().is_some();
        if self.drain_deadline.is_some() {
            // The time left depends on whether a person is waited for.
            self.drain_deadline = Some(self.now + self.drain_limit());
        }
    }

    fn on_message(&mut self, message: Message, answers: Option<Ticket>) {
        self.on_server_reachable();
        self.absence.answered();
        match message.head() {
            Head::Request { id, .. } => {
                let id = id.clone();
                self.on_server_request(&id, message);
            }
            Head::Notification { method } => {
                if *method == Method::Progress
                    && let Some(ticket) = self.table.progressed(&message)
                {
                    self.restart_clock(ticket);
                }
                let cancelled = peek::cancelled_request(&message);
                let known_as =
                    cancelled.and_then(|id| self.server_requests.cancelled_by_server(&id));
                self.send_to_client(match known_as {
                    Some(own) => reply::cancelled(&own, "the server takes it back"),
                    None => message,
                });
            }
            Head::Response { id, .. } => {
                let by_id = || id.as_ref().and_then(|id| self.table.answered(id));
                let ticket = answers.or_else(by_id);
                let Some(entry) = ticket.and_then(|ticket| self.remove_entry(ticket)) else {
                    return debug!(what = ?message, "dropped a response to no open request");
                };
                self.on_answer(&entry, message, answers.is_none());
            }
        }
    }

    fn on_server_request(&mut self, id: &Id, request: Message) {
        if self.server_requests.bytes() >= limits::SERVER_REQUESTS_BYTES {
            return self.refuse(id, &too_many());
        }
        if self.drain_deadline.is_some() {
            return self.refuse(id, &gone());
        }
        if self.server_requests.ask(id) {
            return self.send_to_client(request);
        }
        let own = self.own_id();
        self.server_requests.rename(own.clone(), id.clone());
        self.send_to_client(edit::with_id(&request, &own));
    }

    /// Answers a request of the server's with an error. A server that does not read these either gets
    /// no more of them.
    fn refuse(&mut self, id: &Id, error: &Error) {
        if self.memory.has_room() {
            self.notify(reply::error(Some(id), error));
        }
    }

    /// `came_elsewhere`: not on the request's own exchange, which may never end.
    fn on_answer(&mut self, entry: &Entry, answer: Message, came_elsewhere: bool) {
        if let Some(sent) = entry.sent() {
            if came_elsewhere {
                sent.progress.abandon();
            }
            // Some servers never accept the POST of what they have answered.
            if matches!(self.wire, Wire::HttpSse { .. }) && !sent.is_acknowledged {
                self.drop_exchange(entry.ticket, limits::LINGER);
            }
        }
        self.finish(entry, answer);
    }

    /// A request has its response.
    pub(super) fn finish(&mut self, entry: &Entry, answer: Message) {
        if entry.origin != Origin::Client {
            return self.own_answered(entry, &answer);
        }
        let (Some(id), Some(method)) = (entry.message.request_id(), entry.message.method()) else {
            return;
        };
        let is_error = answer.is_error();
        if method.properties().is_restored && !is_error {
            self.record.on_client_message(&entry.message);
        }
        self.record.server_answers(method, &answer);
        if is_error {
            self.initialize_ended(entry);
        } else if *method == Method::Initialize {
            self.is_promised = false;
            self.session.opened(entry.ticket, self.now);
        }
        self.send_to_client(addressed(answer, id));
    }

    fn on_oversized(&mut self, id: &Id, is_request: bool, error: Error) {
        if is_request {
            return self.refuse(id, &error);
        }
        let Some(ticket) = self.table.answered(id) else { return };
        self.drop_exchange(ticket, limits::LINGER);
        self.send_failed(ticket, error);
    }

    fn on_accepted(&mut self, ticket: Ticket) {
        let Some(entry) = self.table.get_mut(ticket) else { return };
        let is_request = entry.message.request_id().is_some();
        let Some(sent) = entry.sent_mut() else { return };
        sent.is_acknowledged = true;
        if !is_request || sent.is_left {
            match sent.failure.take() {
                // Accepted after all, in a session whose stream is gone.
                Some(failure) => self.send_failed(ticket, failure),
                None => drop(self.remove_entry(ticket)),
            }
            return;
        }
        // The response comes on the stream: the next message may be sent.
        if !self.limits.serial && sent.place == Place::Ordinary {
            sent.place = Place::Free;
            self.ordinary_out -= 1;
        }
        self.restart_clock(ticket);
    }

    /// The server sent malformed JSON-RPC with an id: a response to a request in flight, or a request
    /// of its own.
    fn on_malformed(&mut self, id: Option<&Id>, error: &Error) {
        debug!("the server sent no message: {error}");
        let Some(id) = id else { return };
        match self.table.find(id).filter(|_| error.kind == ErrorKind::InvalidRequest) {
            Some(ticket) => {
                let what = "The answer is not JSON-RPC 2.0";
                let error = Error::new(ErrorKind::BadResponse, what).because(&error.message);
                self.send_failed(ticket, error);
            }
            None => self.refuse(id, error),
        }
    }
}

pub(super) fn gone() -> Error {
    Error::new(ErrorKind::Closed, "The client has closed its input and answers no more")
}

fn too_many() -> Error {
    let message = "Too many requests of the server's wait for answers of the client's";
    Error::new(ErrorKind::Overloaded, message).not_delivered()
}
