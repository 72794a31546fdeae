//! Reads the messages of one payload: others have their turns meanwhile, and what is no message is
//! counted, since a batch can have millions of elements.

use bytes::Bytes;

use crate::message::{Each, Malformed, Message, parse_each};

/// How many elements are looked at in one turn: some 20 µs.
const TURN: usize = 256;

/// The messages of one payload, and what is said of the rest.
#[derive(Debug)]
pub(super) struct Elements {
    each: Each,
    /// In this turn.
    seen: usize,
    wrong: usize,
    first: Option<Malformed>,
}

impl Elements {
    pub(super) fn of(payload: Bytes) -> Self {
        Self { each: parse_each(payload), seen: 0, wrong: 0, first: None }
    }

    /// The next element. Signals and clocks are looked at now and then.
    pub(super) async fn next(&mut self) -> Option<Result<Message, Malformed>> {
        if self.seen == TURN {
            self.seen = 0;
            tokio::task::yield_now().await;
        }
        self.seen += 1;
        let next = self.each.next()?;
        if let Err(malformed) = &next {
            self.wrong += 1;
            self.first.get_or_insert_with(|| malformed.clone());
        }
        Some(next)
    }

    /// What was no message so far, in one line for the log; `whole` is what the payload is.
    pub(super) fn skipped(&self, whole: &str) -> Option<String> {
        let first = self.first.as_ref()?;
        Some(match (self.each.is_batch(), self.wrong) {
            (false, _) => format!("{whole} was skipped: {first}"),
            (true, 1) => format!("{whole} is a batch, and 1 element of it was skipped: {first}"),
            (true, count) => format!(
                "{whole} is a batch, and {count} elements of it were skipped, the first of them: {first}"
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    async fn skipped(payload: &str) -> (usize, Option<String>) {
        let mut elements = Elements::of(Bytes::copy_from_slice(payload.as_bytes()));
        let mut messages = 0;
        while let Some(element) = elements.next().await {
            messages += usize::from(element.is_ok());
        }
        (messages, elements.skipped("an event"))
    }

    #[tokio::test]
    async fn what_is_no_message_is_told_once_for_all() {
        let message = r#"{"jsonrpc":"2.0","method":"a"}"#;
        assert_eq!(skipped(message).await, (1, None));
        assert_eq!(skipped(&format!("[{message},{message}]")).await, (2, None));
        let why = "not JSON-RPC 2.0: it is not an object";
        assert_eq!(skipped("1").await, (0, Some(format!("an event was skipped: {why}"))));
        let one = format!("an event is a batch, and 1 element of it was skipped: {why}");
        assert_eq!(skipped(&format!("[1,{message}]")).await, (1, Some(one)));
        let (messages, said) = skipped(&format!("[1,{message},{{}},2]")).await;
        assert_eq!(messages, 1);
        assert!(
            said.unwrap()
                .ends_with(&format!("and 3 elements of it were skipped, the first of them: {why}"))
        );
        assert!(skipped("[1").await.1.unwrap().starts_with("an event was skipped: not JSON"));
    }

    #[tokio::test]
    async fn others_have_their_turns_while_a_batch_is_read() {
        let turns = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&turns);
        tokio::spawn(async move {
            loop {
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        });
        let payload = format!("[{}1]", "1,".repeat(100 * TURN));
        assert_eq!(skipped(&payload).await.0, 0);
        assert!(turns.load(Ordering::Relaxed) >= 100, "{turns:?}");
    }
}
