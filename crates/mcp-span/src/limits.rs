//! Every number with its name and the reason for it.

use std::time::Duration;

mod checks;
mod children;
mod commands;
mod config;
mod eras;
mod installs;
mod logins;
mod managers;

pub use checks::*;
pub use children::*;
pub use commands::*;
pub use config::*;
pub use eras::*;
pub use installs::*;
pub use logins::*;
pub use managers::*;

/// The largest single message in either direction.
///
/// Base64 images of 10 MB are normal, and bridges with caps of 1 to 16 MiB get complaints; beyond
/// this a message is more likely a fault. Counts the unfinished message only.
pub const MESSAGE_SIZE: usize = 64 * 1024 * 1024;

/// How long a quick request (handshake, lists, notifications) may be silent.
pub const QUICK_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a request that does work (`tools/call` and its like) may be silent.
pub const WORK_TIMEOUT: Duration = Duration::from_secs(300);

/// How long name resolution, TCP, a proxy and TLS may take together.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest head of a proxy's answer to CONNECT: they have a few lines.
pub const PROXY_HEAD: usize = 16 * 1024;

/// How much is read of what a proxy says when it refuses; more than people are shown of it.
pub const PROXY_BODY: usize = 4 * 1024;

/// How long that is waited for: the status, which says most, is there already.
pub const PROXY_BODY_WAIT: Duration = Duration::from_millis(500);

/// What is in flight when stdin ends may take this long where timeouts are switched off.
pub const DRAIN_WITHOUT_TIMEOUT: Duration = Duration::from_secs(30);

/// How long `initialize` waits for a server that cannot be reached: less than the usual minute
/// after which clients give up, more than a server takes to start.
pub const CONNECT_WAIT: Duration = Duration::from_secs(25);

/// How long any later request waits for a server that cannot be reached.
pub const AWAY_WAIT: Duration = Duration::from_secs(5);

/// How long a request waits for a server whose certificate fails: that seldom heals by itself.
pub const TLS_WAIT: Duration = Duration::from_millis(700);

/// First pause before a server that somebody waits for is tried again; doubles from there.
pub const AWAY_BASE: Duration = Duration::from_millis(100);

/// A connection that lasts this long shows that a server that was away is back.
pub const SIGN_OF_LIFE: Duration = Duration::from_millis(50);

/// Longest such pause, and the least time between two tries that the client's messages cause.
pub const AWAY_CAP: Duration = Duration::from_secs(1);

/// How long a ping may take that is to prove whether a session is lost: an answer is kept back
/// meanwhile.
pub const PROOF_WAIT: Duration = Duration::from_secs(5);

/// How many times a session is opened again within [`REOPEN_WINDOW`]; more is a storm.
pub const REOPENINGS: usize = 5;

/// See [`REOPENINGS`].
pub const REOPEN_WINDOW: Duration = Duration::from_secs(30);

/// How long what was kept over the loss of a session waits for `notifications/initialized`, where the
/// client itself has opened the new one.
pub const CONFIRMATION: Duration = Duration::from_secs(1);

/// How many times one request is sent again because its session was lost: what is refused in the
/// new session as well is not about the session.
pub const REOPENINGS_FOR_ONE: u8 = 1;

/// A longer pause than this is not what a server can mean by `Retry-After`.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(24 * 60 * 60);

/// How many POSTs run at once; what comes on top waits, it never fails.
pub const PARALLEL_POSTS: usize = 128;

/// Pings overtake what waits, but a flood of them does not: more than this go in line.
pub const PINGS_AT_ONCE: usize = 128;

/// Answers and cancellations that are out at once. They wait behind no call; a server that asks more
/// than this at a time hears the rest as it takes these.
pub const URGENT_IN_FLIGHT: usize = 64;

/// How many bytes of the client's messages may be unanswered, or not taken by the server, before
/// stdin is no longer read.
///
/// Two messages of the largest size fit.
pub const UNANSWERED_BYTES: usize = 128 * 1024 * 1024;

/// What requests of the server's that the client has not answered may take, ids and all: some
/// thousands, more than any client works on. Further ones are refused.
pub const SERVER_REQUESTS_BYTES: usize = 2 * 1024 * 1024;

