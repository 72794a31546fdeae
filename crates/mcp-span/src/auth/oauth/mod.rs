//! OAuth 2.1 as MCP has it: nothing until a server refuses us; then a login, and tokens that are kept
//! fresh.

use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, Once};
use std::time::SystemTime;

use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{debug, warn};
use url::Url;

use crate::error::Error;
use crate::limits;
use crate::lock::lock;
use crate::net;
use crate::secret::shown;

mod account;
mod address;
mod apart;
mod authority;
mod blocking;
mod callback;
mod callback_port;
mod callback_server;
pub mod challenge;
mod command_line;
mod consent;
mod device;
mod discovery;
mod flow;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod given;
mod grant;
mod held;
mod identity;
mod import;
mod kept;
mod key;
#[cfg(feature = "keychain")]
mod keychain;
mod listing;
mod metadata;
mod page_note;
mod pages;
mod paste;
mod pause;
mod pkce;
mod places;
mod process;
mod prompt;
mod recent;
mod registration;
mod renewal;
mod scope;
mod settings;
mod site;
mod store;
mod store_lock;
mod survey;
mod token;
mod web;
mod words;

pub use account::{Account, LoggedOut};
use authority::Authority;
pub use callback_port::{CallbackPlace, CallbackPorts};
use callback_server::Opener;
use challenge::Challenge;
pub(crate) use command_line::{login_command, logout_command};
pub use given::{Given, OneShot};
use held::HeldLogin;
pub use identity::ClientAuthentication;
pub use import::{Foreign, TakenOver};
pub use key::PrivateKey;
pub use listing::{Listing, Unreadable, listing};
use page_note::PageNote;
pub use page_note::Pending;
pub use paste::Paste;
pub use process::login_process;
pub use prompt::{Parties, Prompt};
use recent::Recent;
pub(super) use renewal::Cause;
use renewal::Renewal;
use scope::Scopes;
pub use settings::{Grant, LoginCommand, OAuthSettings, Open, Show, TokenStore};
use store::Store;
use store_lock::Lock;
pub use survey::{FoundMetadata, Provider, Survey, TriedPlace, survey};
pub use token::Bearer;
use token::{Age, Token};
use web::Web;
use words::{login_error, refused};

/// The tokens of one server.
pub struct OAuth {
    server: Url,
    settings: OAuthSettings,
    web: Web,
    store: Store,
    state: Mutex<OAuthState>,
    /// Whoever has it renews the token, the others wait for what comes of that.
    renewing: tokio::sync::Mutex<()>,
    /// Said once: the token is not there that is to be sent.
    no_id_token: Once,
    /// Where a person has to go, for a login that waits for one.
    pub(super) pending: watch::Sender<Option<String>>,
}

/// Neither tokens nor pages are shown.
impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OAuth({})", shown(&self.server))
    }
}

#[derive(Default)]
struct OAuthState {
    held: HeldLogin,
    /// When more scope was asked for.
    step_ups: Recent,
    /// When logins were begun.
    logins: Recent,
    /// What was given and is no good any more.
    spent: HashSet<&'static str>,
    /// The last login, if it came to nothing or nobody has waited for its end.
    last_failure: Option<(Instant, Result<bool, Error>)>,
    /// The last renewal, if it came to nothing.
    unrenewed: Option<(Instant, Result<Renewal, Error>)>,
    /// When another process was found to hold the lock of the tokens.
    lock_held: Option<Instant>,
    /// When it was last looked whether a login would bring what renewals do not, and the verdict.
    looked: Option<(Instant, bool)>,
    /// When a login last brought a token, or was begun because renewals bring none that are taken.
    anew: Option<Instant>,
}

impl OAuthState {
    /// The last renewal, if it came to nothing a moment ago.
    fn unrenewed_lately(&self) -> Option<&(Instant, Result<Renewal, Error>)> {
        self.unrenewed.as_ref().filter(|(at, _)| at.elapsed() < limits::RENEWAL_PAUSE)
    }
}

impl OAuth {
    /// Tokens for `server`; nothing is asked of anybody yet.
    #[must_use]
    pub fn new(server: &Url, settings: OAuthSettings, options: net::Options) -> Self {
        let server = without_fragment(server);
        let store = Store::of(&server, &settings);
        let web = Web::new(options, &server, &settings.given);
        let (state, renewing) = (Mutex::default(), tokio::sync::Mutex::default());
        let (pending, no_id_token) = (watch::Sender::default(), Once::new());
        Self { server, settings, web, store, state, renewing, no_id_token, pending }
    }

