//! What the arguments mean: checked, with the environment looked up, ready to be used.

use std::sync::Arc;

use ::http::header::AUTHORIZATION;
use ::http::{HeaderMap, HeaderValue};
use percent_encoding::percent_decode_str;
use url::Url;

use super::link::{Link, ProtocolName};
use super::report::{Usage, nearest_command};
use super::{args, credentials, environment, headers, hub, login_process, oauth, proxy, tls};
use mcp_span::auth::oauth::OAuth;
use mcp_span::auth::{self, Credentials, Source};
use mcp_span::bridge::{HiddenTools, Policy, Stages};
use mcp_span::client::{self, Spec};
use mcp_span::config::{self, Entry};
use mcp_span::limits::{self, Timeouts};
use mcp_span::net::{self, is_loopback};
use mcp_span::revision::Revision;
use mcp_span::revision::translate::{Memory, Protocol};
use mcp_span::secret::{Scrubber, Secret, is_key, shown};
use mcp_span::transport::child;
use mcp_span::transport::http::{self, basic_authorization};

/// All that a command needs to know.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) http: http::HttpSettings,
    pub(super) policy: Policy,
    pub(super) stages: Stages,
}

impl From<Settings> for Spec {
    fn from(settings: Settings) -> Self {
        let Settings { http, policy, stages } = settings;
        Self { policy, stages, ..Self::http(http) }
    }
}

/// The settings for a connection to the URL that was typed.
pub(super) fn of(typed: &args::Connect) -> Result<Settings, Usage> {
    if is_program(typed) {
        return Err(Usage::new("this server is a program to be started: it has no URL"));
    }
    let (address, transport) = target(typed)?;
    let url = typed_url(typed, address.as_deref())?;
    let lookup = |name: &str| std::env::var(name).ok();
    let scrubber = typed.server.as_ref().map(|entry| entry.scrubber()).unwrap_or_default();
    let headers::Given { mut headers, has_token } = headers::of(typed, &scrubber, lookup)?;
    hide_parts(&url, &scrubber);
    // What was typed beats what is in a file.
    let is_beaten = has_token && typed.credentials.is_bearer() && !typed.explicit.credentials;
    let sources = match is_beaten {
        true => None,
        false => credentials::of(typed, &mut headers, &scrubber, lookup)?,
    };
    let proxies = proxy::of(&typed.proxy, &url, &scrubber, lookup)?;
    let mut settings = link(&typed.link, url)?;
    settings.http.net.proxies = proxies;
    settings.http.transport = transport;
    settings.http.headers = headers;
    settings.http.scrubber = scrubber;
    settings.http.net.tls = tls::of(&typed.tls, |name| std::env::var_os(name))?;
    settings.policy.login_wait = typed.oauth.oauth_wait;
    settings.http.login_wait = typed.oauth.oauth_wait;
    let folder = oauth::folder(Some(&typed.oauth), lookup);
    settings.stages.memory = folder.map(|folder| Memory::new(&folder, &settings.http.url));
    let login = oauth::of(&typed.oauth, typed.allow_http, &settings.http.scrubber, lookup)?;
    let login = login.map(|login| auth::oauth::OAuthSettings {
        // Whoever runs `mcp-span login` waits for it at a terminal; clients do not.
        process: (!typed.oauth.is_attended)
            .then(|| login_process::command(&typed.log, environment::for_browser(&typed.oauth))),
        ..apart_by_headers(login, typed.oauth.profile_by_headers, &settings.http)
    });
    settings.http.credentials = sources.or_else(|| logins(login?, &settings.http)).map(Arc::new);
    Ok(settings)
}

/// The login for these headers alone, if that is asked for, or if there is one: an account that was
/// kept for them, as mcp-remote does, is the one that is meant by whoever sends them.
fn apart_by_headers(
    login: auth::oauth::OAuthSettings,
    is_asked_for: bool,
    http: &http::HttpSettings,
) -> auth::oauth::OAuthSettings {
    let apart = auth::oauth::OAuthSettings { apart_by: as_pairs(&http.headers), ..login.clone() };
    let is_kept = || !http.headers.is_empty() && OAuth::is_kept_in_file(&http.url, &apart);
    if is_asked_for || is_kept() { apart } else { login }
}