/// What a message counts for at least where bytes are counted that nobody waits for an answer to:
/// a flood of tiny ones costs more than their text.
pub const LEAST_WEIGHT: usize = 1024;

/// Headers that a request has beside those of its session: host, length, credentials, cookies, and
/// what a modern one repeats of its body.
pub const ADDED_HEADERS: usize = 8;

/// How much of an answer over HTTP/1.1 is read at once, and how large its head may be: as much as
/// makes a large one fast, and what is kept of it is little.
pub const HTTP1_BUFFER: usize = 256 * 1024;

/// How many headers an answer over HTTP/1.1 may have; the parser's own limit of 100 is one that
/// cookies and policies of several proxies reach. Room for so many is made for each answer, and
/// given back: 32 KiB. Over HTTP/2 their size alone counts.
pub const HTTP1_HEADERS: usize = 512;

/// An idle connection is dropped before the usual server (Node: 5 s) closes it under a request.
pub const POOL_IDLE: Duration = Duration::from_secs(4);

/// How often it is looked for such connections: by so much sooner they may be dropped.
pub const POOL_LOOK: Duration = Duration::from_secs(1);

/// The same over HTTP/2, where a server that closes says which requests it has not looked at. Load
/// balancers do so after a minute, whatever pings there were.
pub const HTTP2_IDLE: Duration = Duration::from_secs(50);

/// Silence on an HTTP/2 connection after which it is asked for a sign of life. One connection
/// carries all calls, so a dead one must be noticed long before the calls' own timeouts; servers
/// that count pings allow more than three in a minute.
pub const HTTP2_PING: Duration = Duration::from_secs(20);

/// How long that sign may take: a slow mobile network needs a few seconds.
pub const HTTP2_PONG: Duration = Duration::from_secs(10);

/// How much of one HTTP/2 answer may be under way unread: about what TCP allows on Linux (6 MiB
/// with its overhead), so that a large answer is no slower than over HTTP/1.1.
pub const HTTP2_STREAM_WINDOW: u32 = 4 * 1024 * 1024;

/// The same for all answers of one connection: what a client that stops reading may cost.
///
/// Not less: h2 closes a connection on which the unread small frames cost more than half of this,
/// and a stream of small events to a slow client must be held up, not cut.
pub const HTTP2_CONNECTION_WINDOW: u32 = 128 * 1024 * 1024;

/// The largest head of an HTTP/2 answer; hyper's own limit of 16 KiB is one that cookies reach.
pub const HTTP2_HEAD: u32 = 64 * 1024;

/// Requests that may leave before the server has told how many it takes at once: with more, a
/// server that takes few would refuse some.
pub const HTTP2_FIRST_STREAMS: usize = 1;

/// How many times in a row a request goes out again at once when the server has certainly not
/// looked at it: it said so, or the connection was of the wrong version of HTTP.
pub const UNTOUCHED_TRIES: usize = 3;

/// The largest file of certificates or keys: the bundle of a whole operating system has 300 KiB.
pub const PEM_FILE: u64 = 4 * 1024 * 1024;

/// Characters of a name out of a certificate that an error repeats: the standard allows 64.
pub const CERTIFICATE_NAME: usize = 64;

/// Names of a certificate that an error lists; some have a hundred.
pub const CERTIFICATE_NAMES: usize = 4;

/// Hosts of one certificate that are read.
pub const CERTIFICATE_HOSTS: usize = 100;

/// How long, at least, a server that has asked for a client certificate has to refuse it before a
/// request is written; twice what the handshake took, if that is more. Those that agree mostly say
/// so at once, by a session ticket or the first frame of HTTP/2; a refusal takes one round trip.
pub const CLIENT_CERTIFICATE_VERDICT: Duration = Duration::from_millis(500);

/// TCP keepalive: a half-open connection is noticed within about a minute and a half.
pub const TCP_KEEPALIVE: Duration = Duration::from_secs(45);

/// How many prefixes are tried before the address that an HTTP+SSE server announces, where nobody
/// is at the address itself.
pub const PREFIXES: usize = 3;

/// Same-origin redirects that are followed for one request.
pub const REDIRECTS: usize = 5;

