//! Numbers of the modern era, and of the translation between it and the legacy one.

use std::time::Duration;

/// How long a call that has asked the client something waits for the answers: a person may have to
/// fetch something, and SDKs that do the same wait as long for each question.
pub const PARKED_WAIT: Duration = Duration::from_secs(600);

/// How many calls may wait for a client's answers at once; a person has one question in view.
pub const PARKED: usize = 64;

/// How many questions of a server one such call may gather before the client comes back to it.
pub const QUESTIONS: usize = 64;

/// How many subscriptions of a client are served at once, where the bridge has to serve them.
pub const LISTENS: usize = 64;

/// How many resources one subscription may name: of a modern client's the rest is not acknowledged,
/// a legacy client's next `resources/subscribe` is refused. Every change of the set names it whole,
/// and whoever watches more has a server that tells of lists.
pub const LISTEN_RESOURCES: usize = 1024;

/// How many different notices are kept for a subscription that is not acknowledged yet.
pub const EARLY_NOTICES: usize = 64;

/// How many tools with arguments that are repeated in headers are remembered; servers with more than
/// some hundred tools are unusable for other reasons.
pub const ANNOTATED_TOOLS: usize = 10_000;

/// How many tools are remembered whose results are wrapped for clients that know only objects; more
/// are offered without their output schema. As many as are remembered for other reasons.
pub const WRAPPED_TOOLS: usize = ANNOTATED_TOOLS;

/// How many tools are remembered that may be called twice; calls of the others are not repeated. As
/// many as are remembered for other reasons.
pub const SAFE_TOOLS: usize = ANNOTATED_TOOLS;

/// How many subscriptions to resources are made again in a new session; there is a warning when a
/// client has more. Each is a request that the client's own calls wait behind, and as many as one
/// subscription of the modern era may name are enough for all clients that are known.
pub const RESTORED_SUBSCRIPTIONS: usize = LISTEN_RESOURCES;

/// How many resources all subscriptions together may be about, where a legacy server has to be
/// asked for each of them.
pub const SUBSCRIBED_RESOURCES: usize = 4096;

/// How many pages of a list of tools are read on the bridge's own account.
pub const LIST_PAGES: usize = 100;

/// An exponent of ten up to which a number that is written with one goes into a header in plain
/// digits: more than any integer that a program computes with.
pub const INTEGER_ZEROS: usize = 64;

/// How many times a modern server may ask back before a call must have its answer. Real tools ask
/// once or twice; the SDKs stop at 8 or 10.
pub const INPUT_ROUNDS: u32 = 10;

/// How long a question of a modern server's waits for the client's answer: a person may have to
/// think, and the SDKs give them ten minutes as well.
pub const INPUT_WAIT: Duration = Duration::from_secs(600);

/// The pause before a call is made again that the server wants to see again without any input.
pub const INPUT_PAUSE: Duration = Duration::from_millis(250);

/// How long a subscription may remain unacknowledged before the client, who wants an answer to
/// `resources/subscribe`, is told that all is well.
pub const LISTEN_PATIENCE: Duration = Duration::from_secs(5);

/// How long a call waits until a legacy server has taken the log level that it wants: a round trip.
/// A server that takes longer may not write the first lines of the call's log.
pub const LEVEL_WAIT: Duration = Duration::from_secs(2);

/// How long everything waits for the answer to a modern client's first request, which tells the
/// server's era. A legacy server refuses it within a round trip; who takes longer is at work.
pub const TRIAL_WAIT: Duration = Duration::from_secs(1);

/// Errors that sound as if the server had been replaced by one of the other era make the bridge ask
/// it, but no more often than this: tools may write such errors all day.
pub const DOUBT_PAUSE: Duration = Duration::from_secs(10);

/// How long a server's era is remembered: a server that was brought up to date yesterday is asked
/// anew today, and whoever starts many times a day pays for finding out once.
pub const VERDICT_LIFE: Duration = Duration::from_secs(24 * 3600);
