//! What differs between operating systems: the standard streams, signals, the parent's death,
//! groups of processes, and whose connections are whose.

#[cfg(not(unix))]
mod other;
#[cfg(target_os = "linux")]
mod peer_linux;
#[cfg(unix)]
mod unix;

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

pub use platform::{
    Group, Restore, is_nobodys_stdin, parent_gone, spawn_detached, stdio, terminated,
};

/// Whether the socket at `peer`, which is connected to `local`, belongs to another user of this
/// machine. Where that cannot be known, it is taken to be ours.
#[must_use]
pub fn is_another_users(peer: SocketAddr, local: SocketAddr) -> bool {
    #[cfg(target_os = "linux")]
    return peer_linux::is_another_users(peer, local);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (peer, local);
        false
    }
}
