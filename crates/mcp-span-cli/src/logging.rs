//! Where log lines go, in which form, and from which level on.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::builder::{FalseyValueParser, PossibleValue};
use clap::{Args, ValueEnum};
use tracing::level_filters::LevelFilter;
use tracing::warn;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, registry};

use super::log_writer::{self, Lines};
use super::report::Usage;
use super::trace_file::TraceFile;
use super::trace_layer;
use super::values::{bytes_text, trace_limit};
use mcp_span::limits;
use mcp_span::private_file;
use mcp_span::secret::Scrubber;
use mcp_span::traffic;

/// What to write down about it.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Logging")]
pub(super) struct Log {
    /// Log what happens, on stderr
    ///
    /// The same as --log-level debug, or DEBUG=1.
    #[arg(
        short = 'v',
        long,
        visible_aliases = ["debug"],
        env = "MCP_SPAN_VERBOSE",
        // Many programs have more for -vv; here all there is comes with the first.
        overrides_with = "verbose",
        value_parser = FalseyValueParser::new()
    )]
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
        default_value = bytes_text(limits::TRACE_SIZE),
        value_parser = trace_limit
    )]
    pub(super) trace_limit: usize,

    /// A program reads errors as JSON on stderr: without any word of the user's, nothing is logged.
    #[arg(skip)]
    pub(super) is_for_program: bool,
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

/// What the names of all our crates begin with.
const OURS: &str = "mcp_span";

/// Starts logging. Without any word of the user's, only warnings are written.
pub(super) fn start(typed: &Log, scrubber: &Scrubber) -> Result<(), Usage> {
    let filter = filter(typed, |name| std::env::var(name).ok());
    let mut layers = Vec::new();
    if filter.would_enable(OURS, &tracing::Level::ERROR) {
        layers.push(log(typed, scrubber)?.with_filter(filter).boxed());
    }
    let trace = typed.trace_file.as_deref().map(|path| TraceFile::open(path, typed.trace_limit));
    let trace = trace.transpose()?;
    let is_busy = matches!(trace, Some(None));
    if let Some(file) = trace.flatten() {
        let only = Targets::new().with_target(traffic::TARGET, LevelFilter::TRACE);
        layers.push(trace_layer::start(file, scrubber.clone())?.with_filter(only).boxed());
    }
    if !layers.is_empty() {
        // Fails only if somebody has started it already.
        let _ = registry().with(layers).try_init();
    }
    if is_busy {
        warn!("another process writes to the trace file: this one writes none");
    }
    trace_layer::begin();
    Ok(())
}

fn log(typed: &Log, scrubber: &Scrubber) -> Result<Box<dyn Layer<Registry> + Send + Sync>, Usage> {
    let target: Box<dyn Write + Send> = match &typed.log_file {
        Some(path) => Box::new(open(path)?),
        None => Box::new(std::io::stderr()),
    };
    let writer = Lines(log_writer::install(target, scrubber.clone()));
    // Internal errors would be printed on the very stream that failed.
    let lines = fmt::layer()
        .with_ansi(false)
        .with_target(false)
        .log_internal_errors(false)
        .with_writer(writer);
    Ok(match typed.log_format {
        Format::Text => lines.boxed(),
        Format::Json => lines.json().flatten_event(true).boxed(),
    })
}

/// The flags by which another process of this program logs in the same form and as much.
pub(super) fn level_arguments(typed: &Log) -> Vec<OsString> {
    let name = |value: Option<PossibleValue>| value.map(|value| value.get_name().to_owned());
    let level = typed.log_level.and_then(|level| name(level.to_possible_value()));
    let mut arguments: Vec<OsString> = Vec::new();
    arguments.extend(typed.verbose.then(|| "--verbose".into()));
    arguments.extend(level.map(|level| format!("--log-level={level}").into()));
    let format = name(typed.log_format.to_possible_value());
    arguments.extend(format.map(|format| format!("--log-format={format}").into()));
    arguments
}

/// What is logged: never the traffic, which has bodies, whatever the environment asks for.
fn filter(typed: &Log, lookup: impl Fn(&str) -> Option<String>) -> Targets {
    wanted(typed, lookup).with_target(traffic::TARGET, LevelFilter::OFF)
}

