//! The log level that a call wants: the server hears of it, and says so, before it hears of the call.

use tokio::time::Instant;
use tracing::debug;

use super::{ModernClient, Own, ServerDescription};
use crate::limits;
use crate::message::{Members, Message};

/// The level of the session.
#[derive(Default)]
pub(super) struct Level {
    /// What the server was told last, as JSON.
    told: Option<String>,
    /// Calls that want a level are held until the server has answered, or until then.
    pub(super) asked: Option<Instant>,
}

impl ModernClient {
    /// Whether `call`, which wants log messages from `level` on, waits until the server knows.
    ///
    /// The level is the session's: the last request that names one decides.
    pub(super) fn waits_for_level(&mut self, call: &Message, level: Option<&str>) -> bool {
        let Some(level) = level.filter(|_| self.server().is_some_and(ServerDescription::logs))
        else {
            return false;
        };
        if self.level.asked.is_none() {
            if self.level.told.as_deref() == Some(level) {
                return false;
            }
            let until = self.cx.now + limits::LEVEL_WAIT;
            self.level = Level { told: Some(level.to_owned()), asked: Some(until) };
            let fill = |params: &mut Members<'_>| params.set("level", level.to_owned());
            self.ask(Own::LogLevel(until), "logging/setLevel", fill);
        }
        self.hold(call.clone());
        true
    }

    /// The server has taken the level, or will not, or takes its time.
    pub(super) fn level_settled(&mut self, until: Instant) {
        if self.level.asked != Some(until) {
            return debug!("the server has taken a level that was given up already");
        }
        self.level.asked = None;
        // One of those held may want another level: then the rest waits for that.
        self.release();
    }

    pub(super) fn tick_level(&mut self) {
        if let Some(until) = self.level.asked.filter(|until| *until <= self.cx.now) {
            self.level_settled(until);
        }
    }
}
