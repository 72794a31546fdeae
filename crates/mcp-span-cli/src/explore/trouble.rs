//! Why a command has nothing to show, in words for a person or a program, and its exit code.
#![expect(clippy::print_stderr, reason = "a person is told what went wrong")]

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::output::Status;
use crate::report::{self, plain};
use mcp_span::client::{Class, Failure, Stage};
use mcp_span::error::{Delivery, Kind};
use mcp_span::secret::Scrubber;
use mcp_span::untrusted::Untrusted;

/// What went wrong.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// What was asked for cannot be asked for so; the second line says what can.
    Usage(String, Option<String>),
    /// The server refused, or was not to be had.
    /// The line is what else a person should know.
    Failed(Box<Failure>, Option<&'static str>),
    /// What came could not be written down.
    Unexpected(std::io::Error),
}

impl CommandError {
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
    pub(crate) fn of_call(failure: Failure) -> Self {
        let was_sent = matches!(failure.stage, Stage::Receive | Stage::Decode);
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
                // Only of our own errors: a server's words are told as the server's.
                let data = failure.data.as_ref().filter(|_| failure.kind().is_some());
                let reason = data.and_then(|data| data.get("reason")?.as_str());
                eprintln!("mcp-span: {}", plain(&sentence(failure)));
                say(reason.filter(|reason| !failure.message.contains(reason)));
                say(failure.next_step.as_deref().or_else(|| next_step(failure)));
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
                "kind": failure.class.to_string(),
                "code": failure.code,
                "message": failure.message,
                "hint": failure.next_step,
                "delivery": failure.delivery,
                "data": failure.data,
            }}),
            Self::Unexpected(error) => {
                json!({"error": {"kind": "unexpected", "message": error.to_string()}})
            }
        }
    }
}

fn failure_code(failure: &Failure) -> u8 {
    match failure.kind() {
        None => 1,
        Some(Kind::Login | Kind::Credentials) => 4,
        Some(Kind::Status) if matches!(failure.status, Some(401 | 403)) => 4,
        Some(Kind::BadUrl | Kind::InvalidRequest) => 2,
        Some(_) => 3,
    }
}

fn sentence(failure: &Failure) -> String {
    match failure.class {
        Class::Link(_) => failure.message.clone(),
        Class::Rpc => {
            let data = failure.data.as_ref().map_or_else(String::new, |data| format!(" {data}"));
            format!("the server says: {} ({}){data}", failure.message, failure.code)
        }
    }
}

/// Where the link knows no next step.
fn next_step(failure: &Failure) -> Option<&'static str> {
    match failure.kind()? {
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

impl From<Failure> for CommandError {
    fn from(failure: Failure) -> Self {
        Self::Failed(Box::new(failure), None)
    }
}

impl From<std::io::Error> for CommandError {
    fn from(error: std::io::Error) -> Self {
        Self::Unexpected(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_span::client::Transport;
    use mcp_span::error::Error;

    #[test]
    fn exit_codes_tell_whose_turn_it_is() {
        let code = |kind, status| {
            let error = Error { status, ..Error::new(kind, "x") };
            CommandError::from(Failure::of(Transport::Http, error)).code()
        };
        assert_eq!(code(Kind::Connect, None), 3);
        assert_eq!(code(Kind::Spawn, None), 3);
        assert_eq!(code(Kind::Timeout, None), 3);
        assert_eq!(code(Kind::Status, Some(500)), 3);
        assert_eq!(code(Kind::Status, Some(401)), 4);
        assert_eq!(code(Kind::Login, None), 4);
        assert_eq!(code(Kind::BadUrl, None), 2);
        assert_eq!(CommandError::usage("x").code(), 2);
    }
}
