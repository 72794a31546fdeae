//! `mcp-span check`: what is there, what works, what does not, and what to do about it.
//!
//! Each probe gives findings, which are data (`finding`); `text` and `json` print them.

use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinHandle};
use url::Url;

use super::report::Usage;
use super::target::{self, Line, Wrong};
use super::{Failure, args, explore, logging, on_runtime, output, report, settings};
use mcp_span::client::{Server, Spec};
use mcp_span::secret::{Scrubber, Secret, is_key, is_secret_name};
use mcp_span::untrusted::Untrusted;
use mcp_span::{limits, os};

mod address;
mod authorization;
mod contents;
mod door;
mod finding;
mod json;
mod program;
mod remote;
mod session;
mod spinner;
mod suspicion;
mod text;
mod tls;
mod transport;

use finding::{Finding, Report, Status};
use spinner::{Activity, Spinner};

const EXIT_CODES: &str = "Exit codes:\n  \
    0    nothing has failed; there may be warnings\n  \
    1    there are warnings, with --strict\n  \
    2    wrong usage or configuration: there is nothing to check\n  \
    3    something has failed\n  \
    130  Ctrl-C";

/// What to check, and how to tell of it.
// A command stands behind all targets, as clap has to be told.
#[derive(Args)]
#[command(mut_arg("url", |url| url.index(1).value_name("TARGET")))]
#[command(mut_arg("program", |program| program.index(3)))]
#[command(after_help = EXIT_CODES)]
pub(super) struct Check {
    #[command(flatten)]
    pub(super) connect: args::Connect,

    /// More of them, checked at the same time
    #[arg(value_name = "TARGET", index = 2)]
    more: Vec<String>,

    /// For programs: one JSON object for each target, one a line
    #[arg(long)]
    json: bool,

    /// Exit with 1 if there are warnings
    #[arg(long)]
    strict: bool,

    /// Log in where the server wants that; without it nobody is asked anything
    #[arg(long)]
    login: bool,
}

/// How targets are looked at.
#[derive(Clone, Copy, Debug)]
struct CheckOptions {
    /// How long one request may take.
    limit: Duration,
    /// Whether a person may be asked to log in.
    login: bool,
}

/// A server to check.
struct Target {
    /// As it may be shown.
    name: String,
    /// Or what is wrong with it.
    spec: Result<Spec, Box<Finding>>,
}

impl From<target::Target> for Target {
    fn from(named: target::Target) -> Self {
        match named.spec {
            // By the name that the file has for it; programs that have none, with a sign of more.
            Ok(spec) if named.name == settings::server_name(&spec) => Self::new(spec),
            Ok(spec) => Self { name: named.name, spec: Ok(spec) },
            Err(wrong) => Self { name: named.name, spec: Err(Box::new(unusable(wrong))) },
        }
    }
}

fn unusable(wrong: Wrong) -> Finding {
    let (fault, next) = match wrong {
        Wrong::Entry(fault) => (fault.to_string(), "Correct the entry"),
        Wrong::Settings(usage) => (usage.0, "Correct the entry"),
        Wrong::Word(usage) => (usage.0, "Give a URL, or a name from the configuration file"),
    };
    Finding::failed("configuration", fault)
        .meaning("The server cannot be reached by its name; the others can")
        .next_step(next)
}

/// The servers that were typed; where none was, all of the configuration file.
fn targets(typed: &Check, line: &Line) -> Result<Vec<Target>, Failure> {
    let connect = &typed.connect;
    let options = &connect.options;
    if options.mcp_hub.is_some() {
        let mut hub: Vec<Target> = vec![Target::new(settings::of(&line.connect()?)?.into())];
        if !typed.more.is_empty() {
            hub.extend(line.resolve(&typed.more, &[])?.into_iter().map(Target::from));
        }
        return Ok(hub);
    }
    let words: Vec<String> = options.url.iter().chain(&typed.more).cloned().collect();
    let program = options.command.as_deref().unwrap_or_default();
    let mut targets = match (&words[..], program) {
        ([], [_, ..]) => Vec::new(),
        (words, _) => line.resolve(words, &[])?,
    };
    if !program.is_empty() {
        targets.extend(line.resolve(&[], program)?);
    }
    if targets.is_empty() {
        if let Some(file) = &line.file.path {
            let none = format!("{} has no server that is switched on", file.display());
            return Err(Usage::new(format!("{none}: there is nothing to check")).into());
        }
        // It says what is missing.
        settings::of(connect)?;
    }
    // Where there is nothing else to check, it is wrong usage.
    if let [target::Target { spec: Err(Wrong::Word(_)), .. }] = &targets[..]
        && let Some(target::Target { spec: Err(Wrong::Word(usage)), .. }) = targets.pop()
    {
        return Err(usage.into());
    }
    Ok(targets.into_iter().map(Target::from).collect())
}

