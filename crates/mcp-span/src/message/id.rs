//! A request's id as its exact JSON text, with the comparisons that real peers make necessary.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::scan::decoded;

/// The raw JSON text of an id: `1`, `"1"` and `12345678901234567890` all stay what they are.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(Arc<str>);

impl Id {
    /// Takes the JSON text of a string or number; anything else is no id.
    #[must_use]
    pub fn from_json(raw: &str) -> Option<Self> {
        match raw.as_bytes().first()? {
            b'"' | b'-' | b'0'..=b'9' => Some(Self(raw.into())),
            _ => None,
        }
    }

    /// An id of the bridge's own: a string.
    #[must_use]
    pub fn string(text: &str) -> Self {
        Self(serde_json::Value::from(text).to_string().into())
    }

    /// An id of the bridge's own: a number.
    #[must_use]
    pub fn number(number: u64) -> Self {
        Self(number.to_string().into())
    }

    /// The JSON text.
    #[must_use]
    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// The form in which ids are looked up: peers parse and write again what they are sent, so
    /// `"\u0061"` comes back as `"a"` and `1.0` as `1`.
    #[must_use]
    pub fn canonical(&self) -> Self {
        if self.0.starts_with('"') {
            return match self.0.get(1..self.0.len() - 1).and_then(decoded) {
                Some(Cow::Owned(text)) => Self::string(&text),
                // It has no escapes; or a lone surrogate, and with it no decoded form.
                _ => self.clone(),
            };
        }
        if self.0.bytes().all(|b| b.is_ascii_digit()) {
            return self.clone();
        }
        self.as_f64()
            .filter(|n| n.fract() == 0.0 && n.abs() < 9_007_199_254_740_992.0)
            .map_or_else(|| self.clone(), |n| Self(format!("{:.0}", n + 0.0).into()))
    }

    /// Whether a peer that reads numbers as doubles would take the two for the same id.
    #[must_use]
    pub fn resembles(&self, other: &Self) -> bool {
        match (self.as_f64(), other.as_f64()) {
            (Some(a), Some(b)) => a == b,
            (None, None) => self.canonical() == other.canonical(),
            _ => false,
        }
    }

    fn as_f64(&self) -> Option<f64> {
        self.0.parse().ok()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(raw: &str) -> Id {
        Id::from_json(raw).expect("an id")
    }

    #[test]
    fn the_text_stays_exact() {
        for raw in ["0", "9007199254740993", "12345678901234567890", "\"1\"", r#""a\u0062""#] {
            assert_eq!(id(raw).as_json(), raw);
        }
        assert_eq!(Id::from_json("null"), None);
        assert_eq!(Id::from_json("{}"), None);
        assert_eq!(Id::from_json("true"), None);
    }

    #[test]
    fn a_number_is_not_a_string() {
        assert_ne!(id("1").canonical(), id("\"1\"").canonical());
        assert!(!id("1").resembles(&id("\"1\"")));
    }

    #[test]
    fn what_a_peer_writes_in_another_form_is_the_same_id() {
        assert_eq!(id(r#""a\u0062\/""#).canonical(), id(r#""ab/""#).canonical());
        assert_eq!(id("1.0").canonical(), id("1").canonical());
        assert_eq!(id("1e2").canonical(), id("100").canonical());
        assert_eq!(id("-0").canonical(), id("0").canonical());
        assert_eq!(id("-10").canonical().as_json(), "-10");
        assert_ne!(id("9007199254740993").canonical(), id("9007199254740992").canonical());
        assert_eq!(id(r#""\ud800""#).canonical().as_json(), r#""\ud800""#);
    }

    #[test]
    fn rounding_by_a_peer_is_recognised() {
        assert!(id("9007199254740993").resembles(&id("9007199254740992")));
        assert!(!id("5").resembles(&id("6")));
    }
}
