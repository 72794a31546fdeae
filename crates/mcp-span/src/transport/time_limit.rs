//! A limit on how long something takes that knows when the program was stopped.
//!
//! A program that was stopped (by Ctrl-Z, with its container, by a machine without time for it)
//! finds all its timers run out, and what has come meanwhile not yet read. So a limit that is over
//! much too late is put off for a moment.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::limits;

/// What `work` comes to.
///
/// # Errors
///
/// The limit, if there is one and it takes longer.
pub(crate) async fn within<F: Future>(
    limit: Option<Duration>,
    work: F,
) -> Result<F::Output, Duration> {
    let mut work = pin!(work);
    // Made when there is something to wait for: most of what is asked for is there already.
    let mut sleep: Option<Pin<Box<Sleep>>> = None;
    poll_fn(|context| {
        if let Poll::Ready(output) = work.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        let Some(limit) = limit else { return Poll::Pending };
        if sleep.is_none() {
            // A limit that no clock can show is none.
            let end = Instant::now().checked_add(limit);
            sleep = end.map(|end| Box::pin(sleep_until(end)));
        }
        let Some(sleep) = &mut sleep else { return Poll::Pending };
        while sleep.as_mut().poll(context).is_ready() {
            let now = Instant::now();
            if now.duration_since(sleep.deadline()) < limits::STOPPED {
                return Poll::Ready(Err(limit));
            }
            sleep.as_mut().reset(now + limits::STOPPED);
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn it_is_over_in_time_and_not_before() {
        assert_eq!(within(Some(LONG), async { 5 }).await, Ok(5));
        assert_eq!(within(Some(LONG), tokio::task::yield_now()).await, Ok(()));
        let since = Instant::now();
        assert_eq!(within(Some(SHORT), pending::<()>()).await, Err(SHORT));
        assert!(since.elapsed() >= SHORT);
        for limit in [None, Some(Duration::MAX)] {
            assert_eq!(within(limit, tokio::task::yield_now()).await, Ok(()));
        }
    }

    #[tokio::test]
    async fn what_has_come_while_the_program_was_stopped_has_come_in_time() {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let stopped = async {
            tokio::task::yield_now().await;
            std::thread::sleep(limits::STOPPED + 2 * SHORT);
            // The timer has its turn first, and whoever reads a few turns later.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            sender.send(5).unwrap();
        };
        let (answer, ()) = tokio::join!(within(Some(SHORT), receiver), stopped);
        assert_eq!(answer, Ok(Ok(5)));
    }

    #[tokio::test]
    async fn a_limit_is_put_off_once_and_not_for_ever() {
        let since = Instant::now();
        let stopped = async {
            tokio::task::yield_now().await;
            std::thread::sleep(limits::STOPPED + 2 * SHORT);
        };
        let (end, ()) = tokio::join!(within(Some(SHORT), pending::<()>()), stopped);
        assert_eq!(end, Err(SHORT));
        assert!(since.elapsed() < 10 * limits::STOPPED);
    }
}
