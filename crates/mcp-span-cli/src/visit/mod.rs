//! A visit at a server: connect, do one thing, leave; what `tools`, `call` and their like share.

use std::io::Write;
use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::tool_names::ToolNames;
use super::visit_args::Visit;
use super::{Failure, logging, oauth, on_runtime, settings, tls};
use mcp_span::bridge::HiddenTools;
use mcp_span::client::{self, Client, Options, Spec};
use mcp_span::secret::{Scrubber, Secret};
use mcp_span::untrusted::Untrusted;
use mcp_span::{limits, os};

mod asked;
mod form;
mod json_text;
mod login;
mod page;
mod status;
mod trouble;

use asked::Offer;
pub(super) use json_text::pretty;
pub(super) use page::{Page, count, one_line, wrap};
pub(super) use status::Status;
pub(super) use trouble::Trouble;

/// How a visit went: its exit code, or why there is nothing to show for it.
pub(super) type Outcome = Result<ExitCode, Trouble>;

/// What a command has at hand while it is there.
pub(super) struct Guest {
    pub(super) client: Client,
    /// What was typed behind the target.
    pub(super) words: Vec<String>,
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

impl Guest {
    /// Prints what the command was for.
    pub(super) fn print(&self, text: &str) -> Result<(), Trouble> {
        self.status.clear();
        Ok(super::report::print(text)?)
    }

    /// The same with what is never in memory as a whole.
    pub(super) fn print_with(
        &self,
        write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
    ) -> Result<(), Trouble> {
        self.status.clear();
        Ok(super::report::print_with(write)?)
    }

    /// The same with a line for a program. What a terminal would act on is escaped, so that the
    /// value stays what it is.
    pub(super) fn print_json(&self, json: &str) -> Outcome {
        self.print(&(Untrusted(json).json() + "\n"))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// What a command does at a server. Behind a pointer, or the way there and back would be compiled
/// for each command anew.
type Work = Box<dyn FnOnce(Guest) -> Pin<Box<dyn Future<Output = Outcome> + Send>> + Send>;

/// Goes to the server that was typed, does `work` there, and leaves.
pub(super) fn run<F>(
    typed: &Visit,
    work: impl FnOnce(Guest) -> F + Send + 'static,
) -> Result<ExitCode, Failure>
where
    F: Future<Output = Outcome> + Send + 'static,
{
    visit(typed, Box::new(|guest| Box::pin(work(guest))))
}

fn visit(typed: &Visit, work: Work) -> Result<ExitCode, Failure> {
    let mut spec = settings::spec(&typed.connect)?;
    let scrubber = settings::scrubber(&spec).clone();
    hide(&spec);
    let logins = login::of(&mut spec, &typed.connect.oauth);
    logging::start(&typed.connect.log, &scrubber)?;
    if let client::Server::Http(http) = &spec.server
        && typed.connect.tls.insecure
        && http.url.scheme() == "https"
    {
        tls::warn();
    }
    oauth::warn(&typed.connect);
    let status = Status::new("connecting");
    let Offer { capabilities, handler } = asked::offer(&status, typed.roots);
    let options = Options { capabilities, handler: Some(handler), ..Options::default() };
    let (words, is_json) = (typed.words.clone(), typed.json);
    let is_verbose = typed.connect.log.verbose;
    let hidden_tools = spec.stages.hidden_tools.clone();
    let tool_names = tool_names(typed);
    on_runtime(async move {
        let shown = status.clone();
        let spinning = tokio::spawn(shown.clone().spin());
        let stay = Stay { logins, is_json, status, scrubber };
        let work = |client, status| {
            let page = Page::of_stdout();
            let guest = Guest {
                client,
                words,
                is_json,
                is_verbose,
                hidden_tools,
                tool_names,
                page,
                status,
            };
            work(guest)
        };
        let code = stay.go(spec, options, work).await;
        spinning.abort();
        shown.clear();
        Ok(code)
    })
}

/// Where the names of the tools are kept of the server that was typed.
fn tool_names(typed: &Visit) -> Option<ToolNames> {
    let folder = oauth::folder(Some(&typed.connect.oauth), |name| std::env::var(name).ok())?;
    Some(ToolNames::new(&folder, typed.connect.url.as_deref()?))
}

/// No header of the user's is shown when a server repeats it, whatever its name, and no variable
/// that a program was given.
fn hide(spec: &Spec) {
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

/// One visit, from the door to the door.
struct Stay {
    logins: login::Logins,
    is_json: bool,
    status: Status,
    scrubber: Scrubber,
}

impl Stay {
    async fn go<F>(
        self,
        spec: Spec,
        options: Options,
        work: impl FnOnce(Client, Status) -> F,
    ) -> ExitCode
    where
        F: Future<Output = Outcome>,
    {
        let Self { logins, is_json, status, scrubber } = self;
        let connecting = async {
            tokio::select! {
                connected = Client::builder(spec).options(options).connect() => connected,
                failure = logins.watch(&status) => Err(failure),
            }
        };
        let client = tokio::select! {
            biased;
            // First: before a process is started, Ctrl-C must be heard.
            () = os::terminated() => return interrupted(&status, None).await,
            connected = connecting => connected,
        };
        let client = match client {
            Ok(client) => client,
            Err(failure) => {
                at_rest(OURS).await;
                return Trouble::from(failure).tell(is_json, &status, &scrubber);
            }
        };
        status.set("waiting for the server");
        let outcome = tokio::select! {
            outcome = work(client.clone(), status.clone()) => outcome,
            () = os::terminated() => return interrupted(&status, Some(client)).await,
        };
        let code = outcome.unwrap_or_else(|trouble| trouble.tell(is_json, &status, &scrubber));
        client.close().await;
        code
    }
}

/// Somebody has pressed Ctrl-C: what was asked is taken back, and the server is told goodbye.
async fn interrupted(status: &Status, client: Option<Client>) -> ExitCode {
    status.clear();
    let leaving = async {
        match client {
            Some(client) => client.close().await,
            None => at_rest(OURS).await,
        }
    };
    tokio::select! {
        () = leaving => {}
        // Twice means now.
        () = os::terminated() => {}
    }
    ExitCode::from(130)
}

/// Tasks that are always there: ourselves, and the spinner.
const OURS: usize = 2;

/// Waits until the tasks of a connection that came to nothing have ended, all but `ours`: a process
/// that was started for it must not stay behind.
pub(super) async fn at_rest(ours: usize) {
    const LOOK: Duration = Duration::from_millis(5);
    let until = Instant::now() + limits::CLIENT_CLOSES;
    let tasks = tokio::runtime::Handle::current().metrics();
    while tasks.num_alive_tasks() > ours && Instant::now() < until {
        sleep(LOOK).await;
    }
}
