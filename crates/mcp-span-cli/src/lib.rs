//! The command line: the only part that reads the environment and writes to a terminal.
//!
//! In three steps: what was typed (`args`, after `compat` has put it into our words), what it means
//! (`settings`), and doing it, one file a subcommand.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

mod account;
mod account_list;
mod args;
mod browser;
mod call;
mod candidates;
mod check;
mod commands;
mod compat;
mod completions;
mod config;
mod config_file;
mod config_place;
mod connect;
mod credentials;
mod demo;
mod environment;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod headers;
mod help;
mod hub;
mod import;
mod install;
mod link;
mod log_writer;
mod logging;
mod login_process;
mod look;
mod md5;
mod oauth;
mod oauth_given;
mod paste;
mod prompt;
mod proxy;
mod raw;
mod read;
mod report;
mod secrets;
mod servers;
mod settings;
mod target;
mod timeline;
mod tls;
mod tool_names;
mod trace;
mod trace_file;
mod trace_layer;
mod trace_line;
mod trace_summary;
mod trace_words;
mod values;
mod visit;
mod visit_args;

use args::Parsed;
use commands::{Command, Login};
use compat::{Translated, oauth2_proxy};
use config_file::ConfigFile;
use mcp_span::secret::Scrubber;
use mcp_span::{client, runtime};
use report::Usage;
use settings::Settings;
use target::Line;
use tokio::sync::oneshot;

/// Runs the program and gives its exit code: 0 normal, 1 unexpected, 2 usage or configuration.
#[must_use]
pub fn main() -> ExitCode {
    let typed: Vec<OsString> = std::env::args_os().collect();
    let is_json = typed.iter().take_while(|word| *word != "--").any(|word| word == "--json");
    match start(typed.clone()) {
        Ok(code) => code,
        Err(Failure::Arguments(error)) => report::bad_arguments(&error, &typed, is_json),
        Err(Failure::NothingTyped) => report::short_help(),
        Err(Failure::Usage(usage)) => report::usage(&usage, is_json),
        Err(Failure::Unexpected(error)) => report::unexpected(&error),
    }
}

fn config_file(args: &[OsString], command: &clap::Command) -> Result<ConfigFile, Usage> {
    let found = config_place::find(args, |name| std::env::var_os(name))?;
    let lookup = |name: &str| std::env::var(name).ok();
    found.map_or_else(
        || Ok(ConfigFile::default()),
        |found| ConfigFile::read(found, command, &lookup),
    )
}

fn start(typed: Vec<OsString>) -> Result<ExitCode, Failure> {
    if let Some(done) = without_settings(&typed) {
        return done;
    }
    if let Some(done) = login_process::run(&typed) {
        return done;
    }
    let lookup = |name: &str| std::env::var(name).ok();
    // Made once: it takes a good part of the time until the first message is read.
    let command = args::command(&typed);
    let mut file = config_file(&typed, &command)?;
    let is_name = |word: &str| file.servers.has(word);
    let Translated { args, ignored, mut secrets, renamed } =
        compat::translate(typed, &command, lookup, is_name)?;
    let is_about = |url: Option<&str>| args::is_about(&args, &command, &file, url);
    if let Some(theirs) = oauth2_proxy::read(lookup, is_about)? {
        file = file.behind(&theirs);
        secrets.extend(theirs.secrets);
    }
    let line = Line { args, file, secrets };
    let done = parse_and_run(&line, command, &ignored);
    done.map_err(|failure| renamed.explain(failure))
}

/// Does what was typed if it needs no setting: then a configuration or a variable that is wrong does
/// not keep it from its work.
fn without_settings(typed: &[OsString]) -> Option<Result<ExitCode, Failure>> {
    if let Some(done) = completions::complete(typed) {
        return Some(done);
    }
    if let Some(help) = args::help(typed) {
        return Some(Err(help.into()));
    }
    let needs_none = ["completions", "man", "trace", "uninstall"];
    typed.get(1).and_then(|word| word.to_str()).filter(|word| needs_none.contains(word))?;
    Some(match args::parse_typed_alone(typed) {
        Ok(Command::Completions(typed)) => completions::run(&typed),
        Ok(Command::Trace(typed)) => trace::run(&typed),
        Ok(Command::Uninstall(typed)) => install::uninstall(&typed),
        Ok(_) => completions::man(),
        Err(error) => Err(error.into()),
    })
}

fn parse_and_run(
    line: &Line,
    command: clap::Command,
    ignored: &[String],
) -> Result<ExitCode, Failure> {
    let (mut parsed, file) = line.parse(command)?;
    if let Some(Command::Login(login)) = &mut parsed.cli.command {
        login.connect.oauth.is_pasted = login.paste;
        login.connect.oauth.is_attended = true;
        // mcp-remote keeps logins apart by headers: what is taken over from it stays apart.
        login.connect.oauth.profile_by_headers |= login.import;
    }
    if let Some(Command::Logout(logout)) = &mut parsed.cli.command {
        account_list::find_file(logout)?;
    }
    run(&parsed, line, &file, ignored)
}

