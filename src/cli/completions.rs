//! `mcp-span completions` and `mcp-span man`: the command line, told to shells and to readers.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use clap_complete::aot::{Shell, generate};
use clap_mangen::Man;

use super::{Failure, args, report};

const NAME: &str = env!("CARGO_PKG_NAME");

#[derive(Args, Debug)]
pub(super) struct Completions {
    /// The shell that is to complete our command lines
    shell: Shell,
}

/// A script for the shell, on stdout.
pub(super) fn run(typed: &Completions) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    generate(typed.shell, &mut args::whole(), NAME, &mut script);
    report::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// The manual page, on stdout.
pub(super) fn man() -> Result<ExitCode, Failure> {
    let command = args::whole();
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
    man.render_extra_section(&mut page)?;
    man.render_version_section(&mut page)?;
    report::print(&String::from_utf8_lossy(&page))?;
    Ok(ExitCode::SUCCESS)
}

/// Text as roff takes it literally; none of it begins with a point or a quote.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}
