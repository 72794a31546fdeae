//! The flags for logins, and the program that shows a person where to log in.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use clap::builder::FalseyValueParser;
use clap::{Args, ValueEnum};
use url::Url;

use super::report::Usage;
use super::values::seconds;
use crate::auth::oauth::{Grant, PrivateKey, Settings};
use crate::secret::{Scrubber, Secret};

/// Logins.
#[derive(Args)]
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
    #[arg(long, value_name = "URL", env = "MCP_SPAN_OAUTH_CLIENT_METADATA_URL")]
    pub(super) oauth_client_metadata_url: Option<Url>,

    /// Ask for these scopes, whatever the server names
    #[arg(long, value_name = "SCOPES", env = "MCP_SPAN_OAUTH_SCOPE")]
    pub(super) oauth_scope: Option<String>,

    /// Do not tell the authorization server what the token is for
    #[arg(
        long,
        visible_alias = "disable-resource-parameter",
        env = "MCP_SPAN_OAUTH_NO_RESOURCE",
        value_parser = FalseyValueParser::new()
    )]
    pub(super) oauth_no_resource: bool,

    /// The port of this machine to which the browser comes back [default: any]
    #[arg(long, value_name = "PORT", env = "MCP_SPAN_OAUTH_CALLBACK_PORT")]
    pub(super) oauth_callback_port: Option<u16>,

    /// Seconds that `initialize` waits for a login before it is answered without the server
    #[arg(
        long,
        value_name = "SECONDS",
        env = "MCP_SPAN_OAUTH_WAIT",
        default_value = "8",
        value_parser = seconds
    )]
    pub(super) oauth_wait: Duration,

    /// How a token is come by
    #[arg(long, value_name = "GRANT", env = "MCP_SPAN_OAUTH_GRANT", default_value = "code")]
    pub(super) oauth_grant: GrantName,

    /// The name of one of several accounts at the same server
    #[arg(long, value_name = "NAME", env = "MCP_SPAN_PROFILE", default_value = "")]
    pub(super) profile: String,

    /// Keep tokens below this folder, in place of the usual one for state
    #[arg(long, value_name = "DIR", env = "MCP_SPAN_STATE_DIR")]
    pub(super) state_dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum GrantName {
    /// A person logs in with a browser
    #[value(alias = "authorization-code")]
    Code,
    /// The client itself has a secret or a key
    ClientCredentials,
}

/// What was typed, checked; `None` if nobody is to log in.
pub(super) fn of(
    typed: &OAuth,
    scrubber: &Scrubber,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<Option<Settings>, Usage> {
    if typed.no_oauth {
        return Ok(None);
    }
    let client_secret = match &typed.oauth_client_secret_env {
        None => None,
        Some(name) => {
            let value = lookup(name).filter(|value| !value.is_empty()).ok_or_else(|| {
                Usage::new(format!("--oauth-client-secret-env: the variable {name} is not set"))
            })?;
            let secret = Secret::new(value);
            scrubber.add(&secret);
            Some(secret)
        }
    };
    let private_key = typed.oauth_private_key.as_deref().map(key).transpose()?;
    let browser = lookup("BROWSER").filter(|text| !text.trim().is_empty());
    Ok(Some(Settings {
        client_id: typed.oauth_client_id.clone(),
        client_secret,
        client_metadata_url: typed.oauth_client_metadata_url.clone(),
        private_key,
        scope: typed.oauth_scope.clone(),
        send_resource: !typed.oauth_no_resource,
        callback_port: typed.oauth_callback_port,
        grant: match typed.oauth_grant {
            GrantName::Code => Grant::Code,
            GrantName::ClientCredentials => Grant::ClientCredentials,
        },
        folder: folder(typed, &lookup),
        profile: typed.profile.clone(),
        show: Arc::new(move |page| show(page, browser.as_deref())),
    }))
}

fn key(path: &Path) -> Result<PrivateKey, Usage> {
    let wrong = |why: String| Usage::new(format!("--oauth-private-key {}: {why}", path.display()));
    let text = std::fs::read(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    PrivateKey::from_pem(&text).map_err(wrong)
}

/// Where state is kept.
pub(super) fn folder(typed: &OAuth, lookup: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    typed.state_dir.clone().or_else(|| state_folder(lookup))
}

/// Where programs keep what is neither configuration nor cache.
fn state_folder(lookup: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let path = |name: &str| lookup(name).filter(|text| !text.is_empty()).map(PathBuf::from);
    let folder = path("XDG_STATE_HOME").filter(|path| path.is_absolute());
    let folder = folder
        .or_else(|| path("LOCALAPPDATA").filter(|_| cfg!(windows)))
        .or_else(|| path("HOME").map(|home| home.join(".local/state")))?;
    Some(folder.join("mcp-span"))
}

/// Says where to log in, and opens a browser there: a program with an argument, never a shell.
///
/// Each on a thread of its own: a stderr that nobody reads must hold up neither the browser nor
/// whoever asked.
fn show(page: &Url, browser: Option<&str>) {
    let line = format!("mcp-span: to log in, open {page}\n");
    aside(move || {
        let _ = std::io::stderr().write_all(line.as_bytes());
    });
    let Some((program, arguments)) = opener(page, browser) else { return };
    aside(move || {
        let started = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        // Somebody must see it end, or it stays as a zombie.
        let _ = started.map(|mut child| child.wait());
    });
}

fn aside(work: impl FnOnce() + Send + 'static) {
    // Where there can be no thread, the error of the login has to do.
    let _ = std::thread::Builder::new().name("login".to_owned()).spawn(work);
}

fn opener(page: &Url, browser: Option<&str>) -> Option<(String, Vec<String>)> {
    let page = page.as_str().to_owned();
    if let Some(browser) = browser {
        let mut words = shlex::split(browser)?.into_iter();
        let program = words.next()?;
        let mut arguments: Vec<String> = words.map(|word| word.replace("%s", &page)).collect();
        if !browser.contains("%s") {
            arguments.push(page);
        }
        return Some((program, arguments));
    }
    if cfg!(target_os = "macos") {
        return Some(("open".to_owned(), vec![page]));
    }
    if cfg!(windows) {
        let handler = "url.dll,FileProtocolHandler".to_owned();
        return Some(("rundll32".to_owned(), vec![handler, page]));
    }
    Some(("xdg-open".to_owned(), vec![page]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_a_program_with_arguments_and_no_shell() {
        // CVE-2025-6514; peers c 1
        let page = Url::parse("https://as/a?x=$(id)&y=`id`;z='\"").unwrap();
        let (program, arguments) = opener(&page, Some("my 'odd browser' --new")).unwrap();
        assert_eq!(program, "my");
        assert_eq!(arguments, ["odd browser", "--new", page.as_str()]);
        let (_, arguments) = opener(&page, Some("b --url=%s -x")).unwrap();
        assert_eq!(arguments, [format!("--url={page}"), "-x".to_owned()]);
        assert!(opener(&page, Some("'open")).is_none());
    }

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
