//! Renewal of a token without a person: once for all who need it, by one process at a time.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, timeout};
use tracing::{debug, warn};

use super::authority::Authority;
use super::challenge::Challenge;
use super::flow::{client_form, refresh_form};
use super::grant::{TokenRefusal, TokenRequest};
use super::kept::StoredLogin;
use super::token::{Age, Token};
use super::words::login_error;
use super::{OAuth, identity};
use crate::error::Error;
use crate::limits;
use crate::traffic;

/// Why another token is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::auth) enum Cause {
    /// It is near its end.
    Age,
    /// The server does not take it.
    Refusal,
    /// It is not good for enough, which no renewal changes.
    Scope,
    /// The server does not take what renewals bring, either.
    RefreshedTokenRejected,
}

impl Cause {
    /// Why a server has refused a token, by what it said.
    pub(in crate::auth) fn of(challenge: Option<&Challenge>) -> Self {
        match challenge.is_some_and(Challenge::wants_more_scope) {
            true => Self::Scope,
            false => Self::Refusal,
        }
    }
}

/// What became of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renewal {
    /// There is another token.
    Done,
    /// There is no way to one but a login.
    Impossible,
    /// Another process is at it. Without the lock nobody renews: two who use the same refresh token
    /// lose it, and with it the login.
    Held,
}

impl OAuth {
    /// Gets another token than that in `before`, without asking a person. As a task: whoever asked
    /// may not wait for the end, but a refresh token that was sent is used up, and what comes in its
    /// place must be kept.
    pub(super) async fn renew(
        self: &Arc<Self>,
        before: &StoredLogin,
        cause: Cause,
    ) -> Result<Renewal, Error> {
        let (oauth, before) = (Arc::clone(self), before.clone());
        let task = tokio::spawn(async move {
            let patience = oauth.patience();
            oauth.renew_alone(&before, cause, patience).await
        });
        task.await.unwrap_or_else(|error| Err(login_error("The renewal broke off").because(error)))
    }

    /// Waits for the end of a renewal that is under way, for a while: what it brings must be kept.
    pub(crate) async fn settle(&self) {
        if timeout(limits::RENEWAL_CLOSE, self.renewing.lock()).await.is_err() {
            debug!("a renewal has not come to its end in time");
        }
    }

    /// The same for a task of its own, which waits for the lock for as long as `patience` lasts.
    pub(super) async fn renew_alone(
        &self,
        before: &StoredLogin,
        cause: Cause,
        patience: Duration,
    ) -> Result<Renewal, Error> {
        let _turn = self.renewing.lock().await;
        if is_renewed(before, &self.kept().await, cause) {
            return Ok(Renewal::Done);
        }
        let Some(_lock) = self.store.lock(patience).await else {
            debug!("another process has the lock of the tokens");
            self.state(|state| state.lock_held = Some(Instant::now()));
            return Ok(Renewal::Held);
        };
        self.look().await;
        let kept = self.kept().await;
        let is_young = || kept.token.as_ref().is_some_and(|token| self.age(token) != Age::Old);
        if is_renewed(before, &kept, cause) && is_young() {
            debug!("another process has a new token");
            return Ok(Renewal::Done);
        }
        if matches!(cause, Cause::Scope | Cause::RefreshedTokenRejected) {
            return Ok(Renewal::Impossible);
        }
        if let Some((_, outcome)) = self.state(|state| state.unrenewed_lately().cloned()) {
            // Whoever waited for this would only hear the same again.
            return outcome;
        }
        let outcome = self.refresh(cause).await;
        let failed = !matches!(outcome, Ok(Renewal::Done));
        self.state(|state| state.unrenewed = failed.then(|| (Instant::now(), outcome.clone())));
        outcome
    }

    /// How long the lock is waited for: not at all by the many who come while another process is
    /// known to be slow.
    fn patience(&self) -> Duration {
        let held = self.state(|state| state.lock_held);
        let is_known = held.is_some_and(|at| at.elapsed() < limits::LOCK_WAIT * 5);
        if is_known { Duration::ZERO } else { limits::LOCK_WAIT }
    }

    /// Renews the token in the background, while the one that there is can still be used.
    pub(super) fn renew_ahead(self: &Arc<Self>) {
        let is_renewing = self.renewing.try_lock().is_err();
        if is_renewing || self.state(|state| state.unrenewed_lately().is_some()) {
            return;
        }
        let oauth = Arc::clone(self);
        tokio::spawn(async move {
            match oauth.renew(&oauth.kept().await, Cause::Age).await {
                Ok(renewal) => debug!(?renewal, "the token nears its end"),
                Err(error) => debug!("the token nears its end, and is not refreshed: {error}"),
            }
        });
    }

