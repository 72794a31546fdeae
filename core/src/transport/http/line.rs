//! The line of messages that wait to leave, and what becomes of them when the session is lost.

use std::sync::Arc;

use tokio::time::Instant;

use super::Context;
use super::express::Express;
use super::gate::{Gate, Outgoing};
use crate::error::{Error, Kind};
use crate::limits;
use crate::message::{Head, Message, Method};
use crate::revision::Envelope;
use crate::traffic::{self, Recovery};
use crate::transport::Incoming;

/// The gate, and the way back for what cannot pass it.
#[derive(Debug)]
pub(super) struct Line {
    context: Arc<Context>,
    pub(super) gate: Gate,
    /// What goes past the gate.
    pub(super) express: Express,
    /// More may come to be sent.
    pub(super) is_open: bool,
    next_order: u64,
    /// When the session was lost, and what the server said; until something has gone well again, or
    /// another session has taken its place.
    lost: Option<(Instant, Error)>,
}

impl Line {
    pub(super) fn new(context: Arc<Context>) -> Self {
        let gate = Gate::new(context.settings.parallel, context.settings.serial);
        let express = Express::default();
        Self { context, gate, express, is_open: true, next_order: 0, lost: None }
    }

    /// A message with its place in the order in which they came.
    pub(super) fn outgoing(&mut self, message: Message, envelope: Option<Envelope>) -> Outgoing {
        self.next_order += 1;
        let _share = self.context.held.hold(&message);
        Outgoing { message, envelope, order: self.next_order, losses: 0, _share }
    }

    /// Nothing more comes: nobody waits for answers any more.
    pub(super) fn close(&mut self) {
        self.is_open = false;
        self.gate.drop_requests();
    }

    /// The session works.
    pub(super) fn healed(&mut self) {
        self.lost = None;
    }

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
        if self.gate.take_untold() {
            let _ = self.context.incoming.send(Incoming::SessionLost).await;
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

    /// The session is no more; whoever holds the link can open another.
    pub(super) async fn lose(&mut self, error: &Error) {
        self.express.clear();
        // The clock of a loss that was healed is not that of this one.
        if !self.gate.is_held() {
            self.lost = None;
        }
        self.lost.get_or_insert_with(|| (Instant::now(), error.clone()));
        if self.gate.lost() {
            traffic::recovery(Recovery::SessionLost, Some(error));
            let _ = self.context.incoming.send(Incoming::SessionLost).await;
        }
    }

    /// Whether a message met a loss for the last time: what is refused in the new session as well
    /// is not about the session.
    pub(super) fn is_last_loss(outgoing: &Outgoing) -> bool {
        outgoing.losses >= limits::REOPENINGS_FOR_ONE
    }

    /// A message met the loss: it waits for the next session.
    pub(super) async fn wait_for_session(&mut self, mut outgoing: Outgoing, error: Error) {
        outgoing.losses += 1;
        self.context.note_return(&outgoing.message);
        match outgoing.message.head() {
            // The question died with its session; a new session is confirmed by itself.
            Head::Response { .. } => {}
            Head::Notification { method } if *method == Method::Initialized => {}
            _ if self.gate.can_reopen() && self.is_open => self.gate.put_back(outgoing),
            _ => self.give_back(outgoing.message, error).await,
        }
    }

    pub(super) async fn give_back(&self, message: Message, error: Error) {
        self.context.note_return(&message);
        let _ = self.context.incoming.send(Incoming::Failed { message, error: error.into() }).await;
    }
}

/// Whether the server has refused a new session, rather than failed to open one.
fn is_final(failure: &Error) -> bool {
    failure.retry_after.is_none() && failure.status.is_some_and(|status| status < 502)
}
