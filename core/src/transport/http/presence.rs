//! Whether the server is there: told when it goes, when it comes back, and when it first answers.

use std::sync::atomic::Ordering;

use super::Context;
use crate::error::Error;
use crate::traffic::{self, Recovery};
use crate::transport::Event;

impl Context {
    /// Notes that the server cannot be reached, if that is what `error` says.
    pub(super) fn note_absence(&self, error: &Error) {
        if error.is_unreachable() && !self.is_away.swap(true, Ordering::Relaxed) {
            traffic::recovery(Recovery::ServerAway, Some(error));
        }
    }

    /// The server has answered in `revision`; the first time is worth a word.
    pub(super) fn note_connection(&self, transport: &str, revision: Option<&str>) {
        if !self.is_connected.swap(true, Ordering::Relaxed) {
            traffic::connected(transport, revision);
        }
    }

    /// The server is there: told if it was not.
    pub(super) fn note_presence(&self) {
        if self.is_away.swap(false, Ordering::Relaxed) {
            traffic::recovery(Recovery::ServerBack, None);
            self.wake_retries();
            self.events.push(Event::Reached);
        }
    }
}
