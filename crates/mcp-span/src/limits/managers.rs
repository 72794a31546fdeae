//! The numbers for those who keep many servers at once.

use std::time::Duration;

use super::{CLIENT_CLOSES, QUICK_TIMEOUT};

/// The pauses before a server that has ended, or was not there, is connected to again: long enough
/// for a restart, short enough that nobody has to ask for it.
pub const RECONNECT_PAUSES: [Duration; 4] = [
    Duration::from_millis(500),
    Duration::from_millis(1000),
    Duration::from_millis(2000),
    Duration::from_millis(4000),
];

/// The first of the quiet tries that follow for a remote server that had been there; doubles.
pub const RECONNECT_SLOW_PAUSE: Duration = Duration::from_secs(15);

/// The longest pause between those.
pub const RECONNECT_SLOW_PAUSE_CAP: Duration = Duration::from_secs(300);

/// How many times a server is connected to again within [`RECONNECT_WINDOW`]. A program that ends
/// as soon as it has started would else be started for ever.
pub const RECONNECTS: usize = 5;

/// See [`RECONNECTS`].
pub const RECONNECT_WINDOW: Duration = Duration::from_secs(30);

/// The least time between two tries that the wishes of callers cause.
pub const RECONNECT_ON_USE: Duration = Duration::from_secs(1);

/// How long a caller waits for a server that is being connected to: as long as its answer to the
/// handshake may take.
pub const MANAGER_READY_TIMEOUT: Duration = QUICK_TIMEOUT;

/// How long a connection waits for a person to log in: longer than any login takes, which ends by
/// itself.
pub const MANAGER_LOGIN: Duration = Duration::from_secs(86_400);

/// The longest name of a tool that model providers take.
pub const TOOL_NAME: usize = 64;

/// A list that has changed is asked for this much later: changes come in bursts.
pub const RELIST_PAUSE: Duration = Duration::from_millis(100);

/// Events that wait for a subscriber; one that is slower than that learns how many it has missed.
/// Several for each of a few hundred servers.
pub const MANAGER_EVENTS: usize = 1024;

/// Wishes and reports of callers that wait for a server's task, which never waits itself.
pub const MANAGER_COMMANDS: usize = 64;

/// How long the goodbye to one server may take: that to a connection which is being replaced, and
/// that to the connection itself.
pub const MANAGER_CLOSES: Duration = CLIENT_CLOSES.saturating_mul(2);