    /// Whether a login with these settings is kept in a file. Neither a network nor a keychain is
    /// asked.
    #[must_use]
    pub fn is_kept_in_file(server: &Url, settings: &OAuthSettings) -> bool {
        settings.token_store == TokenStore::File
            && Store::of(&without_fragment(server), settings).has_file()
    }

    /// The server has answered from `peer`: what it names must not be nearer to us than that.
    pub fn met(&self, peer: IpAddr) {
        self.web.set_near(address::of_address(peer));
    }

    fn resource<'a>(&self, authority: &'a Authority) -> Option<&'a str> {
        let is_told = self.settings.send_resource && !self.refuses_resource();
        authority.resource.as_deref().filter(|_| is_told)
    }

    /// Whether a login needs a person.
    pub(super) fn asks_a_person(&self) -> bool {
        self.settings.grant != Grant::ClientCredentials
    }

    /// The header to send now: none before there was a login.
    pub(super) async fn current(self: &Arc<Self>) -> HeaderMap {
        let kept = self.kept().await;
        let can_be_renewed = |token: &&Token| token.refresh.is_some() || !self.asks_a_person();
        let renewable = kept.token.as_ref().filter(can_be_renewed);
        match renewable.map(|token| self.age(token)) {
            Some(Age::Old) => match self.renew(&kept, Cause::Age).await {
                Ok(renewal) => debug!(?renewal, "the token is old"),
                // If that matters, the server will say so.
                Err(error) => debug!("the token could not be renewed in time: {error}"),
            },
            Some(Age::Ageing) => self.renew_ahead(),
            Some(Age::Fresh) | None => {}
        }
        self.header().await
    }

    /// What there is, however old.
    pub(super) async fn header(&self) -> HeaderMap {
        let (bearer, kept) = (self.settings.bearer, self.kept().await);
        let Some(token) = &kept.token else { return HeaderMap::new() };
        if bearer == Bearer::IdToken && token.id.is_none() {
            self.no_id_token.call_once(|| {
                warn!(
                    "the authorization server of {} gave no ID token, so the access token is sent: \
                     ask for the scope 'openid' with --oauth-scope",
                    shown(&self.server)
                );
            });
        }
        token.header(bearer).map(|value| (AUTHORIZATION, value)).into_iter().collect()
    }

    fn age(&self, token: &Token) -> Age {
        token.age(self.settings.bearer, SystemTime::now(), self.settings.skew)
    }

    /// The server has refused what `current` gave. Does what can be done without asking anybody, and
    /// gives back whether only a login may help.
    pub(super) async fn needs_login(
        self: &Arc<Self>,
        status: StatusCode,
        challenge: Option<&Challenge>,
    ) -> Result<bool, Error> {
        let cause = Cause::of(challenge);
        if status == StatusCode::FORBIDDEN && cause != Cause::Scope {
            return Ok(false);
        }
        if self.renew(&self.kept().await, cause).await? == Renewal::Done {
            return Ok(false);
        }
        let Some(challenge) = challenge.filter(|_| cause == Cause::Scope) else { return Ok(true) };
        let granted = self.kept().await.token.and_then(|token| token.scope);
        let configured = self.settings.scope.as_deref();
        let can_grow = Scopes::can_grow(configured, granted.as_deref(), challenge);
        if !can_grow {
            debug!("the server wants more scope, and a login would bring none");
        }
        Ok(can_grow)
    }

    /// Logs in after the server has refused what there was, unless another process has, or there
    /// were enough logins.
    pub(super) async fn log_in_after(
        &self,
        cause: Cause,
        challenge: Option<&Challenge>,
    ) -> Result<(), Error> {
        let before = self.kept().await;
        let (lock, failed) = self.lock_for_login(Some(Opener::Program)).await?;
        match self.renew_alone(&before, cause, limits::LOGIN_QUESTION).await? {
            Renewal::Done => return Ok(()),
            Renewal::Impossible => {}
            Renewal::Held => return Err(self.not_in_time("renewed the token of")),
        }
        if let Some(error) = failed {
            return Err(error);
        }
        if self.has_tried_enough(cause) {
            debug!("the server refuses what logins bring: no other is begun");
            return Ok(());
        }
        flow::log_in(self, challenge, lock).await.map(|_| ())
    }

    /// Waits until no other process logs in; meanwhile its page is ours to show, and `opener` asks for
    /// it to be opened once more. Also returns why the login that was waited for came to nothing, if
    /// it did.
    async fn lock_for_login(&self, opener: Option<Opener>) -> Result<(Lock, Option<Error>), Error> {
        let until = Instant::now() + self.settings.login_wait;
        let mut seen = None;
        loop {
            if let Some(lock) = self.store.lock_logins(limits::PAGE_CHECK).await {
                let failed = seen.and_then(|(id, _): (String, _)| self.store.failure_of(&id));
                return Ok((lock, failed.map(|failed| *failed.error)));
            }
            if Instant::now() >= until {
                return Err(self.not_in_time("logged in to"));
            }
            if seen.is_none() {
                seen = self.watch_page(opener);
            }
        }
    }

    fn not_in_time(&self, done: &str) -> Error {
        login_error(format!("Another process has not {done} {} in time", shown(&self.server)))
    }

    /// Shows the page of another process, if it has one yet, until the result is dropped; with the
    /// name of its login.
    fn watch_page(&self, opener: Option<Opener>) -> Option<(String, PendingGuard<'_>)> {
        let note = self.store.page()?;
        // A person who has restarted a client may have closed the page.
        if let (Some(opener), Some(again)) = (opener, note.again.clone()) {
            tokio::spawn(async move { callback_server::open_again(&again, opener).await });
        }
        let pending = self.show(&note);
        Some((note.id, pending))
    }

    /// Tells a person where to log in, and whoever listens that this is waited for, until the result
    /// is dropped.
    fn show(&self, note: &PageNote) -> PendingGuard<'_> {
        if let Some(show) = &self.settings.show {
            show(&note.prompt, &note.parties);
        }
        // Behind "open".
        let comma = if matches!(note.prompt, Prompt::Device { .. }) { "," } else { "" };
        let text = format!("{}{comma} to {}", note.prompt, note.parties);
        self.pending.send_replace(Some(text));
        PendingGuard(&self.pending)
    }

    fn has_tried_enough(&self, cause: Cause) -> bool {
        let now = Instant::now();
        self.state(|state| match cause {
            Cause::Scope => state.step_ups.is_enough(limits::STEP_UPS, limits::STEP_UP_WINDOW, now),
            _ => state.logins.is_enough(limits::LOGINS_IN_A_ROW, limits::LOGIN_PAUSE, now),
        })
    }

    fn state<T>(&self, look: impl FnOnce(&mut OAuthState) -> T) -> T {
        look(&mut lock(&self.state))
    }
}

