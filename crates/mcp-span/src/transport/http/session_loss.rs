//! Judges what a refusal says about the session that its request was sent in. Pure.
//!
//! A bare 404 means what the specification says. Every other complaint about a session may be an
//! application's own, so it has to be proved by a ping in the session; unproved, it is the answer.

use crate::revision::era_hints::{self, METHOD_NOT_FOUND};

/// The server understood the request, and complains about its parameters.
const INVALID_PARAMS: i64 = -32602;

/// An HTTP error as far as it can be about a session.
#[derive(Debug)]
pub(super) struct Complaint {
    pub(super) status: u16,
    /// The code of the JSON-RPC error in the body, if it is one.
    pub(super) code: Option<i64>,
    /// The body has an answer with the id of the request: somebody has read the request.
    pub(super) is_own: bool,
    /// That answer is a result; only one with the id of the request is looked at.
    pub(super) is_result: bool,
    /// The message of the JSON-RPC error in the body, if it is one.
    pub(super) said: Option<String>,
    /// The beginning of the body, without the session's id.
    pub(super) text: String,
}

/// What a refused message says about its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LossVerdict {
    /// Nothing: it is the answer.
    Answer,
    /// It speaks of a session. Lost if a ping proves it, else the answer.
    Suspected,
    /// It should mean a loss, but has meant something else before. Lost unless a ping shows that
    /// the session lives, or nobody answers it.
    Presumed,
    /// The server does not know the session.
    Lost,
}

/// What a ping in the session has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// The server does not know the session.
    Lost,
    /// The session lives: the ping was answered.
    Lives,
    /// It was refused in a way that proves nothing, so the session is taken to live.
    Refused,
    /// Nobody said anything about it.
    Silence,
}

/// What becomes of a message that was refused, and of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The refusal is its answer, and the session is used on.
    Answered,
    /// The refusal is its answer, but the session is lost by now.
    AnsweredThenLost,
    /// The session was lost before it came: it was not carried out, and is sent again in another.
    Lost,
}

/// What was learnt in this run about how the server refuses.
#[derive(Clone, Debug, Default)]
pub(super) struct Habits {
    /// It has answered a ping: it knows the method.
    answers_pings: bool,
    /// A request that met a bare 404 met it again in a new session.
    repeats_404: bool,
    /// The first two sessions that it has denied to a ping.
    denied: Vec<String>,
}

impl Habits {
    /// A ping in this `session` was refused with these words.
    pub(super) fn note_refused_ping(&mut self, session: Option<&str>, complaint: &Complaint) {
        let Some(session) = session.filter(|_| complaint.denies_session()) else { return };
        if self.denied.len() < 2 && !self.denied.iter().any(|known| known == session) {
            self.denied.push(session.to_owned());
        }
    }

    pub(super) fn note_answered_ping(&mut self) {
        self.answers_pings = true;
    }

    /// A request was refused in this way in a new session as well.
    pub(super) fn note_last_loss(&mut self, complaint: &Complaint) {
        self.repeats_404 |= complaint.status == 404;
    }

    /// It has denied a session to a ping, and the session that replaced it as well, and has never
    /// answered one: it may say so of every ping.
    fn denies_pings(&self) -> bool {
        self.denied.len() > 1 && !self.answers_pings
    }
}

/// Judges the refusal of a message that was sent in a session.
pub(super) fn of_message(complaint: &Complaint, is_ping: bool, habits: &Habits) -> LossVerdict {
    if is_ping {
        // It has nothing to say but this, and needs no other ping to prove it.
        return match of_ping(complaint, habits) {
            Proof::Lost => LossVerdict::Lost,
            Proof::Lives | Proof::Refused | Proof::Silence => LossVerdict::Answer,
        };
    }
    match complaint.code {
        _ if complaint.is_result => LossVerdict::Answer,
        Some(METHOD_NOT_FOUND) => LossVerdict::Answer,
        _ if complaint.is_bare_404() && habits.repeats_404 => LossVerdict::Presumed,
        _ if complaint.is_bare_404() => LossVerdict::Lost,
        Some(INVALID_PARAMS) => LossVerdict::Answer,
        _ if complaint.may_be_about_session()
            && era_hints::speaks_of_lost_session(&complaint.text) =>
        {
            LossVerdict::Suspected
        }
        _ => LossVerdict::Answer,
    }
}

/// Whether the refusal of a GET for a stream, which is sent under no id, may be about the session. It
/// is no more than a suspicion, since many servers have no stream and say so by 404.
pub(super) fn is_suspicious(complaint: &Complaint) -> bool {
    of_message(complaint, false, &Habits::default()) != LossVerdict::Answer
}

