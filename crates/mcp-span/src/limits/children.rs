//! The numbers for servers that are child processes, and for those who use servers as a client.

use std::time::Duration;

/// How long a child process has to leave after its stdin has ended.
pub const CHILD_LEAVES: Duration = Duration::from_secs(1);

/// How long after SIGTERM; then comes SIGKILL.
pub const CHILD_TERMINATES: Duration = Duration::from_secs(1);

/// What a process that has ended said last is waited for this long: children of its own may hold
/// its streams open.
pub const CHILD_LAST_WORDS: Duration = Duration::from_millis(500);

/// How long a link that has closed one way may take to say why: longer than a child process needs
/// for all of the above.
pub const SERVER_DRAIN: Duration = Duration::from_secs(2);

/// A server that has ended before its client said anything: the first question is waited for this
/// long, so that it can be answered with why.
pub const FIRST_QUESTION: Duration = Duration::from_secs(2);

/// The longest line of a stderr that goes to the log; more is a dump, not a message.
pub const CHILD_STDERR_LINE: usize = 16 * 1024;

/// How many last lines of a stderr are kept for the error.
pub const CHILD_STDERR_LINES: usize = 20;

/// Notifications that wait for a reader in a program that uses the library; who is slower than that
/// is told how many were missed.
pub const NOTIFICATIONS: usize = 1024;

/// Progress of one request that waits to be looked at; older progress is worth nothing.
pub const PROGRESS: usize = 64;

/// Pages of one list: a server that always has one more would never end.
pub const PAGES: usize = 1000;

/// How long all pages of one list may take together: a server can put off the limit of a single page
/// by signs of life.
pub const LISTING: Duration = Duration::from_secs(300);

/// Items of one list, for the same reason; a single page can have millions of them as well.
pub const ITEMS: usize = 100_000;

/// Requests of the server's that are worked on at once; more are refused.
pub const SERVER_REQUESTS: usize = 64;

/// How long a client's goodbye may take: what a child process has to leave, and a little more.
pub const CLIENT_CLOSES: Duration = Duration::from_secs(4);
