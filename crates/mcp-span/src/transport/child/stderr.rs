//! What a child process writes to its stderr: each line goes to the log, and the last ones are kept
//! for the error when it ends.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::io::AsyncRead;
use tracing::info;

use super::OnStderr;
use crate::limits;
use crate::lock::lock;
use crate::secret::Scrubber;
use crate::untrusted::Untrusted;
use crate::wire::lines::{Line, Lines};

/// The last lines of a stderr.
#[derive(Clone, Debug, Default)]
pub(super) struct LastLines(Arc<Mutex<VecDeque<String>>>);

impl LastLines {
    fn add(&self, line: String) {
        let mut lines = lock(&self.0);
        if lines.len() == limits::CHILD_STDERR_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// All of them, as far as they fit into an error.
    pub(super) fn text(&self) -> Option<String> {
        let lines = lock(&self.0);
        let mut kept = VecDeque::new();
        let mut size = 0;
        for line in lines.iter().rev() {
            size += line.len() + 1;
            if size > limits::ERROR_TEXT && !kept.is_empty() {
                break;
            }
            kept.push_front(line.as_str());
        }
        (!kept.is_empty()).then(|| kept.make_contiguous().join("\n"))
    }
}

/// Reads until the end. Never stops before, or the child would wait for us.
pub(super) async fn read(
    mut input: impl AsyncRead + Unpin,
    program: String,
    last_lines: LastLines,
    scrubber: Scrubber,
    on_stderr: Option<OnStderr>,
) {
    let on_line = |line: &str| {
        let text = scrubber.clean(line);
        info!(target: "mcp_span::child", program, "{}", Untrusted(&text));
        if let Some(on_stderr) = &on_stderr {
            on_stderr(&text);
        }
        last_lines.add(Untrusted(&text).excerpt(limits::ERROR_TEXT));
    };
    let mut lines = Lines::new(limits::CHILD_STDERR_LINE);
    let mut is_inside = false;
    while let Some(line) = lines.next_of(&mut input).await {
        match line {
            Line::Whole(bytes) => on_line(String::from_utf8_lossy(&bytes).trim_end()),
            // How a line that is too long begins; the rest is nobody's business.
            Line::Excess { piece, is_last } => {
                if !std::mem::replace(&mut is_inside, !is_last) {
                    let piece = String::from_utf8_lossy(&piece);
                    let begin = scrubber.excerpt(&piece, limits::ERROR_TEXT);
                    on_line(&format!("{begin}…"));
                }
            }
        }
    }
}
