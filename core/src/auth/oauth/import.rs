//! Takes over a login that another program has kept.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tracing::debug;

use super::authority::Authority;
use super::challenge::Challenge;
use super::identity::{self, Identity, Only, Proof};
use super::kept::{Holder, Kept};
use super::metadata::Issuer;
use super::token::Token;
use super::{Account, OAuth};
use crate::error::{Error, Kind};

/// What the other program has kept, as it was found.
#[derive(Clone, Debug)]
pub struct Foreign {
    /// The answer of the token endpoint, maybe with `expires_at` in milliseconds.
    pub tokens: Value,
    /// When it was written.
    pub written: SystemTime,
    /// The answer to the registration of its client, if there was one.
    pub client: Option<Value>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct TakenOver {
    /// What there is now.
    pub account: Account,
    /// Why the token cannot be renewed, if that is so.
    pub no_renewal: Option<&'static str>,
}

impl OAuth {
    /// Keeps the tokens as if we had come by them ourselves.
    ///
    /// # Errors
    ///
    /// When there is no token in what was found.
    pub async fn take_over(&self, foreign: &Foreign) -> Result<TakenOver, Error> {
        let Some(token) = token(foreign) else {
            let message = "There is no access token in it";
            return Err(Error::new(Kind::Login, message).not_delivered());
        };
        let _lock = self.lock_for_login().await?;
        self.store.probe().await?;
        let issuer = foreign.tokens["issuer"].as_str();
        let authority = self.authority_of(issuer).await;
        let nothing = Issuer::default();
        let metadata = authority.as_ref().map_or(&nothing, |authority| &authority.metadata);
        let identity = identity::configured(&self.settings, metadata)
            .or_else(|| client(foreign.client.as_ref()?, metadata));
        let endpoint = metadata
            .token_endpoint
            .as_ref()
            .filter(|text| Issuer::endpoint(Some(text), "tokens", &self.server).is_ok());
        let no_renewal = match (&token.refresh, &identity, endpoint) {
            (None, ..) => Some("no refresh token was kept"),
            (_, None, _) => Some("its client was not kept: give it with --oauth-client-id"),
            (.., None) => Some("the server does not say where tokens are renewed"),
            _ => None,
        };
        let holder = identity.as_ref().map(|i| Holder { id: i.id.clone(), proof: i.proof });
        self.keep_alone(Kept {
            issuer: authority.as_ref().map(|authority| authority.issuer.clone()),
            identity: identity.filter(|i| !identity::is_configured(&self.settings, &i.id)),
            holder,
            token: Some(token),
            token_endpoint: endpoint.cloned(),
            revocation_endpoint: metadata.revocation_endpoint.clone(),
            resource: authority.as_ref().and_then(|a| self.resource(a)).map(str::to_owned),
            without_resource: self.refuses_resource(),
            near: Some(self.web.near()),
        })
        .await;
        let account = self
            .account()
            .ok_or_else(|| Error::new(Kind::Login, "The tokens cannot be kept").not_delivered())?;
        Ok(TakenOver { account, no_renewal })
    }

    /// Who gave the token out; `None` if nobody says so.
    async fn authority_of(&self, known: Option<&str>) -> Option<Authority> {
        let said = self.web.knock(&self.server).await;
        let challenge = said.ok().and_then(|(_, headers)| Challenge::of(&headers));
        match self.authority(challenge.as_ref(), known).await {
            Ok(authority) => authority,
            Err(error) => {
                debug!("nobody says who gave the token out: {error}");
                None
            }
        }
    }
}

fn token(foreign: &Foreign) -> Option<Token> {
    let token = Token::read(&foreign.tokens, None, foreign.written)?;
    let at = match &foreign.tokens["expires_at"] {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    let at = at.and_then(|at| Duration::try_from_secs_f64(at / 1000.0).ok());
    let expires = at.and_then(|at| UNIX_EPOCH.checked_add(at)).or(token.expires);
    Some(Token { expires, ..token })
}

fn client(found: &Value, issuer: &Issuer) -> Option<Identity> {
    let id = found["client_id"].as_str().filter(|id| !id.is_empty())?;
    let identity = identity::identity(id, found, Proof::Nothing, issuer);
    Some(Identity { only: Some(Only::Renewal), ..identity })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(tokens: Value) -> Option<Token> {
        token(&Foreign { tokens, written: UNIX_EPOCH + Duration::from_secs(1000), client: None })
    }

    #[test]
    fn the_end_of_a_token_counts_from_when_it_was_written() {
        let at = |seconds| Some(UNIX_EPOCH + Duration::from_secs(seconds));
        let old = json!({"access_token": "a", "expires_in": 60});
        assert_eq!(of(old).unwrap().expires, at(1060));
        let new = json!({"access_token": "a", "expires_in": 60, "expires_at": 5_000_000});
        assert_eq!(of(new).unwrap().expires, at(5000));
        assert_eq!(of(json!({"access_token": "a"})).unwrap().expires, None);
        assert!(of(json!({"refresh_token": "r"})).is_none());
        assert!(of(json!("x")).is_none());
    }

    #[test]
    fn a_client_of_another_program_is_for_renewal_alone() {
        let found = json!({"client_id": "c", "client_secret": "s",
            "token_endpoint_auth_method": "client_secret_post"});
        let client = client(&found, &Issuer::default()).unwrap();
        assert_eq!((client.proof, client.only), (Proof::Post, Some(Only::Renewal)));
    }
}
