//! Checks a server that is a program: whether it is there, starts, answers and leaves.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::finding::{Finding, Status, counted, ms};
use super::{Activity, CheckOptions, contents};
use crate::report::plain;
use mcp_span::bridge::HiddenTools;
use mcp_span::client::{Client, Options, Spec};
use mcp_span::error::{Error, ErrorKind};
use mcp_span::limits::{self, Timeouts};
use mcp_span::transport::child::ChildSettings;
use mcp_span::untrusted::Untrusted;

/// What cannot be looked at without a handshake.
const BEHIND: [&str; 5] = ["transport", "server", "round-trip", "contents", "goodbye"];

/// What a program has written to its stderr: how much, how it began, and how it ended. The reason
/// for an end mostly stands in the last lines.
#[derive(Debug, Default)]
struct Written {
    count: usize,
    first_and_last: Vec<String>,
}

impl Written {
    fn note(&mut self, line: &str) {
        self.count += 1;
        if self.first_and_last.len() == limits::CHECK_STDERR_FIRST + limits::CHECK_STDERR {
            self.first_and_last.remove(limits::CHECK_STDERR_FIRST);
        }
        self.first_and_last.push(plain(&Untrusted(line).excerpt(limits::ERROR_TEXT)));
    }

    fn left_out(&self) -> usize {
        self.count - self.first_and_last.len()
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = self.first_and_last.clone();
        if self.left_out() > 0 {
            let gap = format!("… {} …", counted(self.left_out(), "line"));
            lines.insert(limits::CHECK_STDERR_FIRST, gap);
        }
        lines
    }

    /// It is no fault to write beside one's messages.
    fn finding(&self) -> Finding {
        let summary = match (self.count, self.left_out()) {
            (0, _) => "silent".to_owned(),
            (count, 0) => counted(count, "line"),
            (count, _) => {
                format!("{}, first and last shown", counted(count, "line"))
            }
        };
        Finding::ok("stderr", summary).details(self.lines())
    }
}

fn locked(written: &Mutex<Written>) -> MutexGuard<'_, Written> {
    written.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All that can be said about the program.
pub(super) async fn check(
    mut settings: ChildSettings,
    hidden: &HiddenTools,
    check_options: CheckOptions,
    activity: Activity,
) -> Vec<Finding> {
    let mut findings = vec![command(&settings.program)];
    let written = Arc::new(Mutex::new(Written::default()));
    let noted = Arc::clone(&written);
    settings.on_stderr = Some(Arc::new(move |line: &str| locked(&noted).note(line)));
    let limit = check_options.limit;
    let mut spec = Spec::child(settings);
    spec.set_timeouts(Timeouts { quick: Some(limit), work: Some(limit) });
    activity.now("starting");
    let begun = Instant::now();
    let whole = limit.saturating_mul(limits::CHECK_HANDSHAKE);
    match contents::connect(spec, Options::default(), whole).await {
        Ok(client) => {
            let took = begun.elapsed();
            let summary = format!("initialized in {}", ms(took));
            findings.push(Finding::ok("start", summary).took(took));
            findings.extend(of_client(&client, hidden, limit, &activity).await);
        }
        Err(failure) => {
            let is_missing = findings.iter().any(|finding| finding.status == Status::Failed);
            findings.push(match failure.kind {
                ErrorKind::Spawn if is_missing => Finding::skipped("start", "nothing to start"),
                _ => unstarted(&failure, locked(&written).lines()),
            });
            let why = "no handshake";
            findings.extend(BEHIND.iter().map(|check| Finding::skipped(check, why)));
        }
    }
    findings.push(locked(&written).finding());
    findings
}

/// Why no handshake: mostly for a reason that the program `wrote` itself.
fn unstarted(failure: &Error, wrote: Vec<String>) -> Finding {
    let mut finding = contents::of_failure("start", failure);
    let (meaning, next) = match failure.kind {
        ErrorKind::Spawn => ("The system refuses to start the program", None),
        ErrorKind::Timeout => (
            "The program runs, but does not answer the handshake on stdout: is it an MCP server that speaks over stdio?",
            Some(
                "Try the command in a terminal; the server may need an argument such as `stdio`, or a longer --timeout",
            ),
        ),
        ErrorKind::Closed => {
            finding.details.clear();
            (
                "The program exited before it answered the handshake",
                Some("Read what it wrote to stderr, and try the command in a terminal"),
            )
        }
        _ => ("The program answers, but refuses the handshake", None),
    };
    if let Some(next) = next {
        finding.next_step = Some(next.to_owned());
    }
    finding.meaning(meaning).details(wrote)
}

async fn of_client(
    client: &Client,
    hidden: &HiddenTools,
    limit: Duration,
    activity: &Activity,
) -> Vec<Finding> {
    let server = client.server();
    let mut findings = vec![
        Finding::ok("transport", format!("stdio, revision {}", plain(client.protocol_version()))),
        contents::server(server, &server["serverInfo"]),
    ];
    activity.now("listing what there is");
    findings.push(contents::round_trips(client, "ping", limit).await);
    findings.push(contents::count(client, hidden, limit).await);
    activity.now("saying goodbye");
    let begun = Instant::now();
    client.close().await;
    findings.push(goodbye(begun.elapsed()));
    findings
}

/// How it has left, by the time that it took: the end of its stdin, SIGTERM or SIGKILL.
fn goodbye(took: Duration) -> Finding {
    if took < limits::CHILD_LEAVES {
        let summary = format!("exits when stdin closes ({})", ms(took));
        return Finding::ok("goodbye", summary).took(took);
    }
    let summary = match took < limits::CHILD_LEAVES + limits::CHILD_TERMINATES {
        true => "does not exit when stdin closes, but on SIGTERM",
        false => "exits neither when stdin closes nor on SIGTERM, and was killed",
    };
    Finding::warning("goodbye", summary)
        .meaning("Clients that only close stdin leave such processes behind")
        .next_step("The server should exit when its stdin closes")
        .took(took)
}

/// Where the program is.
fn command(program: &OsStr) -> Finding {
    let shown = program.to_string_lossy();
    match find(program) {
        Some(path) if path.as_os_str() == program => Finding::ok("command", shown),
        Some(path) => Finding::ok("command", format!("{shown} is {}", path.display())),
        None => Finding::failed("command", format!("'{shown}' not found"))
            .meaning("There is no such file, or no directory of PATH has a program of this name")
            .next_step("Is it installed? Programs started by a desktop often have a shorter PATH than a terminal: use an absolute path"),
    }
}

fn find(program: &OsStr) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return path.is_file().then(|| path.to_owned());
    }
    let endings: &[&str] = if cfg!(windows) { &["", ".exe", ".cmd", ".bat"] } else { &[""] };
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).find_map(|folder| {
        let named = endings.iter().map(|ending| {
            let mut name = program.to_owned();
            name.push(ending);
            folder.join(name)
        });
        named.into_iter().find(|path| path.is_file())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_many_are_shown_and_few_are_kept() {
        let mut written = Written::default();
        (1..=13).for_each(|n| written.note(&n.to_string()));
        let told = written.finding();
        assert_eq!((&*told.summary, told.details.len()), ("13 lines", 13));
        (14..=1000).for_each(|n| written.note(&n.to_string()));
        assert_eq!(written.first_and_last.len(), 13);
        let told = written.finding();
        assert_eq!(told.summary, "1000 lines, first and last shown");
        assert_eq!(told.details[2..5], ["3", "… 987 lines …", "991"]);
        assert_eq!(told.details.last().unwrap(), "1000");
    }
}
