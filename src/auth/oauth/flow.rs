//! The login itself: who gives out tokens, who we are, a person's consent, and the token.

use std::sync::atomic::Ordering;

use tokio::time::{Instant, timeout};
use tracing::debug;
use url::Url;

use super::challenge::Challenge;
use super::discovery::{self, Authority};
use super::grant::{Refusal, TokenRequest};
use super::identity::{self, Identity};
use super::loopback::{Callback, Loopback};
use super::metadata::Issuer;
use super::scope::Scopes;
use super::store::{Holder, Kept};
use super::token::Token;
use super::{Grant, OAuth, pkce, said};
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
        // Noted before anybody is asked: whoever waits for it may be gone before it ends.
        let message = format!("A login to {} was begun and given up", shown(&self.server));
        let given_up = Error::new(Kind::Login, message).hint("Try again in a minute");
        self.state(|state| {
            state.logins.note(Instant::now());
            state.fruitless = Some((Instant::now(), Err(given_up.not_delivered())));
        });
        let outcome = self.try_login(challenge).await;
        let is_done = matches!(outcome, Ok(true));
        let fruitless = (!is_done).then(|| (Instant::now(), outcome.clone()));
        self.state(|state| state.fruitless = fruitless);
        outcome
    }

    async fn try_login(&self, challenge: Option<&Challenge>) -> Result<bool, Error> {
        self.state(|state| state.was_shown = false);
        let kept = self.kept();
        let known = kept.issuer.as_deref();
        let finding = discovery::find(&self.web, &self.server, challenge, known);
        let found = timeout(limits::DISCOVERY_WAIT, finding).await.unwrap_or_else(|_| {
            let message =
                format!("{} does not say in time who gives out tokens", shown(&self.server));
            Err(Error::new(Kind::Login, message).not_delivered())
        })?;
        let Some(authority) = found else { return Ok(false) };
        let challenge = challenge.cloned().unwrap_or_default();
        // What another authorization server gave us is nobody else's business.
        let kept = match &kept.issuer {
            Some(issuer) if *issuer != authority.issuer => {
                self.refuses_resource.store(false, Ordering::Relaxed);
                Kept::default()
            }
            _ => kept,
        };
        let before = kept.token.as_ref().and_then(|token| token.scope.as_deref());
        let scopes = Scopes::choose(self.settings.scope.as_deref(), before, &challenge, &authority);
        let scope = scopes.text();
        let endpoint =
            Issuer::endpoint(authority.metadata.token_endpoint.as_ref(), "tokens", &self.server)?;
        let obtained = match self.settings.grant {
            Grant::Code => self.by_code(&authority, &kept, &endpoint, scope.as_deref()).await,
            Grant::ClientCredentials => {
                self.as_client(&authority, &endpoint, scope.as_deref()).await
            }
        };
        let (identity, token) = match obtained {
            Ok(obtained) => obtained,
            Err(error) if authority.is_guess && !self.state(|state| state.was_shown) => {
                debug!("the server knows of no logins, after all: {error}");
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        self.state(|state| state.unrenewed = None);
        let holder = Some(Holder { id: identity.id.clone(), proof: identity.proof });
        let is_configured = identity::is_configured(&self.settings, &identity.id);
        self.keep(Kept {
            issuer: Some(authority.issuer.clone()),
            identity: if is_configured { kept.identity } else { Some(identity) },
            holder,
            token: Some(token),
            token_endpoint: Some(endpoint.to_string()),
            revocation_endpoint: authority.metadata.revocation_endpoint.clone(),
            resource: self.resource(&authority).map(str::to_owned),
            without_resource: self.refuses_resource(),
            near: Some(self.web.near()),
        });
        Ok(true)
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
        let mut form = vec![("grant_type", "client_credentials".to_owned())];
        form.extend(scope.map(|scope| ("scope", scope.to_owned())));
        let token = request.send(form).await.map_err(Refusal::into_error)?;
        Ok((identity, token))
    }

    async fn by_code(
        &self,
        authority: &Authority,
        kept: &Kept,
        endpoint: &Url,
        scope: Option<&str>,
    ) -> Result<(Identity, Token), Error> {
        authority.metadata.check_pkce()?;
        let (loopback, identity) = self.introduce(authority, kept).await?;
        let redirect = loopback.redirect();
        let mut consent = self.consent(authority, &identity, &loopback, scope).await?;
        if self.resource(authority).is_some() && consent.callback.rejects_resource() {
            debug!("the provider does not want to know what the token is for: asked without it");
            self.refuses_resource.store(true, Ordering::Relaxed);
            consent = self.consent(authority, &identity, &loopback, scope).await?;
        }
        let (code, verifier) = (self.code(consent.callback)?, consent.verifier);
        let request =
            self.request(endpoint, &identity, &authority.issuer, self.resource(authority), scope);
        let form = vec![
            ("grant_type", "authorization_code".to_owned()),
            ("code", code),
            ("redirect_uri", redirect),
            ("code_verifier", verifier),
        ];
        match request.send(form).await {
            Ok(token) => Ok((identity, token)),
            Err(Refusal::Client(error)) => {
                self.forget_client(&identity.id);
                Err(error)
            }
            Err(refusal) => Err(refusal.into_error()),
        }
    }

    /// Asks a person, and waits for the answer that the browser brings back.
    async fn consent(
        &self,
        authority: &Authority,
        identity: &Identity,
        loopback: &Loopback,
        scope: Option<&str>,
    ) -> Result<Consent, Error> {
        let (state, verifier) = (pkce::random()?, pkce::random()?);
        let proof = (&*state, &*pkce::challenge(&verifier));
        let page = self.page(authority, identity, &loopback.redirect(), scope, proof)?;
        (self.settings.show)(&page);
        self.state(|state| state.was_shown = true);
        let _note = self.store.note_page(&page);
        let _over = self.pending_at(&page);
        let Ok(callback) = timeout(limits::LOGIN_WAIT, loopback.wait(&state)).await else {
            let message = format!("Nobody has logged in to {} in time", shown(&self.server));
            return Err(Error::new(Kind::Login, message).not_delivered());
        };
        check_origin(authority, &callback)?;
        Ok(Consent { callback, verifier })
    }

    /// Who we are, and where the browser comes back to. A client that was registered keeps its port:
    /// many a provider compares redirect addresses to the letter.
    async fn introduce(
        &self,
        authority: &Authority,
        kept: &Kept,
    ) -> Result<(Loopback, Identity), Error> {
        let (settings, metadata) = (&self.settings, &authority.metadata);
        let wanted = settings.callback_port;
        if let Some(identity) = identity::configured(settings, metadata) {
            return Ok((Loopback::open(wanted).await?, identity));
        }
        let registered = kept.identity.as_ref();
        let fits = |identity: &&Identity| {
            wanted.is_none() || identity.port.is_none() || identity.port == wanted
        };
        if let Some(identity) = registered.filter(fits) {
            match Loopback::open(wanted.or(identity.port)).await {
                Ok(loopback) => return Ok((loopback, identity.clone())),
                Err(error) if wanted.is_some() => return Err(error),
                Err(error) => debug!("the client has to be registered anew: {error}"),
            }
        }
        let loopback = Loopback::open(wanted).await?;
        let redirect = loopback.redirect();
        let identity =
            identity::choose(settings, metadata, &self.web, &self.server, &redirect).await?;
        Ok((loopback, identity))
    }

    /// The page for the person.
    fn page(
        &self,
        authority: &Authority,
        identity: &Identity,
        redirect: &str,
        scope: Option<&str>,
        (state, challenge): (&str, &str),
    ) -> Result<Url, Error> {
        let place = authority.metadata.authorization_endpoint.as_ref();
        let mut page = Issuer::endpoint(place, "a login", &self.server)?;
        {
            let mut query = page.query_pairs_mut();
            query
                .append_pair("response_type", "code")
                .append_pair("client_id", &identity.id)
                .append_pair("redirect_uri", redirect)
                .append_pair("state", state)
                .append_pair("code_challenge", challenge)
                .append_pair("code_challenge_method", "S256");
            if let Some(scope) = scope {
                query.append_pair("scope", scope);
            }
            if scope.is_some_and(|scope| scope.split(' ').any(|scope| scope == "offline_access")) {
                // OpenID wants it for a refresh token.
                query.append_pair("prompt", "consent");
            }
            if let Some(resource) = self.resource(authority) {
                query.append_pair("resource", resource);
            }
        }
        Ok(page)
    }

    fn code(&self, callback: Callback) -> Result<String, Error> {
        if let Some(error) = callback.error {
            let said = said(&callback.description.unwrap_or(error));
            let message = format!("The login to {} was refused: {said}", shown(&self.server));
            return Err(Error::new(Kind::Login, message).not_delivered());
        }
        callback.code.ok_or_else(|| {
            Error::new(Kind::Login, "The login brought no code back").not_delivered()
        })
    }

    fn resource<'a>(&self, authority: &'a Authority) -> Option<&'a str> {
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
        let (web, refuses_resource) = (&self.web, &self.refuses_resource);
        TokenRequest { web, endpoint, identity, key, issuer, resource, refuses_resource, scope }
    }
}

/// What a person has agreed to.
struct Consent {
    callback: Callback,
    /// Proves that whoever has the code has asked for it.
    verifier: String,
}

/// The browser must come from where we sent it (RFC 9207).
fn check_origin(authority: &Authority, callback: &Callback) -> Result<(), Error> {
    let expected = authority.metadata.issuer.as_deref().unwrap_or(&authority.issuer);
    let is_promised = authority.metadata.authorization_response_iss_parameter_supported;
    let is_wrong = match &callback.issuer {
        Some(issuer) => issuer != expected,
        None => is_promised,
    };
    if is_wrong {
        let message =
            "The answer to the login does not come from the authorization server that was asked";
        return Err(Error::new(Kind::Login, message).not_delivered());
    }
    Ok(())
}
