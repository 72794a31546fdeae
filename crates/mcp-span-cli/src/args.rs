//! What was typed: the flags of a connection, their environment variables and their help texts.

use std::cmp::Ordering;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;

use clap::builder::{FalseyValueParser, Resettable, Str};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, CommandFactory, FromArgMatches, Subcommand, ValueEnum};

use super::commands::{Cli, Command};
use super::config_file::{ConfigFile, File};
use super::credentials;
use super::explore;
use super::help;
use super::link::Link;
use super::logging::Log;
use super::oauth::OAuth;
use super::output::flags::with_flags;
use super::proxy::Proxy;
use super::target::is_url;
use super::tls::Tls;
use mcp_span::config::Entry;

/// What was typed, and where each value came from.
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
    let command = if is_short { help::short(whole()) } else { whole() };
    let error = command.try_get_matches_from(args).err()?;
    matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion).then_some(error)
}

/// The subcommand that was typed, by what was typed alone: no variable and no file has a say.
pub(super) fn parse_typed_alone(args: &[OsString]) -> Result<Command, clap::Error> {
    let command = whole().mut_args(|arg| arg.env(Resettable::Reset));
    let matches = command.try_get_matches_from(args)?;
    Command::from_arg_matches(&matches)
}

/// Reads the command line, with defaults from the configuration file. A variable that is empty
/// counts as one that is not set: clients pass on whatever was left blank in a form.
pub(super) fn parse(
    args: impl IntoIterator<Item = OsString>,
    command: clap::Command,
    file: &ConfigFile,
    lookup: impl Fn(&OsStr) -> Option<OsString> + Copy,
) -> Result<Parsed, clap::Error> {
    let mut command = file.apply(without_empty(command, lookup));
    let matches = command.try_get_matches_from_mut(args)?;
    let mut cli = Cli::from_arg_matches(&matches)?;
    let deepest = matches.subcommand().map_or(&matches, |(_, matches)| matches);
    if let Some(target) = cli.target_mut() {
        let variable = lookup(OsStr::new("MCP_SPAN_URL")).and_then(|url| url.into_string().ok());
        let is_server = |word: &str| is_url(word) || file.servers.has(word);
        target.find_server(deepest, variable.filter(|url| !url.is_empty()), is_server);
        target.connect.log.is_for_program = target.json;
    }
    let connect = cli.connect_mut();
    connect.explicit = Explicit {
        headers: is_explicit(deepest, "headers"),
        header_file: is_explicit(deepest, "header_file"),
        credentials: connect.credentials.keep_explicit(deepest),
    };
    connect.tls.keep_explicit(deepest);
    connect.proxy.note_places(deepest);
    // The variable is read elsewhere: it holds many headers in one.
    let has_variable = lookup(OsStr::new("MCP_SPAN_HEADER")).is_some_and(|v| !v.is_empty());
    if has_variable && !is_explicit(deepest, "headers") {
        connect.headers.clear();
    }
    connect.take_program(rank(deepest, "url"));
    // What stands in a stronger place wins, also under another name.
    match rank(deepest, "url").cmp(&rank(deepest, "mcp_hub")) {
        Ordering::Greater => connect.mcp_hub = None,
        Ordering::Less => connect.url = None,
        Ordering::Equal => {}
    }
    if rank(deepest, "log_level") > rank(deepest, "verbose") {
        connect.log.verbose = false;
    }
    Ok(Parsed { cli, command, matches })
}

/// Whether the command line is about the server at `url`, or names none: what other programs have
/// for one server is no business of others.
pub(super) fn is_about(
    args: &[OsString],
    command: &clap::Command,
    file: &ConfigFile,
    url: Option<&str>,
) -> bool {
    let lookup = |name: &OsStr| std::env::var_os(name);
    let parsed = parse(args.to_vec(), command.clone(), file, lookup);
    parsed.is_ok_and(|mut parsed| {
        let is_demo = matches!(parsed.cli.command, Some(Command::Demo(_)));
        let connect = parsed.cli.connect_mut();
        let typed = connect.url.as_deref();
        !is_demo
            && connect.mcp_hub.is_none()
            && connect.program.is_empty()
            && (typed.is_none() || typed == url)
    })
}

/// The value that stands for the hub of this machine.
pub(super) const LOCAL_HUB: &str = "local";

/// How strong the place is that a value stands in.
fn rank(matches: &ArgMatches, id: &str) -> u8 {
    match source(matches, id) {
        Some(ValueSource::CommandLine) => 3,
        Some(ValueSource::EnvVariable) => 2,
        Some(_) => 1,
        None => 0,
    }
}

/// Where a value came from; `None` if there is none.
pub(super) fn source(matches: &ArgMatches, id: &str) -> Option<ValueSource> {
    matches.try_contains_id(id).is_ok().then(|| matches.value_source(id)).flatten()
}

/// Whether it was typed or is in the environment, rather than in the file or built in.
pub(super) fn is_explicit(matches: &ArgMatches, id: &str) -> bool {
    matches!(source(matches, id), Some(ValueSource::CommandLine | ValueSource::EnvVariable))
}

fn without_empty(
    command: clap::Command,
    lookup: impl Fn(&OsStr) -> Option<OsString> + Copy,
) -> clap::Command {
    let is_empty = |arg: &Arg| arg.get_env().and_then(lookup).is_some_and(|value| value.is_empty());
    // A look costs less than to make all of them anew, which is seldom needed.
    let has_empty = command.get_arguments().any(is_empty);
    let reset = |arg: Arg| if is_empty(&arg) { arg.env(Resettable::Reset) } else { arg };
    let command = if has_empty { command.mut_args(reset) } else { command };
    command.mut_subcommands(|command| without_empty(command, lookup))
}

