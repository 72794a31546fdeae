//! Work that blocks, such as a disk or a keychain, on a thread of its own: the runtime has one thread,
//! and every message waits for whoever blocks it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, oneshot};
use tokio::time::timeout;

/// Does one piece of work after the other, in the order in which they come. So what is written last
/// stays, and a disk that hangs holds one thread and no more.
#[derive(Clone, Debug, Default)]
pub(super) struct OneAtATime(Arc<Mutex<()>>);

impl OneAtATime {
    /// Waits for the end of `work`, but not longer than `limit`. Work that has begun goes on to its
    /// end, whether anybody waits for it or not.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        limit: Duration,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let working = async {
            let turn = Arc::clone(&self.0).lock_owned().await;
            let (sender, done) = oneshot::channel();
            // None of the runtime's, which waits for the end of its own when it is dropped.
            std::thread::Builder::new().spawn(move || {
                let done = work();
                drop(turn);
                // Nobody listens after a timeout.
                let _ = sender.send(done);
            })?;
            done.await.map_err(io::Error::other)?
        };
        timeout(limit, working).await.map_err(|_| {
            let why = format!("it has taken longer than {} s", limit.as_secs());
            io::Error::new(io::ErrorKind::TimedOut, why)
        })?
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn the_runtime_goes_on_meanwhile() {
        let (release, released) = mpsc::channel();
        let work = move || released.recv().map_err(io::Error::other);
        let thread = OneAtATime::default();
        let work = thread.run(LONG, work);
        // Both are on the same thread: if the first blocked it, the second would never be sent.
        let (done, ()) = tokio::join!(work, async { release.send(7).unwrap() });
        assert_eq!(done.unwrap(), 7);
    }

    #[tokio::test]
    async fn work_is_done_one_after_the_other_even_if_nobody_waits_for_it() {
        let (thread, order) = (OneAtATime::default(), Arc::new(Mutex::new(Vec::new())));
        let (release, released) = mpsc::channel::<()>();
        let note = |n: i32| {
            let order = Arc::clone(&order);
            move || {
                order.lock().unwrap().push(n);
                Ok(())
            }
        };
        let first = note(1);
        let slow = move || {
            let _ = released.recv();
            first()
        };
        let error = thread.run(Duration::from_millis(20), slow).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let error = thread.run(Duration::from_millis(20), note(2)).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "it waits for its turn");
        release.send(()).unwrap();
        thread.run(LONG, note(3)).await.unwrap();
        assert_eq!(*order.lock().unwrap(), [1, 3], "what has not begun is not done");
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_ends_nothing() {
        let thread = OneAtATime::default();
        assert!(thread.run(LONG, || -> io::Result<()> { panic!("no") }).await.is_err());
        assert!(thread.run(LONG, || Ok(())).await.is_ok());
    }
}
