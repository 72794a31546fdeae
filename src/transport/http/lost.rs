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
    pub(super) async fn opened(&mut self, failure: Option<Error>) {
        let in_vain = self.gate.answered(false);
        let error = failure.unwrap_or_else(|| {
            Error::new(Kind::SessionLost, "The server opened no new session").not_delivered()
        });
        for outgoing in in_vain {
            self.give_back(outgoing.message, error.clone()).await;
        }
    }

    /// Until when messages wait for somebody to open a session.
    pub(super) fn give_up_at(&self) -> Option<Instant> {
        let waits = self.gate.is_lost() && !self.gate.is_empty();
        let (since, _) = self.lost.as_ref().filter(|_| waits)?;
        Some(*since + self.context.settings.away_wait)
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
        self.lost = Some((Instant::now(), error.clone()));
        self.close_server_stream();
        if self.gate.lost() {
            let _ = self.context.incoming.send(Incoming::SessionLost).await;
        }
    }

    /// A message whose session was lost waits for the next one, unless it has done so too often.
    pub(super) async fn take_back(&mut self, flight: Flight, error: Error) {
        let mut outgoing = flight.outgoing;
        outgoing.losses += 1;
        match outgoing.message.head() {
            // The question died with its session; a new session is confirmed by itself.
            Head::Response { .. } => {}
            Head::Notification { method } if &**method == INITIALIZED => {}
            _ if outgoing.losses <= limits::REOPENINGS_FOR_ONE && self.gate.can_reopen() => {
                self.gate.put_back(outgoing);
            }
            _ => self.give_back(outgoing.message, error).await,
        }
    }

    async fn give_back(&self, message: Message, error: Error) {
        let _ = self.context.incoming.send(Incoming::Failed { message, error }).await;
    }
}
