//! The tasks that send messages, one after the other: to wake a task that rests takes half of what
//! it takes to begin another.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::Context;
use super::post::{self, Post};
use super::tasks::Tasks;
use crate::limits;
use crate::net::Call;
use crate::transport::Alarm;

/// Those that have nothing to do.
#[derive(Debug, Default)]
pub(super) struct Posters {
    resting: Arc<Mutex<Vec<Arc<Poster>>>>,
}

/// One of them.
#[derive(Debug)]
struct Poster {
    /// At most one, and only while it rests.
    errands: mpsc::Sender<(Post, Call)>,
    state: Mutex<State>,
    /// Known as soon as it has begun.
    task: OnceLock<AbortHandle>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Resting,
    /// With the message of this ticket.
    Out(u64),
    /// It ends, and takes no other message with it.
    GivenUp,
}

/// A message that somebody is out with.
#[derive(Debug)]
pub(super) struct Errand {
    poster: Arc<Poster>,
    ticket: u64,
}

impl Errand {
    /// Nobody wants it any more: it is dropped where it is. One that is over already is not
    /// concerned, whatever its poster does now.
    pub(super) fn give_up(&self) {
        let mut state = self.poster.state();
        if *state == State::Out(self.ticket) {
            *state = State::GivenUp;
            if let Some(task) = self.poster.task.get() {
                task.abort();
            }
        }
    }
}

impl Posters {
    /// Sends one out with a message. New ones are among `tasks`.
    pub(super) fn send(
        &self,
        context: &Arc<Context>,
        post: Post,
        call: Call,
        tasks: &mut Tasks,
    ) -> Errand {
        let ticket = post.ticket;
        let rested = lock(&self.resting).pop();
        let poster = rested.unwrap_or_else(|| self.engage(Arc::clone(context), tasks));
        *poster.state() = State::Out(ticket);
        // There is room: it has taken out all that it was given.
        let _ = poster.errands.try_send((post, call));
        Errand { poster, ticket }
    }

    fn engage(&self, context: Arc<Context>, tasks: &mut Tasks) -> Arc<Poster> {
        let (errands, mut given) = mpsc::channel(1);
        let (state, task) = (Mutex::new(State::Resting), OnceLock::new());
        let poster = Arc::new(Poster { errands, state, task });
        let (own, resting) = (Arc::clone(&poster), Arc::clone(&self.resting));
        let handle = tasks.spawn(async move {
            let mut alarm = Alarm::default();
            while let Some((post, call)) = given.recv().await {
                alarm = post::run(Arc::clone(&context), post, call, alarm).await;
                if !own.rests_among(&resting) {
                    return;
                }
            }
        });
        let _ = poster.task.set(handle);
        poster
    }
}

impl Poster {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// It is back. `false`: it is not needed any more.
    fn rests_among(self: &Arc<Self>, resting: &Mutex<Vec<Arc<Self>>>) -> bool {
        let mut state = self.state();
        let mut resting = lock(resting);
        if *state == State::GivenUp || resting.len() >= limits::RESTING_POSTERS {
            return false;
        }
        *state = State::Resting;
        resting.push(Arc::clone(self));
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
    fn out(ticket: u64) -> (Errand, tokio::task::JoinHandle<()>) {
        let task = tokio::spawn(std::future::pending());
        let (state, handle) = (Mutex::new(State::Out(ticket)), OnceLock::from(task.abort_handle()));
        let poster = Arc::new(Poster { errands: mpsc::channel(1).0, state, task: handle });
        (Errand { poster, ticket }, task)
    }

    #[tokio::test]
    async fn one_that_is_given_up_ends_and_takes_no_other_message() {
        let (errand, task) = out(1);
        errand.give_up();
        assert!(!errand.poster.rests_among(&Mutex::default()), "it may be at its end just now");
        assert!(task.await.unwrap_err().is_cancelled());
    }

    #[tokio::test]
    async fn who_gives_up_a_message_does_not_meet_the_next_one() {
        let (errand, task) = out(1);
        let resting = Mutex::default();
        assert!(errand.poster.rests_among(&resting));
        errand.give_up();
        let again = lock(&resting).pop().unwrap();
        *again.state() = State::Out(2);
        errand.give_up();
        assert_eq!(*again.state(), State::Out(2));
        tokio::task::yield_now().await;
        assert!(!task.is_finished());
    }

    #[tokio::test]
    async fn only_so_many_rest() {
        let resting = Mutex::default();
        let kept = (0..100).filter(|ticket| out(*ticket).0.poster.rests_among(&resting)).count();
        assert_eq!(kept, limits::RESTING_POSTERS);
    }
}
