//! Removes known secrets from texts that others wrote.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, RwLock};

use super::{SEPARATORS, Secret};

/// Removes known secrets from texts that others wrote (a server may echo what it was sent). Clones
/// know the same secrets.
#[derive(Clone, Debug, Default)]
pub struct Scrubber {
    known: Arc<RwLock<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    secrets: Vec<Secret>,
    /// Those that will be replaced by others, the newest last.
    passing: VecDeque<Secret>,
}

impl Scrubber {
    /// Values shorter than this are not hunted for: they would riddle every text.
    const SHORTEST: usize = 6;

    /// Parts of short-lived secrets that are remembered; a server may still echo an old one.
    const PASSING: usize = 32;

    /// Adds a value and, since servers repeat parts of it, what stands in it between blanks, quotes,
    /// equal signs and their like.
    pub fn add(&self, secret: &Secret) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for part in parts(secret) {
            if !known.secrets.contains(&part) {
                known.secrets.push(part);
            }
        }
        // The longest first: a part must not leave the rest of its whole behind.
        known.secrets.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.reveal().len()));
    }

    /// The same for a value that others will replace: only the last of them are remembered.
    pub fn add_passing(&self, secret: &Secret) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for part in parts(secret).rev() {
            if !known.passing.contains(&part) {
                known.passing.push_back(part);
            }
        }
        while known.passing.len() > Self::PASSING {
            known.passing.pop_front();
        }
    }

    /// `text` with each known secret replaced by `[secret]`.
    #[must_use]
    pub fn clean(&self, text: &str) -> String {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut clean = text.to_owned();
        // The newest first, and of each the whole before its parts.
        for secret in known.secrets.iter().chain(known.passing.iter().rev()) {
            if clean.contains(secret.reveal()) {
                clean = clean.replace(secret.reveal(), "[secret]");
            }
        }
        clean
    }

    /// The same for a piece of JSON, in which a secret may be written with escapes, even those of
    /// JSON inside a string of JSON.
    #[must_use]
    pub fn clean_json(&self, json: &str) -> String {
        let mut clean = self.clean(json);
        if clean.contains('\\') {
            let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
            for secret in known.secrets.iter().chain(known.passing.iter().rev()) {
                clean = without_escaped(&clean, secret.reveal());
            }
        }
        clean
    }
}

fn without_escaped(text: &str, secret: &str) -> String {
    let first = secret.bytes().next().unwrap_or(b'\\');
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr2(first, b'\\', rest.as_bytes()) {
        clean.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = escaped_length(rest, secret);
        let next = length.unwrap_or_else(|| rest.chars().next().map_or(1, char::len_utf8));
        clean.push_str(if length.is_some() { "[secret]" } else { &rest[..next] });
        rest = &rest[next..];
    }
    clean + rest
}

/// How much of the beginning of `text` is `secret`, with any number of backslashes before any of its
/// characters, or their numbers in their place.
fn escaped_length(text: &str, secret: &str) -> Option<usize> {
    let mut rest = text;
    for wanted in secret.chars() {
        let bare = rest.trim_start_matches('\\');
        let is_escaped = bare.len() < rest.len();
        rest = match numbered(bare, wanted).filter(|_| is_escaped) {
            Some(behind) => behind,
            None if wanted == '\\' => Some(bare).filter(|_| is_escaped)?,
            None => bare.strip_prefix(wanted)?,
        };
    }
    Some(text.len() - rest.len())
}

/// What stands behind the `uXXXX` that means `wanted`.
fn numbered(text: &str, wanted: char) -> Option<&str> {
    let digits = text.strip_prefix('u')?.get(..4)?;
    let number = u32::from_str_radix(digits, 16).ok()?;
    (number == u32::from(wanted)).then(|| &text[5..])
}

/// The value itself, then the parts of it that are worth hiding.
fn parts(secret: &Secret) -> impl DoubleEndedIterator<Item = Secret> {
    let value = secret.reveal();
    let parts = value.split(SEPARATORS);
    let all: Vec<Secret> = std::iter::once(value)
        .chain(parts)
        .filter(|part| part.len() >= Scrubber::SHORTEST && !COMMON.contains(part))
        .map(Secret::new)
        .collect();
    all.into_iter()
}

/// Words that stand in credentials without being any.
const COMMON: [&str; 6] = ["Bearer", "bearer", "Digest", "session", "Negotiate", "application"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scrubbing_finds_the_token_without_its_scheme() {
        let scrubber = Scrubber::default();
        scrubber.add(&Secret::new("Bearer abcdef123"));
        assert_eq!(scrubber.clean("token abcdef123 is bad"), "token [secret] is bad");
        assert_eq!(scrubber.clean("got 'Bearer abcdef123'"), "got '[secret]'");
        scrubber.add(&Secret::new("session=cookie99; path"));
        scrubber.add(&Secret::new(r#"Token token="quoted99""#));
        assert_eq!(scrubber.clean("cookie99, quoted99, Bearer"), "[secret], [secret], Bearer");
    }

    #[test]
    fn secrets_are_found_however_json_writes_them() {
        let scrubber = Scrubber::default();
        scrubber.add(&Secret::new("ab+cd/ef"));
        scrubber.add(&Secret::new("one\\two3"));
        for text in [
            "ab+cd/ef",
            r"ab+cd\/ef",
            r"ab\u002Bcd/ef",
            r"\u0061b+cd/ef",
            r"ab\\u002bcd\\\/ef",
            r"one\\two3",
            r"one\\\\two3",
        ] {
            let json = format!(r#"{{"a":"x {text} y"}}"#);
            assert_eq!(scrubber.clean_json(&json), r#"{"a":"x [secret] y"}"#, "{text}");
        }
        let other = r#"{"a":"ab\u002Ccd/ef \u00e4\n \\ \u00"}"#;
        assert_eq!(scrubber.clean_json(other), other);
    }

    #[test]
    fn short_values_are_left_alone() {
        let scrubber = Scrubber::default();
        scrubber.add(&Secret::new("a"));
        assert_eq!(scrubber.clean("a cat"), "a cat");
    }
}
