//! A bridge as a process: started, spoken to over its pipes, and ended.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use memchr::memmem;

use crate::contestant::{Burst, Contestant, LONG_WAIT, Load, SHORT_WAIT};
use crate::figures::failure::Failure;
use crate::group;
use crate::messages::{self, Expected, INITIALIZE, INITIALIZED, PROGRESS, excerpt};
use crate::pipes::Pipes;

/// Notifications that come behind their answer come at once, or are lost.
const STRAGGLERS: Duration = Duration::from_secs(2);

/// Programs of others take longer to start, and more so on a busy machine.
const START_WAIT: Duration = Duration::from_secs(30);

/// A running child; killed when dropped, with all that it has started.
pub(crate) struct Process {
    child: Child,
    pipes: Pipes,
    next_id: u64,
}

impl Process {
    /// Starts it and opens a session; also how long the answer took.
    pub(crate) fn start(mut command: Command) -> Result<(Self, Duration), Failure> {
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let began = Instant::now();
        let mut child = command.spawn().map_err(Failure::error)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::error("it has no pipes"));
        };
        let mut process = Self { child, pipes: Pipes::new(input, output)?, next_id: 1 };
        process.pipes.send(INITIALIZE.as_bytes(), START_WAIT)?;
        let welcome = process.pipes.next(START_WAIT)?;
        let took = began.elapsed();
        if memmem::find(welcome, br#""protocolVersion""#).is_none() {
            return Err(Failure::wrong(excerpt(welcome)));
        }
        process.pipes.send(INITIALIZED.as_bytes(), SHORT_WAIT)?;
        Ok((process, took))
    }

    /// Closes stdin; how long it took until the process was gone.
    pub(crate) fn end(mut self) -> Result<Duration, Failure> {
        let began = Instant::now();
        self.pipes.close_input();
        // Its stdout closes when it exits: no need to ask again and again.
        while self.pipes.fill(began + SHORT_WAIT)? > 0 {}
        let status = self.exited(began + SHORT_WAIT)?;
        let took = began.elapsed();
        if status.success() { Ok(took) } else { Err(Failure::error(status)) }
    }

    fn exited(&mut self, deadline: Instant) -> Result<ExitStatus, Failure> {
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().map_err(Failure::error)? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        Err(Failure::hang("it did not exit"))
    }

    fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// One call with much in it or in its answer.
    fn one(&mut self, id: u64, line: &str, expected: &Expected) -> Result<Duration, Failure> {
        let began = Instant::now();
        self.pipes.send(line.as_bytes(), LONG_WAIT)?;
        loop {
            let answer = self.pipes.next(LONG_WAIT)?;
            let took = began.elapsed();
            if let Some(answered) = messages::answer(answer, expected)? {
                return same(answered, id).map(|()| took);
            }
        }
    }

    /// Reads until the answer and all notifications are there, which are written to `heard`.
    fn hear(&mut self, id: u64, count: usize, heard: &mut Vec<u8>) -> Result<(), Failure> {
        let (mut came, mut is_answered) = (0, false);
        while came < count || !is_answered {
            let limit = if is_answered { STRAGGLERS } else { LONG_WAIT };
            let line = match self.pipes.next(limit) {
                Ok(line) => line,
                // How many are missing is seen from what was heard.
                Err(_) if is_answered => return Ok(()),
                Err(failure) => return Err(failure.at(format!("behind {came} notifications"))),
            };
            if memmem::find(line, PROGRESS.as_bytes()).is_some() {
                heard.extend_from_slice(line);
                heard.push(b'\n');
                came += 1;
            } else if let Some(answered) = messages::answer(line, &Expected::Text("done".into()))? {
                same(answered, id)?;
                is_answered = true;
            }
        }
        Ok(())
    }
}

impl Contestant for Process {
    fn sequential(&mut self, load: Load) -> Result<Vec<Duration>, Failure> {
        let expected = Expected::small();
        let mut took = Vec::with_capacity(load.calls);
        let start = Instant::now();
        while load.has_room(took.len(), start) {
            let id = self.take_id();
            let line = messages::small(id);
            let began = Instant::now();
            self.pipes.send(line.as_bytes(), SHORT_WAIT)?;
            loop {
                let answer = self.pipes.next(SHORT_WAIT).map_err(|e| e.at(format!("id {id}")))?;
                let elapsed = began.elapsed();
                if let Some(answered) = messages::answer(answer, &expected)? {
                    same(answered, id)?;
                    took.push(elapsed);
                    break;
                }
            }
        }
        Ok(took)
    }

    fn in_flight(&mut self, load: Load, window: usize) -> Result<Burst, Failure> {
        let expected = Expected::small();
        let first = self.next_id + 1;
        let mut open = vec![true; load.calls];
        let mut lines = String::new();
        let (mut sent, mut done) = (0, 0);
        let began = Instant::now();
        loop {
            lines.clear();
            while sent - done < window && load.has_room(sent, began) {
                lines += &messages::small(self.take_id());
                sent += 1;
            }
            if done == sent {
                return Ok(Burst { calls: done, took: began.elapsed() });
            }
            self.pipes.send(lines.as_bytes(), SHORT_WAIT)?;
            // As many as have come together are replaced together.
            loop {
                let line =
                    self.pipes.next(SHORT_WAIT).map_err(|e| missing(e, first, &open[..sent]))?;
                if let Some(id) = messages::answer(line, &expected)? {
                    let at = usize::try_from(id.wrapping_sub(first)).unwrap_or(usize::MAX);
                    match open.get_mut(at).filter(|_| at < sent) {
                        Some(open) if *open => *open = false,
                        _ => return Err(Failure::wrong(format!("an answer too much, to {id}"))),
                    }
                    done += 1;
                }
                if !self.pipes.has_line() {
                    break;
                }
            }
        }
    }

    fn large(&mut self, bytes: usize) -> Result<Duration, Failure> {
        let id = self.take_id();
        self.pipes.expect(bytes + 1024);
        self.one(id, &messages::large(id, bytes), &Expected::Large(bytes))
    }

    fn request(&mut self, bytes: usize) -> Result<Duration, Failure> {
        let id = self.take_id();
        self.one(id, &messages::request(id, bytes), &Expected::Text(bytes.to_string()))
    }

    fn notifications(&mut self, count: usize) -> Result<Duration, Failure> {
        let id = self.take_id();
        let line = messages::notify(id, count);
        let mut heard = Vec::with_capacity(count * 160);
        let began = Instant::now();
        self.pipes.send(line.as_bytes(), SHORT_WAIT)?;
        self.hear(id, count, &mut heard)?;
        let took = began.elapsed();
        messages::check_notifications(&heard, count).map(|()| took)
    }

    fn process_id(&self) -> Option<u32> {
        Some(self.child.id())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        group::kill(&mut self.child);
    }
}

fn same(answered: u64, id: u64) -> Result<(), Failure> {
    if answered == id {
        return Ok(());
    }
    Err(Failure::wrong(format!("the answer to {id} has the id {answered}")))
}

fn missing(failure: Failure, first: u64, open: &[bool]) -> Failure {
    let ids: Vec<u64> = (first..).zip(open).filter(|(_, open)| **open).map(|(id, _)| id).collect();
    failure.at(format!("{} without an answer, such as {:?}", ids.len(), &ids[..ids.len().min(4)]))
}
