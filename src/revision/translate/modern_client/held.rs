//! What the client has said while it is found out how to say it to the server.

use std::collections::VecDeque;

use crate::limits;
use crate::message::{Id, Message};

/// Messages in their order, bounded by number and by bytes.
#[derive(Default)]
pub(super) struct Held {
    messages: VecDeque<Message>,
    bytes: usize,
}

impl Held {
    /// Puts a message at the end, or gives it back where there is no room.
    pub(super) fn push(&mut self, message: Message) -> Result<(), Message> {
        let size = message.bytes().len();
        let is_full = self.messages.len() >= limits::HELD
            || (self.bytes + size > limits::UNANSWERED_BYTES && !self.messages.is_empty());
        if is_full {
            return Err(message);
        }
        self.bytes += size;
        self.messages.push_back(message);
        Ok(())
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
    fn there_is_room_for_so_many_and_no_more() {
        let mut held = Held::default();
        for id in 0..limits::HELD {
            assert!(held.push(request(id)).is_ok());
        }
        assert_eq!(held.push(request(9999)), Err(request(9999)));
        assert!(held.withdraw(&Id::from_json("1.0").unwrap()));
        assert!(!held.withdraw(&Id::from_json("1").unwrap()));
        assert!(held.push(request(9999)).is_ok());
        assert_eq!(held.pop(), Some(request(0)));
        assert_eq!(held.pop(), Some(request(2)));
        held.push_first(request(0));
        assert_eq!(held.pop(), Some(request(0)));
        while held.pop().is_some() {}
        assert!(held.is_empty());
        assert_eq!(held.bytes, 0);
    }
}
