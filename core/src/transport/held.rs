//! Counts what a link holds of messages that nobody waits for an answer to.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use crate::limits;
use crate::message::{Head, Message};

/// Bytes of notifications and answers that a link has taken and not settled. Requests are counted
/// by whoever waits for their answers.
#[derive(Clone, Debug, Default)]
pub struct Held(Arc<Total>);

#[derive(Debug, Default)]
struct Total {
    bytes: AtomicUsize,
    eased: Notify,
}

/// What one message holds, until the last copy of it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    bytes: usize,
    of: Held,
}

impl Held {
    /// So many now.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// Completes when there is less than before. For one who waits.
    pub async fn eased(&self) {
        self.0.eased.notified().await;
    }

    /// Counts `message` until the share is dropped, unless it is a request.
    pub(crate) fn hold(&self, message: &Message) -> Option<Arc<Share>> {
        let bytes = weight(message)?;
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
        Some(Arc::new(Share { bytes, of: self.clone() }))
    }
}

/// How much a message counts for; `None` for a request.
pub(crate) fn weight(message: &Message) -> Option<usize> {
    let is_request = matches!(message.head(), Head::Request { .. });
    (!is_request).then(|| message.bytes().len().max(limits::LEAST_WEIGHT))
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.0.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.of.0.eased.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[tokio::test]
    async fn what_nobody_waits_for_counts_until_it_is_dropped() {
        let message = |text: String| Message::parse(Bytes::from(text)).expect("a message");
        let held = Held::default();
        let request = message(r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#.to_owned());
        assert!(held.hold(&request).is_none());
        let text = "x".repeat(5000);
        let notice = message(format!(r#"{{"jsonrpc":"2.0","method":"n","params":"{text}"}}"#));
        let share = held.hold(&notice);
        let copy = share.clone();
        assert_eq!(held.bytes(), notice.bytes().len());
        let small = held.hold(&message(r#"{"jsonrpc":"2.0","method":"n"}"#.to_owned()));
        assert_eq!(held.bytes(), notice.bytes().len() + limits::LEAST_WEIGHT);
        drop(share);
        assert!(held.bytes() > 5000, "a copy is still there");
        drop((copy, small));
        assert_eq!(held.bytes(), 0);
        held.eased().await;
    }
}
