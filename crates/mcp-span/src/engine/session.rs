//! The state of the legacy session: its handshake, which messages it holds back (C1), and when a lost
//! session may be reopened.

use std::collections::VecDeque;

use tokio::time::Instant;

use super::entry::{Entry, Origin};
use crate::limits;
use crate::message::Method;
use crate::transport::Ticket;

/// The state of the session. Modern requests do not depend on it.
#[derive(Debug, Default)]
pub(super) struct Session {
    phase: Phase,
    /// The `initialize` that has opened it, unless it is lost.
    opened_by: Option<Ticket>,
    /// When the session was lost that is being replaced. While set, the queue waits for the new session.
    replaces: Option<Instant>,
    /// Until when the queue waits for the client to confirm a session that it has opened itself.
    confirm_by: Option<Instant>,
    /// When sessions were reopened lately, for the limit on that.
    reopenings: VecDeque<Instant>,
    /// The server has refused a new session; none is requested before this.
    refused_until: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// No handshake is under way: before the first `initialize`, or after the handshake.
    #[default]
    Idle,
    /// `initialize` is in flight, the client's or the bridge's own: nothing follows it.
    Asked(Ticket, Origin),
    /// `initialize` was answered: messages are sent in order, up to `notifications/initialized`.
    Answered,
    /// `notifications/initialized` is in flight: nothing follows until it is accepted.
    Confirming(Ticket),
    /// The session is lost: nothing is sent before another `initialize`.
    Lost,
}

impl Session {
    /// The `initialize` that has opened it.
    pub(super) fn opened_by(&self) -> Option<Ticket> {
        self.opened_by
    }

    /// Whether the session is lost and no handshake is in flight.
    pub(super) fn is_lost(&self) -> bool {
        self.phase == Phase::Lost
    }

    /// Whether a lost session is being replaced, or has to be.
    pub(super) fn is_replaced(&self) -> bool {
        self.replaces.is_some()
    }

    /// Whether the bridge's own `initialize` is in flight.
    pub(super) fn is_reopening(&self) -> bool {
        matches!(self.phase, Phase::Asked(_, Origin::Reopen))
    }

    /// Whether there is no session because it was lost.
    pub(super) fn is_awaited(&self) -> bool {
        self.is_lost() || self.is_reopening()
    }

    /// Whether the session allows this message to be sent now.
    pub(super) fn admits(&self, entry: &Entry) -> bool {
        if entry.envelope.is_some() {
            return true;
        }
        match (self.phase, self.is_replaced()) {
            (Phase::Idle, _) | (Phase::Answered, false) => true,
            (Phase::Asked(..) | Phase::Confirming(_), _) => false,
            (Phase::Lost, _) => entry.message.is_request(&Method::Initialize),
            // The client may have sent another `initialize` meanwhile.
            (Phase::Answered, true) => entry.is_handshake(),
        }
    }

    /// An `initialize` is sent under this ticket.
    pub(super) fn asked(&mut self, ticket: Ticket, origin: Origin) {
        // It replaces a session that is not lost: the client's own, which needs no waiting.
        if self.phase != Phase::Lost {
            self.replaces = None;
        }
        self.phase = Phase::Asked(ticket, origin);
        (self.refused_until, self.confirm_by) = (None, None);
    }

    /// `notifications/initialized` is sent.
    pub(super) fn confirming(&mut self, ticket: Ticket) {
        if self.phase == Phase::Answered {
            self.phase = Phase::Confirming(ticket);
        }
    }

    /// The `initialize` was answered with a result.
    pub(super) fn opened(&mut self, ticket: Ticket, now: Instant) {
        let Phase::Asked(asked, origin) = self.phase else { return };
        if asked != ticket {
            return;
        }
        self.phase = Phase::Answered;
        self.opened_by = Some(ticket);
        if origin == Origin::Reopen {
            self.reopenings.push_back(now);
            if self.reopenings.len() > limits::REOPENINGS {
                self.reopenings.pop_front();
            }
        } else if self.is_replaced() {
            self.confirm_by = Some(now + limits::CONFIRMATION);
        }
    }

    /// The `initialize` failed. `true` if it should have replaced a lost session.
    pub(super) fn not_opened(&mut self, ticket: Ticket) -> bool {
        if !matches!(self.phase, Phase::Asked(asked, _) if asked == ticket) {
            return false;
        }
        let is_still_lost = self.is_replaced();
        self.phase = if is_still_lost { Phase::Lost } else { Phase::Idle };
        is_still_lost
    }

    /// The server refused a new session: wait a moment, and only ask again if a message needs it.
    pub(super) fn refused(&mut self, now: Instant) {
        self.refused_until = Some(now + limits::AWAY_CAP);
    }

    /// `notifications/initialized` was accepted, or has failed. `true` if the queue waited for it.
    pub(super) fn confirmed(&mut self, ticket: Ticket) -> bool {
        let was_waited_for = self.phase == Phase::Confirming(ticket);
        if was_waited_for {
            self.phase = Phase::Idle;
            (self.replaces, self.confirm_by) = (None, None);
        }
        was_waited_for
    }

    /// When to stop waiting for the client's confirmation: some clients never send it.
    pub(super) fn confirm_by(&self) -> Option<Instant> {
        self.confirm_by
    }

    /// The queue no longer waits for the confirmation.
    pub(super) fn not_confirmed(&mut self) {
        (self.replaces, self.confirm_by) = (None, None);
    }

    /// The session is lost.
    pub(super) fn lose(&mut self, now: Instant) {
        (self.opened_by, self.confirm_by) = (None, None);
        // Set once for each loss: cleared when the session is replaced.
        self.replaces.get_or_insert(now);
        // An `initialize` in flight replaces it.
        if !matches!(self.phase, Phase::Asked(..)) {
            self.phase = Phase::Lost;
        }
    }

    /// The stand-in has answered the client's `initialize`: it is the bridge's own from now on.
    pub(super) fn promise(&mut self, ticket: Ticket, now: Instant) {
        self.lose(now);
        if matches!(self.phase, Phase::Asked(asked, _) if asked == ticket) {
            self.phase = Phase::Asked(ticket, Origin::Reopen);
        }
    }

    /// Whether the limit on reopenings allows another now.
    pub(super) fn may_reopen(&self, now: Instant) -> bool {
        self.calm_at().is_none_or(|at| at <= now)
    }

    /// When the limit on reopenings allows another.
    fn calm_at(&self) -> Option<Instant> {
        let is_storm = self.reopenings.len() >= limits::REOPENINGS;
        self.reopenings.front().filter(|_| is_storm).map(|at| *at + limits::REOPEN_WINDOW)
    }

    /// When to reopen a lost session: within the limit, and after a refusal only if a message waits.
    pub(super) fn reopen_at(&self, somebody_waits: bool) -> Option<Instant> {
        if self.refused_until.is_some() && !somebody_waits {
            return None;
        }
        self.replaces.max(self.refused_until).max(self.calm_at())
    }

    /// Whether this `initialize` is in flight.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn is_asked_by(&self, ticket: Ticket) -> bool {
        matches!(self.phase, Phase::Asked(asked, _) if asked == ticket)
    }

    /// The phase, for tests.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn name(&self) -> &'static str {
        match self.phase {
            Phase::Idle => "Idle",
            Phase::Asked(_, Origin::Reopen) => "Asked by bridge",
            Phase::Asked(..) => "Asked by client",
            Phase::Answered => "Answered",
            Phase::Confirming(_) => "Confirming",
            Phase::Lost => "Lost",
        }
    }
}
