//! The login itself: who gives out tokens, who we are, a person's consent, and the token.

use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tracing::debug;
use url::Url;

use super::authority::Authority;
use super::callback_server::CallbackServer;
use super::challenge::Challenge;
use super::grant::{Refusal, TokenRequest};
use super::identity::{self, Identity};
use super::kept::{Holder, Kept};
use super::pages::About;
use super::pause::Failed;
use super::process::LoginError;
use super::scope::Scopes;
use super::store_lock::Lock;
use super::token::Token;
use super::web::Form;
use super::{Grant, OAuth, Settings, pkce};
use crate::error::{Error, Kind};
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

/// Why there is no token.
#[derive(Debug)]
pub(super) struct Unsuccessful {
    pub(super) error: Box<Error>,
    /// The person or the provider said no.
    pub(super) is_refusal: bool,
}

impl Unsuccessful {
    pub(super) fn refused(error: Error) -> Self {
        Self { error: error.into(), is_refusal: true }
    }
}

impl From<Error> for Unsuccessful {
    fn from(error: Error) -> Self {
        Self { error: error.into(), is_refusal: false }
    }
}

impl From<Refusal> for Unsuccessful {
    fn from(refusal: Refusal) -> Self {
        let is_refusal = !matches!(refusal, Refusal::Unanswered(_));
        Self { error: refusal.into_error().into(), is_refusal }
    }
}

