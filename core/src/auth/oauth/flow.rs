//! The login itself: who gives out tokens, who we are, a person's consent, and the token.

use std::sync::atomic::Ordering;

use tokio::time::Instant;
use tracing::debug;
use url::Url;

use super::authority::Authority;
use super::challenge::Challenge;
use super::grant::{Refusal, TokenRequest};
use super::identity::{self, Identity};
use super::kept::{Holder, Kept};
use super::scope::Scopes;
use super::token::Token;
use super::web::Form;
use super::{Grant, OAuth};
use crate::error::{Error, Kind};
use crate::limits;
use crate::secret::shown;

impl OAuth {
    /// Gets a token from the beginning. After one that came to nothing there is a pause. `false`: the
    /// server knows of no logins.
    pub(super) async fn login(&self, challenge: Option<&Challenge>) -> Result<bool, Error> {
        let fruitless = self.state(|state| state.fruitless.clone());
        if let Some((at, outcome)) = fruitless
            && at.elapsed() < limits::LOGIN_PAUSE
        {
            return outcome;
        }
        if let Some(error) = self.store.failure().filter(|_| self.asks_a_person()) {
            return Err(error);
        }
        // Noted before anybody is asked: whoever waits for it may be gone before it ends.
        self.state(|state| {
            if self.asks_a_person() {
                state.logins.note(Instant::now());
            }
            state.fruitless = Some((Instant::now(), Err(self.given_up())));
        });
        let outcome = self.try_login(challenge).await;
        let is_done = matches!(outcome, Ok(true));
        let fruitless = (!is_done).then(|| (Instant::now(), outcome.clone()));
        self.state(|state| state.fruitless = fruitless);
        match &outcome {
            Err(error) if self.state(|state| state.was_shown) => {
                self.store.note_failure(error, limits::LOGIN_PAUSE);
            }
            Err(_) | Ok(false) => {}
            Ok(true) => self.store.forget_failure(),
        }
        outcome
    }

    /// For those who come after a login that nobody has seen the end of.
    pub(super) fn given_up(&self) -> Error {
        let message = format!("A login to {} was begun and given up", shown(&self.server));
        Error::new(Kind::Login, message).hint("Try again in a minute").not_delivered()
    }

    async fn try_login(&self, challenge: Option<&Challenge>) -> Result<bool, Error> {
        self.state(|state| state.was_shown = false);
        if self.store.probe().await? && self.reread(&self.kept()) {
            return Ok(true);
        }
        let (kept, given) = (self.kept(), &self.settings.given);
        let known = kept.issuer.as_deref();
        let Some(authority) = self.authority(challenge, known).await? else { return Ok(false) };
        let challenge = challenge.cloned().unwrap_or_default();
        let kept = self.kept_for(&authority, kept)?;
        let before = kept.token.as_ref().and_then(|token| token.scope.as_deref());
        let scopes = Scopes::choose(self.settings.scope.as_deref(), before, &challenge, &authority);
        let scope = scopes.text();
        let endpoint =
            self.endpoint(&authority.metadata.token_endpoint, &given.token_url, "tokens")?;
        let obtained = self.obtain(&authority, &kept, &endpoint, scope.as_deref()).await;
        let (identity, token) = match obtained {
            Ok(obtained) => obtained,
            Err(error) if authority.is_guess && !self.state(|state| state.was_shown) => {
                debug!("the server knows of no logins, after all: {error}");
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        self.state(|state| {
            state.unrenewed = None;
            state.anew = Some(Instant::now());
            state.looked = None;
        });
        let holder = Some(Holder { id: identity.id.clone(), proof: identity.proof });
        let is_configured = identity::is_configured(&self.settings, &identity.id);
        self.keep_alone(Kept {
            issuer: Some(authority.issuer.clone()),
            identity: if is_configured { kept.identity } else { Some(identity) },
            holder,
            token: Some(token),
            token_endpoint: Some(endpoint.to_string()),
            revocation_endpoint: authority.metadata.revocation_endpoint.clone(),
            resource: self.resource(&authority).map(str::to_owned),
            without_resource: self.refuses_resource(),
            near: Some(self.web.near()),
        })
        .await;
        Ok(true)
    }

    async fn obtain(
        &self,
        authority: &Authority,
        kept: &Kept,
        endpoint: &Url,
        scope: Option<&str>,
    ) -> Result<(Identity, Token), Error> {
        if self.settings.grant == Grant::ClientCredentials {
            return self.as_client(authority, endpoint, scope).await;
        }
        let given = self.by_what_was_given(authority, kept, endpoint, scope).await?;
        if let Some(obtained) = given {
            return Ok(obtained);
        }
        self.check_person()?;
        match self.settings.grant {
            Grant::DeviceCode => self.by_device(authority, kept, endpoint, scope).await,
            _ => self.by_code(authority, kept, endpoint, scope).await,
        }
    }

    async fn as_client(
        &self,
        authority: &Authority,
        endpoint: &Url,
        scope: Option<&str>,
    ) -> Result<(Identity, Token), Error> {
        let Some(identity) = identity::configured(&self.settings, &authority.metadata) else {
            let message = "A login as a client needs the client's id";
            let hint = "Give it with --oauth-client-id, and its secret or key";
            return Err(Error::new(Kind::Login, message).hint(hint).not_delivered());
        };
        let request =
            self.request(endpoint, &identity, &authority.issuer, self.resource(authority), scope);
        let token = request.send(self.client_form(scope)).await.map_err(Refusal::into_error)?;
        Ok((identity, token))
    }

    /// What a client that logs in by itself asks with.
    pub(super) fn client_form(&self, scope: Option<&str>) -> Form {
        let mut form = vec![("grant_type", "client_credentials".to_owned())];
        form.extend(scope.map(|scope| ("scope", scope.to_owned())));
        let audience = self.settings.given.audience.clone();
        form.extend(audience.map(|audience| ("audience", audience)));
        form
    }

    pub(super) fn resource<'a>(&self, authority: &'a Authority) -> Option<&'a str> {
        let is_told = self.settings.send_resource && !self.refuses_resource();
        authority.resource.as_deref().filter(|_| is_told)
    }

    pub(super) fn refuses_resource(&self) -> bool {
        self.refuses_resource.load(Ordering::Relaxed)
    }

    pub(super) fn request<'a>(
        &'a self,
        endpoint: &'a Url,
        identity: &'a Identity,
        issuer: &'a str,
        resource: Option<&'a str>,
        scope: Option<&'a str>,
    ) -> TokenRequest<'a> {
        let key = self.settings.private_key.as_ref();
        let params = &self.settings.given.token_params;
        let (web, refuses_resource) = (&self.web, &self.refuses_resource);
        TokenRequest {
            web,
            endpoint,
            identity,
            key,
            issuer,
            resource,
            refuses_resource,
            scope,
            params,
        }
    }
}