/// Arguments that are credentials: by the name of their flag or variable, or by how they look.
fn secrets_of(args: &[OsString]) -> Vec<Secret> {
    let mut secrets = Vec::new();
    let mut is_named = false;
    for arg in args.iter().filter_map(|arg| arg.to_str()) {
        // `--name=value`, and `NAME=value` as it is given to containers.
        let (name, value) = match arg.split_once('=') {
            Some((name, value)) if !name.contains("://") => (Some(name), value),
            _ if arg.starts_with('-') => (Some(arg), ""),
            _ => (None, arg),
        };
        let names = name.is_some_and(|name| is_secret_name(&name.to_ascii_lowercase()));
        let is_flag_alone = name.is_some() && value.is_empty();
        let looks_so =
            is_key(value) && value.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
        if !is_flag_alone && (is_named || names || looks_so) {
            secrets.push(Secret::new(if is_named { arg } else { value }));
        }
        secrets.extend(secrets_of_url(value));
        is_named = names && is_flag_alone;
    }
    secrets
}

/// Who the user is to a database, say, and keys in a query.
fn secrets_of_url(text: &str) -> Vec<Secret> {
    let Ok(url) = Url::parse(text) else { return Vec::new() };
    let mut secrets: Vec<Secret> = url.password().map(Secret::new).into_iter().collect();
    if url.password().is_none() && !url.username().is_empty() {
        // A token in the user's place.
        secrets.push(Secret::new(url.username()));
    }
    let query = url.query_pairs().filter(|(name, _)| is_secret_name(&name.to_ascii_lowercase()));
    secrets.extend(query.map(|(_, value)| Secret::new(value)));
    secrets
}

/// What a program inherits from us, and may print.
fn secrets_inherited() -> impl Iterator<Item = Secret> {
    let named = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.to_str()?.to_ascii_lowercase();
        is_secret_name(&name).then_some(value)
    });
    // Paths to keys and sockets are no secrets.
    let values = named.filter_map(|value| value.into_string().ok());
    values.filter(|value| !value.starts_with('/')).map(Secret::new)
}

impl Target {
    fn new(spec: Spec) -> Self {
        let name = settings::server_name(&spec);
        let more = match &spec.server {
            Server::Child(child) if !child.args.is_empty() => " …",
            _ => "",
        };
        Self { name: format!("{name}{more}"), spec: Ok(spec) }
    }

    fn scrubber(&self) -> Scrubber {
        self.spec.as_ref().map(|spec| settings::scrubber(spec).clone()).unwrap_or_default()
    }

    /// A report may be shown to anybody: no header of the user's is echoed in it, whatever its name,
    /// and no argument that looks like a credential.
    fn hide(&self) {
        let Ok(spec) = &self.spec else { return };
        match &spec.server {
            Server::Http(settings) => {
                for value in settings.headers.values() {
                    let value = String::from_utf8_lossy(value.as_bytes());
                    settings.scrubber.add(&Secret::new(value));
                }
            }
            Server::Child(settings) => {
                let found = secrets_of(&settings.args).into_iter().chain(secrets_inherited());
                found.for_each(|secret| settings.scrubber.add(&secret));
                settings.env.iter().for_each(|(_, value)| settings.scrubber.add(value));
            }
        }
    }

    async fn check(self, check_options: CheckOptions, activity: Activity) -> Report {
        self.hide();
        let scrubber = self.scrubber();
        let findings = match self.spec {
            Ok(Spec { server: Server::Http(settings), stages, .. }) => {
                remote::check(*settings, stages, check_options, activity).await
            }
            Ok(Spec { server: Server::Child(settings), .. }) => {
                program::check(settings, check_options, activity).await
            }
            Err(finding) => vec![*finding],
        };
        let home = std::env::var("HOME").or_else(|_| std::env::var("USERPROFILE")).ok();
        let report = Report { target: self.name, findings };
        report.for_others(|text| Untrusted(&scrubber.clean(text)).block(), home.as_deref())
    }
}

