//! Numbers of credentials and logins.

use std::time::Duration;

/// How long requests wait while no page is there to be named: a provider that takes its time, or
/// another process that holds the login and shows nothing.
pub const LOGIN_UNSHOWN: Duration = Duration::from_secs(60);

/// How many ports are tried for the server of a login where any will do; mcp-remote tries as many
/// from the one that it derives.
pub const CALLBACK_PORTS: usize = 8;

/// How many connections the server of a login has at once; a browser has one or two.
pub const LOGIN_VISITORS: usize = 32;

/// How long a connection to it may be silent before its request has come.
pub const LOGIN_HEAD: Duration = Duration::from_secs(2);

/// The largest head of a request to it: codes and states of some providers take kilobytes.
pub const LOGIN_REQUEST: usize = 64 * 1024;

/// How long the last page of a login is kept for the browser to fetch it.
pub const LOGIN_PAGE_WAIT: Duration = Duration::from_secs(3);

/// How many times a login opens a browser, and how long after one another: a person who restarts a
/// client wants to see the page again, a client that restarts by itself must not fill the screen.
pub const LOGIN_OPENINGS: usize = 3;

/// See [`LOGIN_OPENINGS`].
pub const LOGIN_REOPEN: Duration = Duration::from_secs(10);

/// How long a process that was started for a login may take to say that it is there.
pub const LOGIN_PROCESS_START: Duration = Duration::from_secs(5);

/// What a process for a login is told, at most: settings and certificates.
pub const LOGIN_JOB: usize = 8 * 1024 * 1024;

/// How often a login looks whether it was called off, by a logout.
pub const LOGIN_RECALL_CHECK: Duration = Duration::from_secs(1);

/// How long a credential command may run, or a token file be read: a person waits for the call.
pub const CREDENTIAL_WAIT: Duration = Duration::from_secs(10);

/// How long what a credential command printed is used: below the hour, or the quarter of one, that
/// short-lived tokens usually live.
pub const CREDENTIAL_TTL: Duration = Duration::from_secs(300);

/// How often a token file is looked at, at most.
pub const TOKEN_FILE_CHECK: Duration = Duration::from_secs(1);

/// A command that has nothing new for refused credentials is left alone for this long.
pub const FRUITLESS_PAUSE: Duration = Duration::from_secs(10);

/// How long an authorization server may take for one question.
pub const LOGIN_QUESTION: Duration = Duration::from_secs(15);

/// How long it may take to find out who gives out tokens: a client waits for its 401 meanwhile.
pub const DISCOVERY_WAIT: Duration = Duration::from_secs(8);

/// How long one document of metadata is waited for: there are several places where it may be.
pub const METADATA_WAIT: Duration = Duration::from_secs(4);

/// How long `initialize` waits for a person to log in: clients give up after some seconds more, and
/// with them the login would end.
pub const LOGIN_PATIENCE: Duration = Duration::from_secs(8);

/// How long `initialize` waits at least for the page of a login: an answer that names it is of more
/// use than one that cannot.
pub const LOGIN_PREPARATION: Duration = Duration::from_secs(4);

/// What a request that comes during a login may take to be helped without it, by a renewal or by
/// another process.
pub const LOGIN_DETOUR: Duration = Duration::from_secs(1);

/// How long a person may take for a login.
pub const LOGIN_WAIT: Duration = Duration::from_secs(300);

/// How often the provider is asked whether a code was entered, where it does not say (RFC 8628).
pub const DEVICE_POLL: Duration = Duration::from_secs(5);

/// It is not asked more often, whatever it says.
pub const DEVICE_POLL_LEAST: Duration = Duration::from_millis(500);

/// How much longer to wait each time that it asks for that (RFC 8628).
pub const DEVICE_SLOW_DOWN: Duration = Duration::from_secs(5);

/// The longest code that a person is asked to type, in letters.
pub const USER_CODE: usize = 64;

/// How long reading or writing tokens may take: a network drive may be gone.
pub const STORE_WAIT: Duration = Duration::from_secs(20);

/// The same for the keychain of the system, which may be locked.
pub const KEYCHAIN_WAIT: Duration = Duration::from_secs(5);

/// How long a person may take to unlock it, before a login.
#[cfg(feature = "keychain")]
pub const KEYCHAIN_UNLOCK: Duration = Duration::from_secs(60);

/// How many lines may be pasted before a login is given up.
pub const PASTES: usize = 5;

/// After a login that failed or was given up, the next is not begun before this: no loop of tabs.
pub const LOGIN_PAUSE: Duration = Duration::from_secs(60);

/// How many logins there are within that time for a server that refuses what they bring: its tokens
/// may have been withdrawn, or its provider replaced, but not again and again.
pub const LOGINS_IN_A_ROW: usize = 2;

/// A server that takes nothing that renewals bring is logged in to anew, but not more often than
/// this, unless its authorization server has changed.
pub const LOGIN_ANEW: Duration = Duration::from_secs(300);

/// How many times more scope is asked for within the time below, for one request and its like.
pub const STEP_UPS: usize = 2;

/// A server that wanted more scope so long ago may want more again: it is another matter by then.
pub const STEP_UP_WINDOW: Duration = Duration::from_secs(300);

/// How long another process may take to renew a token before a request goes on without it.
pub const LOCK_WAIT: Duration = Duration::from_secs(2);

/// How often it is looked whether another process has finished its login, or shows its page.
pub const PAGE_CHECK: Duration = Duration::from_millis(100);

/// After a renewal that failed, the next is not tried before this: those who waited for it would ask
/// one after the other, and hear the same.
pub const RENEWAL_PAUSE: Duration = Duration::from_secs(3);

/// The largest document that an authorization server is listened to for.
pub const METADATA_SIZE: usize = 1024 * 1024;

/// How many authorization servers of a resource are asked, if the first ones say nothing.
pub const ISSUERS: usize = 3;

/// How many scopes are asked for: they all go into one address, and no browser takes a longer one.
pub const SCOPES: usize = 1000;

/// How much of an authorization server's own words is shown.
pub const LOGIN_TEXT: usize = 200;

/// A token is renewed so long before it expires: requests take their time, and clocks differ.
pub const TOKEN_SKEW: Duration = Duration::from_secs(30);

/// What a login that is under way may take once the client has left: a browser on its way back
/// arrives, a person who has not begun does not.
pub const LOGIN_DRAIN: Duration = Duration::from_secs(1);

/// What a renewal that is under way may take once the link is closed: a refresh token that was used
/// without its answer being kept is lost, and the login with it. Clients wait two seconds or more.
pub const RENEWAL_CLOSE: Duration = Duration::from_millis(1500);

/// How many files of tokens a list of all logins looks at: more than anybody has, and no trap.
pub const LOGINS_LISTED: usize = 1000;