/// Headers with their values, for telling them apart alone.
fn as_pairs(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}

/// A connection to whatever server was typed: a URL, a name, a command. What is wrong with one that
/// has a name is told with its place in the file.
pub(super) fn spec(typed: &args::Connect) -> Result<Spec, Usage> {
    let Some(entry) = &typed.server else { return unplaced_spec(typed) };
    unplaced_spec(typed).map_err(|Usage(why)| {
        Usage::new(format!("{}: server '{}': {why}", entry.place, entry.name))
    })
}

fn unplaced_spec(typed: &args::Connect) -> Result<Spec, Usage> {
    let mut spec = match &typed.server {
        Some(entry) if is_program(typed) => entry.server.spec(&entry.scrubber()),
        _ if is_program(typed) => {
            if typed.url.is_some() {
                return Err(Usage::new(args::TWO_SERVERS));
            }
            let mut words = typed.program.iter();
            let program = words.next().cloned().unwrap_or_default();
            Spec::child(child::ChildSettings::new(program).args(words))
        }
        _ => return of(typed).map(Spec::from),
    };
    if let client::Server::Child(child) = &mut spec.server {
        child.max_message = typed.link.max_message_size;
        child.environment = environment::for_program(typed);
    }
    spec.policy = policy(&typed.link);
    spec.stages = stages(&typed.link);
    Ok(spec)
}

/// Whether the server is to be started.
fn is_program(typed: &args::Connect) -> bool {
    let named = typed.server.as_ref().map(|entry| &entry.server);
    !typed.program.is_empty() || matches!(named, Some(config::Server::Child { .. }))
}

/// What knows the secrets of a connection.
pub(super) fn scrubber(spec: &Spec) -> &Scrubber {
    match &spec.server {
        client::Server::Child(child) => &child.scrubber,
        client::Server::Http(http) => &http.scrubber,
    }
}

/// What to call a server that has no name.
pub(super) fn server_name(spec: &Spec) -> String {
    match &spec.server {
        client::Server::Child(child) => child.program.to_string_lossy().into_owned(),
        client::Server::Http(http) => shown(&http.url),
    }
}

/// Logins, unless the user has given credentials: then nothing is done behind the user's back (C5).
fn logins(login: auth::oauth::OAuthSettings, http: &http::HttpSettings) -> Option<Credentials> {
    if http.headers.contains_key(AUTHORIZATION) || basic_authorization(&http.url).is_some() {
        return None;
    }
    let oauth = OAuth::new(&http.url, login, http.net.clone());
    let source = Source::OAuth(Arc::new(oauth));
    Some(Credentials::new(source, limits::CREDENTIAL_TTL, http.scrubber.clone()))
}

/// Which server is meant, and how it is spoken to (C10).
fn target(typed: &args::Connect) -> Result<(Option<String>, http::Transport), Usage> {
    let named = match typed.mcp_hub.as_deref() {
        _ if typed.server.is_some() => typed.server.as_ref().and_then(|entry| address(entry)),
        None => typed.url.clone(),
        Some(args::LOCAL_HUB) if typed.url.is_some() => typed.url.clone(),
        Some(args::LOCAL_HUB) => Some(hub::find()?),
        Some(_) if typed.url.is_some() => {
            return Err(Usage::new("there are two URLs: one is enough with --mcp-hub"));
        }
        Some(url) => Some(url.to_owned()),
    };
    Ok((named, transport(typed)?))
}

fn transport(typed: &args::Connect) -> Result<http::Transport, Usage> {
    let is_hub = typed.mcp_hub_mode || typed.mcp_hub.is_some();
    Ok(match typed.transport {
        args::Transport::Http if is_hub => {
            return Err(Usage::new("--transport http and mcp-hub exclude each other"));
        }
        args::Transport::Auto if is_hub => http::Transport::Sse,
        args::Transport::Auto => http::Transport::Auto,
        args::Transport::Http => http::Transport::Http,
        args::Transport::Sse => http::Transport::Sse,
    })
}

