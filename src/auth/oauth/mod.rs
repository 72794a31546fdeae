//! OAuth 2.1 as MCP has it: nothing until a server refuses us; then a login, and tokens that are kept
//! fresh.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::debug;
use url::Url;

use crate::error::{Error, Kind};
use crate::limits;
use crate::message::edit;
use crate::net;
use crate::secret::Secret;

mod account;
mod address;
pub mod challenge;
mod device;
mod discovery;
mod flow;
mod given;
mod grant;
mod identity;
mod import;
mod key;
#[cfg(feature = "keychain")]
mod keychain;
mod loopback;
mod metadata;
mod paste;
mod pkce;
mod prompt;
mod scope;
mod store;
mod token;
mod web;

pub use account::Account;
use challenge::Challenge;
pub use given::{Given, OneShot, Style};
pub use import::{Foreign, TakenOver};
pub use key::PrivateKey;
pub use loopback::CallbackPlace;
pub use paste::Paste;
pub use prompt::Prompt;
use store::{Kept, Store};
use web::Web;

/// How a token is come by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grant {
    /// A person logs in with a browser.
    #[default]
    Code,
    /// A person enters a code on any device.
    DeviceCode,
    /// The client itself has a secret or a key.
    ClientCredentials,
}

/// What tokens are kept in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenStore {
    /// Files that are for the owner alone.
    #[default]
    File,
    /// The keychain of the operating system.
    #[cfg(feature = "keychain")]
    Keychain,
}

/// Shows a person where to log in.
pub type Show = Arc<dyn Fn(&Prompt) + Send + Sync>;

/// All that a login needs to know.
#[derive(Clone)]
pub struct Settings {
    /// A client that was registered by hand.
    pub client_id: Option<String>,
    /// Its secret.
    pub client_secret: Option<Secret>,
    /// A document that describes us, as an id.
    pub client_metadata_url: Option<Url>,
    /// A key, in place of a secret.
    pub private_key: Option<PrivateKey>,
    /// Asked for in place of what the server names.
    pub scope: Option<String>,
    /// Whether the authorization server is told what the token is for.
    pub send_resource: bool,
    /// The port for the browser's way back; any, if it is not said.
    pub callback_port: Option<u16>,
    /// The name of this machine in the address of the way back, and the path of that.
    pub callback: CallbackPlace,
    /// How long a person may take.
    pub login_wait: Duration,
    /// A token is renewed so long before it expires.
    pub skew: Duration,
    /// What need not be found out.
    pub given: Given,
    /// A person whose browser is elsewhere pastes the way back.
    pub paste: Option<Paste>,
    /// How a token is come by.
    pub grant: Grant,
    /// Where tokens are kept; nowhere, if it is not said.
    pub folder: Option<PathBuf>,
    /// What they are kept in.
    pub token_store: TokenStore,
    /// One of several accounts at the same server.
    pub profile: String,
    /// Shows a person where to log in.
    pub show: Show,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("grant", &self.grant).finish_non_exhaustive()
    }
}

/// The tokens of one server.
#[derive(Debug)]
pub struct OAuth {
    server: Url,
    settings: Settings,
    web: Web,
    store: Store,
    state: Mutex<State>,
    /// The page of a login that waits for a person.
    pub(super) pending: watch::Sender<Option<String>>,
}

#[derive(Debug, Default)]
struct State {
    kept: Option<Kept>,
    /// How many times more scope was asked for.
    step_ups: u32,
    spent: given::Spent,
    /// When there were logins, as far as it matters.
    logins: Vec<Instant>,
    /// A person was asked in the login that is under way.
    was_shown: bool,
    /// The last login that came to nothing.
    failed: Option<(Instant, Error)>,
}

impl OAuth {
    /// Tokens for `server`; nothing is asked of anybody yet.
    #[must_use]
    pub fn new(server: &Url, settings: Settings, options: net::Options) -> Self {
        let mut server = server.clone();
        server.set_fragment(None);
        let store = Store::new(settings.folder.as_deref(), &server, &settings.profile)
            .in_place(settings.token_store);
        let (web, state, pending) = (Web::new(options), Mutex::default(), watch::Sender::default());
        Self { server, settings, web, store, state, pending }
    }

