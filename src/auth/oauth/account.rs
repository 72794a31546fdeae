//! What a person does with an account: log in, look, log out.

use std::time::SystemTime;

use http::StatusCode;
use tracing::debug;
use url::Url;

use super::challenge::Challenge;
use super::grant::Revocation;
use super::store::Kept;
use super::{OAuth, address};
use crate::error::{Error, Kind};
use crate::limits;
use crate::secret::shown;

/// What is kept of a login, without anything that is secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Who gave the token out.
    pub issuer: Option<String>,
    /// The client that it was given to.
    pub client: Option<String>,
    /// What it is good for.
    pub scope: Option<String>,
    /// Until when.
    pub expires: Option<SystemTime>,
    /// Whether it can be renewed without a person.
    pub can_be_renewed: bool,
    /// Where it is kept.
    pub place: Option<String>,
}

impl OAuth {
    /// Logs in anew, if the server wants that.
    ///
    /// # Errors
    ///
    /// When there is no way to a token.
    pub async fn log_in(&self) -> Result<(), Error> {
        let (status, said) = self.web.knock(&self.server).await?;
        if status != StatusCode::UNAUTHORIZED {
            let message = format!("{} asks for no login (HTTP {status})", shown(&self.server));
            return Err(Error::new(Kind::Login, message).not_delivered());
        }
        let _lock = self.store.lock(self.settings.login_wait).await;
        if self.login(Challenge::of(&said).as_ref()).await? {
            return Ok(());
        }
        let message = format!("{} wants credentials, but knows of no login", shown(&self.server));
        let hint = "Give them with --header 'Authorization: …', --bearer-file or --bearer-command";
        Err(Error::new(Kind::Login, message).hint(hint).not_delivered())
    }

    /// What is kept; `None` if nobody is logged in.
    #[must_use]
    pub fn account(&self) -> Option<Account> {
        let kept = self.store.read();
        let token = kept.token?;
        Some(Account {
            issuer: kept.issuer,
            client: kept.identity.map(|identity| identity.id),
            scope: token.scope,
            expires: token.expires,
            can_be_renewed: token.refresh.is_some(),
            place: self.store.place(),
        })
    }

    /// Tells the authorization server that the token is to be used no more, if it can be told, and
    /// forgets it. `false` if there was none.
    ///
    /// # Errors
    ///
    /// When the file cannot be removed.
    pub async fn log_out(&self) -> Result<bool, Error> {
        let _lock = self.store.lock(limits::LOGIN_QUESTION).await;
        let kept = self.store.read();
        self.revoke(&kept).await;
        self.state(|state| state.kept = None);
        self.store.remove().map_err(|error| {
            Error::new(Kind::Login, "The tokens cannot be removed").because(error).not_delivered()
        })
    }

    async fn revoke(&self, kept: &Kept) {
        let Some(place) = self.revocation_place(kept) else { return };
        let (Some(identity), Some(token)) = (&kept.identity, &kept.token) else { return };
        let issuer = kept.issuer.clone().unwrap_or_default();
        let request = self.request(&place, identity, &issuer, None, None);
        let revoked = request.revoke(token.refresh.as_ref().unwrap_or(&token.access)).await;
        match revoked {
            Revocation::Done => debug!("the token was revoked"),
            Revocation::Failed(error) => debug!("the token was not revoked: {error}"),
        }
    }

    fn revocation_place(&self, kept: &Kept) -> Option<Url> {
        let text = kept.revocation_endpoint.as_ref()?;
        address::checked(text, "revocation", &self.server).ok()
    }
}
