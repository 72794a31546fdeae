//! Where the handshake of a legacy session stands, and which messages it holds back (C1).

use tokio::time::Instant;

use super::entry::Entry;
use crate::error::Error;
use crate::message::Method;
use crate::transport::http::Ticket;

/// The one state of a session. Modern requests are not concerned.
#[derive(Debug, Default)]
pub(super) struct Session {
    phase: Phase,
    /// The `initialize` that has opened it, unless it is lost.
    opened_by: Option<Ticket>,
    /// The loss that this handshake makes good. While there is one, all that waits, waits for the
    /// new session.
    replaces: Option<Loss>,
    /// An `initialize` was sent: whoever sent it can send another.
    has_opened: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// No handshake is under way: before the first `initialize`, or after the handshake.
    #[default]
    Idle,
    /// `initialize` is out: nothing follows it.
    Asked(Ticket),
    /// It was answered: messages leave in order, `notifications/initialized` first if it comes.
    Answered,
    /// `notifications/initialized` is out: nothing follows until it is accepted.
    Confirming,
    /// The session is lost: nothing leaves before another `initialize` has come.
    Lost,
}

/// A session that was lost.
#[derive(Debug)]
struct Loss {
    since: Instant,
    error: Error,
    /// Nobody was told, as an `initialize` was out already.
    is_untold: bool,
}

impl Session {
    /// The `initialize` that has opened it.
    pub(super) fn opened_by(&self) -> Option<Ticket> {
        self.opened_by
    }

    /// Whether nothing but another `initialize` helps.
    pub(super) fn is_lost(&self) -> bool {
        self.phase == Phase::Lost
    }

    /// Whether a lost session is being replaced, or has to be.
    pub(super) fn is_replaced(&self) -> bool {
        self.replaces.is_some()
    }

    /// Whether a lost session can be replaced.
    pub(super) fn can_reopen(&self) -> bool {
        self.has_opened
    }

    /// Since when all wait, and why.
    pub(super) fn lost_since(&self) -> Option<(Instant, &Error)> {
        self.replaces.as_ref().map(|loss| (loss.since, &loss.error))
    }

    /// Whether the session lets this message leave now.
    pub(super) fn admits(&self, entry: &Entry) -> bool {
        if entry.envelope.is_some() {
            return true;
        }
        match (self.phase, self.is_replaced()) {
            (Phase::Idle, _) | (Phase::Answered, false) => true,
            (Phase::Asked(_) | Phase::Confirming, _) => false,
            (Phase::Lost, _) => entry.is_request(&Method::Initialize),
            // The client may have begun anew in the meantime.
            (Phase::Answered, true) => entry.is_handshake(),
        }
    }

    /// A message that was admitted leaves under this ticket.
    pub(super) fn leaves(&mut self, entry: &Entry, ticket: Ticket) {
        if entry.envelope.is_some() {
            return;
        }
        if entry.is_request(&Method::Initialize) {
            // One that follows upon another is the client's own: it confirms in its own time.
            if self.phase != Phase::Lost {
                self.replaces = None;
            }
            self.phase = Phase::Asked(ticket);
            self.has_opened = true;
        } else if self.phase == Phase::Answered && entry.is_notification(&Method::Initialized) {
            self.phase = Phase::Confirming;
        }
    }

    /// The `initialize` was answered with a result.
    pub(super) fn opened(&mut self, ticket: Ticket) {
        if self.phase == Phase::Asked(ticket) {
            self.phase = Phase::Answered;
            self.opened_by = Some(ticket);
            if let Some(loss) = &mut self.replaces {
                loss.is_untold = false;
            }
        }
    }

    /// The `initialize` brought no session. `true` if it should have replaced a lost one: then all
    /// that waited did so in vain.
    pub(super) fn not_opened(&mut self, ticket: Ticket) -> bool {
        if self.phase != Phase::Asked(ticket) {
            return false;
        }
        let is_still_lost = self.is_replaced();
        self.phase = if is_still_lost { Phase::Lost } else { Phase::Idle };
        is_still_lost
    }

    /// `notifications/initialized` was accepted, or will not be.
    pub(super) fn confirmed(&mut self) {
        if self.phase == Phase::Confirming {
            self.phase = Phase::Idle;
            self.replaces = None;
        }
    }

    /// The session is lost. `true` if somebody has to open another.
    pub(super) fn lose(&mut self, error: &Error, now: Instant) -> bool {
        self.opened_by = None;
        if !self.has_opened {
            return false;
        }
        let is_asked = matches!(self.phase, Phase::Asked(_));
        // The clock of an earlier loss that was made good is not that of this one.
        self.replaces.get_or_insert_with(|| Loss {
            since: now,
            error: error.clone(),
            // The one that is out replaces it; it is told if that fails.
            is_untold: is_asked,
        });
        if !is_asked {
            self.phase = Phase::Lost;
        }
        !is_asked
    }

    /// Whether a loss has to be told after all, since the `initialize` that was out has failed.
    pub(super) fn take_untold(&mut self) -> bool {
        let is_lost = self.is_lost();
        let loss = self.replaces.as_mut().filter(|_| is_lost);
        loss.is_some_and(|loss| std::mem::take(&mut loss.is_untold))
    }
}
