//! A lost session is opened again in the client's own words, and told what the old one knew.

use tokio::time::Instant;
use tracing::{debug, warn};

use super::core::{Core, Out, Own};
use super::delivery::{Again, again};
use crate::error::{Error, Kind};
use crate::message::{Head, Id, Message, Method, edit, reply};
use crate::traffic::{self, Recovery};

impl Core {
    pub(super) fn lose_session(&mut self, now: Instant, out: &mut Out) {
        if self.record.initialize().is_none() {
            return;
        }
        self.take_back_questions(out);
        let lost = "The server has lost the session, and no new one was opened in time";
        self.trouble.get_or_insert(Error::new(Kind::SessionLost, lost).not_delivered());
        if self.recovery.session_lost(now) {
            self.ask_for_session(out);
        }
    }

    /// Questions of an old session have nobody who waits for their answers.
    pub(super) fn take_back_questions(&mut self, out: &mut Out) {
        self.waiting.drop_answers();
        for id in self.from_server.lose() {
            out.client(reply::cancelled(&id, "the session in which it was asked is no more"));
        }
    }

    /// An answer to a question of the server's. One that was asked during the handshake does not wait
    /// for the end of it: the server may wait for the answer.
    pub(super) fn answer_server(&mut self, answer: Message, now: Instant, out: &mut Out) {
        if self.recovery.is_reopening() {
            return out.server(answer);
        }
        self.send_or_hold(answer, now, out);
    }

    /// The client's own words, under an id of ours.
    pub(super) fn ask_for_session(&mut self, out: &mut Out) {
        // Of a session that was not opened after all.
        self.take_back_questions(out);
        debug!("the session was lost: a new one is opened");
        let id = self.own_id(Own::Session);
        if let Some(initialize) = self.record.initialize() {
            out.server(edit::with_id(initialize, &id).own());
        }
    }

    pub(super) fn own_answered(&mut self, own: Own, answer: &Message, now: Instant, out: &mut Out) {
        match (own, answer.head()) {
            (Own::StoodIn, _) => self.stood_in_answered(answer, now, out),
            (Own::Session, _) if self.stands_in => self.stood_in_answered(answer, now, out),
            (Own::Session, Head::Response { is_error: false, .. }) => {
                self.reopened(answer, now, out);
            }
            (Own::Session, _) => {
                let refused = "The server has lost the session and refuses a new one";
                self.trouble = Some(Error::new(Kind::SessionLost, refused));
                self.session_refused(now, out);
            }
            (Own::Restoring, Head::Response { is_error: true, .. }) => {
                warn!("the new session did not take over a subscription or the log level");
            }
            _ => {}
        }
    }

    pub(super) fn own_failed(&mut self, own: Own, error: &Error, now: Instant, out: &mut Out) {
        if own == Own::StoodIn || (own == Own::Session && self.stands_in) {
            return self.stood_in_failed(error, now);
        }
        if own != Own::Session {
            if error.kind == Kind::SessionLost {
                self.lose_session(now, out);
            }
            return debug!("a request of the bridge's own, {}, failed: {error}", own.words());
        }
        match again(Some(&Method::Initialize), error, true, false) {
            Again::WhenBack | Again::Now => {
                self.trouble = Some(error.clone());
                // They wait for a server that is away now, not for a session under way (C37).
                self.waiting.shorten(now + self.policy.away_wait);
                let wait = (!self.waiting.is_empty()).then_some(self.policy.away_wait);
                self.absence.unreachable(error, wait);
                self.recovery.unreachable(now, !self.waiting.is_empty());
            }
            Again::After(pause) => {
                self.trouble = Some(error.clone());
                self.recovery.rest(now, pause);
            }
            Again::No => {
                self.trouble = Some(error.clone());
                self.session_refused(now, out);
            }
        }
    }

    /// The new session stands: what the old one knew is said again, then what waited goes out.
    pub(super) fn reopened(&mut self, answer: &Message, now: Instant, out: &mut Out) {
        self.recovery.reopened(now);
        self.absence.reachable();
        (self.stands_in, self.in_session) = (false, true);
        traffic::recovery(Recovery::SessionOpened, None);
        let (before, offered) = self.record.reopened(answer);
        if before.version != offered.version || offered.has_lost(&before) {
            warn!(
                before = before.version,
                now = offered.version,
                "the server came back with another revision or fewer capabilities"
            );
        }
        let (confirmation, rest) = self.record.to_restore();
        let confirmation = confirmation.cloned();
        let rest: Vec<Message> = rest.cloned().collect();
        let confirmation =
            confirmation.unwrap_or_else(|| reply::notification("notifications/initialized"));
        out.server(confirmation);
        for message in rest {
            let id = self.own_id(Own::Restoring);
            out.server(edit::with_id(&message, &id).own());
        }
        self.release(now, out);
        for method in offered.lists_changed(&before) {
            out.client(reply::notification(method));
        }
    }

