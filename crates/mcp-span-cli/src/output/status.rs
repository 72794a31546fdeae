//! One line on stderr that shows that something is going on, and is gone before anything else is
//! printed.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::{Instant, interval};

use super::{page, text};
use mcp_span::limits;
use mcp_span::untrusted::Untrusted;

/// The line. Where stderr is no terminal, there is none.
#[derive(Clone)]
pub(crate) struct Status(Option<Arc<Mutex<State>>>);

struct State {
    text: String,
    since: Instant,
    is_drawn: bool,
    frame: usize,
}

const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// To the first column, and away with what is there.
const ERASE: &str = "\r\u{1b}[2K";

impl Status {
    /// Begins with this text. At first nothing is drawn: most commands are done at once.
    pub(crate) fn new(text: &str) -> Self {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let is_dumb = is_dumb && cfg!(unix);
        let is_shown = std::io::stderr().is_terminal() && !is_dumb && !super::is_quiet();
        Self(is_shown.then(|| {
            Arc::new(Mutex::new(State {
                text: text.to_owned(),
                since: Instant::now(),
                is_drawn: false,
                frame: 0,
            }))
        }))
    }

    /// What is going on now.
    pub(crate) fn set(&self, text: &str) {
        if let Some(mut state) = self.lock() {
            state.text = Untrusted(text).line();
        }
    }

    /// Takes the line away; it comes back if the waiting goes on.
    pub(crate) fn clear(&self) {
        if let Some(mut state) = self.lock() {
            state.erase();
            state.since = Instant::now();
        }
    }

    /// Nothing is drawn until the result is dropped: the terminal is somebody else's.
    pub(crate) fn pause(&self) -> impl Sized {
        self.clear();
        self.0.as_ref().map(|state| state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits for `work`, and draws the line meanwhile.
    pub(crate) async fn during<F: Future>(&self, work: F) -> F::Output {
        let mut work = std::pin::pin!(work);
        let mut ticks = interval(limits::SPINNER_STEP);
        loop {
            tokio::select! {
                output = &mut work => {
                    self.clear();
                    return output;
                }
                _ = ticks.tick(), if self.0.is_some() => {
                    if let Some(mut state) = self.lock() {
                        state.draw();
                    }
                }
            }
        }
    }

    /// The line, unless it pauses.
    fn lock(&self) -> Option<MutexGuard<'_, State>> {
        self.0.as_ref()?.try_lock().ok()
    }
}

impl State {
    fn draw(&mut self) {
        if self.since.elapsed() < limits::SPINNER_AFTER {
            return;
        }
        let text = text::cut(&self.text, page::terminal_width().saturating_sub(3));
        let frame = FRAMES[self.frame % FRAMES.len()];
        self.frame += 1;
        self.is_drawn = true;
        write(&format!("{ERASE}{frame} {text}"));
    }

    fn erase(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            write(ERASE);
        }
    }
}

fn write(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}
