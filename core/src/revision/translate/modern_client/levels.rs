//! The log level that a call wants: the server hears of it, and says so, before it hears of the call.

use tokio::time::Instant;
use tracing::debug;

use super::held_messages::HeldMessages;
use super::{ModernClient, Own};
use crate::limits;
use crate::message::{Id, Members, Message};
use crate::revision::translate::Steps;

/// The level of the session, and the calls that wait for it to change.
#[derive(Default)]
pub(super) struct Levels {
    /// What the server was told last, as JSON.
    told: Option<String>,
    /// Its answer is waited for until then.
    asked: Option<Instant>,
    waiting: HeldMessages,
}

impl Levels {
    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.asked
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting.is_full()
    }

    pub(super) fn is_holding(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Forgets the request `id`; `false` if it does not wait here.
    pub(super) fn withdraw(&mut self, id: &Id) -> bool {
        self.waiting.withdraw(id)
    }
}

impl ModernClient {
    /// Whether `call`, which wants log messages from `level` on, waits until the server knows.
    ///
    /// The level is the session's: the last request that names one decides.
    pub(super) fn waits_for_level(
        &mut self,
        call: &Message,
        level: Option<&str>,
        now: Instant,
        out: &mut Steps,
    ) -> bool {
        let Some(level) = level.filter(|_| self.server().is_some_and(|server| server.logs)) else {
            return false;
        };
        if self.levels.asked.is_some() {
            self.levels.waiting.push(call.clone());
            return true;
        }
        if self.levels.told.as_deref() == Some(level) {
            return false;
        }
        let until = now + limits::LEVEL_WAIT;
        self.levels.told = Some(level.to_owned());
        self.levels.asked = Some(until);
        let fill = |params: &mut Members<'_>| params.set("level", level.to_owned());
        self.ask(Own::LogLevel(until), "logging/setLevel", fill, out);
        // It is the first to leave: the next may want another level.
        self.levels.waiting.push_first(call.clone());
        true
    }

    /// The server has taken the level, or will not, or takes its time.
    pub(super) fn level_settled(&mut self, until: Instant, now: Instant, out: &mut Steps) {
        if self.levels.asked != Some(until) {
            return debug!("the server has taken a level that was given up already");
        }
        self.levels.asked = None;
        // One of them may want another level: then the rest waits for that.
        while self.levels.asked.is_none()
            && let Some(call) = self.levels.waiting.pop()
        {
            self.on_client_message(call, now, out);
        }
    }

    pub(super) fn tick_levels(&mut self, now: Instant, out: &mut Steps) {
        if let Some(until) = self.levels.asked.filter(|until| *until <= now) {
            self.level_settled(until, now, out);
        }
    }

    /// There is another session, or none: nothing is known of its level, and whoever has waited
    /// for it is in line for what comes.
    pub(super) fn forget_level(&mut self) {
        let mut levels = std::mem::take(&mut self.levels);
        while let Some(call) = levels.waiting.pop() {
            self.held.push(call);
        }
    }
}
