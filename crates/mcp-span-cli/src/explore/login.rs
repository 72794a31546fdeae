//! Waits for a login: a person at a terminal has all the time that one may take.

use std::io::IsTerminal;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use crate::output::Status;
use crate::report;
use mcp_span::ServerOptions;
use mcp_span::client::{Server, Spec};
use mcp_span::error::Error;

/// What is known of logins at the server.
pub(super) struct Logins {
    pages: Option<watch::Receiver<Option<String>>>,
    /// How long a login may take.
    limit: Duration,
    /// How long it is waited for.
    patience: Duration,
}

/// Makes the connection patient: there is no client that must be answered meanwhile.
pub(super) fn wait_for(spec: &mut Spec, typed: &ServerOptions) -> Logins {
    let limit = typed.oauth_login_timeout();
    let is_person = std::io::stderr().is_terminal();
    let patience = if is_person { limit } else { typed.oauth_wait() };
    // The link and the bridge must not give up before the login does.
    let longest = limit + limit;
    spec.policy.login_wait = longest;
    let pages = match &mut spec.server {
        Server::Http(http) => {
            http.login_wait = longest;
            http.credentials.as_ref().and_then(|credentials| credentials.pending())
        }
        Server::Child(_) => None,
    };
    Logins { pages, limit, patience }
}

impl Logins {
    /// Says that a login is waited for; ends when it was waited for long enough.
    pub(super) async fn watch(self, status: &Status) -> Error {
        let Some(mut pages) = self.pages else { return std::future::pending().await };
        while let Ok(page) = pages.wait_for(Option::is_some).await.map(|page| page.clone()) {
            status.clear();
            if self.patience >= self.limit {
                let minutes = self.limit.as_secs().div_ceil(60);
                report::note(&format!("waiting for the login, up to {minutes} minutes"));
                status.set("waiting for the login");
            }
            tokio::select! {
                () = sleep(self.patience) => {
                    return Error::login_pending(&page.unwrap_or_default());
                }
                _ = pages.changed() => status.set("connecting"),
            }
        }
        // No more logins: the connection says itself how it ends.
        std::future::pending().await
    }
}
