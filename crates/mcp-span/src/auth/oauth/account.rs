//! What a person does with an account: log in, look, log out.

use std::time::SystemTime;

use http::StatusCode;

use super::apart::Apart;
use super::callback_server::Opener;
use super::challenge::Challenge;
use super::grant::TokenRequest;
use super::kept::StoredLogin;
use super::listing::listing;
use super::store::Store;
use super::token::Token;
use super::words::login_error;
use super::{OAuth, OAuthSettings, Pending, TokenStore, flow, identity};
use crate::error::Error;
use crate::limits;
use crate::private_file;
use crate::secret::shown;

/// What is kept of a login, without anything that is secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The server that it is for.
    pub server: Option<String>,
    /// The user's name for it, if there is one.
    pub profile: Option<String>,
    /// What the token was asked for.
    pub resource: Option<String>,
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
    /// What else it is kept apart by, in words.
    pub apart_by: Vec<String>,
    /// The name of its file.
    pub name: Option<String>,
    /// Where it is kept.
    pub place: Option<String>,
}

/// What came of a logout.
#[derive(Clone, Debug)]
pub enum LoggedOut {
    /// The tokens are gone, and revoked where that is offered.
    Done,
    /// The tokens are gone from here, but whoever has a copy can still use them.
    NotRevoked(Error),
    /// There were none.
    Nobody,
}

impl OAuth {
    /// Logs in anew, if the server wants that. `waits` is told when another process is at it: what
    /// comes of that is as good.
    ///
    /// # Errors
    ///
    /// When there is no way to a token, or none to keep it.
    pub async fn log_in(&self, waits: impl FnOnce()) -> Result<(), Error> {
        let (status, said) = self.web.probe_auth(&self.server).await?;
        if status != StatusCode::UNAUTHORIZED {
            let message = format!("{} asks for no login (HTTP {status})", shown(&self.server));
            return Err(login_error(message));
        }
        let before = self.kept().await;
        let lock = match self.store.lock_logins(limits::LOCK_WAIT).await {
            Some(lock) => lock,
            None => {
                waits();
                // Whoever pastes has no browser here.
                let opener = self.settings.paste.is_none().then_some(Opener::Person);
                let (lock, _) = self.lock_for_login(opener).await?;
                if self.reread(&before).await {
                    return Ok(());
                }
                lock
            }
        };
        // Whoever asks for it means it.
        self.store.forget_failure();
        self.check_place()?;
        if flow::log_in(self, Challenge::of(&said).as_ref(), lock).await? {
            let access = |kept: StoredLogin| kept.token.map(|token| token.access);
            let is_kept = access(self.store.read().await) == access(self.kept().await);
            return if is_kept { Ok(()) } else { Err(self.unkept("They are gone")) };
        }
        let message = format!("{} wants credentials, but knows of no login", shown(&self.server));
        let hint = "Give them with --header 'Authorization: …', --bearer-file or --bearer-command";
        Err(login_error(message).hint(hint))
    }

    /// Finds out before anybody logs in whether what that brings can be kept: it is all that this
    /// is for.
    pub(super) fn check_place(&self) -> Result<(), Error> {
        let Some(probe) = self.store.beside(&format!("probe-{}", std::process::id())) else {
            return Err(self.unkept("There is no folder for them"));
        };
        if self.settings.token_store != TokenStore::File {
            return Ok(());
        }
        let written =
            private_file::make_folder_of(&probe).and_then(|()| private_file::create_new(&probe));
        let _ = std::fs::remove_file(&probe);
        written.map(|_| ()).map_err(|error| self.unkept(error))
    }

    fn unkept(&self, why: impl std::fmt::Display) -> Error {
        let place = self.store.in_place();
        let message = format!("Tokens cannot be kept{place}: a login would be for nothing");
        let hint = "Name a folder that can be written with --state-dir";
        login_error(message).because(why).hint(hint)
    }

    /// What is kept; `None` if nobody is logged in.
    pub async fn account(&self) -> Option<Account> {
        let kept = serde_json::to_value(self.store.read().await).ok()?;
        Account::read(&kept, self.store.name(), self.store.place())
    }

    /// The login that waits for a person, if there is one.
    #[must_use]
    pub fn pending_login(&self) -> Option<Pending> {
        self.store.pending().map(|note| note.pending(self.store.name()))
    }

    /// How many other logins for this server are kept in files, whatever keeps them apart.
    #[must_use]
    pub fn count_others(&self) -> usize {
        let OAuthSettings { folder, usual_folder, .. } = &self.settings;
        let Some(folder) = folder else { return 0 };
        let Ok(all) = listing(folder, usual_folder.as_deref()) else { return 0 };
        let (server, name) = (shown(&self.server), self.store.name());
        let is_other = |account: &&Account| {
            account.server.as_deref() == Some(&*server) && account.name.as_deref() != name
        };
        all.accounts.iter().filter(is_other).count()
    }

    /// Tells the authorization server that the token is to be used no more, if it can be told, and
    /// forgets it in any case: that of the login whose file has this `name`, whatever keeps it apart,
    /// or else of this one. Also says whether a login was pending, and was called off.
    ///
    /// # Errors
    ///
    /// When the file cannot be removed.
    pub async fn log_out(&self, name: Option<&str>) -> Result<(LoggedOut, bool), Error> {
        let named = name.map(|name| {
            Store::of_name(&self.settings, Apart::new(&self.server, &self.settings), name)
        });
        let store = named.as_ref().unwrap_or(&self.store);
        let was_pending = store.pending().is_some();
        // A login that is under way would bring back what is forgotten here.
        store.withdraw_page();
        store.forget_failure();
        // Whoever holds it is about to replace what is forgotten here; it goes all the same.
        let _lock = store.lock(limits::LOGIN_QUESTION).await;
        let (mut revoked, mut was_there) = (Ok(()), false);
        // Runs in different environments may each have a place of their own.
        for _ in 0..Store::PLACES {
            let kept = store.read().await;
            if let Some(token) = &kept.token {
                revoked = revoked.and(self.revoke(&kept, token).await);
            }
            let is_removed = store
                .remove()
                .await
                .map_err(|error| login_error("The tokens cannot be removed").because(error))?;
            was_there |= is_removed;
        }
        if named.is_none() {
            self.forget();
        }
        let logged_out = match revoked {
            _ if !was_there => LoggedOut::Nobody,
            Ok(()) => LoggedOut::Done,
            Err(error) => LoggedOut::NotRevoked(error),
        };
        Ok((logged_out, was_pending))
    }

    /// A provider that offers no revocation has nothing to be told.
    async fn revoke(&self, kept: &StoredLogin, token: &Token) -> Result<(), Error> {
        let Some(place) = &kept.revocation_endpoint else { return Ok(()) };
        let given = &self.settings.given;
        if !given.allows(kept.issuer.as_deref()) {
            let message = "The token is not of the issuer that --oauth-issuer names";
            return Err(login_error(message));
        }
        let place = given.checked(place, "revocation", &self.server)?;
        let Some(identity) = identity::of_token(&self.settings, kept) else {
            let message = "The token was given to another client than the one that is configured";
            return Err(login_error(message));
        };
        let request = TokenRequest {
            oauth: self,
            endpoint: &place,
            identity: &identity,
            issuer: kept.issuer.as_deref().unwrap_or_default(),
            resource: None,
            scope: None,
        };
        request.revoke(token.refresh.as_ref().unwrap_or(&token.access)).await
    }
}
