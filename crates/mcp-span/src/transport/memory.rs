//! Two links that are each other's peer, for tests and for programs that are their own client.

use super::channel::{Receiver, Sender, crossed};
use super::{Incoming, Link, Written};
use crate::message::Message;

/// What is sent into one comes out of the other.
#[must_use]
pub fn pair() -> (Link, Link) {
    let (to_first, from_second) = crossed();
    let (to_second, from_first) = crossed();
    (link(to_second, from_second), link(to_first, from_first))
}

fn link(outbox: Sender<Message>, inbox: Receiver<Incoming>) -> Link {
    // What was sent has arrived.
    let done = tokio::spawn(std::future::ready(()));
    Link { outbox, inbox, done, written: Written::default() }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[tokio::test]
    async fn what_goes_in_here_comes_out_there_and_closing_is_seen() {
        let (one, mut other) = pair();
        let text = Bytes::from_static(br#"{"jsonrpc":"2.0","method":"a"}"#);
        let message = Message::parse(text).unwrap();
        one.outbox.send(message.clone()).await.unwrap();
        assert_eq!(other.inbox.recv().await, Some(Incoming::Message(message)));
        drop(one.outbox);
        assert_eq!(other.inbox.recv().await, None);
    }
}
