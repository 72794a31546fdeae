//! All logins at once: the list that `mcp-span status` prints, and a login by its name there.

use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use serde_json::{Value, json};
use url::Url;

use crate::args::Connect;
use crate::commands::{Logout, Status};
use crate::report::Usage;
use crate::{Failure, environment, logging, report};
use mcp_span::auth::oauth::{Account, Listing, Pending, TokenStore, Unreadable, listing};
use mcp_span::options::Origin;
use mcp_span::secret::{Scrubber, shown};
use mcp_span::untrusted::Untrusted;

/// Whether no server was named.
pub(crate) fn is_about_all(typed: &Status) -> bool {
    let options = &typed.connect.0.options;
    !options.names_server() && options.mcp_hub_mode != Some(true)
}

/// Shows all logins, or those of the profile that was typed.
pub(crate) fn list(typed: &Status) -> Result<ExitCode, Failure> {
    let connect = &typed.connect.0;
    let options = &connect.options;
    check(connect)?;
    logging::start(connect, &Scrubber::default())?;
    let (mut all, folder) = read(connect)?;
    for Unreadable { file, why } in &all.unreadable {
        report::warning(&format!("the tokens in {} cannot be read: {why}", file.display()));
    }
    if is_typed(connect, "profile") {
        let profile = options.profile.as_ref().filter(|profile| !profile.is_empty());
        all.accounts.retain(|account| account.profile.as_ref() == profile);
        all.pending.retain(|pending| pending.profile.as_ref() == profile);
    }
    if typed.json {
        return print_json(&all.accounts, &all.pending);
    }
    let nobody = format!("no logins (tokens are kept in {})", folder.display());
    let state = options.state_dir.as_deref().filter(|_| is_typed(connect, "state-dir"));
    print(&all.accounts, &all.pending, &nobody, Some(&logout_end(state)), "")
}

/// For a person; `nobody` where there is no login, and exit code 1 then. `logout`: how to log out of
/// each is said, with this at its end.
pub(super) fn print(
    accounts: &[Account],
    pending: &[Pending],
    nobody: &str,
    logout: Option<&str>,
    more: &str,
) -> Result<ExitCode, Failure> {
    let blocks = blocks(accounts, pending, logout, SystemTime::now());
    let nobody = if accounts.is_empty() { format!("{nobody}\n") } else { String::new() };
    report::print(&format!("{nobody}{blocks}{more}"))?;
    Ok(exit_code(accounts))
}

