//! A sign of life at a terminal, for as long as somebody waits.

use std::io::{IsTerminal, Write, stderr};
use std::sync::{Arc, Mutex, PoisonError};

use mcp_span::limits;
use mcp_span::untrusted::Untrusted;

/// What is being done about one target.
#[derive(Clone, Debug, Default)]
pub(super) struct Activity(Arc<Mutex<&'static str>>);

impl Activity {
    pub(super) fn now(&self, what: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    fn what(&self) -> &'static str {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Turns on stderr, if that is a terminal.
pub(super) struct Spinner {
    is_seen: bool,
    turn: usize,
}

const SIGNS: [&str; 4] = ["|", "/", "-", "\\"];

impl Spinner {
    pub(super) fn new() -> Self {
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { is_seen: stderr().is_terminal() && !is_dumb, turn: 0 }
    }

    /// Never at all: something else is written there.
    pub(super) fn hidden() -> Self {
        Self { is_seen: false, turn: 0 }
    }

    /// Waits for `done`, and shows that it does.
    pub(super) async fn while_waiting<F: Future>(
        &mut self,
        name: &str,
        activity: &Activity,
        done: F,
    ) -> F::Output {
        if !self.is_seen {
            return done.await;
        }
        tokio::pin!(done);
        loop {
            match tokio::time::timeout(limits::SPINNER_STEP, &mut done).await {
                Ok(output) => {
                    self.clear();
                    return output;
                }
                Err(_) => {
                    self.turn += 1;
                    let sign = SIGNS[self.turn % SIGNS.len()];
                    let line = format!("{sign} {name}: {}", activity.what());
                    Self::write(&Untrusted(&line).line());
                }
            }
        }
    }

    /// Leaves no trace.
    pub(super) fn clear(&self) {
        if self.is_seen {
            Self::write("");
        }
    }

    /// In place of what stands there. A terminal that is gone is no reason to stop.
    fn write(line: &str) {
        let mut err = stderr();
        let _ = write!(err, "\r\x1b[K{line}").and_then(|()| err.flush());
    }
}
