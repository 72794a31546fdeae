//! Numbers of `mcp-span install`.

use std::time::Duration;

/// The largest file of a client that is changed. Claude Code keeps much beside its servers in one
/// file, some megabytes in the end; what is larger than this is none of theirs.
pub const CLIENT_FILE: u64 = 64 * 1024 * 1024;

/// How many backups with numbers, which older versions have made, are looked at: so many at most.
pub const BACKUPS: usize = 1000;

/// How many times a file that a client changes at the same moment is looked at anew.
pub const EDIT_TRIES: usize = 5;

/// A pause before such a file is looked at again: long enough for a client to end its own writing.
pub const EDIT_PAUSE: Duration = Duration::from_millis(50);

/// How long another run of this program may work on files in the same folder: each takes some
/// milliseconds, and scripts start dozens of them at once.
pub const EDIT_LOCK: Duration = Duration::from_secs(20);

/// How often it is looked whether the other is done.
pub const EDIT_LOCK_PAUSE: Duration = Duration::from_millis(5);

/// How many symbolic links may lead from one to the next, as in the kernels.
pub const LINKS: usize = 40;
