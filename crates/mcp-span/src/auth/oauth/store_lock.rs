//! Locks beside the tokens, by which processes take turns.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing::warn;

use crate::private_file;

/// Held by one process at a time.
#[derive(Debug)]
pub(super) struct Lock {
    /// Closing it is what unlocks it. `None`: there is nothing that could be shared.
    file: Option<File>,
}

/// How often a lock that another process holds is tried for.
const TRIES: Duration = Duration::from_millis(50);

impl Lock {
    /// Whether other processes are kept out.
    pub(super) fn is_shared(&self) -> bool {
        self.file.is_some()
    }

    /// Waits for the lock in `file`; `None` if another process still has it. Where there can be no
    /// lock, there is one for the asking: a home without them is no reason to be without tokens.
    pub(super) async fn wait(file: Option<PathBuf>, patience: Duration) -> Option<Self> {
        let Some(file) = file else { return Some(Self { file: None }) };
        let locking = async {
            loop {
                let tried = private_file::make_folder_of(&file)
                    .map_err(TryLockError::Error)
                    .and_then(|()| try_lock(&file, File::try_lock));
                match tried {
                    Ok(lock) => return Some(lock),
                    Err(TryLockError::WouldBlock) => tokio::time::sleep(TRIES).await,
                    Err(TryLockError::Error(error)) => {
                        let tokens = file.with_extension("json");
                        warn!("tokens cannot be kept in {}: {error}", tokens.display());
                        return None;
                    }
                }
            }
        };
        let file = tokio::time::timeout(patience, locking).await.ok()?;
        Some(Self { file })
    }
}

/// Whether a process is logging in whose tokens will be in `file`.
pub(super) fn is_login_held_beside(file: &Path) -> bool {
    let tried = try_lock(&file.with_extension("login"), File::try_lock_shared);
    matches!(tried, Err(TryLockError::WouldBlock))
}

/// Locks `file` with `lock`, if no other process has it; closing the file unlocks it.
pub(super) fn try_lock(
    file: &Path,
    lock: impl Fn(&File) -> Result<(), TryLockError>,
) -> Result<File, TryLockError> {
    let file = private_file::open_lock(file).map_err(TryLockError::Error)?;
    lock(&file)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_lock_that_there_cannot_be_is_not_one_that_another_holds() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let none = |_: &File| Err(TryLockError::Error(io::ErrorKind::Unsupported.into()));
        assert!(matches!(try_lock(file.path(), none), Err(TryLockError::Error(_))));
        let held = try_lock(file.path(), |_| Err(TryLockError::WouldBlock));
        assert!(matches!(held, Err(TryLockError::WouldBlock)));
        let nowhere = try_lock(&file.path().join("x"), |_| Ok(()));
        assert!(matches!(nowhere, Err(TryLockError::Error(_))));
    }
}