    /// Uses the refresh token, or what the client proves itself with where that is all that a login
    /// takes.
    async fn refresh(&self, cause: Cause) -> Result<Renewal, Error> {
        let kept = self.kept().await;
        let identity = identity::of_token(&self.settings, &kept);
        let (Some(identity), Some(token), Some(endpoint)) =
            (identity, &kept.token, &kept.token_endpoint)
        else {
            return Ok(Renewal::Impossible);
        };
        let scope = token.scope.as_deref();
        let form = match &token.refresh {
            _ if !self.asks_a_person() => Some(client_form(&self.settings, scope)),
            refresh => refresh.as_ref().map(refresh_form),
        };
        // As one that is found is checked: the store may say anything by now.
        let endpoint = self.settings.given.checked(endpoint, "tokens", &self.server);
        let endpoint = endpoint.inspect_err(|error| warn!("the token is not renewed: {error}"));
        let (Some(form), Ok(endpoint)) = (form, endpoint) else {
            return Ok(Renewal::Impossible);
        };
        let issuer = kept.issuer.clone().unwrap_or_default();
        let resource = kept.resource.as_deref();
        let (oauth, endpoint, identity, issuer) = (self, &endpoint, &identity, &*issuer);
        let request = TokenRequest { oauth, endpoint, identity, issuer, resource, scope };
        match request.send(form).await {
            Ok(renewed) => {
                traffic::token_refreshed(&self.server);
                let token = Some(renewed.or_refresh_of(token));
                self.keep(StoredLogin { token, is_renewal: true, ..kept }).await;
                return Ok(Renewal::Done);
            }
            Err(TokenRefusal::Grant(error)) => {
                debug!("the refresh token is no good any more: {error}");
                self.keep(StoredLogin { token: usable(token, cause), ..kept }).await;
            }
            Err(TokenRefusal::Client(error)) => {
                debug!("the client is not known any more: {error}");
                let token = usable(token, cause);
                // The next login begins with another registration.
                let identity = kept.identity.filter(|registered| registered.id != identity.id);
                self.keep(StoredLogin { token, identity, ..kept }).await;
            }
            Err(TokenRefusal::Other(error)) => debug!("the token is not renewed: {error}"),
            Err(TokenRefusal::Unanswered(error)) => return Err(error),
        }
        Ok(Renewal::Impossible)
    }

    /// The server has refused what a renewal brought. Whether a login may bring something else: it
    /// has another authorization server now, or nobody has tried that for a while. Asked by one at a
    /// time.
    pub(in crate::auth) async fn refresh_was_rejected(
        &self,
        challenge: Option<&Challenge>,
    ) -> bool {
        if !self.kept().await.is_renewal {
            return false;
        }
        if let Some((at, verdict)) = self.state(|state| state.looked)
            && at.elapsed() < limits::LOGIN_PAUSE
        {
            return verdict;
        }
        let known = self.kept().await.issuer;
        let found = Authority::of(self, challenge, known.as_deref()).await.ok().flatten();
        let has_moved =
            found.as_ref().is_some_and(|found| known.is_some_and(|k| k != found.issuer));
        debug!(has_moved, "the server refuses what a renewal brought");
        self.state(|state| {
            let lately = |at: Instant| at.elapsed() < limits::LOGIN_ANEW;
            let is_worth_it = has_moved || found.is_some() && !state.anew.is_some_and(lately);
            state.anew = if is_worth_it { Some(Instant::now()) } else { state.anew };
            state.looked = Some((Instant::now(), is_worth_it));
            is_worth_it
        })
    }
}

/// Whether `now` has another token than `before`, as far as that helps with `cause`. A provider may
/// give the same access token out again, with another life or another refresh token.
pub(super) fn is_renewed(before: &StoredLogin, now: &StoredLogin, cause: Cause) -> bool {
    let Some(now) = &now.token else { return false };
    let Some(before) = &before.token else { return true };
    match cause {
        Cause::Age => now != before,
        Cause::Refusal | Cause::RefreshedTokenRejected => {
            (&now.access, &now.id) != (&before.access, &before.id)
        }
        Cause::Scope => now.scope != before.scope,
    }
}

/// What is left of a token that cannot be renewed: all but nothing, if it was not refused itself.
fn usable(token: &Token, cause: Cause) -> Option<Token> {
    let lives = token.expires().is_none_or(|expires| expires > SystemTime::now());
    let is_good = cause == Cause::Age && lives;
    is_good.then(|| Token { refresh: None, ..token.clone() })
}
