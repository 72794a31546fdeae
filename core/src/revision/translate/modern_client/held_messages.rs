//! What the client has said while it is found out how to say it to the server.

use std::collections::VecDeque;

use crate::limits;
use crate::message::{Head, Id, Message};

/// Messages in their order. Whoever hands them in looks whether there is room and waits if there
/// is none: so nobody's request is refused for having come early.
#[derive(Default)]
pub(super) struct HeldMessages {
    messages: VecDeque<Message>,
    bytes: usize,
}

impl HeldMessages {
    /// Puts a message at the end.
    pub(super) fn push(&mut self, message: Message) {
        self.bytes += message.bytes().len();
        self.messages.push_back(message);
    }

    /// Whether there are as many as should wait here at once.
    pub(super) fn is_full(&self) -> bool {
        self.messages.len() >= limits::HELD || self.bytes >= limits::UNANSWERED_BYTES
    }

    /// The one that all the others wait for; it was let in before.
    pub(super) fn push_first(&mut self, message: Message) {
        self.bytes += message.bytes().len();
        self.messages.push_front(message);
    }

    pub(super) fn pop(&mut self) -> Option<Message> {
        let message = self.messages.pop_front()?;
        self.bytes -= message.bytes().len();
        Some(message)
    }

    /// Forgets the request `id`; `false` if it is not here.
    pub(super) fn withdraw(&mut self, id: &Id) -> bool {
        let at =
            self.messages.iter().position(|m| m.method().is_some() && super::is_request(m, id));
        let withdrawn = at.and_then(|at| self.messages.remove(at));
        self.bytes -= withdrawn.as_ref().map_or(0, |message| message.bytes().len());
        withdrawn.is_some()
    }

    /// Takes out all that are of this sort.
    pub(super) fn take_out(&mut self, is_of_sort: impl Fn(&Message) -> bool) -> Vec<Message> {
        let mut taken = Vec::new();
        for message in std::mem::take(&mut self.messages) {
            if is_of_sort(&message) {
                self.bytes -= message.bytes().len();
                taken.push(message);
            } else {
                self.messages.push_back(message);
            }
        }
        taken
    }

    /// Whether somebody waits for an answer to one of them.
    pub(super) fn has_request(&self) -> bool {
        self.messages.iter().any(|message| matches!(message.head(), Head::Request { .. }))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn request(id: usize) -> Message {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"a"}}"#);
        Message::parse(Bytes::from(text)).expect("a message")
    }

    #[test]
    fn it_is_known_when_so_many_wait_that_no_more_should_come() {
        let mut held = HeldMessages::default();
        for id in 0..limits::HELD {
            assert!(!held.is_full());
            held.push(request(id));
        }
        assert!(held.is_full());
        assert!(held.has_request());
        assert!(held.withdraw(&Id::from_json("1.0").unwrap()));
        assert!(!held.withdraw(&Id::from_json("1").unwrap()));
        assert!(!held.is_full());
        held.push(request(9999));
        held.push(request(9998));
        assert!(held.is_full(), "and nothing is lost");
        let taken = held.take_out(|m| m.id().is_some_and(|id| id.as_json().starts_with("99")));
        assert_eq!(taken.last(), Some(&request(9998)));
        assert_eq!(held.pop(), Some(request(0)));
        assert_eq!(held.pop(), Some(request(2)));
        held.push_first(request(0));
        assert_eq!(held.pop(), Some(request(0)));
        while held.pop().is_some() {}
        assert!(held.is_empty());
        assert_eq!(held.bytes, 0);
    }
}
