//! The login itself: who gives out tokens, who we are, a person's consent, and the token.

use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tracing::debug;
use url::Url;

use super::authority::Authority;
use super::callback_server::CallbackServer;
use super::challenge::Challenge;
use super::grant::{TokenRefusal, TokenRequest};
use super::identity::{self, ClientIdentity, Only, Purpose};
use super::kept::{Holder, StoredLogin};
use super::pages::About;
use super::pause::{Failed, How};
use super::scope::Scopes;
use super::store_lock::Lock;
use super::token::Token;
use super::web::Form;
use super::words::login_error;
use super::{Grant, OAuth, OAuthSettings, pkce};
use crate::error::Error;
use crate::limits;
use crate::secret::shown;
use crate::traffic;

/// What is known before a person is asked.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Plan {
    /// The name of this login.
    pub(super) id: String,
    pub(super) authority: Authority,
    pub(super) token_endpoint: Url,
    pub(super) scope: Option<String>,
    /// There is a token, but it is not good for enough.
    pub(super) is_step_up: bool,
}

impl OAuth {
    /// Gets a token from the beginning. After one that came to nothing there is a pause. `false`: the
    /// server knows of no logins.
    pub(super) async fn login(
        &self,
        challenge: Option<&Challenge>,
        lock: Lock,
    ) -> Result<bool, Error> {
        let last_failure = self.state(|state| state.last_failure.clone());
        if let Some((at, outcome)) = last_failure
            && at.elapsed() < limits::LOGIN_PAUSE
        {
            return outcome;
        }
        if let Some(error) = self.store.refusal().filter(|_| self.asks_a_person()) {
            return Err(error);
        }
        // Noted before anybody is asked: whoever waits for it may be gone before it ends.
        self.state(|state| {
            if self.asks_a_person() {
                state.logins.note(Instant::now());
            }
            state.last_failure = Some((Instant::now(), Err(self.given_up())));
        });
        let outcome = self.try_login(challenge, lock).await;
        // One that was broken off may be begun again at once.
        let needs_pause = !matches!(outcome, Ok(true) | Err(Failed { how: How::BrokenOff, .. }));
        let outcome = outcome.map_err(|failed| *failed.error);
        let last_failure = needs_pause.then(|| (Instant::now(), outcome.clone()));
        self.state(|state| state.last_failure = last_failure);
        if let Ok(true) = outcome {
            traffic::logged_in(&self.server);
            self.store.forget_failure();
        }
        outcome
    }

    /// For those who come after a login that nobody has seen the end of.
    fn given_up(&self) -> Error {
        login_error(format!("A login to {} was begun and given up", shown(&self.server)))
            .hint("Try again in a minute")
    }

    async fn try_login(&self, challenge: Option<&Challenge>, lock: Lock) -> Result<bool, Failed> {
        if self.store.probe().await? && self.held.look().await {
            return Ok(true);
        }
        let Some(plan) = self.plan(challenge).await? else { return Ok(false) };
        traffic::login_begun(&self.server);
        let outcome = match self.without_person(&plan).await {
            Ok(Some((identity, token))) => {
                self.keep_login(&plan, identity, token).await;
                Ok(())
            }
            Ok(None) => {
                self.check_person()?;
                self.ask_person(&plan, lock).await
            }
            Err(error) => Err(error.into()),
        };
        match outcome {
            Ok(()) => self.note_login(),
            Err(Failed { error, how: How::Unasked }) if plan.authority.is_guess => {
                debug!("the server knows of no logins, after all: {error}");
                return Ok(false);
            }
            Err(failed) => return Err(failed),
        }
        Ok(true)
    }

    /// Finds out all that a login needs but a person. `None`: the server knows of no logins.
    async fn plan(&self, challenge: Option<&Challenge>) -> Result<Option<Plan>, Error> {
        let known = self.held.kept().await.issuer;
        let authority = self.authority(challenge, known.as_deref()).await?;
        let Some(authority) = authority else { return Ok(None) };
        let challenge = challenge.cloned().unwrap_or_default();
        let before = self.kept_for(&authority).await?.token.and_then(|token| token.scope);
        let scopes = Scopes::choose(before.as_deref(), &challenge, &authority, &self.settings);
        let (found, given) = (&authority.metadata.token_endpoint, &self.settings.given.token_url);
        Ok(Some(Plan {
            id: pkce::random()?,
            token_endpoint: self.endpoint(found, given, "tokens")?,
            authority,
            scope: scopes.text(),
            is_step_up: challenge.wants_more_scope(),
        }))
    }

    /// A token for which nobody need be asked.
    async fn without_person(&self, plan: &Plan) -> Result<Option<(ClientIdentity, Token)>, Error> {
        match self.settings.grant {
            Grant::ClientCredentials => self.as_client(plan).await.map(Some),
            Grant::Code | Grant::DeviceCode => self.by_what_was_given(plan).await,
        }
    }

