//! What an answer says about the era of the server that wrote it: by codes that only one era has,
//! and by the words in which servers speak of sessions.

use super::{Era, Revision};
use crate::message::{Head, Message, peek};

/// A header does not say what the body says.
pub(crate) const HEADER_MISMATCH: i64 = -32020;
/// The server wants something that the client has not said it can do.
pub(crate) const MISSING_CAPABILITY: i64 = -32021;
/// The server does not speak the request's revision.
pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;
/// The server does not know the method.
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;

/// How servers speak of a session that was not opened or not named.
const UNOPENED: [&str; 7] = [
    "server not initialized",
    "session id",
    "session-id",
    "session not found",
    "no session",
    "no valid session",
    "missing session",
];

/// How they say that there is no such session, in the form of [`words`] and without [`FILLERS`]: by
/// what stands before the word, behind it, on either side of it, or behind `session not`.
const BEFORE: [&str; 9] = [
    "no",
    "no valid",
    "no such",
    "no active",
    "find",
    "found for",
    "nonexistent",
    "unrecognized",
    "unrecognised",
];
const BEHIND: [&str; 12] = [
    "terminated",
    "closed",
    "timed out",
    "ended",
    "gone",
    "mismatch",
    "required",
    "no longer",
    "does not exist",
    "doesnt exist",
    "cannot be found",
    "could not be found",
];
const BESIDE: [&str; 6] = ["unknown", "invalid", "missing", "expired", "stale", "inactive"];
const BEHIND_NOT: [&str; 7] =
    ["found", "valid", "provided", "known", "recognized", "recognised", "active"];

/// How else they say so.
const UNINITIALIZED: [&str; 4] =
    ["not initialized", "not initialised", "before initialization", "must initialize"];

/// Words that may stand between those of a phrase, and "id" and "header", for which the session stands.
const FILLERS: [&str; 15] = [
    "a", "already", "an", "been", "has", "header", "id", "is", "mcp", "that", "the", "this", "was",
    "with", "your",
];

/// The era that an error names by a code of its own.
///
/// Of revisions that we do not know we assume that they are newer than we are.
pub(crate) fn era_of(answer: &Message) -> Option<Era> {
    match peek::error_code(answer)? {
        (UNSUPPORTED_VERSION, names) if are_legacy(&names) => Some(Era::Legacy),
        (UNSUPPORTED_VERSION | HEADER_MISMATCH | MISSING_CAPABILITY, _) => Some(Era::Modern),
        _ => None,
    }
}

/// Whether an error sounds like a legacy server's at a request that belongs to no session. Tools
/// write errors, too: this is a reason to ask, and none to believe.
pub(crate) fn sounds_legacy(answer: &Message) -> bool {
    match peek::error_code(answer) {
        Some((-32600 | -32000 | -32001, _)) => speaks_of_unopened_session(answer),
        _ => era_of(answer) == Some(Era::Legacy),
    }
}

/// Whether a legacy server, as it turned out to be, has refused a modern request at the door: by a
/// status, by a code that no work comes before, or for want of a session. Only then is it certain
/// that the request was not carried out.
pub(crate) fn was_turned_away(answer: &Message) -> bool {
    match (answer.failure(), peek::error_code(answer)) {
        (Some(failure), _) => matches!(failure.status, Some(400..=407 | 409..=499)),
        (None, Some((-32602..=-32600, _))) => true,
        (None, Some(_)) => sounds_legacy(answer),
        (None, None) => false,
    }
}

/// What an answer says about the server that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EraVerdict {
    Modern,
    Legacy,
    /// The server refused, in words that belong to neither era.
    Refused,
    /// It was not the server who spoke, or it spoke of other things.
    Nothing,
}

impl EraVerdict {
    /// Of the answer to `server/discover`. Only who does not know the question is legacy: any other
    /// error may be a modern server's bad day.
    pub(crate) fn of_discover(answer: &Message) -> Self {
        if let Head::Response { is_error: false, .. } = answer.head() {
            // Whoever knows the question is modern, unless it says otherwise.
            return match peek::supported_versions(answer) {
                Some(revisions) if are_legacy(&revisions) => Self::Legacy,
                // Some say yes to whatever they are asked.
                None if !peek::has_result_type(answer) => Self::Legacy,
                _ => Self::Modern,
            };
        }
        Self::of_error(answer)
    }

