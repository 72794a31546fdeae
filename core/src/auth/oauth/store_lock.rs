//! Locks beside the tokens, by which processes take turns.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use tracing::warn;

use crate::private_file;

/// Held by one process at a time.
#[derive(Debug)]
pub(super) struct Lock {
    /// Closing it is what unlocks it. `None`: there is nothing that could be shared.
    file: Option<File>,
}

/// Another process still has the lock.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LockedByOther;

/// What became of one try for the lock.
#[derive(Debug)]
pub(super) enum Try {
    Locked(File),
    Held,
    /// There are no locks here, or no files.
    Impossible(io::Error),
}

/// How often a lock that another process holds is tried for.
const TRIES: Duration = Duration::from_millis(50);

impl Lock {
    /// Where there is nothing that could be shared.
    pub(super) fn unshared() -> Self {
        Self { file: None }
    }

    /// Whether other processes are kept out.
    pub(super) fn is_shared(&self) -> bool {
        self.file.is_some()
    }

    /// Waits for the lock of this name beside `file`. Where there can be no lock, there is one for the
    /// asking: a home without them is no reason to be without tokens.
    pub(super) async fn wait(
        file: &Path,
        extension: &str,
        patience: Duration,
    ) -> Result<Self, LockedByOther> {
        let locking = async {
            loop {
                let opened = private_file::make_folder_of(file)
                    .and_then(|()| private_file::open_lock(&file.with_extension(extension)));
                match attempt(opened, File::try_lock) {
                    Try::Locked(lock) => return Some(lock),
                    Try::Held => tokio::time::sleep(TRIES).await,
                    Try::Impossible(error) => {
                        warn!("tokens cannot be kept in {}: {error}", file.display());
                        return None;
                    }
                }
            }
        };
        let locked = tokio::time::timeout(patience, locking).await;
        locked.map(|file| Self { file }).map_err(|_| LockedByOther)
    }
}

impl Try {
    /// For the lock that is in `file`.
    pub(super) fn to_lock(file: &Path) -> Self {
        attempt(private_file::open_lock(file), File::try_lock)
    }
}

/// Whether a process is logging in whose tokens will be in `file`.
pub(super) fn is_login_held_beside(file: &Path) -> bool {
    let opened = private_file::open_lock(&file.with_extension("login"));
    matches!(attempt(opened, File::try_lock_shared), Try::Held)
}

fn attempt(opened: io::Result<File>, lock: impl Fn(&File) -> Result<(), TryLockError>) -> Try {
    let file = match opened {
        Ok(file) => file,
        Err(error) => return Try::Impossible(error),
    };
    match lock(&file) {
        Ok(()) => Try::Locked(file),
        Err(TryLockError::WouldBlock) => Try::Held,
        Err(TryLockError::Error(error)) => Try::Impossible(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_there_cannot_be_is_not_one_that_another_holds() {
        let file = || Ok(tempfile::tempfile().unwrap());
        let none = |_: &File| Err(TryLockError::Error(io::ErrorKind::Unsupported.into()));
        assert!(matches!(attempt(file(), none), Try::Impossible(_)));
        assert!(matches!(attempt(file(), |_| Err(TryLockError::WouldBlock)), Try::Held));
        assert!(matches!(
            attempt(Err(io::ErrorKind::NotFound.into()), |_| Ok(())),
            Try::Impossible(_)
        ));
    }
}
