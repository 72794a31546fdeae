//! What differs between operating systems: the standard streams, signals, the parent's death,
//! groups of processes, and whose connections are whose.

#[cfg(not(unix))]
mod other;
#[cfg(target_os = "linux")]
mod peer_linux;
#[cfg(unix)]
mod unix;

#[cfg(not(target_os = "linux"))]
use std::net::SocketAddr;

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

#[cfg(not(unix))]
use other as platform;
#[cfg(unix)]
use unix as platform;

#[cfg(target_os = "linux")]
pub use peer_linux::is_another_users;
pub use platform::{
    Group, Restore, is_nobodys_stdin, parent_gone, spawn_detached, stdio, terminated,
};

/// Nothing is known of who has opened a connection: it is taken to be ours.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn is_another_users(_: SocketAddr, _: SocketAddr) -> bool {
    false
}