    /// Of the answer to any other request. Its method may be unknown to a server of either era:
    /// `Legacy` says no more than `Refused`.
    pub(crate) fn of_answer(answer: &Message) -> Self {
        match answer.head() {
            Head::Response { is_error: false, .. } if answer.is_own() => Self::Nothing,
            Head::Response { is_error: false, .. } if peek::has_result_type(answer) => Self::Modern,
            Head::Response { is_error: false, .. } => Self::Refused,
            _ => Self::of_error(answer),
        }
    }

    fn of_error(answer: &Message) -> Self {
        match (answer.failure().map(|failure| failure.status), era_of(answer)) {
            // Statuses that are about credentials, haste or the server's health are not about eras.
            (Some(Some(401 | 403 | 408 | 429)), _) => Self::Nothing,
            (Some(Some(400..=499)), _) => Self::Refused,
            (Some(_), _) => Self::Nothing,
            (None, Some(Era::Modern)) => Self::Modern,
            (None, Some(Era::Legacy)) => Self::Legacy,
            (None, None) => match peek::error_code(answer) {
                Some((METHOD_NOT_FOUND, _)) => Self::Legacy,
                _ => Self::Refused,
            },
        }
    }
}

/// Whether the answer to `initialize` comes from a server that does not know it.
///
/// A server that has said that it is legacy only has something against the parameters.
pub(crate) fn refuses_initialize(answer: &Message, has_said_legacy: bool) -> bool {
    answer.failure().is_none()
        && match peek::error_code(answer) {
            Some((-32601 | -32602, _)) => !has_said_legacy,
            _ => era_of(answer) == Some(Era::Modern),
        }
}

/// Whether a text of a server's may be about a session that it does not know, or no longer.
pub(crate) fn speaks_of_lost_session(text: &str) -> bool {
    let words = words(text);
    words.contains(" session id ") || are_denial(&words)
}

/// Whether a text of a server's says that there is no such session. That it names one is not enough.
pub(crate) fn denies_session(text: &str) -> bool {
    are_denial(&words(text))
}

/// The text without the id of the session, and the quotes and colons that set it off: it would stand
/// in the middle of a phrase.
pub(crate) fn without_id(text: &str, session: Option<&str>) -> String {
    let Some(id) = session.filter(|id| !id.is_empty()) else { return text.to_owned() };
    let is_mark = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '\\' | '(' | ')');
    let mut parts = text.split(id);
    let mut left = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        if left.ends_with(char::is_alphanumeric) || part.starts_with(char::is_alphanumeric) {
            left = left + id + part;
        } else {
            let before = left.trim_end_matches(|c| is_mark(c) || matches!(c, ':' | '='));
            left.truncate(before.len());
            left = left + " " + part.trim_start_matches(is_mark);
        }
    }
    left
}

/// The words of a text in one form: `Mcp-Session-Id`, `session_id` and `sessionId` are several of them.
/// Between sentences, members and the like stands `|`, so that no phrase spans these.
fn words(text: &str) -> String {
    let mut apart = String::with_capacity(text.len() + 16);
    let mut last = ' ';
    for c in text.chars() {
        match c {
            // "doesn't"
            '\'' | '’' => continue,
            _ if c.is_alphanumeric() => {
                if c.is_uppercase() && last.is_lowercase() {
                    apart.push(' ');
                }
                apart.extend(c.to_lowercase());
            }
            '-' | '_' | '"' | '`' | '\\' | '(' | ')' | '[' | ']' => apart.push(' '),
            _ if c.is_whitespace() => apart.push(' '),
            _ => apart.push_str(" | "),
        }
        last = c;
    }
    joined(apart.split_whitespace()).replace(" sessionid ", " session id ")
}

/// The words with a blank before and behind each.
fn joined<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.fold(" ".to_owned(), |words, word| words + word + " ")
}

