//! Turns the events of the traffic into lines, and writes them on a thread: a slow disk must not
//! stop the bridge.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError, TrySendError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber, warn};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::Context;

use super::file::{LINE_START, TraceFile};
use crate::report::Usage;
use mcp_span::limits;
use mcp_span::secret::Scrubber;
use mcp_span::untrusted::Untrusted;

/// Hands lines over to the thread that writes them.
#[derive(Debug)]
pub(crate) struct TraceLayer {
    queue: Arc<Queue>,
}

#[derive(Debug)]
struct Queue {
    lines: SyncSender<Item>,
    /// Bytes that wait to be written.
    waiting: AtomicUsize,
    /// Lines that found no room since the last that did.
    lost: AtomicU64,
    /// The disk takes no more.
    is_over: AtomicBool,
}

#[derive(Debug)]
enum Item {
    Line(Line),
    /// Whoever sent it waits until everything before it was written.
    Flush(SyncSender<()>),
}

/// A line in the making: the data has still to be scrubbed.
#[derive(Debug, Default)]
struct Line {
    head: String,
    data: String,
}

/// How often the end of the program looks whether a full queue has room.
const FULL_PAUSE: Duration = Duration::from_millis(5);

/// The one that the program has, for its first line and the flush at its end.
static QUEUE: OnceLock<Arc<Queue>> = OnceLock::new();

/// Starts the thread; what it writes, `scrubber` has seen.
pub(crate) fn start(file: TraceFile, scrubber: Scrubber) -> Result<TraceLayer, Usage> {
    let (lines, receiver) = mpsc::sync_channel(limits::TRACE_QUEUE);
    let queue = Arc::new(Queue {
        lines,
        waiting: AtomicUsize::new(0),
        lost: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
    });
    let writer = WriterThread { file, scrubber, queue: Arc::clone(&queue) };
    std::thread::Builder::new()
        .name("trace".to_owned())
        .spawn(move || writer.run(&receiver))
        .map_err(|error| Usage::new(format!("no trace can be written: {error}")))?;
    let queue = QUEUE.get_or_init(|| queue);
    Ok(TraceLayer { queue: Arc::clone(queue) })
}

/// Says in the trace who writes it: runs follow each other in one file.
pub(crate) fn begin() {
    let Some(queue) = QUEUE.get() else { return };
    let data = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "system": format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        "pid": std::process::id(),
    });
    queue.send(Line::new("client->bridge", "START", &data));
}

/// Waits until all is written, within reason.
pub(crate) fn flush() {
    let Some(queue) = QUEUE.get() else { return };
    let end = Instant::now() + limits::TRACE_FLUSH;
    queue.tell_lost();
    let (done, written) = mpsc::sync_channel(1);
    let mut item = Item::Flush(done);
    while let Err(TrySendError::Full(unsent)) = queue.lines.try_send(item) {
        if Instant::now() > end {
            return;
        }
        item = unsent;
        std::thread::sleep(FULL_PAUSE);
    }
    let _ = written.recv_timeout(end.saturating_duration_since(Instant::now()));
}

impl<S: Subscriber> Layer<S> for TraceLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if self.queue.is_over.load(Ordering::Relaxed) {
            return;
        }
        let mut line = Line::beginning();
        event.record(&mut line);
        self.queue.send(line);
    }
}

impl Line {
    fn beginning() -> Self {
        let mut head = String::with_capacity(128);
        head.push_str(LINE_START);
        // A text takes whatever is written to it.
        let _ = SystemTime.format_time(&mut Writer::new(&mut head));
        head.push('"');
        Self { head, data: String::new() }
    }

    fn new(direction: &str, kind: &str, data: &Value) -> Self {
        let mut line = Self::beginning();
        line.note("direction", direction);
        line.note("type", kind);
        line.data = data.to_string();
        line
    }

    /// Both are words of our own, without anything that JSON would escape.
    fn note(&mut self, name: &str, value: &str) {
        for part in [",\"", name, "\":\"", value, "\""] {
            self.head.push_str(part);
        }
    }

    fn len(&self) -> usize {
        self.head.len() + self.data.len()
    }

