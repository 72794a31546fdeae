//! Unix: pipes and sockets are polled on the runtime's own thread; signals mean goodbye.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;

use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
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
    Stdio {
        input: input().unwrap_or_else(|_| Box::new(tokio::io::stdin())),
        output: output().unwrap_or_else(|_| Box::new(tokio::io::stdout())),
        restore,
    }
}

/// Whether no program can be writing to stdin: it is a terminal, or `/dev/null`.
#[must_use]
pub fn is_nobodys_stdin() -> bool {
    fstat(io::stdin())
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice)
}

fn input() -> io::Result<Box<dyn AsyncRead + Send + Unpin>> {
    let fd = io::stdin().as_fd().try_clone_to_owned()?;
    match file_type(&fd)? {
        FileType::Fifo => Ok(Box::new(pipe::Receiver::from_owned_fd(fd)?)),
        FileType::Socket => Ok(Box::new(socket(fd)?)),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn output() -> io::Result<Box<dyn AsyncWrite + Send + Unpin>> {
    let fd = io::stdout().as_fd().try_clone_to_owned()?;
    match file_type(&fd)? {
        FileType::Fifo => Ok(Box::new(pipe::Sender::from_owned_fd(fd)?)),
        FileType::Socket => Ok(Box::new(socket(fd)?)),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn file_type(fd: &OwnedFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(fstat(fd)?.st_mode))
}

/// Node gives its children sockets where others give pipes.
fn socket(fd: OwnedFd) -> io::Result<UnixStream> {
    let socket = StdUnixStream::from(fd);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
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
