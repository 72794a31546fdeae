//! `mcp-span __login`: does one login for another mcp-span, which has written it to stdin, and ends.
//! Not for people: nothing but a started bridge knows what to write there.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory, Parser};

use super::browser;
use crate::args::{Connect, Logging};
use crate::logging;
use crate::{Failure, on_runtime};
use mcp_span::ServerOptions;
use mcp_span::auth::oauth::{self, LoginCommand};
use mcp_span::environment::Environment;
use mcp_span::limits;
use mcp_span::secret::Scrubber;

/// The word that asks for it.
const NAME: &str = "__login";

/// What the process is called in lists of processes.
const SHOWN: &str = "mcp-span";

#[derive(Parser)]
#[command(name = "mcp-span __login", disable_help_flag = true)]
struct Arguments {
    #[command(flatten)]
    _log: Logging,
}

/// The command by which a bridge starts such a process; it logs where the bridge does, if that is a
/// file.
pub(crate) fn command(options: &ServerOptions, environment: Environment) -> LoginCommand {
    let mut arguments = vec![OsString::from(NAME)];
    if let Some(file) = &options.log_file {
        arguments.extend(["--log-file".into(), file.into()]);
        arguments.extend(logging::level_arguments(options));
    }
    Arc::new(move || {
        // What it needs of settings and secrets is in the job.
        let mut command = environment.command(program()?);
        #[cfg(unix)]
        std::os::unix::process::CommandExt::arg0(&mut command, SHOWN);
        command.args(&arguments);
        Ok(command)
    })
}

/// This very program, also where its file was replaced since.
fn program() -> std::io::Result<OsString> {
    if cfg!(target_os = "linux") {
        return Ok("/proc/self/exe".into());
    }
    std::env::current_exe().map(Into::into)
}

/// Does what was typed if it is this.
pub(crate) fn run(typed: &[OsString]) -> Option<Result<ExitCode, Failure>> {
    typed.get(1).filter(|word| *word == NAME)?;
    Some(log_in(&typed[1..]))
}

fn log_in(typed: &[OsString]) -> Result<ExitCode, Failure> {
    if cfg!(target_os = "linux") {
        // It was started by the name that the kernel has for this program. Where it stays, no harm
        // is done.
        let _ = std::fs::write("/proc/self/comm", SHOWN);
    }
    let matches = Arguments::command().try_get_matches_from(typed)?;
    let log = Connect::read(&matches)?;
    let scrubber = Scrubber::default();
    if log.options.log_file.is_some() {
        logging::start(&log, &scrubber)?;
    }
    let mut job = Vec::new();
    std::io::stdin().lock().take(limits::LOGIN_JOB as u64).read_to_end(&mut job)?;
    on_runtime(async move {
        // What a browser must not have was left out when this process was started.
        let open = browser::opener(Environment::default(), std::env::var("BROWSER").ok());
        let said = |word: &[u8]| {
            let mut stdout = std::io::stdout().lock();
            // Whoever waited for it may be gone, which is what this is for.
            let _ = stdout.write_all(word).and_then(|()| stdout.flush());
        };
        Ok(match oauth::login_process(&job, &scrubber, open, said).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                tracing::info!("{error}");
                ExitCode::FAILURE
            }
        })
    })
}
