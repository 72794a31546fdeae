//! Whether the server is there: told when it goes, when it comes back, and when it first answers.

use std::sync::atomic::Ordering;

use super::Context;
use crate::error::Error;
use crate::traffic::{self, Recovery};
use crate::transport::Event;

impl Context {
    /// Notes whether the server is there, as far as `answer` tells.
    pub(super) fn note_answer<T>(&self, answer: &Result<T, Error>) {
        match answer {
            Err(error) if error.is_unreachable() => {
                if !self.is_away.swap(true, Ordering::Relaxed) {
                    traffic::recovery(Recovery::ServerAway, Some(error));
                }
            }
            Err(error) if error.status.is_none() => {}
            _ => self.note_presence(),
        }
    }

    /// The server has answered in `revision`; the first time is worth a word.
    pub(super) fn note_connection(&self, transport: &str, revision: Option<&str>) {
        self.connected.call_once(|| traffic::connected(transport, revision));
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
