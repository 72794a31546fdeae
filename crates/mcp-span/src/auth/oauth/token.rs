//! Tokens, as lenient in reading as real providers are in writing.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderValue;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits;
use crate::secret::{self, Secret};
use crate::wire::header;

/// Which of the tokens that a login brings goes to the server.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub enum Bearer {
    /// The one that says what the bearer may do.
    #[default]
    AccessToken,
    /// The one that says who the bearer is (OpenID Connect); without one, the other.
    IdToken,
}

/// An access token, and what renews it, in the form in which it is stored.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct Token {
    #[serde(rename = "access_token", serialize_with = "secret::revealed")]
    pub(super) access: Secret,
    /// What says who has logged in, if the provider has said so.
    #[serde(rename = "id_token", serialize_with = "secret::revealed")]
    pub(super) id: Option<Secret>,
    #[serde(rename = "refresh_token", serialize_with = "secret::revealed")]
    pub(super) refresh: Option<Secret>,
    /// Seconds since 1970.
    pub(super) expires_at: Option<u64>,
    /// How long it was good when it was given out, in seconds.
    pub(super) expires_in: Option<u64>,
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

impl Token {
    /// Reads a provider's answer; `asked` is the scope that was asked for.
    pub(super) fn read(answer: &Value, asked: Option<&str>, now: SystemTime) -> Option<Self> {
        let text = |name: &str| answer[name].as_str().filter(|text| !text.is_empty());
        let expires_in = number(&answer["expires_in"])
            .and_then(|seconds| Duration::try_from_secs_f64(seconds.ceil()).ok())
            // One that is over at once is of no use to anybody: nothing was said, then.
            .filter(|lifetime| !lifetime.is_zero())
            .map(|lifetime| lifetime.min(limits::LONGEST_PAUSE * 365).as_secs());
        let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Some(Self {
            access: Secret::new(text("access_token")?),
            id: text("id_token").map(Secret::new),
            refresh: text("refresh_token").map(Secret::new),
            expires_at: expires_in.map(|lifetime| now + lifetime),
            expires_in,
            scope: text("scope").or(asked).map(str::to_owned),
        })
    }

    /// How near to its end what goes to the server is at `now`, if it is to be renewed `skew` before
    /// it. A short life is not spent on being renewed: half of it is for use, whatever comes.
    pub(super) fn age(&self, bearer: Bearer, now: SystemTime, skew: Duration) -> Age {
        let (expires, lifetime) = self.life(bearer);
        let Some(expires) = expires.and_then(time) else { return Age::Fresh };
        let lifetime = lifetime.map_or(Duration::MAX, Duration::from_secs);
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

    /// Until when what goes to the server is good (since 1970), and for how long it was, in seconds.
    fn life(&self, bearer: Bearer) -> (Option<u64>, Option<u64>) {
        let claimed = match bearer {
            Bearer::AccessToken => None,
            Bearer::IdToken => self.id.as_ref().and_then(claimed_life),
        };
        claimed.unwrap_or((self.expires_at, self.expires_in))
    }

    /// Until when the access token is good.
    pub(super) fn expires(&self) -> Option<SystemTime> {
        self.expires_at.and_then(time)
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
        header::secret(&format!("Bearer {}", sent.reveal())).ok()
    }
}

/// A number, also where it is written as a text.
pub(super) fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

/// The moment that is so many seconds after the beginning of 1970.
pub(super) fn time(seconds: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// The end of a token that is a JWT and says so, and how long it was good.
fn claimed_life(token: &Secret) -> Option<(Option<u64>, Option<u64>)> {
    let claims = claims(token.reveal())?;
    let seconds = |name: &str| {
        Duration::try_from_secs_f64(claims[name].as_f64()?).ok().map(|time| time.as_secs())
    };
    let end = seconds("exp")?;
    let lifetime = seconds("iat").and_then(|begin| end.checked_sub(begin));
    Some((Some(end), lifetime.filter(|lifetime| *lifetime > 0)))
}

/// What a token that is a JWT says. Its signature is not checked.
pub(super) fn claims(token: &str) -> Option<Value> {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    serde_json::from_slice(&claims).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SKEW: Duration = limits::TOKEN_SKEW;
    const ACCESS: Bearer = Bearer::AccessToken;

    /// The same as it comes back from the store.
    fn stored(token: &Token) -> Token {
        serde_json::from_str(&serde_json::to_string(token).unwrap()).unwrap()
    }

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
        assert_eq!(stored(&token), token);
    }

    #[test]
    fn answers_are_read_as_providers_write_them() {
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        for expires_in in [json!(3600), json!("3600"), json!(3600.0)] {
            let answer = json!({"access_token": "a", "expires_in": expires_in});
            let token = Token::read(&answer, Some("x"), now).unwrap();
            assert_eq!(token.expires(), Some(now + Duration::from_secs(3600)));
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
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
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
            let again = stored(&token);
            assert_eq!(again.age(ACCESS, now + Duration::from_secs(old + 1), SKEW), Age::Old);
            assert_ne!(again.age(ACCESS, now, SKEW), Age::Old);
        }
    }

    #[test]
    fn what_is_stored_comes_back() {
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let answer = json!({"access_token": "a", "refresh_token": "r", "expires_in": 60});
        let token = Token::read(&answer, None, now).unwrap();
        assert_eq!(stored(&token), token);
        let newer = Token::read(&json!({"access_token": "b"}), None, now).unwrap();
        assert_eq!(newer.or_refresh_of(&token).refresh.unwrap().reveal(), "r");
        assert!(!format!("{token:?}").contains("\"r\""));
    }
}
