//! Unix: a child process and all that it has started, as one group.

use rustix::process::{Pid, Signal, kill_process_group};

/// A group of processes; killed when it is dropped.
#[derive(Debug)]
pub struct Group(Option<Pid>);

impl Group {
    /// The group whose leader has this number.
    #[must_use]
    pub fn led_by(pid: Option<u32>) -> Self {
        Self(pid.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw))
    }

    /// Asks all of them to end.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends all of them, for good: the number may be another group's afterwards.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.0 = None;
    }

    fn signal(&self, signal: Signal) {
        if let Some(leader) = self.0 {
            // Nobody left is what was wanted.
            let _ = kill_process_group(leader, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