/// The longest event id that is remembered: it goes back to the server as a header, and most servers
/// take no more than 8 KiB of those.
pub const EVENT_ID: usize = 4 * 1024;

/// How many messages may wait for a client that does not read before nothing more is read from it.
/// Those are errors of our own: while any wait, nothing is read from the server.
pub const WAITING_FOR_CLIENT: usize = 4096;

/// How many messages are looked at in the body of an HTTP error, for the one that is the answer.
pub const REFUSAL_MESSAGES: usize = 100;

/// How much of the body of an HTTP error is read.
pub const ERROR_BODY: usize = 100_000;

/// How long the body of an HTTP error, or of an acknowledgement, is waited for.
pub const ERROR_BODY_WAIT: Duration = Duration::from_secs(5);

/// Texts of errors are cut at this many characters.
pub const ERROR_TEXT: usize = 500;

/// An address for a person is not cut, since half of it leads nowhere; one longer than this, which
/// no browser needs to take, is left out.
pub const PAGE_TEXT: usize = 4096;

/// A stream whose answer has come is read on until it ends, or for this long: servers that never
/// end theirs would hold a connection for each call.
pub const LINGER: Duration = Duration::from_secs(1);

/// What a cancelled request's stream may still bring before it is dropped.
pub const CANCEL_GRACE: Duration = Duration::from_secs(2);

/// Goodbye to the server (DELETE of the session) when stdin has ended.
pub const CLOSE: Duration = Duration::from_millis(500);

/// Goodbye to the server when a signal came or the parent died: clients send SIGKILL soon after.
pub const SHUTDOWN_CLOSE: Duration = Duration::from_millis(300);

/// What is still to be written to stdout when the bridge leaves at once.
pub const FLUSH: Duration = Duration::from_millis(500);

/// At the end of stdin, a client that reads its answers is waited for; one that has not taken a
/// byte for this long is not.
pub const LAST_READ: Duration = Duration::from_secs(30);

/// First pause before a stream is opened again; doubles from there.
pub const BACKOFF_BASE: Duration = Duration::from_millis(500);

/// Longest pause of the first ten tries.
pub const BACKOFF_CAP: Duration = Duration::from_secs(30);

/// Tries before the pauses become quiet ones.
pub const BACKOFF_TRIES: u32 = 10;

/// Pause between the quiet tries that go on for ever.
pub const BACKOFF_QUIET: Duration = Duration::from_secs(300);

/// How many times in a row a stream that lasted only moments is opened again after exactly the
/// server's own delay; then the backoff counts as well.
pub const HASTY_REOPENINGS: u32 = 10;

/// However short a server's own delay is, a stream is not asked for more often than this.
pub const RETRY_FLOOR: Duration = Duration::from_millis(100);

/// A stream that stayed open this long sets the count of tries back to zero.
pub const STREAM_STEADY: Duration = Duration::from_secs(10);

/// Messages that may wait between two tasks.
///
/// Deep enough that a burst does not stop its reader, small enough that back-pressure is felt.
pub const CHANNEL: usize = 64;

/// Events that come closer upon one another than this are a burst, and waited for together: one
/// takes about 5 µs, and answers to one call after another are 50 µs apart at least.
pub const BURST_GAP: Duration = Duration::from_micros(40);

/// Messages of one side that are taken in before the other side and the clock are looked at again.
pub const BURST: usize = CHANNEL;

/// Turns of tasks after which the runtime looks at sockets and clocks again, if tasks are still
/// ready.
///
/// A call takes six, so the usual 61 would cut 64 calls in flight into small pieces, each of which
/// is waited for and written by itself: 4 % of their time. So many take about half a millisecond.
pub const TURNS: u32 = 256;

/// A limit that is over so much too late tells that the program was stopped. For so long it looks at
/// what has come meanwhile before it gives anything up; a busy machine is seldom as late.
pub const STOPPED: Duration = Duration::from_millis(500);

/// Bytes of messages that may wait between two tasks; a single larger message still fits.
pub const CHANNEL_BYTES: usize = 2 * 1024 * 1024;

/// How much is asked of stdin in one read.
pub const READ_CHUNK: usize = 64 * 1024;

