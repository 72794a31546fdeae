//! Unix: waits for the end of the process that started this one.

use std::time::Duration;

use rustix::process::{Pid, getppid};

/// Soon enough that no orphan lives on for long, seldom enough to cost nothing.
const LOOK: Duration = Duration::from_secs(1);

/// Completes when the parent has ended: an orphan is given another one. Never if it is init, which
/// adopts orphans.
pub async fn parent_gone() {
    let Some(parent) = getppid().filter(|parent| *parent != Pid::INIT) else {
        return std::future::pending().await;
    };
    #[cfg(target_os = "linux")]
    end_of(parent).await;
    while getppid() == Some(parent) {
        tokio::time::sleep(LOOK).await;
    }
}

/// Linux: a file descriptor of the parent process becomes readable when it ends. Returns at once where
/// that cannot be known.
///
/// Not `PR_SET_PDEATHSIG`: that one follows the thread that started us, and clients start
/// processes from threads that come and go.
#[cfg(target_os = "linux")]
async fn end_of(parent: Pid) {
    use rustix::process::{PidfdFlags, pidfd_open};
    use tokio::net::unix::pipe::Receiver;

    // Fails on kernels before 5.10 only.
    let Ok(fd) = pidfd_open(parent, PidfdFlags::NONBLOCK) else { return };
    // Not a pipe, but polled like one; tokio's type for any descriptor wants `unsafe`.
    let Ok(end) = Receiver::from_owned_fd_unchecked(fd) else { return };
    if getppid() == Some(parent) {
        let _ = end.readable().await;
    }
}
