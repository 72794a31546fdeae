//! The numbers for looks at servers: `mcp-span check`.

use std::time::Duration;

/// Addresses of one name that are tried.
pub const PROBED_ADDRESSES: usize = 8;

/// How long the other addresses of a host have once one was connected to: whoever connects does not
/// wait for them, but a person wants to know that they are dead.
pub const OTHER_ADDRESSES: Duration = Duration::from_millis(500);

/// Certificates of one chain that are shown; real ones have two to four.
pub const CHAIN: usize = 10;

/// How long one request of a check may take, unless `--timeout` says otherwise: who looks for a
/// fault at a terminal does not wait for half a minute.
pub const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// Days before the end of a certificate from which on it is a warning: those that renew themselves
/// do so a month before.
pub const CERTIFICATE_DAYS: u64 = 14;

/// Clocks that differ by more than this break logins and certificates sooner or later.
pub const CLOCK_SKEW: Duration = Duration::from_secs(60);

/// How long a notification stream is watched: servers that close it do so at once.
pub const STREAM_LOOK: Duration = Duration::from_millis(300);

/// Round trips that are measured: enough for a median.
pub const ROUND_TRIPS: usize = 5;

/// A round trip that takes longer is one that people feel in every call.
pub const SLOW_ROUND_TRIP: Duration = Duration::from_secs(1);

/// How much of a body is recorded to see what it is.
pub const RECORDED_BODY: usize = 1024 * 1024;

/// How many characters of it a report shows.
pub const CHECK_BODY_SHOWN: usize = 600;

/// First lines of a child's stderr that a report shows: who speaks.
pub const CHECK_STDERR_FIRST: usize = 3;

/// Last lines of it: why it has ended.
pub const CHECK_STDERR: usize = 10;

/// How many times the limit of a request a handshake of the client may take: it may try another era
/// and another transport, each of which has a request or two.
pub const CHECK_HANDSHAKE: u32 = 4;

/// Targets that are checked at once: each has a handful of connections.
pub const CHECKS_AT_ONCE: usize = 32;

/// Faulty tools of one server that are named.
pub const CHECK_FAULTS: usize = 10;
