//! The command line: the only part that reads the environment and writes to a terminal.
//!
//! In three steps: what was typed (`args`, after `compat` has put it into our words), what it means
//! (`settings`), and doing it, one file a subcommand.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

mod account;
mod args;
mod bad_arguments;
mod candidates;
mod check;
mod commands;
mod compat;
mod completions;
mod config;
mod config_file;
mod config_place;
mod connect;
mod demo;
#[cfg(test)]
mod documentation;
mod environment;
mod explore;
mod folders;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod help;
mod hub;
mod install;
mod line_writer;
mod log_writer;
mod logging;
mod nearest;
mod oauth;
mod output;
mod report;
mod secrets;
mod servers;
mod settings;
mod target;
mod tool_names;
mod trace;

use args::Parsed;
use commands::{Command, Login};
use compat::{Translated, oauth2_proxy};
use config_file::ConfigFile;
use mcp_span::ServerOptions;
use mcp_span::secret::Scrubber;
use mcp_span::{client, runtime};
use report::CommandError as Failure;
use report::Usage;
use secrets::Secrets;
use settings::Settings;
use target::Line;
use tokio::sync::oneshot;

/// Runs the program and gives its exit code: 0 normal, 1 unexpected, 2 usage or configuration.
#[must_use]
pub fn main() -> ExitCode {
    let typed = output::flags::typed(std::env::args_os().collect());
    let is_json = typed.iter().take_while(|word| *word != "--").any(|word| word == "--json");
    let done = start(typed.clone());
    done.unwrap_or_else(|error| error.report(is_json, &typed, &Scrubber::default()))
}

fn config_file(args: &[OsString]) -> Result<ConfigFile, Usage> {
    let found = config_place::find(args, |name| std::env::var_os(name))?;
    let lookup = |name: &str| std::env::var(name).ok();
    found.map_or_else(|| Ok(ConfigFile::default()), |found| ConfigFile::read(found, &lookup))
}

fn start(typed: Vec<OsString>) -> Result<ExitCode, Failure> {
    if let Some(done) = without_settings(&typed) {
        return done;
    }
    if let Some(done) = account::process::run(&typed) {
        return done;
    }
    let lookup = |name: &str| std::env::var(name).ok();
    // Made once: it takes a good part of the time until the first message is read.
    let command = args::command(&typed);
    let file = config_file(&typed)?;
    let is_name = |word: &str| file.servers.has(word);
    let Translated { args, ignored, secrets, renamed } =
        compat::translate(typed, &command, lookup, is_name)?;
    let done = parse_and_run(args, command, file, secrets, &ignored);
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
    args: Vec<OsString>,
    command: clap::Command,
    file: ConfigFile,
    secrets: Secrets,
    ignored: &[String],
) -> Result<ExitCode, Failure> {
    let mut parsed = args::parse(args, command)?;
    output::flags::apply(&parsed.matches);
    let line = behind(&mut parsed, file, secrets)?;
    // One word of several may be wrong without harm to the others: each is looked at by itself.
    if !matches!(parsed.cli.command, Some(Command::Check(_))) {
        *parsed.cli.connect_mut() = line.connect()?;
    }
    if let Some(Command::Logout(logout)) = &mut parsed.cli.command {
        account::list::find_file(logout)?;
    }
    run(&parsed, &line, ignored)
}

/// Puts variables and the settings of other programs behind what was typed.
fn behind(parsed: &mut Parsed, file: ConfigFile, secrets: Secrets) -> Result<Line, Usage> {
    let (command, matches) = match parsed.matches.subcommand() {
        Some((name, matches)) => (parsed.command.find_subcommand(name), matches),
        None => (None, &parsed.matches),
    };
    let command = command.unwrap_or(&parsed.command);
    let takes = |name: &str| command.get_arguments().any(|arg| arg.get_id() == name);
    let mut variables = settings::variables(std::env::vars_os(), takes)?;
    let is_demo = matches!(parsed.cli.command, Some(Command::Demo(_)));
    let mut defaults = ServerOptions::default();
    if let Some(target) = parsed.cli.target_mut() {
        let is_server = |word: &str| target::is_url(word) || file.servers.has(word);
        target.find_server(matches, variables.url.is_some(), is_server);
        target.connect.is_for_program = target.json;
        defaults.connect_wait = Some(explore::args::CONNECT_WAIT);
    }
    match &mut parsed.cli.command {
        Some(Command::Login(login)) => {
            let connect = &mut login.connect.0;
            (connect.is_pasted, connect.is_attended) = (login.paste, true);
            connect.is_for_program = login.json;
            // mcp-remote keeps logins apart by headers: what is imported from it stays apart.
            if login.import {
                connect.options.profile_by_headers = Some(true);
            }
        }
        Some(Command::Logout(logout)) => logout.connect.0.is_for_program = logout.json,
        Some(Command::Status(status)) => status.connect.0.is_for_program = status.json,
        _ => {}
    }
    let connect = parsed.cli.connect_mut();
    secrets.set(&mut connect.options);
    connect.options.merge(std::mem::take(&mut variables));
    let typed = &connect.options;
    // What another program has for one server is no business of others.
    let is_about = |url: Option<&str>| {
        let names_other = typed.mcp_hub.is_some() || typed.command.is_some();
        !is_demo && !names_other && (typed.url.is_none() || typed.url.as_deref() == url)
    };
    if let Some(theirs) = oauth2_proxy::read(|name| std::env::var(name).ok(), is_about)? {
        connect.options.merge(theirs.options()?);
    }
    Ok(Line { typed: connect.clone(), file, defaults })
}

