//! The server's requests that the client has not answered yet, across the sessions in which they were
//! asked.
//!
//! A server that has started anew counts its requests from the beginning. What the client then says
//! to an old question must not reach the server as the answer to a new one with the same id.

use crate::limits;
use crate::message::{Id, InFlight};

/// What a second name takes, about.
const RENAMED: usize = 256;

/// Which of them are open, and under which ids the client knows them.
#[derive(Debug, Default)]
pub(super) struct Questions {
    /// Of this session, and how many have the same id.
    open: InFlight<usize>,
    /// Of sessions that are no more: the client was told so, and may answer all the same.
    void: InFlight<usize>,
    /// Those that the client knows under an id of the bridge's own, as theirs was not free: that one
    /// first. There are hardly ever any.
    renamed: Vec<(Id, Id)>,
}

impl Questions {
    /// Notes a question. `false`: the client may still answer an older one with this id, so this one
    /// needs another.
    pub(super) fn ask(&mut self, id: &Id) -> bool {
        add(&mut self.open, id, 1);
        !self.void.has(id)
    }

    /// The client gets to know the question `id` as `own`.
    pub(super) fn rename(&mut self, own: Id, id: Id) {
        self.renamed.push((own, id));
    }

    /// The client has answered under `id`: the question that it means, if anybody waits for that.
    /// Each of several with the same id is answered once.
    pub(super) fn answered(&mut self, id: &Id) -> Option<Id> {
        if let Some(at) = self.renamed.iter().position(|(own, _)| own == id) {
            let (_, asked) = self.renamed.swap_remove(at);
            return close_one(&mut self.open, &asked);
        }
        if self.void.has(id) {
            close_one(&mut self.void, id);
            return None;
        }
        close_one(&mut self.open, id)
    }

    /// The server takes `id` back. Gives back the id under which the client knows it, if that is
    /// another.
    pub(super) fn taken_back(&mut self, id: &Id) -> Option<Id> {
        self.open.close(id);
        let id = id.canonical();
        let at = self.renamed.iter().position(|(_, asked)| asked.canonical() == id)?;
        Some(self.renamed.swap_remove(at).0)
    }

    /// The session is no more, and nobody waits for these: the ids under which the client knows them.
    pub(super) fn lose(&mut self) -> Vec<Id> {
        let renamed = std::mem::take(&mut self.renamed);
        if self.void.bytes() >= limits::SERVER_REQUESTS_BYTES {
            // It does not answer what was taken back.
            self.void = InFlight::default();
        }
        let open = std::mem::take(&mut self.open);
        let mut known = Vec::new();
        for (id, count) in open.entries() {
            let is_it = |asked: &Id| asked.canonical() == id.canonical();
            let others = renamed.iter().filter(|(_, asked)| is_it(asked)).count();
            if let Some(count) = count.checked_sub(others).filter(|count| *count > 0) {
                add(&mut self.void, id, count);
                known.push(id.clone());
            }
        }
        known.extend(renamed.into_iter().map(|(own, _)| own));
        known
    }

    /// Ends all that are open: the ids under which the server knows them.
    pub(super) fn close_all(&mut self) -> Vec<Id> {
        self.renamed.clear();
        self.open.close_all()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// How much memory those that are open take, about.
    ///
    /// Those of old sessions are not among them: they have a bound of their own.
    pub(super) fn bytes(&self) -> usize {
        self.open.bytes() + self.renamed.len() * RENAMED
    }
}

fn add(questions: &mut InFlight<usize>, id: &Id, count: usize) {
    if !questions.open(id, count)
        && let Some(asked) = questions.get_mut(id)
    {
        *asked += count;
    }
}

fn close_one(questions: &mut InFlight<usize>, id: &Id) -> Option<Id> {
    let (asked, count) = questions.close(id)?;
    if count > 1 {
        questions.open(&asked, count - 1);
    }
    Some(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> Id {
        Id::number(number)
    }

    #[test]
    fn each_of_several_with_one_id_is_answered_once() {
        let mut questions = Questions::default();
        assert!(questions.ask(&id(1)) && questions.ask(&id(1)));
        assert_eq!(questions.answered(&id(1)), Some(id(1)));
        assert_eq!(questions.answered(&id(1)), Some(id(1)));
        assert_eq!(questions.answered(&id(1)), None);
        assert!(questions.is_empty());
    }

    #[test]
    fn an_answer_to_an_old_question_is_no_answer_to_a_new_one() {
        let mut questions = Questions::default();
        let own = Id::string("own");
        questions.ask(&id(1));
        assert_eq!(questions.lose(), [id(1)]);
        assert!(!questions.ask(&id(1)), "it needs another id");
        questions.rename(own.clone(), id(1));
        assert_eq!(questions.answered(&id(1)), None, "that was the old one");
        assert_eq!(questions.answered(&own), Some(id(1)));
        assert_eq!(questions.answered(&own), None);
        assert!(questions.ask(&id(1)), "the id is free again");
        assert_eq!(questions.answered(&id(1)), Some(id(1)));
    }

    #[test]
    fn what_is_taken_back_is_known_to_the_client_by_its_own_name() {
        let mut questions = Questions::default();
        questions.ask(&id(1));
        assert_eq!(questions.taken_back(&id(1)), None);
        assert!(questions.is_empty());
        questions.ask(&id(1));
        questions.lose();
        questions.ask(&id(1));
        questions.rename(Id::string("own"), id(1));
        assert_eq!(questions.taken_back(&id(1)), Some(Id::string("own")));
        assert_eq!(questions.answered(&Id::string("own")), None);
    }

    #[test]
    fn a_session_may_be_lost_again_and_again() {
        let mut questions = Questions::default();
        questions.ask(&id(1));
        questions.lose();
        questions.ask(&id(1));
        questions.rename(Id::string("own"), id(1));
        questions.ask(&id(2));
        assert_eq!(questions.lose(), [id(2), Id::string("own")]);
        assert!(questions.close_all().is_empty());
        assert_eq!(questions.answered(&Id::string("own")), None);
        assert!(!questions.ask(&id(1)), "the first is still to come");
        assert!(!questions.ask(&id(2)));
    }

    #[test]
    fn a_client_that_never_answers_costs_only_so_much() {
        let mut questions = Questions::default();
        for number in 0..100_000 {
            questions.ask(&id(number));
            questions.lose();
        }
        assert!(questions.void.bytes() <= limits::SERVER_REQUESTS_BYTES + 1024);
    }
}
