//! The login itself: who gives out tokens, who we are, a person's consent, and the token.

use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tracing::debug;
use url::Url;

use super::challenge::Challenge;
use super::discovery::{self, Authority};
use super::grant::{Refusal, TokenRequest};
use super::identity::{self, Identity, Purpose};
use super::loopback::{Callback, Loopback};
use super::metadata::Issuer;
use super::scope::Scopes;
use super::store::Kept;
use super::token::Token;
use super::{Grant, OAuth, Prompt, pkce};
use crate::error::{Error, Kind};
use crate::limits;
use crate::message::edit;
use crate::secret::shown;

/// However a login ends, it is no longer waited for.
pub(super) struct Over<'a>(pub(super) &'a watch::Sender<Option<String>>);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.send_replace(None);
    }
}

impl OAuth {
    /// Renews the token. `false`: the provider does not renew it, and a login is needed.
    pub(super) async fn refresh(&self) -> Result<bool, Error> {
        let kept = self.kept();
        let (Some(identity), Some(token), Some(endpoint)) =
            (&kept.identity, &kept.token, &kept.token_endpoint)
        else {
            return Ok(false);
        };
        let (Some(refresh), Ok(endpoint)) = (&token.refresh, Url::parse(endpoint)) else {
            return Ok(false);
        };
        let issuer = kept.issuer.clone().unwrap_or_default();
        let request = self.request(
            &endpoint,
            identity,
            &issuer,
            kept.resource.as_deref(),
            token.scope.as_deref(),
        );
        let form = vec![
            ("grant_type", "refresh_token".to_owned()),
            ("refresh_token", refresh.reveal().to_owned()),
        ];
        match request.send(form).await {
            Ok(renewed) => {
                debug!("the token was renewed");
                let token = Some(renewed.or_refresh_of(token));
                self.keep(Kept { token, ..kept });
                Ok(true)
            }
            Err(Refusal::Grant(error)) => {
                debug!("the refresh token is no good any more: {error}");
                self.keep(Kept { token: None, ..kept });
                Ok(false)
            }
            Err(Refusal::Client(error)) => {
                debug!("the client is not known any more: {error}");
                self.keep(Kept { token: None, identity: None, ..kept });
                Ok(false)
            }
            Err(Refusal::Other(error)) => Err(error),
        }
    }

    /// Gets a token from the beginning. After one that came to nothing there is a pause. `false`: the
    /// server knows of no logins.
    pub(super) async fn login(&self, challenge: Option<&Challenge>) -> Result<bool, Error> {
        let failed = self.state(|state| state.failed.clone());
        if let Some((at, error)) = failed
            && at.elapsed() < limits::LOGIN_PAUSE
        {
            return Err(error);
        }
        let outcome = self.try_login(challenge).await;
        let failed = outcome.as_ref().err().map(|error| (Instant::now(), error.clone()));
        self.state(|state| {
            state.failed = failed;
            state.logins.push(Instant::now());
        });
        outcome
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
        // What another authorization server gave us is nobody else's business.
        let kept = match &kept.issuer {
            Some(issuer) if *issuer != authority.issuer => Kept::default(),
            _ => kept,
        };
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
        self.keep(Kept {
            issuer: Some(authority.issuer.clone()),
            identity: Some(identity),
            token: Some(token),
            token_endpoint: Some(endpoint.to_string()),
            revocation_endpoint: authority.metadata.revocation_endpoint.clone(),
            resource: self.resource(&authority).map(str::to_owned),
        });
        Ok(true)
    }

    /// Who gives out tokens: given, or found.
    pub(super) async fn authority(
        &self,
        challenge: Option<&Challenge>,
        known: Option<&str>,
    ) -> Result<Option<Authority>, Error> {
        let given = &self.settings.given;
        if let Some(authority) = given.authority(self.settings.grant != Grant::ClientCredentials) {
            return Ok(Some(authority));
        }
        let finding = discovery::find(&self.web, &self.server, challenge, known);
        let found = timeout(limits::DISCOVERY_WAIT, finding).await.unwrap_or_else(|_| {
            let message =
                format!("{} does not say in time who gives out tokens", shown(&self.server));
            Err(Error::new(Kind::Login, message).not_delivered())
        });
        // Where nothing is found, what is given may be enough.
        let found = match (found, given.authority(false)) {
            (Ok(Some(found)), _) => Some(found),
            (_, Some(given)) => Some(given),
            (found, None) => found?,
        };
        Ok(found.map(|mut authority| {
            given.amend(&mut authority);
            authority
        }))
    }

