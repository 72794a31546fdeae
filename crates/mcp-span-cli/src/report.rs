//! What people read on stderr: errors with hints, warnings and notes; and the exit code of an error.
#![expect(clippy::print_stderr, reason = "this is where the program speaks to a person")]

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};

use super::{args, bad_arguments, help, output};
use mcp_span::error::{Delivery, Error, ErrorKind, Stage};
use mcp_span::secret::Scrubber;
use mcp_span::untrusted::Untrusted;

/// Something in the arguments, the environment or a file that the user can change: what is wrong,
/// and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Usage(pub(super) String, pub(super) Option<String>);

impl Usage {
    pub(super) fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into(), None)
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self(self.0, Some(hint.into()))
    }
}

/// Why a command could not do its work.
pub(super) enum CommandError {
    /// The parser refused what was typed.
    Arguments(clap::Error),
    Usage(Usage),
    /// The server refused, or could not be reached. The line is what else a person should know.
    Server(Box<Error>, Option<&'static str>),
    /// A login or a logout failed.
    Login(Box<Error>),
    /// Something that neither the user nor the server has caused.
    Unexpected(io::Error),
}

impl From<String> for Usage {
    fn from(sentence: String) -> Self {
        Self(sentence, None)
    }
}

impl From<clap::Error> for CommandError {
    fn from(error: clap::Error) -> Self {
        Self::Arguments(error)
    }
}

impl From<Usage> for CommandError {
    fn from(usage: Usage) -> Self {
        Self::Usage(usage)
    }
}

impl From<Error> for CommandError {
    fn from(failure: Error) -> Self {
        Self::Server(Box::new(failure), None)
    }
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        Self::Unexpected(error)
    }
}

impl CommandError {
    /// A call that failed: it may have been carried out all the same, which a person has to know
    /// before calling again.
    pub(super) fn of_call(failure: Error) -> Self {
        let was_sent = matches!(failure.stage(), Stage::Receive | Stage::Decode);
        let is_open = was_sent && failure.delivery == Delivery::Unknown;
        let note = "The tool may have been carried out: look before you call it again";
        Self::Server(Box::new(failure), is_open.then_some(note))
    }

    /// A command about logins has no exit codes of its own.
    pub(super) fn of_login(error: Error) -> Self {
        Self::Login(Box::new(error))
    }

    /// Prints it, for a program as JSON, and gives its exit code. `typed` is the command line.
    pub(super) fn report(self, is_json: bool, typed: &[OsString], scrubber: &Scrubber) -> ExitCode {
        let error = match self {
            // `--help` and `--version` come this way, too, and go to stdout.
            Self::Arguments(error) if !error.use_stderr() => {
                let _ = error.print();
                return ExitCode::SUCCESS;
            }
            Self::Arguments(error) => Self::Usage(bad_arguments::explain(&error, typed)),
            other => other,
        };
        // A server may repeat what it was sent.
        match is_json {
            true => eprintln!("{}", Untrusted(&scrubber.clean(&error.json().to_string())).json()),
            false => {
                let (message, hints) = error.text();
                say(ERROR, "error", &scrubber.clean(&message));
                hints.iter().for_each(|hint| self::hint(&scrubber.clean(hint)));
            }
        }
        ExitCode::from(error.code())
    }

    /// Part of the interface: programs go by it.
    fn code(&self) -> u8 {
        match self {
            Self::Arguments(_) | Self::Usage(_) => 2,
            Self::Unexpected(_) | Self::Login(_) => 1,
            Self::Server(failure, _) => match failure.kind {
                ErrorKind::Rpc => 1,
                ErrorKind::Login | ErrorKind::Credentials => 4,
                ErrorKind::Status if matches!(failure.status, Some(401 | 403)) => 4,
                ErrorKind::BadUrl | ErrorKind::InvalidOptions | ErrorKind::InvalidRequest => 2,
                _ => 3,
            },
        }
    }

    fn json(&self) -> Value {
        let (kind, hint) = match self {
            Self::Server(failure, _) => {
                let theirs = failure.rpc.as_ref().map(|rpc| &rpc.message);
                return json!({"error": {
                    "kind": failure.kind,
                    "code": failure.code(),
                    "message": theirs.unwrap_or(&failure.message),
                    "hint": failure.hint,
                    "delivery": failure.delivery,
                    "data": failure.data(),
                }});
            }
            Self::Login(error) => {
                let Error { kind, message, reason, hint, .. } = &**error;
                return json!({"error": {
                    "kind": kind, "message": message, "reason": reason, "hint": hint,
                }});
            }
            Self::Usage(Usage(_, hint)) => ("usage", hint.as_deref()),
            _ => ("unexpected", None),
        };
        json!({"error": {"kind": kind, "message": self.text().0, "hint": hint}})
    }

