//! Errors for people, on stderr, and the exit code that goes with each.
#![expect(clippy::print_stderr, reason = "this is where the program speaks to a person")]

use std::ffi::OsString;
use std::io::{BufWriter, ErrorKind, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Subcommand};

use super::commands::{Cli, Command};
use super::look::nearest;
use super::{args, help};
use mcp_span::untrusted::Untrusted;

/// Something in the arguments, the environment or a file that the user can mend.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Usage(pub(super) String);

impl Usage {
    pub(super) fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

/// Arguments that the parser refused; it says itself what is wrong with them.
pub(super) fn bad_arguments(error: &clap::Error, typed: &[OsString], is_json: bool) -> ExitCode {
    if is_misplaced(error) {
        return usage(&Usage::new(misplaced(typed)), is_json);
    }
    if is_json && error.use_stderr() {
        let text = error.render().to_string();
        let sentence = text.lines().next().unwrap_or_default();
        return usage(&Usage::new(sentence.trim_start_matches("error: ")), is_json);
    }
    // `--help` and `--version` come this way, too, and go to stdout.
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS }
}

/// What the program can do, for somebody who has typed nothing but its name; exit code 2.
pub(super) fn short_help() -> ExitCode {
    anstream::eprint!("{}", help::short(args::whole()).render_help().ansi());
    ExitCode::from(2)
}

/// Whether the parser came upon a word for which there is no place.
fn is_misplaced(error: &clap::Error) -> bool {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let is_value = |kind| match error.get(kind) {
        Some(ContextValue::String(argument)) => !argument.starts_with('-'),
        _ => false,
    };
    match error.kind() {
        ErrorKind::UnknownArgument => is_value(ContextKind::InvalidArg),
        ErrorKind::ArgumentConflict => is_value(ContextKind::InvalidSubcommand),
        ErrorKind::InvalidSubcommand => true,
        _ => false,
    }
}

/// What was probably meant. A word that is not like a command is not repeated: it may be a header
/// with a token in it.
fn misplaced(typed: &[OsString]) -> String {
    let words = typed.iter().skip(1).take_while(|word| *word != "--");
    let words: Vec<&str> = words.filter_map(|word| word.to_str()).collect();
    let is_command = |word: &&&str| Command::has_subcommand(word);
    if let Some(command) = words.iter().skip(1).find(is_command) {
        return format!("the command goes before the URL: mcp-span {command} <URL>");
    }
    let first = words.first().filter(|first| !first.starts_with('-'));
    if let Some((first, command)) = first.and_then(|first| Some((first, nearest_command(first)?))) {
        return format!("there is no command '{first}'; is it '{command}'?");
    }
    "there is one argument too many: only the URL stands without a flag, and a header is written \
     --header 'Name: value'"
        .to_owned()
}

/// The command that was perhaps meant by a word.
pub(super) fn nearest_command(word: &str) -> Option<String> {
    let commands = Cli::command();
    let names: Vec<&str> = commands.get_subcommands().map(clap::Command::get_name).collect();
    nearest(word, names.into_iter()).filter(|name| *name != word).map(str::to_owned)
}

/// Prints `text`, which is all that the command was for. Whoever closes the pipe has seen enough.
pub(super) fn print(text: &str) -> Result<(), std::io::Error> {
    print_bytes(text.as_bytes())
}

/// The same with what may be no text.
pub(super) fn print_bytes(bytes: &[u8]) -> Result<(), std::io::Error> {
    print_with(|out| out.write_all(bytes))
}

/// The same with what is never in memory as a whole.
pub(super) fn print_with(
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), std::io::Error> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}

/// Words of others in their own lines.
pub(super) fn plain(text: &str) -> String {
    Untrusted(text).block()
}

/// A sentence, and exit code 2; an object for a program that has asked for JSON.
pub(super) fn usage(usage: &Usage, is_json: bool) -> ExitCode {
    if is_json {
        let error = serde_json::json!({"error": {"kind": "usage", "message": usage.0}});
        eprintln!("{}", Untrusted(&error.to_string()).json());
        return ExitCode::from(2);
    }
    eprintln!("mcp-span: {}", plain(&usage.0));
    eprintln!("Try 'mcp-span --help'.");
    ExitCode::from(2)
}

/// The program that the user has named cannot be started; exit code 2.
pub(super) fn cannot_start(error: &mcp_span::error::Error) -> ExitCode {
    failed(error, false);
    ExitCode::from(2)
}

/// What could not be done, why, and what to do next; exit code 1.
pub(super) fn failed(error: &mcp_span::error::Error, is_json: bool) -> ExitCode {
    let mcp_span::error::Error { kind, message, reason, hint, .. } = error;
    if is_json {
        let error = serde_json::json!({
            "error": {"kind": kind, "message": message, "reason": reason, "hint": hint}
        });
        eprintln!("{}", Untrusted(&error.to_string()).json());
        return ExitCode::FAILURE;
    }
    eprintln!("mcp-span: {}", plain(message));
    for more in reason.as_deref().into_iter().chain(hint.as_deref()) {
        eprintln!("  {}", plain(more));
    }
    ExitCode::FAILURE
}

/// Something that a person should know though the command has done its work.
pub(super) fn warning(sentence: &str) {
    eprintln!("mcp-span: {}", plain(sentence));
}

/// Says what options mean that somebody may not want: `--insecure` also to those who asked for errors
/// only.
pub(super) fn warn_of_options(options: &mcp_span::ServerOptions, is_https: bool) {
    const INSECURE: &str = "--insecure: the server's certificates are not checked, so anybody on the way to the \
                            server can read and change everything";
    if is_https && options.insecure == Some(true) {
        match tracing::enabled!(tracing::Level::WARN) {
            true => tracing::warn!("{INSECURE}"),
            false => tracing::error!("{INSECURE}"),
        }
    }
    if let Some(sentence) = options.vain_id_token() {
        tracing::warn!("{sentence}");
    }
}

/// What nobody expected, and exit code 1.
pub(super) fn unexpected(error: &std::io::Error) -> ExitCode {
    eprintln!("mcp-span: unexpected failure: {}", plain(&error.to_string()));
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_others_neither_act_nor_turn() {
        assert_eq!(plain("a\u{1b}[2J\u{202e}b\u{2066}\nשלום"), "a[2Jb\nשלום");
    }
}
