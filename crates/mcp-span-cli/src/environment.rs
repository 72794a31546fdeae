//! What the processes that we start inherit of our environment.
//!
//! Variables that begin with `MCP_SPAN_` are settings of this process: headers, proxies and URLs with
//! secrets are among them, and another mcp-span would send them to another server. A variable that an
//! option such as `--bearer-env` names holds a secret for the server alone. The usual variables for
//! proxies are for all programs of the user and stay, but a browser gets them without user and
//! password, which it does not take from there. Variables that are expanded in a header stay as well:
//! `${USER}` is one, too. What an entry or `--env` sets for a process comes on top of all this.

use std::ffi::{OsStr, OsString};

use url::Url;

use super::args::Connect;
use super::compat::oauth2_proxy;
use super::oauth::OAuth;
use mcp_span::environment::Environment;

/// How variables of ours begin.
const OURS: &str = "MCP_SPAN_";

/// Secrets of mcp-oauth2-proxy, where its variables are read.
const THEIRS: [&str; 5] = [
    "OAUTH2_CLIENT_SECRET",
    "OAUTH2_REFRESH_TOKEN",
    "OAUTH2_AUTHORIZATION_CODE",
    "OAUTH2_CODE_VERIFIER",
    "OAUTH2_EXTRA_PARAMS",
];

/// The usual variables for proxies, in capitals.
const PROXIES: [&str; 4] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY"];

/// For a server that is started, and for a command that prints credentials.
pub(super) fn for_program(typed: &Connect) -> Environment {
    let bearer = typed.credentials.bearer_env.as_ref();
    of(bearer.into_iter().chain(named(&typed.oauth)), &variables())
}

/// For a browser. Where a bearer token was given, there is no login and no browser.
pub(super) fn for_browser(typed: &OAuth) -> Environment {
    let variables = variables();
    let mut environment = of(named(typed), &variables);
    let is_proxy = |name: &str| PROXIES.contains(&&*name.to_ascii_uppercase());
    for (name, value) in &variables {
        if name.to_str().is_some_and(is_proxy) {
            match without_password(value) {
                Some(plain) => environment.change(name, plain),
                None => environment.withhold(name),
            }
        }
    }
    environment
}

/// Names and values.
type Variables = [(OsString, OsString)];

fn variables() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}

fn named(typed: &OAuth) -> impl Iterator<Item = &String> {
    let given = &typed.given;
    [
        &typed.oauth_client_secret_env,
        &given.oauth_refresh_token_env,
        &given.oauth_code_env,
        &given.oauth_code_verifier_env,
    ]
    .into_iter()
    .flatten()
}

fn of<'a>(named: impl Iterator<Item = &'a String>, variables: &Variables) -> Environment {
    let mut environment = Environment::default();
    named.for_each(|name| environment.withhold(name));
    let value = |name: &str| {
        let found = variables.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone())
    };
    if oauth2_proxy::is_meant(value) {
        THEIRS.iter().for_each(|name| environment.withhold(*name));
    }
    for (name, _) in variables {
        if name.as_encoded_bytes().starts_with(OURS.as_bytes()) {
            environment.withhold(name);
        }
    }
    environment
}

/// The same proxy without user and password; `None` if they cannot be told from the rest.
fn without_password(value: &OsStr) -> Option<String> {
    let text = value.to_str()?;
    if !text.contains('@') {
        return Some(text.to_owned());
    }
    // Most programs take `host:port` as well.
    let has_scheme = text.contains("://");
    let mut url = match has_scheme {
        true => Url::parse(text).ok()?,
        false => Url::parse(&format!("http://{text}")).ok()?,
    };
    url.set_username("").ok()?;
    url.set_password(None).ok()?;
    let plain = url.as_str().trim_end_matches('/');
    Some(if has_scheme { plain } else { plain.trim_start_matches("http://") }.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_that_names_a_variable_keeps_it_from_programs() {
        use clap::{CommandFactory, FromArgMatches};
        let command = crate::commands::Cli::command().mut_args(|arg| arg.env(None::<&str>));
        let connect = command.find_subcommand("connect").unwrap();
        let options = connect.get_arguments().filter_map(|arg| arg.get_long());
        let options: Vec<_> = options.filter(|long| long.ends_with("-env")).collect();
        assert!(options.len() >= 5, "{options:?}");
        for option in options {
            let words = ["x", "https://h/", &format!("--{option}"), "SOME_SECRET"];
            let matches = connect.clone().try_get_matches_from(words).unwrap();
            let typed = Connect::from_arg_matches(&matches).unwrap();
            let environment = format!("{:?}", for_program(&typed));
            assert!(environment.contains("SOME_SECRET"), "--{option}: {environment}");
        }
    }

    #[test]
    fn what_is_ours_and_what_is_secret_stays_here() {
        let variables = |names: &[&str]| {
            let pairs = names.iter().map(|name| (OsString::from(name), OsString::from("x")));
            pairs.collect::<Vec<_>>()
        };
        let none = || std::iter::empty::<&String>();
        let ours = of(none(), &variables(&["MCP_SPAN_HEADER", "MCP_SPAN_PROXY", "PATH"]));
        let mut expected = Environment::default();
        expected.withhold("MCP_SPAN_HEADER");
        expected.withhold("MCP_SPAN_PROXY");
        assert_eq!(ours, expected);
        assert_eq!(of(none(), &variables(&["OAUTH2_CLIENT_SECRET"])), Environment::default());
        let theirs = of(none(), &variables(&["OAUTH2_CLIENT_SECRET", "UPSTREAM_URL"]));
        assert!(format!("{theirs:?}").contains("OAUTH2_CLIENT_SECRET"));
    }

    #[test]
    fn a_browser_gets_proxies_without_passwords() {
        for (value, plain) in [
            ("http://me:s3cret@proxy:8080", Some("http://proxy:8080")),
            ("me:s3cret@proxy:8080", Some("proxy:8080")),
            ("socks5://me@proxy:1/", Some("socks5://proxy:1")),
            ("proxy:8080", Some("proxy:8080")),
            ("http://[s3cret@", None),
        ] {
            assert_eq!(without_password(value.as_ref()).as_deref(), plain, "{value}");
        }
    }
}
