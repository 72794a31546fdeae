//! What the driver does when the server has forgotten the session: all wait for the next one.

use std::sync::Arc;

use http::HeaderValue;
use tokio::time::Instant;
use tracing::debug;

use super::driver::{Driver, Flight};
use super::gate::INITIALIZED;
use crate::error::{Error, Kind};
use crate::limits;
use crate::message::{Head, Message};
use crate::transport::Incoming;

impl Driver {
    /// An `initialize` has ended. If it should have replaced a lost session and did not, those who
    /// wait for one wait in vain.
    pub(super) async fn opened(&mut self, order: u64, failure: Option<Error>) {
        let in_vain = self.gate.answered(order, false);
        // They were not sent, whatever became of the `initialize`; they wait if it may be repeated.
        let error = match failure {
            Some(failure) if !is_final(&failure) => {
                Error { kind: Kind::Closed, ..failure.not_delivered() }
            }
            failure => {
                let error = Error::new(Kind::SessionLost, "The server opened no new session");
                failure.into_iter().fold(error, Error::because).not_delivered()
            }
        };
        for outgoing in in_vain {
            self.give_back(outgoing.message, error.clone()).await;
        }
    }

    /// Nobody is there: what waits in line need not find out one by one.
    pub(super) async fn return_all(&mut self, error: &Error) {
        for outgoing in self.gate.take_all() {
            self.give_back(outgoing.message, error.clone()).await;
        }
    }

    /// Until when messages wait for somebody to open a session.
    pub(super) fn give_up_at(&self) -> Option<Instant> {
        let waits = self.gate.is_held() && !self.gate.is_empty();
        let (since, _) = self.lost.as_ref().filter(|_| waits)?;
        let settings = &self.context.settings;
        // Nobody has asked for one yet; or it was asked for, and takes its time.
        let asked = settings.timeouts.quick.unwrap_or(limits::QUICK_TIMEOUT);
        let limit = if self.gate.is_lost() { settings.away_wait.min(asked) } else { asked };
        Some(*since + limit)
    }

    /// Nobody has opened one in time.
    pub(super) async fn abandon(&mut self) {
        let Some((_, error)) = self.lost.clone() else { return };
        for outgoing in self.gate.abandon() {
            self.give_back(outgoing.message, error.clone()).await;
        }
    }

    /// The server has forgotten `session`; whoever holds the link can open another.
    pub(super) async fn lose_session(&mut self, session: &HeaderValue, error: &Error) {
        if self.session.id() != Some(session) {
            return;
        }
        debug!(session = session.to_str().ok(), "the session is lost");
        Arc::make_mut(&mut self.session).forget();
        self.lost.get_or_insert_with(|| (Instant::now(), error.clone()));
        self.close_server_stream();
        if self.gate.lost() {
            let _ = self.context.incoming.send(Incoming::SessionLost).await;
        }
    }

    /// A message met the loss: it waits for the next session. If it has done so before, it is not
    /// about the session, and the server's own words are the answer.
    pub(super) async fn message_lost(
        &mut self,
        flight: Flight,
        session: &HeaderValue,
        error: Error,
        last_word: Option<Message>,
    ) {
        let mut outgoing = flight.outgoing;
        if outgoing.losses >= limits::REOPENINGS_FOR_ONE {
            return match last_word {
                Some(answer) => drop(self.context.incoming.send(Incoming::Message(answer)).await),
                None => self.give_back(outgoing.message, error).await,
            };
        }
        outgoing.losses += 1;
        self.lose_session(session, &error).await;
        match outgoing.message.head() {
            // The question died with its session; a new session is confirmed by itself.
            Head::Response { .. } => {}
            Head::Notification { method } if &**method == INITIALIZED => {}
            _ if self.gate.can_reopen() && self.is_open => self.gate.put_back(outgoing),
            _ => self.give_back(outgoing.message, error).await,
        }
    }

    async fn give_back(&self, message: Message, error: Error) {
        let _ = self.context.incoming.send(Incoming::Failed { message, error }).await;
    }
}

/// Whether the server has refused a new session, rather than failed to open one.
fn is_final(failure: &Error) -> bool {
    failure.retry_after.is_none() && failure.status.is_some_and(|status| status < 502)
}