    /// No session is to be had: those who wait for one are told, and the next may ask again.
    fn session_refused(&mut self, now: Instant, out: &mut Out) {
        self.recovery.refused(now);
        traffic::recovery(Recovery::SessionRefused, self.trouble.as_ref());
        while let Some(waiting) = self.waiting.pop() {
            self.end_waiting(&waiting, now, out);
        }
    }

    pub(super) fn own_id(&mut self, own: Own) -> Id {
        let id = self.unguessable_id();
        self.own.insert(id.clone(), own);
        id
    }

    /// An id that nobody guesses: it collides with none of the client's, nor of the server's (C13).
    pub(super) fn unguessable_id(&mut self) -> Id {
        self.own_count += 1;
        Id::string(&format!("mcp-span-{:016x}-{}", self.own_prefix, self.own_count))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::Policy;
    use super::*;
    use crate::transport::Incoming;

    fn said(text: &str) -> Incoming {
        Incoming::Message(Message::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap())
    }

    const QUESTION: &str = r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#;
    const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

    /// A core in a session, with a question to the client.
    fn asked(now: Instant) -> (Core, Out) {
        let (mut core, mut out) = (Core::new(Policy::default(), now), Out::default());
        let initialize = r#"{"jsonrpc":"2.0","id":0,"method":"initialize"}"#;
        core.client_says(said(initialize), now, &mut out);
        core.server_says(said(r#"{"jsonrpc":"2.0","id":0,"result":{}}"#), now, &mut out);
        core.server_says(said(QUESTION), now, &mut out);
        (core, Out::default())
    }

    fn answers(out: &Out) -> usize {
        out.to_server.iter().filter(|m| matches!(m.head(), Head::Response { .. })).count()
    }

    #[test]
    fn an_answer_that_waits_for_the_server_is_forgotten_with_its_session() {
        let now = Instant::now();
        let (mut core, mut out) = asked(now);
        let call = r#"{"jsonrpc":"2.0","id":2,"method":"a"}"#;
        core.client_says(said(call), now, &mut out);
        let Incoming::Message(message) = said(call) else { unreachable!() };
        let error = Error::new(Kind::Connect, "refused").not_delivered().into();
        core.server_says(Incoming::Failed { message, error }, now, &mut out);
        core.client_says(said(ANSWER), now, &mut out);
        assert_eq!(answers(&out), 0, "the server is away");
        core.server_says(Incoming::SessionLost, now, &mut out);
        core.server_says(Incoming::Reached, now, &mut out);
        let id =
            out.to_server.iter().find(|m| m.method() == Some(&Method::Initialize)).unwrap().id();
        let opened = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, id.unwrap().as_json());
        core.server_says(said(&opened), now, &mut out);
        assert!(
            out.to_server.iter().any(|m| m.method() == Some(&Method::named("a"))),
            "what waited went out"
        );
        assert_eq!(answers(&out), 0, "but for the answer");
    }

    #[test]
    fn what_is_asked_during_the_handshake_is_answered_during_the_handshake() {
        let now = Instant::now();
        let (mut core, mut out) = asked(now);
        core.server_says(Incoming::SessionLost, now, &mut out);
        core.client_says(said(ANSWER), now, &mut out);
        assert_eq!(answers(&out), 0, "that was a question of the old session");
        core.server_says(said(QUESTION), now, &mut out);
        core.client_says(said(ANSWER), now, &mut out);
        assert_eq!(answers(&out), 1);
    }

    #[test]
    fn a_client_that_begins_anew_has_no_old_questions() {
        let now = Instant::now();
        let (mut core, mut out) = asked(now);
        core.client_says(said(r#"{"jsonrpc":"2.0","id":5,"method":"initialize"}"#), now, &mut out);
        assert_eq!(out.to_client[0].method(), Some(&Method::Cancelled));
        core.client_says(said(ANSWER), now, &mut out);
        assert_eq!(answers(&out), 0);
    }
}
