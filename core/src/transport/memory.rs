//! Two links that are each other's peer, for tests and for programs that are their own client.

use tokio::sync::mpsc;

use super::{Ends, Incoming, Link, channel, spawn};

/// What is sent into one comes out of the other.
#[must_use]
pub fn pair() -> (Link, Link) {
    let (ends_to_second, ends_of_second) = mpsc::channel(1);
    let second = spawn(|ends| async move {
        // The receiver lives in the first link's task: it is gone only if that task is.
        let _ = ends_to_second.send(ends).await;
    });
    let first = spawn(|ends| join(ends, ends_of_second));
    (first, second)
}

async fn join(first: Ends, mut second: mpsc::Receiver<Ends>) {
    let Some(second) = second.recv().await else {
        return;
    };
    let there = carry(first.outgoing, second.incoming);
    let back = carry(second.outgoing, first.incoming);
    tokio::join!(there, back);
}

async fn carry(
    mut from: channel::Receiver<crate::message::Message>,
    to: channel::Sender<Incoming>,
) {
    while let Some(message) = from.recv().await {
        if to.send(Incoming::Message(message)).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::message::Message;

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