fn address(entry: &Entry) -> Option<String> {
    match &entry.server {
        config::Server::Url { url, .. } => Some(url.to_string()),
        config::Server::Child { .. } => None,
    }
}

/// One value a line; empty lines mean nothing.
fn lines(texts: &[String]) -> impl Iterator<Item = &str> {
    texts.iter().flat_map(|text| text.lines()).filter(|line| !line.trim().is_empty())
}

/// How patient a connection is.
fn policy(typed: &Link) -> Policy {
    Policy {
        timeouts: typed.timeout.map_or_else(Timeouts::default, Timeouts::all),
        connect_wait: typed.connect_wait,
        away_wait: typed.away_wait,
        keep_alive: typed.keep_alive,
        ..Policy::default()
    }
}

fn stages(typed: &Link) -> Stages {
    let hidden_tools = HiddenTools::new(lines(&typed.ignore_tool));
    Stages { protocol: protocol(typed), hidden_tools, ..Stages::default() }
}

fn protocol(typed: &Link) -> Protocol {
    match typed.protocol {
        ProtocolName::Auto => Protocol::Auto,
        ProtocolName::Legacy => Protocol::Legacy,
        ProtocolName::Modern => Protocol::Modern,
    }
}

/// The settings that do not depend on who the server is.
pub(super) fn link(typed: &Link, url: Url) -> Result<Settings, Usage> {
    let version = typed.protocol_version.as_deref();
    let protocol_version = version.map(HeaderValue::from_str).transpose().map_err(|_| {
        let known = Revision::LATEST_LEGACY;
        Usage::new(format!("--protocol-version must be a date such as {known}"))
    })?;
    let policy = policy(typed);
    let http = http::HttpSettings {
        protocol_version,
        timeouts: policy.timeouts,
        net: net::Options {
            connect_timeout: typed.connect_timeout,
            ipv4: typed.ipv4,
            ..net::Options::default()
        },
        away_wait: typed.away_wait,
        max_message: typed.max_message_size,
        parallel: usize::try_from(typed.max_parallel).unwrap_or(usize::MAX),
        serial: typed.serial,
        server_stream: !typed.no_server_stream,
        cookies: !typed.no_cookies,
        ..http::HttpSettings::new(url)
    };
    Ok(Settings { http, policy, stages: stages(typed) })
}

/// The URL, checked; if it is none, it may have been meant as a name.
pub(super) fn typed_url(typed: &args::Connect, address: Option<&str>) -> Result<Url, Usage> {
    url(address, typed.allow_http).map_err(|Usage(why)| match &typed.no_name {
        Some(no) => {
            let command = address.and_then(nearest_command);
            let meant = command.map(|command| format!("; is it the command '{command}'?"));
            Usage(format!("{why}. It is not a name either: {no}{}", meant.unwrap_or_default()))
        }
        None => Usage(why),
    })
}

/// The URL that was typed, if it can be used.
fn url(typed: Option<&str>, allow_http: bool) -> Result<Url, Usage> {
    let Some(typed) = typed else {
        return Err(Usage::new(
            "the URL of an MCP server is missing: mcp-span https://example.com/mcp",
        ));
    };
    let wrong = || {
        // What stands before an '@', in a path or behind a '?' may be a secret.
        let typed = typed.split(['?', '#']).next().unwrap_or_default();
        let typed = typed.rsplit('@').next().unwrap_or_default();
        let typed = typed.split('/').map(|part| if is_key(part) { "…" } else { part });
        let typed = typed.collect::<Vec<_>>().join("/");
        let typed = typed.escape_debug().to_string();
        let meant = without_scheme(&typed);
        let like = meant.unwrap_or_else(|| "write it like https://example.com/mcp".to_owned());
        Usage::new(format!("'{typed}' is not a URL: {like}"))
    };
    // `localhost:3000/mcp` parses, as a URL with the scheme `localhost`.
    let mut url = Url::parse(typed).map_err(|_| wrong())?;
    if !matches!(url.scheme(), "http" | "https") {
        if !url.has_host() {
            return Err(wrong());
        }
        let scheme = url.scheme();
        return Err(Usage::new(format!(
            "the URL's scheme is '{scheme}'; only http and https are spoken here"
        )));
    }
    url.set_fragment(None);
    if url.scheme() == "http" && !url.host_str().is_some_and(is_loopback) && !allow_http {
        return Err(Usage::new(format!(
            "{} is plain http to another machine, where anybody on the way can read it: use https, \
             or --allow-http if you trust the way",
            shown(&url)
        )));
    }
    Ok(url)
}