/// How much is written to a pipe at once, which has room for 64 KB as a rule. Who fills it with one
/// write takes turns with the reader, and each waits while the other copies: 64 MB took 75 ms, and
/// take 30 in such pieces.
pub const WRITE_PIECE: usize = 16 * 1024;

/// An id longer than this is no id (only met in lines that are over the size limit).
pub const ID_LENGTH: usize = 1024;

/// What a trace file and the one before it may hold together.
///
/// More than a hundred thousand ordinary messages, which is a day of work; packed, it can still be
/// attached to a report.
pub const TRACE_SIZE: usize = 64 * 1024 * 1024;

/// The least that makes sense for it: a handshake fits.
pub const TRACE_SIZE_LEAST: usize = 16 * 1024;

/// So many messages whose sending failed are counted for the trace: a server that is away is tried
/// by one at a time, and each is given up after a few seconds.
pub const TRACE_VAIN_TRIES: usize = 64;

/// A larger message stands in a trace with its size and its beginning: a few images would push out
/// all the rest.
pub const TRACE_MESSAGE: usize = 64 * 1024;

/// How much such a beginning is: enough to see what it is.
pub const TRACE_BEGINNING: usize = 2 * 1024;

/// A server that is waited for at least this long is worth a warning; after less, the failure itself
/// is there before anybody wonders.
pub const WAIT_WORTH_A_WARNING: Duration = Duration::from_millis(1500);

/// Of the name of a tool, a prompt or a resource, a line of a trace has so many characters: enough for
/// every name that a person gives, and for most addresses.
pub const TRACE_NAME: usize = 200;

/// Bytes of a trace that may wait for the disk; what comes on top is counted and left out.
pub const TRACE_QUEUE_BYTES: usize = 16 * 1024 * 1024;

/// What the end of the program waits for the rest of a trace: a disk takes the whole queue sooner.
pub const TRACE_FLUSH: Duration = Duration::from_secs(2);

/// How long the server may be silent while a request waits; `None` is for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// The handshake, lists, notifications.
    pub quick: Option<Duration>,
    /// Requests that do work.
    pub work: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { quick: Some(QUICK_TIMEOUT), work: Some(WORK_TIMEOUT) }
    }
}

impl Timeouts {
    /// One limit for all; zero for none.
    #[must_use]
    pub fn all(limit: Duration) -> Self {
        let limit = Some(limit).filter(|limit| !limit.is_zero());
        Self { quick: limit, work: limit }
    }

    /// How long a request in flight may take once the client has left; nothing for a subscription,
    /// which would go on for ever.
    #[must_use]
    pub fn drain(&self, clock: Clock) -> Duration {
        match clock {
            Clock::Never => Duration::ZERO,
            _ => self.of(clock).unwrap_or(DRAIN_WITHOUT_TIMEOUT),
        }
    }

    /// How long a request may be silent.
    #[must_use]
    pub fn of(&self, clock: Clock) -> Option<Duration> {
        match clock {
            Clock::Quick => self.quick,
            Clock::Work => self.work,
            Clock::Never => None,
        }
    }
}

/// Which of the [`Timeouts`] a request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Lists, handshakes and the like.
    Quick,
    /// What a tool does may take its time.
    Work,
    /// A subscription lives until it is cancelled.
    Never,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_timeout_is_for_all_and_zero_is_none() {
        // C2
        let one = Some(Duration::from_secs(7));
        assert_eq!(Timeouts::all(Duration::from_secs(7)), Timeouts { quick: one, work: one });
        assert_eq!(Timeouts::all(Duration::ZERO), Timeouts { quick: None, work: None });
    }

    #[test]
    fn work_may_take_longer_than_lists() {
        // C2
        let timeouts = Timeouts::default();
        assert_eq!(timeouts.of(Clock::Quick), Some(Duration::from_secs(30)));
        assert_eq!(timeouts.of(Clock::Work), Some(Duration::from_secs(300)));
        assert_eq!(timeouts.of(Clock::Never), None);
        assert_eq!(timeouts.drain(Clock::Never), Duration::ZERO);
        assert_eq!(timeouts.drain(Clock::Work), Duration::from_secs(300));
        let off = Timeouts { quick: None, work: None };
        assert_eq!(off.drain(Clock::Work), DRAIN_WITHOUT_TIMEOUT);
    }
}
