//! Reads the values of flags: times, sizes, ports; and writes their defaults.

use std::time::Duration;

use mcp_span::auth::oauth::CallbackPorts;
pub(super) use mcp_span::config::values::{bytes, seconds, some_seconds};
use mcp_span::limits;

pub(super) fn trace_limit(text: &str) -> Result<usize, String> {
    let least = limits::TRACE_SIZE_LEAST;
    match bytes(text)? {
        size if size < least => Err(format!("it must be at least {}K", least / 1024)),
        size => Ok(size),
    }
}

/// A time as `seconds` reads it: the defaults of flags are those of the library.
pub(super) fn seconds_text(duration: Duration) -> String {
    duration.as_secs_f64().to_string()
}

/// A size as `bytes` reads it, in the largest unit that fits.
pub(super) fn bytes_text(size: usize) -> String {
    let units = [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    let unit = units.into_iter().find(|(unit, _)| size > 0 && size.is_multiple_of(*unit));
    let (unit, letter) = unit.unwrap_or((1, ""));
    format!("{}{letter}", size / unit)
}

/// Patterns for names of tools, one a line. An empty one would hide nothing, and is a slip: most
/// often of a shell whose variable is not set.
pub(super) fn tool_patterns(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("it must be the name of a tool, or a pattern such as 'delete*'".to_owned());
    }
    Ok(text.to_owned())
}

/// One port, or the first and the last of several.
pub(super) fn callback_ports(text: &str) -> Result<CallbackPorts, String> {
    let port = |text: &str| text.trim().parse::<u16>();
    let ports = match text.split_once('-') {
        None => port(text).map(|port| port..=port),
        Some((first, last)) => port(first).and_then(|first| Ok(first..=port(last)?)),
    };
    let is_such =
        |ports: &CallbackPorts| !ports.is_empty() && (*ports.start() > 0 || *ports.end() == 0);
    let wrong = || "it must be a port such as 9696, or several such as 9696-9703".to_owned();
    ports.ok().filter(is_such).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_one_or_several() {
        assert_eq!(callback_ports("9696"), Ok(9696..=9696));
        assert_eq!(callback_ports("9696-9703"), Ok(9696..=9703));
        assert_eq!(callback_ports("0"), Ok(0..=0), "any");
        for wrong in ["", "x", "70000", "9-8", "0-9", "-9", "1-2-3"] {
            assert!(callback_ports(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_trace_has_a_smallest_limit() {
        assert_eq!(trace_limit(&bytes_text(limits::TRACE_SIZE)), Ok(limits::TRACE_SIZE));
        assert!(trace_limit("1K").is_err());
    }

    #[test]
    fn defaults_are_written_as_a_person_would() {
        assert_eq!(seconds_text(Duration::from_secs(10)), "10");
        assert_eq!(seconds_text(Duration::from_millis(500)), "0.5");
        for (size, text) in [(64 << 20, "64M"), (3 << 30, "3G"), (1537, "1537"), (8192, "8K")] {
            assert_eq!(bytes_text(size), text);
            assert_eq!(bytes(text), Ok(size));
        }
    }
}
