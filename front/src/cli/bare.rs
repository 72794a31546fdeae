//! The command line that nearly every client has: a URL, and nothing else anywhere.
//!
//! The parser is not needed for it. To make it, ask it and drop it is half of all that is done
//! until the first message is read, and code that is not run is not loaded.

use std::ffi::{OsStr, OsString};

use super::args::{Connect, Explicit, Transport};
use super::config_file::File;
use super::link::{Link, ProtocolName};
use super::logging::{Format, Log};
use super::oauth::{GrantName, OAuth, TokenStoreName};
use super::oauth_given::OAuthGiven;
use super::proxy::Proxy;
use super::secrets::Secrets;
use super::tls::Tls;
use super::{compat_proxy, config_place, credentials};
use crate::auth::oauth::CallbackPlace;
use crate::limits;

/// What the parser would make of it; `None` if there is more to be read than a URL: a flag, a
/// variable, a file.
pub(super) fn read(
    typed: &[OsString],
    mut names: impl Iterator<Item = OsString>,
    lookup: impl Fn(&str) -> Option<OsString>,
) -> Option<Connect> {
    let [_, word] = typed else { return None };
    let url = word.to_str().filter(|word| is_web_address(word))?;
    if names.any(|name| is_ours(&name)) || compat_proxy::is_meant(&lookup) {
        return None;
    }
    match config_place::find(typed, lookup) {
        Ok(None) => Some(connect(url)),
        _ => None,
    }
}

fn is_web_address(word: &str) -> bool {
    word.starts_with("https://") || word.starts_with("http://")
}

