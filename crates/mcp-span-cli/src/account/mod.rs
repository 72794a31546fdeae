//! `mcp-span login`, `logout` and `status`: a person and the tokens of a server.

use std::process::ExitCode;

use crate::report::Usage;
use crate::settings::Settings;
use crate::{Failure, report};
use mcp_span::auth::oauth::{LoggedOut, OAuth};
use mcp_span::secret::shown;

pub(crate) mod browser;
pub(crate) mod import;
pub(crate) mod list;
pub(crate) mod paste;
pub(crate) mod process;

/// Logs in with a browser, or as a client.
pub(super) async fn login(settings: Settings) -> Result<ExitCode, Failure> {
    let oauth = oauth(&settings)?;
    let place = shown(&settings.http.url);
    let waits = || {
        report::warning(&format!("another process is logging in to {place}: it is waited for"));
    };
    oauth.log_in(waits).await?;
    report::print(&format!("logged in to {place}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Forgets the tokens, and has them revoked where that can be done: those of the login whose file has
/// this name, or else of the one that the settings mean.
pub(super) async fn logout(settings: Settings, file: Option<String>) -> Result<ExitCode, Failure> {
    let oauth = oauth(&settings)?;
    let place = shown(&settings.http.url);
    let (outcome, is_called_off) = oauth.log_out(file.as_deref()).await?;
    let mut text = match (&outcome, is_called_off) {
        (LoggedOut::Done | LoggedOut::NotRevoked(_), _) => format!("logged out of {place}\n"),
        (LoggedOut::Nobody, true) => String::new(),
        (LoggedOut::Nobody, false) => format!("nobody was logged in to {place}\n"),
    };
    if is_called_off {
        text += &format!("a login to {place} was pending: it is called off\n");
    }
    if file.is_none() {
        text += &others(oauth);
    }
    report::print(&text)?;
    if let LoggedOut::NotRevoked(error) = &outcome {
        report::warning(&format!(
            "the tokens are gone from here, but they were not revoked: whoever has a copy can use \
             them until they expire ({error})"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows what there is, but for the tokens themselves. Exit code 1 if there is nothing.
pub(super) async fn status(settings: Settings, is_json: bool) -> Result<ExitCode, Failure> {
    let oauth = oauth(&settings)?;
    let (accounts, pending) = (oauth.account().await, oauth.pending_login());
    let (accounts, pending) = (accounts.as_slice(), pending.as_slice());
    if is_json {
        return list::print_json(accounts, pending);
    }
    let nobody = format!("nobody is logged in to {}", shown(&settings.http.url));
    list::print(accounts, pending, &nobody, None, &others(oauth))
}

/// That there are more logins than the one that was asked about.
fn others(oauth: &OAuth) -> String {
    let count = match oauth.count_others() {
        0 => return String::new(),
        1 => "There is one other login".to_owned(),
        count => format!("There are {count} other logins"),
    };
    format!("{count} for this server: 'mcp-span status' lists all\n")
}

pub(super) fn oauth(settings: &Settings) -> Result<&OAuth, Usage> {
    let credentials = settings.http.credentials.as_deref();
    credentials.and_then(|credentials| credentials.oauth()).ok_or_else(|| {
        Usage::new("there is no login here: the credentials come from somewhere else, or --no-oauth was said")
    })
}
