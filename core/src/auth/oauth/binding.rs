//! What belongs to one authorization server stays with it: what was kept of a login, and the secret
//! that the user has given for it.

use super::OAuth;
use super::authority::Authority;
use super::kept::StoredLogin;
use super::metadata::is_same_issuer;
use super::words::{login_error, said};
use crate::error::Error;
use crate::secret::shown;

impl OAuth {
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
}
