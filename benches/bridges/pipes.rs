//! A child's stdin and stdout; no wait is without an end, and a child that does not read while it
//! writes, or the other way round, blocks nobody.

use std::io::{ErrorKind, Read, Write};
use std::process::{ChildStdin, ChildStdout};
use std::time::{Duration, Instant};

use memchr::memchr;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};

use crate::figures::failure::Failure;

const ROOM: usize = 64 * 1024;

/// Both pipes, and what was read from the one.
pub(crate) struct Pipes {
    input: Option<ChildStdin>,
    output: ChildStdout,
    /// Initialized memory, so that a read needs no copy of its own.
    buffer: Vec<u8>,
    start: usize,
    filled: usize,
}

impl Pipes {
    pub(crate) fn new(input: ChildStdin, output: ChildStdout) -> Result<Self, Failure> {
        ioctl_fionbio(&input, true).map_err(|error| Failure::error(format!("stdin: {error}")))?;
        Ok(Self { input: Some(input), output, buffer: vec![0; ROOM], start: 0, filled: 0 })
    }

    /// Makes room for a line of `bytes`, so that growing is not measured.
    pub(crate) fn expect(&mut self, bytes: usize) {
        let wanted = self.filled + bytes + ROOM;
        if self.buffer.len() < wanted {
            // Written to, not just reserved: the first touch of a page costs, too.
            self.buffer.resize(wanted, 1);
        }
    }

    /// Writes all of `bytes`, and reads meanwhile whatever comes.
    pub(crate) fn send(&mut self, mut bytes: &[u8], limit: Duration) -> Result<(), Failure> {
        let deadline = Instant::now() + limit;
        while !bytes.is_empty() {
            let input = self.input.as_mut().ok_or_else(|| Failure::error("its stdin is closed"))?;
            match input.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if self.wait(true, deadline)? && self.fill(deadline)? == 0 {
                        return Err(Failure::error("it closed its stdout"));
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::error(format!("stdin: {error}"))),
            }
        }
        Ok(())
    }

    /// Says that nothing more will come.
    pub(crate) fn close_input(&mut self) {
        drop(self.input.take());
    }

    /// The next line, without its end.
    pub(crate) fn next(&mut self, limit: Duration) -> Result<&[u8], Failure> {
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
                return Err(Failure::error("it closed its stdout with answers to come"));
            }
            searched = self.start + partial;
        }
    }

    /// Whether a whole line is there already.
    pub(crate) fn has_line(&self) -> bool {
        memchr(b'\n', &self.buffer[self.start..self.filled]).is_some()
    }

    /// Waits for bytes and reads them; 0 is the end.
    pub(crate) fn fill(&mut self, deadline: Instant) -> Result<usize, Failure> {
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
        self.wait(false, deadline)?;
        let room = &mut self.buffer[self.filled..];
        let read = self.output.read(room).map_err(|e| Failure::error(format!("stdout: {e}")))?;
        self.filled += read;
        Ok(read)
    }

    /// Waits for output, or also until there is room for input; whether there is output.
    fn wait(&self, or_room: bool, deadline: Instant) -> Result<bool, Failure> {
        let mut output = [PollFd::new(&self.output, PollFlags::IN)];
        let mut both;
        let polled = match &self.input {
            Some(input) if or_room => {
                both = [output[0].clone(), PollFd::new(input, PollFlags::OUT)];
                &mut both[..]
            }
            _ => &mut output[..],
        };
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).map_err(Failure::error)?;
            match poll(polled, Some(&left)) {
                Ok(0) => return Err(Failure::hang("nothing came in time")),
                Ok(_) => return Ok(!polled[0].revents().is_empty()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(Failure::error(format!("poll: {error}"))),
            }
        }
    }
}
