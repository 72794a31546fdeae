//! Values that must never be printed, and the scrubbing of texts in which they might turn up.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use url::Url;

/// A string that shows itself only to those who ask by name.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps `value`.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself, for the one place that needs it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

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
        known.secrets.sort_by_key(|secret| std::cmp::Reverse(secret.reveal().len()));
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
}

/// The value itself, then the parts of it that are worth hiding.
fn parts(secret: &Secret) -> impl DoubleEndedIterator<Item = Secret> {
    let value = secret.reveal();
    let parts = value.split([' ', '\t', ';', ',', '=', '"', '\'', ':']);
    let all: Vec<Secret> = std::iter::once(value)
        .chain(parts)
        .filter(|part| part.len() >= Scrubber::SHORTEST && !COMMON.contains(part))
        .map(Secret::new)
        .collect();
    all.into_iter()
}

/// Words that stand in credentials without being any.
const COMMON: [&str; 6] = ["Bearer", "bearer", "Digest", "session", "Negotiate", "application"];

/// A URL as it may be shown: no user, no password, no query values, no fragment, and nothing in its
/// path that looks like a key.
#[must_use]
pub fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // Both fail only for URLs without a host, which have neither.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);
    let query = url.query().map(|query| query.split('&').map(hidden_value).collect::<Vec<_>>());
    url.set_query(None);
    let mut text = String::from(url.as_str().strip_suffix(url.path()).unwrap_or_default());
    for (n, segment) in url.path().split('/').enumerate() {
        text.push_str(if n > 0 { "/" } else { "" });
        text.push_str(if is_key(segment) { "[secret]" } else { segment });
    }
    match query {
        Some(pairs) => format!("{text}?{}", pairs.join("&")),
        None => text,
    }
}

fn hidden_value(pair: &str) -> String {
    pair.split_once('=')
        .map_or_else(|| "[secret]".to_owned(), |(name, _)| format!("{name}=[secret]"))
}

/// Some servers put a key into the path: long, with letters and digits.
#[must_use]
pub fn is_key(segment: &str) -> bool {
    segment.len() >= 16
        && segment.bytes().any(|b| b.is_ascii_digit())
        && segment.bytes().any(|b| b.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_prints_nothing_of_itself() {
        let secret = Secret::new("hunter2hunter2");
        assert_eq!(format!("{secret} {secret:?}"), "[secret] [secret]");
        assert_eq!(secret.reveal(), "hunter2hunter2");
    }

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
    fn short_values_are_left_alone() {
        let scrubber = Scrubber::default();
        scrubber.add(&Secret::new("a"));
        assert_eq!(scrubber.clean("a cat"), "a cat");
    }

    #[test]
    fn urls_are_shown_without_user_and_query_values() {
        let url = Url::parse("https://me:pw@example.com/mcp?token=abc&x=1#frag").unwrap();
        assert_eq!(shown(&url), "https://example.com/mcp?token=[secret]&x=[secret]");
        let shown = |text| shown(&Url::parse(text).unwrap());
        assert_eq!(shown("http://localhost:1/mcp"), "http://localhost:1/mcp");
        assert_eq!(shown("http://[::1]:1"), "http://[::1]:1/");
        assert_eq!(shown("http://h/mcp?TOKEN"), "http://h/mcp?[secret]");
        assert_eq!(shown("http://h/s/abcdef0123456789/mcp"), "http://h/s/[secret]/mcp");
        assert_eq!(
            shown("http://h/api/v1/model-context-protocol"),
            "http://h/api/v1/model-context-protocol"
        );
    }
}