/// There is one server, in whatever way it is named.
pub(super) const TWO_SERVERS: &str =
    "there are two servers: one by its URL or name, and a command after '--'; one is enough";

impl Connect {
    /// Whether a server is named, be it in a variable.
    pub(super) fn names_server(&self) -> bool {
        self.url.is_some()
            || self.mcp_hub.is_some()
            || self.server.is_some()
            || !self.program.is_empty()
    }

    /// A command that was typed beats a URL that was not.
    fn take_program(&mut self, url: u8) {
        if let [word] = &self.program[..]
            && let Some(word) = word.to_str().filter(|word| is_url(word))
        {
            // Others have nothing but the URL behind `--`.
            self.url = Some(word.to_owned());
            self.program.clear();
        } else if !self.program.is_empty() && url < 3 {
            self.url = None;
            self.mcp_hub = None;
        }
    }
}

#[derive(Args)]
pub(super) struct Connect {
    /// The MCP endpoint of the server, or its name in the configuration file
    #[arg(env = "MCP_SPAN_URL", hide_env_values = true)]
    pub(super) url: Option<String>,

    /// The transport: auto, http or sse
    ///
    /// auto finds out by itself. The names that mcp-remote has are understood as well.
    #[arg(long, value_name = "TRANSPORT", env = "MCP_SPAN_TRANSPORT", default_value = "auto")]
    pub(super) transport: Transport,

    /// The server speaks HTTP+SSE, as mcp-hub does (the same as --transport sse)
    #[arg(long, env = "MCP_SPAN_MCP_HUB_MODE", value_parser = FalseyValueParser::new())]
    pub(super) mcp_hub_mode: bool,

    /// Connect to the mcp-hub at URL or, without one, to the one that runs on this machine (`local`)
    #[arg(
        long,
        value_name = "URL",
        env = "MCP_SPAN_MCP_HUB",
        hide_env_values = true,
        num_args = 0..=1,
        default_missing_value = LOCAL_HUB
    )]
    pub(super) mcp_hub: Option<String>,

    /// Send a header with every request: 'Name: value'
    ///
    /// ${VAR} is replaced from the environment. May be given several times; MCP_SPAN_HEADER holds
    /// one header a line.
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    pub(super) headers: Vec<String>,

    /// Read headers from a file, one 'Name: value' a line; '#' begins a comment
    #[arg(long, value_name = "FILE", env = "MCP_SPAN_HEADER_FILE")]
    pub(super) header_file: Option<PathBuf>,

    #[command(flatten)]
    pub(super) credentials: credentials::Flags,

    #[command(flatten)]
    pub(super) oauth: OAuth,

    /// Allow plain http to a host that is not this machine
    #[arg(long, env = "MCP_SPAN_ALLOW_HTTP", value_parser = FalseyValueParser::new())]
    pub(super) allow_http: bool,

    #[command(flatten)]
    pub(super) tls: Tls,

    #[command(flatten)]
    pub(super) proxy: Proxy,

    #[command(flatten)]
    pub(super) link: Link,

    #[command(flatten)]
    pub(super) file: File,

    #[command(flatten)]
    pub(super) log: Log,

    /// Start this command and connect to its stdin and stdout
    #[arg(last = true, value_name = "COMMAND", help_heading = Resettable::<Str>::Reset)]
    pub(super) program: Vec<OsString>,

    /// The server of the configuration file that `url` names.
    #[arg(skip)]
    pub(super) server: Option<Arc<Entry>>,

    /// Why `url`, which is no URL, is not a name either.
    #[arg(skip)]
    pub(super) no_name: Option<String>,

    /// What stands in a place that beats the configuration file.
    #[arg(skip)]
    pub(super) explicit: Explicit,
}

/// Settings that were typed or are in the environment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Explicit {
    pub(super) headers: bool,
    pub(super) header_file: bool,
    pub(super) credentials: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Transport {
    /// Streamable HTTP, or HTTP+SSE where the server refuses that
    #[value(aliases = ["http-first", "sse-first"])]
    Auto,
    /// Streamable HTTP only
    #[value(aliases = ["http-only", "streamable-http", "streamablehttp"])]
    Http,
    /// HTTP+SSE only, with its two endpoints
    #[value(alias = "sse-only")]
    Sse,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use mcp_span::config::{SETTINGS, Sort};

    #[test]
    fn every_flag_has_a_variable() {
        // Read elsewhere (header), or about one run (the rest).
        let others = ["header", "no-config", "help", "version", "program"];
        for command in [whole(), Connect::augment_args(clap::Command::new("x"))] {
            for arg in command.get_arguments() {
                let name = arg.get_long().unwrap_or_else(|| arg.get_id().as_str());
                let is_named =
                    arg.get_env().is_some_and(|env| env.to_string_lossy().starts_with("MCP_SPAN_"));
                assert!(is_named || others.contains(&name), "{name}");
            }
        }
    }

    #[test]
    fn every_flag_can_be_set_for_one_server() {
        // Those that say who the server is, and those about the file or the run.
        let others = ["header", "timeout", "transport", "mcp-hub", "config", "no-config"];
        let sort = |arg: &Arg| match arg.get_action() {
            clap::ArgAction::Append => Sort::Many,
            action if action.takes_values() => Sort::One,
            _ => Sort::Switch,
        };
        let command = Connect::augment_args(clap::Command::new("x"));
        let flags = command.get_arguments().filter_map(|arg| Some((arg.get_long()?, sort(arg))));
        let flags: BTreeMap<_, _> = flags.filter(|(long, _)| !others.contains(long)).collect();
        assert_eq!(flags, SETTINGS.into_iter().collect());
    }

    #[test]
    fn the_definition_is_sound() {
        whole().debug_assert();
    }
}
