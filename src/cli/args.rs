//! What was typed: the flags, their environment variables and their help texts.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{FalseyValueParser, Resettable};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, FromArgMatches, Parser, Subcommand, ValueEnum};

use super::config_file::ConfigFile;
use super::oauth::OAuth;
use super::proxy::Proxy;
use super::tls::Tls;
use crate::limits;

/// What was typed, and where each value came from.
pub(super) struct Parsed {
    pub(super) cli: Cli,
    pub(super) command: clap::Command,
    pub(super) matches: ArgMatches,
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
    let connect = match &mut cli.command {
        Some(
            Command::Connect(connect)
            | Command::Config(connect)
            | Command::Login(connect)
            | Command::Logout(connect)
            | Command::Status(connect),
        ) => connect,
        _ => &mut cli.connect,
    };
    connect.credentials.keep_explicit(deepest);
    connect.tls.keep_explicit(deepest);
    connect.proxy.note_places(deepest);
    // The variable is read elsewhere: it holds many headers in one.
    let has_variable = lookup(OsStr::new("MCP_SPAN_HEADER")).is_some_and(|v| !v.is_empty());
    if has_variable && !is_explicit(deepest, "headers") {
        connect.headers.clear();
    }
    // A flag beats the environment, also under another name.
    if connect.mcp_hub.is_some() && from_environment(deepest, "url") {
        connect.url = None;
    }
    Ok(Parsed { cli, command, matches })
}

fn from_environment(matches: &ArgMatches, id: &str) -> bool {
    source(matches, id) == Some(ValueSource::EnvVariable)
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
    let is_empty = |name: &OsStr| lookup(name).is_some_and(|value| value.is_empty());
    command
        .mut_args(|arg| {
            if arg.get_env().is_some_and(is_empty) { arg.env(Resettable::Reset) } else { arg }
        })
        .mut_subcommands(|command| without_empty(command, lookup))
}

/// Joins any MCP client to any MCP server.
#[derive(Debug, Parser)]
#[command(
    name = "mcp-span",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  \
        mcp-span https://example.com/mcp\n  \
        mcp-span https://example.com/mcp --header 'Authorization: Bearer ${TOKEN}'\n  \
        mcp-span demo\n\n\
        Exit codes: 0 normal end, 1 unexpected failure, 2 wrong usage or configuration."
)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    #[command(flatten)]
    pub(super) connect: Connect,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Connect a stdio client to the MCP server at URL (the same as just URL)
    Connect(Box<Connect>),
    /// Do the same against a small MCP server inside this program
    Demo(Box<Demo>),
    /// Show every setting, its value, and where it came from
    Config(Box<Connect>),
    /// Log in to the server at URL, and keep the tokens
    Login(Box<Connect>),
    /// Forget the tokens of the server at URL, and have them revoked where that can be done
    Logout(Box<Connect>),
    /// Show who is logged in to the server at URL, and until when
    Status(Box<Connect>),
    /// Show a file that --trace-file has written, to be read by a person
    Trace(Trace),
}

#[derive(Args, Debug)]
pub(super) struct Connect {
    #[expect(rustdoc::bare_urls, reason = "the same text is the help of the command line")]
    /// The MCP endpoint of the server, such as https://example.com/mcp
    #[arg(env = "MCP_SPAN_URL", hide_env_values = true)]
    pub(super) url: Option<String>,

    /// How to speak to the server; auto finds out by itself
    ///
    /// The names that mcp-remote has for them are understood as well.
    #[arg(long, value_name = "TRANSPORT", env = "MCP_SPAN_TRANSPORT", default_value = "auto")]
    pub(super) transport: Transport,

    /// The server speaks HTTP+SSE, as mcp-hub does (the same as --transport sse)
    #[arg(long, env = "MCP_SPAN_MCP_HUB_MODE", value_parser = FalseyValueParser::new())]
    pub(super) mcp_hub_mode: bool,

    /// Connect to the mcp-hub at URL or, without one, to the one that runs on this machine
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "")]
    pub(super) mcp_hub: Option<String>,

    /// Send this header with every request, 'Name: value'; ${VAR} is replaced from the environment
    ///
    /// May be given several times; MCP_SPAN_HEADER holds one header a line.
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    pub(super) headers: Vec<String>,

    /// Read headers from a file, one 'Name: value' a line; '#' begins a comment
    #[arg(long, value_name = "FILE", env = "MCP_SPAN_HEADER_FILE")]
    pub(super) header_file: Option<PathBuf>,

    #[command(flatten)]
    pub(super) credentials: Credentials,

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
}

#[derive(Args, Debug)]
pub(super) struct Demo {
    #[command(flatten)]
    pub(super) link: Link,

    #[command(flatten)]
    pub(super) file: File,

    #[command(flatten)]
    pub(super) log: Log,
}

#[derive(Args, Debug)]
pub(super) struct Trace {
    /// The trace; what was moved to FILE.1 is shown before it
    pub(super) file: PathBuf,

    /// Only what belongs to the request with this id
    #[arg(long)]
    pub(super) id: Option<String>,

