//! `mcp-span login`, `logout` and `status`: a person and the tokens of a server.

use std::process::ExitCode;
use std::time::SystemTime;

use serde_json::{Value, json};

use super::commands::Status;
use super::report::{Usage, plain};
use super::settings::Settings;
use super::{Failure, logging, report};
use crate::auth::oauth::{Account, LoggedOut, OAuth, Unreadable, accounts};
use crate::secret::{Scrubber, shown};
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
pub(super) async fn status(settings: Settings, is_json: bool) -> Result<ExitCode, Failure> {
    let account = oauth(&settings)?.account();
    if is_json {
        return print_json(account.as_slice());
    }
    let Some(account) = account else {
        report::print(&format!("nobody is logged in to {}\n", shown(&settings.http.url)))?;
        return Ok(ExitCode::FAILURE);
    };
    report::print(&text(lines(&account, SystemTime::now())))?;
    Ok(ExitCode::SUCCESS)
}

/// Whether no server was named.
pub(super) fn is_about_all(typed: &Status) -> bool {
    typed.connect.url.is_none() && typed.connect.mcp_hub.is_none() && !typed.connect.mcp_hub_mode
}

/// The same for all servers.
pub(super) fn list(typed: &Status) -> Result<ExitCode, Failure> {
    let login = &typed.connect.oauth;
    logging::start(&typed.connect.log, &Scrubber::default())?;
    if !login.is_kept_in_files() {
        return Err(Usage::new("a keychain cannot be listed: name the server").into());
    }
    let lookup = |name: &str| std::env::var(name).ok();
    let folder = super::oauth::folder(login, lookup);
    let folder = folder.ok_or_else(|| Usage::new("there is no folder for tokens: --state-dir"))?;
    let (accounts, unreadable) =
        accounts(&folder, super::oauth::usual_folder(login, lookup).as_deref())?;
    for Unreadable { file, why } in unreadable {
        report::warning(&format!("the tokens in {} cannot be read: {why}", file.display()));
    }
    if typed.json {
        return print_json(&accounts);
    }
    if accounts.is_empty() {
        report::print(&format!("nobody is logged in (tokens are kept in {})\n", folder.display()))?;
        return Ok(ExitCode::FAILURE);
    }
    let now = SystemTime::now();
    let blocks = accounts.iter().map(|account| {
        let mut all = whose(account);
        all.extend(lines(account, now));
        text(all)
    });
    report::print(&blocks.collect::<Vec<_>>().join("\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Which of many logins it is.
fn whose(account: &Account) -> Vec<(&'static str, String)> {
    let server = account.server.as_deref();
    let resource = account.resource.as_deref().filter(|resource| Some(*resource) != server);
    let of = |name, value: Option<&str>| value.map(|value| (name, plain(value)));
    let profile = of("profile", account.profile.as_deref());
    let all = [Some(("server", server.map_or_else(|| "-".to_owned(), plain))), profile];
    all.into_iter().chain([of("resource", resource)]).flatten().collect()
}

fn text(lines: Vec<(&'static str, String)>) -> String {
    let lines = lines.into_iter();
    lines.map(|(name, value)| format!("{name:<10} {}\n", Untrusted(&value))).collect()
}

/// For programs; the same for one server and for all.
fn print_json(accounts: &[Account]) -> Result<ExitCode, Failure> {
    let all: Vec<Value> = accounts.iter().map(json).collect();
    report::print(&format!("{}\n", json!({ "logins": all })))?;
    Ok(if accounts.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn json(account: &Account) -> Value {
    let expires = account.expires.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    let scopes = account.scope.as_deref().map(|all| all.split_whitespace().collect::<Vec<_>>());
    json!({
        "server": account.server,
        "profile": account.profile,
        "resource": account.resource,
        "issuer": account.issuer,
        "client": account.client,
        "scopes": scopes,
        "expires_at": expires.map(|since| since.as_secs()),
        "renewable": account.can_be_renewed,
        "kept_in": account.place,
    })
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
            server: Some("https://h/mcp".into()),
            profile: Some("work".into()),
            resource: Some("https://h/mcp".into()),
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
        assert_eq!(
            whose(&account),
            [("server", "https://h/mcp".into()), ("profile", "work".to_owned())],
            "a resource that is another is shown as well"
        );
        let old = Account {
            expires: Some(now - Duration::from_secs(1)),
            can_be_renewed: false,
            ..account
        };
        assert!(lines(&old, now)[3].1.starts_with("over, is not renewed"));
    }
}
