//! `mcp-span completions` and `mcp-span man`: the command line, told to shells and to readers.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use clap_complete::aot::{Shell, generate};
use clap_mangen::Man;
use mcp_span::NAME;

use super::args;
use super::candidates::{self, Candidate, Offer};
use super::tool_names::ToolNames;
use super::{Failure, environment, report};
use mcp_span::options::Variables;

/// What scripts for shells call.
const COMPLETE: &str = "__complete";

/// The exit code that leaves it to the shell to complete the name of a file.
const FILES: u8 = 10;

const EXIT_CODES: [(&str, &str); 6] = [
    ("0", "All went well."),
    (
        "1",
        "Something unexpected; a tool or the server answered with an error; check --strict: warnings.",
    ),
    ("2", "Wrong usage or configuration."),
    ("3", "The server was not to be had, or broke off; check: something failed."),
    ("4", "The server wants a login or other credentials."),
    ("130", "A command was ended by Ctrl-C."),
];

#[derive(Args, Debug)]
pub(super) struct Completions {
    /// The shell that is to complete our command lines
    shell: Shell,
}

/// A script for the shell, on stdout.
///
/// Those that are in use most ask the program; the others are told all that there is.
pub(super) fn run(typed: &Completions) -> Result<ExitCode, Failure> {
    let asking = match typed.shell {
        Shell::Bash => Some(include_str!("completions/bash.sh")),
        Shell::Zsh => Some(include_str!("completions/zsh.zsh")),
        Shell::Fish => Some(include_str!("completions/fish.fish")),
        _ => None,
    };
    match asking {
        Some(script) => report::print(script)?,
        None => {
            let mut script = Vec::new();
            generate(typed.shell, &mut args::documented(), NAME, &mut script);
            report::print(&String::from_utf8_lossy(&script))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What a script of ours calls: `__complete INDEX -- WORDS`, where the word with that index is the one
/// that is typed. Nothing is connected to, and nothing is said but what may stand there.
pub(super) fn complete(typed: &[OsString]) -> Option<Result<ExitCode, Failure>> {
    typed.get(1).filter(|word| *word == COMPLETE)?;
    Some(offer(typed.get(2..).unwrap_or_default()))
}

fn offer(typed: &[OsString]) -> Result<ExitCode, Failure> {
    let text = |word: &OsString| word.to_string_lossy().into_owned();
    let index: Option<usize> = typed.first().and_then(|index| index.to_str()?.parse().ok());
    let (Some(index), Some(words)) = (index, typed.get(2..)) else {
        return Ok(ExitCode::from(2));
    };
    // The program's own name, and what stands behind the cursor, have no say.
    let mut words: Vec<String> = words.iter().take(index.saturating_add(1)).map(text).collect();
    if words.len() <= index {
        words.push(String::new());
    }
    let (before, current) = candidates::as_typed(words.get(1..).unwrap_or_default());
    let mut command = args::whole();
    let servers = servers(&before);
    command.build();
    match candidates::offer(&command, &before, &current, &servers, tools) {
        Offer::Files => Ok(ExitCode::from(FILES)),
        Offer::Words(all) => {
            let line = |one: &Candidate| format!("{}\t{}\n", one.word, one.about);
            report::print(&all.iter().map(line).collect::<String>())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The names of the tools that the server had when it was last asked for them.
fn tools(server: &str) -> Vec<String> {
    let variables = Variables::new(std::env::vars_os());
    let folder =
        variables.path("MCP_SPAN_STATE_DIR").or_else(|| environment::state_dirs(&variables).0);
    folder.map(|folder| ToolNames::new(&folder, server).load()).unwrap_or_default()
}

/// The names of servers; none if the file cannot be used, which is not said here.
fn servers(before: &[String]) -> Vec<String> {
    let words: Vec<OsString> = before.iter().map(OsString::from).collect();
    let file = super::config_file(&words).unwrap_or_default();
    file.servers.names().map(str::to_owned).collect()
}

/// The manual page, on stdout.
pub(super) fn man() -> Result<ExitCode, Failure> {
    let command = args::documented();
    let mut page = Vec::new();
    let man = Man::new(command.clone());
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    // The usual synopsis would list all the flags, of which most people need none.
    writeln!(page, ".SH SYNOPSIS\n\\fB{NAME}\\fR \\fIURL\\fR [\\fIOPTIONS\\fR]\n.br")?;
    writeln!(page, "\\fB{NAME}\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]")?;
    man.render_description_section(&mut page)?;
    // Nor does each command have a page of its own.
    writeln!(page, ".SH COMMANDS")?;
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let (name, about) = (escaped(command.get_name()), escaped(&about));
        writeln!(page, ".TP\n\\fB{name}\\fR\n{about}")?;
    }
    man.render_options_section(&mut page)?;
    // Only what is built knows how its arguments are written.
    let mut built = command.clone();
    built.build();
    let common: Vec<&str> = built.get_arguments().map(|arg| arg.get_id().as_str()).collect();
    let is_told = |command: &&clap::Command| !command.is_hide_set() && command.get_name() != "help";
    for command in built.get_subcommands().filter(is_told) {
        subcommand(command, &common, &mut page)?;
    }
    exit_codes(&mut page)?;
    man.render_extra_section(&mut page)?;
    man.render_version_section(&mut page)?;
    report::print(&String::from_utf8_lossy(&page))?;
    Ok(ExitCode::SUCCESS)
}

/// What a subcommand takes of its own; the flags that all of them share have been told already.
fn subcommand(command: &clap::Command, common: &[&str], page: &mut Vec<u8>) -> io::Result<()> {
    let is_own = |arg: &&clap::Arg| {
        !arg.is_hide_set() && (arg.is_positional() || !common.contains(&arg.get_id().as_str()))
    };
    let own: Vec<_> = command.get_arguments().filter(is_own).collect();
    let name = command.get_name();
    writeln!(page, ".SH {}", escaped(&format!("{NAME} {name}").to_uppercase()))?;
    let usage = command.clone().render_usage().to_string();
    // Each line of it is one way to write the command.
    for line in usage.trim_start_matches("Usage:").lines().map(str::trim) {
        writeln!(page, "\\fB{}\\fR\n.br", escaped(line))?;
    }
    for arg in own {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        writeln!(page, ".TP\n\\fB{}\\fR", escaped(&arg.to_string()))?;
        for line in help.lines().filter(|line| !line.trim().is_empty()) {
            writeln!(page, "\\&{}\n.br", escaped(line))?;
        }
    }
    if command
        .get_arguments()
        .any(|arg| !arg.is_positional() && common.contains(&arg.get_id().as_str()))
    {
        writeln!(page, ".PP\nTakes the options above as well.")?;
    }
    Ok(())
}

/// Part of the interface: programs go by them.
fn exit_codes(page: &mut Vec<u8>) -> io::Result<()> {
    writeln!(page, ".SH EXIT STATUS")?;
    for (code, meaning) in EXIT_CODES {
        writeln!(page, ".TP\n\\fB{code}\\fR\n{}", escaped(meaning))?;
    }
    Ok(())
}

/// Text as roff takes it literally; none of it begins with a point or a quote.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}
