//! Unix: pipes and sockets are polled on the runtime's own thread; signals and the parent's death mean
//! goodbye; a child process and all that it has started are one group.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};
use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, Signal, getppid, kill_process_group};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

use super::Stdio;

/// Opens stdin and stdout.
///
/// A trip to a thread and back for each message would cost more than all else that is done with
/// it; terminals and files, which cannot be polled, are left to the runtime's threads.
#[must_use]
pub fn stdio() -> Stdio {
    let restore = Restore([flags_of(io::stdin()), flags_of(io::stdout())]);
    let input = polled(io::stdin()).and_then(pipe::Receiver::from_owned_fd_unchecked);
    let output = polled(io::stdout()).and_then(pipe::Sender::from_owned_fd_unchecked);
    Stdio {
        input: match input {
            Ok(input) => Box::new(input),
            Err(_) => Box::new(tokio::io::stdin()),
        },
        output: match output {
            Ok(output) => Box::new(output),
            Err(_) => Box::new(tokio::io::stdout()),
        },
        restore,
    }
}

/// Whether no program can be writing to stdin: it is a terminal, or `/dev/null`.
#[must_use]
pub fn is_nobodys_stdin() -> bool {
    opened(io::stdin()).is_ok_and(|(_, sort)| sort == FileType::CharacterDevice)
}

/// A stream that can be polled, for us to close. Node gives its children sockets where others give
/// pipes; both are read and written in the same way.
fn polled(stream: impl AsFd) -> io::Result<OwnedFd> {
    let (fd, sort) = opened(stream)?;
    if !matches!(sort, FileType::Fifo | FileType::Socket) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    ioctl_fionbio(&fd, true)?;
    Ok(fd)
}

/// A stream for us to close, and what it leads to.
fn opened(stream: impl AsFd) -> io::Result<(OwnedFd, FileType)> {
    let fd = stream.as_fd().try_clone_to_owned()?;
    let sort = FileType::from_raw_mode(fstat(&fd)?.st_mode);
    Ok((fd, sort))
}

/// Polling makes the streams non-blocking for everybody who shares them; a shell that goes on
/// after us gets them back as they were.
#[derive(Debug)]
pub struct Restore([Option<(OwnedFd, OFlags)>; 2]);

impl Drop for Restore {
    fn drop(&mut self) {
        for (fd, flags) in self.0.iter().flatten() {
            let _ = fcntl_setfl(fd, *flags);
        }
    }
}

/// A stream with the flags that it has now.
fn flags_of(stream: impl AsFd) -> Option<(OwnedFd, OFlags)> {
    let fd = stream.as_fd().try_clone_to_owned().ok()?;
    let flags = fcntl_getfl(&fd).ok()?;
    Some((fd, flags))
}

/// Starts a process that lives on when this one is ended, alone or with its group.
///
/// # Errors
///
/// When it cannot be started.
pub fn spawn_detached(command: &mut Command) -> io::Result<Child> {
    command.process_group(0).spawn()
}

/// Completes when somebody wants this process to end.
pub async fn terminated() {
    let listen = |kind| async move {
        match signal(kind) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = listen(SignalKind::terminate()) => {}
        () = listen(SignalKind::interrupt()) => {}
        () = listen(SignalKind::hangup()) => {}
    }
}

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

    // Fails on kernels before 5.10 only.
    let Ok(fd) = pidfd_open(parent, PidfdFlags::NONBLOCK) else { return };
    // Not a pipe, but polled like one; tokio's type for any descriptor wants `unsafe`.
    let Ok(end) = pipe::Receiver::from_owned_fd_unchecked(fd) else { return };
    if getppid() == Some(parent) {
        let _ = end.readable().await;
    }
}

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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_socket_is_polled_like_a_pipe() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (input, output) = (polled(&ours).unwrap(), polled(&theirs).unwrap());
        drop((ours, theirs));
        let mut input = pipe::Receiver::from_owned_fd_unchecked(input).unwrap();
        let mut output = pipe::Sender::from_owned_fd_unchecked(output).unwrap();
        let sent = vec![7; 4 * 1024 * 1024];
        let mut received = Vec::new();
        let sending = async {
            output.write_all(&sent).await.unwrap();
            drop(output);
        };
        let (read, ()) = tokio::join!(input.read_to_end(&mut received), sending);
        assert_eq!((read.unwrap(), received.len()), (sent.len(), sent.len()));
        assert!(polled(std::fs::File::open("/dev/null").unwrap()).is_err());
    }
}
