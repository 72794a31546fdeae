//! `mcp-span check`: what is there, what works, what does not, and what to do about it.
//!
//! A server is connected to as the bridge does it, with a recorder on the traffic (`remote`, `program`).
//! Rules over what was recorded give findings, which are data (`finding`); `text` prints them.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinHandle};

use super::report::Usage;
use super::target::{Line, Target, Wrong};
use super::{Failure, args, explore, logging, on_runtime, output, report, settings};
use mcp_span::client::{Server, Spec};
use mcp_span::secret::Scrubber;
use mcp_span::untrusted::Untrusted;
use mcp_span::{limits, os};

mod address;
mod audit;
mod authorization;
mod contents;
mod diagnose;
mod exchange;
mod finding;
mod program;
mod remote;
mod secrets;
mod session;
mod text;
mod tls;
mod transport;

use finding::{Finding, Report, Status};
use text::Layout;

const EXIT_CODES: &str = "Exit codes:\n  \
    0    nothing has failed; there may be warnings\n  \
    1    there are warnings, with --strict\n  \
    2    wrong usage or configuration: there is nothing to check\n  \
    3    something has failed\n  \
    130  Ctrl-C";

/// What to check, and how to report it.
// A command stands behind all targets, as clap has to be told.
#[derive(Args)]
#[command(mut_arg("url", |url| url.index(1).value_name("TARGET")))]
#[command(mut_arg("program", |program| program.index(3)))]
#[command(mut_arg("verbose", |verbose| verbose
    .help("Also show the details of what passed")
    .long_help("Also show the details of what passed; --log-level debug logs what happens")))]
#[command(after_help = EXIT_CODES)]
pub(super) struct Check {
    #[command(flatten)]
    pub(super) connect: args::Connect,

    /// More targets, checked at the same time
    #[arg(value_name = "TARGET", index = 2)]
    more: Vec<String>,

    /// Print one JSON object per target, one per line
    #[arg(long)]
    json: bool,

    /// Exit with 1 if there are warnings
    #[arg(long)]
    strict: bool,

    /// Log in where the server requires it; without it, nobody is asked
    #[arg(long)]
    login: bool,

    /// Also test how the server treats unknown and ended sessions, its own stream, and its clock
    ///
    /// This sends requests that no client would send.
    #[arg(long)]
    audit: bool,
}

/// How targets are looked at.
#[derive(Clone, Copy, Debug)]
struct CheckOptions {
    /// How long one request may take.
    limit: Duration,
    /// How long a person may take to log in, if one may be asked to.
    login: Option<Duration>,
    /// Whether requests are sent that no client would send.
    audit: bool,
}

/// Says on the status line what is being done about one target.
#[derive(Clone)]
struct Activity {
    target: String,
    status: output::Status,
}

impl Activity {
    fn now(&self, what: &str) {
        self.status.set(&format!("{}: {what}", self.target));
    }
}

fn unusable(wrong: Wrong) -> Finding {
    let (fault, next) = match wrong {
        Wrong::Entry(fault) => (fault.to_string(), "Correct the entry"),
        Wrong::Settings(usage) => (usage.0, "Correct the entry"),
        Wrong::Word(usage) => (usage.0, "Give a URL, or a name from the configuration file"),
    };
    Finding::failed("configuration", fault)
        .meaning("This server cannot be used; the others can")
        .next_step(next)
}

