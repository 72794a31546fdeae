//! The login itself: who gives out tokens, who we are, a person's consent, and the token.

use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tracing::{debug, warn};
use url::Url;

use super::authority::Authority;
use super::challenge::Challenge;
use super::command_line::{login_command, logout_command};
use super::given::{CODE, REFRESH_TOKEN};
use super::grant::{TokenRefusal, TokenRequest};
use super::identity::{self, ClientIdentity, Only};
use super::pages::{Facts, Page};
use super::pause::{Failed, How};
use super::renewal::Cause;
use super::scope::Scopes;
use super::store_lock::Lock;
use super::token::Token;
use super::web::Form;
use super::words::{login_error, said};
use super::{Grant, OAuth, OAuthSettings, pkce};
use crate::error::Error;
use crate::limits;
use crate::secret::{Secret, shown};
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

/// One login on its way.
pub(super) struct LoginRun<'a> {
    pub(super) oauth: &'a OAuth,
    pub(super) plan: Plan,
}

/// Gets a token from the beginning. After one that came to nothing there is a pause. `false`: the
/// server knows of no logins.
pub(super) async fn log_in(
    oauth: &OAuth,
    challenge: Option<&Challenge>,
    lock: Lock,
) -> Result<bool, Error> {
    if let Some((at, outcome)) = oauth.state(|state| state.last_failure.clone())
        && at.elapsed() < limits::LOGIN_PAUSE
    {
        return outcome;
    }
    if let Some(error) = oauth.store.refusal().filter(|_| oauth.asks_a_person()) {
        return Err(error);
    }
    // Noted before anybody is asked: whoever waits for it may be gone before it ends.
    let given_up =
        login_error(format!("A login to {} was begun and given up", shown(&oauth.server)))
            .hint("Try again in a minute");
    oauth.state(|state| {
        if oauth.asks_a_person() {
            state.logins.note(Instant::now());
        }
        if Cause::of(challenge) == Cause::Scope {
            state.step_ups.note(Instant::now());
        }
        state.last_failure = Some((Instant::now(), Err(given_up)));
    });
    let outcome = try_login(oauth, challenge, lock).await;
    // One that was broken off may be begun again at once.
    let needs_pause = !matches!(outcome, Ok(true) | Err(Failed { how: How::BrokenOff, .. }));
    let outcome = outcome.map_err(|failed| *failed.error);
    let last_failure = needs_pause.then(|| (Instant::now(), outcome.clone()));
    oauth.state(|state| state.last_failure = last_failure);
    if let Ok(true) = outcome {
        traffic::logged_in(&oauth.server);
        oauth.store.forget_failure();
    }
    outcome
}

async fn try_login(
    oauth: &OAuth,
    challenge: Option<&Challenge>,
    lock: Lock,
) -> Result<bool, Failed> {
    if oauth.store.probe().await? && oauth.look().await {
        return Ok(true);
    }
    let Some(run) = LoginRun::plan(oauth, challenge).await? else { return Ok(false) };
    traffic::login_begun(&oauth.server);
    match run.obtain(lock).await {
        Ok(()) => run.note_done(),
        Err(Failed { error, how: How::Unasked }) if run.plan.authority.is_guess => {
            debug!("the server knows of no logins, after all: {error}");
            return Ok(false);
        }
        Err(failed) => return Err(failed),
    }
    Ok(true)
}

impl<'a> LoginRun<'a> {
    /// Finds out all that a login needs but a person. `None`: the server knows of no logins.
    async fn plan(oauth: &'a OAuth, challenge: Option<&Challenge>) -> Result<Option<Self>, Error> {
        let known = oauth.kept().await.issuer;
        let Some(authority) = Authority::of(oauth, challenge, known.as_deref()).await? else {
            return Ok(None);
        };
        let challenge = challenge.cloned().unwrap_or_default();
        let before = oauth.kept_for(&authority).await?.token.and_then(|token| token.scope);
        let scopes = Scopes::choose(before.as_deref(), &challenge, &authority, &oauth.settings);
        let (found, given) = (authority.metadata.token_endpoint.as_ref(), &oauth.settings.given);
        let plan = Plan {
            id: pkce::random()?,
            token_endpoint: given.endpoint(found, "tokens", &oauth.server)?,
            authority,
            scope: scopes.text(),
            is_step_up: challenge.wants_more_scope(),
        };
        Ok(Some(Self { oauth, plan }))
    }

