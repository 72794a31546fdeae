//! Values that must never be printed, and the scrubbing of texts in which they might turn up.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use url::{Position, Url};

mod automaton;
mod forms;
mod scrubber;
mod view;

pub use scrubber::Scrubber;

/// A string that shows itself only to those who ask by name.
#[derive(Clone, Deserialize, PartialEq, Eq)]
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

/// Writes a secret out, where a field asks for that with `serialize_with`: for files and pipes of
/// ours alone.
pub(crate) fn revealed<'a, T, S>(secret: &'a T, serializer: S) -> Result<S::Ok, S::Error>
where
    &'a T: Into<Option<&'a Secret>>,
    S: Serializer,
{
    let secret: Option<&Secret> = secret.into();
    secret.map(Secret::reveal).serialize(serializer)
}

/// What separates the parts of a credential.
const SEPARATORS: [char; 8] = [' ', '\t', ';', ',', '=', '"', '\'', ':'];

/// The beginning of `text`, at most `limit` bytes. It ends between two parts: half a secret is one,
/// too, and scrubbing would not find it.
#[must_use]
pub fn beginning(text: &str, limit: usize) -> &str {
    if text.len() <= limit {
        return text;
    }
    let start = &text[..text.floor_char_boundary(limit)];
    start.rfind(SEPARATORS).map_or("", |end| &start[..end])
}

/// Names under which credentials travel.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    ["auth", "cookie", "key", "token", "secret", "password", "credential", "signature"]
        .iter()
        .any(|word| name.contains(word))
}

/// A URL as it may be shown: no user, no password, no query values, no fragment, and nothing in its
/// path that looks like a key.
#[must_use]
pub fn shown(url: &Url) -> String {
    let (before, behind) = (Position::BeforeUsername, Position::BeforeHost..Position::BeforePath);
    let segment = |segment| if is_key(segment) { "[secret]" } else { segment };
    let path: Vec<&str> = url.path().split('/').map(segment).collect();
    let mut text = [&url[..before], &url[behind], &path.join("/")].concat();
    if let Some(query) = url.query() {
        let pairs: Vec<String> = query.split('&').map(hidden_value).collect();
        text = format!("{text}?{}", pairs.join("&"));
    }
    text
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
    fn a_beginning_ends_where_no_secret_is_cut() {
        assert_eq!(beginning("abc", 3), "abc");
        assert_eq!(beginning(r#"{"token":"abcdef123456"}"#, 15), r#"{"token":"#);
        assert_eq!(beginning("ab cdefgh", 5), "ab");
        assert_eq!(beginning("äöüabcdef", 5), "");
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
