//! Removes known secrets from texts that others wrote.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use super::automaton::{Automaton, Matches};
use super::{Secret, forms, view};
use crate::lock::lock;
use crate::untrusted::Untrusted;

/// Removes known secrets from texts that others wrote (a server may echo what it was sent). Clones
/// know the same secrets.
///
/// A secret is found in any case, with the escapes of JSON and URLs, in base64 and as hexadecimal
/// numbers, also where only its beginning stands. The time is linear in the text.
#[derive(Clone, Debug, Default)]
pub struct Scrubber {
    known: Arc<Mutex<Known>>,
}

/// Whatever a server does, it cannot push out what is ours: each has a place of its own.
#[derive(Default)]
struct Known {
    /// What the user has given. It stays.
    given: Vec<Secret>,
    /// The credentials of each grant, the one in use last.
    granted: VecDeque<Vec<Secret>>,
    /// What the server has given us, the newest last.
    passing: VecDeque<Secret>,
    /// Made when the first text is cleaned; most programs never need it.
    automaton: Option<Arc<Automaton>>,
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (given, passing) = (self.given.len(), self.passing.len());
        write!(f, "Known({given} given, {} granted, {passing} passing)", self.granted.len())
    }
}

impl Scrubber {
    /// Grants that are remembered, the one in use among them: a server may still echo an old token.
    const GRANTS: usize = 4;

    /// Values of a server's that are remembered: more than the cookies that are kept.
    const PASSING: usize = 64;

    /// The same in bytes: an automaton takes some twenty times as much.
    const PASSING_BYTES: usize = 64 * 1024;

    /// Adds a value of the user's and, since servers repeat parts of it, what stands in it between
    /// blanks, quotes, equal signs and their like.
    pub fn add(&self, secret: &Secret) {
        self.change(|known| {
            let is_new = !known.given.contains(secret);
            known.given.extend(is_new.then(|| secret.clone()));
            is_new
        });
    }

    /// The same for all credentials that are in use from now on, in place of those of the last call.
    pub fn add_granted<'a>(&self, values: impl IntoIterator<Item = &'a str>) {
        let values: Vec<Secret> = values.into_iter().map(Secret::new).collect();
        self.change(|known| {
            if known.granted.back() == Some(&values) {
                return false;
            }
            known.granted.push_back(values);
            if known.granted.len() > Self::GRANTS {
                known.granted.pop_front();
            }
            true
        });
    }

    /// The same for a value that a server has given us, such as a cookie: only the last of them are
    /// remembered.
    pub fn add_passing(&self, secret: &Secret) {
        self.change(|known| {
            let before = known.passing.len();
            // What is in use is the newest.
            known.passing.retain(|old| old != secret);
            let is_new = known.passing.len() == before;
            known.passing.push_back(secret.clone());
            let mut size: usize = known.passing.iter().map(|value| value.reveal().len()).sum();
            while known.passing.len() > Self::PASSING || size > Self::PASSING_BYTES {
                size -= known.passing.pop_front().map_or(size, |old| old.reveal().len());
            }
            is_new
        });
    }

    /// `text` with each known secret replaced by `[secret]`.
    #[must_use]
    pub fn clean(&self, text: &str) -> String {
        without(text, &look(&self.automaton(), text).places)
    }

    /// The beginning of a foreign text as one line of at most `limit` characters, without secrets,
    /// and without the beginning of one at its end. The rest of the text costs nothing.
    #[must_use]
    pub fn excerpt(&self, text: &str, limit: usize) -> String {
        // What is replaced or left out makes room for more; there is no need to fill all of it.
        let start = &text[..text.floor_char_boundary(limit.saturating_mul(8))];
        let mut found = look(&self.automaton(), start);
        let cut = found.cut.filter(|_| start.len() < text.len());
        let end = cut.map_or(start.len(), |cut| start.floor_char_boundary(cut));
        found.places.retain(|place| place.start < end);
        let end = found.places.iter().map(|place| place.end).fold(end, usize::max);
        Untrusted(&without(&start[..end], &found.places)).excerpt(limit)
    }

    fn change(&self, change: impl FnOnce(&mut Known) -> bool) {
        let mut known = lock(&self.known);
        if change(&mut known) {
            known.automaton = None;
        }
    }

    fn automaton(&self) -> Arc<Automaton> {
        let mut known = lock(&self.known);
        let made = known.automaton.take().unwrap_or_else(|| Arc::new(known.make()));
        known.automaton = Some(Arc::clone(&made));
        made
    }
}

impl Known {
    fn make(&self) -> Automaton {
        let ours = self.given.iter().chain(self.granted.iter().flatten()).flat_map(forms::parts);
        let theirs = self.passing.iter().flat_map(forms::parts);
        let mut patterns: Vec<_> = ours.flat_map(|part| forms::encoded(&part)).collect();
        // A server that hides its own cookies behind an encoding need not be helped.
        patterns.extend(theirs.flat_map(|part| forms::as_written(&part)));
        Automaton::new(&patterns)
    }
}

/// Looks at the text as it stands there and, if it has escapes, at what they mean: an escape may
/// hide a secret, and what looks like one may be the character before a secret.
fn look(automaton: &Automaton, text: &str) -> Matches {
    let mut found = automaton.find(view::plain(text));
    if view::has_escapes(text) {
        let more = automaton.find(view::unescaped(text));
        found.cut = found.cut.into_iter().chain(more.cut).min();
        found.places.extend(more.places);
        // Two runs that are in order: that takes linear time.
        found.places.sort_by_key(|place| place.start);
    }
    found
}

/// `text` without what stands at these places, which are in order; those that overlap count as one.
fn without(text: &str, places: &[Range<usize>]) -> String {
    let mut clean = String::with_capacity(text.len());
    let (mut at, mut hidden) = (0, 0);
    for place in places {
        if place.start >= hidden {
            // The beginning of a secret may end within a character.
            clean.push_str(text.get(at..text.floor_char_boundary(place.start)).unwrap_or_default());
            clean.push_str("[secret]");
        }
        hidden = hidden.max(place.end);
        at = text.ceil_char_boundary(hidden);
    }
    clean.push_str(text.get(at..).unwrap_or_default());
    clean
}

#[cfg(test)]
mod tests;
