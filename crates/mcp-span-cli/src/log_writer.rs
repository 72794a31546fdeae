//! Cleans log lines, and writes them on a thread of their own.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::time::Duration;

use super::line_writer::{LineWriter, Output};
use mcp_span::secret::Scrubber;
use mcp_span::untrusted::Untrusted;

/// Bytes of lines that may wait to be written.
const QUEUE: usize = 1024 * 1024;

/// What the end of the program waits for lines that are still to be written.
const FLUSH: Duration = Duration::from_millis(200);

/// The one that the program has, for the flush at its end.
static WRITER: OnceLock<LineWriter<Vec<u8>>> = OnceLock::new();

/// Where all lines go from now on; what is written, `scrubber` has seen.
pub(super) fn install(mut target: Box<dyn Write + Send>, scrubber: Scrubber) {
    let write = move |output: Output<Vec<u8>>| {
        // Where one line cannot be written, another may: a disk was full, a pipe did not wait.
        let _ = match output {
            Output::Line(text) => target.write_all(clean(&text, &scrubber).as_bytes()),
            Output::Lost(lost) => writeln!(target, "({lost} lines were dropped: nobody read them)"),
            Output::Flush => target.flush(),
        };
        Ok(())
    };
    WRITER.get_or_init(|| LineWriter::new("log", QUEUE, write));
}

/// The line as it may be seen. Whatever a server has put into it, it stays one line, acts on no
/// terminal and holds no secret.
fn clean(text: &[u8], scrubber: &Scrubber) -> String {
    let text = String::from_utf8_lossy(text);
    Untrusted(&scrubber.clean(text.trim_end_matches('\n'))).line() + "\n"
}

/// Waits a moment for what is still to be written.
pub(super) fn flush() {
    if let Some(writer) = WRITER.get() {
        writer.flush(FLUSH);
    }
}

/// One line in the making; it is handed over when it is complete.
#[derive(Default)]
pub(super) struct LogLine(Vec<u8>);

impl Write for LogLine {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for LogLine {
    fn drop(&mut self) {
        let text = std::mem::take(&mut self.0);
        if let Some(writer) = WRITER.get().filter(|_| !text.is_empty()) {
            let size = text.len();
            writer.send(text, size);
        }
    }
}
