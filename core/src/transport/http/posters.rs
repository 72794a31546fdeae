//! The tasks that send messages, one after the other: to wake a task that rests takes half of what
//! it takes to begin another.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::Context;
use super::command::Ticket;
use super::tasks::Tasks;
use crate::limits;
use crate::transport::Alarm;

/// A message, with all that whoever is sent out with it needs.
pub(super) trait Errand: Send + 'static {
    /// Its number, by which no other goes.
    fn ticket(&self) -> Ticket;

    /// Sends it, and sees to what comes of it. Gives back the alarm, for the next one.
    fn run(self, context: Arc<Context>, alarm: Alarm) -> impl Future<Output = Alarm> + Send;
}

/// Those that have nothing to do.
#[derive(Debug)]
pub(super) struct Posters<E> {
    resting: Arc<Mutex<Vec<Poster<E>>>>,
}

/// One of them.
#[derive(Debug)]
struct Poster<E> {
    /// At most one, and only while it rests.
    errands: mpsc::Sender<E>,
    duty: Arc<Duty>,
}

/// What one of them does.
#[derive(Debug, Default)]
struct Duty {
    state: Mutex<State>,
    /// Known as soon as it has begun.
    task: OnceLock<AbortHandle>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Resting,
    /// With the message of this ticket.
    Out(Ticket),
    /// It ends, and takes no other message with it.
    GivenUp,
}

/// A message that somebody is out with.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(Default))]
pub(super) struct Sent {
    duty: Arc<Duty>,
    ticket: Ticket,
}

impl Sent {
    /// Nobody wants it any more: it is dropped where it is. One that is over already is not
    /// concerned, whatever its poster does now.
    pub(super) fn give_up(&self) {
        let mut state = lock(&self.duty.state);
        if *state == State::Out(self.ticket) {
            *state = State::GivenUp;
            if let Some(task) = self.duty.task.get() {
                task.abort();
            }
        }
    }
}

impl<E> Default for Posters<E> {
    fn default() -> Self {
        Self { resting: Arc::default() }
    }
}

impl<E: Errand> Posters<E> {
    /// Sends one out with a message. New ones are among `tasks`.
    pub(super) fn send(&self, context: &Arc<Context>, errand: E, tasks: &mut Tasks) -> Sent {
        let ticket = errand.ticket();
        let rested = lock(&self.resting).pop();
        let poster = rested.unwrap_or_else(|| self.engage(Arc::clone(context), tasks));
        *lock(&poster.duty.state) = State::Out(ticket);
        // There is room: it has taken out all that it was given.
        let _ = poster.errands.try_send(errand);
        Sent { duty: poster.duty, ticket }
    }

    fn engage(&self, context: Arc<Context>, tasks: &mut Tasks) -> Poster<E> {
        let (errands, mut given) = mpsc::channel::<E>(1);
        let poster = Poster { errands, duty: Arc::default() };
        let (own, resting) = (poster.clone(), Arc::clone(&self.resting));
        let handle = tasks.spawn(async move {
            let mut alarm = Alarm::default();
            while let Some(errand) = given.recv().await {
                alarm = errand.run(Arc::clone(&context), alarm).await;
                if !own.rests_among(&resting) {
                    return;
                }
            }
        });
        let _ = poster.duty.task.set(handle);
        poster
    }
}

impl<E> Clone for Poster<E> {
    fn clone(&self) -> Self {
        Self { errands: self.errands.clone(), duty: Arc::clone(&self.duty) }
    }
}

impl<E> Poster<E> {
    /// It is back. `false`: it is not needed any more.
    fn rests_among(&self, resting: &Mutex<Vec<Self>>) -> bool {
        let mut state = lock(&self.duty.state);
        let mut resting = lock(resting);
        if *state == State::GivenUp || resting.len() >= limits::RESTING_POSTERS {
            return false;
        }
        *state = State::Resting;
        resting.push(self.clone());
        true
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that is out with the message of this ticket, and the task that it is.
    fn out(ticket: Ticket) -> (Poster<()>, Sent, tokio::task::JoinHandle<()>) {
        let task = tokio::spawn(std::future::pending());
        let (state, handle) = (Mutex::new(State::Out(ticket)), OnceLock::from(task.abort_handle()));
        let duty = Arc::new(Duty { state, task: handle });
        let poster = Poster { errands: mpsc::channel(1).0, duty: Arc::clone(&duty) };
        (poster, Sent { duty, ticket }, task)
    }

    #[tokio::test]
    async fn one_that_is_given_up_ends_and_takes_no_other_message() {
        let (poster, sent, task) = out(Ticket(1));
        sent.give_up();
        assert!(!poster.rests_among(&Mutex::default()), "it may be at its end just now");
        assert!(task.await.unwrap_err().is_cancelled());
    }

    #[tokio::test]
    async fn who_gives_up_a_message_does_not_meet_the_next_one() {
        let (poster, sent, task) = out(Ticket(1));
        let resting = Mutex::default();
        assert!(poster.rests_among(&resting));
        sent.give_up();
        let again = lock(&resting).pop().unwrap();
        *lock(&again.duty.state) = State::Out(Ticket(2));
        sent.give_up();
        assert_eq!(*lock(&again.duty.state), State::Out(Ticket(2)));
        tokio::task::yield_now().await;
        assert!(!task.is_finished());
    }

    #[tokio::test]
    async fn only_so_many_rest() {
        let resting = Mutex::default();
        let kept = (0..100).filter(|ticket| out(Ticket(*ticket)).0.rests_among(&resting)).count();
        assert_eq!(kept, limits::RESTING_POSTERS);
    }
}
