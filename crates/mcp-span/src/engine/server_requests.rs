//! The server's requests that the client has not answered, across sessions.
//!
//! A restarted server reuses its ids. A late response of the client's to an old request must not reach
//! the server as the response to a new one with the same id.

use crate::limits;
use crate::message::{Id, InFlight};

/// The approximate size of a renamed request.
const RENAMED: usize = 256;

/// Which requests are open, and the ids under which the client knows them.
#[derive(Debug, Default)]
pub(super) struct ServerRequests {
    /// Those of this session: how many have the same id.
    open: InFlight<usize>,
    /// Those of lost sessions: cancelled, but the client may answer them all the same.
    void: InFlight<usize>,
    /// Those whose id was taken: the id that the client knows, and the server's. Hardly ever any.
    renamed: Vec<(Id, Id)>,
}

impl ServerRequests {
    /// Adds a request. `false`: the client may still answer an older one with this id, so this one has
    /// to be renamed.
    pub(super) fn ask(&mut self, id: &Id) -> bool {
        add(&mut self.open, id, 1);
        self.void.get(id).is_none()
    }

    /// The client gets the request `id` as `own`.
    pub(super) fn rename(&mut self, own: Id, id: Id) {
        self.renamed.push((own, id));
    }

    /// The client has answered `id`: the id of the server's request, if it is still open. Each of several
    /// with the same id is answered once.
    pub(super) fn answered(&mut self, id: &Id) -> Option<Id> {
        if let Some(at) = self.renamed.iter().position(|(own, _)| own == id) {
            let (_, asked) = self.renamed.swap_remove(at);
            return close_one(&mut self.open, &asked);
        }
        if self.void.get(id).is_some() {
            close_one(&mut self.void, id);
            return None;
        }
        close_one(&mut self.open, id)
    }

    /// The server cancels `id`. Returns the id under which the client knows it, if that is another.
    pub(super) fn cancelled_by_server(&mut self, id: &Id) -> Option<Id> {
        self.open.close(id);
        let id = id.canonical();
        let at = self.renamed.iter().position(|(_, asked)| asked.canonical() == id)?;
        Some(self.renamed.swap_remove(at).0)
    }

    /// The session is lost: returns the ids under which the client knows the open requests.
    pub(super) fn invalidate(&mut self) -> Vec<Id> {
        let renamed = std::mem::take(&mut self.renamed);
        if self.void.bytes() >= limits::SERVER_REQUESTS_BYTES {
            // This client does not answer cancelled requests.
            self.void = InFlight::default();
        }
        let mut known = Vec::new();
        for (id, count) in self.open.close_all() {
            let is_it = |asked: &Id| asked.canonical() == id.canonical();
            let others = renamed.iter().filter(|(_, asked)| is_it(asked)).count();
            if let Some(count) = count.checked_sub(others).filter(|count| *count > 0) {
                add(&mut self.void, &id, count);
                known.push(id);
            }
        }
        known.extend(renamed.into_iter().map(|(own, _)| own));
        known
    }

    /// Closes all: returns the ids under which the server knows them.
    pub(super) fn close_all(&mut self) -> Vec<Id> {
        self.renamed.clear();
        self.open.close_all().into_iter().map(|(id, _)| id).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The approximate memory of the open requests. Those of lost sessions have a bound of their own.
    pub(super) fn bytes(&self) -> usize {
        self.open.bytes() + self.renamed.len() * RENAMED
    }
}

fn add(server_requests: &mut InFlight<usize>, id: &Id, count: usize) {
    let before = server_requests.close_exactly(id).unwrap_or_default();
    server_requests.open(id, before + count);
}

fn close_one(server_requests: &mut InFlight<usize>, id: &Id) -> Option<Id> {
    let (asked, count) = server_requests.close(id)?;
    if count > 1 {
        server_requests.open(&asked, count - 1);
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
        let mut server_requests = ServerRequests::default();
        assert!(server_requests.ask(&id(1)) && server_requests.ask(&id(1)));
        assert_eq!(server_requests.answered(&id(1)), Some(id(1)));
        assert_eq!(server_requests.answered(&id(1)), Some(id(1)));
        assert_eq!(server_requests.answered(&id(1)), None);
        assert!(server_requests.is_empty());
    }

    #[test]
    fn an_answer_to_an_old_question_is_no_answer_to_a_new_one() {
        let mut server_requests = ServerRequests::default();
        let own = Id::string("own");
        server_requests.ask(&id(1));
        assert_eq!(server_requests.invalidate(), [id(1)]);
        assert!(!server_requests.ask(&id(1)), "it needs another id");
        server_requests.rename(own.clone(), id(1));
        assert_eq!(server_requests.answered(&id(1)), None, "that was the old one");
        assert_eq!(server_requests.answered(&own), Some(id(1)));
        assert_eq!(server_requests.answered(&own), None);
        assert!(server_requests.ask(&id(1)), "the id is free again");
        assert_eq!(server_requests.answered(&id(1)), Some(id(1)));
    }

    #[test]
    fn what_is_taken_back_is_known_to_the_client_by_its_own_name() {
        let mut server_requests = ServerRequests::default();
        server_requests.ask(&id(1));
        assert_eq!(server_requests.cancelled_by_server(&id(1)), None);
        assert!(server_requests.is_empty());
        server_requests.ask(&id(1));
        server_requests.invalidate();
        server_requests.ask(&id(1));
        server_requests.rename(Id::string("own"), id(1));
        assert_eq!(server_requests.cancelled_by_server(&id(1)), Some(Id::string("own")));
        assert_eq!(server_requests.answered(&Id::string("own")), None);
    }

    #[test]
    fn a_session_may_be_lost_again_and_again() {
        let mut server_requests = ServerRequests::default();
        server_requests.ask(&id(1));
        server_requests.invalidate();
        server_requests.ask(&id(1));
        server_requests.rename(Id::string("own"), id(1));
        server_requests.ask(&id(2));
        assert_eq!(server_requests.invalidate(), [id(2), Id::string("own")]);
        assert!(server_requests.close_all().is_empty());
        assert_eq!(server_requests.answered(&Id::string("own")), None);
        assert!(!server_requests.ask(&id(1)), "the first is still to come");
        assert!(!server_requests.ask(&id(2)));
    }

    #[test]
    fn a_client_that_never_answers_costs_only_so_much() {
        let mut server_requests = ServerRequests::default();
        for number in 0..100_000 {
            server_requests.ask(&id(number));
            server_requests.invalidate();
        }
        assert!(server_requests.void.bytes() <= limits::SERVER_REQUESTS_BYTES + 1024);
    }
}
