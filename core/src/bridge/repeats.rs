//! Modern requests that are sent once more go out under another id.
//!
//! Over HTTP a modern request is lost with the stream of its answer, and the same request again is a
//! new one to the server. The core, and the client, know it by the id that it came with.

use std::collections::HashMap;

use crate::message::{Head, Id, Members, Message, edit, peek, reply};
use crate::net::backoff::entropy;
use crate::transport::Incoming;

/// Those that are under way, by the id that the server knows.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    under_way: HashMap<Id, Message>,
    count: u64,
}

impl Repeats {
    /// The same request as a new one.
    pub(super) fn rename(&mut self, message: Message) -> Message {
        let Head::Request { .. } = message.head() else { return message };
        self.count += 1;
        let new = Id::string(&format!("again-{:016x}-{}", entropy(), self.count));
        let renamed = edit::with_id(&message, &new);
        self.under_way.insert(new, message);
        renamed
    }

    /// A cancellation of one of them is told under the id that the server knows.
    pub(super) fn cancels(&mut self, notice: Message) -> Message {
        if self.under_way.is_empty() {
            return notice;
        }
        let Some(id) = peek::cancelled_request(&notice) else { return notice };
        let is_it = |message: &Message| message.id().map(Id::canonical) == Some(id.canonical());
        let found = self.under_way.iter().find(|(_, message)| is_it(message));
        let Some(new) = found.map(|(new, _)| new.clone()) else { return notice };
        self.under_way.remove(&new);
        let mut members = Members::of_message(&notice).unwrap_or_default();
        members.object("params").set("requestId", new.as_json().to_owned());
        members.into_message(notice.head().clone())
    }

    /// What comes back for one of them is about the request as it came.
    pub(super) fn restore(&mut self, incoming: Incoming) -> Incoming {
        if self.under_way.is_empty() {
            return incoming;
        }
        match incoming {
            Incoming::Message(message) if message.method().is_none() => {
                let asked = message.id().and_then(|id| self.under_way.remove(id));
                let own = asked.as_ref().and_then(Message::id);
                Incoming::Message(
                    own.map_or_else(|| message.clone(), |own| edit::with_id(&message, own)),
                )
            }
            Incoming::Failed { message, error } => {
                let asked = message.id().and_then(|id| Some((id, self.under_way.remove(id)?)));
                match asked {
                    Some((new, asked)) => {
                        let error = Box::new(reply::about(*error, new, asked.id()));
                        Incoming::Failed { message: asked, error }
                    }
                    None => Incoming::Failed { message, error },
                }
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::error::{Error, Kind};

    fn message(text: &str) -> Message {
        Message::parse(Bytes::copy_from_slice(text.as_bytes())).expect("a message")
    }

    fn list() -> Message {
        message(r#"{"jsonrpc":"2.0","id": 7,"method":"tools/list","params":{ "a":1.0 }}"#)
    }

    #[test]
    fn only_the_id_is_new_and_the_client_never_sees_it() {
        let mut repeats = Repeats::default();
        let sent = repeats.rename(list());
        let new = sent.id().unwrap().clone();
        assert_ne!(new.as_json(), "7");
        assert_eq!(edit::with_id(&sent, list().id().unwrap()), list());
        let answer = message(&format!(r#"{{"jsonrpc":"2.0","id":{new},"result":{{}}}}"#));
        let Incoming::Message(answer) = repeats.restore(Incoming::Message(answer)) else {
            panic!()
        };
        assert_eq!(answer.id(), list().id());
    }

    #[test]
    fn one_that_fails_comes_back_as_it_came() {
        let mut repeats = Repeats::default();
        let sent = repeats.rename(list());
        let text = format!("No response received for request ID {}", sent.id().unwrap());
        let error = Error::new(Kind::NoResponse, text);
        let failed = repeats.restore(Incoming::Failed { message: sent, error: error.into() });
        let Incoming::Failed { message, error } = failed else { panic!() };
        assert_eq!(message, list());
        assert_eq!(error.message, "No response received for request ID 7");
    }

    #[test]
    fn one_that_is_cancelled_is_cancelled_by_its_new_name() {
        let mut repeats = Repeats::default();
        let sent = repeats.rename(list());
        let notice = repeats.cancels(reply::cancelled(list().id().unwrap(), "why"));
        assert_eq!(peek::cancelled_request(&notice).as_ref(), sent.id());
        assert!(repeats.under_way.is_empty());
    }
}
