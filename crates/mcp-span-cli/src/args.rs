//! What was typed: the flags of a connection, made of the table of options.

use std::ffi::OsString;
use std::sync::Arc;

use clap::builder::{PossibleValue, PossibleValuesParser, Resettable, Str, StringValueParser};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{
    Arg, ArgAction, ArgMatches, Args, CommandFactory, FromArgMatches, Subcommand, ValueHint,
};

use super::Failure;
use super::commands::{Cli, Command};
use super::config_file::File;
use super::explore;
use super::help;
use super::output::flags::with_flags;
use super::report::Usage;
use super::target::is_url;
use mcp_span::ServerOptions;
use mcp_span::config::ConfigEntry;
use mcp_span::options::{Given, Group, OPTIONS, OptionInfo, Origin, ValueKind};

/// What was typed, and the parser that has read it.
pub(super) struct Parsed {
    pub(super) cli: Cli,
    pub(super) command: clap::Command,
    pub(super) matches: ArgMatches,
}

/// The parser. All that the subcommands know takes its time to make; who just names a URL, as every
/// client does, does not pay for it.
pub(super) fn command(args: &[OsString]) -> clap::Command {
    let is_special = |arg: &OsString| {
        matches!(arg.to_str(), Some("-h" | "--help" | "-V" | "--version" | "help"))
            || Command::has_subcommand(arg.to_str().unwrap_or_default())
    };
    if args.len() < 2 || args.iter().skip(1).any(is_special) {
        return whole();
    }
    with_flags(Connect::augment_args(clap::Command::new("mcp-span")))
}

/// The parser with all subcommands, each as it is described where it is done.
pub(super) fn whole() -> clap::Command {
    explore::args::described(with_flags(Cli::command()))
}

/// The same with what only people want to know: variables and defaults.
pub(super) fn documented() -> clap::Command {
    fn with_more(command: clap::Command) -> clap::Command {
        let more = |arg: Arg| {
            let Some(option) = mcp_span::options::find(arg.get_id().as_str()) else { return arg };
            let arg = arg.env(option.variable()).hide_env_values(true);
            match (option.default)() {
                Some(default) => arg.default_value(default),
                None => arg,
            }
        };
        command.mut_args(more).mut_subcommands(with_more)
    }
    explore::args::documented(with_more(whole()))
}

/// Help or the version, if that was asked for. A configuration file or a variable that is wrong does
/// not stand in its way.
pub(super) fn help(args: &[OsString]) -> Option<clap::Error> {
    let is_help = |arg: &OsString| {
        matches!(arg.to_str(), Some("-h" | "--help" | "-V" | "--version" | "help"))
    };
    if !args.iter().skip(1).any(is_help) {
        return None;
    }
    let is_short = args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "-h");
    let command = if is_short { help::short(whole()) } else { documented() };
    let error = command.try_get_matches_from(args).err()?;
    matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion).then_some(error)
}

/// The subcommand that was typed, by what was typed alone: no variable has a say.
pub(super) fn parse_typed_alone(args: &[OsString]) -> Result<Command, clap::Error> {
    let command = whole().mut_args(|arg| arg.env(Resettable::Reset));
    let matches = command.try_get_matches_from(args)?;
    Command::from_arg_matches(&matches)
}

/// Reads the command line.
pub(super) fn parse(
    args: impl IntoIterator<Item = OsString>,
    mut command: clap::Command,
) -> Result<Parsed, Failure> {
    let matches = command.try_get_matches_from_mut(args)?;
    let mut cli = Cli::from_arg_matches(&matches)?;
    let deepest = matches.subcommand().map_or(&matches, |(_, matches)| matches);
    *cli.connect_mut() = Connect::read(deepest)?;
    Ok(Parsed { cli, command, matches })
}