/// Checks all that was typed.
pub(super) fn run(typed: &Check, line: &Line) -> Result<ExitCode, Failure> {
    let targets = targets(typed, line)?;
    if targets.len() > 1 && typed.connect.options.trace_file.is_some() {
        // A trace is cleaned of the secrets of one server.
        return Err(Usage::new("--trace-file is for one target at a time").into());
    }
    if let Some(first) = targets.first() {
        logging::start(&typed.connect, &first.scrubber())?;
    }
    let timeout = typed.connect.options.timeout.filter(|limit| !limit.is_zero());
    let check_options =
        CheckOptions { limit: timeout.unwrap_or(limits::CHECK_TIMEOUT), login: typed.login };
    on_runtime(check_all(targets, check_options, typed.json, typed.strict))
}

/// One of the checks that are under way.
struct Running {
    name: String,
    activity: Activity,
    task: JoinHandle<Report>,
}

/// All at the same time, told in their order; until somebody has enough of it.
async fn check_all(
    targets: Vec<Target>,
    check_options: CheckOptions,
    is_json: bool,
    is_strict: bool,
) -> Result<ExitCode, Failure> {
    let turns = Arc::new(Semaphore::new(limits::CHECKS_AT_ONCE));
    let mut checks = Vec::new();
    for target in targets {
        let (name, activity) = (target.name.clone(), Activity::default());
        let (turns, doing) = (Arc::clone(&turns), activity.clone());
        let task = tokio::spawn(async move {
            let _turn = turns.acquire().await;
            target.check(check_options, doing).await
        });
        checks.push(Running { name, activity, task });
    }
    let under_way: Vec<_> = checks.iter().map(|check| check.task.abort_handle()).collect();
    let mut spinner = if check_options.login { Spinner::hidden() } else { Spinner::new() };
    let told = tokio::select! {
        biased;
        // First: before a process is started, Ctrl-C must be heard.
        () = os::terminated() => None,
        worst = tell_all(checks, &mut spinner, is_json) => Some(worst),
    };
    let Some(worst) = told else {
        spinner.clear();
        under_way.iter().for_each(AbortHandle::abort);
        tokio::select! {
            // All tasks but this one.
            () = explore::at_rest(1) => {}
            // Twice means now.
            () = os::terminated() => {}
        }
        return Ok(ExitCode::from(130));
    };
    Ok(match worst? {
        Status::Failed => ExitCode::from(3),
        Status::Warning if is_strict => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    })
}

/// Prints the reports in their order; gives back the worst that is in them.
async fn tell_all(
    checks: Vec<Running>,
    spinner: &mut Spinner,
    is_json: bool,
) -> Result<Status, Failure> {
    let mut worst = Status::Skipped;
    let width = output::Page::of_stdout().width;
    if !is_json {
        print(&text::heading())?;
    }
    for Running { name, activity, task } in checks {
        let report = spinner.while_waiting(&name, &activity, task).await;
        let report = report.map_err(|error| Failure::Unexpected(error.into()))?;
        worst = worst.max(report.status());
        match is_json {
            true => report::print(&format!("{}\n", json::json(&report)))?,
            false => print(&text::text(&report, width))?,
        }
    }
    Ok(worst)
}

/// With colours where somebody sees them. Whoever closes the pipe has seen enough.
fn print(text: &str) -> Result<(), std::io::Error> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_are_credentials_are_known_by_flag_or_look() {
        let found = |line: &str| {
            let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let found = secrets_of(&args);
            found.iter().map(|secret| secret.reveal().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(found("--token abc run"), ["abc"]);
        assert_eq!(found("--api-key=abc --x=y"), ["abc"]);
        assert_eq!(found("run 0123456789abcdef0 --port 80"), ["0123456789abcdef0"]);
        assert_eq!(found("-y @scope/server-thing@2025.11.1 --verbose"), [""; 0]);
        assert_eq!(found("--token --verbose"), [""; 0]);
        assert_eq!(found("--API-Key Abc"), ["Abc"]);
        assert_eq!(found("--token a=b"), ["a=b"]);
        assert_eq!(found("run -e GITHUB_TOKEN=abc -e NODE_ENV=production"), ["abc"]);
        assert_eq!(found("postgres://ann:pw@h/db --db=postgres://h/?api_key=k"), ["pw", "k"]);
    }
}