    /// The header to send now: none before there was a login.
    pub(super) async fn current(&self) -> Result<HeaderMap, Error> {
        let kept = self.kept();
        if let Some(token) = &kept.token
            && token.is_old(SystemTime::now(), self.settings.skew)
            && token.refresh.is_some()
        {
            let _lock = self.store.lock(limits::LOGIN_QUESTION).await;
            self.reread(&kept);
            let is_old = |token: &token::Token| token.is_old(SystemTime::now(), self.settings.skew);
            if self.kept().token.as_ref().is_some_and(is_old) {
                // If that fails, the server will say so.
                if let Err(error) = self.refresh().await {
                    debug!("the token could not be renewed in time: {error}");
                }
            }
        }
        Ok(self.header())
    }

    /// What there is, however old. Whoever holds the lock must not wait for it again.
    fn header(&self) -> HeaderMap {
        let header = self.kept().token.as_ref().and_then(token::Token::header);
        header.map(|value| (AUTHORIZATION, value)).into_iter().collect()
    }

    /// The server has refused what `current` gave: another token, if there is a way to one.
    pub(super) async fn after_refusal(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Result<HeaderMap, Error> {
        let challenge = Challenge::of(headers);
        let is_step_up = challenge.as_ref().is_some_and(Challenge::wants_more_scope);
        if status == StatusCode::FORBIDDEN && !is_step_up {
            return Ok(self.header());
        }
        let before = self.kept();
        let _lock = self.store.lock(self.settings.login_wait).await;
        if self.reread(&before) {
            debug!("another process has a new token");
            return Ok(self.header());
        }
        if is_step_up {
            let step_ups = self.state(|state| {
                state.step_ups += 1;
                state.step_ups
            });
            if step_ups > limits::STEP_UPS {
                return Ok(self.header());
            }
        } else if before.token.as_ref().is_some_and(|token| token.refresh.is_some())
            && self.refresh().await?
        {
            return Ok(self.header());
        } else if self.has_tried_enough() {
            debug!("the server refuses what logins bring: no other is begun");
            return Ok(self.header());
        }
        self.login(challenge.as_ref()).await?;
        Ok(self.header())
    }

    fn has_tried_enough(&self) -> bool {
        self.state(|state| {
            state.logins.retain(|at| at.elapsed() < limits::LOGIN_PAUSE);
            state.logins.len() >= limits::LOGINS_IN_A_ROW
        })
    }

    /// Takes over what another process has stored. `true` if that is another token than before.
    fn reread(&self, before: &Kept) -> bool {
        let stored = self.store.read();
        let access = |kept: &Kept| kept.token.as_ref().map(|token| token.access.clone());
        let is_other = stored.token.is_some() && access(&stored) != access(before);
        if is_other {
            self.state(|state| state.kept = Some(stored));
        }
        is_other
    }

    fn kept(&self) -> Kept {
        self.state(|state| state.kept.get_or_insert_with(|| self.store.read()).clone())
    }

    fn keep(&self, kept: Kept) {
        self.store.write(&self.server, &kept);
        self.state(|state| state.kept = Some(kept));
    }

    fn state<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The error for an authorization server that says no; in its own words, but not many of them.
fn refused(what: &str, status: StatusCode, answer: &Value) -> Error {
    let said = answer["error_description"]
        .as_str()
        .filter(|said| !said.is_empty())
        .or_else(|| answer["error"].as_str())
        .or_else(|| answer.as_str())
        .unwrap_or("no reason given");
    let said: String = said.chars().filter(|c| !c.is_control()).collect();
    let said = edit::excerpt(&said, limits::LOGIN_TEXT);
    let message = format!("{what} was refused (HTTP {}): {said}", status.as_u16());
    Error::new(Kind::Login, message).not_delivered()
}