    /// Gets a token and keeps it. A person is asked if there is no other way.
    async fn obtain(&self, lock: Lock) -> Result<(), Failed> {
        let without_person = match self.oauth.settings.grant {
            Grant::ClientCredentials => Some(self.as_client().await?),
            Grant::Code | Grant::DeviceCode => self.by_what_was_given().await?,
        };
        if let Some((identity, token)) = without_person {
            self.keep(identity, token).await;
            return Ok(());
        }
        if self.oauth.settings.given.no_person {
            let server = shown(&self.oauth.server);
            let message = format!("{server} wants a login, and nobody is to be asked for one");
            let hint = "Run 'mcp-span login' with the same arguments, or leave \
                        --oauth-no-interactive out";
            return Err(login_error(message).hint(hint).into());
        }
        self.ask_person(lock).await
    }

    /// Asks a person, in this process, and keeps what comes of it. Only for whoever has the lock of
    /// logins.
    pub(super) async fn ask_here(&self) -> Result<(), Failed> {
        let mut browser = None;
        let obtained = match self.oauth.settings.grant {
            Grant::DeviceCode => self.by_device().await,
            _ => self.by_code(&mut browser).await,
        };
        let facts = self.facts();
        let (outcome, page) = match obtained {
            Ok((identity, token)) => {
                let (scope, renews) = (token.scope.as_deref(), token.refresh.is_some());
                let page = Page::done(facts, scope, renews, &logout_command(self.oauth));
                self.keep(identity, token).await;
                self.oauth.store.forget_failure();
                (Ok(()), page)
            }
            Err(failed) => {
                let Error { message, reason, .. } = &*failed.error;
                // The page names the server anyway.
                let message = message.strip_prefix(&self.refusal_start()).unwrap_or(message);
                let reason =
                    reason.iter().fold(message.to_owned(), |said, why| format!("{said}: {why}"));
                let of_failure =
                    if failed.how == How::Refused { Page::refused } else { Page::failed };
                let page = of_failure(facts, &reason, &login_command(self.oauth));
                self.oauth.store.note_failure(&self.plan.id, &failed).await;
                (Err(failed), page)
            }
        };
        if let Some(browser) = browser {
            let onward = self.oauth.settings.success_url.as_ref().filter(|_| outcome.is_ok());
            browser.finish(page, onward).await;
        }
        outcome
    }

    /// What it is about, for its last page.
    fn facts(&self) -> Facts {
        let OAuthSettings { given, profile, send_resource, .. } = &self.oauth.settings;
        let resource = given.resource.as_deref().filter(|_| *send_resource).unwrap_or_default();
        let resource = Url::parse(resource).map_or(resource.to_owned(), |url| shown(&url));
        vec![
            ("Server", shown(&self.oauth.server)),
            ("Login by", self.plan.authority.issuer.clone()),
            ("Resource", said(&resource)),
            ("Profile", said(profile)),
        ]
    }

    /// What was wrong with earlier tokens says nothing about that of a login.
    fn note_done(&self) {
        self.oauth.state(|state| {
            state.unrenewed = None;
            state.anew = Some(Instant::now());
            state.looked = None;
        });
    }

    /// Keeps what the login has brought.
    async fn keep(&self, identity: ClientIdentity, token: Token) {
        self.note_done();
        let Plan { authority, token_endpoint, .. } = &self.plan;
        let endpoint = Some(token_endpoint.to_string());
        self.oauth.keep_login(Some(authority), Some(identity), token, endpoint).await;
    }