/// Whether a variable is one that a flag may be read from. Windows does not tell small letters from
/// large ones.
fn is_ours(name: &OsStr) -> bool {
    let prefix = b"MCP_SPAN_";
    let start = name.as_encoded_bytes().get(..prefix.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

fn connect(url: &str) -> Connect {
    Connect {
        url: Some(url.to_owned()),
        transport: Transport::Auto,
        mcp_hub_mode: false,
        mcp_hub: None,
        headers: Vec::new(),
        header_file: None,
        credentials: credentials(),
        oauth: oauth(),
        allow_http: false,
        tls: Tls::default(),
        proxy: Proxy::default(),
        link: link(),
        file: File { config: None, no_config: false },
        log: log(),
        program: Vec::new(),
        server: None,
        no_name: None,
        explicit: Explicit::default(),
    }
}

fn credentials() -> credentials::Flags {
    credentials::Flags {
        bearer_env: None,
        bearer_file: None,
        bearer_command: None,
        header_command: None,
        credential_shell: false,
        credential_ttl: limits::CREDENTIAL_TTL,
    }
}

fn oauth() -> OAuth {
    OAuth {
        no_oauth: false,
        oauth_client_id: None,
        oauth_client_secret_env: None,
        oauth_private_key: None,
        oauth_client_metadata_url: None,
        oauth_scope: None,
        oauth_offered_scopes: false,
        oauth_no_resource: false,
        oauth_callback_port: None,
        oauth_wait: limits::LOGIN_PATIENCE,
        oauth_grant: GrantName::Code,
        profile: String::new(),
        profile_by_headers: false,
        state_dir: None,
        token_store: TokenStoreName::File,
        oauth_login_timeout: limits::LOGIN_WAIT,
        oauth_skew: limits::TOKEN_SKEW,
        given: oauth_given(),
        secrets: Secrets::default(),
        is_pasted: false,
        is_attended: false,
    }
}

pub(super) fn oauth_given() -> OAuthGiven {
    let CallbackPlace { host, path } = CallbackPlace::default();
    OAuthGiven {
        oauth_issuer: None,
        oauth_token_url: None,
        oauth_authorization_url: None,
        oauth_no_discovery: false,
        oauth_no_interactive: false,
        oauth_refresh_token_env: None,
        oauth_code_env: None,
        oauth_code_verifier_env: None,
        oauth_redirect_uri: None,
        oauth_resource: None,
        oauth_audience: None,
        oauth_param: Vec::new(),
        oauth_authorize_param: Vec::new(),
        oauth_registration: None,
        oauth_use_id_token: false,
        oauth_success_url: None,
        oauth_auth_style: None,
        oauth_callback_host: host,
        oauth_callback_path: path,
    }
}

fn link() -> Link {
    Link {
        timeout: None,
        connect_timeout: limits::CONNECT_TIMEOUT,
        connect_wait: limits::CONNECT_WAIT,
        away_wait: limits::AWAY_WAIT,
        keep_alive: None,
        max_message_size: limits::MESSAGE_SIZE,
        max_parallel: limits::PARALLEL_POSTS as u32,
        serial: false,
        no_server_stream: false,
        no_cookies: false,
        ipv4: false,
        ignore_tool: Vec::new(),
        protocol_version: None,
        protocol: ProtocolName::Auto,
    }
}

fn log() -> Log {
    Log {
        verbose: false,
        log_level: None,
        log_format: Format::Text,
        log_file: None,
        trace_file: None,
        trace_limit: limits::TRACE_SIZE,
    }
}

#[cfg(test)]
mod tests {
    use super::super::args;
    use super::super::config_file::ConfigFile;
    use super::super::target::Line;
    use super::*;

    const URL: &str = "https://user:pass@server.example/mcp?x=--help";

    fn words(words: &[&str]) -> Vec<OsString> {
        ["mcp-span"].iter().chain(words).map(OsString::from).collect()
    }

    /// Every member, with nothing left out.
    fn shown(connect: Connect) -> String {
        let Connect { url, transport, mcp_hub_mode, mcp_hub, headers, header_file, .. } = &connect;
        let first = format!("{:?}", (url, transport, mcp_hub_mode, mcp_hub, headers, header_file));
        let Connect { credentials, oauth, allow_http, tls, proxy, link, .. } = &connect;
        let second = format!("{:#?}", (credentials, oauth, allow_http, tls, proxy, link));
        let Connect { file, log, program, no_name, explicit, server, .. } = &connect;
        let third = format!("{:#?}", (file, log, program, no_name, explicit));
        assert!(server.is_none());
        [first, second, third].join("\n")
    }

    #[test]
    fn it_is_what_the_parser_makes_of_a_url() {
        for url in [URL, "http://127.0.0.1:1/mcp", "https://", "http:// /"] {
            let args = words(&[url]);
            let file = ConfigFile::default();
            let line = Line { args: args.clone(), file, secrets: Secrets::default() };
            // Variables of whoever runs the tests would be read as well.
            let command = args::command(&args).mut_args(|arg| arg.env(None::<&str>));
            let Ok((parsed, _)) = line.parse(command) else { panic!("{url}") };
            let bare = read(&args, std::iter::empty(), |_| None).unwrap();
            assert_eq!(shown(bare), shown(parsed.cli.connect), "{url}");
            assert!(parsed.cli.command.is_none());
        }
    }

    #[test]
    fn whatever_else_there_is_wants_the_parser() {
        let is_bare = |typed: &[&str]| read(&words(typed), std::iter::empty(), |_| None).is_some();
        assert!(is_bare(&[URL]));
        for typed in [
            &[][..],
            &["server"],
            &["--help"],
            &["--proxy=https://proxy"],
            &["wss://server/mcp"],
            &["--", URL],
            &[URL, "-v"],
            &[URL, "8080"],
        ] {
            assert!(!is_bare(typed), "{typed:?}");
        }
    }

    #[test]
    fn a_variable_that_a_flag_may_be_read_from_wants_the_parser() {
        let is_bare = |names: &[&str]| {
            let names = names.iter().map(OsString::from);
            read(&words(&[URL]), names, |_| None).is_some()
        };
        assert!(is_bare(&["PATH", "HTTPS_PROXY", "MCP_SPAN", "XMCP_SPAN_URL"]));
        assert!(!is_bare(&["PATH", "MCP_SPAN_TIMEOUT"]));
        assert!(!is_bare(&["mcp_span_timeout"]));
        for name in ["UPSTREAM_URL", "MCP_PROXY_CONFIG"] {
            let lookup = |asked: &str| (asked == name).then(|| OsString::from("https://x"));
            assert!(read(&words(&[URL]), std::iter::empty(), lookup).is_none(), "{name}");
        }
    }

    #[test]
    fn a_configuration_file_wants_the_parser() {
        let home = tempfile::tempdir().unwrap();
        let lookup = |name: &str| (name == "HOME").then(|| home.path().as_os_str().to_owned());
        let read = || read(&words(&[URL]), std::iter::empty(), lookup);
        assert!(read().is_some());
        std::fs::create_dir_all(home.path().join(".config/mcp-span")).unwrap();
        std::fs::write(home.path().join(".config/mcp-span/config.json"), "{}").unwrap();
        assert!(read().is_none());
    }
}
