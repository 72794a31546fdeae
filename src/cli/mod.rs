//! The command line: the only part that reads the environment and writes to a terminal.
//!
//! In three steps: what was typed (`args`), what it means (`settings`), and doing it, one file a
//! subcommand.

use std::process::ExitCode;

mod args;
mod connect;
mod credentials;
mod demo;
mod expand;
mod headers;
mod hub;
mod log_writer;
mod logging;
mod report;
mod settings;

use args::{Cli, Command};
use report::Usage;

/// Runs the program and gives its exit code: 0 normal, 1 unexpected, 2 usage or configuration.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match args::parse(std::env::args_os(), |name| std::env::var_os(name)) {
        Ok(cli) => cli,
        Err(error) => return report::bad_arguments(&error),
    };
    match run(cli) {
        Ok(code) => code,
        Err(Failure::Usage(usage)) => report::usage(&usage),
        Err(Failure::Unexpected(error)) => report::unexpected(&error),
    }
}

/// Why a command could not do its work.
enum Failure {
    /// The user can mend it.
    Usage(Usage),
    /// Nobody expected it.
    Unexpected(std::io::Error),
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

fn run(cli: Cli) -> Result<ExitCode, Failure> {
    match cli.command {
        Some(Command::Demo(demo)) => {
            logging::start(&demo.log)?;
            on_runtime(demo::run(demo.link))
        }
        Some(Command::Connect(connect)) => connect_to(&connect),
        None => connect_to(&cli.connect),
    }
}

fn connect_to(typed: &args::Connect) -> Result<ExitCode, Failure> {
    let settings = settings::of(typed)?;
    logging::start(&typed.log)?;
    on_runtime(connect::run(settings))
}

/// One thread: a bridge waits most of the time, and starts sooner this way.
fn on_runtime(
    command: impl Future<Output = Result<ExitCode, Failure>> + Send + 'static,
) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // As a task: waking the future that the runtime blocks on costs a system call each time.
    let code = runtime.block_on(runtime.spawn(command));
    // A thread that still waits for a terminal must not hold up the end.
    runtime.shutdown_background();
    log_writer::flush();
    code.unwrap_or_else(|error| Err(Failure::Unexpected(error.into())))
}