    /// An endpoint: the one that the user gives is the user's to choose, any other is checked.
    fn endpoint(
        &self,
        found: &Option<String>,
        given: &Option<Url>,
        what: &str,
    ) -> Result<Url, Error> {
        match given {
            Some(given) => Ok(given.clone()),
            None => Issuer::endpoint(found.as_ref(), what, &self.server),
        }
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
        let mut form = vec![("grant_type", "client_credentials".to_owned())];
        form.extend(scope.map(|scope| ("scope", scope.to_owned())));
        let audience = self.settings.given.audience.clone();
        form.extend(audience.map(|audience| ("audience", audience)));
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
        let (state, verifier) = (pkce::random()?, pkce::random()?);
        let page = self.page(
            authority,
            &identity,
            &redirect,
            scope,
            (&state, &pkce::challenge(&verifier)),
        )?;
        let prompt = Prompt::Browser(page);
        (self.settings.show)(&prompt);
        self.state(|state| state.was_shown = true);
        self.pending.send_replace(Some(prompt.to_string()));
        let _over = Over(&self.pending);
        let coming_back = async {
            match &self.settings.paste {
                Some(paste) => paste.wait(loopback, &state).await,
                None => Ok(loopback.wait(&state).await),
            }
        };
        let Ok(callback) = timeout(self.settings.login_wait, coming_back).await else {
            let message = format!("Nobody has logged in to {} in time", shown(&self.server));
            return Err(Error::new(Kind::Login, message).not_delivered());
        };
        let code = self.code(authority, callback?)?;
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
                // The next login begins with another registration.
                self.keep(Kept { identity: None, ..self.kept() });
                Err(error)
            }
            Err(refusal) => Err(refusal.into_error()),
        }
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
            return Ok((self.listen(wanted).await?, identity));
        }
        let registered = kept.identity.as_ref();
        let fits = |identity: &&Identity| {
            wanted.is_none() || identity.port.is_none() || identity.port == wanted
        };
        let registered = registered.filter(|identity| identity.only.is_none());
        if let Some(identity) = registered.filter(fits) {
            match self.listen(wanted.or(identity.port)).await {
                Ok(loopback) => return Ok((loopback, identity.clone())),
                Err(error) if wanted.is_some() => return Err(error),
                Err(error) => debug!("the client has to be registered anew: {error}"),
            }
        }
        let loopback = self.listen(wanted).await?;
        let redirect = loopback.redirect();
        let purpose = Purpose::Redirect(&redirect);
        let identity =
            identity::choose(settings, metadata, &self.web, &self.server, purpose).await?;
        Ok((loopback, identity))
    }

    async fn listen(&self, port: Option<u16>) -> Result<Loopback, Error> {
        Ok(Loopback::open(port).await?.known_as(&self.settings.callback))
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
        let given = &self.settings.given;
        let place = &authority.metadata.authorization_endpoint;
        let mut page = self.endpoint(place, &given.authorization_url, "a login")?;
        let is_free = |name: &str| !given.page_params.iter().any(|(given, _)| given == name);
        {
            let mut query = page.query_pairs_mut();
            query
                .append_pair("response_type", "code")
                .append_pair("client_id", &identity.id)
                .append_pair("redirect_uri", redirect)
                .append_pair("state", state)
                .append_pair("code_challenge", challenge)
                .append_pair("code_challenge_method", "S256");
            if let Some(scope) = scope.filter(|_| is_free("scope")) {
                query.append_pair("scope", scope);
            }
            let wants_offline = |scope: &str| scope.split(' ').any(|s| s == "offline_access");
            if scope.is_some_and(wants_offline) && is_free("prompt") {
                // OpenID wants it for a refresh token.
                query.append_pair("prompt", "consent");
            }
            if let Some(resource) = self.resource(authority).filter(|_| is_free("resource")) {
                query.append_pair("resource", resource);
            }
            query.extend_pairs(&given.page_params);
        }
        Ok(page)
    }

    /// The code, if the browser comes from where we sent it (RFC 9207).
    fn code(&self, authority: &Authority, callback: Callback) -> Result<String, Error> {
        let expected = authority.metadata.issuer.as_deref().unwrap_or(&authority.issuer);
        let is_promised = authority.metadata.authorization_response_iss_parameter_supported;
        let is_wrong = match &callback.issuer {
            Some(issuer) => issuer != expected,
            None => is_promised,
        };
        if is_wrong {
            let message = "The answer to the login does not come from the authorization server that was asked";
            return Err(Error::new(Kind::Login, message).not_delivered());
        }
        if let Some(error) = callback.error {
            let said = callback.description.unwrap_or(error);
            let said: String = said.chars().filter(|c| !c.is_control()).collect();
            let said = edit::excerpt(&said, limits::LOGIN_TEXT);
            let message = format!("The login to {} was refused: {said}", shown(&self.server));
            return Err(Error::new(Kind::Login, message).not_delivered());
        }
        callback.code.ok_or_else(|| {
            Error::new(Kind::Login, "The login brought no code back").not_delivered()
        })
    }

    pub(super) fn resource<'a>(&self, authority: &'a Authority) -> Option<&'a str> {
        authority.resource.as_deref().filter(|_| self.settings.send_resource)
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
        TokenRequest { web: &self.web, endpoint, identity, key, issuer, resource, scope, params }
    }
}
