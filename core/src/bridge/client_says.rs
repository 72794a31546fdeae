//! What the client says: on its way, or refused with a reason.

use tokio::time::Instant;
use tracing::{debug, warn};

use super::core::{Asked, Core, Out, Own, addressed};
use crate::error::{Error, Kind};
use crate::limits;
use crate::message::{Head, Id, Message, Method, peek, reply};
use crate::transport::Incoming;

impl Core {
    pub(super) fn client_says(&mut self, incoming: Incoming, now: Instant, out: &mut Out) {
        match incoming {
            Incoming::Message(message) => self.client_message(message, now, out),
            Incoming::Refused { id, error } => out.client(reply::error(id.as_ref(), &error)),
            // Requests of the server's that could not be put to the client.
            Incoming::Failed { message, error } => {
                if let (Head::Request { id, .. }, false) = (message.head(), self.is_left()) {
                    self.answer_for_client(id, &error, now, out);
                }
            }
            Incoming::Ended(_)
            | Incoming::SessionLost
            | Incoming::Reached
            | Incoming::LoginPending(_) => {}
        }
    }

    fn client_message(&mut self, message: Message, now: Instant, out: &mut Out) {
        if self.says_to_stand_in(&message, now, out) {
            return;
        }
        match message.head() {
            Head::Request { id, method } => {
                let (id, method) = (id.clone(), method.clone());
                self.client_asks(&id, &method, message, now, out);
            }
            Head::Notification { .. } => self.client_tells(message, now, out),
            Head::Response { id, .. } => {
                let asked = id.as_ref().and_then(|id| self.from_server.answered(id));
                match asked {
                    Some(asked) => self.answer_server(addressed(message, &asked), now, out),
                    None => debug!(what = ?message, "an answer that nobody waits for was dropped"),
                }
            }
        }
    }

    fn client_asks(
        &mut self,
        id: &Id,
        method: &Method,
        message: Message,
        now: Instant,
        out: &mut Out,
    ) {
        self.orders += 1;
        let mut asked = Asked::new(&message, method, self.orders, now);
        if self.policy.watches {
            asked.progress = peek::requested_progress(&message);
        }
        if self.is_overloaded(out) {
            return refuse_excess(id, out);
        }
        if !self.from_client.open(id, asked) {
            return refuse_duplicate(id, out);
        }
        self.unanswered += message.bytes().len();
        if *method == Method::Initialize {
            self.take_back_questions(out);
            self.record.client_says(&message);
            self.opening = Some(message.clone());
            self.own.retain(|_, own| *own == Own::KeepAlive);
            self.recovery.client_opens();
        }
        if *method == Method::Discover && !self.recovery.is_open() {
            return self.answer_probe(id, message, now, out);
        }
        self.send_or_hold(message, now, out);
    }

    fn client_tells(&mut self, message: Message, now: Instant, out: &mut Out) {
        if let Some(id) = peek::cancelled_request(&message) {
            // It ends silently: what may still come for it finds nobody.
            if let Some(asked) = self.from_client.close_exactly(&id) {
                self.closed(&id, &asked, now);
            }
            if self.waiting.withdraw(&id).is_some() {
                return debug!(%id, "cancelled before it was sent");
            }
            // It overtakes whatever waits: the link may have the request in line.
            return out.server(message);
        }
        if self.is_overloaded(out) {
            return self.give_up(&message, &overloaded());
        }
        self.record.client_says(&message);
        self.send_or_hold(message, now, out);
    }

    /// A probe wants a quick answer and waits for nobody (C22): whoever had a session is no modern
    /// server, and of the others it is found out at once.
    fn answer_probe(&mut self, id: &Id, probe: Message, now: Instant, out: &mut Out) {
        if !self.recovery.awaits_session() {
            return out.server(probe);
        }
        if let Some((id, _)) = self.close(id, now) {
            out.client(reply::method_not_found(&id, "server/discover"));
        }
    }
}

/// Only while the server waits for answers of the client's; else stdin is not read (C1).
fn refuse_excess(id: &Id, out: &mut Out) {
    out.client(reply::error(Some(id), &overloaded()));
}

fn overloaded() -> Error {
    let message =
        format!("More than {} bytes of messages wait for the server", limits::UNANSWERED_BYTES);
    Error::new(Kind::Overloaded, message).not_delivered()
}

fn refuse_duplicate(id: &Id, out: &mut Out) {
    let message = format!("Invalid request: a request with ID {id} is still in flight");
    warn!("{message}");
    let error = Error::new(Kind::InvalidRequest, message).not_delivered();
    out.client(reply::error(Some(id), &error));
}