fn exit_code(accounts: &[Account]) -> ExitCode {
    if accounts.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Refuses what can only be meant for one server.
fn check(connect: &Connect) -> Result<(), Usage> {
    let single = [
        "header",
        "profile-by-headers",
        "oauth-client-id",
        "oauth-resource",
        "oauth-audience",
        "oauth-scope",
        "oauth-param",
        "oauth-authorize-param",
    ];
    match single.into_iter().find(|name| is_typed(connect, name)) {
        Some(name) => Err(Usage::new(format!(
            "--{name} is about the login at one server: name its URL, or leave the flag out to see all"
        ))),
        None => Ok(()),
    }
}

fn is_typed(connect: &Connect, name: &str) -> bool {
    connect.options.origin(name) == Some(&Origin::Flag)
}

/// All logins, and the folder that they are in.
fn read(connect: &Connect) -> Result<(Listing, std::path::PathBuf), Failure> {
    let options = &connect.options;
    if options.token_store() != TokenStore::File {
        return Err(Usage::new("a keychain cannot be listed: name the server").into());
    }
    let context = environment::context(connect);
    let folder = options.state_dir(&context);
    let folder = folder.ok_or_else(|| Usage::new("there is no folder for tokens: --state-dir"))?;
    let all = listing(
        &folder,
        context.usual_state_dir.filter(|_| options.state_dir.is_none()).as_deref(),
    )?;
    Ok((all, folder))
}

/// What goes behind the name of a login in a command, so that it is found.
fn logout_end(state: Option<&Path>) -> String {
    let quoted = |path: &Path| {
        let text = path.to_str()?;
        shlex::try_quote(text).ok().map(|quoted| format!(" --state-dir {quoted}"))
    };
    state.and_then(quoted).unwrap_or_default()
}

/// Makes of the name of a listed login the server that it is for.
pub(crate) fn find_file(logout: &mut Logout) -> Result<(), Failure> {
    let Some(name) = logout.file.as_deref() else { return Ok(()) };
    let wrong = |why: &str| Err(Usage::new(format!("--file: {why}")).into());
    let (all, _) = read(&logout.connect.0)?;
    let accounts = all.accounts.into_iter().map(|account| (account.name, account.server));
    let pending = all.pending.into_iter().map(|pending| (pending.name, pending.server));
    let mut named = accounts.chain(pending).filter(|(known, _)| known.as_deref() == Some(name));
    let Some((_, server)) = named.next() else {
        return wrong("there is no login of this name: 'mcp-span status' lists all");
    };
    let Some(server) = server.filter(|server| Url::parse(server).is_ok()) else {
        return wrong("this login does not say which server it is for: name the URL");
    };
    let connect = &mut logout.connect.0;
    let options = &mut connect.options;
    let typed = options.url.as_deref().and_then(|url| Url::parse(url).ok());
    if typed.is_some_and(|typed| shown(&typed) != server) {
        return wrong("this login is for another server than the URL");
    }
    // What is kept is what was allowed when it was stored.
    options.allow_http = Some(true);
    (options.url, options.mcp_hub) = (Some(server), None);
    connect.entry = None;
    Ok(())
}

/// Each login as lines of its own.
fn blocks(
    accounts: &[Account],
    pending: &[Pending],
    logout: Option<&str>,
    now: SystemTime,
) -> String {
    let log_out = |name: &Option<String>| {
        Some(format!("mcp-span logout --file {}{}", name.as_ref()?, logout?))
    };
    let accounts = accounts.iter().map(|account| {
        let or_none = |text: &Option<String>| text.clone().or_else(|| Some("-".to_owned()));
        let resource = account.resource.as_ref().filter(|_| account.resource != account.server);
        let whose = whose(&account.server, &account.profile, &account.apart_by);
        text(whose.into_iter().chain([
            ("resource", resource.cloned()),
            ("issuer", or_none(&account.issuer)),
            ("client", or_none(&account.client)),
            ("scopes", or_none(&account.scope)),
            ("expires", Some(expiry(account, now))),
            ("kept in", or_none(&account.place)),
            ("log out", log_out(&account.name)),
        ]))
    });
    let pending = pending.iter().map(|pending| {
        let whose = whose(&pending.server, &pending.profile, &pending.apart_by);
        text(whose.into_iter().chain([
            ("pending", Some(format!("a login is waiting for you: open {}", pending.open))),
            ("log out", log_out(&pending.name)),
        ]))
    });
    accounts.chain(pending).collect::<Vec<_>>().join("\n")
}

/// Which of many logins it is.
fn whose(
    server: &Option<String>,
    profile: &Option<String>,
    apart_by: &[String],
) -> [(&'static str, Option<String>); 3] {
    let apart = Some(apart_by.join(", ")).filter(|text| !text.is_empty());
    let server = server.clone().or_else(|| Some("-".to_owned()));
    [("server", server), ("profile", profile.clone()), ("apart by", apart)]
}

fn expiry(account: &Account, now: SystemTime) -> String {
    let renewal = if account.can_be_renewed { "renewed automatically" } else { "not renewable" };
    match account.expires.map(|at| at.duration_since(now)) {
        None => format!("unknown ({renewal})"),
        Some(Ok(left)) => format!("in {} minutes ({renewal})", left.as_secs() / 60),
        Some(Err(_)) => format!("expired ({renewal})"),
    }
}

fn text<'a>(lines: impl Iterator<Item = (&'a str, Option<String>)>) -> String {
    let line =
        |(name, value): (_, Option<String>)| Some(format!("{name:<10} {}\n", Untrusted(&value?)));
    lines.filter_map(line).collect()
}

/// For programs; the same for one server and for all.
pub(crate) fn print_json(accounts: &[Account], pending: &[Pending]) -> Result<ExitCode, Failure> {
    let all: Vec<Value> = accounts.iter().map(json).collect();
    let pending: Vec<Value> = pending.iter().map(pending_json).collect();
    let all = json!({ "logins": all, "pending": pending }).to_string();
    report::print(&(Untrusted(&all).json() + "\n"))?;
    Ok(exit_code(accounts))
}

fn pending_json(pending: &Pending) -> Value {
    json!({
        "server": pending.server,
        "profile": pending.profile,
        "apart_by": pending.apart_by,
        "name": pending.name,
        "open": pending.open,
    })
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
        "apart_by": account.apart_by,
        "name": account.name,
        "kept_in": account.place,
    })
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
            apart_by: vec!["scope 'a b'".into()],
            name: Some("t".into()),
            place: Some("/s/t.json".into()),
        };
        let block = blocks(std::slice::from_ref(&account), &[], Some(" --state-dir /s"), now);
        let lines = [
            "server     https://h/mcp",
            "profile    work",
            "apart by   scope 'a b'",
            "issuer     https://as",
            "client     -",
            "scopes     a b",
            "expires    in 10 minutes (renewed automatically)",
            "kept in    /s/t.json",
            "log out    mcp-span logout --file t --state-dir /s\n",
        ];
        assert_eq!(block, lines.join("\n"), "a resource that is another is shown");
        let old = Account {
            expires: Some(now - Duration::from_secs(1)),
            can_be_renewed: false,
            ..account
        };
        assert_eq!(expiry(&old, now), "expired (not renewable)");
    }
}
