//! What is tried again at a server that cannot be reached: how often, and that what fails on the way
//! there is told by its exchange alone.

use std::collections::VecDeque;
use std::sync::Mutex;

use url::{Position, Url};

use super::Data;
use crate::limits;
use crate::lock::lock;

/// Host and port of each, once for every try.
static PLACES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// What could not be sent, how often, the oldest first.
static VAIN: Mutex<VecDeque<(RetriedSubject, u32)>> = Mutex::new(VecDeque::new());

/// Something that is sent to a server, however often: a message, or a request for the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RetriedSubject {
    place: String,
    subject: String,
}

impl RetriedSubject {
    pub(super) fn new(url: &Url, subject: String) -> Self {
        Self { place: url[Position::BeforeHost..Position::AfterPort].to_owned(), subject }
    }

    /// Another try begins; `request` is told as soon as it leaves.
    pub(super) fn retry(&self, number: u32, request: Data) -> RetryTrace {
        lock(&PLACES).push(self.place.clone());
        RetryTrace { place: self.place.clone(), number, request }
    }

    /// How often it failed since the server was last reached.
    pub(super) fn vain_tries(&self) -> u32 {
        lock(&VAIN).iter().find(|(subject, _)| subject == self).map_or(0, |(_, times)| *times)
    }

    pub(super) fn note_vain_try(&self) {
        let mut all = lock(&VAIN);
        if let Some((_, times)) = all.iter_mut().find(|(subject, _)| subject == self) {
            *times = times.saturating_add(1);
            return;
        }
        if all.len() >= limits::TRACE_VAIN_TRIES {
            all.pop_front();
        }
        all.push_back((self.clone(), 1));
    }

    /// The server was reached: whatever comes next is no retry.
    pub(super) fn note_reached(&self) {
        lock(&VAIN).retain(|(subject, _)| subject.place != self.place);
    }
}

/// A try at a server that is away, while it is under way: one line if it fails, those of any other
/// exchange if not.
#[derive(Debug)]
pub(super) struct RetryTrace {
    place: String,
    pub(super) number: u32,
    pub(super) request: Data,
}

impl Drop for RetryTrace {
    fn drop(&mut self) {
        let mut places = lock(&PLACES);
        if let Some(at) = places.iter().position(|place| *place == self.place) {
            places.swap_remove(at);
        }
    }
}

/// Whether a connection to `place` is one for another try.
pub(super) fn is_retried(place: &str) -> bool {
    lock(&PLACES).iter().any(|retried| retried == place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_are_counted_for_each_subject_until_the_server_is_reached() {
        let url = Url::parse("http://vain.test/mcp").unwrap();
        let subject = |name: &str| RetriedSubject::new(&url, name.to_owned());
        let (stream, call) = (subject("GET"), subject("3"));
        assert_eq!(stream.vain_tries(), 0);
        stream.note_vain_try();
        stream.note_vain_try();
        call.note_vain_try();
        assert_eq!((stream.vain_tries(), call.vain_tries()), (2, 1));
        for n in 0..limits::TRACE_VAIN_TRIES {
            subject(&format!("x{n}")).note_vain_try();
        }
        assert_eq!(stream.vain_tries(), 0, "the oldest is forgotten");
        call.note_vain_try();
        let elsewhere =
            RetriedSubject::new(&Url::parse("http://elsewhere.test/").unwrap(), "3".into());
        elsewhere.note_vain_try();
        stream.note_reached();
        assert_eq!((call.vain_tries(), elsewhere.vain_tries()), (0, 1));
    }

    #[test]
    fn a_place_is_retried_as_long_as_any_try_is_under_way() {
        let url = Url::parse("http://user@retried.test:8080/mcp").unwrap();
        let subject = RetriedSubject::new(&url, String::new());
        let (first, second) =
            (subject.retry(1, Data::default()), subject.retry(2, Data::default()));
        drop(first);
        assert!(is_retried("retried.test:8080") && !is_retried("retried.test"));
        drop(second);
        assert!(!is_retried("retried.test:8080"));
    }
}
