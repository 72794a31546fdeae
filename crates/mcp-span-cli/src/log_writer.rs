//! Cleans log lines, and writes them on a thread of their own.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::time::Duration;

use super::line_writer::{LineTarget, LineWriter};
use mcp_span::secret::Scrubber;
use mcp_span::untrusted::Untrusted;

/// Bytes of lines that may wait to be written.
const QUEUE: usize = 1024 * 1024;

/// What the end of the program waits for lines that are still to be written.
const FLUSH: Duration = Duration::from_millis(200);

/// The one that the program has, for the flush at its end.
static WRITER: OnceLock<LineWriter<Vec<u8>>> = OnceLock::new();

/// Where all lines go from now on; what is written, `scrubber` has seen.
pub(super) fn install(target: Box<dyn Write + Send>, scrubber: Scrubber) {
    WRITER.get_or_init(|| LineWriter::new("log", QUEUE, LogTarget { target, scrubber }));
}

/// Waits a moment for what is still to be written.
pub(super) fn flush() {
    if let Some(writer) = WRITER.get() {
        writer.flush(FLUSH);
    }
}

struct LogTarget {
    target: Box<dyn Write + Send>,
    scrubber: Scrubber,
}

// Where one line cannot be written, another may: a disk that was full, a pipe that did not wait.
impl LineTarget<Vec<u8>> for LogTarget {
    fn write(&mut self, text: Vec<u8>) -> io::Result<()> {
        // Whatever a server has put into it, it stays one line, acts on no terminal and holds no
        // secret.
        let text = String::from_utf8_lossy(&text);
        let line = Untrusted(&self.scrubber.clean(text.trim_end_matches('\n'))).line() + "\n";
        let _ = self.target.write_all(line.as_bytes());
        Ok(())
    }

    fn write_lost(&mut self, lost: u64) -> io::Result<()> {
        let _ = writeln!(self.target, "({lost} lines were dropped: nobody read them)");
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.target.flush();
        Ok(())
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
