//! Writes log lines on a thread of their own: a stderr that nobody reads must not stop the bridge.

use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

use mcp_span::secret::Scrubber;
use mcp_span::untrusted::Untrusted;

/// Lines that may wait to be written; what comes on top is dropped, and counted.
const LINES: usize = 4096;

/// What the end of the program waits for lines that are still to be written.
const FLUSH: Duration = Duration::from_millis(200);

type Target = Box<dyn Write + Send>;

/// Hands lines over to its thread, which is started by the first of them.
pub(super) struct LogWriter {
    /// Where lines go, and what they are cleaned with; the thread takes both.
    target: Mutex<Option<(Target, Scrubber)>>,
    lines: OnceLock<SyncSender<Line>>,
    dropped: AtomicU64,
}

enum Line {
    Text {
        /// Lines before it that found no room.
        missing: u64,
        text: Vec<u8>,
    },
    /// Whoever sent it waits until everything before it was written.
    Flush(SyncSender<()>),
}

/// The one that the program has, for the flush at its end.
static WRITER: OnceLock<LogWriter> = OnceLock::new();

/// Where all lines go from now on; what is written, `scrubber` has seen.
pub(super) fn install(target: Target, scrubber: Scrubber) -> &'static LogWriter {
    WRITER.get_or_init(|| LogWriter {
        target: Mutex::new(Some((target, scrubber))),
        lines: OnceLock::new(),
        dropped: AtomicU64::new(0),
    })
}

/// Waits a moment for what is still to be written.
pub(super) fn flush() {
    let Some(lines) = WRITER.get().and_then(|writer| writer.lines.get()) else { return };
    let (done, written) = mpsc::sync_channel(1);
    if lines.try_send(Line::Flush(done)).is_ok() {
        let _ = written.recv_timeout(FLUSH);
    }
}

impl LogWriter {
    fn send(&self, text: Vec<u8>) {
        let lines = self.lines.get_or_init(|| {
            let (sender, receiver) = mpsc::sync_channel(LINES);
            let target = self.target.lock().ok().and_then(|mut target| target.take());
            if let Some((target, scrubber)) = target {
                // Without the thread, lines are dropped: nobody can be told about it anyway.
                let _ = std::thread::Builder::new()
                    .name("log".to_owned())
                    .spawn(move || write_all(&receiver, target, &scrubber));
            }
            sender
        });
        let missing = self.dropped.swap(0, Ordering::Relaxed);
        if lines.try_send(Line::Text { missing, text }).is_err() {
            self.dropped.fetch_add(missing + 1, Ordering::Relaxed);
        }
    }
}

fn write_all(lines: &Receiver<Line>, mut target: Target, scrubber: &Scrubber) {
    for line in lines {
        match line {
            Line::Text { missing, text } => {
                if missing > 0 {
                    let _ = writeln!(target, "({missing} lines were dropped: nobody read them)");
                }
                let _ = target.write_all(shown(&text, scrubber).as_bytes());
            }
            Line::Flush(done) => {
                let _ = target.flush();
                let _ = done.send(());
            }
        }
    }
}

/// The line as it may be seen. Whatever a server has put into it, it stays one line, acts on no
/// terminal and holds no secret.
fn shown(text: &[u8], scrubber: &Scrubber) -> String {
    let text = String::from_utf8_lossy(text);
    Untrusted(&scrubber.clean(text.trim_end_matches('\n'))).line() + "\n"
}

/// One line in the making; it is handed over when it is complete.
pub(super) struct Pending(&'static LogWriter, Vec<u8>);

impl Write for Pending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.1.is_empty() {
            self.0.send(std::mem::take(&mut self.1));
        }
    }
}

/// What the subscriber asks for each line.
pub(super) struct Lines(pub(super) &'static LogWriter);

impl MakeWriter<'_> for Lines {
    type Writer = Pending;

    fn make_writer(&self) -> Pending {
        Pending(self.0, Vec::new())
    }
}
