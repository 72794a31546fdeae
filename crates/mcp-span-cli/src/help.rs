//! What `-h` shows: commands in groups, and the options that people use. `--help` has all of it.

use std::collections::BTreeSet;

use clap::builder::{Resettable, Str};
use clap::{Arg, Args, Command};

use super::args::Connect;

/// The commands, as people look for them.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Connect", &["connect", "demo"]),
    ("Explore", &["tools", "resources", "prompts", "call", "read", "prompt", "raw"]),
    ("Diagnose", &["check", "trace"]),
    ("Accounts", &["login", "logout", "status"]),
    ("Set up", &["install", "uninstall", "config", "completions", "man"]),
];

/// The options for a connection that people use; `--color` and `--quiet` are shown with them.
const USUAL: [&str; 10] = [
    "header",
    "bearer-env",
    "transport",
    "timeout",
    "ignore-tool",
    "proxy",
    "config",
    "verbose",
    "help",
    "version",
];

/// Those of them that mean something to commands about logins.
const ABOUT_LOGINS: [&str; 5] = ["profile", "proxy", "ca-cert", "config", "help"];

/// The same commands with the help of `-h`.
pub(super) fn short(command: Command) -> Command {
    let connect = Connect::augment_args(Command::new("mcp-span"));
    let shared: BTreeSet<String> =
        connect.get_arguments().map(|arg| arg.get_id().to_string()).collect();
    let template = template(&command);
    let usage = "mcp-span [OPTIONS] <URL | NAME>\n       mcp-span [OPTIONS] -- COMMAND [ARGS]…";
    command
        .mut_subcommands(|command| {
            let usual = match command.get_name() {
                "login" | "logout" | "status" => &ABOUT_LOGINS[..],
                _ => &USUAL,
            };
            let more = format!("More: mcp-span {} --help", command.get_name());
            command.mut_args(|arg| short_arg(arg, &shared, usual)).after_help(more)
        })
        .mut_args(|arg| short_arg(arg, &shared, &USUAL))
        .override_usage(usage)
        .help_template(template)
        .after_help("More: mcp-span --help, mcp-span <COMMAND> -h")
}

/// An option as `-h` shows it: without its variable, below no heading of its own; hidden, if it is
/// one of a connection's (which `shared` has) that few people need.
fn short_arg(arg: Arg, shared: &BTreeSet<String>, usual: &[&str]) -> Arg {
    let long = arg.get_long().map(str::to_owned);
    let is_usual = long.is_none_or(|long| usual.contains(&&*long));
    let is_hidden = shared.contains(arg.get_id().as_str()) && !is_usual;
    let takes_value = arg.get_action().takes_values();
    let arg = arg.hide_env(true).hide_possible_values(takes_value).hide_default_value(takes_value);
    let arg = arg.help_heading(Resettable::<Str>::Reset);
    if is_hidden { arg.hide(true) } else { arg }
}

/// Usage, groups of commands, options.
fn template(command: &Command) -> String {
    let style = command.get_styles();
    let (header, literal) = (style.get_header(), style.get_literal());
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n\n");
    for (title, names) in GROUPS {
        text += &format!("{header}{title}:{header:#}\n");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            text += &format!("  {literal}{name:<11}{literal:#}  {about}\n");
        }
    }
    text + &format!("\n{header}Options:{header:#}\n{{options}}{{after-help}}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::whole;

    #[test]
    fn every_command_is_in_one_group() {
        let whole = whole();
        let all: BTreeSet<&str> = whole.get_subcommands().map(Command::get_name).collect();
        let grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        assert_eq!(grouped.iter().copied().collect::<BTreeSet<_>>(), all);
        assert_eq!(grouped.len(), all.len());
    }

    #[test]
    fn short_help_is_short_and_all_that_it_names_is_there() {
        let mut short = short(whole());
        short.build();
        for name in USUAL.iter().chain(&ABOUT_LOGINS) {
            let is_it = |arg: &Arg| arg.get_long() == Some(name);
            assert!(short.get_arguments().any(is_it), "{name}");
        }
        for command in [&mut short.clone()].into_iter().chain(short.get_subcommands_mut()) {
            let text = command.clone().term_width(80).render_help().to_string();
            assert!(text.lines().count() <= 45, "{}: {}", text.lines().count(), text);
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
            assert!(!text.contains("MCP_SPAN_"), "{text}");
        }
    }
}
