//! The flags for logins, and what a person is told about one.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::builder::FalseyValueParser;
use clap::{Args, ValueEnum};
use url::Url;

use super::account::{browser, paste};
use super::args::Connect;
use super::oauth_given::{self, OAuthGiven};
use super::report::Usage;
use super::secrets::{Purpose, Secrets};
use super::values::{callback_ports, seconds, seconds_text, some_seconds};
use super::{environment, folders};
use mcp_span::auth::oauth::{
    Bearer, CallbackPorts, Grant, OAuthSettings, Parties, PrivateKey, Prompt, TokenStore,
};
use mcp_span::limits;
use mcp_span::secret::Scrubber;

/// Logins.
#[derive(Args)]
#[cfg_attr(test, derive(Debug))]
#[command(next_help_heading = "Login")]
pub(super) struct OAuth {
    /// Never log in: a server that wants it gets no token
    #[arg(long, env = "MCP_SPAN_NO_OAUTH", value_parser = FalseyValueParser::new())]
    pub(super) no_oauth: bool,

    /// The id of a client that was registered by hand
    #[arg(long, value_name = "ID", env = "MCP_SPAN_OAUTH_CLIENT_ID")]
    pub(super) oauth_client_id: Option<String>,

    /// The variable that holds the client's secret
    #[arg(long, value_name = "VAR", env = "MCP_SPAN_OAUTH_CLIENT_SECRET_ENV")]
    pub(super) oauth_client_secret_env: Option<String>,

    /// A file with the client's private key (PEM), in place of a secret
    #[arg(long, value_name = "FILE", env = "MCP_SPAN_OAUTH_PRIVATE_KEY")]
    pub(super) oauth_private_key: Option<PathBuf>,