impl OAuth {
    /// Gets a token from the beginning. After one that came to nothing there is a pause. `false`: the
    /// server knows of no logins.
    pub(super) async fn login(
        &self,
        challenge: Option<&Challenge>,
        lock: Lock,
    ) -> Result<bool, Error> {
        let fruitless = self.state(|state| state.fruitless.clone());
        if let Some((at, outcome)) = fruitless
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
            state.fruitless = Some((Instant::now(), Err(self.given_up())));
        });
        let outcome = self.try_login(challenge, lock).await;
        let is_done = matches!(outcome, Ok(true));
        // One that was broken off may be begun again at once.
        let is_final = !is_done && !matches!(&outcome, Err(failure) if failure.is_broken_off());
        let outcome = outcome.map_err(LoginError::into_error);
        let fruitless = is_final.then(|| (Instant::now(), outcome.clone()));
        self.state(|state| state.fruitless = fruitless);
        if is_done {
            traffic::logged_in(&self.server);
            self.store.forget_failure();
        }
        outcome
    }

    /// For those who come after a login that nobody has seen the end of.
    pub(super) fn given_up(&self) -> Error {
        let message = format!("A login to {} was begun and given up", shown(&self.server));
        Error::new(Kind::Login, message).hint("Try again in a minute").not_delivered()
    }

    async fn try_login(
        &self,
        challenge: Option<&Challenge>,
        lock: Lock,
    ) -> Result<bool, LoginError> {
        self.state(|state| state.was_shown = false);
        if self.store.probe().await? && self.reread(&self.kept().await).await {
            return Ok(true);
        }
        let Some(plan) = self.plan(challenge).await? else { return Ok(false) };
        traffic::login_begun(&self.server);
        let failed = match self.without_person(&plan).await {
            Ok(Some((identity, token))) => {
                self.keep_login(&plan, identity, token).await;
                return Ok(true);
            }
            Ok(None) => {
                self.check_person()?;
                match self.ask_person(&plan, lock).await? {
                    Ok(()) => {
                        self.note_login();
                        return Ok(true);
                    }
                    Err(failed) => failed,
                }
            }
            Err(Unsuccessful { error, is_refusal }) => {
                Failed { error: *error, is_refusal, was_shown: false }
            }
        };
        if plan.authority.is_guess && !failed.was_shown {
            debug!("the server knows of no logins, after all: {}", failed.error);
            return Ok(false);
        }
        Err(failed.error.into())
    }

    /// Finds out all that a login needs but a person. `None`: the server knows of no logins.
    async fn plan(&self, challenge: Option<&Challenge>) -> Result<Option<Plan>, Error> {
        let (kept, given) = (self.kept().await, &self.settings.given);
        let known = kept.issuer.as_deref();
        let Some(authority) = self.authority(challenge, known).await? else { return Ok(None) };
        let challenge = challenge.cloned().unwrap_or_default();
        let kept = self.kept_for(&authority, kept)?;
        let before = kept.token.as_ref().and_then(|token| token.scope.as_deref());
        let scopes = Scopes::choose(before, &challenge, &authority, &self.settings);
        let token_endpoint =
            self.endpoint(&authority.metadata.token_endpoint, &given.token_url, "tokens")?;
        let (id, scope) = (pkce::random()?, scopes.text());
        let is_step_up = challenge.wants_more_scope();
        Ok(Some(Plan { id, authority, token_endpoint, scope, is_step_up }))
    }

    /// A token for which nobody need be asked.
    async fn without_person(&self, plan: &Plan) -> Result<Option<(Identity, Token)>, Unsuccessful> {
        let (authority, endpoint) = (&plan.authority, &plan.token_endpoint);
        let scope = plan.scope.as_deref();
        if self.settings.grant == Grant::ClientCredentials {
            return Ok(Some(self.as_client(authority, endpoint, scope).await?));
        }
        let kept = self.kept_for(authority, self.kept().await)?;
        Ok(self.by_what_was_given(authority, &kept, endpoint, scope).await?)
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
            Err(Unsuccessful { error, is_refusal }) => {
                let reason = match &error.reason {
                    Some(reason) => format!("{}: {reason}", error.message),
                    None => error.message.clone(),
                };
                // The page names the server anyway.
                let reason = reason.strip_prefix(&self.refusal_start()).unwrap_or(&reason);
                let page = if is_refusal { about.refused(reason) } else { about.failed(reason) };
                let was_shown = self.state(|state| state.was_shown);
                // Where nobody was asked, nobody is bothered by the next try.
                let is_refusal = is_refusal && was_shown;
                let failed = Failed { error: *error, is_refusal, was_shown };
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
    ) -> Result<(Identity, Token), Unsuccessful> {
        let kept = self.kept_for(&plan.authority, self.kept().await)?;
        match self.settings.grant {
            Grant::DeviceCode => self.by_device(plan, &kept).await,
            _ => self.by_code(plan, &kept, browser).await,
        }
    }

    pub(super) fn about(&self, authority: &Authority) -> About {
        let Settings { given, profile, send_resource, .. } = &self.settings;
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
    async fn keep_login(&self, plan: &Plan, identity: Identity, token: Token) {
        self.note_login();
        let Plan { authority, token_endpoint, .. } = plan;
        // It was checked before anybody was asked.
        let kept = self.kept_for(authority, self.kept().await).unwrap_or_default();
        let holder = Some(Holder { id: identity.id.clone(), proof: identity.proof });
        let is_configured = identity::is_configured(&self.settings, &identity.id);
        self.keep_alone(Kept {
            issuer: Some(authority.issuer.clone()),
            identity: if is_configured { kept.identity } else { Some(identity) },
            holder,
            token: Some(token),
            token_endpoint: Some(token_endpoint.to_string()),
            revocation_endpoint: authority.metadata.revocation_endpoint.clone(),
            resource: self.resource(authority).map(str::to_owned),
            without_resource: self.refuses_resource(),
            near: Some(self.web.near()),
            ..Kept::default()
        })
        .await;
    }

    async fn as_client(
        &self,
        authority: &Authority,
        endpoint: &Url,
        scope: Option<&str>,
    ) -> Result<(Identity, Token), Unsuccessful> {
        let Some(identity) = identity::configured(&self.settings, &authority.metadata) else {
            let message = "A login as a client needs the client's id";
            let hint = "Give it with --oauth-client-id, and its secret or key";
            return Err(Error::new(Kind::Login, message).hint(hint).not_delivered().into());
        };
        let request =
            self.request(endpoint, &identity, &authority.issuer, self.resource(authority), scope);
        let token = request.send(self.client_form(scope)).await?;
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
