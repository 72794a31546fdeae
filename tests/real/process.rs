//! A child process whose lines are collected, and whose whole group ends with the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Stdout,
    Stderr,
}

pub(crate) struct Process {
    child: Child,
    incoming: Receiver<(Source, String)>,
    seen: Vec<(Source, String)>,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            // Open as long as the test lives; see leave.mjs.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let (sender, incoming) = channel();
        collect(Source::Stdout, child.stdout.take().expect("stdout is piped"), sender.clone());
        collect(Source::Stderr, child.stderr.take().expect("stderr is piped"), sender);
        Self { child, incoming, seen: Vec::new() }
    }

    /// The next line that fits, or `None` when the process ends or the time is over before.
    pub(crate) fn wait_for_line(
        &mut self,
        limit: Duration,
        fits: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let (source, line) = self.incoming.recv_timeout(left).ok()?;
            self.seen.push((source, line.clone()));
            if fits(&line) {
                return Some(line);
            }
        }
    }

    /// The next line of stdout, or `None` when the process ends or the time is over before.
    pub(crate) fn next_stdout_line(&mut self, limit: Duration) -> Option<String> {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let (source, line) = self.incoming.recv_timeout(left).ok()?;
            self.seen.push((source, line.clone()));
            if source == Source::Stdout {
                return Some(line);
            }
        }
    }

    pub(crate) fn write_line(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().expect("stdin is open until it is closed");
        writeln!(stdin, "{line}").expect("the process reads its stdin");
    }

    pub(crate) fn close_stdin(&mut self) {
        self.child.stdin = None;
    }

    /// Asks the process to end, as a service manager does; its children are not asked.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Signals the process alone, without its children.
    /// Ends it without a word.
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
        assert!(self.wait(Duration::from_secs(10)).is_some(), "a killed process ends");
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal)
            .expect("a child that was not waited for can be signalled");
    }

    /// Waits until the process and all that share its output have ended.
    pub(crate) fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.incoming.recv_timeout(left) {
                Ok(line) => self.seen.push(line),
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => {
                    return Some(self.child.wait().expect("a child can be waited for"));
                }
            }
        }
    }

    /// What was read of stdout so far; all of it when the process has been waited for.
    pub(crate) fn stdout(&self) -> String {
        self.printed_on(Source::Stdout)
    }

    /// The same of stderr.
    pub(crate) fn stderr(&self) -> String {
        self.printed_on(Source::Stderr)
    }

    fn printed_on(&self, wanted: Source) -> String {
        let lines = self.seen.iter().filter(|(source, _)| *source == wanted);
        lines.map(|(_, line)| line.as_str()).collect::<Vec<_>>().join("\n")
    }

    /// Everything that was printed until now, for a failure's report.
    pub(crate) fn output(&mut self) -> String {
        self.seen.extend(self.incoming.try_iter());
        self.seen.iter().map(|(_, line)| line.as_str()).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // std cannot signal a group. The group may be empty already, which is no failure.
        let group = format!("kill -s KILL -- -{} 2>/dev/null", self.child.id());
        let _ = Command::new("sh").args(["-c", &group]).status();
        let _ = self.child.wait();
    }
}

fn collect(source: Source, pipe: impl Read + Send + 'static, lines: Sender<(Source, String)>) {
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if lines.send((source, line)).is_err() {
                return;
            }
        }
    });
}
