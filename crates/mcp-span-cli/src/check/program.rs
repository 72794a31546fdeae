//! Checks a server that is a program: whether it is there, starts, answers and leaves.

use std::collections::VecDeque;
use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::finding::{Finding, Status, counted, ms};
use super::spinner::Activity;
use super::{CheckOptions, contents};
use crate::report::plain;
use mcp_span::client::{Client, Options, Spec};
use mcp_span::error::{Error, Kind};
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
    first: Vec<String>,
    last: VecDeque<String>,
}

impl Written {
    fn note(&mut self, line: &str) {
        self.count += 1;
        let line = Untrusted(line).excerpt(limits::ERROR_TEXT);
        if self.first.len() < limits::CHECK_STDERR_FIRST {
            self.first.push(line);
            return;
        }
        if self.last.len() == limits::CHECK_STDERR {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    /// It is no fault to write beside one's messages.
    fn told(&self) -> Finding {
        let left_out = self.count - self.first.len() - self.last.len();
        let summary = match self.count {
            0 => "silent".to_owned(),
            count if left_out > 0 => {
                format!("{}, of which the first and the last are shown", counted(count, "line"))
            }
            count => counted(count, "line"),
        };
        let gap = (left_out > 0).then(|| format!("… {} …", counted(left_out, "line")));
        let begins = self.first.iter().map(|line| plain(line));
        let ends = self.last.iter().map(|line| plain(line));
        Finding::ok("stderr", summary).details(begins.chain(gap).chain(ends))
    }
}

type Lines = Arc<Mutex<Written>>;

fn locked(lines: &Lines) -> MutexGuard<'_, Written> {
    lines.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All that can be said about the program.
pub(super) async fn check(
    mut settings: ChildSettings,
    check_options: CheckOptions,
    activity: Activity,
) -> Vec<Finding> {
    let mut findings = vec![command(&settings.program)];
    let heard = Lines::default();
    let lines = Arc::clone(&heard);
    settings.on_stderr = Some(Arc::new(move |line: &str| locked(&lines).note(line)));
    let mut spec = Spec::child(settings);
    spec.set_timeouts(Timeouts {
        quick: Some(check_options.limit),
        work: Some(check_options.limit),
    });
    activity.now("starting");
    let begun = Instant::now();
    match contents::connect(spec, Options::default(), check_options.limit).await {
        Ok(client) => {
            let took = begun.elapsed();
            let summary = format!("started and shaken hands with ({})", ms(took));
            findings.push(Finding::ok("start", summary).took(took));
            findings.extend(of_client(&client, check_options.limit, &activity).await);
        }
        Err(failure) => {
            let is_missing = findings.iter().any(|finding| finding.status == Status::Failed);
            findings.push(match failure.kind {
                Kind::Spawn if is_missing => Finding::skipped("start", "there is nothing to start"),
                _ => unstarted(&failure),
            });
            let why = "there was no handshake";
            findings.extend(BEHIND.iter().map(|check| Finding::skipped(check, why)));
        }
    }
    findings.push(locked(&heard).told());
    findings
}

/// Why there was no handshake. What it wrote last stands under `stderr`.
fn unstarted(failure: &Error) -> Finding {
    let mut finding = contents::of_failure("start", failure);
    let (meaning, next) = match failure.kind {
        Kind::Spawn => ("The system does not start the program", None),
        Kind::Timeout => (
            "The program runs, and does not answer the handshake on its stdout: is it an MCP server that speaks over stdio?",
            Some(
                "Try the command in a terminal; a server may need an argument such as `stdio`, or more --timeout",
            ),
        ),
        Kind::Closed => {
            finding.details.clear();
            (
                "The program has ended before it answered the handshake",
                Some("See below what it wrote to its stderr, and try the command in a terminal"),
            )
        }
        _ => ("The program answers, but does not shake hands", None),
    };
    if let Some(next) = next {
        finding.next_step = Some(next.to_owned());
    }
    finding.meaning(meaning)
}

async fn of_client(client: &Client, limit: Duration, activity: &Activity) -> Vec<Finding> {
    let server = client.server();
    let mut findings = vec![
        Finding::ok("transport", format!("stdio, revision {}", plain(client.protocol_version()))),
        contents::server(server, &server["serverInfo"]),
    ];
    activity.now("listing what there is");
    findings.push(contents::pings(client, limit).await);
    findings.push(contents::count(client, limit).await);
    activity.now("saying goodbye");
    let begun = Instant::now();
    client.close().await;
    findings.push(goodbye(begun.elapsed()));
    findings
}

/// How it has left, by the time that it took: the end of its stdin, SIGTERM or SIGKILL.
fn goodbye(took: Duration) -> Finding {
    if took < limits::CHILD_LEAVES {
        let summary = format!("it leaves when its stdin ends ({})", ms(took));
        return Finding::ok("goodbye", summary).took(took);
    }
    let summary = match took < limits::CHILD_LEAVES + limits::CHILD_TERMINATES {
        true => "it does not leave when its stdin ends, but does on SIGTERM",
        false => "it leaves neither when its stdin ends nor on SIGTERM, and was killed",
    };
    Finding::warning("goodbye", summary)
        .meaning("Clients that are less thorough leave it behind: such processes pile up")
        .next_step("The server should end when its stdin does")
        .took(took)
}

/// Where the program is.
fn command(program: &OsStr) -> Finding {
    let shown = program.to_string_lossy();
    match find(program) {
        Some(path) if path.as_os_str() == program => Finding::ok("command", shown),
        Some(path) => Finding::ok("command", format!("{shown} is {}", path.display())),
        None => Finding::failed("command", format!("'{shown}' is not there"))
            .meaning("No folder of PATH has a program of this name, or there is no such file")
            .next_step("Is it installed? Programs that a desktop starts often have a shorter PATH than a terminal: an absolute path always works"),
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
        let told = written.told();
        assert_eq!((&*told.summary, told.details.len()), ("13 lines", 13));
        (14..=1000).for_each(|n| written.note(&n.to_string()));
        assert_eq!((written.first.len(), written.last.len()), (3, 10));
        let told = written.told();
        assert_eq!(told.summary, "1000 lines, of which the first and the last are shown");
        assert_eq!(told.details[2..5], ["3", "… 987 lines …", "991"]);
        assert_eq!(told.details.last().unwrap(), "1000");
    }
}