    /// A token by what was given, if that is still good for anything.
    pub(super) async fn by_what_was_given(&self) -> Result<Option<(ClientIdentity, Token)>, Error> {
        let Self { oauth, plan: Plan { authority, .. } } = self;
        let (given, spent) = (&oauth.settings.given, oauth.state(|state| state.spent.clone()));
        let kept = oauth.kept_for(authority).await?;
        let mut forms = Vec::new();
        forms.extend(given.refresh_token.iter().map(|token| (REFRESH_TOKEN, refresh_form(token))));
        forms.extend(given.code.iter().map(|code| (CODE, code.form())));
        forms.retain(|(what, _)| !spent.contains(what));
        if forms.is_empty() {
            return Ok(None);
        }
        let configured = identity::configured(&oauth.settings, &authority.metadata);
        let Some(identity) = configured.or(kept.identity) else {
            let message = "A refresh token or a code is good for nothing without its client";
            return Err(login_error(message).hint("Give the client's id with --oauth-client-id"));
        };
        for (what, form) in forms {
            // Who uses a code twice is taken for a thief; a refresh token may still be good later.
            if what == CODE {
                oauth.state(|state| state.spent.insert(what));
            }
            match self.request(&identity).send(form).await {
                Ok(token) => {
                    debug!("the {what} that was given has brought a token");
                    let given = given.refresh_token.clone();
                    let given = given.filter(|_| !spent.contains(REFRESH_TOKEN));
                    let refresh = token.refresh.clone().or(given);
                    return Ok(Some((identity, Token { refresh, ..token })));
                }
                Err(TokenRefusal::Grant(error)) => {
                    warn!("the {what} that was given is no good any more: {error}");
                    oauth.state(|state| state.spent.insert(what));
                }
                Err(refusal) => return Err(refusal.into_error()),
            }
        }
        Ok(None)
    }

    async fn as_client(&self) -> Result<(ClientIdentity, Token), Error> {
        let settings = &self.oauth.settings;
        let Some(identity) = identity::configured(settings, &self.plan.authority.metadata) else {
            return Err(login_error("A login as a client needs the client's id")
                .hint("Give it with --oauth-client-id, and its secret or key"));
        };
        let form = client_form(settings, self.plan.scope.as_deref());
        let sent = self.request(&identity).send(form).await;
        Ok((identity, sent.map_err(TokenRefusal::into_error)?))
    }

    /// A client that was registered on the spot for such logins.
    pub(super) async fn registered(
        &self,
        only: Option<Only>,
    ) -> Result<Option<ClientIdentity>, Error> {
        let registered = self.oauth.kept_for(&self.plan.authority).await?.identity;
        Ok(registered.filter(|identity| {
            let is_for_this = self.oauth.settings.client_id.is_none() && identity.only == only;
            is_for_this && identity.may_ask_for(self.plan.scope.as_deref())
        }))
    }

    /// A question to the token endpoint.
    pub(super) fn request<'r>(&'r self, identity: &'r ClientIdentity) -> TokenRequest<'r> {
        let Plan { authority, token_endpoint, scope, .. } = &self.plan;
        TokenRequest {
            oauth: self.oauth,
            endpoint: token_endpoint,
            identity,
            issuer: &authority.issuer,
            resource: self.oauth.resource(authority),
            scope: scope.as_deref(),
        }
    }

    /// Why there is no token. A client that the provider does not know any more is forgotten.
    pub(super) async fn refused(&self, identity: &ClientIdentity, refusal: TokenRefusal) -> Failed {
        if matches!(refusal, TokenRefusal::Client(_)) {
            self.oauth.forget_client_alone(&identity.id).await;
        }
        refusal.into()
    }
}

/// What a client that logs in by itself asks with.
pub(super) fn client_form(settings: &OAuthSettings, scope: Option<&str>) -> Form {
    let mut form = vec![("grant_type", "client_credentials".to_owned())];
    form.extend(scope.map(|scope| ("scope", scope.to_owned())));
    let audience = settings.given.audience.clone();
    form.extend(audience.map(|audience| ("audience", audience)));
    form
}

/// What a token is renewed with.
pub(super) fn refresh_form(token: &Secret) -> Form {
    let token = token.reveal().to_owned();
    vec![("grant_type", "refresh_token".to_owned()), ("refresh_token", token)]
}
