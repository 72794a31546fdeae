//! Reads lines from a child's stdout; no wait is without an end.

use std::io::Read;
use std::process::ChildStdout;
use std::time::{Duration, Instant};

use memchr::memchr;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

const ROOM: usize = 64 * 1024;

/// A pipe and what was read from it.
pub(crate) struct Lines {
    pipe: ChildStdout,
    /// Initialized memory, so that a read needs no copy of its own.
    buffer: Vec<u8>,
    start: usize,
    filled: usize,
}

impl Lines {
    pub(crate) fn new(pipe: ChildStdout) -> Self {
        Self { pipe, buffer: vec![0; ROOM], start: 0, filled: 0 }
    }

    /// Makes room for a line of `bytes`, so that growing is not measured.
    pub(crate) fn expect(&mut self, bytes: usize) {
        let wanted = self.filled + bytes + ROOM;
        if self.buffer.len() < wanted {
            // Written to, not just reserved: the first touch of a page costs, too.
            self.buffer.resize(wanted, 1);
        }
    }

    /// The next line, without its end.
    pub(crate) fn next(&mut self, limit: Duration) -> Result<&[u8], String> {
        let deadline = Instant::now() + limit;
        let mut searched = self.start;
        loop {
            if let Some(end) = memchr(b'\n', &self.buffer[searched..self.filled]) {
                let line = self.start..searched + end;
                self.start = line.end + 1;
                return Ok(&self.buffer[line]);
            }
            let partial = self.filled - self.start;
            if self.fill(deadline)? == 0 {
                return Err("lost: it closed its stdout with answers to come".into());
            }
            searched = self.start + partial;
        }
    }

    /// Whether a whole line is there already.
    pub(crate) fn has_line(&self) -> bool {
        memchr(b'\n', &self.buffer[self.start..self.filled]).is_some()
    }

    /// Waits for bytes and reads them; 0 is the end.
    pub(crate) fn fill(&mut self, deadline: Instant) -> Result<usize, String> {
        if self.start == self.filled {
            (self.start, self.filled) = (0, 0);
        }
        if self.buffer.len() - self.filled < ROOM {
            self.buffer.copy_within(self.start..self.filled, 0);
            (self.start, self.filled) = (0, self.filled - self.start);
        }
        if self.buffer.len() - self.filled < ROOM {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        self.wait(deadline)?;
        let room = &mut self.buffer[self.filled..];
        let read = self.pipe.read(room).map_err(|error| format!("stdout: {error}"))?;
        self.filled += read;
        Ok(read)
    }

    fn wait(&self, deadline: Instant) -> Result<(), String> {
        let mut polled = [PollFd::new(&self.pipe, PollFlags::IN)];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).map_err(|error| error.to_string())?;
            match poll(&mut polled, Some(&left)) {
                Ok(0) => return Err("hang: nothing came in time".into()),
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(format!("stdout: {error}")),
            }
        }
    }
}
