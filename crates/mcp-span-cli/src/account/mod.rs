//! `mcp-span login`, `logout` and `status`: a person and the tokens of a server.

use std::process::ExitCode;

use serde_json::json;

use crate::report::Usage;
use crate::settings::Settings;
use crate::{Failure, report};
use mcp_span::auth::oauth::{LoggedOut, OAuth};
use mcp_span::secret::shown;
use mcp_span::untrusted::Untrusted;

pub(crate) mod browser;
pub(crate) mod import;
pub(crate) mod list;
pub(crate) mod paste;
pub(crate) mod process;

/// Logs in with a browser, or as a client.
pub(super) async fn login(settings: Settings, is_json: bool) -> Result<ExitCode, Failure> {
    let oauth = oauth(&settings)?;
    let place = shown(&settings.http.url);
    let waits = || {
        report::warning(&format!("another process is logging in to {place}: waiting for it"));
    };
    oauth.log_in(waits).await.map_err(Failure::of_login)?;
    if is_json {
        return list::print_json(oauth.account().await.as_slice(), &[]);
    }
    report::print(&format!("logged in to {place}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Forgets the tokens, and has them revoked where that can be done: those of the login whose file has
/// this name, or else of the one that the settings mean.
pub(super) async fn logout(
    settings: Settings,
    file: Option<String>,
    is_json: bool,
) -> Result<ExitCode, Failure> {
    let oauth = oauth(&settings)?;
    let place = shown(&settings.http.url);
    let (outcome, is_cancelled) =
        oauth.log_out(file.as_deref()).await.map_err(Failure::of_login)?;
    let is_logged_out = !matches!(outcome, LoggedOut::Nobody);
    let revocation_error = match outcome {
        LoggedOut::NotRevoked(error) => Some(error.to_string()),
        LoggedOut::Done | LoggedOut::Nobody => None,
    };
    if is_json {
        let done = json!({
            "server": place,
            "logged_out": is_logged_out,
            "revocation_error": revocation_error,
            "pending_cancelled": is_cancelled,
            "other_logins": file.is_none().then(|| oauth.count_others()),
        });
        report::print(&format!("{}\n", Untrusted(&done.to_string()).json()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = match (is_logged_out, is_cancelled) {
        (true, _) => format!("logged out of {place}\n"),
        (false, true) => String::new(),
        (false, false) => format!("not logged in to {place}\n"),
    };
    if is_cancelled {
        text += &format!("cancelled a pending login to {place}\n");
    }
    if file.is_none() {
        text += &others(oauth);
    }
    report::print(&text)?;
    if let Some(error) = revocation_error {
        report::warning(&format!(
            "the tokens are removed here but were not revoked: a copy of them is valid until they \
             expire ({error})"
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
    let nobody = format!("not logged in to {}", shown(&settings.http.url));
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
        Usage::new("this server has no login: its credentials come from another option, or --no-oauth is set")
    })
}
