//! What differs between operating systems: the standard streams, signals, the parent's death, and
//! groups of processes.

#[cfg(unix)]
mod group;
#[cfg(not(unix))]
mod other;
#[cfg(target_os = "linux")]
mod parent_linux;
#[cfg(all(unix, not(target_os = "linux")))]
mod parent_unix;
#[cfg(unix)]
mod unix;

use tokio::io::{AsyncRead, AsyncWrite};

/// stdin and stdout as the runtime reads and writes them.
pub struct Stdio {
    /// stdin
    pub input: Box<dyn AsyncRead + Send + Unpin>,
    /// stdout
    pub output: Box<dyn AsyncWrite + Send + Unpin>,
    /// Puts the streams back into the state they were inherited in, when dropped.
    pub restore: Restore,
}

#[cfg(unix)]
pub use group::Group;
#[cfg(not(unix))]
pub use other::{Group, Restore, is_nobodys_stdin, spawn_detached, stdio, terminated};
#[cfg(unix)]
pub use unix::{Restore, is_nobodys_stdin, spawn_detached, stdio, terminated};

/// Completes when the process that started this one has ended. Where that cannot be known, never.
pub async fn parent_gone() {
    #[cfg(target_os = "linux")]
    parent_linux::gone().await;
    #[cfg(all(unix, not(target_os = "linux")))]
    parent_unix::gone().await;
    // A Windows client that dies closes our stdin, and nothing else holds it.
    #[cfg(not(unix))]
    std::future::pending::<()>().await;
}
