//! Why a command has nothing to show, in words for a person or a program, and its exit code.
#![expect(clippy::print_stderr, reason = "a person is told what went wrong")]

use std::process::ExitCode;

use serde_json::{Value, json};

use super::Status;
use crate::report::{self, plain};
use mcp_span::error::{Delivery, Error, Kind, Stage};
use mcp_span::secret::Scrubber;
use mcp_span::untrusted::Untrusted;

/// What went wrong.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// What was asked for cannot be asked for so; the second line says what can.
    Usage(String, Option<String>),
    /// The server refused, or was not to be had.
    /// The line is what else a person should know.
    Failed(Box<Error>, Option<&'static str>),
    /// What came could not be written down.
    Unexpected(std::io::Error),
}

impl Trouble {
    pub(crate) fn usage(sentence: impl Into<String>) -> Self {
        Self::Usage(sentence.into(), None)
    }

    /// The same with what to do next.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        match self {
            Self::Usage(sentence, _) => Self::Usage(sentence, Some(hint.into())),
            other => other,
        }
    }

    /// A call that failed: it may have been carried out all the same, which a person has to know
    /// before calling again.
    pub(crate) fn of_call(failure: Error) -> Self {
        let was_sent = matches!(failure.stage(), Stage::Receive | Stage::Decode);
        let is_open = was_sent && failure.delivery == Delivery::Unknown;
        let note = "The tool may have been carried out: look before you call it again";
        Self::Failed(Box::new(failure), is_open.then_some(note))
    }

    /// Says what it is, and gives its exit code.
    pub(super) fn tell(self, is_json: bool, status: &Status, scrubber: &Scrubber) -> ExitCode {
        status.clear();
        let code = self.code();
        // A server may repeat what it was sent.
        let plain = |text: &str| plain(&scrubber.clean(text));
        // Line by line, as it was written.
        let say = |lines: Option<&str>| {
            for line in lines.into_iter().flat_map(str::lines) {
                eprintln!("  {}", plain(line));
            }
        };
        match &self {
            Self::Unexpected(error) => return report::unexpected(error),
            _ if is_json => {
                let json = scrubber.clean(&self.json().to_string());
                eprintln!("{}", Untrusted(&json).json());
            }
            Self::Usage(sentence, hint) => {
                eprintln!("mcp-span: {}", plain(sentence));
                say(hint.as_deref());
            }
            Self::Failed(failure, note) => {
                let reason = failure.reason.as_deref();
                eprintln!("mcp-span: {}", plain(&sentence(failure)));
                say(reason.filter(|reason| !failure.message.contains(reason)));
                say(failure.hint.as_deref().or_else(|| next_step(failure)));
                say(*note);
            }
        }
        ExitCode::from(code)
    }

    /// Part of the interface: programs go by it.
    fn code(&self) -> u8 {
        match self {
            Self::Usage(..) => 2,
            Self::Failed(failure, _) => failure_code(failure),
            Self::Unexpected(_) => 1,
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Usage(sentence, hint) => {
                json!({"error": {"kind": "usage", "message": sentence, "hint": hint}})
            }
            Self::Failed(failure, _) => json!({"error": {
                "kind": failure.kind,
                "code": failure.code(),
                "message": failure.rpc.as_ref().map_or(&failure.message, |rpc| &rpc.message),
                "hint": failure.hint,
                "delivery": failure.delivery,
                "data": failure.data(),
            }}),
            Self::Unexpected(error) => {
                json!({"error": {"kind": "unexpected", "message": error.to_string()}})
            }
        }
    }
}

fn failure_code(failure: &Error) -> u8 {
    match failure.kind {
        Kind::Rpc => 1,
        Kind::Login | Kind::Credentials => 4,
        Kind::Status if matches!(failure.status, Some(401 | 403)) => 4,
        Kind::BadUrl | Kind::InvalidRequest => 2,
        _ => 3,
    }
}

fn sentence(failure: &Error) -> String {
    match &failure.rpc {
        None => failure.message.clone(),
        Some(rpc) => {
            let data = rpc.data.as_ref().map_or_else(String::new, |data| format!(" {data}"));
            format!("the server says: {} ({}){data}", rpc.message, rpc.code)
        }
    }
}

/// Where the link knows no next step.
fn next_step(failure: &Error) -> Option<&'static str> {
    match failure.kind {
        Kind::Connect | Kind::Dns => {
            Some("Is the URL right, and is the server running? --connect-wait waits for it")
        }
        Kind::Timeout | Kind::NoResponse => {
            Some("Try it again with -v to see what happens, or with a longer --timeout")
        }
        Kind::Closed => Some("Try it again; with -v you see what happens"),
        Kind::Status if failure.status.is_some_and(|status| status >= 500) => {
            Some("The server has trouble of its own: try it again later, or look into its log")
        }
        Kind::Overloaded => Some("Try it again later"),
        Kind::BadResponse => {
            Some("Is this the URL of an MCP server? 'mcp-span check' finds out what answers there")
        }
        Kind::Redirect => Some("Give the URL to which it leads in the end"),
        _ => None,
    }
}

impl From<Error> for Trouble {
    fn from(failure: Error) -> Self {
        Self::Failed(Box::new(failure), None)
    }
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Self::Unexpected(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_tell_whose_turn_it_is() {
        let code = |kind, status| {
            let mut error = Error::new(kind, "x");
            error.status = status;
            Trouble::from(error).code()
        };
        assert_eq!(code(Kind::Connect, None), 3);
        assert_eq!(code(Kind::Spawn, None), 3);
        assert_eq!(code(Kind::Timeout, None), 3);
        assert_eq!(code(Kind::Status, Some(500)), 3);
        assert_eq!(code(Kind::Status, Some(401)), 4);
        assert_eq!(code(Kind::Login, None), 4);
        assert_eq!(code(Kind::BadUrl, None), 2);
        assert_eq!(Trouble::usage("x").code(), 2);
    }
}
