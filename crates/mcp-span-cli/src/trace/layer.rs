//! Turns the events of the traffic into lines of a trace.

use std::sync::OnceLock;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::Context;

use super::file::{LINE_START, TraceFile};
use crate::line_writer::{LineWriter, Output};
use mcp_span::limits;
use mcp_span::secret::Scrubber;
use mcp_span::untrusted::Untrusted;

/// The one that the program has, for its first line and the flush at its end.
static WRITER: OnceLock<LineWriter<Line>> = OnceLock::new();

/// Hands all traffic over to the thread that writes it.
#[derive(Debug)]
pub(crate) struct TraceLayer;

/// What is written from now on, `scrubber` has seen.
pub(crate) fn start(mut file: TraceFile, scrubber: Scrubber) -> TraceLayer {
    // The time of the last line: what is missing was lost behind it.
    let mut last = String::new();
    let write = move |output| {
        let line = match output {
            Output::Line(line) => line,
            Output::Lost(lost) => {
                let gap = Line::new("bridge->client", "GAP", &json!({ "lost": lost }));
                Line { timestamp: std::mem::take(&mut last), ..gap }
            }
            Output::Flush => return file.flush(),
        };
        file.write_line(&line.finish(&scrubber, file.longest_line()))?;
        last = line.timestamp;
        Ok(())
    };
    WRITER.get_or_init(|| LineWriter::new("trace", limits::TRACE_QUEUE_BYTES, write));
    TraceLayer
}

/// Says in the trace who writes it: runs follow each other in one file.
pub(crate) fn begin() {
    let data = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "system": format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        "pid": std::process::id(),
    });
    Line::new("client->bridge", "START", &data).send();
}

/// Waits until all is written, within reason.
pub(crate) fn flush() {
    if let Some(writer) = WRITER.get() {
        writer.flush(limits::TRACE_FLUSH);
    }
}

impl<S: Subscriber> Layer<S> for TraceLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line { timestamp: now(), ..Line::default() };
        event.record(&mut line);
        line.send();
    }
}

/// A line in the making: the data has still to be scrubbed.
#[derive(Debug, Default)]
struct Line {
    timestamp: String,
    /// Like `kind` a word of our own, without anything that JSON would escape.
    direction: String,
    kind: String,
    data: String,
}

fn now() -> String {
    let mut text = String::with_capacity(32);
    // A text takes whatever is written to it.
    let _ = SystemTime.format_time(&mut Writer::new(&mut text));
    text
}

impl Line {
    fn new(direction: &str, kind: &str, data: &Value) -> Self {
        let (direction, kind) = (direction.to_owned(), kind.to_owned());
        Self { timestamp: now(), direction, kind, data: data.to_string() }
    }

    fn send(self) {
        if let Some(writer) = WRITER.get() {
            let size = self.data.len();
            writer.send(self, size);
        }
    }

    /// As it is written: without secrets, and not longer than `longest`.
    fn finish(&self, scrubber: &Scrubber, longest: usize) -> String {
        let clean = scrubber.clean(&self.data);
        let is_json = |text: &str| serde_json::from_str::<&RawValue>(text).is_ok();
        // A secret that is a number leaves a hole where a text cannot stand.
        let data = match clean != self.data && !is_json(&clean) {
            true => Value::from(clean).to_string(),
            false => clean,
        };
        // A trace is looked at in a terminal.
        let data = Untrusted(&data).json();
        let Self { timestamp, direction, kind, .. } = self;
        let head = format!(
            "{LINE_START}{timestamp}\",\"direction\":\"{direction}\",\"type\":\"{kind}\",\"data\":"
        );
        match head.len() + data.len() < longest {
            true => head + &data + "}",
            false => format!("{head}{{\"size\":{}}}}}", data.len()),
        }
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "direction" => value.clone_into(&mut self.direction),
            "kind" => value.clone_into(&mut self.kind),
            "data" => value.clone_into(&mut self.data),
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
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
}
