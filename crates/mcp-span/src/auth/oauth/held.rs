//! The login that is in use here: held in memory, and kept in step with the store, which other
//! processes change as well. What belongs to one authorization server stays with it.

use tracing::debug;

use super::OAuth;
use super::authority::Authority;
use super::identity::{self, ClientIdentity};
use super::kept::{Holder, StoredLogin};
use super::metadata::is_same_issuer;
use super::token::Token;
use super::words::{login_error, said};
use crate::error::Error;
use crate::limits;
use crate::secret::shown;

/// A login in memory.
#[derive(Default)]
pub(super) struct HeldLogin {
    kept: Option<StoredLogin>,
    /// Counts how often `kept` was replaced.
    version: u64,
    /// The token in it is in the store as well, unless somebody has taken it out.
    is_stored: bool,
    /// The authorization server does not want to be told what a token is for.
    refuses_resource: bool,
}

impl OAuth {
    /// What there is; the store is read for the first who asks.
    pub(super) async fn kept(&self) -> StoredLogin {
        if let Some(kept) = self.held(|held| held.kept.clone()) {
            return kept;
        }
        let stored = self.without_others(self.store.read().await);
        self.held(|held| {
            if let Some(kept) = &held.kept {
                // Somebody else was quicker, and it may have been renewed since.
                return kept.clone();
            }
            if let Some(near) = stored.near {
                self.web.set_near(near);
            }
            held.is_stored = stored.token.is_some();
            held.hold(stored.clone());
            stored
        })
    }

    /// Whether there is a token, however old; the store is not read for that.
    #[must_use]
    pub fn has_token(&self) -> bool {
        self.held(|held| held.kept.as_ref().is_some_and(|kept| kept.token.is_some()))
    }

    /// Whether the authorization server does not want to be told what a token is for.
    pub(super) fn refuses_resource(&self) -> bool {
        self.held(|held| held.refuses_resource)
    }

    /// Notes whether it does.
    pub(super) fn set_refuses_resource(&self, refuses: bool) {
        self.held(|held| held.refuses_resource = refuses);
    }

    /// Takes over what another process has stored. `true` if that is another token than before.
    pub(super) async fn reread(&self, before: &StoredLogin) -> bool {
        let version = self.held(|held| held.version);
        let Some(stored) = self.store.look().await else { return false };
        self.held(|held| {
            let current = held.kept.clone().unwrap_or_default();
            if held.version != version {
                // It was replaced while the store was read, which knows nothing newer.
                return current.has_other_token_than(before);
            }
            if stored.token.is_none() && held.is_stored {
                debug!(
                    "the token was taken out of the store by a logout: it is forgotten here, too"
                );
                held.is_stored = false;
                held.hold(stored);
                return false;
            }
            let stored = self.without_others(stored);
            let is_other = stored.has_other_token_than(before);
            // What is held already is not taken over: where it came from would be forgotten.
            if is_other && stored.has_other_token_than(&current) {
                held.is_stored = true;
                held.hold(stored);
            }
            is_other
        })
    }

    /// The same, compared with what there is.
    pub(in crate::auth) async fn look(&self) -> bool {
        self.reread(&self.kept().await).await
    }

    /// Uses `kept` from now on, and stores it.
    pub(super) async fn keep(&self, kept: StoredLogin) {
        // Before it is stored: it is used from now on, and may be refused.
        let kept = self.held(|held| {
            let kept = StoredLogin { without_resource: held.refuses_resource, ..kept };
            held.hold(kept.clone());
            kept
        });
        let has_token = kept.token.is_some();
        let is_stored = self.store.write(kept).await && has_token;
        self.held(|held| held.is_stored = is_stored);
    }

    /// Keeps `token`, which `client` got from `authority` by a login, as far as they are known. Others
    /// may be renewing what it replaces.
    pub(super) async fn keep_login(
        &self,
        authority: Option<&Authority>,
        client: Option<ClientIdentity>,
        token: Token,
        token_endpoint: Option<String>,
    ) {
        let holder = client.as_ref().map(|c| Holder { id: c.id.clone(), proof: c.proof });
        let is_registered =
            |client: &ClientIdentity| !identity::is_configured(&self.settings, &client.id);
        let login = StoredLogin {
            issuer: authority.map(|authority| authority.issuer.clone()),
            identity: client.filter(is_registered),
            holder,
            token: Some(token),
            token_endpoint,
            revocation_endpoint: authority.and_then(|a| a.metadata.revocation_endpoint.clone()),
            resource: authority.and_then(|a| self.resource(a)).map(str::to_owned),
            near: Some(self.web.near()),
            ..StoredLogin::default()
        };
        let _lock = self.store.lock(limits::LOGIN_QUESTION).await;
        self.keep(login).await;
    }

    /// The store has nothing any more.
    pub(super) fn forget(&self) {
        self.held(|held| held.kept = None);
    }

    /// The next login begins with another registration. What is configured is not ours to forget.
    pub(super) async fn forget_client_alone(&self, id: &str) {
        let _lock = self.store.lock(limits::LOGIN_QUESTION).await;
        self.look().await;
        let kept = self.kept().await;
        if kept.identity.as_ref().is_some_and(|identity| identity.id == id) {
            self.keep(StoredLogin { identity: None, ..kept }).await;
        }
    }

    /// What is stored, but for what another authorization server has given out than the one that the
    /// user has named.
    fn without_others(&self, stored: StoredLogin) -> StoredLogin {
        match self.settings.given.allows(stored.issuer.as_deref()) {
            true => stored,
            false => StoredLogin { near: stored.near, ..StoredLogin::default() },
        }
    }

    /// What is kept, as far as it is of `authority`.
    ///
    /// A secret of the user's is bound to the first issuer that it was used with: a server cannot
    /// name another one later to get it.
    pub(super) async fn kept_for(&self, authority: &Authority) -> Result<StoredLogin, Error> {
        let kept = self.kept().await;
        let is_same = |before: &String| is_same_issuer(before, &authority.issuer);
        if let Some(before) = kept.issuer.as_ref().filter(|before| !is_same(before)) {
            self.check_bound(before, &authority.issuer)?;
            self.set_refuses_resource(false);
            return Ok(StoredLogin::default());
        }
        Ok(kept)
    }

    fn check_bound(&self, before: &str, now: &str) -> Result<(), Error> {
        let (settings, given) = (&self.settings, &self.settings.given);
        let is_proven = settings.client_secret.is_some() || settings.private_key.is_some();
        let is_secret = settings.client_id.is_some() && is_proven
            || given.refresh_token.is_some()
            || given.code.is_some();
        // Who names the place where it goes has decided.
        if !is_secret || given.issuer.is_some() || given.token_url.is_some() {
            return Ok(());
        }
        let message = format!(
            "{} names {} as its authorization server, but the client's secret was used with {} \
             before: it is not sent to another one",
            shown(&self.server),
            said(now),
            said(before)
        );
        let hint = format!("If the server has moved, say so with --oauth-issuer {}", said(now));
        Err(login_error(message).hint(hint))
    }

    fn held<T>(&self, look: impl FnOnce(&mut HeldLogin) -> T) -> T {
        self.state(|state| look(&mut state.held))
    }
}

impl HeldLogin {
    fn hold(&mut self, kept: StoredLogin) {
        self.refuses_resource |= kept.without_resource;
        self.kept = Some(kept);
        self.version += 1;
    }
}