    /// Asks a person, in this process, and keeps what comes of it. Only for whoever has the lock of
    /// logins.
    pub(super) async fn log_in_here(&self, plan: &Plan) -> Result<(), Failed> {
        let mut browser = None;
        let obtained = self.by_person(plan, &mut browser).await;
        let about = self.about(&plan.authority);
        let (outcome, page) = match obtained {
            Ok((identity, token)) => {
                let page = about.done(token.scope.as_deref(), token.refresh.is_some());
                self.keep_login(plan, identity, token).await;
                self.store.forget_failure();
                (Ok(()), page)
            }
            Err(failed) => {
                let Error { message, reason, .. } = &*failed.error;
                // The page names the server anyway.
                let message = message.strip_prefix(&self.refusal_start()).unwrap_or(message);
                let reason =
                    reason.iter().fold(message.to_owned(), |said, why| format!("{said}: {why}"));
                let is_refusal = failed.how == How::Refused;
                let page = if is_refusal { about.refused(&reason) } else { about.failed(&reason) };
                self.store.note_failure(&plan.id, &failed).await;
                (Err(failed), page)
            }
        };
        if let Some(browser) = browser {
            let onward = self.settings.success_url.as_ref().filter(|_| outcome.is_ok());
            browser.finish(page, onward).await;
        }
        outcome
    }

    async fn by_person(
        &self,
        plan: &Plan,
        browser: &mut Option<CallbackServer>,
    ) -> Result<(ClientIdentity, Token), Failed> {
        if self.settings.grant == Grant::DeviceCode {
            return self.by_device(plan).await;
        }
        let outcome = self.by_code(plan, browser).await;
        let was_asked = browser.as_ref().is_some_and(CallbackServer::was_visited);
        outcome.map_err(|failed| match failed.how {
            How::Unasked if was_asked => Failed::unfinished(*failed.error),
            _ => failed,
        })
    }

    pub(super) fn about(&self, authority: &Authority) -> About {
        let OAuthSettings { given, profile, send_resource, .. } = &*self.settings;
        let resource = given.resource.as_deref().filter(|_| *send_resource);
        let resource = resource.map(|text| Url::parse(text).map_or(text.to_owned(), |u| shown(&u)));
        About {
            server: shown(&self.server),
            issuer: authority.issuer.clone(),
            resource: resource.filter(|resource| !resource.is_empty()),
            profile: Some(profile.clone()).filter(|profile| !profile.is_empty()),
            login: self.login_command(),
            logout: self.logout_command(),
        }
    }

    /// What was wrong with earlier tokens says nothing about that of a login.
    fn note_login(&self) {
        self.state(|state| {
            state.unrenewed = None;
            state.anew = Some(Instant::now());
            state.looked = None;
        });
    }

    /// Keeps what a login has brought.
    async fn keep_login(&self, plan: &Plan, identity: ClientIdentity, token: Token) {
        self.note_login();
        let Plan { authority, token_endpoint, .. } = plan;
        // It was checked before anybody was asked.
        let kept = self.kept_for(authority).await.unwrap_or_default();
        let holder = Some(Holder { id: identity.id.clone(), proof: identity.proof });
        let is_configured = identity::is_configured(&self.settings, &identity.id);
        self.held
            .keep_alone(StoredLogin {
                issuer: Some(authority.issuer.clone()),
                identity: if is_configured { kept.identity } else { Some(identity) },
                holder,
                token: Some(token),
                token_endpoint: Some(token_endpoint.to_string()),
                revocation_endpoint: authority.metadata.revocation_endpoint.clone(),
                resource: self.resource(authority).map(str::to_owned),
                near: Some(self.web.near()),
                ..StoredLogin::default()
            })
            .await;
    }

    async fn as_client(&self, plan: &Plan) -> Result<(ClientIdentity, Token), Error> {
        let Some(identity) = identity::configured(&self.settings, &plan.authority.metadata) else {
            return Err(login_error("A login as a client needs the client's id")
                .hint("Give it with --oauth-client-id, and its secret or key"));
        };
        let form = self.client_form(plan.scope.as_deref());
        let sent = self.request_for(plan, &identity).send(form).await;
        let token = sent.map_err(TokenRefusal::into_error)?;
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
        self.held.refuses_resource()
    }

    /// A client that was registered on the spot for such logins.
    pub(super) async fn registered(
        &self,
        plan: &Plan,
        only: Option<Only>,
    ) -> Result<Option<ClientIdentity>, Error> {
        let registered = self.kept_for(&plan.authority).await?.identity;
        Ok(registered.filter(|identity| {
            let is_for_this = self.settings.client_id.is_none() && identity.only == only;
            is_for_this && identity.may_ask_for(plan.scope.as_deref())
        }))
    }

    /// Who we are to an authorization server that does not know us yet.
    pub(super) async fn choose_identity(
        &self,
        plan: &Plan,
        purpose: Purpose<'_>,
    ) -> Result<ClientIdentity, Error> {
        let (authority, scope) = (&plan.authority, plan.scope.as_deref());
        identity::choose(&self.settings, authority, &self.web, &self.server, purpose, scope).await
    }

    /// A question to the token endpoint, for the login of `plan`.
    pub(super) fn request_for<'a>(
        &'a self,
        plan: &'a Plan,
        identity: &'a ClientIdentity,
    ) -> TokenRequest<'a> {
        let Plan { authority, token_endpoint, scope, .. } = plan;
        let resource = self.resource(authority);
        self.request(token_endpoint, identity, &authority.issuer, resource, scope.as_deref())
    }

    pub(super) fn request<'a>(
        &'a self,
        endpoint: &'a Url,
        identity: &'a ClientIdentity,
        issuer: &'a str,
        resource: Option<&'a str>,
        scope: Option<&'a str>,
    ) -> TokenRequest<'a> {
        TokenRequest { oauth: self, endpoint, identity, issuer, resource, scope }
    }
}