fn run(parsed: &Parsed, line: &Line, ignored: &[String]) -> Result<ExitCode, Failure> {
    match &parsed.cli.command {
        Some(Command::Demo(demo)) => {
            logging::start(&demo.connect.0, &Scrubber::default())?;
            on_runtime(demo::run(demo.connect.0.clone()))
        }
        Some(Command::Connect(connect)) => connect_to(connect, ignored),
        Some(Command::Check(typed)) => check::run(typed, line),
        Some(Command::Config(typed)) => config::run(typed, line, ignored),
        Some(Command::Login(login)) => log_in(login),
        Some(Command::Logout(typed)) => {
            let (file, is_json) = (typed.file.clone(), typed.json);
            on_account(&typed.connect.0, move |settings| account::logout(settings, file, is_json))
        }
        Some(Command::Status(typed)) if account::list::is_about_all(typed) => {
            account::list::list(typed)
        }
        Some(Command::Status(typed)) => {
            let is_json = typed.json;
            on_account(&typed.connect.0, move |settings| account::status(settings, is_json))
        }
        Some(Command::Trace(typed)) => trace::run(typed),
        Some(Command::Install(typed)) => install::run(parsed, typed, ignored),
        Some(Command::Uninstall(typed)) => install::uninstall(typed),
        // Done before any setting is read, unless a flag stands before its name.
        Some(Command::Completions(typed)) => completions::run(typed),
        Some(Command::Man) => completions::man(),
        Some(Command::Tools(typed)) => explore::tools(typed),
        Some(Command::Resources(typed)) => explore::resources(typed),
        Some(Command::Prompts(typed)) => explore::prompts(typed),
        Some(Command::Call(typed)) => explore::call(typed),
        Some(Command::Read(typed)) => explore::read(typed),
        Some(Command::Prompt(typed)) => explore::prompt(typed),
        Some(Command::Raw(typed)) => explore::raw(typed),
        None if std::env::args_os().len() < 2 && !parsed.cli.connect.options.names_server() => {
            Ok(report::short_help())
        }
        None => connect_to(&parsed.cli.connect, ignored),
    }
}

fn connect_to(typed: &args::Connect, ignored: &[String]) -> Result<ExitCode, Failure> {
    let spec = settings::spec(typed)?;
    start_logging(typed, &spec)?;
    if std::io::stdin().is_terminal() {
        report::note(
            "waiting for an MCP client on stdin; to look at the server: mcp-span tools <URL>",
        );
    }
    if !ignored.is_empty() {
        tracing::debug!(arguments = ignored.join(" "), "accepted without any effect");
    }
    on_runtime(connect::run(spec))
}

/// Starts the log of a connection, with what it should begin with.
fn start_logging(typed: &args::Connect, spec: &client::Spec) -> Result<(), Usage> {
    logging::start(typed, settings::scrubber(spec))?;
    warn_of_options(&typed.options, settings::is_https(spec));
    Ok(())
}

/// Says what options mean that somebody may not want: `--insecure` also to those who asked for errors
/// only.
fn warn_of_options(options: &ServerOptions, is_https: bool) {
    const INSECURE: &str = "--insecure: the server's certificates are not checked, so anybody on the way to the \
                            server can read and change everything";
    if is_https && options.insecure == Some(true) {
        match tracing::enabled!(tracing::Level::WARN) {
            true => tracing::warn!("{INSECURE}"),
            false => tracing::error!("{INSECURE}"),
        }
    }
    if let Some(sentence) = options.vain_id_token() {
        tracing::warn!("{sentence}");
    }
}

/// Logs in, or imports a login.
fn log_in(login: &Login) -> Result<ExitCode, Failure> {
    let is_json = login.json;
    if login.import {
        let found = account::import::find(&login.connect.0);
        return on_account(&login.connect.0, move |settings| {
            account::import::store(settings, found, is_json)
        });
    }
    on_account(&login.connect.0, move |settings| account::login(settings, is_json))
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
    logging::start(typed, &settings.http.scrubber)?;
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
    trace::layer::flush();
    log_writer::flush();
    done?;
    told.try_recv().unwrap_or_else(|error| Err(Failure::Unexpected(std::io::Error::other(error))))
}