/// Whether it was typed.
pub(super) fn is_typed(matches: &ArgMatches, id: &str) -> bool {
    let is_there = matches.try_contains_id(id).is_ok();
    is_there && matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// There is one server, in whatever way it is named.
pub(super) const TWO_SERVERS: &str =
    "there are two servers: one by its URL or name, and a command after '--'; one is enough";

/// The value that stands for the hub of this machine.
pub(super) const LOCAL_HUB: &str = "local";

/// A connection: what was typed about it, and later what other places say as well.
#[derive(Clone, Default)]
pub(super) struct Connect {
    pub(super) options: ServerOptions,
    /// The server of the configuration file that was named.
    pub(super) entry: Option<Arc<ConfigEntry>>,
    /// Why the URL, which is none, is not a name either.
    pub(super) no_name: Option<String>,
    /// The way back is pasted: `mcp-span login --paste`.
    pub(super) is_pasted: bool,
    /// A person waits for the login, and can end it: `mcp-span login`.
    pub(super) is_attended: bool,
    /// A program reads errors as JSON on stderr: without any word of the user's, nothing is logged.
    pub(super) is_for_program: bool,
}

const ALL_GROUPS: [Group; 8] = [
    Group::Server,
    Group::Connection,
    Group::Network,
    Group::Credentials,
    Group::Login,
    Group::AdvancedLogin,
    Group::Certificates,
    Group::Logging,
];

impl Args for Connect {
    fn augment_args(command: clap::Command) -> clap::Command {
        with_program(with_options(command, &ALL_GROUPS))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

/// Its values are read by `parse`, where a wrong one is not the parser's to explain.
impl FromArgMatches for Connect {
    fn from_arg_matches(_: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self::default())
    }

    fn update_from_arg_matches(&mut self, _: &ArgMatches) -> Result<(), clap::Error> {
        Ok(())
    }
}

impl Connect {
    /// What was typed.
    pub(super) fn read(matches: &ArgMatches) -> Result<Self, Usage> {
        let mut options = typed_options(matches)?;
        let program = matches.try_get_many::<OsString>("program").ok().flatten();
        let program: Vec<OsString> = program.into_iter().flatten().cloned().collect();
        match &program[..] {
            [] => {}
            // Others have nothing but the URL behind `--`.
            [word] if word.to_str().is_some_and(is_url) => {
                options.url = word.to_str().map(str::to_owned);
            }
            _ => options.command = Some(program),
        }
        Ok(Self { options, ..Self::default() })
    }
}

/// A connection of which only some groups of options mean something to the command.
macro_rules! some_groups {
    ($($(#[$attribute:meta])* $name:ident: $($group:ident),+;)+) => { $(
        $(#[$attribute])*
        #[derive(Clone, Default)]
        pub(super) struct $name(pub(super) Connect);

        impl Args for $name {
            fn augment_args(command: clap::Command) -> clap::Command {
                with_options(command, &[$(Group::$group),+])
            }

            fn augment_args_for_update(command: clap::Command) -> clap::Command {
                Self::augment_args(command)
            }
        }

        impl FromArgMatches for $name {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
                Ok(Self(Connect::from_arg_matches(matches)?))
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
                self.0.update_from_arg_matches(matches)
            }
        }
    )+ };
}

some_groups! {
    /// For commands about logins.
    Account: Server, Network, Credentials, Login, AdvancedLogin, Certificates, Logging;
    /// For the embedded server, of which all else is known.
    Demo: Connection, Logging;
    /// For a process that was started for a login.
    Logging: Logging;
}

fn with_options(command: clap::Command, groups: &[Group]) -> clap::Command {
    let options = OPTIONS.iter().filter(|option| groups.contains(&option.group));
    File::augment_args(command.args(options.map(arg))).next_help_heading(None)
}

fn with_program(command: clap::Command) -> clap::Command {
    command.arg(
        Arg::new("program")
            .last(true)
            .num_args(1..)
            .value_name("COMMAND")
            .value_parser(clap::value_parser!(OsString))
            .help("Start this command and connect to its stdin and stdout"),
    )
}

/// The flag for an option; the URL has none.
pub(super) fn arg(option: &OptionInfo) -> Arg {
    let mut paragraphs = option.help.split(|line| line.is_empty());
    let text = |lines: &[&str]| lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
    let help = paragraphs.next().map(text).unwrap_or_default();
    let more = paragraphs.map(text).fold(help.clone(), |help, more| help + "\n\n" + &more);
    let action = match option.kind {
        ValueKind::Switch => ArgAction::SetTrue,
        ValueKind::Many | ValueKind::Paths => ArgAction::Append,
        ValueKind::One | ValueKind::Path => ArgAction::Set,
    };
    let arg = Arg::new(option.name).help(help).action(action);
    if option.name == "url" {
        return arg
            .value_name("URL")
            .help("The MCP endpoint of the server, or its name in the configuration file");
    }
    let mut arg = arg
        .long(option.name)
        .short(option.short.map_or(Resettable::Reset, Resettable::from))
        .help_heading(
            option
                .group
                .heading()
                .map_or(Resettable::Reset, |name| Resettable::from(Str::from(name))),
        );
    if more.len() > option.help.first().map_or(0, |line| line.trim().len()) {
        arg = arg.long_help(more);
    }
    if let Some(alias) = option.alias {
        arg = arg.visible_alias(alias);
    }
    if option.name == "verbose" {
        // Many programs have more for -vv; here all there is comes with the first.
        arg = arg.overrides_with("verbose");
    }
    if option.kind == ValueKind::Switch {
        return arg;
    }
    arg = arg.value_name(option.value_name).allow_negative_numbers(true);
    if matches!(option.kind, ValueKind::Path | ValueKind::Paths) {
        arg = arg.value_hint(ValueHint::AnyPath);
    }
    if let Some(bare) = option.bare {
        arg = arg.num_args(0..=1).default_missing_value(bare);
        arg = arg.require_equals(option.name == "no-proxy");
    }
    if option.choices.is_empty() {
        return arg.value_parser(StringValueParser::new());
    }
    let value = |(names, help): &(&'static [&'static str], &'static str)| {
        let value = PossibleValue::new(names[0]).aliases(&names[1..]);
        if help.is_empty() { value } else { value.help(*help) }
    };
    arg.ignore_case(true).value_parser(PossibleValuesParser::new(option.choices.iter().map(value)))
}

/// What the flags say.
fn typed_options(matches: &ArgMatches) -> Result<ServerOptions, Usage> {
    let mut options = ServerOptions::default();
    for option in OPTIONS.iter().filter(|option| is_typed(matches, option.name)) {
        let texts: Vec<String> = match option.kind {
            ValueKind::Switch => Vec::new(),
            _ => matches.get_many(option.name).into_iter().flatten().cloned().collect(),
        };
        let given = match (option.kind, &texts[..]) {
            (ValueKind::Switch, _) => Given::Switch(true),
            (ValueKind::One | ValueKind::Path, [text, ..]) => Given::Text(text),
            (_, texts) => Given::List(texts),
        };
        let set = options.set(option, given, Origin::Flag);
        set.map_err(|why| Usage::new(invalid(option, &Origin::Flag, given, &why)))?;
    }
    Ok(options)
}

/// What is wrong with the value of an option.
pub(super) fn invalid(
    option: &'static OptionInfo,
    origin: &Origin,
    given: Given<'_>,
    why: &str,
) -> String {
    let label = origin.label(option);
    match given {
        Given::Text(text) if !option.is_secret => {
            format!("invalid value '{}' for {label}: {why}", text.escape_debug())
        }
        _ => format!("invalid value for {label}: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_of_a_connection_is_an_option_and_the_other_way_round() {
        let command = Connect::augment_args(clap::Command::new("x"));
        let flags: Vec<&str> = command.get_arguments().filter_map(Arg::get_long).collect();
        let is_about_the_run = |flag: &&&str| !["config", "no-config"].contains(flag);
        let flags: Vec<&str> = flags.iter().filter(is_about_the_run).copied().collect();
        let options = OPTIONS.iter().map(|option| option.name).filter(|name| *name != "url");
        assert_eq!(flags, options.collect::<Vec<_>>());
    }

    #[test]
    fn help_names_the_variable_of_every_option() {
        let command = documented();
        let connect = command.find_subcommand("connect").unwrap();
        for arg in connect.get_arguments() {
            let name = arg.get_id().as_str();
            let is_about_the_run = ["help", "version", "program", "no_config"].contains(&name);
            assert!(is_about_the_run || arg.get_env().is_some(), "{name}");
        }
    }

    #[test]
    fn the_definition_is_sound() {
        whole().debug_assert();
        documented().debug_assert();
    }
}
