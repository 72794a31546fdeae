//! Tokens, as lenient in reading as real providers are in writing.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderValue;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits;
use crate::secret::Secret;

/// An access token, and what renews it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) access: Secret,
    pub(super) refresh: Option<Secret>,
    pub(super) expires: Option<SystemTime>,
    /// What it is good for, in the words of the provider or else of the request.
    pub(super) scope: Option<String>,
}

/// The form in which it is stored.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Stored {
    access_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refresh_token: Option<String>,
    /// Seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
}

impl Token {
    /// Reads a provider's answer; `asked` is the scope that was asked for.
    pub(super) fn read(answer: &Value, asked: Option<&str>, now: SystemTime) -> Option<Self> {
        let text = |name: &str| answer[name].as_str().filter(|text| !text.is_empty());
        let seconds = match &answer["expires_in"] {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        let lifetime = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Some(Self {
            access: Secret::new(text("access_token")?),
            refresh: text("refresh_token").map(Secret::new),
            expires: lifetime.map(|lifetime| now + lifetime.min(limits::LONGEST_PAUSE * 365)),
            scope: text("scope").or(asked).map(str::to_owned),
        })
    }

    /// Whether it should be renewed: a request takes its time, and clocks differ.
    pub(super) fn is_old(&self, now: SystemTime, skew: Duration) -> bool {
        self.expires.is_some_and(|expires| expires <= now + skew)
    }

    /// A provider that does not send a new refresh token means the old one.
    pub(super) fn or_refresh_of(self, old: &Self) -> Self {
        Self { refresh: self.refresh.or_else(|| old.refresh.clone()), ..self }
    }

    pub(super) fn header(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", self.access.reveal())).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl From<&Token> for Stored {
    fn from(token: &Token) -> Self {
        let seconds = |at: SystemTime| at.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        Self {
            access_token: token.access.reveal().to_owned(),
            refresh_token: token.refresh.as_ref().map(|secret| secret.reveal().to_owned()),
            expires_at: token.expires.map(seconds),
            scope: token.scope.clone(),
        }
    }
}

impl From<Stored> for Token {
    fn from(stored: Stored) -> Self {
        Self {
            access: Secret::new(stored.access_token),
            refresh: stored.refresh_token.map(Secret::new),
            expires: stored.expires_at.map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds)),
            scope: stored.scope,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_read_as_providers_write_them() {
        let now = SystemTime::now();
        for expires_in in [json!(3600), json!("3600"), json!(3600.0)] {
            let answer = json!({"access_token": "a", "expires_in": expires_in});
            let token = Token::read(&answer, Some("x"), now).unwrap();
            assert_eq!(token.expires, Some(now + Duration::from_secs(3600)));
            assert_eq!(token.scope.as_deref(), Some("x"));
            let skew = limits::TOKEN_SKEW;
            assert!(!token.is_old(now, skew));
            assert!(token.is_old(now + Duration::from_secs(3580), skew));
        }
        for expires_in in [json!(null), json!(-5), json!("soon"), json!(1e300)] {
            let answer = json!({"access_token": "a", "expires_in": expires_in, "scope": "y"});
            let token = Token::read(&answer, Some("x"), now).unwrap();
            assert_eq!(token.scope.as_deref(), Some("y"));
            assert!(!token.is_old(now, limits::TOKEN_SKEW));
        }
        assert_eq!(Token::read(&json!({"access_token": ""}), None, now), None);
        assert_eq!(Token::read(&json!("<html>"), None, now), None);
    }

    #[test]
    fn what_is_stored_comes_back() {
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let answer = json!({"access_token": "a", "refresh_token": "r", "expires_in": 60});
        let token = Token::read(&answer, None, now).unwrap();
        let text = serde_json::to_string(&Stored::from(&token)).unwrap();
        let stored: Stored = serde_json::from_str(&text).unwrap();
        assert_eq!(Token::from(stored), token);
        let newer = Token::read(&json!({"access_token": "b"}), None, now).unwrap();
        assert_eq!(newer.or_refresh_of(&token).refresh.unwrap().reveal(), "r");
        assert!(!format!("{token:?}").contains("\"r\""));
    }
}
