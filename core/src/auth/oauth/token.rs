//! Tokens, as lenient in reading as real providers are in writing.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderValue;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits;
use crate::secret::Secret;

/// Which of the tokens that a login brings goes to the server.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub enum Bearer {
    /// The one that says what the bearer may do.
    #[default]
    AccessToken,
    /// The one that says who the bearer is (OpenID Connect); without one, the other.
    IdToken,
}

/// An access token, and what renews it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) access: Secret,
    /// What says who has logged in, if the provider has said so.
    pub(super) id: Option<Secret>,
    pub(super) refresh: Option<Secret>,
    pub(super) expires: Option<SystemTime>,
    /// How long it was good when it was given out.
    pub(super) lifetime: Option<Duration>,
    /// What it is good for, in the words of the provider or else of the request.
    pub(super) scope: Option<String>,
}

/// How near to its end a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    Fresh,
    /// It can be used, and should be renewed meanwhile.
    Ageing,
    /// It should be renewed first: a request takes its time, and clocks differ.
    Old,
}

/// The form in which it is stored. It is never shown.
#[derive(Clone, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct Stored {
    access_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id_token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refresh_token: Option<String>,
    /// Seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<u64>,
    /// Seconds, when it was given out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_in: Option<u64>,
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
        let lifetime = seconds
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            // One that is over at once is of no use to anybody: nothing was said, then.
            .filter(|lifetime| !lifetime.is_zero())
            .map(|lifetime| lifetime.min(limits::LONGEST_PAUSE * 365));
        Some(Self {
            access: Secret::new(text("access_token")?),
            id: text("id_token").map(Secret::new),
            refresh: text("refresh_token").map(Secret::new),
            expires: lifetime.map(|lifetime| now + lifetime),
            lifetime,
            scope: text("scope").or(asked).map(str::to_owned),
        })
    }

    /// How near to its end what goes to the server is at `now`, if it is to be renewed `skew` before
    /// it. A short life is not spent on being renewed: half of it is for use, whatever comes.
    pub(super) fn age(&self, bearer: Bearer, now: SystemTime, skew: Duration) -> Age {
        let (expires, lifetime) = self.life(bearer);
        let Some(expires) = expires else { return Age::Fresh };
        let lifetime = lifetime.unwrap_or(Duration::MAX);
        let skew = skew.min(lifetime / 2);
        let left = expires.duration_since(now).unwrap_or_default();
        if left <= skew {
            Age::Old
        } else if left <= skew + skew.min(lifetime / 4) {
            Age::Ageing
        } else {
            Age::Fresh
        }
    }

    /// Until when what goes to the server is good, and for how long it was.
    fn life(&self, bearer: Bearer) -> (Option<SystemTime>, Option<Duration>) {
        let claimed = match bearer {
            Bearer::AccessToken => None,
            Bearer::IdToken => self.id.as_ref().and_then(claimed_life),
        };
        match claimed {
            Some((expires, lifetime)) => (Some(expires), lifetime),
            None => (self.expires, self.lifetime),
        }
    }

    /// A provider that does not send a new refresh token, or no new word on who has logged in,
    /// means the old one.
    pub(super) fn or_refresh_of(self, old: &Self) -> Self {
        let refresh = self.refresh.or_else(|| old.refresh.clone());
        Self { refresh, id: self.id.or_else(|| old.id.clone()), ..self }
    }

    pub(super) fn header(&self, bearer: Bearer) -> Option<HeaderValue> {
        let sent = match bearer {
            Bearer::AccessToken => &self.access,
            Bearer::IdToken => self.id.as_ref().unwrap_or(&self.access),
        };
        let mut value = HeaderValue::from_str(&format!("Bearer {}", sent.reveal())).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

/// The end of a token that is a JWT and says so, and how long it was good.
fn claimed_life(token: &Secret) -> Option<(SystemTime, Option<Duration>)> {
    let claims = URL_SAFE_NO_PAD.decode(token.reveal().split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    let seconds = |name: &str| Duration::try_from_secs_f64(claims[name].as_f64()?).ok();
    let end = seconds("exp")?;
    let lifetime = seconds("iat").and_then(|begin| end.checked_sub(begin));
    Some((UNIX_EPOCH.checked_add(end)?, lifetime.filter(|lifetime| !lifetime.is_zero())))
}

impl From<&Token> for Stored {
    fn from(token: &Token) -> Self {
        let seconds = |at: SystemTime| at.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        Self {
            access_token: token.access.reveal().to_owned(),
            id_token: token.id.as_ref().map(|secret| secret.reveal().to_owned()),
            refresh_token: token.refresh.as_ref().map(|secret| secret.reveal().to_owned()),
            expires_at: token.expires.map(seconds),
            expires_in: token.lifetime.map(|lifetime| lifetime.as_secs()),
            scope: token.scope.clone(),
        }
    }
}

impl From<Stored> for Token {
    fn from(stored: Stored) -> Self {
        Self {
            access: Secret::new(stored.access_token),
            id: stored.id_token.map(Secret::new),
            refresh: stored.refresh_token.map(Secret::new),
            expires: stored
                .expires_at
                .and_then(|at| UNIX_EPOCH.checked_add(Duration::from_secs(at))),
            lifetime: stored.expires_in.map(Duration::from_secs),
            scope: stored.scope,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SKEW: Duration = limits::TOKEN_SKEW;
    const ACCESS: Bearer = Bearer::AccessToken;

    #[test]
    fn a_token_that_says_who_somebody_is_has_a_life_of_its_own() {
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let jwt = |claims: Value| format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims.to_string()));
        let with = |id: String| {
            let answer = json!({"access_token": "a", "id_token": id, "expires_in": 3600});
            Token::read(&answer, None, now).unwrap()
        };
        let token = with(jwt(json!({"iat": 1_800_000_000, "exp": 1_800_000_100})));
        let soon = now + Duration::from_secs(80);
        assert_eq!(token.age(Bearer::IdToken, soon, SKEW), Age::Old);
        assert_eq!(token.age(ACCESS, soon, SKEW), Age::Fresh);
        assert!(
            token.header(Bearer::IdToken).unwrap().to_str().unwrap().starts_with("Bearer e30.")
        );
        assert_eq!(token.header(ACCESS).unwrap(), "Bearer a");
        for odd in ["opaque".to_owned(), jwt(json!({})), jwt(json!({"exp": "x"})), "a.b.c".into()] {
            assert_eq!(with(odd).age(Bearer::IdToken, soon, SKEW), Age::Fresh);
        }
        let none = Token::read(&json!({"access_token": "a"}), None, now).unwrap();
        assert_eq!(none.header(Bearer::IdToken).unwrap(), "Bearer a");
        assert_eq!(none.or_refresh_of(&token).id, token.id);
        assert_eq!(Token::from(Stored::from(&token)), token);
    }

    #[test]
    fn answers_are_read_as_providers_write_them() {
        let now = SystemTime::now();
        for expires_in in [json!(3600), json!("3600"), json!(3600.0)] {
            let answer = json!({"access_token": "a", "expires_in": expires_in});
            let token = Token::read(&answer, Some("x"), now).unwrap();
            assert_eq!(token.expires, Some(now + Duration::from_secs(3600)));
            assert_eq!(token.scope.as_deref(), Some("x"));
            assert_eq!(token.age(ACCESS, now, SKEW), Age::Fresh);
            assert_eq!(token.age(ACCESS, now + Duration::from_secs(3580), SKEW), Age::Old);
        }
        for expires_in in [json!(null), json!(-5), json!(0), json!("soon"), json!(1e300)] {
            let answer = json!({"access_token": "a", "expires_in": expires_in, "scope": "y"});
            let token = Token::read(&answer, Some("x"), now).unwrap();
            assert_eq!(token.scope.as_deref(), Some("y"));
            assert_eq!(token.age(ACCESS, now, SKEW), Age::Fresh);
        }
        assert_eq!(Token::read(&json!({"access_token": ""}), None, now), None);
        assert_eq!(Token::read(&json!("<html>"), None, now), None);
    }

    #[test]
    fn a_short_life_is_used_for_its_half() {
        let now = SystemTime::now();
        for (lifetime, ageing, old) in [(20, 5, 10), (2, 0, 1), (60, 15, 30), (3600, 3540, 3570)] {
            let answer = json!({"access_token": "a", "expires_in": lifetime});
            let token = Token::read(&answer, None, now).unwrap();
            let age = |seconds| {
                token.age(ACCESS, now + Duration::from_millis(seconds * 1000 + 600), SKEW)
            };
            assert_eq!(age(old), Age::Old, "{lifetime}");
            assert_eq!(age(old - 1), Age::Ageing, "{lifetime}");
            if ageing > 0 {
                assert_eq!(age(ageing - 1), Age::Fresh, "{lifetime}");
            }
            assert_ne!(token.age(ACCESS, now, SKEW), Age::Old, "{lifetime}");
            let again = Token::from(Stored::from(&token));
            assert_eq!(again.age(ACCESS, now + Duration::from_secs(old + 1), SKEW), Age::Old);
            assert_ne!(again.age(ACCESS, now, SKEW), Age::Old);
        }
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
