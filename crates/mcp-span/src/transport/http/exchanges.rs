//! The exchanges of a link, polled in the task of whoever holds it: each only when it was woken.

use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use tokio::time::timeout;

use crate::lock::lock;
use crate::message::fnv_map::{self, FnvMap};
use crate::runtime::Work;
use crate::transport::Ticket;

/// Jobs, by ticket. Dropping one gives it up.
#[derive(Default)]
pub(super) struct Exchanges {
    jobs: FnvMap<Ticket, Running>,
    woken: Arc<Mutex<Woken>>,
    /// Those that were woken before this turn, the next one last.
    turn: Vec<Ticket>,
    /// How many jobs that belong to no message were started.
    asides: u64,
}

struct Running {
    job: Work,
    waker: Waker,
}

/// Who was woken, each once, and who has to know.
#[derive(Default)]
struct Woken {
    tickets: Vec<Ticket>,
    holder: Option<Waker>,
}

/// Wakes one job.
struct JobWaker {
    ticket: Ticket,
    woken: Arc<Mutex<Woken>>,
}

impl Wake for JobWaker {
    fn wake(self: Arc<Self>) {
        let holder = {
            let mut woken = lock(&self.woken);
            if woken.tickets.contains(&self.ticket) {
                return;
            }
            woken.tickets.push(self.ticket);
            woken.holder.take()
        };
        if let Some(holder) = holder {
            holder.wake();
        }
    }
}

impl Exchanges {
    /// Begins a job for the message with this ticket, in place of another. It runs with the next poll.
    pub(super) fn start(&mut self, ticket: Ticket, job: Work) {
        let waker = Waker::from(Arc::new(JobWaker { ticket, woken: Arc::clone(&self.woken) }));
        waker.wake_by_ref();
        self.jobs.insert(ticket, Running { job, waker });
    }

    /// Begins a job that belongs to no message.
    pub(super) fn start_aside(&mut self, job: impl Future<Output = ()> + Send + 'static) {
        self.asides += 1;
        self.start(Ticket::of_link(self.asides), Box::pin(job));
    }

    /// Gives a job up that is not over after `grace`.
    pub(super) fn give_up(&mut self, ticket: Ticket, grace: Duration) {
        let running = fnv_map::take(&mut self.jobs, &ticket);
        if let Some(running) = running.filter(|_| !grace.is_zero()) {
            let rest = timeout(grace, running.job);
            self.start(ticket, Box::pin(async { drop(rest.await) }));
        }
    }

    /// Runs one of the jobs that were woken before this turn; `false` if none is left: then those that
    /// were woken since have their turn when the task is polled again.
    pub(super) fn run_next(&mut self) -> bool {
        let Some(ticket) = self.turn.pop() else { return false };
        let Some(running) = self.jobs.get_mut(&ticket) else { return true };
        let mut job_context = Context::from_waker(&running.waker);
        if running.job.as_mut().poll(&mut job_context).is_ready() {
            fnv_map::take(&mut self.jobs, &ticket);
        }
        true
    }

    /// Begins a turn: whoever was woken is polled in it, in order.
    pub(super) fn begin_turn(&mut self, context: &Context<'_>) {
        let mut woken = lock(&self.woken);
        if self.turn.is_empty() {
            std::mem::swap(&mut self.turn, &mut woken.tickets);
            self.turn.reverse();
        }
        let is_known = woken.holder.as_ref().is_some_and(|known| known.will_wake(context.waker()));
        if !is_known {
            woken.holder = Some(context.waker().clone());
        }
        // Somebody was woken while others had their turn.
        if !woken.tickets.is_empty() {
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
        exchanges.start_aside(forever());
        assert_eq!(exchanges.jobs.len(), 3);
        for ticket in [Ticket(1), Ticket::of_stage(1), Ticket::of_link(1)] {
            exchanges.give_up(ticket, Duration::ZERO);
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
        exchanges.give_up(Ticket(1), Duration::ZERO);
        assert!(!exchanges.jobs.contains_key(&Ticket(1)) && ends[1].is_closed());
        let last = ends.pop().unwrap();
        tokio::spawn(async move { last.send(()) });
        next(&mut exchanges).await;
        assert!(exchanges.jobs.keys().eq([&Ticket(0)]));
        drop(ends);
        next(&mut exchanges).await;
        assert!(exchanges.jobs.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_is_given_up_later_goes_on_until_then() {
        let mut exchanges = Exchanges::default();
        let (end, ended) = oneshot::channel::<()>();
        exchanges.start(Ticket(1), Box::pin(async { drop(ended.await) }));
        exchanges.start(Ticket(2), Box::pin(std::future::pending()));
        for number in 1..=2 {
            exchanges.give_up(Ticket(number), Duration::from_secs(2));
        }
        end.send(()).unwrap();
        next(&mut exchanges).await;
        assert!(exchanges.jobs.keys().eq([&Ticket(2)]));
        let since = tokio::time::Instant::now();
        next(&mut exchanges).await;
        assert_eq!(since.elapsed(), Duration::from_secs(2));
    }
}
