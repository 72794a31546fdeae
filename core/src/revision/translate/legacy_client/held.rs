//! What the client says before it is known how the server wants to hear it.

use std::collections::VecDeque;

use super::{Step, Steps};
use crate::error::Error;
use crate::message::{Message, Method, peek};
use crate::revision::Envelope;

/// Messages in their order; whoever hands them over bounds them.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) messages: VecDeque<Message>,
    /// Bytes of those among them that get no answer.
    told: usize,
}

impl Held {
    /// Keeps it back, unless it may be said at any time.
    pub(super) fn take(&mut self, message: Message, out: &mut Steps) {
        if let Some(id) = peek::cancelled_request(&message) {
            let before = self.messages.len();
            self.messages.retain(|held| held.id() != Some(&id));
            if self.messages.len() == before {
                out.push_back(Step::ToServer(message));
            }
            return;
        }
        // Nor does an answer wait: the server may have asked before it goes on.
        let is_free = matches!(message.method(), None | Some(Method::Ping | Method::Discover));
        if is_free || Envelope::of(&message).is_some() {
            return out.push_back(Step::ToServer(message));
        }
        if message.id().is_none() {
            self.told += message.bytes().len();
        }
        self.messages.push_back(message);
    }

    pub(super) fn bytes(&self) -> usize {
        self.told
    }

    pub(super) fn release(self, out: &mut Steps) {
        out.extend(self.messages.into_iter().map(Step::ToServer));
    }

    /// Nobody is there: they need not find out one by one.
    pub(super) fn give_back(self, error: &Error, out: &mut Steps) {
        let failed = |message| Step::Failed { message, error: error.clone() };
        out.extend(self.messages.into_iter().map(failed));
    }
}