    /// The message, and hints.
    fn text(&self) -> (String, Vec<String>) {
        match self {
            Self::Usage(Usage(sentence, hint)) => {
                (sentence.clone(), hint.clone().into_iter().collect())
            }
            Self::Server(failure, note) => {
                let known = || next_step(failure).map(str::to_owned);
                let step = failure.hint.clone().or_else(known);
                (sentence(failure), step.into_iter().chain(note.map(str::to_owned)).collect())
            }
            Self::Login(error) => (
                with_reason(&error.message, error.reason.as_deref()),
                error.hint.clone().into_iter().collect(),
            ),
            Self::Unexpected(error) => (format!("unexpected failure: {error}"), Vec::new()),
            Self::Arguments(error) => (error.to_string(), Vec::new()),
        }
    }
}

/// What failed, with the reason in lines of its own.
fn sentence(failure: &Error) -> String {
    if let Some(rpc) = &failure.rpc {
        let data = rpc.data.as_ref().map_or_else(String::new, |data| format!(" {data}"));
        return format!("the server answered: {} ({}){data}", rpc.message, rpc.code);
    }
    let reason = failure.reason.as_deref();
    with_reason(&failure.message, reason.filter(|reason| !failure.message.contains(reason)))
}

fn with_reason(message: &str, reason: Option<&str>) -> String {
    let lines = reason.into_iter().flat_map(str::lines);
    message.to_owned() + &lines.map(|line| format!("\n  {line}")).collect::<String>()
}

/// Where the library knows no next step.
fn next_step(failure: &Error) -> Option<&'static str> {
    match failure.kind {
        ErrorKind::Timeout | ErrorKind::NoResponse => {
            Some("Try it again with -v to see what happens, or with a longer --timeout")
        }
        ErrorKind::Closed => Some("Try it again; with -v you see what happens"),
        ErrorKind::Status if failure.status.is_some_and(|status| status >= 500) => {
            Some("The server has trouble of its own: try it again later, or look into its log")
        }
        ErrorKind::Overloaded => Some("Try it again later"),
        ErrorKind::BadResponse => {
            Some("Is this the URL of an MCP server? 'mcp-span check' finds out what answers there")
        }
        _ => None,
    }
}

/// What the program can do, for somebody who has typed nothing but its name; exit code 2.
pub(super) fn short_help() -> ExitCode {
    anstream::eprint!("{}", help::short(args::whole()).render_help().ansi());
    ExitCode::from(2)
}

/// Prints `text`, which is all that the command was for. Whoever closes the pipe has seen enough.
pub(super) fn print(text: &str) -> Result<(), io::Error> {
    print_with(|out| out.write_all(text.as_bytes()))
}

/// The same with what is never in memory as a whole.
pub(super) fn print_with(
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), io::Error> {
    let mut out = BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}

/// Words of others in their own lines.
pub(super) fn plain(text: &str) -> String {
    Untrusted(text).block()
}

/// As the parser colours them in its help.
const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const HINT: Style = AnsiColor::Green.on_default();

fn say(style: Style, label: &str, text: &str) {
    anstream::eprintln!("{style}{label}:{style:#} {}", plain(text));
}

/// What a person can do next; nothing with `--quiet`.
fn hint(text: &str) {
    if !output::is_quiet() {
        say(HINT, "hint", &text.replace('\n', "\n      "));
    }
}

/// The command has done its work, but something may be wrong; nothing with `--quiet`.
pub(super) fn warning(sentence: &str) {
    if !output::is_quiet() {
        say(WARNING, "warning", sentence);
    }
}

/// What a person may want to know, in words of its own; nothing with `--quiet`.
pub(super) fn note(sentence: &str) {
    if !output::is_quiet() {
        eprintln!("{}", plain(sentence));
    }
}

/// The result is printed, but it is a failure.
pub(super) fn error(sentence: &str) {
    say(ERROR, "error", sentence);
}

/// The program that the user has named cannot be started; exit code 2.
pub(super) fn cannot_start(error: &Error) -> ExitCode {
    failed(error);
    ExitCode::from(2)
}

/// What could not be done, why, and what to do next; exit code 1.
pub(super) fn failed(error: &Error) -> ExitCode {
    self::error(&with_reason(&error.message, error.reason.as_deref()));
    error.hint.iter().for_each(|text| hint(text));
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_others_neither_act_nor_turn() {
        assert_eq!(plain("a\u{1b}[2J\u{202e}b\u{2066}\nשלום"), "a[2Jb\nשלום");
    }

    #[test]
    fn exit_codes_tell_whose_turn_it_is() {
        let code = |kind, status| {
            let mut error = Error::new(kind, "x");
            error.status = status;
            CommandError::from(error).code()
        };
        assert_eq!(code(ErrorKind::Connect, None), 3);
        assert_eq!(code(ErrorKind::Spawn, None), 3);
        assert_eq!(code(ErrorKind::Timeout, None), 3);
        assert_eq!(code(ErrorKind::Status, Some(500)), 3);
        assert_eq!(code(ErrorKind::Status, Some(401)), 4);
        assert_eq!(code(ErrorKind::Login, None), 4);
        assert_eq!(code(ErrorKind::BadUrl, None), 2);
        assert_eq!(CommandError::from(Usage::new("x")).code(), 2);
    }
}
