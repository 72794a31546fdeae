//! Reads the values of flags: times, sizes, ports.

use crate::auth::oauth::CallbackPorts;
pub(super) use crate::config::values::{bytes, seconds, some_seconds};
use crate::limits;

pub(super) fn trace_limit(text: &str) -> Result<usize, String> {
    let least = limits::TRACE_SIZE_LEAST;
    match bytes(text)? {
        size if size < least => Err(format!("it must be at least {}K", least / 1024)),
        size => Ok(size),
    }
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
        None => port(text).map(CallbackPorts::only),
        Some((first, last)) => port(first).and_then(|first| {
            let last = port(last)?;
            Ok(CallbackPorts { first, last })
        }),
    };
    let is_such =
        |ports: &CallbackPorts| ports.first <= ports.last && (ports.first > 0 || ports.last == 0);
    let wrong = || "it must be a port such as 9696, or several such as 9696-9703".to_owned();
    ports.ok().filter(is_such).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_one_or_several() {
        assert_eq!(callback_ports("9696"), Ok(CallbackPorts::only(9696)));
        assert_eq!(callback_ports("9696-9703"), Ok(CallbackPorts { first: 9696, last: 9703 }));
        assert_eq!(callback_ports("0"), Ok(CallbackPorts::only(0)), "any");
        for wrong in ["", "x", "70000", "9-8", "0-9", "-9", "1-2-3"] {
            assert!(callback_ports(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_built_in_limit_of_a_trace_is_the_one_of_the_limits() {
        assert_eq!(trace_limit("64M"), Ok(limits::TRACE_SIZE));
        assert!(trace_limit("1K").is_err());
    }
}
