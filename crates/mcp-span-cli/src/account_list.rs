//! All logins at once: the list that `mcp-span status` prints, and a login by its name there.

use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use serde_json::{Value, json};
use url::Url;

use super::args::Connect;
use super::commands::{Logout, Status};
use super::report::{Usage, plain};
use super::{Failure, environment, logging, report};
use mcp_span::auth::oauth::{Account, Listing, Pending, TokenStore, Unreadable, listing};
use mcp_span::options::Origin;
use mcp_span::secret::{Scrubber, shown};
use mcp_span::untrusted::Untrusted;

/// Whether no server was named.
pub(super) fn is_about_all(typed: &Status) -> bool {
    let options = &typed.connect.0.options;
    !options.names_server() && options.mcp_hub_mode != Some(true)
}

/// Shows all logins, or those of the profile that was typed.
pub(super) fn list(typed: &Status) -> Result<ExitCode, Failure> {
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
    let is_empty = all.accounts.is_empty();
    let mut text = match is_empty {
        true => format!("nobody is logged in (tokens are kept in {})\n", folder.display()),
        false => String::new(),
    };
    let state = options.state_dir.as_deref().filter(|_| is_typed(connect, "state-dir"));
    text += &blocks(&all.accounts, &all.pending, Some(&logout_end(state)), SystemTime::now());
    report::print(&text)?;
    Ok(if is_empty { ExitCode::FAILURE } else { ExitCode::SUCCESS })
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
pub(super) fn find_file(logout: &mut Logout) -> Result<(), Failure> {
    let Some(name) = logout.file.as_deref() else { return Ok(()) };
    let (all, _) = read(&logout.connect.0)?;
    let accounts = all.accounts.into_iter().map(|account| (account.name, account.server));
    let pending = all.pending.into_iter().map(|pending| (pending.name, pending.server));
    let mut named = accounts.chain(pending).filter(|(known, _)| known.as_deref() == Some(name));
    let Some((_, server)) = named.next() else {
        return Err(Usage::new(
            "--file: there is no login of this name: 'mcp-span status' lists all",
        )
        .into());
    };
    let Some(server) = server.filter(|server| Url::parse(server).is_ok()) else {
        return Err(Usage::new(
            "--file: this login does not say which server it is for: name the URL",
        )
        .into());
    };
    let connect = &mut logout.connect.0;
    let options = &mut connect.options;
    let typed = options.url.as_deref().and_then(|url| Url::parse(url).ok());
    if typed.is_some_and(|typed| shown(&typed) != server) {
        return Err(Usage::new("--file: this login is for another server than the URL").into());
    }
    // What is kept is what was allowed when it was stored.
    options.allow_http = Some(true);
    (options.url, options.mcp_hub) = (Some(server), None);
    connect.entry = None;
    Ok(())
}

/// Each login as lines of its own. `logout`: how to log out of each is said, with this at its end.
pub(super) fn blocks(
    accounts: &[Account],
    pending: &[Pending],
    logout: Option<&str>,
    now: SystemTime,
) -> String {
    let end = |name: &Option<String>| {
        let command = |(end, name): (&str, &String)| format!("mcp-span logout --file {name}{end}");
        logout.zip(name.as_ref()).map(|both| ("log out", command(both)))
    };
    let accounts = accounts.iter().map(|account| {
        let mut all = whose(&account.server, &account.profile, &account.apart_by);
        let resource = account.resource.as_ref().filter(|_| account.resource != account.server);
        all.extend(resource.map(|resource| ("resource", plain(resource))));
        all.extend(lines(account, now));
        all.extend(end(&account.name));
        text(all)
    });
    let pending = pending.iter().map(|pending| {
        let mut all = whose(&pending.server, &pending.profile, &pending.apart_by);
        all.push(("pending", format!("a login waits for you: open {}", pending.open)));
        all.extend(end(&pending.name));
        text(all)
    });
    accounts.chain(pending).collect::<Vec<_>>().join("\n")
}

/// Which of many logins it is.
fn whose(
    server: &Option<String>,
    profile: &Option<String>,
    apart_by: &[String],
) -> Vec<(&'static str, String)> {
    let apart = Some(apart_by.join(", ")).filter(|text| !text.is_empty());
    let server = server.as_deref().map_or_else(|| "-".to_owned(), plain);
    let rest = [("profile", profile.as_deref()), ("apart by", apart.as_deref())];
    let rest = rest.into_iter().filter_map(|(name, text)| Some((name, plain(text?))));
    [("server", server)].into_iter().chain(rest).collect()
}

fn text(lines: Vec<(&'static str, String)>) -> String {
    let lines = lines.into_iter();
    lines.map(|(name, value)| format!("{name:<10} {}\n", Untrusted(&value))).collect()
}

/// For programs; the same for one server and for all.
pub(super) fn print_json(accounts: &[Account], pending: &[Pending]) -> Result<ExitCode, Failure> {
    let all: Vec<Value> = accounts.iter().map(json).collect();
    let pending: Vec<Value> = pending.iter().map(pending_json).collect();
    report::print(&format!("{}\n", json!({ "logins": all, "pending": pending })))?;
    Ok(if accounts.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
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
            apart_by: vec!["scope 'a b'".into()],
            name: Some("t".into()),
            place: Some("/s/t.json".into()),
        };
        let text: String = lines(&account, now).iter().map(|(n, v)| format!("{n}={v};")).collect();
        assert_eq!(
            text,
            "issuer=https://as;client=-;scopes=a b;expires=in 10 minutes, is renewed by itself;kept in=/s/t.json;"
        );
        assert_eq!(
            whose(&account.server, &account.profile, &account.apart_by),
            [
                ("server", "https://h/mcp".to_owned()),
                ("profile", "work".to_owned()),
                ("apart by", "scope 'a b'".to_owned()),
            ],
        );
        let block = blocks(std::slice::from_ref(&account), &[], Some(" --state-dir /s"), now);
        assert!(block.ends_with("log out    mcp-span logout --file t --state-dir /s\n"), "{block}");
        assert!(!block.contains("resource"), "one that is another is shown: {block}");
        let old = Account {
            expires: Some(now - Duration::from_secs(1)),
            can_be_renewed: false,
            ..account
        };
        assert!(lines(&old, now)[3].1.starts_with("over, is not renewed"));
    }
}
