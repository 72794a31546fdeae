//! Linux: a file descriptor of the parent process becomes readable when it ends.
//!
//! Not `PR_SET_PDEATHSIG`: that one follows the thread that started us, and clients start
//! processes from threads that come and go.

use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open};
use tokio::net::unix::pipe::Receiver;

/// Completes when the parent has ended; never if it is init, which adopts orphans.
pub(super) async fn gone() {
    let Some(parent) = getppid().filter(|parent| *parent != Pid::INIT) else {
        return std::future::pending().await;
    };
    // Fails on kernels before 5.10 only: then the end of stdin has to do.
    let Ok(fd) = pidfd_open(parent, PidfdFlags::NONBLOCK) else {
        return std::future::pending().await;
    };
    // Not a pipe, but polled like one; tokio's type for any descriptor wants `unsafe`.
    let Ok(end) = Receiver::from_owned_fd_unchecked(fd) else {
        return std::future::pending().await;
    };
    if getppid() != Some(parent) {
        return;
    }
    let _ = end.readable().await;
}