    /// As it is written: without secrets, and not longer than `longest`.
    fn finish(self, scrubber: &Scrubber, longest: usize) -> String {
        let clean = scrubber.clean(&self.data);
        let is_json = |text: &str| serde_json::from_str::<&RawValue>(text).is_ok();
        // A secret that is a number leaves a hole where a text cannot stand.
        let data = match clean != self.data && !is_json(&clean) {
            true => Value::from(clean).to_string(),
            false => clean,
        };
        // A trace is looked at in a terminal.
        let data = Untrusted(&data).json();
        let line = format!("{},\"data\":{data}}}", self.head);
        match line.len() > longest {
            true => format!("{},\"data\":{{\"size\":{}}}}}", self.head, data.len()),
            false => line,
        }
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "direction" => self.note("direction", value),
            "kind" => self.note("type", value),
            "data" => value.clone_into(&mut self.data),
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

impl Queue {
    fn send(&self, line: Line) {
        self.tell_lost();
        if !self.try_send(line) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn tell_lost(&self) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 && !self.try_send(Line::new("bridge->client", "GAP", &json!({ "lost": lost })))
        {
            self.lost.fetch_add(lost, Ordering::Relaxed);
        }
    }

    fn try_send(&self, line: Line) -> bool {
        let size = line.len();
        if self.waiting.load(Ordering::Relaxed) + size > limits::TRACE_QUEUE_BYTES {
            return false;
        }
        self.waiting.fetch_add(size, Ordering::Relaxed);
        let is_sent = self.lines.try_send(Item::Line(line)).is_ok();
        if !is_sent {
            self.waiting.fetch_sub(size, Ordering::Relaxed);
        }
        is_sent
    }
}

struct WriterThread {
    file: TraceFile,
    scrubber: Scrubber,
    queue: Arc<Queue>,
}

impl WriterThread {
    fn run(mut self, lines: &Receiver<Item>) {
        while let Some(item) = self.next(lines) {
            match item {
                Item::Line(line) => {
                    self.queue.waiting.fetch_sub(line.len(), Ordering::Relaxed);
                    if !self.queue.is_over.load(Ordering::Relaxed) {
                        let text = line.finish(&self.scrubber, self.file.longest_line());
                        let written = self.file.write_line(&text);
                        self.check(written);
                    }
                }
                Item::Flush(done) => {
                    self.flush();
                    let _ = done.send(());
                }
            }
        }
    }

    /// What is there already comes first; before it is waited for, all goes to disk.
    fn next(&mut self, lines: &Receiver<Item>) -> Option<Item> {
        match lines.try_recv() {
            Ok(item) => Some(item),
            Err(TryRecvError::Disconnected) => None,
            Err(TryRecvError::Empty) => {
                self.flush();
                lines.recv().ok()
            }
        }
    }

    fn flush(&mut self) {
        if !self.queue.is_over.load(Ordering::Relaxed) {
            let flushed = self.file.flush();
            self.check(flushed);
        }
    }

    /// A full disk ends the trace, and nothing else.
    fn check(&self, written: io::Result<()>) {
        if let Err(error) = written {
            self.queue.is_over.store(true, Ordering::Relaxed);
            warn!("the trace ends here, since it cannot be written: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_span::secret::Secret;

    fn finish(data: &str, longest: usize) -> Value {
        let scrubber = Scrubber::default();
        scrubber.add(&Secret::new("123456"));
        scrubber.add(&Secret::new("tok/en99"));
        let mut line = Line::new("client->bridge", "STDIN", &Value::Null);
        line.data = data.to_owned();
        let text = line.finish(&scrubber, longest);
        assert!(text.starts_with(LINE_START), "{text}");
        serde_json::from_str(&text).expect("a line of JSON")
    }

    #[test]
    fn a_line_is_json_whatever_was_scrubbed_from_it() {
        let line = finish(r#"{"a":"x tok\/en99"}"#, 1000);
        assert_eq!(line["data"]["a"], "x [secret]");
        assert_eq!(
            (&line["direction"], &line["type"]),
            (&"client->bridge".into(), &"STDIN".into())
        );
        let time = line["timestamp"].as_str().unwrap();
        assert!(time.ends_with('Z') && time.contains('.') && time.contains('T'), "{time}");
        assert_eq!(finish(r#"{"a":1234567}"#, 1000)["data"], r#"{"a":[secret]7}"#);
    }

    #[test]
    fn a_line_that_is_too_long_tells_its_size() {
        assert_eq!(finish(&format!("\"{}\"", "x".repeat(998)), 1000)["data"]["size"], 1000);
    }

    #[test]
    fn what_finds_no_room_is_counted_and_told() {
        let (lines, receiver) = mpsc::sync_channel(2);
        let (waiting, lost) = (AtomicUsize::new(0), AtomicU64::new(0));
        let queue = Queue { lines, waiting, lost, is_over: AtomicBool::new(false) };
        let line = || Line::new("a", "b", &json!(1));
        for _ in 0..5 {
            queue.send(line());
        }
        assert_eq!(receiver.try_iter().count(), 2);
        queue.send(line());
        let Ok(Item::Line(gap)) = receiver.try_recv() else { panic!("a line") };
        assert_eq!(gap.data, r#"{"lost":3}"#);
        let huge = Line { data: "x".repeat(limits::TRACE_QUEUE_BYTES + 1), ..Line::default() };
        assert!(!queue.try_send(huge));
    }
}
