//! The core's part where the link to the server has no clock of its own, as with a child process:
//! requests that get no answer in time end here, and what is no message is answered.

use tokio::time::Instant;
use tracing::debug;

use super::core::{Core, Out};
use crate::error::{Error, Kind};
use crate::limits;
use crate::message::{Id, Message, Method, peek, reply};

impl Core {
    /// When it is to be looked for requests that are overdue.
    pub(super) fn look_at(&self) -> Option<Instant> {
        (self.policy.watches && !self.from_client.is_empty()).then_some(self.next_look)
    }

    pub(super) fn end_overdue(&mut self, now: Instant, out: &mut Out) {
        let Some(at) = self.look_at().filter(|at| *at <= now) else { return };
        if now - at >= limits::STOPPED {
            // Who was stopped looks first at what has come meanwhile.
            self.next_look = now + limits::STOPPED;
            return;
        }
        self.next_look = now + limits::OVERDUE_LOOK;
        let timeouts = self.policy.timeouts;
        let overdue: Vec<_> = self
            .from_client
            .entries()
            .filter_map(|(id, asked)| {
                let limit = timeouts.of(asked.method.properties().clock)?;
                (asked.heard + limit <= now).then(|| (id.clone(), asked.method.clone(), limit))
            })
            .collect();
        for (id, method, limit) in overdue {
            let limit = limit.as_millis();
            let error = Error::new(Kind::Timeout, format!("Request timeout after {limit}ms"))
                .hint("Allow more time with --timeout, or look whether the server is stuck");
            self.end(&id, &error, now, out);
            // There is nothing yet to cancel a handshake in.
            if method != Method::Initialize {
                out.server(reply::cancelled(&id, "it took too long"));
            }
        }
    }

    /// Progress is a sign of life.
    pub(super) fn note_progress(&mut self, message: &Message, now: Instant) {
        if !self.policy.watches || message.method() != Some(&Method::Progress) {
            return;
        }
        let Some(token) = peek::progress_token(message) else { return };
        for asked in self.from_client.notes_mut() {
            if asked.progress.as_deref() == Some(token) {
                asked.heard = now;
            }
        }
    }

    /// The server has sent something that is no message, under an id: the answer that somebody
    /// waits for, or a question of its own.
    pub(super) fn refused(&mut self, id: Option<Id>, error: &Error, now: Instant, out: &mut Out) {
        debug!("the server sent no message: {error}");
        let Some(id) = id else { return };
        let is_answer = error.kind == Kind::InvalidRequest && self.from_client.has(&id);
        if is_answer {
            let error = Error::new(Kind::BadResponse, "The answer is not JSON-RPC 2.0")
                .because(&error.message);
            self.end(&id, &error, now, out);
        } else if self.is_within_bounds(out) {
            out.server(reply::error(Some(&id), error));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::super::Policy;
    use super::*;
    use crate::limits::Timeouts;
    use crate::transport::Incoming;

    fn message(text: &str) -> Incoming {
        Incoming::Message(Message::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap())
    }

    fn watching() -> (Core, Out, Instant) {
        let timeouts = Timeouts::all(Duration::from_secs(10));
        let policy = Policy { timeouts, watches: true, ..Policy::default() };
        let now = Instant::now();
        (Core::new(policy, now), Out::default(), now)
    }

    fn texts(queue: &std::collections::VecDeque<Message>) -> Vec<String> {
        queue.iter().map(|m| String::from_utf8_lossy(m.bytes()).into_owned()).collect()
    }

    /// As it is looked all the time.
    fn look(core: &mut Core, now: Instant, out: &mut Out) {
        core.next_look = now;
        core.tick(now, out);
    }

    #[test]
    fn an_answer_that_came_while_the_program_was_stopped_is_not_late() {
        let (mut core, mut out, now) = watching();
        core.client_says(message(r#"{"jsonrpc":"2.0","id":7,"method":"a"}"#), now, &mut out);
        look(&mut core, now, &mut out);
        let later = now + Duration::from_secs(60);
        core.tick(later, &mut out);
        assert!(out.to_client.is_empty(), "what has come is looked at first");
        assert_eq!(core.look_at(), Some(later + limits::STOPPED));
        core.server_says(message(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#), later, &mut out);
        core.tick(later + limits::STOPPED, &mut out);
        assert_eq!(texts(&out.to_client), [r#"{"jsonrpc":"2.0","id":7,"result":{}}"#]);
    }

    #[test]
    fn silence_ends_a_request_and_the_server_is_told() {
        // S1-23, S1-24
        let (mut core, mut out, now) = watching();
        let call = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"progressToken":"t"}}}"#;
        core.client_says(message(call), now, &mut out);
        out.to_server.clear();
        let later = now + Duration::from_secs(8);
        let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}"#;
        core.server_says(message(progress), later, &mut out);
        out.to_client.clear();
        look(&mut core, now + Duration::from_secs(12), &mut out);
        assert!(out.to_client.is_empty(), "progress is a sign of life");
        look(&mut core, later + Duration::from_secs(11), &mut out);
        let said = texts(&out.to_client).join("");
        assert!(said.contains(r#""id":7"#) && said.contains("timeout after 10000ms"), "{said}");
        assert!(texts(&out.to_server).join("").contains(r#""requestId":7"#));
        assert_eq!(core.look_at(), None, "nothing is left to look for");
    }

    #[test]
    fn an_answer_that_is_none_ends_its_request_and_a_question_is_answered() {
        let (mut core, mut out, now) = watching();
        core.client_says(message(r#"{"jsonrpc":"2.0","id":7,"method":"a"}"#), now, &mut out);
        out.to_server.clear();
        let error = Error::new(Kind::InvalidRequest, "Invalid request: neither");
        let refused = |id: u64, error: &Error| Incoming::Refused {
            id: Some(Id::number(id)),
            error: error.clone().into(),
        };
        core.server_says(refused(7, &error), now, &mut out);
        assert!(texts(&out.to_client).join("").contains("bad-response"));
        core.server_says(refused(8, &Error::new(Kind::TooLarge, "too large")), now, &mut out);
        assert!(texts(&out.to_server).join("").contains(r#""id":8"#));
    }
}
