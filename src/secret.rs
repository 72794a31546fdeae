//! Values that must never be printed, and the scrubbing of texts in which they might turn up.

use std::fmt;

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

/// Removes known secrets from texts that others wrote (a server may echo what it was sent).
#[derive(Clone, Debug, Default)]
pub struct Scrubber {
    secrets: Vec<Secret>,
}

impl Scrubber {
    /// Values shorter than this are not hunted for: they would riddle every text.
    const SHORTEST: usize = 6;

    /// Adds a value; of `Bearer abc` the part after the scheme is hidden on its own, too.
    pub fn add(&mut self, secret: &Secret) {
        let value = secret.reveal();
        for part in std::iter::once(value).chain(value.split_once(' ').map(|(_, rest)| rest)) {
            if part.len() >= Self::SHORTEST {
                self.secrets.push(Secret::new(part));
            }
        }
    }

    /// `text` with each known secret replaced by `[secret]`.
    #[must_use]
    pub fn clean(&self, text: &str) -> String {
        let mut clean = text.to_owned();
        for secret in &self.secrets {
            if clean.contains(secret.reveal()) {
                clean = clean.replace(secret.reveal(), "[secret]");
            }
        }
        clean
    }
}

/// A URL as it may be shown: no user, no password, no query values, no fragment.
#[must_use]
pub fn shown(url: &Url) -> String {
    let mut url = url.clone();
    let had_user = !url.username().is_empty() || url.password().is_some();
    // Both fail only for URLs without a host, which have neither.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);
    if url.query().is_some() {
        let names: Vec<String> =
            url.query_pairs().map(|(name, _)| format!("{name}=[secret]")).collect();
        url.set_query(None);
        return format!("{url}?{}", names.join("&"));
    }
    if had_user { url.to_string() } else { url.into() }
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
        let mut scrubber = Scrubber::default();
        scrubber.add(&Secret::new("Bearer abcdef123"));
        assert_eq!(scrubber.clean("token abcdef123 is bad"), "token [secret] is bad");
        assert_eq!(scrubber.clean("got 'Bearer abcdef123'"), "got '[secret]'");
    }

    #[test]
    fn short_values_are_left_alone() {
        let mut scrubber = Scrubber::default();
        scrubber.add(&Secret::new("a"));
        assert_eq!(scrubber.clean("a cat"), "a cat");
    }

    #[test]
    fn urls_are_shown_without_user_and_query_values() {
        let url = Url::parse("https://me:pw@example.com/mcp?token=abc&x=1#frag").unwrap();
        assert_eq!(shown(&url), "https://example.com/mcp?token=[secret]&x=[secret]");
        assert_eq!(shown(&Url::parse("http://localhost:1/mcp").unwrap()), "http://localhost:1/mcp");
    }
}