/// Why a command could not do its work.
enum Failure {
    /// What was typed is not what the program takes.
    Arguments(clap::Error),
    /// Nothing was typed, and no server is named elsewhere.
    NothingTyped,
    /// The user can mend it.
    Usage(Usage),
    /// Nobody expected it.
    Unexpected(std::io::Error),
}

impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Self {
        Self::Arguments(error)
    }
}

impl From<Usage> for Failure {
    fn from(usage: Usage) -> Self {
        Self::Usage(usage)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Unexpected(error)
    }
}

fn run(
    parsed: &Parsed,
    line: &Line,
    file: &ConfigFile,
    ignored: &[String],
) -> Result<ExitCode, Failure> {
    match &parsed.cli.command {
        Some(Command::Demo(demo)) => {
            logging::start(&demo.log, &Scrubber::default())?;
            on_runtime(demo::run(demo.link.clone()))
        }
        Some(Command::Connect(connect)) => connect_to(connect, ignored),
        Some(Command::Check(typed)) => check::run(typed, line),
        // What counts is where each value came from.
        Some(Command::Config(_)) => config::run(parsed, line, file, ignored),
        Some(Command::Login(login)) => log_in(login),
        Some(Command::Logout(typed)) => {
            let file = typed.file.clone();
            on_account(&typed.connect, |settings| account::logout(settings, file))
        }
        Some(Command::Status(typed)) if account_list::is_about_all(typed) => {
            account_list::list(typed, &parsed.matches)
        }
        Some(Command::Status(typed)) => {
            let is_json = typed.json;
            on_account(&typed.connect, move |settings| account::status(settings, is_json))
        }
        Some(Command::Trace(typed)) => trace::run(typed),
        Some(Command::Install(typed)) => install::run(parsed, typed, ignored),
        Some(Command::Uninstall(typed)) => install::uninstall(typed),
        // Done before any setting is read, unless a flag stands before its name.
        Some(Command::Completions(typed)) => completions::run(typed),
        Some(Command::Man) => completions::man(),
        Some(Command::Tools(typed)) => look::tools(typed),
        Some(Command::Resources(typed)) => look::resources(typed),
        Some(Command::Prompts(typed)) => look::prompts(typed),
        Some(Command::Call(typed)) => call::run(typed),
        Some(Command::Read(typed)) => read::run(typed),
        Some(Command::Prompt(typed)) => prompt::run(typed),
        Some(Command::Raw(typed)) => raw::run(typed),
        None if std::env::args_os().len() < 2 && !parsed.cli.connect.names_server() => {
            Err(Failure::NothingTyped)
        }
        None => connect_to(&parsed.cli.connect, ignored),
    }
}

fn connect_to(typed: &args::Connect, ignored: &[String]) -> Result<ExitCode, Failure> {
    let spec = settings::spec(typed)?;
    logging::start(&typed.log, settings::scrubber(&spec))?;
    if let client::Server::Http(http) = &spec.server
        && typed.tls.insecure
        && http.url.scheme() == "https"
    {
        tls::warn();
    }
    oauth::warn(typed);
    if std::io::stdin().is_terminal() {
        report::warning(
            "waiting for an MCP client on stdin; to look at the server: mcp-span tools <URL>",
        );
    }
    if !ignored.is_empty() {
        tracing::debug!(arguments = ignored.join(" "), "accepted without any effect");
    }
    on_runtime(connect::run(spec))
}

/// Logs in, in one of three ways.
fn log_in(login: &Login) -> Result<ExitCode, Failure> {
    if login.import {
        let found = import::find(&login.connect);
        return on_account(&login.connect, |settings| import::take_over(settings, found));
    }
    on_account(&login.connect, account::login)
}

/// Does something about the account at a server.
fn on_account<F>(
    typed: &args::Connect,
    command: impl FnOnce(Settings) -> F,
) -> Result<ExitCode, Failure>
where
    F: Future<Output = Result<ExitCode, Failure>> + Send + 'static,
{
    let settings = settings::of(typed)?;
    logging::start(&typed.log, &settings.http.scrubber)?;
    on_runtime(command(settings))
}

/// Does a command's work, and gives back how it went.
fn on_runtime(
    command: impl Future<Output = Result<ExitCode, Failure>> + Send + 'static,
) -> Result<ExitCode, Failure> {
    let (tell, mut told) = oneshot::channel();
    let done = runtime::run(Box::pin(async move {
        let _ = tell.send(command.await);
    }));
    trace_layer::flush();
    log_writer::flush();
    done?;
    told.try_recv().unwrap_or_else(|error| Err(Failure::Unexpected(std::io::Error::other(error))))
}
