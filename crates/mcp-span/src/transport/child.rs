//! A link to a server that is a child process, with one message a line on its stdin and stdout.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use tokio::process::{self, Child};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::debug;

use super::{Ends, Incoming, Link, channel, spawn, stdio};
use crate::environment::Environment;
use crate::error::{self, Error};
use crate::limits;
use crate::os::Group;
use crate::secret::{Scrubber, Secret};
use crate::traffic::{self, TrafficKind};

mod stderr;

use stderr::LastLines;

/// Which program is started, and how.
#[derive(Clone)]
pub struct ChildSettings {
    /// The program: a path, or a name that is looked for in `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// What it inherits of the variables that this process has.
    pub environment: Environment,
    /// Variables on top of those.
    pub env: Vec<(OsString, Secret)>,
    /// Where it runs; `None` for where this process does.
    pub cwd: Option<PathBuf>,
    /// The largest single message, in bytes.
    pub max_message: usize,
    /// Knows the secrets that must not show up in what the program writes to its stderr.
    pub scrubber: Scrubber,
    /// Hears each line that the program writes to its stderr, beside the log.
    pub on_stderr: Option<OnStderr>,
}

/// Somebody who listens to a stderr, line by line.
pub type OnStderr = Arc<dyn Fn(&str) + Send + Sync>;

/// Arguments may be secrets.
impl fmt::Debug for ChildSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("program", &self.program).finish_non_exhaustive()
    }
}

impl ChildSettings {
    /// The defaults for `program`.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            environment: Environment::default(),
            env: Vec::new(),
            cwd: None,
            max_message: limits::MESSAGE_SIZE,
            scrubber: Scrubber::default(),
            on_stderr: None,
        }
    }

    /// The same with these arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args = args.into_iter().map(Into::into).collect();
        self
    }

    fn shown(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }
}

/// Starts the program. Nothing is sent before the first message.
///
/// When it ends by itself, the link says why ([`Incoming::Ended`]) and ends. When the link is
/// closed, the program is asked to leave: its stdin ends; a second later its process group gets
/// SIGTERM, and after another one SIGKILL. What it has started in that group goes with it.
///
/// # Errors
///
/// When the program cannot be started.
pub fn open(settings: ChildSettings) -> Result<Link, Error> {
    let program = settings.shown();
    let process = command(&settings).spawn().map_err(|why| cannot_start(&settings, &why))?;
    let group = Group::led_by(process.id());
    traffic::started(&program, process.id());
    Ok(spawn(|ends| {
        let child = ChildProcess { process, group, program, last_lines: LastLines::default() };
        child.run(ends, settings)
    }))
}

fn command(settings: &ChildSettings) -> process::Command {
    let mut command = process::Command::from(settings.environment.command(&settings.program));
    command
        .args(&settings.args)
        .envs(settings.env.iter().map(|(name, value)| (name, value.reveal())))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    if let Some(cwd) = &settings.cwd {
        command.current_dir(cwd);
    }
    // A group of its own: a Ctrl-C in a terminal is for us, and we say goodbye in order.
    #[cfg(unix)]
    command.process_group(0);
    command
}

fn cannot_start(settings: &ChildSettings, why: &std::io::Error) -> Error {
    let program = settings.shown();
    let hint = match (why.kind(), &settings.cwd) {
        (std::io::ErrorKind::NotFound, Some(cwd)) if !cwd.is_dir() => {
            format!("There is no folder {}", cwd.display())
        }
        (std::io::ErrorKind::NotFound, _) => {
            "Is it installed, and in PATH? Programs that a desktop starts often have a shorter \
             PATH than a terminal: an absolute path always works"
                .to_owned()
        }
        (std::io::ErrorKind::PermissionDenied, _) => "Is the file executable?".to_owned(),
        _ => "Try the command in a terminal".to_owned(),
    };
    Error::new(error::ErrorKind::Spawn, format!("'{program}' cannot be started: {why}"))
        .hint(hint)
        .not_delivered()
}

