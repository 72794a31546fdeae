//! The exchanges of a link, polled in the task of whoever holds it: each only when it was woken.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

use super::command::Ticket;
use crate::message::fnv_map::{self, FnvMap};

/// Whatever a link does that takes time.
pub(super) type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Jobs, by ticket. Dropping one gives it up.
#[derive(Default)]
pub(super) struct Exchanges {
    jobs: FnvMap<Ticket, Running>,
    woken: Arc<Woken>,
    /// Those that were woken before this turn, the next one last.
    turn: Vec<Ticket>,
    /// How many jobs that belong to no message were started.
    asides: u64,
}

struct Running {
    job: Job,
    slot: Arc<Slot>,
    waker: Waker,
}

/// Who was woken, and who has to know.
#[derive(Default)]
struct Woken(Mutex<(Vec<Ticket>, Option<Waker>)>);

/// Wakes one job.
struct Slot {
    ticket: Ticket,
    is_woken: AtomicBool,
    woken: Arc<Woken>,
}

impl Woken {
    fn lock(&self) -> MutexGuard<'_, (Vec<Ticket>, Option<Waker>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Slot {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_woken.swap(true, Ordering::AcqRel) {
            return;
        }
        let holder = {
            let mut woken = self.woken.lock();
            woken.0.push(self.ticket);
            woken.1.take()
        };
        if let Some(holder) = holder {
            holder.wake();
        }
    }
}

impl Exchanges {
    /// Begins a job for the message with this ticket. It runs with the next poll.
    pub(super) fn start(&mut self, ticket: Ticket, job: Job) {
        let slot = Arc::new(Slot {
            ticket,
            is_woken: AtomicBool::new(false),
            woken: Arc::clone(&self.woken),
        });
        let waker = Waker::from(Arc::clone(&slot));
        slot.wake_by_ref();
        self.jobs.insert(ticket, Running { job, slot, waker });
    }

    /// Begins a job that belongs to no message.
    pub(super) fn start_aside(&mut self, job: Job) -> Ticket {
        self.asides += 1;
        let ticket = Ticket::of_link(self.asides);
        self.start(ticket, job);
        ticket
    }

    /// Gives a job up, unless it is over already.
    pub(super) fn drop_job(&mut self, ticket: Ticket) {
        fnv_map::take(&mut self.jobs, &ticket);
    }

    pub(super) fn has(&self, ticket: Ticket) -> bool {
        self.jobs.contains_key(&ticket)
    }

    /// Gives all up.
    pub(super) fn clear(&mut self) {
        self.jobs.clear();
    }

    /// Runs one of the jobs that were woken before this turn; `false` if none is left: then those that
    /// were woken since have their turn when the task is polled again.
    pub(super) fn run_next(&mut self) -> bool {
        let Some(ticket) = self.turn.pop() else { return false };
        let Some(running) = self.jobs.get_mut(&ticket) else { return true };
        // Acquires what was published before the job was woken.
        running.slot.is_woken.swap(false, Ordering::AcqRel);
        let mut job_context = Context::from_waker(&running.waker);
        if running.job.as_mut().poll(&mut job_context).is_ready() {
            fnv_map::take(&mut self.jobs, &ticket);
        }
        true
    }

    /// Begins a turn: whoever was woken is polled in it, in order.
    pub(super) fn begin_turn(&mut self, context: &Context<'_>) {
        let mut woken = self.woken.lock();
        if self.turn.is_empty() {
            std::mem::swap(&mut self.turn, &mut woken.0);
            self.turn.reverse();
        }
        let is_known = woken.1.as_ref().is_some_and(|known| known.will_wake(context.waker()));
        if !is_known {
            woken.1 = Some(context.waker().clone());
        }
        // Somebody was woken while others had their turn.
        if !woken.0.is_empty() {
            context.waker().wake_by_ref();
        }
    }
}

impl std::fmt::Debug for Exchanges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exchanges").field("jobs", &self.jobs.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use tokio::sync::oneshot;

    use super::*;

    /// Polls until a job is over.
    async fn next(exchanges: &mut Exchanges) {
        let jobs = exchanges.jobs.len();
        poll_fn(|context| {
            exchanges.begin_turn(context);
            while exchanges.run_next() {
                if exchanges.jobs.len() < jobs {
                    return Poll::Ready(());
                }
            }
            Poll::Pending
        })
        .await;
    }

    #[tokio::test]
    async fn a_job_of_the_link_replaces_no_exchange() {
        let mut exchanges = Exchanges::default();
        let forever = || Box::pin(std::future::pending());
        exchanges.start(Ticket(1), forever());
        exchanges.start(Ticket::of_stage(1), forever());
        let aside = exchanges.start_aside(forever());
        assert_eq!(exchanges.jobs.len(), 3);
        assert!(Ticket(1).is_of_engine());
        assert!(!Ticket::of_stage(1).is_of_engine() && !aside.is_of_engine());
        for ticket in [Ticket(1), Ticket::of_stage(1), aside] {
            exchanges.drop_job(ticket);
        }
        assert!(exchanges.jobs.is_empty());
    }

    #[tokio::test]
    async fn each_job_is_polled_when_it_was_woken_and_given_up_when_it_is_dropped() {
        let mut exchanges = Exchanges::default();
        let mut ends = Vec::new();
        for number in 0..3 {
            let (end, ended) = oneshot::channel::<()>();
            exchanges.start(Ticket(number), Box::pin(async { drop(ended.await) }));
            ends.push(end);
        }
        exchanges.drop_job(Ticket(1));
        assert!(!exchanges.has(Ticket(1)) && ends[1].is_closed());
        let last = ends.pop().unwrap();
        tokio::spawn(async move { last.send(()) });
        next(&mut exchanges).await;
        assert!(exchanges.has(Ticket(0)) && !exchanges.has(Ticket(2)));
        drop(ends);
        next(&mut exchanges).await;
        assert!(!exchanges.has(Ticket(0)));
    }
}
