//! Where log lines go, in which form, and from which level on.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use tracing::level_filters::LevelFilter;
use tracing::warn;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, registry};

use super::args::Connect;
use super::log_writer::{self, LogLine};
use super::output::is_quiet;
use super::report::Usage;
use super::trace::file::TraceFile;
use super::trace::layer as trace_layer;
use mcp_span::ServerOptions;
use mcp_span::options::{Given, LogFormat, LogLevel, Origin, ValueKind, find};
use mcp_span::private_file;
use mcp_span::secret::Scrubber;
use mcp_span::traffic;

/// What the names of all our crates begin with.
const OURS: &str = "mcp_span";

/// Starts logging. Without any word of the user's, only warnings are written.
pub(super) fn start(typed: &Connect, scrubber: &Scrubber) -> Result<(), Usage> {
    let filter = filter(typed, |name| std::env::var(name).ok());
    let mut layers = Vec::new();
    if filter.would_enable(OURS, &tracing::Level::ERROR) {
        layers.push(log(typed, scrubber)?.with_filter(filter).boxed());
    }
    let limit = typed.options.trace_limit();
    let trace = typed.options.trace_file.as_deref().map(|path| TraceFile::open(path, limit));
    let trace = trace.transpose()?;
    let is_busy = matches!(trace, Some(None));
    if let Some(file) = trace.flatten() {
        let only = Targets::new().with_target(traffic::TARGET, LevelFilter::TRACE);
        layers.push(trace_layer::start(file, scrubber.clone()).with_filter(only).boxed());
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

fn log(
    typed: &Connect,
    scrubber: &Scrubber,
) -> Result<Box<dyn Layer<Registry> + Send + Sync>, Usage> {
    let target: Box<dyn Write + Send> = match &typed.options.log_file {
        Some(path) => Box::new(open(path)?),
        None => Box::new(std::io::stderr()),
    };
    log_writer::install(target, scrubber.clone());
    // Internal errors would be printed on the very stream that failed.
    let lines = fmt::layer()
        .with_ansi(false)
        .with_target(false)
        .log_internal_errors(false)
        .with_writer(LogLine::default);
    Ok(match typed.options.log_format() {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    })
}

/// The flags by which another process of this program logs in the same form and as much.
pub(super) fn level_arguments(options: &ServerOptions) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::new();
    for name in ["verbose", "log-level", "log-format"] {
        let option = find(name);
        match option.and_then(|option| Some((option.kind, options.texts(option)?.concat()))) {
            Some((ValueKind::Switch, text)) if text == "true" => arguments.push("--verbose".into()),
            Some((ValueKind::Switch, _)) | None => {}
            Some((_, text)) => arguments.push(format!("--{name}={text}").into()),
        }
    }
    arguments
}

/// What is logged: never the traffic, which has bodies, whatever the environment asks for.
fn filter(typed: &Connect, lookup: impl Fn(&str) -> Option<String>) -> Targets {
    wanted(typed, lookup).with_target(traffic::TARGET, LevelFilter::OFF)
}

/// `-v` beats `--log-level`, which beats `MCP_SPAN_LOG_LEVEL`, which beats the names of others.
fn wanted(typed: &Connect, lookup: impl Fn(&str) -> Option<String>) -> Targets {
    // The HTTP library below us logs, too; only who asks for it by name gets that.
    let only = |level| Targets::new().with_target(OURS, level);
    if typed.options.verbose == Some(true) {
        return only(LevelFilter::DEBUG);
    }
    if let Some(level) = typed.options.log_level {
        return only(level_filter(level));
    }
    if lookup("DEBUG").is_some_and(|value| matches!(&*value, "1" | "true" | "yes" | "on")) {
        return only(LevelFilter::DEBUG);
    }
    let named = ["LOG_LEVEL", "RUST_LOG"].into_iter().find_map(|name| {
        let text = lookup(name)?;
        let level = named_level(&text).map(|level| only(level_filter(level)));
        // A word that is no level would be taken for the name of a target.
        level.or_else(|| text.parse::<Targets>().ok().filter(|_| text.contains('=')))
    });
    let default = match typed.is_for_program {
        true => LevelFilter::OFF,
        false if is_quiet() => LevelFilter::ERROR,
        false => LevelFilter::WARN,
    };
    named.unwrap_or_else(|| only(default))
}

/// A level by any of its names.
fn named_level(text: &str) -> Option<LogLevel> {
    let mut options = ServerOptions::default();
    options.set(find("log-level")?, Given::Text(text.trim()), Origin::Variable).ok()?;
    options.log_level
}

fn level_filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
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

    fn log(verbose: bool, log_level: Option<LogLevel>) -> Connect {
        let mut typed = Connect::default();
        (typed.options.verbose, typed.options.log_level) = (Some(verbose), log_level);
        typed
    }

    /// The most talkative level that is written.
    fn level(typed: &Connect, environment: &[(&str, &str)]) -> Option<tracing::Level> {
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
        assert_eq!(level(&log(false, Some(LogLevel::Off)), &[("DEBUG", "1")]), None);
        let program = |level| Connect { is_for_program: true, ..log(false, level) };
        assert_eq!(level(&program(None), &[]), None);
        assert_eq!(level(&program(Some(LogLevel::Warn)), &[]), Some(Is::WARN));
        assert_eq!(level(&plain, &[("RUST_LOG", "mcp_span=debug,other=off")]), Some(Is::DEBUG));
        for text in ["trace", "trace,a=trace", "mcp-span traffic=trace", "mcp-span=trace"] {
            let filter = filter(&plain, |_| Some(text.to_owned()));
            assert!(!filter.would_enable(traffic::TARGET, &Is::ERROR), "{text}: bodies");
        }
        let debug = filter(&log(true, None), |_| None);
        assert!(!debug.would_enable("hyper_util::client", &Is::ERROR), "only our own lines");
    }
}