fn are_denial(words: &str) -> bool {
    let words = joined(words.split_whitespace().filter(|word| !FILLERS.contains(word)));
    let say = |phrase: &str| words.contains(&format!(" {phrase} "));
    UNINITIALIZED.iter().any(|phrase| say(phrase))
        || BEFORE.iter().chain(&BESIDE).any(|it| say(&format!("{it} session")))
        || BEHIND.iter().chain(&BESIDE).any(|it| say(&format!("session {it}")))
        || BEHIND_NOT.iter().any(|it| say(&format!("session not {it}")))
}

/// Whether revisions are listed, and none of them is modern.
fn are_legacy(revisions: &[String]) -> bool {
    !revisions.is_empty() && revisions.iter().all(|revision| Revision::is_legacy(revision))
}

fn speaks_of_unopened_session(answer: &Message) -> bool {
    let text = peek::error_message(answer).unwrap_or_default().to_ascii_lowercase();
    UNOPENED.iter().any(|phrase| text.contains(phrase))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::{Value, json};

    use super::*;
    use crate::error::{Error, ErrorKind};
    use crate::message::{Id, reply};

    fn error(code: i64, text: &str, data: Value) -> Message {
        let error = json!({"code": code, "message": text, "data": data});
        let answer = json!({"jsonrpc": "2.0", "id": 1, "error": error});
        Message::parse(Bytes::from(answer.to_string())).unwrap()
    }

    /// What the bridge makes of this status.
    fn refused(status: u16) -> Error {
        Error { status: Some(status), ..Error::new(ErrorKind::Status, "Session not found") }
    }

    fn unsupported(names: &[&str]) -> Message {
        error(UNSUPPORTED_VERSION, "x", json!({"supported": names}))
    }

    #[test]
    fn codes_of_one_era_name_it() {
        assert_eq!(era_of(&unsupported(&[Revision::LATEST_LEGACY])), Some(Era::Legacy));
        let both = unsupported(&[Revision::LATEST_LEGACY, Revision::LATEST_MODERN]);
        assert_eq!(era_of(&both), Some(Era::Modern));
        assert_eq!(era_of(&unsupported(&["2999-01-01"])), Some(Era::Modern), "newer than we are");
        assert_eq!(era_of(&unsupported(&[])), Some(Era::Modern));
        assert_eq!(era_of(&error(HEADER_MISMATCH, "x", Value::Null)), Some(Era::Modern));
        for code in [-32601, -32602, -32000, -1] {
            assert_eq!(era_of(&error(code, "x", Value::Null)), None);
        }
    }

    #[test]
    fn only_who_does_not_know_the_question_denies_the_modern_era() {
        let denies_modern =
            |answer: &Message| EraVerdict::of_discover(answer) == EraVerdict::Legacy;
        assert!(denies_modern(&error(-32601, "x", Value::Null)));
        assert!(denies_modern(&unsupported(&[Revision::LATEST_LEGACY])));
        for code in [-32603, -32000, -32602, HEADER_MISMATCH] {
            assert!(!denies_modern(&error(code, "x", Value::Null)), "{code}");
        }
        let details = json!({"kind": "http-status", "delivery": "not-delivered", "status": 429});
        assert!(denies_modern(&error(-32601, "x", details)), "a server may write what it likes");
        let ours = reply::method_not_found_because(&Id::number(1), "x", &refused(429));
        assert!(!denies_modern(&ours), "it was not the server who said so");
        let answer = |versions: &[&str]| {
            let result = json!({"resultType": "complete", "supportedVersions": versions});
            let answer = json!({"jsonrpc": "2.0", "id": 1, "result": result});
            Message::parse(Bytes::from(answer.to_string())).unwrap()
        };
        assert!(denies_modern(&answer(&[Revision::LATEST_LEGACY])));
        assert!(!denies_modern(&answer(&[Revision::LATEST_MODERN])));
    }

    #[test]
    fn what_servers_say_of_a_session_that_was_not_named_is_recognised() {
        for text in [
            "Bad Request: Server not initialized",
            "Bad Request: Missing session ID",
            "Bad Request: Mcp-Session-Id header is required",
            "Session not found",
        ] {
            for code in [-32600, -32000, -32001] {
                assert!(sounds_legacy(&error(code, text, Value::Null)), "{code} {text}");
                assert!(was_turned_away(&error(code, text, Value::Null)), "{code} {text}");
            }
            assert!(!sounds_legacy(&error(-32603, text, Value::Null)), "{text}");
        }
        let tool = error(-32000, "The database is not initialized", Value::Null);
        assert!(!sounds_legacy(&tool) && !was_turned_away(&tool));
        assert!(speaks_of_lost_session("Session expired") && !speaks_of_lost_session("a session"));
    }

    #[test]
    fn a_session_is_denied_in_words_and_not_by_being_named() {
        for text in [
            "Bad Request: No valid session ID provided",
            "Bad Request: Mcp-Session-Id header is required",
            "Bad Request: Server not initialized",
            "Missing session ID",
            "Mcp-Session-Id is missing: session",
            "No transport found for sessionId",
            r#"{"error":"session_not_found"}"#,
            "Invalid or expired session",
            "Session not found: 7",
            "Invalid session_id",
        ] {
            assert!(denies_session(text), "{text}");
        }
        for text in [
            "",
            "Not Found",
            "unknown method ping in session s1",
            r#"{"error":"Method not found","sessionId":"s1"}"#,
            "session id: s1",
            "session s1 not allowed to ping",
            "Mcp-Session-Id: s1",
        ] {
            assert!(!denies_session(text), "{text}");
        }
    }

    /// What servers were seen to say of the lost session `sess-0001-abcdef`.
    const LOSSES: [&str; 24] = [
        "Session ID sess-0001-abcdef not found",
        "Session sess-0001-abcdef not found",
        "Session with ID sess-0001-abcdef not found",
        "Session ID: 'sess-0001-abcdef' not found",
        r#"{"message":"session \"sess-0001-abcdef\" has expired"}"#,
        "Unknown session: sess-0001-abcdef",
        "Unknown Mcp-Session-Id",
        "Unrecognized session id",
        "Session ID is not recognized",
        "Stale session id",
        "session_not_found",
        "SESSION_NOT_FOUND",
        "SessionNotFound",
        "SessionNotFoundError: x",
        "Could not find session",
        "Session closed",
        "session already closed",
        "Session timed out",
        "The session has been terminated",
        "Session doesn't exist",
        "Session ID cannot be found",
        "Session ID invalid or expired",
        "Received request before initialization was complete",
        "Client must initialize first",
    ];

    #[test]
    fn a_lost_session_is_recognised_in_the_words_of_many_servers() {
        for text in LOSSES {
            let text = without_id(text, Some("sess-0001-abcdef"));
            assert!(denies_session(&text), "{text}");
            assert!(speaks_of_lost_session(&text), "{text}");
        }
    }

    #[test]
    fn what_is_about_other_sessions_or_about_the_work_denies_none() {
        for text in [
            "payment session failed after charge",
            "the session was charged twice",
            r#"{"error":"unknown","session":"s1"}"#,
            r#"{"sessionId":"s1","error":"not found"}"#,
            "item not found. Session s1 goes on",
            "no sessions are booked",
            "invalid: session_name is required",
            "obsession expired",
        ] {
            for session in [None, Some("s1"), Some("s"), Some("1"), Some("")] {
                let text = without_id(text, session);
                assert!(!denies_session(&text), "{text} ({session:?})");
            }
        }
        assert!(!speaks_of_lost_session("payment session failed after charge"));
        assert!(speaks_of_lost_session("the session id is s1"), "a ping will show");
    }

    #[test]
    fn an_id_is_taken_out_of_a_text_only_where_it_stands_alone() {
        assert_eq!(without_id("session s1 is s12, or as1", Some("s1")), "session is s12, or as1");
        assert_eq!(without_id("s1", Some("s1")), " ");
        assert_eq!(without_id("session", Some("s")), "session");
        assert_eq!(without_id("a", None), "a");
    }

    #[test]
    fn what_may_have_been_carried_out_was_not_turned_away() {
        let refused = |status: u16| was_turned_away(&reply::error(None, &refused(status)));
        assert!(refused(400) && refused(404) && refused(422));
        assert!(!refused(408), "it may have taken its time over the work");
        assert!(!refused(500) && !refused(504));
        assert!(was_turned_away(&error(-32601, "x", Value::Null)));
        assert!(!was_turned_away(&error(-32603, "x", Value::Null)));
        assert!(!was_turned_away(&error(-32000, "x", Value::Null)));
    }
}