    /// Only what belongs to messages with this method
    #[arg(long)]
    pub(super) method: Option<String>,
}

/// Tokens that need not stand on the command line.
#[derive(Args, Debug)]
#[command(next_help_heading = "Credentials")]
pub(super) struct Credentials {
    /// Send the value of this variable as a bearer token
    #[arg(long, value_name = "VAR", env = "MCP_SPAN_BEARER_ENV", group = "credential")]
    pub(super) bearer_env: Option<String>,

    /// Send what is in this file as a bearer token; it is read again when it changes
    #[arg(long, value_name = "FILE", env = "MCP_SPAN_BEARER_FILE", group = "credential")]
    pub(super) bearer_file: Option<PathBuf>,

    /// Send what this command prints as a bearer token; it is run again on 401 and 403
    #[arg(long, value_name = "CMD", env = "MCP_SPAN_BEARER_COMMAND", group = "credential")]
    pub(super) bearer_command: Option<String>,

    /// Send the headers that this command prints, as lines or as a JSON object
    #[arg(long, value_name = "CMD", env = "MCP_SPAN_HEADER_COMMAND", group = "credential")]
    pub(super) header_command: Option<String>,

    /// Give the command to the shell, in place of splitting it into words
    #[arg(long, env = "MCP_SPAN_CREDENTIAL_SHELL", value_parser = FalseyValueParser::new())]
    pub(super) credential_shell: bool,

    /// Seconds for which the output of the command is used
    #[arg(
        long,
        value_name = "SECONDS",
        env = "MCP_SPAN_CREDENTIAL_TTL",
        default_value = "300",
        value_parser = some_seconds
    )]
    pub(super) credential_ttl: Duration,
}

/// How to speak to the server.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Connection")]
pub(super) struct Link {
    /// Seconds of silence after which a request fails; 0 for no limit [default: 30, and 300 for
    /// tool calls and their like]
    #[arg(
        long,
        value_name = "SECONDS",
        env = "MCP_SPAN_TIMEOUT",
        allow_negative_numbers = true,
        value_parser = seconds
    )]
    pub(super) timeout: Option<Duration>,

    /// Seconds that connecting may take
    #[arg(
        long,
        value_name = "SECONDS",
        env = "MCP_SPAN_CONNECT_TIMEOUT",
        default_value = "10",
        value_parser = some_seconds
    )]
    pub(super) connect_timeout: Duration,

    /// Seconds that `initialize` waits for a server that cannot be reached
    #[arg(
        long,
        value_name = "SECONDS",
        env = "MCP_SPAN_CONNECT_WAIT",
        default_value = "25",
        allow_negative_numbers = true,
        value_parser = seconds
    )]
    pub(super) connect_wait: Duration,

    /// Seconds that any later message waits for a server that cannot be reached
    #[arg(
        long,
        value_name = "SECONDS",
        env = "MCP_SPAN_AWAY_WAIT",
        default_value = "5",
        allow_negative_numbers = true,
        value_parser = seconds
    )]
    pub(super) away_wait: Duration,

    /// Ping inside the session after so many silent seconds [default: never]
    #[arg(
        long,
        value_name = "SECONDS",
        env = "MCP_SPAN_KEEP_ALIVE",
        allow_negative_numbers = true,
        value_parser = some_seconds
    )]
    pub(super) keep_alive: Option<Duration>,

    /// The largest single message, in bytes; K, M and G count in 1024s
    #[arg(
        long,
        value_name = "BYTES",
        env = "MCP_SPAN_MAX_MESSAGE_SIZE",
        default_value = "64M",
        value_parser = bytes
    )]
    pub(super) max_message_size: usize,

    /// How many requests run at once; more wait for their turn
    #[arg(
        long,
        value_name = "N",
        env = "MCP_SPAN_MAX_PARALLEL",
        default_value = "128",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(super) max_parallel: u32,

    /// Forward one request or notification at a time, in strict order
    #[arg(long, env = "MCP_SPAN_SERIAL", value_parser = FalseyValueParser::new())]
    pub(super) serial: bool,

    /// Do not open the stream for messages that the server sends on its own account
    #[arg(long, env = "MCP_SPAN_NO_SERVER_STREAM", value_parser = FalseyValueParser::new())]
    pub(super) no_server_stream: bool,

    /// Do not keep and send back the server's cookies
    #[arg(
        long,
        visible_alias = "disable-cookies",
        env = "MCP_SPAN_NO_COOKIES",
        value_parser = FalseyValueParser::new()
    )]
    pub(super) no_cookies: bool,

    /// Send this MCP-Protocol-Version in place of the negotiated one
    #[arg(long, value_name = "REVISION", env = "MCP_SPAN_PROTOCOL_VERSION")]
    pub(super) protocol_version: Option<String>,
}

/// Read before all others; see `config_file`.
#[derive(Args, Debug)]
#[command(next_help_heading = "Configuration")]
pub(super) struct File {
    /// Read defaults from this file, in place of mcp-span/config.json in the configuration folder
    #[arg(long, value_name = "FILE", env = "MCP_SPAN_CONFIG")]
    pub(super) config: Option<PathBuf>,