/// Judges the answer to a ping.
pub(super) fn of_ping(complaint: &Complaint, habits: &Habits) -> Proof {
    match complaint.status {
        _ if complaint.denies_session() && habits.denies_pings() => Proof::Refused,
        _ if complaint.denies_session() => Proof::Lost,
        200..=299 => Proof::Lives,
        _ if complaint.is_result => Proof::Lives,
        // These say something, but not about the session.
        401 | 403 | 408 | 429 => Proof::Silence,
        404 if complaint.is_bare_404() && habits.answers_pings => Proof::Lost,
        400..=499 => Proof::Refused,
        _ => Proof::Silence,
    }
}

/// What becomes of the message after a ping: `asked` is its refusal, `pinged` that of the ping.
///
/// The ping tells about now. Whoever has refused the request may have carried it out before the
/// session was lost: only if the ping is refused in the same words was that said of the session, too.
pub(super) fn fate(
    verdict: LossVerdict,
    proof: Proof,
    asked: &Complaint,
    pinged: Option<&Complaint>,
    is_safe: bool,
) -> Fate {
    let is_same = pinged.is_some_and(|ping| ping.says_as(asked));
    let is_lost = match proof {
        Proof::Lost => true,
        Proof::Refused if verdict == LossVerdict::Presumed => true,
        // A server that denies every ping its session does not speak of calls in the same words.
        Proof::Refused => is_same && pinged.is_some_and(Complaint::denies_session),
        Proof::Lives | Proof::Silence => false,
    };
    if !is_lost {
        return Fate::Answered;
    }
    // An error under no id: the request was not read.
    let is_unread = asked.code.is_some() && !asked.is_own;
    if is_safe || is_same || is_unread { Fate::Lost } else { Fate::AnsweredThenLost }
}

impl Complaint {
    /// Whether the refusals are the same, but for ids, numbers and dates in them.
    fn says_as(&self, other: &Self) -> bool {
        fn words(complaint: &Complaint) -> impl Iterator<Item = &str> {
            let text = complaint.said.as_ref().unwrap_or(&complaint.text);
            let words = text.split(|c: char| !c.is_alphanumeric() && c != '-');
            words.filter(|word| word.chars().all(char::is_alphabetic))
        }
        (self.status, self.code) == (other.status, other.code) && words(self).eq(words(other))
    }

    /// As the answer to a ping: the server says that it does not know the session.
    fn denies_session(&self) -> bool {
        let can = match self.status {
            // Some servers put every error into a response that is none.
            200..=299 => self.code.is_some(),
            _ => self.may_be_about_session() && !self.is_result,
        };
        can && self.code != Some(METHOD_NOT_FOUND) && era_hints::denies_session(&self.text)
    }

    /// 404, and nobody has answered the request in it.
    fn is_bare_404(&self) -> bool {
        self.status == 404 && !self.is_own
    }

    /// Client errors, but for those with a meaning of their own.
    fn may_be_about_session(&self) -> bool {
        matches!(self.status, 400..=499) && !matches!(self.status, 401 | 403 | 408 | 413 | 429)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FRESH: &Habits = &Habits { answers_pings: false, repeats_404: false, denied: Vec::new() };
    const PINGED: &Habits = &Habits { answers_pings: true, repeats_404: false, denied: Vec::new() };
    const DOUBTED: &Habits =
        &Habits { answers_pings: false, repeats_404: true, denied: Vec::new() };

    fn bare(status: u16, text: &str) -> Complaint {
        let (code, said, text) = (None, None, text.to_owned());
        Complaint { status, code, is_own: false, is_result: false, said, text }
    }

    fn own(status: u16, code: i64, text: &str) -> Complaint {
        let said = Some(text.to_owned());
        Complaint { code: Some(code), is_own: true, said, ..bare(status, text) }
    }

    fn message(complaint: Complaint) -> LossVerdict {
        of_message(&complaint, false, FRESH)
    }

    const WORDS: [&str; 6] = [
        r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}"#,
        "Session expired",
        "unknown session",
        "Bad Request: Server not initialized",
        "Mcp-Session-Id is missing",
        "No transport found for sessionId",
    ];

