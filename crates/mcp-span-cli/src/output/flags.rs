//! `--color` and `--quiet`: flags of every command, which may also stand before its name.

use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};

use anstream::ColorChoice;
use clap::builder::FalseyValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command};

const VARIABLES: [&str; 2] = ["MCP_SPAN_COLOR", "MCP_SPAN_QUIET"];

/// Like the choice of colours, which anstream keeps: there is one stderr.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Whether stderr is for errors alone: no progress, no warnings, no hints.
pub(crate) fn is_quiet() -> bool {
    IS_QUIET.load(Ordering::Relaxed)
}

/// The parser with both flags.
pub(crate) fn with_flags(command: Command) -> Command {
    let colour = Arg::new("color")
        .long("color")
        .value_name("WHEN")
        .env(VARIABLES[0])
        .default_value("auto")
        .value_parser(["auto", "always", "never"])
        .help("Use colours: auto, always or never");
    let quiet = Arg::new("quiet")
        .short('q')
        .long("quiet")
        .env(VARIABLES[1])
        .action(ArgAction::SetTrue)
        .value_parser(FalseyValueParser::new())
        .help("Print no progress, warnings or hints on stderr");
    command.args([colour.global(true), quiet.global(true)])
}

/// Does what the parser has found.
pub(crate) fn apply(matches: &ArgMatches) {
    // A part of the parser does without them.
    let colour = matches.try_get_one::<String>("color").ok().flatten();
    let quiet = matches.try_get_one::<bool>("quiet").ok().flatten();
    let colour = match colour.map(String::as_str) {
        Some("always") => ColorChoice::Always,
        Some("never") => ColorChoice::Never,
        _ => ColorChoice::Auto,
    };
    colour.write_global();
    IS_QUIET.store(quiet.copied().unwrap_or_default(), Ordering::Relaxed);
}

/// Does what was typed and what the variables say, since errors of the parser are to look like all
/// others, and gives the words with both flags behind all else: the parser knows no command behind
/// the flags of the program itself.
pub(crate) fn typed(words: Vec<OsString>) -> Vec<OsString> {
    let (mut own, mut others) = (Vec::new(), Vec::new());
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next_if(|word| word != "--") {
        match word.to_str() {
            Some("--color") => own.extend([word].into_iter().chain(words.next())),
            Some("-q" | "--quiet") => own.push(word),
            Some(text) if text.starts_with("--color=") => own.push(word),
            _ => others.push(word),
        }
    }
    // Most often there is nothing to parse, and a client waits for the start.
    if !own.is_empty() || VARIABLES.iter().any(|name| std::env::var_os(name).is_some()) {
        // What is wrong with them is found by the whole parser.
        let parser = with_flags(Command::new("flags").no_binary_name(true).ignore_errors(true));
        parser.try_get_matches_from(&own).iter().for_each(apply);
    }
    if others.get(1).is_some_and(|word| word == "help") {
        // The only command without any flag.
        own.clear();
    }
    others.into_iter().chain(own).chain(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_before_a_command_go_behind_it_and_those_of_a_program_stay() {
        let moved = |line: &str| {
            let words = line.split(' ').map(OsString::from).collect();
            let words = typed(words);
            words.join(" ".as_ref()).into_string().unwrap()
        };
        assert_eq!(moved("m -q --color never tools u"), "m tools u -q --color never");
        assert_eq!(moved("m --color=auto tools -- p -q"), "m tools --color=auto -- p -q");
        assert_eq!(moved("m tools --color"), "m tools --color");
        assert_eq!(moved("m -q help tools"), "m help tools");
        apply(&with_flags(Command::new("none")).get_matches_from(["none"]));
    }
}
