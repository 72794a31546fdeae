//! Windows and others: the runtime's threads read and write the standard streams.

use std::io;

use tokio::process::{Child, Command};

use super::Stdio;

/// Nothing was changed, so nothing is put back.
#[derive(Debug)]
pub struct Restore(());

/// Opens stdin and stdout.
#[must_use]
pub fn stdio() -> Stdio {
    Stdio {
        input: Box::new(tokio::io::stdin()),
        output: Box::new(tokio::io::stdout()),
        restore: Restore(()),
    }
}

/// Whether no program can be writing to stdin: it is a terminal.
#[must_use]
pub fn is_nobodys_stdin() -> bool {
    std::io::IsTerminal::is_terminal(&std::io::stdin())
}

/// Completes when somebody wants this process to end.
pub async fn terminated() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Never completes: a Windows client that dies closes our stdin, and nothing else holds it.
pub async fn parent_gone() {
    std::future::pending().await
}

/// Starts a process that lives on when this one is ended, alone or with its console.
///
/// # Errors
///
/// When it cannot be started.
pub fn spawn_detached(command: &mut Command) -> io::Result<Child> {
    #[cfg(windows)]
    {
        const DETACHED_PROCESS: u32 = 0x8;
        const CREATE_NEW_PROCESS_GROUP: u32 = 0x200;
        const CREATE_BREAKAWAY_FROM_JOB: u32 = 0x0100_0000;
        let detached = DETACHED_PROCESS | CREATE_NEW_PROCESS_GROUP;
        // Some clients end all processes of a job with it; not every job lets go of its processes.
        command.creation_flags(detached | CREATE_BREAKAWAY_FROM_JOB);
        if let Ok(child) = command.spawn() {
            return Ok(child);
        }
        command.creation_flags(detached);
    }
    command.spawn()
}

/// A child process. What it has started is not known here; the process itself is killed by its
/// handle.
#[derive(Debug)]
pub struct Group;

impl Group {
    /// The group whose leader has this number.
    #[must_use]
    pub fn led_by(_: Option<u32>) -> Self {
        Self
    }

    /// There is no polite way to ask.
    pub fn terminate(&self) {}

    /// See [`Group`].
    pub fn kill(&mut self) {}
}
