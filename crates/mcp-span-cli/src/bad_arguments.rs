//! What the parser says of wrong arguments, in the style of all other errors, with what was meant.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Error, Subcommand};

use super::commands::{Cli, Command};
use super::nearest::nearest;
use super::report::Usage;

/// What the parser found, in the style of all other errors.
pub(super) fn explain(error: &Error, typed: &[OsString]) -> Usage {
    let words = typed.iter().skip(1).take_while(|word| *word != "--");
    let words: Vec<&str> = words.filter_map(|word| word.to_str()).collect();
    if is_misplaced(error) {
        return misplaced(&words);
    }
    let text = error.render().to_string();
    // Tips, usage and a pointer to the help follow, each in a paragraph of its own.
    let message = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
    let kinds =
        [ContextKind::SuggestedArg, ContextKind::SuggestedValue, ContextKind::SuggestedSubcommand];
    let meant = kinds.into_iter().find_map(|kind| match error.get(kind)? {
        ContextValue::String(meant) => Some(meant),
        ContextValue::Strings(all) => all.first(),
        _ => None,
    });
    let command = words.iter().find(|word| Command::has_subcommand(word));
    if let Some(usage) = of_another_command(error, command.copied()) {
        return usage;
    }
    let command = command.map_or_else(String::new, |command| format!(" {command}"));
    Usage::new(message).hint(match meant {
        Some(meant) => format!("did you mean '{meant}'?"),
        None => format!("see 'mcp-span{command} --help'"),
    })
}

/// A flag that means nothing to this command, and the commands that it is for.
fn of_another_command(error: &Error, command: Option<&str>) -> Option<Usage> {
    let ContextValue::String(flag) = error.get(ContextKind::InvalidArg)? else { return None };
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let flag = flag.split('=').next()?;
    let cli = Cli::command();
    let takes = |command: &&clap::Command| {
        let mut flags = command
            .get_arguments()
            .flat_map(|arg| arg.get_long_and_visible_aliases().into_iter().flatten());
        flags.any(|long| Some(long) == flag.strip_prefix("--"))
    };
    let takers: Vec<&str> =
        cli.get_subcommands().filter(takes).map(clap::Command::get_name).collect();
    let command = command.map_or_else(|| "mcp-span URL".to_owned(), |name| format!("'{name}'"));
    let usage = Usage::new(format!("{flag} does not apply to {command}"));
    (!takers.is_empty()).then(|| usage.hint(format!("it is for {}", takers.join(", "))))
}

/// Whether the parser came upon a word for which there is no place.
fn is_misplaced(error: &Error) -> bool {
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
fn misplaced(words: &[&str]) -> Usage {
    if let Some(command) = words.iter().skip(1).find(|word| Command::has_subcommand(word)) {
        let message = format!("the command '{command}' must stand before the URL");
        return Usage::new(message).hint(format!("write 'mcp-span {command} <URL>'"));
    }
    let first = words.first().copied().unwrap_or_default();
    match nearest_command(first) {
        Some(command) => Usage::new(format!("unknown command '{first}'"))
            .hint(format!("did you mean '{command}'?")),
        None => Usage::new("there is one argument too many: only the URL stands without a flag")
            .hint("write a header as --header 'Name: value'"),
    }
}

/// The command that was perhaps meant by a word.
pub(super) fn nearest_command(word: &str) -> Option<String> {
    let commands = Cli::command();
    let names: Vec<&str> = commands.get_subcommands().map(clap::Command::get_name).collect();
    nearest(word, names.into_iter()).filter(|name| *name != word).map(str::to_owned)
}