/// Waits for what it has said last. Some of its own children may keep the pipe open for ever; but
/// as long as somebody is slow to take what was read, there is more to come.
async fn finish_reading(reading: &mut JoinHandle<()>, incoming: &channel::Sender<Incoming>) {
    let finishing = async {
        while !reading.is_finished() {
            let waited = timeout(limits::CHILD_LAST_WORDS, &mut *reading).await;
            if waited.is_ok() || !incoming.is_full() {
                return;
            }
        }
    };
    let _ = timeout(limits::LAST_READ, finishing).await;
}

/// The process, from its start to its end.
struct ChildProcess {
    process: Child,
    group: Group,
    program: String,
    last_lines: LastLines,
}

impl ChildProcess {
    async fn run(mut self, ends: Ends, settings: ChildSettings) {
        let Child { stdin, stdout, stderr, .. } = &mut self.process;
        // It was started with all of them.
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (stdin.take(), stdout.take(), stderr.take())
        else {
            return;
        };
        let Ends { outgoing, incoming, written } = ends;
        let ChildSettings { max_message, scrubber, on_stderr, .. } = settings;
        let from = stdio::read(stdout, incoming.clone(), max_message, TrafficKind::FromChild);
        let to = stdio::Counted { output: stdin, written };
        let mut reading = tokio::spawn(from);
        let mut writing = tokio::spawn(stdio::write(to, outgoing, TrafficKind::ToChild));
        let (program, last_lines) = (self.program.clone(), self.last_lines.clone());
        let log = stderr::read(stderr, program, last_lines, scrubber, on_stderr);
        let mut logging = tokio::spawn(log);
        let ended = tokio::select! {
            status = self.process.wait() => Some(status.ok()),
            // It no longer speaks: what is asked of it gets no answer.
            _ = &mut reading => Some(self.status_soon().await),
            // At once: nobody waits for anything any more, not even for what is still to be written.
            () = incoming.closed() => None,
            all = &mut writing => match all {
                Ok(true) => None,
                // It no longer listens.
                _ => Some(self.status_soon().await),
            },
        };
        // Who has nothing more to say to it needs no reason.
        if let Some(status) = ended {
            finish_reading(&mut reading, &incoming).await;
            // The process has ended, so there is an end, unless another one holds the pipe.
            let _ = timeout(limits::CHILD_LAST_WORDS, &mut logging).await;
            let _ = timeout(limits::CHILD_LAST_WORDS, self.tell_why(status, &incoming)).await;
        }
        self.stop(writing).await;
        reading.abort();
        logging.abort();
    }

    /// How it has ended, if it has.
    async fn status_soon(&mut self) -> Option<ExitStatus> {
        timeout(limits::CHILD_LAST_WORDS, self.process.wait()).await.ok()?.ok()
    }

    async fn tell_why(&self, status: Option<ExitStatus>, incoming: &channel::Sender<Incoming>) {
        let program = &self.program;
        let message = match status {
            Some(status) => format!("Transport closed: '{program}' has ended: {status}"),
            None => format!("Transport closed: '{program}' has closed its streams"),
        };
        let mut error = Error::new(error::ErrorKind::Closed, message);
        error.reason = self.last_lines.text().map(Into::into);
        let hint = match &error.reason {
            Some(_) => "See what it wrote last, and try the command in a terminal",
            None => "It wrote nothing on its stderr; try the command in a terminal",
        };
        error = error.hint(hint);
        let _ = incoming.send(Incoming::Ended(error.into())).await;
    }

    /// The end of its stdin is the request to leave; then signals say it.
    async fn stop(mut self, writing: JoinHandle<bool>) {
        writing.abort();
        if timeout(limits::CHILD_LEAVES, self.process.wait()).await.is_err() {
            debug!(program = self.program, "still there: SIGTERM");
            self.group.terminate();
            if timeout(limits::CHILD_TERMINATES, self.process.wait()).await.is_err() {
                debug!(program = self.program, "still there: SIGKILL");
                self.group.kill();
                let _ = self.process.start_kill();
                let _ = timeout(limits::CHILD_LAST_WORDS, self.process.wait()).await;
            }
        }
        // Also after a clean end: what it has left behind would live on without anybody.
        self.group.kill();
    }
}
