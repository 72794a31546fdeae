//! One session with a server: connect, run one command, disconnect.

use std::io::{self, Write};
use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::args::Target;
use super::login;
use super::server_requests;
use crate::output::{Page, Status, pretty};
use crate::report::{self, CommandError};
use crate::tool_names::ToolNames;
use crate::{environment, on_runtime, settings, start_logging};
use mcp_span::bridge::HiddenTools;
use mcp_span::client::{self, Client, Spec};
use mcp_span::secret::Secret;
use mcp_span::untrusted::Untrusted;
use mcp_span::{limits, os};

/// The exit code of a command, or why there is nothing to show.
pub(super) type Outcome = Result<ExitCode, CommandError>;

/// What a command has at hand.
pub(super) struct Context {
    pub(super) client: Client,
    /// For a program, as JSON.
    pub(super) is_json: bool,
    /// The server's log is wanted.
    pub(super) is_verbose: bool,
    /// The tools that the user does not want to see.
    pub(super) hidden_tools: HiddenTools,
    /// Where the names of its tools are kept for completion.
    pub(super) tool_names: Option<ToolNames>,
    pub(super) page: Page,
    pub(super) status: Status,
}

impl Context {
    /// Prints what the command was for.
    pub(super) fn print(&self, text: &str) -> Outcome {
        self.print_with(|out| out.write_all(text.as_bytes()))
    }

    /// The same with what is never in memory as a whole.
    pub(super) fn print_with(
        &self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Outcome {
        self.status.clear();
        report::print_with(write)?;
        Ok(ExitCode::SUCCESS)
    }

    /// The same with a line for a program. What a terminal would act on is escaped, so that the
    /// value stays what it is.
    pub(super) fn print_json(&self, json: &str) -> Outcome {
        self.print(&(Untrusted(json).json() + "\n"))
    }

    /// Warns a person; a program finds nothing but errors on stderr.
    pub(super) fn warn(&self, sentence: &str) {
        self.status.clear();
        if !self.is_json {
            report::warning(sentence);
        }
    }

    /// Prints an answer that lacks what the protocol requires, as it came: a failure.
    pub(super) fn print_odd(&self, json: &str, missing: &str) -> Outcome {
        self.status.clear();
        report::error(&format!("the server's answer has no '{missing}'; this is what it sent"));
        self.print_with(|out| pretty(json, out))?;
        Ok(ExitCode::FAILURE)
    }
}

/// What a command does with the server. Behind a pointer, or connecting and closing would be
/// compiled for each command anew.
type Work = Box<dyn FnOnce(Context) -> Pin<Box<dyn Future<Output = Outcome> + Send>> + Send>;

/// Connects to the server that was typed, does `work`, and disconnects.
pub(super) fn run<F>(
    typed: &Target,
    work: impl FnOnce(Context) -> F + Send + 'static,
) -> Result<ExitCode, CommandError>
where
    F: Future<Output = Outcome> + Send + 'static,
{
    run_boxed(typed, Box::new(|context| Box::pin(work(context))))
}

fn run_boxed(typed: &Target, work: Work) -> Result<ExitCode, CommandError> {
    let mut spec = settings::spec(&typed.connect)?;
    let scrubber = settings::scrubber(&spec).clone();
    hide_secrets(&spec);
    let logins = login::wait_for(&mut spec, &typed.connect.options);
    start_logging(&typed.connect, &spec)?;
    let status = Status::new("connecting");
    let hidden_tools = spec.stages.hidden_tools.clone();
    let connecting = server_requests::offer(Client::builder(spec), &status, typed.roots);
    let is_json = typed.json;
    let is_verbose = typed.connect.options.verbose == Some(true);
    let tool_names = tool_names(typed);
    let page = Page::of_stdout();
    on_runtime(async move {
        let mut connected = None;
        let session = async {
            let client = tokio::select! {
                client = connecting.connect() => client?,
                failure = logins.watch(&status) => return Err(failure.into()),
            };
            connected = Some(client.clone());
            status.set("waiting for the server");
            let status = status.clone();
            work(Context { client, is_json, is_verbose, hidden_tools, tool_names, page, status })
                .await
        };
        let ended = tokio::select! {
            biased;
            // First: Ctrl-C must be listened for before a process is started.
            () = os::terminated() => None,
            outcome = status.during(session) => Some(outcome),
        };
        status.clear();
        let code = match ended {
            Some(outcome) => outcome.unwrap_or_else(|error| error.report(is_json, &[], &scrubber)),
            None => ExitCode::from(130),
        };
        tokio::select! {
            () = disconnect(connected) => {}
            // A second Ctrl-C ends it at once.
            () = os::terminated() => {}
        }
        Ok(code)
    })
}

/// Where the names of the tools are kept of the server that was typed.
fn tool_names(typed: &Target) -> Option<ToolNames> {
    let options = &typed.connect.options;
    let folder = options.state_dir(&environment::context(&typed.connect))?;
    Some(ToolNames::new(&folder, options.url.as_deref()?))
}

/// Hides all headers of the user, whatever their names, and all variables that a program is given:
/// a server may repeat them.
fn hide_secrets(spec: &Spec) {
    match &spec.server {
        client::Server::Http(http) => {
            let values =
                http.headers.values().map(|value| String::from_utf8_lossy(value.as_bytes()));
            values.for_each(|value| http.scrubber.add(&Secret::new(value)));
        }
        client::Server::Child(child) => {
            child.env.iter().for_each(|(_, value)| child.scrubber.add(value));
        }
    }
}

/// Cancels what was asked for, and ends the session.
async fn disconnect(connected: Option<Client>) {
    match connected {
        Some(client) => client.close().await,
        None => at_rest(1).await,
    }
}

/// Waits until the tasks of a connection that came to nothing have ended, all but `ours`: a process
/// that was started for it must not stay behind.
pub(crate) async fn at_rest(ours: usize) {
    const LOOK: Duration = Duration::from_millis(5);
    let until = Instant::now() + limits::CLIENT_CLOSES;
    let tasks = tokio::runtime::Handle::current().metrics();
    while tasks.num_alive_tasks() > ours && Instant::now() < until {
        sleep(LOOK).await;
    }
}