/// What to write in place of a URL without its scheme, if that is what it is: a host with a dot, or
/// this machine with a port.
fn without_scheme(typed: &str) -> Option<String> {
    let url = Url::parse(&format!("https://{typed}")).ok()?;
    let host = url.host_str()?;
    let scheme = match is_loopback(host) {
        true if url.port().is_some() || url.path() != "/" => "http",
        false if host.contains('.') && !typed.contains(char::is_whitespace) => "https",
        _ => return None,
    };
    Some(format!("is it {scheme}://{typed}?"))
}

/// What stands in a URL may be a token as well as not.
fn hide_parts(url: &Url, scrubber: &Scrubber) {
    for (_, value) in url.query_pairs() {
        scrubber.add(&Secret::new(value));
    }
    let as_written = url.query().unwrap_or_default().split('&');
    for value in as_written.filter_map(|pair| pair.split_once('=').map(|(_, value)| value)) {
        scrubber.add(&Secret::new(value));
    }
    for segment in url.path().split('/').filter(|segment| is_key(segment)) {
        scrubber.add(&Secret::new(segment));
    }
    if url.password().is_some() || !url.username().is_empty() {
        scrubber.add(&Secret::new(url.username()));
    }
    if let Some(password) = url.password() {
        scrubber.add(&Secret::new(password));
        scrubber.add(&Secret::new(percent_decode_str(password).decode_utf8_lossy()));
    }
    if let Some(Ok(basic)) = basic_authorization(url).as_ref().map(HeaderValue::to_str) {
        scrubber.add(&Secret::new(basic));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_or_refused_with_a_reason() {
        // S2-32
        let accepted = |typed| url(Some(typed), false).map(|url| url.to_string());
        assert_eq!(accepted("https://example.com/mcp#x").unwrap(), "https://example.com/mcp");
        for typed in
            ["http://localhost:1/", "http://127.9.9.9/", "http://[::1]/", "http://a.localhost/"]
        {
            assert!(accepted(typed).is_ok(), "{typed}");
        }
        let refused = |typed| url(typed, false).unwrap_err().0;
        assert!(refused(None).contains("missing"));
        assert!(refused(Some("nonsense")).contains("is not a URL"));
        for (typed, meant) in [
            ("localhost:3000/mcp", "is it http://localhost:3000/mcp?"),
            ("127.0.0.1:3000", "is it http://127.0.0.1:3000?"),
            ("example.com/mcp", "is it https://example.com/mcp?"),
            ("localhost", "write it like"),
            ("some words.", "write it like"),
        ] {
            let said = refused(Some(typed));
            assert!(said.contains("is not a URL") && said.contains(meant), "{said}");
        }
        assert!(refused(Some("")).contains("is not a URL"));
        let shown = refused(Some("me:s3cret@example.com/mcp?token=s3cret"));
        assert!(shown.contains("example.com/mcp") && !shown.contains("s3cret"), "{shown}");
        assert!(refused(Some("ftp://example.com/")).contains("'ftp'"));
        assert!(refused(Some("http://example.com/?token=abc")).contains("--allow-http"));
        assert!(!refused(Some("http://example.com/?token=abc")).contains("abc"));
        assert!(url(Some("http://example.com/"), true).is_ok());
    }
}
