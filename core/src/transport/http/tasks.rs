//! The tasks of a link, which end with it.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::Context;

/// So many that have ended are kept before it is looked for them.
const SOME: usize = 64;

/// Tasks that nobody waits for; those that still run when this is dropped are given up.
///
/// A set that is told of each end, such as the runtime's own, takes a thousand instructions a call.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    handles: Vec<AbortHandle>,
    /// How many there may be before it is looked for those that have ended.
    room: usize,
}

impl Tasks {
    /// Begins one.
    pub(super) fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        if self.handles.len() >= self.room {
            self.handles.retain(|handle| !handle.is_finished());
            // Twice as many as run: so each is looked at a few times, however many there are.
            self.room = (2 * self.handles.len()).max(SOME);
        }
        let handle = tokio::spawn(task).abort_handle();
        self.handles.push(handle.clone());
        handle
    }

    /// Gives up all of them.
    pub(super) fn abort_all(&mut self) {
        self.handles.drain(..).for_each(|handle| handle.abort());
    }
}

/// Reports `what` when nobody listens to the link any more. A task for that alone: a driver that
/// waited for it itself would look whether it has come with every message.
pub(super) async fn deserted<R>(context: Arc<Context>, reports: mpsc::Sender<R>, what: R) {
    context.events.closed().await;
    let _ = reports.send(what).await;
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.abort_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn those_that_have_ended_are_forgotten_and_the_others_end_with_it() {
        let mut tasks = Tasks::default();
        let held = Arc::new(());
        for _ in 0..10 {
            let held = Arc::clone(&held);
            tasks.spawn(async move {
                std::future::pending::<()>().await;
                drop(held);
            });
        }
        for _ in 0..1000 {
            tasks.spawn(async {});
            tokio::task::yield_now().await;
        }
        assert!(tasks.handles.len() <= 2 * SOME, "{}", tasks.handles.len());
        assert_eq!(Arc::strong_count(&held), 11, "those that run are not touched");
        drop(tasks);
        while Arc::strong_count(&held) > 1 {
            tokio::task::yield_now().await;
        }
    }
}