fn without_fragment(server: &Url) -> Url {
    let mut server = server.clone();
    server.set_fragment(None);
    server
}

/// However a login ends, it is no longer waited for.
struct PendingGuard<'a>(&'a watch::Sender<Option<String>>);

impl Drop for PendingGuard<'_> {
    fn drop(&mut self) {
        self.0.send_replace(None);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    /// Tokens for a server that listens and says nothing.
    async fn of_silent_server() -> (OAuth, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let server = Url::parse(&url).unwrap();
        (OAuth::new(&server, settings(), net::Options::default()), listener)
    }

    /// Nothing is configured, and nothing kept.
    pub(super) fn settings() -> OAuthSettings {
        OAuthSettings::default()
    }

    #[tokio::test]
    async fn a_login_that_was_dropped_counts_as_one_that_was_given_up() {
        let (oauth, _listener) = of_silent_server().await;
        let lock = async || oauth.store.lock_logins(limits::LOCK_WAIT).await.unwrap();
        let begun =
            timeout(Duration::from_millis(50), flow::log_in(&oauth, None, lock().await)).await;
        assert!(begun.is_err());
        let again = flow::log_in(&oauth, None, lock().await);
        let again = timeout(Duration::from_secs(1), again).await.expect("at once");
        assert!(again.unwrap_err().message.contains("given up"));
        assert!(!oauth.has_tried_enough(Cause::Refusal), "one was begun");
        oauth.state(|state| state.last_failure = None);
        let begun =
            timeout(Duration::from_millis(50), flow::log_in(&oauth, None, lock().await)).await;
        assert!(begun.is_err());
        assert!(oauth.has_tried_enough(Cause::Refusal), "and another");
    }

    #[tokio::test]
    async fn what_holds_tokens_shows_none() {
        // peers c 14: redact by type
        let (oauth, _listener) = of_silent_server().await;
        oauth.pending.send_replace(Some("https://as/?state=hidden-state".to_owned()));
        let shown = format!("{oauth:?} {:?}", oauth.settings);
        assert!(shown.starts_with("OAuth(http://127.0.0.1:"), "{shown}");
        assert!(!shown.contains("hidden"), "{shown}");
    }
}