    #[test]
    fn an_answered_ping_shows_that_the_session_lives_unless_its_error_denies_it() {
        assert_eq!(of_ping(&own(200, -32001, "Session not found"), FRESH), Proof::Lost);
        assert_eq!(of_ping(&own(200, -32601, "Method not found"), FRESH), Proof::Lives);
        assert_eq!(of_ping(&own(200, -32603, "busy"), PINGED), Proof::Lives);
        assert_eq!(
            of_ping(&bare(200, r#"{"result":{"note":"session not found"}}"#), FRESH),
            Proof::Lives
        );
        assert_eq!(of_ping(&bare(202, ""), FRESH), Proof::Lives);
    }

    #[test]
    fn a_bare_404_is_a_lost_session() {
        for text in ["", "anything", "<html>", r#"{"detail":"Not Found"}"#] {
            assert_eq!(message(bare(404, text)), LossVerdict::Lost, "{text}");
            assert_eq!(
                of_message(&bare(404, text), false, DOUBTED),
                LossVerdict::Presumed,
                "{text}"
            );
        }
        let others = Complaint { code: Some(-32000), ..bare(404, "x") };
        assert_eq!(message(others), LossVerdict::Lost, "an error under another id, or none");
    }

    #[test]
    fn words_are_a_suspicion_whatever_the_status_and_the_id() {
        for text in WORDS {
            assert_eq!(message(bare(400, text)), LossVerdict::Suspected, "{text}");
            assert_eq!(message(bare(410, text)), LossVerdict::Suspected, "{text}");
            for status in [400, 404, 409, 422] {
                assert_eq!(message(own(status, -32000, text)), LossVerdict::Suspected, "{text}");
            }
            for status in [401, 403, 408, 413, 429, 500, 503] {
                assert_eq!(message(bare(status, text)), LossVerdict::Answer, "{status} {text}");
            }
        }
    }

    #[test]
    fn what_was_read_and_does_not_speak_of_a_session_is_the_answer() {
        for status in [400, 404, 409, 422] {
            assert_eq!(message(own(status, -32000, "item not found")), LossVerdict::Answer);
            assert_eq!(message(own(status, -32602, "invalid session id")), LossVerdict::Answer);
            assert_eq!(message(own(status, -32601, "session id")), LossVerdict::Answer);
        }
        let unknown = Complaint { is_own: false, ..own(404, -32601, "Method not found") };
        assert_eq!(message(unknown), LossVerdict::Answer, "a method that nobody knows");
        assert_eq!(message(bare(400, "Bad Request")), LossVerdict::Answer);
        assert_eq!(message(bare(400, "invalid: session_name is required")), LossVerdict::Answer);
    }

    #[test]
    fn a_ping_proves_a_loss_by_its_words() {
        for text in WORDS {
            for status in [400, 404, 410, 422] {
                assert_eq!(of_ping(&bare(status, text), FRESH), Proof::Lost, "{status} {text}");
                assert_eq!(of_ping(&own(status, -32000, text), FRESH), Proof::Lost, "{text}");
            }
            assert_eq!(of_ping(&own(404, -32601, text), PINGED), Proof::Refused, "{text}");
            assert_eq!(of_ping(&bare(413, text), PINGED), Proof::Refused, "{text}");
            for status in [401, 403, 408, 429, 500, 503, 302] {
                assert_eq!(of_ping(&bare(status, text), PINGED), Proof::Silence, "{status} {text}");
            }
        }
    }

    #[test]
    fn a_bare_404_to_a_ping_proves_it_where_pings_were_answered() {
        assert_eq!(of_ping(&bare(404, "Not Found"), FRESH), Proof::Refused);
        assert_eq!(of_ping(&bare(404, "Not Found"), PINGED), Proof::Lost);
        assert_eq!(of_ping(&own(404, -32000, "Not Found"), PINGED), Proof::Refused);
        for text in ["Bad Request", "unknown method in session s1", "session id: s1"] {
            assert_eq!(of_ping(&bare(400, text), PINGED), Proof::Refused, "{text}");
        }
    }

    #[test]
    fn a_server_that_denies_every_ping_its_session_proves_nothing_by_it() {
        let denied = || own(404, -32001, "Session not found");
        let mut habits = Habits::default();
        habits.note_refused_ping(Some("s1"), &denied());
        habits.note_refused_ping(Some("s1"), &denied());
        assert_eq!(of_ping(&denied(), &habits), Proof::Lost, "one session may well be lost");
        habits.note_refused_ping(Some("s2"), &bare(404, "Not Found"));
        assert!(!habits.denies_pings());
        habits.note_refused_ping(Some("s2"), &denied());
        assert_eq!(of_ping(&denied(), &habits), Proof::Refused);
        let fate =
            |asked| fate(LossVerdict::Suspected, Proof::Refused, &asked, Some(&denied()), false);
        assert_eq!(fate(own(404, -32001, "invalid session id for booking")), Fate::Answered);
        assert_eq!(fate(denied()), Fate::Lost, "calls are refused in the same words");
        assert_eq!(of_ping(&bare(404, "Not Found"), &habits), Proof::Refused);
        habits.note_answered_ping();
        assert_eq!(of_ping(&denied(), &habits), Proof::Lost, "it answers pings after all");
    }

    #[test]
    fn a_stream_that_is_refused_is_never_more_than_a_suspicion() {
        assert!(is_suspicious(&bare(404, "")));
        assert!(is_suspicious(&bare(400, "Session expired")));
        assert!(!is_suspicious(&bare(405, "")));
        assert!(!is_suspicious(&bare(400, "no")));
    }

    #[test]
    fn a_result_is_the_answer_and_shows_that_the_session_lives() {
        for text in WORDS {
            let result = || Complaint { is_own: true, is_result: true, ..bare(404, text) };
            assert_eq!(message(result()), LossVerdict::Answer, "{text}");
            assert_eq!(of_ping(&result(), PINGED), Proof::Lives, "{text}");
        }
    }

    #[test]
    fn what_was_answered_is_repeated_only_if_the_ping_is_refused_in_the_same_words() {
        let fate = |asked: &Complaint, pinged: &Complaint, is_safe| {
            fate(LossVerdict::Suspected, Proof::Lost, asked, Some(pinged), is_safe)
        };
        let asked = own(404, -32001, "Session not found");
        let same = Complaint { is_own: false, ..own(404, -32001, "Session not found") };
        assert_eq!(fate(&asked, &same, false), Fate::Lost, "under whatever id");
        for other in [
            own(400, -32001, "Session not found"),
            own(404, -32000, "Session not found"),
            own(404, -32001, "Session expired"),
            bare(404, "Session not found"),
        ] {
            assert_eq!(fate(&asked, &other, false), Fate::AnsweredThenLost, "{other:?}");
            assert_eq!(fate(&asked, &other, true), Fate::Lost, "{other:?}");
            let text = bare(400, "No valid session ID");
            assert_eq!(fate(&text, &other, false), Fate::AnsweredThenLost, "{other:?}");
        }
        let text = |number: u32| bare(400, &format!("Unknown session (request {number}-ab7)"));
        assert_eq!(fate(&text(1), &text(2), false), Fate::Lost, "but for numbers and ids");
        let unread = Complaint { is_own: false, ..own(400, -32000, "No valid session ID") };
        assert_eq!(fate(&unread, &own(200, -32001, "Session not found"), false), Fate::Lost);
        let refused = bare(404, "Not Found");
        for (proof, pinged) in
            [(Proof::Lives, &same), (Proof::Refused, &refused), (Proof::Silence, &same)]
        {
            let fate = super::fate(LossVerdict::Suspected, proof, &asked, Some(pinged), true);
            assert_eq!(fate, Fate::Answered, "{proof:?}");
        }
    }

    fn any_complaint() -> impl Strategy<Value = (u16, Option<i64>, bool, &'static str)> {
        let text = prop::sample::select(vec![
            "",
            "item not found",
            "Session expired",
            "invalid session id for booking 17",
            "No valid session ID provided",
            "session id s1",
        ]);
        let code = prop::option::of(prop::sample::select(vec![-32000, -32001, -32601, -32602]));
        (300..600_u16, code, any::<bool>(), text)
    }

    proptest! {
        #[test]
        fn nothing_but_a_bare_404_is_a_loss_without_a_proof(
            (status, code, is_own, text) in any_complaint(),
            answers_pings: bool,
            repeats_404: bool,
        ) {
            let complaint = Complaint { code, is_own, ..bare(status, text) };
            let habits = Habits { answers_pings, repeats_404, denied: Vec::new() };
            let verdict = of_message(&complaint, false, &habits);
            if verdict == LossVerdict::Lost {
                prop_assert!(status == 404 && !is_own);
            }
            // A session in which a ping is answered is never given up, but for a bare 404 that has
            // not misled anybody yet.
            let fate = |proof| fate(verdict, proof, &complaint, None, true);
            prop_assert_eq!(fate(Proof::Lives), Fate::Answered);
            prop_assert_eq!(fate(Proof::Silence), Fate::Answered);
            prop_assert!(fate(Proof::Refused) == Fate::Answered || status == 404 && !is_own);
        }

        #[test]
        fn a_ping_never_suspects(
            (status, code, is_own, text) in any_complaint(),
            answers_pings: bool,
        ) {
            let complaint = Complaint { code, is_own, ..bare(status, text) };
            let habits = Habits { answers_pings, ..Habits::default() };
            let verdict = of_message(&complaint, true, &habits);
            let proof = of_ping(&complaint, &habits);
            prop_assert_eq!(verdict == LossVerdict::Lost, proof == Proof::Lost);
            prop_assert!(matches!(verdict, LossVerdict::Lost | LossVerdict::Answer));
        }
    }
}
