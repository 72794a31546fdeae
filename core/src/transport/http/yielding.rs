//! Looks at what is there already, before anybody waits for it by the clock.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Lets all others have their turn that are ready for one.
pub(super) async fn yield_once() {
    let mut has_waited = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        // Not the runtime's own way to yield: that looks for news from the system every time.
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// What a future has to say now; it is dropped if that is nothing.
pub(super) async fn poll_once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[tokio::test]
    async fn others_have_their_turn_and_nobody_waits() {
        let has_run = Arc::new(AtomicBool::new(false));
        let other = Arc::clone(&has_run);
        tokio::spawn(async move { other.store(true, Ordering::Relaxed) });
        assert!(!has_run.load(Ordering::Relaxed));
        yield_once().await;
        assert!(has_run.load(Ordering::Relaxed));
        assert_eq!(poll_once(async { 5 }).await, Some(5));
        assert_eq!(poll_once(std::future::pending::<()>()).await, None);
    }
}
