//! A timer that is kept from one wait to the next, and knows when the program was stopped.
//!
//! The time to wake up for moves with every message, and hardly ever comes. To set a timer, and to
//! take it back, takes more than to wake up in vain now and then.
//!
//! A program that was stopped (by Ctrl-Z, with its container, by a machine without time for it)
//! finds all its timers run out, and what has come meanwhile not yet read. So an alarm that comes
//! much too late is put off for a moment.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::limits;

/// Rings at the time that was last asked for.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    /// Set when somebody has to wait for the first time.
    sleep: Option<Pin<Box<Sleep>>>,
    /// It does not ring before this.
    put_off: Option<Instant>,
}

impl Alarm {
    /// What `work` comes to.
    ///
    /// # Errors
    ///
    /// The limit, if there is one and it takes longer.
    pub(crate) async fn within<F: Future>(
        &mut self,
        limit: Option<Duration>,
        work: F,
    ) -> Result<F::Output, Duration> {
        let mut work = pin!(work);
        let mut time = None;
        poll_fn(|context| {
            if let Poll::Ready(output) = work.as_mut().poll(context) {
                return Poll::Ready(Ok(output));
            }
            let Some(limit) = limit else { return Poll::Pending };
            // A limit that no clock can show is none.
            let time = *time.get_or_insert_with(|| Instant::now().checked_add(limit));
            self.poll(time, context).map(|()| Err(limit))
        })
        .await
    }

    /// Completes at `time`; never, if there is none.
    pub(crate) fn poll(&mut self, time: Option<Instant>, context: &mut Context<'_>) -> Poll<()> {
        let Some(mut time) = time.max(self.put_off.filter(|_| time.is_some())) else {
            return Poll::Pending;
        };
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(time)));
        if sleep.deadline() > time {
            sleep.as_mut().reset(time);
        }
        loop {
            ready!(sleep.as_mut().poll(context));
            let now = Instant::now();
            match now.checked_duration_since(time) {
                Some(late) if late < limits::STOPPED => return Poll::Ready(()),
                Some(_) => {
                    time = now + limits::STOPPED;
                    self.put_off = Some(time);
                }
                // It was set for an earlier wait.
                None => {}
            }
            sleep.as_mut().reset(time);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(3600);

    /// How long it takes to ring.
    async fn waited(alarm: &mut Alarm, limit: Duration) -> Duration {
        let since = Instant::now();
        assert_eq!(alarm.within(Some(limit), pending::<()>()).await, Err(limit));
        since.elapsed()
    }

    #[tokio::test]
    async fn it_rings_in_time_whatever_it_was_set_for_before() {
        let mut alarm = Alarm::default();
        assert_eq!(alarm.within(Some(LONG), async { 5 }).await, Ok(5));
        assert!(alarm.sleep.is_none(), "nobody had to wait");
        let turn = tokio::task::yield_now();
        assert_eq!(alarm.within(Some(LONG), turn).await, Ok(()));
        assert!(alarm.sleep.is_some());
        assert!(waited(&mut alarm, SHORT).await >= SHORT, "sooner than it was set for");
        assert!(waited(&mut alarm, 2 * SHORT).await >= 2 * SHORT, "it has rung before");
        let turn = tokio::task::yield_now();
        assert_eq!(alarm.within(Some(SHORT), turn).await, Ok(()));
        assert!(waited(&mut alarm, 3 * SHORT).await >= 3 * SHORT, "later than it was set for");
        let (since, time) = (Instant::now(), Instant::now() + SHORT);
        poll_fn(|context| alarm.poll(Some(time), context)).await;
        assert!(since.elapsed() >= SHORT);
        for limit in [None, Some(Duration::MAX)] {
            assert_eq!(alarm.within(limit, tokio::task::yield_now()).await, Ok(()));
        }
    }

    #[tokio::test]
    async fn what_has_come_while_the_program_was_stopped_has_come_in_time() {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let mut alarm = Alarm::default();
        let waiting = alarm.within(Some(SHORT), receiver);
        let stopped = async {
            tokio::task::yield_now().await;
            std::thread::sleep(limits::STOPPED + 2 * SHORT);
            // The timer has its turn first, and whoever reads a few turns later.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            sender.send(5).unwrap();
        };
        let (answer, ()) = tokio::join!(waiting, stopped);
        assert_eq!(answer, Ok(Ok(5)));
        let since = Instant::now();
        assert!(waited(&mut alarm, SHORT).await >= SHORT, "it is not put off for ever");
        assert!(since.elapsed() < 10 * limits::STOPPED);
    }
}