    /// Read no configuration file
    #[arg(long, conflicts_with = "config")]
    pub(super) no_config: bool,
}

/// What to write down about it.
#[derive(Args, Debug)]
#[command(next_help_heading = "Logging")]
pub(super) struct Log {
    /// Log every message that passes, on stderr (the same as --log-level debug, or DEBUG=1)
    #[arg(short = 'v', long, visible_aliases = ["debug"])]
    pub(super) verbose: bool,

    /// What to log: off, error, warn, info, debug or trace [default: warn]
    #[arg(long, value_name = "LEVEL", env = "MCP_SPAN_LOG_LEVEL", ignore_case = true)]
    pub(super) log_level: Option<Level>,

    /// How to write log lines
    #[arg(long, value_name = "FORMAT", env = "MCP_SPAN_LOG_FORMAT", default_value = "text")]
    pub(super) log_format: Format,

    /// Append log lines to a file in place of stderr
    #[arg(long, value_name = "FILE", env = "MCP_SPAN_LOG_FILE")]
    pub(super) log_file: Option<PathBuf>,

    /// Write every message and HTTP exchange to a file, as JSON lines without credentials
    #[arg(long, value_name = "FILE", env = "MCP_SPAN_TRACE_FILE")]
    pub(super) trace_file: Option<PathBuf>,

    /// What the trace may take on disk, in bytes; the older half is dropped
    #[arg(
        long,
        value_name = "BYTES",
        env = "MCP_SPAN_TRACE_LIMIT",
        default_value = "64M",
        value_parser = trace_limit
    )]
    pub(super) trace_limit: usize,
}

impl Credentials {
    /// Where one source was typed or is in the environment, those from the file do not count.
    fn keep_explicit(&mut self, matches: &ArgMatches) {
        let is_explicit = |id: &str| is_explicit(matches, id);
        let ids = ["bearer_env", "bearer_file", "bearer_command", "header_command"];
        if !ids.iter().any(|id| is_explicit(id)) {
            return;
        }
        self.bearer_env.take_if(|_| !is_explicit("bearer_env"));
        self.bearer_file.take_if(|_| !is_explicit("bearer_file"));
        self.bearer_command.take_if(|_| !is_explicit("bearer_command"));
        self.header_command.take_if(|_| !is_explicit("header_command"));
    }
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

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Level {
    #[value(alias = "none")]
    Off,
    #[value(alias = "critical")]
    Error,
    #[value(alias = "warning")]
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Text,
    Json,
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 =
        text.parse().map_err(|_| "it must be a number of seconds, such as 30 or 0.5".to_owned())?;
    // Longer than anybody waits, and far from where adding to a point in time would overflow.
    const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    Duration::try_from_secs_f64(number)
        .ok()
        .filter(|limit| *limit <= YEAR)
        .ok_or_else(|| "it must be a number of seconds from 0 up to a year".to_owned())
}

pub(super) fn some_seconds(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        Duration::ZERO => Err("it must be more than 0 seconds".to_owned()),
        duration => Ok(duration),
    }
}

fn bytes(text: &str) -> Result<usize, String> {
    let wrong = || "it must be a number of bytes from 1 up, such as 1000000 or 64M".to_owned();
    let (digits, unit) = match text.trim_end_matches(['b', 'B', 'i']) {
        text if text.ends_with(['k', 'K']) => (&text[..text.len() - 1], 1 << 10),
        text if text.ends_with(['m', 'M']) => (&text[..text.len() - 1], 1 << 20),
        text if text.ends_with(['g', 'G']) => (&text[..text.len() - 1], 1 << 30),
        text => (text, 1),
    };
    let number: usize = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(unit).filter(|size| *size > 0).ok_or_else(wrong)
}

fn trace_limit(text: &str) -> Result<usize, String> {
    let least = limits::TRACE_SIZE_LEAST;
    match bytes(text)? {
        size if size < least => Err(format!("it must be at least {}K", least / 1024)),
        size => Ok(size),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_built_in_limit_of_a_trace_is_the_one_of_the_limits() {
        assert_eq!(trace_limit("64M"), Ok(limits::TRACE_SIZE));
        assert!(trace_limit("1K").is_err());
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes_and_times_are_read_and_nonsense_is_not() {
        assert_eq!(bytes("1000"), Ok(1000));
        assert_eq!(bytes("64M"), Ok(64 << 20));
        assert_eq!(bytes("1KiB"), Ok(1024));
        for text in ["", "0", "-1", "M", "1.5M", "99999999999G", "ü"] {
            assert!(bytes(text).is_err(), "{text}");
        }
        assert_eq!(seconds("0"), Ok(Duration::ZERO));
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["", "x", "-1", "NaN", "1e19", "1e400"] {
            assert!(seconds(text).is_err(), "{text}");
        }
        assert!(some_seconds("0").is_err());
    }
}
