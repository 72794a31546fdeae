//! Remembers which requests came back, so that a log can tell a retry from what the client sends. Pure.

use std::collections::VecDeque;

use crate::limits;
use crate::message::{Id, Message};

/// Requests that came back, the oldest first, and how often.
#[derive(Debug, Default)]
pub(super) struct Returned(VecDeque<(Id, usize, u32)>);

impl Returned {
    /// It came back, and may be sent again.
    pub(super) fn note(&mut self, message: &Message) {
        let Some((id, size)) = name(message) else { return };
        let before = self.take(message);
        // Nobody tells when one has come back for the last time: the oldest make room.
        if self.0.len() >= limits::RETURNED {
            self.0.pop_front();
        }
        self.0.push_back((id, size, before + 1));
    }

    /// Which retry it is, if it came back before.
    pub(super) fn retry(&self, message: &Message) -> Option<u32> {
        self.position(message).and_then(|at| self.0.get(at)).map(|(.., times)| *times)
    }

    fn take(&mut self, message: &Message) -> u32 {
        let at = self.position(message);
        at.and_then(|at| self.0.remove(at)).map_or(0, |(.., times)| times)
    }

    fn position(&self, message: &Message) -> Option<usize> {
        if self.0.is_empty() {
            return None;
        }
        let (id, size) = name(message)?;
        self.0.iter().position(|(known, known_size, _)| *known == id && *known_size == size)
    }
}

/// A client that uses an id again says something else with it, as a rule.
fn name(message: &Message) -> Option<(Id, usize)> {
    message.method()?;
    Some((message.id()?.clone(), message.bytes().len()))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn message(members: &str) -> Message {
        let text = members.replacen('{', r#"{"jsonrpc":"2.0","#, 1);
        Message::parse(Bytes::from(text)).unwrap()
    }

    #[test]
    fn what_came_back_is_a_retry_and_nothing_else_is() {
        let mut returned = Returned::default();
        let (a, b) = (r#"{"id":1,"method":"a"}"#, r#"{"id":2,"method":"a"}"#);
        assert_eq!(returned.retry(&message(a)), None);
        for times in 1..=3 {
            returned.note(&message(a));
            assert_eq!(returned.retry(&message(a)), Some(times));
            assert_eq!(returned.retry(&message(b)), None);
        }
        assert_eq!(returned.retry(&message(r#"{"id":1,"method":"another"}"#)), None);
        returned.note(&message(r#"{"method":"n"}"#));
        assert_eq!(returned.0.len(), 1, "only requests");
        for id in 0..1000 {
            returned.note(&message(&format!(r#"{{"id":{id},"method":"a"}}"#)));
        }
        assert_eq!(returned.0.len(), limits::RETURNED);
    }
}
