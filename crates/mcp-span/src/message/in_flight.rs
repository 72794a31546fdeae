//! The requests in flight in one direction: which they are, and that each is closed once.

use std::collections::hash_map::Entry;

use super::Id;
use super::fnv_map::{self, FnvMap};

/// Requests that wait for their answer, each with a note.
#[derive(Debug)]
pub struct InFlight<T> {
    /// By canonical id; the value has the id as it was written.
    requests: FnvMap<Id, (Id, T)>,
    /// What they take, about.
    bytes: usize,
}

impl<T> Default for InFlight<T> {
    fn default() -> Self {
        Self { requests: FnvMap::default(), bytes: 0 }
    }
}

impl<T> InFlight<T> {
    /// Notes a request. `false`: one with this id is in flight already.
    pub fn open(&mut self, id: &Id, note: T) -> bool {
        let Entry::Vacant(place) = self.requests.entry(id.canonical()) else { return false };
        self.bytes += weight(place.key());
        place.insert((id.clone(), note));
        true
    }

    /// How much memory they take, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Closes the request whose id this is, and no other: the one who sent it knows it.
    pub fn close_exactly(&mut self, id: &Id) -> Option<T> {
        self.take(&id.canonical()).map(|(_, note)| note)
    }

    /// The note of the request with this very id.
    pub fn get(&self, id: &Id) -> Option<&T> {
        self.requests.get(&id.canonical()).map(|(_, note)| note)
    }

    /// The note of the request that `id` means, as [`Self::close`] finds it.
    pub fn find(&self, id: &Id) -> Option<&T> {
        self.requests.get(&self.key(id)?).map(|(_, note)| note)
    }

    /// The note of the request with this id.
    pub fn get_mut(&mut self, id: &Id) -> Option<&mut T> {
        self.requests.get_mut(&id.canonical()).map(|(_, note)| note)
    }

    /// Closes the request that `id` means, and gives back its id as it was written.
    ///
    /// A peer that reads numbers as doubles sends back a rounded id; it is found all the same.
    pub fn close(&mut self, id: &Id) -> Option<(Id, T)> {
        self.take(&self.key(id)?)
    }

    fn key(&self, id: &Id) -> Option<Id> {
        let exact = id.canonical();
        if self.requests.contains_key(&exact) {
            return Some(exact);
        }
        self.requests.keys().filter(|key| key.resembles(id)).min().cloned()
    }

    fn take(&mut self, key: &Id) -> Option<(Id, T)> {
        let found = fnv_map::take(&mut self.requests, key)?;
        self.bytes -= weight(key);
        Some(found)
    }

    /// Closes all of them, in an order that does not depend on chance.
    pub fn close_all(&mut self) -> Vec<(Id, T)> {
        self.bytes = 0;
        let mut all: Vec<_> = std::mem::take(&mut self.requests).into_values().collect();
        all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        all
    }
}

/// An id is there twice, and the table has its price.
fn weight(key: &Id) -> usize {
    2 * key.as_json().len() + 256
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(raw: &str) -> Id {
        Id::from_json(raw).expect("an id")
    }

    #[test]
    fn each_request_is_closed_once() {
        // S1-11: an unknown id is nobody's.
        let mut in_flight = InFlight::default();
        assert!(in_flight.open(&id("0"), ()));
        assert!(in_flight.open(&id("\"0\""), ()));
        assert!(!in_flight.open(&id("0"), ()), "the id is taken");
        assert!(in_flight.close(&id("0")).is_some());
        assert!(in_flight.close(&id("0")).is_none());
        assert!(in_flight.close(&id("7")).is_none());
        assert_eq!(in_flight.close_all(), [(id("\"0\""), ())]);
        assert!(in_flight.is_empty());
    }

    #[test]
    fn ids_that_came_back_in_another_form_are_found() {
        let mut in_flight = InFlight::default();
        in_flight.open(&id("9007199254740993"), ());
        in_flight.open(&id(r#""\u0061""#), ());
        assert!(in_flight.close_exactly(&id("9007199254740992")).is_none());
        let (found, ()) = in_flight.close(&id("9007199254740992")).unwrap();
        assert_eq!(found, id("9007199254740993"));
        assert!(in_flight.close(&id("\"a\"")).is_some());
    }

    proptest! {
        #[test]
        fn whatever_happens_nothing_is_closed_twice(steps in proptest::collection::vec((any::<bool>(), 0u8..5), 0..50)) {
            let mut in_flight = InFlight::default();
            let mut open = std::collections::HashSet::new();
            for (opens, n) in steps {
                let id = id(&n.to_string());
                if opens {
                    prop_assert_eq!(in_flight.open(&id, ()), open.insert(n));
                } else {
                    prop_assert_eq!(in_flight.close(&id).is_some(), open.remove(&n));
                }
            }
            prop_assert_eq!(in_flight.close_all().len(), open.len());
        }
    }
}