/// `-v` beats `--log-level`, which beats `MCP_SPAN_LOG_LEVEL`, which beats the names of others.
fn wanted(typed: &Log, lookup: impl Fn(&str) -> Option<String>) -> Targets {
    // The HTTP library below us logs, too; only who asks for it by name gets that.
    let only = |level| Targets::new().with_target(OURS, level);
    if typed.verbose {
        return only(LevelFilter::DEBUG);
    }
    if let Some(level) = typed.log_level {
        return only(level_filter(level));
    }
    if lookup("DEBUG").is_some_and(|value| matches!(&*value, "1" | "true" | "yes" | "on")) {
        return only(LevelFilter::DEBUG);
    }
    let named = ["LOG_LEVEL", "RUST_LOG"].into_iter().find_map(|name| {
        let text = lookup(name)?;
        let level = Level::from_str(text.trim(), true).ok().map(|level| only(level_filter(level)));
        // A word that is no level would be taken for the name of a target.
        level.or_else(|| text.parse::<Targets>().ok().filter(|_| text.contains('=')))
    });
    let default = if typed.is_for_program { LevelFilter::OFF } else { LevelFilter::WARN };
    named.unwrap_or_else(|| only(default))
}

fn level_filter(level: Level) -> LevelFilter {
    match level {
        Level::Off => LevelFilter::OFF,
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    }
}

fn open(path: &Path) -> Result<File, Usage> {
    private_file::append_log(path).map_err(|error| {
        Usage::new(format!("the log file {} cannot be written: {error}", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(verbose: bool, log_level: Option<Level>) -> Log {
        Log {
            verbose,
            log_level,
            log_format: Format::Text,
            log_file: None,
            trace_file: None,
            trace_limit: 1,
            is_for_program: false,
        }
    }

    /// The most talkative level that is written.
    fn level(typed: &Log, environment: &[(&str, &str)]) -> Option<tracing::Level> {
        use tracing::Level;
        let lookup =
            |name: &str| environment.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        let filter = filter(typed, lookup);
        [Level::TRACE, Level::DEBUG, Level::INFO, Level::WARN, Level::ERROR]
            .into_iter()
            .find(|level| filter.would_enable("mcp_span::bridge", level))
    }

    #[test]
    fn flags_beat_the_environment_and_quiet_is_the_default() {
        // S2-25, S2-29, C16
        use tracing::Level as Is;
        let plain = log(false, None);
        assert_eq!(level(&plain, &[]), Some(Is::WARN));
        assert_eq!(level(&log(true, None), &[]), Some(Is::DEBUG));
        assert_eq!(level(&plain, &[("DEBUG", "1")]), Some(Is::DEBUG));
        assert_eq!(level(&plain, &[("DEBUG", "0")]), Some(Is::WARN));
        assert_eq!(level(&plain, &[("LOG_LEVEL", "info")]), Some(Is::INFO));
        assert_eq!(level(&plain, &[("RUST_LOG", "trace")]), Some(Is::TRACE));
        assert_eq!(level(&plain, &[("LOG_LEVEL", "WARNING")]), Some(Is::WARN));
        assert_eq!(level(&plain, &[("LOG_LEVEL", "verbose")]), Some(Is::WARN));
        assert_eq!(level(&log(false, Some(Level::Off)), &[("DEBUG", "1")]), None);
        let program = |level| Log { is_for_program: true, ..log(false, level) };
        assert_eq!(level(&program(None), &[]), None);
        assert_eq!(level(&program(Some(Level::Warn)), &[]), Some(Is::WARN));
        assert_eq!(level(&plain, &[("RUST_LOG", "mcp_span=debug,other=off")]), Some(Is::DEBUG));
        for text in ["trace", "trace,a=trace", "mcp-span traffic=trace", "mcp-span=trace"] {
            let filter = filter(&plain, |_| Some(text.to_owned()));
            assert!(!filter.would_enable(traffic::TARGET, &Is::ERROR), "{text}: bodies");
        }
        let debug = filter(&log(true, None), |_| None);
        assert!(!debug.would_enable("hyper_util::client", &Is::ERROR), "only our own lines");
    }
}
