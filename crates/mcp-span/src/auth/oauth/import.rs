//! Takes over a login that another program has kept.

use std::time::{Duration, SystemTime};

use serde_json::Value;
use tracing::debug;

use super::authority::Authority;
use super::callback_server::Opener;
use super::challenge::Challenge;
use super::identity::{self, ClientAuthentication, ClientIdentity, Only};
use super::metadata::{Issuer, is_same_issuer};
use super::token::{Token, claims, number};
use super::words::{login_error, said};
use super::{Account, OAuth};
use crate::error::Error;
use crate::secret::shown as shown_url;

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
    /// Keeps the tokens as if we had requested them.
    ///
    /// # Errors
    ///
    /// When there is no token in what was found.
    pub async fn take_over(&self, foreign: &Foreign) -> Result<TakenOver, Error> {
        let Some(token) = token(foreign) else {
            let message = "There is no access token in it";
            return Err(login_error(message));
        };
        let _lock = self.lock_for_login(Some(Opener::Program)).await?;
        self.store.probe().await?;
        let shown = issuers(foreign);
        let authority = self.authority_of(shown.first().map(String::as_str)).await;
        let is_bound = self.is_bound(&shown, authority.as_ref())?;
        // What nobody vouches for is good for the server that it was given for, and no more.
        let token = if is_bound { token } else { Token { refresh: None, ..token } };
        let nothing = Issuer::default();
        let metadata = authority.as_ref().map_or(&nothing, |authority| &authority.metadata);
        let identity = identity::configured(&self.settings, metadata)
            .or_else(|| client(foreign.client.as_ref().filter(|_| is_bound)?, metadata));
        let is_good =
            |place: &&String| self.settings.given.checked(place, "tokens", &self.server).is_ok();
        let endpoint = metadata.token_endpoint.as_ref().filter(is_good);
        let no_renewal = match (&token.refresh, &identity, endpoint) {
            _ if !is_bound => Some(
                "it is not known which authorization server gave them out: log in without --import, \
                 or name it with --oauth-issuer",
            ),
            (None, ..) => Some("no refresh token was kept"),
            (_, None, _) => Some("its client was not kept: give it with --oauth-client-id"),
            (.., None) => Some("the server does not say where tokens are renewed"),
            _ => None,
        };
        self.keep_login(authority.as_ref(), identity, token, endpoint.cloned()).await;
        let account =
            self.account().await.ok_or_else(|| login_error("The tokens cannot be kept"))?;
        Ok(TakenOver { account, no_renewal })
    }

    /// Whether what the files hold is for the authorization server that the server names today:
    /// they show that, or the user says so.
    fn is_bound(&self, shown: &[String], authority: Option<&Authority>) -> Result<bool, Error> {
        let Some(authority) = authority else { return Ok(false) };
        let today = &authority.issuer;
        let Some(other) = shown.iter().find(|issuer| !is_same_issuer(issuer, today)) else {
            return Ok(!shown.is_empty() || self.settings.given.issuer.is_some());
        };
        let message = format!(
            "They were given out by {}, but {} names {} today: nothing is taken over",
            said(other),
            shown_url(&self.server),
            said(today)
        );
        let hint = "Log in anew, without --import";
        Err(login_error(message).hint(hint))
    }

    /// Who gave the token out; `None` if nobody says so.
    async fn authority_of(&self, known: Option<&str>) -> Option<Authority> {
        let said = self.web.probe_auth(&self.server).await;
        let challenge = said.ok().and_then(|(_, headers)| Challenge::of(&headers));
        match Authority::of(self, challenge.as_ref(), known).await {
            Ok(authority) => authority,
            Err(error) => {
                debug!("nobody says who gave the token out: {error}");
                None
            }
        }
    }
}

/// Who gave out what the files hold, as far as they show it: newer versions of mcp-remote note it in
/// both, and a token may say so itself.
fn issuers(foreign: &Foreign) -> Vec<String> {
    let notes =
        [foreign.tokens.get("issuer"), foreign.client.as_ref().and_then(|c| c.get("issuer"))];
    let noted: Vec<String> =
        notes.into_iter().flatten().filter_map(|note| note.as_str().map(str::to_owned)).collect();
    if !noted.is_empty() {
        return noted;
    }
    let claims = foreign.tokens["access_token"].as_str().and_then(claims).unwrap_or_default();
    claims["iss"].as_str().map(str::to_owned).into_iter().collect()
}

fn token(foreign: &Foreign) -> Option<Token> {
    let token = Token::read(&foreign.tokens, None, foreign.written)?;
    let at = number(&foreign.tokens["expires_at"]);
    let at = at.and_then(|at| Duration::try_from_secs_f64(at / 1000.0).ok());
    let expires_at = at.map(|at| at.as_secs()).or(token.expires_at);
    Some(Token { expires_at, ..token })
}

fn client(found: &Value, issuer: &Issuer) -> Option<ClientIdentity> {
    let id = found["client_id"].as_str().filter(|id| !id.is_empty())?;
    let identity = identity::identity(id, found, ClientAuthentication::Nothing, issuer);
    Some(ClientIdentity { only: Some(Only::Renewal), ..identity })
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde_json::json;

    use super::*;

    fn of(tokens: Value) -> Option<Token> {
        token(&Foreign { tokens, written: UNIX_EPOCH + Duration::from_secs(1000), client: None })
    }

    #[test]
    fn the_end_of_a_token_counts_from_when_it_was_written() {
        let at = |seconds| Some(UNIX_EPOCH + Duration::from_secs(seconds));
        let old = json!({"access_token": "a", "expires_in": 60});
        assert_eq!(of(old).unwrap().expires(), at(1060));
        let new = json!({"access_token": "a", "expires_in": 60, "expires_at": 5_000_000});
        assert_eq!(of(new).unwrap().expires(), at(5000));
        assert_eq!(of(json!({"access_token": "a"})).unwrap().expires(), None);
        assert!(of(json!({"refresh_token": "r"})).is_none());
        assert!(of(json!("x")).is_none());
    }

    #[test]
    fn files_show_who_gave_them_out_by_a_note_or_by_the_token() {
        let of = |tokens: Value, client: Option<Value>| {
            issuers(&Foreign { tokens, written: UNIX_EPOCH, client })
        };
        let claims = URL_SAFE_NO_PAD.encode(r#"{"iss":"https://as/t"}"#);
        let jwt = format!("e30.{claims}.sig");
        assert_eq!(of(json!({"access_token": jwt}), None), ["https://as/t"]);
        let noted = json!({"access_token": jwt, "issuer": "https://a"});
        assert_eq!(of(noted.clone(), None), ["https://a"]);
        let client = json!({"client_id": "c", "issuer": "https://b"});
        assert_eq!(of(noted, Some(client)), ["https://a", "https://b"]);
        for token in ["opaque", "a.b.c", "a.e30.c", "..", ""] {
            assert!(of(json!({"access_token": token}), Some(json!({}))).is_empty(), "{token}");
        }
    }

    #[test]
    fn a_client_of_another_program_is_for_renewal_alone() {
        let found = json!({"client_id": "c", "client_secret": "s",
            "token_endpoint_auth_method": "client_secret_post"});
        let client = client(&found, &Issuer::default()).unwrap();
        assert_eq!((client.proof, client.only), (ClientAuthentication::Post, Some(Only::Renewal)));
    }
}
