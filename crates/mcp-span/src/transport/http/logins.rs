//! Logins that requests of a link wait for: told to whoever holds the link, and not waited for longer
//! than a client does.

use std::sync::Arc;

use http::{Response, StatusCode};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::{Context, SendOptions};
use crate::auth::oauth;
use crate::auth::{Credentials, Granted, Login};
use crate::error::Error;
use crate::limits;
use crate::net::Content;
use crate::transport::{Event, LoginStage};

/// Who waits, and for what.
#[derive(Debug, Default)]
pub(super) struct Logins {
    /// How many requests wait for credentials that a person may have to be asked for.
    waiting: watch::Sender<usize>,
    /// What a person has to do, and since when.
    page: watch::Sender<Option<(String, Instant)>>,
}

impl Logins {
    /// One more who waits, until the result is dropped.
    fn wait(&self) -> LoginWaits<'_> {
        self.waiting.send_modify(|count| *count += 1);
        LoginWaits(&self.waiting)
    }
}

struct LoginWaits<'a>(&'a watch::Sender<usize>);

impl Drop for LoginWaits<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// Whoever holds the link may have something better to do than to wait for a person.
pub(super) async fn tell(context: Arc<Context>, mut pages: watch::Receiver<Option<String>>) {
    let mut waiting = context.logins.waiting.subscribe();
    let mut told = None;
    loop {
        let page = pages.borrow_and_update().clone();
        let is_waited_for = *waiting.borrow_and_update() > 0;
        let under_way = is_waited_for.then_some(LoginStage::UnderWay);
        let stage = page.clone().map(LoginStage::Page).or(under_way);
        if stage != told {
            context.logins.page.send_replace(page.map(|page| (page, Instant::now())));
            told.clone_from(&stage);
            context.events.push(Event::LoginPending(stage));
        }
        tokio::select! {
            Ok(()) = pages.changed() => {}
            Ok(()) = waiting.changed() => {}
            else => return,
        }
    }
}

impl Context {
    /// Others in place of `refused`, if there are any to be had in a time that a client waits. A
    /// login goes on without those who do not.
    pub(super) async fn other_credentials(
        &self,
        credentials: &Credentials,
        refused: &Granted,
        refusal: &Response<Content>,
        is_vain: bool,
        options: SendOptions,
    ) -> Result<Option<Granted>, Error> {
        let (status, said) = (refusal.status(), refusal.headers());
        let renewing = credentials.after_refusal(refused, status, said, is_vain, options.login);
        if options.login != Login::Allowed || credentials.oauth().is_none() {
            return renewing.await;
        }
        let _waits = self.logins.wait();
        if options.waits {
            return renewing.await;
        }
        tokio::select! {
            biased;
            renewed = renewing => renewed,
            error = self.login_timed_out() => Err(error),
        }
    }

    /// What to do about a refusal of our credentials, in words that fit where they come from.
    pub(super) fn remedy_for(&self, status: StatusCode) -> String {
        let oauth = self.settings.credentials.as_ref().and_then(|c| c.oauth());
        match oauth.filter(|oauth| oauth.has_token()) {
            Some(oauth) if status == StatusCode::FORBIDDEN => format!(
                "The login does not allow this. To use another account, run {} and log in again",
                oauth::logout_command(oauth)
            ),
            Some(oauth) => format!(
                "The server does not take the token of the login. To log in again, run {}, then {}",
                oauth::logout_command(oauth),
                oauth::login_command(oauth)
            ),
            None => "The server wants other credentials: give them with --header \
                     'Authorization: …', --bearer-file or --bearer-command"
                .to_owned(),
        }
    }

    /// The same after a login that has failed.
    pub(super) fn remedy_for_login(&self) -> String {
        let oauth = self.settings.credentials.as_ref().and_then(|c| c.oauth());
        let command = oauth.map_or_else(|| "'mcp-span login'".to_owned(), oauth::login_command);
        format!("To try again, with all that is said on the way, run {command}")
    }

    /// Ends when a person has been asked for so long that nobody is kept waiting any more.
    async fn login_timed_out(&self) -> Error {
        let mut page = self.logins.page.subscribe();
        let soonest = Instant::now() + limits::LOGIN_DETOUR;
        let unshown = Instant::now() + limits::LOGIN_UNSHOWN;
        loop {
            let (end, error) = match page.borrow_and_update().clone() {
                None => (unshown, Error::login_unshown()),
                Some((prompt, since)) => {
                    (soonest.max(since + self.settings.login_wait), Error::login_pending(&prompt))
                }
            };
            if timeout_at(end, page.changed()).await.is_err() {
                return error;
            }
        }
    }
}
