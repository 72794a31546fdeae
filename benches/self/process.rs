//! A bridge as a process: started, spoken to over its pipes, and ended.

use std::io::Write;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::calls::{self, HEAD, INITIALIZE, INITIALIZED};
use super::contest::{LONG_WAIT, Peer, SHORT_WAIT, Who};
use super::lines::Lines;

/// A running child; killed when dropped.
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    lines: Lines,
    next_id: u64,
}

impl Process {
    /// Starts `who` and opens a session; also how long its first byte took.
    pub(crate) fn start(who: Who, url: &str) -> Result<(Self, Duration), String> {
        let mut command = command(who, url)?;
        // The same few variables for everyone: none.
        command.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped());
        let began = Instant::now();
        let mut child = command.spawn().map_err(|error| format!("it does not start: {error}"))?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or("it has no stdout")?;
        let mut process = Self { child, input, lines: Lines::new(output), next_id: 1 };
        process.send(INITIALIZE.as_bytes())?;
        process.lines.fill(Instant::now() + SHORT_WAIT)?;
        let took = began.elapsed();
        let welcome = process.lines.next(SHORT_WAIT)?;
        if !welcome.starts_with(format!("{HEAD}0,\"result\":").as_bytes()) {
            return Err(format!("wrong: {}", String::from_utf8_lossy(welcome)));
        }
        process.send(INITIALIZED.as_bytes())?;
        Ok((process, took))
    }

    /// Closes stdin; how long it took until the process was gone.
    pub(crate) fn end(mut self) -> Result<Duration, String> {
        let began = Instant::now();
        drop(self.input.take());
        // Its stdout closes when it exits: no need to ask again and again.
        while self.lines.fill(began + SHORT_WAIT).map_err(|e| format!("at the end: {e}"))? > 0 {}
        let status = self.exited(began + SHORT_WAIT)?;
        if status.success() { Ok(began.elapsed()) } else { Err(format!("it ended with {status}")) }
    }

    fn exited(&mut self, deadline: Instant) -> Result<ExitStatus, String> {
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().map_err(|error| error.to_string())? {
                return Ok(status);
            }
            std::thread::yield_now();
        }
        Err("hang: it did not exit".into())
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        // Never blocks: what is in flight is less than a pipe holds.
        let input = self.input.as_mut().ok_or("its stdin is closed")?;
        input.write_all(bytes).map_err(|error| format!("lost: stdin: {error}"))
    }

    fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}

impl Peer for Process {
    fn sequential(&mut self, calls: usize) -> Result<Vec<Duration>, String> {
        let mut took = Vec::with_capacity(calls);
        for _ in 0..calls {
            let id = self.take_id();
            let line = calls::small(id);
            let began = Instant::now();
            self.send(line.as_bytes())?;
            let answer = self.lines.next(SHORT_WAIT).map_err(|e| format!("id {id}: {e}"))?;
            took.push(began.elapsed());
            let answered = calls::answered(answer)?;
            if answered != id {
                return Err(format!("wrong: the answer to {id} has the id {answered}"));
            }
        }
        Ok(took)
    }

    fn in_flight(&mut self, calls: usize, window: usize) -> Result<Duration, String> {
        let first = self.next_id + 1;
        let mut open = vec![true; calls];
        let mut lines = String::new();
        let (mut sent, mut done) = (0, 0);
        let began = Instant::now();
        while done < calls {
            lines.clear();
            while sent < calls && sent - done < window {
                lines += &calls::small(self.take_id());
                sent += 1;
            }
            self.send(lines.as_bytes())?;
            // As many as have come together are replaced together.
            loop {
                let line =
                    self.lines.next(SHORT_WAIT).map_err(|e| missing(&e, first, &open[..sent]))?;
                let id = calls::answered(line)?;
                let at = usize::try_from(id.wrapping_sub(first)).unwrap_or(usize::MAX);
                match open.get_mut(at).filter(|_| at < sent) {
                    Some(open) if *open => *open = false,
                    _ => return Err(format!("wrong: an answer too much, to {id}")),
                }
                done += 1;
                if !self.lines.has_line() {
                    break;
                }
            }
        }
        Ok(began.elapsed())
    }

    fn large(&mut self, bytes: usize) -> Result<Duration, String> {
        let id = self.take_id();
        self.lines.expect(bytes + 1024);
        let line = calls::large(id, bytes);
        let began = Instant::now();
        self.send(line.as_bytes())?;
        let answer = self.lines.next(LONG_WAIT).map_err(|e| format!("id {id}: {e}"))?;
        let took = began.elapsed();
        calls::check_large(answer, id, bytes)?;
        Ok(took)
    }

    fn process_id(&self) -> Option<u32> {
        Some(self.child.id())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(who: Who, url: &str) -> Result<Command, String> {
    let mut command = match who {
        Who::Direct => return Err("nothing is to be started".into()),
        Who::Floor => {
            let itself = std::env::current_exe().map_err(|error| error.to_string())?;
            let mut command = Command::new(itself);
            command.arg("floor");
            command
        }
        Who::Span => Command::new(env!("CARGO_BIN_EXE_mcp-span")),
    };
    command.arg(url);
    Ok(command)
}

fn missing(error: &str, first: u64, open: &[bool]) -> String {
    let ids: Vec<u64> = (first..).zip(open).filter(|(_, open)| **open).map(|(id, _)| id).collect();
    let some = &ids[..ids.len().min(8)];
    format!("{error}; {} without an answer, such as {some:?}", ids.len())
}