/// The servers that were typed; where none was, all of the configuration file.
fn targets(typed: &Check, line: &Line) -> Result<Vec<Target>, Failure> {
    let connect = &typed.connect;
    let options = &connect.options;
    if options.mcp_hub.is_some() {
        let spec: Spec = settings::of(&line.connect()?)?.into();
        let mut hub = vec![Target { name: settings::server_name(&spec), spec: Ok(spec) }];
        if !typed.more.is_empty() {
            hub.extend(line.resolve(&typed.more, &[])?);
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
    if let [Target { spec: Err(Wrong::Word(_)), .. }] = &targets[..]
        && let Some(Target { spec: Err(Wrong::Word(usage)), .. }) = targets.pop()
    {
        return Err(usage.into());
    }
    Ok(targets)
}

fn scrubber(target: &Target) -> Scrubber {
    target.spec.as_ref().map(|spec| settings::scrubber(spec).clone()).unwrap_or_default()
}

/// By the name that the file has for it; a program that has none, with a sign of its arguments.
fn shown_name(target: &Target) -> String {
    match &target.spec {
        Ok(spec @ Spec { server: Server::Child(child), .. })
            if !child.args.is_empty() && target.name == settings::server_name(spec) =>
        {
            format!("{} …", target.name)
        }
        _ => target.name.clone(),
    }
}

async fn check(target: Target, check_options: CheckOptions, activity: Activity) -> Report {
    let (name, scrubber) = (shown_name(&target), scrubber(&target));
    let findings = match target.spec {
        Ok(spec) => {
            secrets::hide(&spec);
            match spec.server {
                Server::Http(http) => {
                    remote::check(*http, spec.stages, check_options, activity).await
                }
                Server::Child(child) => {
                    let hidden = spec.stages.hidden_tools;
                    program::check(child, &hidden, check_options, activity).await
                }
            }
        }
        Err(wrong) => vec![unusable(wrong)],
    };
    let home = std::env::var("HOME").or_else(|_| std::env::var("USERPROFILE")).ok();
    let report = Report { target: name, findings };
    report.for_others(|text| Untrusted(&scrubber.clean(text)).block(), home.as_deref())
}

/// Checks all that was typed.
pub(super) fn run(typed: &Check, line: &Line) -> Result<ExitCode, Failure> {
    let targets = targets(typed, line)?;
    if targets.len() > 1 && typed.connect.options.trace_file.is_some() {
        // A trace is cleaned of the secrets of one server.
        return Err(Usage::new("--trace-file is for one target at a time").into());
    }
    let options = &typed.connect.options;
    if let Some(first) = targets.first() {
        // `-v` is about the report here.
        let mut log = typed.connect.clone();
        log.options.verbose = None;
        logging::start(&log, &scrubber(first))?;
    }
    let timeout = options.timeout.filter(|limit| !limit.is_zero());
    let check_options = CheckOptions {
        limit: timeout.unwrap_or(limits::CHECK_TIMEOUT),
        login: typed.login.then(|| options.oauth_login_timeout()),
        audit: typed.audit,
    };
    let is_verbose = options.verbose == Some(true);
    let layout = Layout { width: output::Page::of_stdout().width, is_verbose };
    let layout = Some(layout).filter(|_| !typed.json);
    let is_strict = typed.strict;
    on_runtime(async move {
        Ok(match check_all(targets, check_options, layout).await? {
            None => ExitCode::from(130),
            Some(Status::Failed) => ExitCode::from(3),
            Some(Status::Warning) if is_strict => ExitCode::FAILURE,
            Some(_) => ExitCode::SUCCESS,
        })
    })
}

/// Checks all at the same time, and prints the reports in their order; `None` if somebody has had
/// enough of it, else the worst that was found.
async fn check_all(
    targets: Vec<Target>,
    check_options: CheckOptions,
    layout: Option<Layout>,
) -> Result<Option<Status>, Failure> {
    // A login has its own words on stderr.
    let status = match check_options.login {
        Some(_) => output::Status::hidden(),
        None => output::Status::new("checking"),
    };
    let turns = Arc::new(Semaphore::new(limits::CHECKS_AT_ONCE));
    let mut checks = Vec::new();
    for target in targets {
        let activity = Activity { target: shown_name(&target), status: status.clone() };
        let turns = Arc::clone(&turns);
        checks.push(tokio::spawn(async move {
            let _turn = turns.acquire().await;
            check(target, check_options, activity).await
        }));
    }
    let under_way: Vec<_> = checks.iter().map(JoinHandle::abort_handle).collect();
    let worst = tokio::select! {
        biased;
        // First: before a process is started, Ctrl-C must be listened for.
        () = os::terminated() => None,
        worst = status.during(print_all(checks, &status, layout)) => Some(worst?),
    };
    status.clear();
    under_way.iter().for_each(AbortHandle::abort);
    if worst.is_none() {
        tokio::select! {
            // All tasks but this one.
            () = explore::at_rest(1) => {}
            // Twice means now.
            () = os::terminated() => {}
        }
    }
    Ok(worst)
}

/// Prints the reports in their order; gives back the worst that is in them.
async fn print_all(
    checks: Vec<JoinHandle<Report>>,
    status: &output::Status,
    layout: Option<Layout>,
) -> Result<Status, Failure> {
    let mut worst = Status::Skipped;
    if layout.is_some() {
        print(&text::heading())?;
    }
    for check in checks {
        let report = check.await.map_err(|error| Failure::Unexpected(error.into()))?;
        worst = worst.max(report.status());
        status.clear();
        match layout {
            None => report::print(&format!("{}\n", report.to_json()))?,
            Some(layout) => print(&text::text(&report, layout))?,
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