    /// The address of a document that describes the client, as its id
    #[arg(
        long,
        value_name = "URL",
        env = "MCP_SPAN_OAUTH_CLIENT_METADATA_URL",
        value_parser = oauth_given::address
    )]
    pub(super) oauth_client_metadata_url: Option<Url>,

    /// Ask for these scopes, whatever the server names
    #[arg(long, value_name = "SCOPES", env = "MCP_SPAN_OAUTH_SCOPE")]
    pub(super) oauth_scope: Option<String>,

    /// Where nobody names scopes, ask for all that the authorization server offers, or for 'openid
    /// email profile', as mcp-remote does
    #[arg(long, env = "MCP_SPAN_OAUTH_OFFERED_SCOPES", value_parser = FalseyValueParser::new())]
    pub(super) oauth_offered_scopes: bool,

    /// Do not tell the authorization server what the token is for
    #[arg(
        long,
        visible_alias = "disable-resource-parameter",
        env = "MCP_SPAN_OAUTH_NO_RESOURCE",
        value_parser = FalseyValueParser::new()
    )]
    pub(super) oauth_no_resource: bool,

    /// The port of this machine to which the browser comes back, or the first free one of several:
    /// 9696-9703 [default: any]
    #[arg(
        long,
        value_name = "PORT",
        env = "MCP_SPAN_OAUTH_CALLBACK_PORT",
        value_parser = callback_ports
    )]
    pub(super) oauth_callback_port: Option<CallbackPorts>,

    /// Seconds that a request waits for a person to log in: then `initialize` is answered without
    /// the server, and all others end with the page
    #[arg(
        long,
        value_name = "SECONDS",
        env = "MCP_SPAN_OAUTH_WAIT",
        default_value = seconds_text(limits::LOGIN_PATIENCE),
        value_parser = seconds
    )]
    pub(super) oauth_wait: Duration,

    /// How a token is come by
    #[arg(long, value_name = "GRANT", env = "MCP_SPAN_OAUTH_GRANT", default_value = "code")]
    pub(super) oauth_grant: GrantName,

    /// Use this one of several accounts
    #[arg(long, value_name = "NAME", env = "MCP_SPAN_PROFILE", default_value = "")]
    pub(super) profile: String,

    /// Keep a login of its own for each set of headers that are sent, as mcp-remote does
    #[arg(long, env = "MCP_SPAN_PROFILE_BY_HEADERS", value_parser = FalseyValueParser::new())]
    pub(super) profile_by_headers: bool,

    /// Keep tokens below this folder, in place of the usual one for state
    #[arg(long, value_name = "DIR", env = "MCP_SPAN_STATE_DIR")]
    pub(super) state_dir: Option<PathBuf>,

    /// What tokens are kept in
    #[arg(long, value_name = "STORE", env = "MCP_SPAN_TOKEN_STORE", default_value = "file")]
    pub(super) token_store: TokenStoreName,

    /// Seconds that a person may take for a login
    #[arg(
        long,
        value_name = "SECONDS",
        env = "MCP_SPAN_OAUTH_LOGIN_TIMEOUT",
        default_value = seconds_text(limits::LOGIN_WAIT),
        value_parser = some_seconds
    )]
    pub(super) oauth_login_timeout: Duration,

    /// Renew tokens so many seconds before they expire
    #[arg(
        long,
        value_name = "SECONDS",
        env = "MCP_SPAN_OAUTH_SKEW",
        default_value = seconds_text(limits::TOKEN_SKEW),
        value_parser = seconds
    )]
    pub(super) oauth_skew: Duration,

    #[command(flatten)]
    pub(super) given: OAuthGiven,

    /// What other programs' settings bring along.
    #[arg(skip)]
    pub(super) secrets: Secrets,

    /// The way back is pasted: `mcp-span login --paste`.
    #[arg(skip)]
    pub(super) is_pasted: bool,

    /// A person waits for the login, and can end it: `mcp-span login`.
    #[arg(skip)]
    pub(super) is_attended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum GrantName {
    /// A person logs in with a browser
    #[value(alias = "authorization-code")]
    Code,
    /// A person enters a code on any device
    #[value(alias = "device")]
    DeviceCode,
    /// The client itself has a secret or a key
    ClientCredentials,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum TokenStoreName {
    /// Files that are for their owner alone
    File,
    /// The keychain of the operating system, in builds that have it
    Keychain,
}

/// What was typed, checked; `None` if nobody is to log in.
pub(super) fn of(
    typed: &OAuth,
    allow_http: bool,
    scrubber: &Scrubber,
    lookup: impl Fn(&str) -> Option<String> + Copy,
) -> Result<Option<OAuthSettings>, Usage> {
    if typed.no_oauth {
        return Ok(None);
    }
    let variable = typed.oauth_client_secret_env.as_ref();
    let (purpose, flag) = (Purpose::ClientSecret, "oauth-client-secret-env");
    let client_secret = typed.secrets.find(purpose, flag, variable, scrubber, lookup)?;
    let private_key = typed.oauth_private_key.as_deref().map(key).transpose()?;
    Ok(Some(OAuthSettings {
        client_id: typed.oauth_client_id.clone(),
        client_secret,
        client_metadata_url: typed.oauth_client_metadata_url.clone(),
        private_key,
        scope: typed.oauth_scope.clone(),
        offered_scopes: typed.oauth_offered_scopes,
        send_resource: !typed.oauth_no_resource
            && typed.given.oauth_resource.as_deref() != Some(""),
        callback_port: typed.oauth_callback_port.clone().filter(|ports| *ports.start() != 0),
        callback: oauth_given::callback(&typed.given)?,
        login_wait: typed.oauth_login_timeout,
        skew: typed.oauth_skew,
        given: oauth_given::of(&typed.given, allow_http, &typed.secrets, scrubber, lookup)?,
        paste: typed.is_pasted.then(paste::from_terminal),
        grant: match typed.oauth_grant {
            GrantName::Code => Grant::Code,
            GrantName::DeviceCode => Grant::DeviceCode,
            GrantName::ClientCredentials => Grant::ClientCredentials,
        },
        folder: folder(Some(typed), lookup),
        usual_folder: usual_folder(typed, lookup),
        token_store: token_store(typed.token_store)?,
        profile: typed.profile.clone(),
        apart_by: Vec::new(),
        bearer: match typed.given.oauth_use_id_token {
            true => Bearer::IdToken,
            false => Bearer::AccessToken,
        },
        success_url: oauth_given::success_url(typed.given.oauth_success_url.as_ref(), allow_http)?,
        show: Some(if typed.is_pasted { Arc::new(paste::show) } else { Arc::new(show) }),
        open: (!typed.is_pasted).then(|| browser::opener(environment::for_browser(typed), lookup)),
        process: None,
    }))
}

#[cfg(feature = "keychain")]
fn token_store(name: TokenStoreName) -> Result<TokenStore, Usage> {
    Ok(match name {
        TokenStoreName::File => TokenStore::File,
        TokenStoreName::Keychain => TokenStore::Keychain,
    })
}

#[cfg(not(feature = "keychain"))]
fn token_store(name: TokenStoreName) -> Result<TokenStore, Usage> {
    match name {
        TokenStoreName::File => Ok(TokenStore::File),
        TokenStoreName::Keychain => Err(Usage::new(
            "this program was built without a keychain: build it with 'cargo install --path . \
             --features keychain', or use --token-store file",
        )),
    }
}

fn key(path: &Path) -> Result<PrivateKey, Usage> {
    let wrong = |why: String| Usage::new(format!("--oauth-private-key {}: {why}", path.display()));
    let text = std::fs::read(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    PrivateKey::from_pem(&text).map_err(wrong)
}

/// Warns of a wish that the other settings leave no room for.
pub(super) fn warn(typed: &Connect) {
    if let Some(sentence) = vain_id_token(typed) {
        tracing::warn!("{sentence}");
    }
}

fn vain_id_token(typed: &Connect) -> Option<String> {
    let oauth = &typed.oauth;
    let (other, why) = match typed.credentials.source() {
        _ if !oauth.given.oauth_use_id_token => return None,
        _ if oauth.no_oauth => ("no-oauth", "nobody logs in"),
        Some(source) => (source, "nobody logs in"),
        None if matches!(oauth.oauth_grant, GrantName::ClientCredentials) => {
            ("oauth-grant client-credentials", "most providers give clients no ID token")
        }
        None => return None,
    };
    Some(format!("--oauth-use-id-token has no effect with --{other}: {why}"))
}

impl OAuth {
    /// Whether the tokens lie in files, rather than in a keychain.
    pub(super) fn is_kept_in_files(&self) -> bool {
        matches!(self.token_store, TokenStoreName::File)
    }
}

/// Where state is kept.
pub(super) fn folder(
    typed: Option<&OAuth>,
    lookup: impl Fn(&str) -> Option<String>,
) -> Option<PathBuf> {
    typed.and_then(|typed| typed.state_dir.clone()).or_else(|| state_folder(lookup))
}

/// Where it is kept by a run whose environment says nothing about it: clients often pass little on.
pub(super) fn usual_folder(
    typed: &OAuth,
    lookup: impl Fn(&str) -> Option<String>,
) -> Option<PathBuf> {
    let is_chosen = typed.state_dir.is_some();
    state_folder(|name| lookup(name).filter(|_| name != "XDG_STATE_HOME" && !is_chosen))
}

fn state_folder(lookup: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    folders::state(lookup).map(|folder| folder.join("mcp-span"))
}

/// Says where to log in, and to whom. On a thread of its own: a stderr that nobody reads must not hold
/// up whoever asked.
fn show(prompt: &Prompt, parties: &Parties) {
    // Where somebody waits, a spinner may stand on the line.
    let erase = if std::io::stderr().is_terminal() { "\r\u{1b}[2K" } else { "" };
    let line = format!("{erase}mcp-span: {parties}: open {prompt}\n");
    // Where there can be no thread, the error of the login has to do.
    let _ = std::thread::Builder::new().name("login".to_owned()).spawn(move || {
        let _ = std::io::stderr().write_all(line.as_bytes());
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_kept_where_state_is_kept() {
        let home = |name: &str| (name == "HOME").then(|| "/home/me".to_owned());
        assert_eq!(state_folder(home).unwrap(), Path::new("/home/me/.local/state/mcp-span"));
        let both = |name: &str| match name {
            "XDG_STATE_HOME" => Some("/state".to_owned()),
            _ => home(name),
        };
        assert_eq!(state_folder(both).unwrap(), Path::new("/state/mcp-span"));
        assert_eq!(state_folder(|_| None), None);
    }
}
