//! `mcp-span login`, `logout` and `status`: a person and the tokens of a server.

use std::process::ExitCode;
use std::time::SystemTime;

use super::report::{Usage, plain};
use super::settings::Settings;
use super::{Failure, report};
use crate::auth::oauth::{Account, LoggedOut, OAuth};
use crate::secret::shown;
use crate::untrusted::Untrusted;

/// Logs in with a browser, or as a client.
pub(super) async fn login(settings: Settings) -> Result<ExitCode, Failure> {
    let oauth = oauth(&settings)?;
    let place = shown(&settings.http.url);
    let waits = |page: Option<&str>| {
        let page = page.map_or_else(String::new, |page| format!(", at {page}"));
        report::warning(&format!(
            "another process is logging in to {place}{page}: it is waited for"
        ));
    };
    if let Err(error) = oauth.log_in(waits).await {
        return Ok(report::failed(&error));
    }
    report::print(&format!("logged in to {place}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Forgets the tokens, and has them revoked where that can be done.
pub(super) async fn logout(settings: Settings) -> Result<ExitCode, Failure> {
    let oauth = oauth(&settings)?;
    let place = shown(&settings.http.url);
    let outcome = oauth.log_out().await;
    let text = match &outcome {
        Ok(LoggedOut::Done | LoggedOut::NotRevoked(_)) => format!("logged out of {place}\n"),
        Ok(LoggedOut::Nobody) => format!("nobody was logged in to {place}\n"),
        Err(error) => return Ok(report::failed(error)),
    };
    report::print(&text)?;
    if let Ok(LoggedOut::NotRevoked(error)) = &outcome {
        report::warning(&format!(
            "the tokens are gone from here, but they were not revoked: whoever has a copy can use \
             them until they expire ({error})"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows what there is, but for the tokens themselves. Exit code 1 if there is nothing.
pub(super) async fn status(settings: Settings) -> Result<ExitCode, Failure> {
    let oauth = oauth(&settings)?;
    let Some(account) = oauth.account() else {
        report::print(&format!("nobody is logged in to {}\n", shown(&settings.http.url)))?;
        return Ok(ExitCode::FAILURE);
    };
    let lines = lines(&account, SystemTime::now()).into_iter();
    let text: String =
        lines.map(|(name, value)| format!("{name:<10} {}\n", Untrusted(&value))).collect();
    report::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn oauth(settings: &Settings) -> Result<&OAuth, Usage> {
    let credentials = settings.http.credentials.as_deref();
    credentials.and_then(|credentials| credentials.oauth()).ok_or_else(|| {
        Usage::new("there is no login here: the credentials come from somewhere else, or --no-oauth was said")
    })
}

fn lines(account: &Account, now: SystemTime) -> Vec<(&'static str, String)> {
    let or_none = |text: &Option<String>| text.as_deref().map_or_else(|| "-".to_owned(), plain);
    let renewal = if account.can_be_renewed { "is renewed by itself" } else { "is not renewed" };
    let expiry = match account.expires.map(|at| at.duration_since(now)) {
        None => format!("not said, {renewal}"),
        Some(Ok(left)) => format!("in {} minutes, {renewal}", left.as_secs() / 60),
        Some(Err(_)) => format!("over, {renewal}"),
    };
    vec![
        ("issuer", or_none(&account.issuer)),
        ("client", or_none(&account.client)),
        ("scopes", or_none(&account.scope)),
        ("expires", expiry),
        ("kept in", or_none(&account.place)),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_account_is_shown_without_its_token() {
        let now = SystemTime::now();
        let account = Account {
            issuer: Some("https://as".into()),
            client: None,
            scope: Some("a b".into()),
            expires: Some(now + Duration::from_secs(600)),
            can_be_renewed: true,
            place: Some("/s/t.json".into()),
        };
        let text: String = lines(&account, now).iter().map(|(n, v)| format!("{n}={v};")).collect();
        assert_eq!(
            text,
            "issuer=https://as;client=-;scopes=a b;expires=in 10 minutes, is renewed by itself;kept in=/s/t.json;"
        );
        let old = Account {
            expires: Some(now - Duration::from_secs(1)),
            can_be_renewed: false,
            ..account
        };
        assert!(lines(&old, now)[3].1.starts_with("over, is not renewed"));
    }
}
