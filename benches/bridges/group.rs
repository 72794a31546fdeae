//! The end of a child together with all that it has started.

use std::process::Child;

use rustix::process::{Pid, Signal, kill_process_group};

/// Kills a child that leads a process group of its own, and waits for it.
pub(crate) fn kill(child: &mut Child) {
    // As long as it was not waited for, the number is its own.
    if let Ok(None) = child.try_wait()
        && let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw)
    {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}
