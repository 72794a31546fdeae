//! What the processes that we start inherit of our environment.
//!
//! Variables that begin with `MCP_SPAN_` are settings of this process: headers, proxies and URLs with
//! secrets are among them, and another mcp-span would send them to another server. A variable that an
//! option such as `--bearer-env` names holds a secret for the server alone. The usual variables for
//! proxies are for all programs of the user and stay, but a browser gets them without user and
//! password, which it does not take from there. Variables that are expanded in a header stay as well:
//! `${USER}` is one, too. What an entry or `--env` sets for a process comes on top of all this.

use std::ffi::OsStr;

use url::Url;

use super::account::{browser, paste, process};
use super::args::Connect;
use super::compat::oauth2_proxy;
use super::{folders, oauth};
use mcp_span::ServerOptions;
use mcp_span::environment::Environment;
use mcp_span::options::{Context, Variables};

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

/// What the options of a connection may refer to.
pub(super) fn context(typed: &Connect) -> Context {
    let variables = Variables::new(std::env::vars_os());
    let mut context = Context::default();
    context.environment = for_programs(&variables);
    (context.state_dir, context.usual_state_dir) = state_dirs(&variables);
    let for_browser = for_browser(&typed.options, &variables);
    if typed.is_pasted {
        context.paste = Some(paste::from_terminal());
        context.show = Some(std::sync::Arc::new(paste::show));
    } else {
        context.show = Some(std::sync::Arc::new(oauth::show));
        let browser = variables.text("BROWSER");
        context.open = Some(browser::opener(for_browser.clone(), browser));
    }
    // Whoever runs `mcp-span login` waits for it at a terminal; clients do not.
    context.login_process =
        (!typed.is_attended).then(|| process::command(&typed.options, for_browser));
    context.variables = variables;
    context
}

/// Where state is kept, and where it is kept by a run whose environment says nothing about it:
/// clients often pass little on.
pub(super) fn state_dirs(
    variables: &Variables,
) -> (Option<std::path::PathBuf>, Option<std::path::PathBuf>) {
    let ours = |folder: std::path::PathBuf| folder.join("mcp-span");
    let usual = |name: &str| variables.path(name).filter(|_| name != "XDG_STATE_HOME");
    let chosen = folders::state(|name: &str| variables.path(name));
    (chosen.map(ours), folders::state(usual).map(ours))
}

/// For a server that is started, and for a command that prints credentials.
fn for_programs(variables: &Variables) -> Environment {
    let mut environment = Environment::default();
    if oauth2_proxy::is_meant(|name| variables.get(name).map(OsStr::to_owned)) {
        THEIRS.iter().for_each(|name| environment.withhold(*name));
    }
    for (name, _) in variables.iter() {
        if name.as_encoded_bytes().starts_with(OURS.as_bytes()) {
            environment.withhold(name);
        }
    }
    environment
}

/// For a browser. Where a bearer token was given, there is no login and no browser.
fn for_browser(options: &ServerOptions, variables: &Variables) -> Environment {
    let mut environment = for_programs(variables);
    options.secret_variables().for_each(|name| environment.withhold(name));
    let is_proxy = |name: &str| PROXIES.contains(&&*name.to_ascii_uppercase());
    for (name, value) in variables.iter() {
        if name.to_str().is_some_and(is_proxy) {
            match without_password(value) {
                Some(plain) => environment.change(name, plain),
                None => environment.withhold(name),
            }
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
        use mcp_span::options::{Given, OPTIONS, Origin};
        let names_one = OPTIONS.iter().filter(|option| option.name.ends_with("-env"));
        assert!(names_one.clone().count() >= 5);
        for option in names_one {
            let mut options = ServerOptions::default();
            options.set(option, Given::Text("SOME_SECRET"), Origin::Flag).unwrap();
            let environment = format!("{:?}", for_browser(&options, &Variables::default()));
            assert!(environment.contains("SOME_SECRET"), "{}: {environment}", option.name);
        }
    }

    #[test]
    fn what_is_ours_and_what_is_secret_stays_here() {
        let variables = |names: &[&str]| Variables::new(names.iter().map(|name| (*name, "x")));
        let ours = for_programs(&variables(&["MCP_SPAN_HEADER", "MCP_SPAN_PROXY", "PATH"]));
        let mut expected = Environment::default();
        expected.withhold("MCP_SPAN_HEADER");
        expected.withhold("MCP_SPAN_PROXY");
        assert_eq!(ours, expected);
        assert_eq!(for_programs(&variables(&["OAUTH2_CLIENT_SECRET"])), Environment::default());
        let theirs = for_programs(&variables(&["OAUTH2_CLIENT_SECRET", "UPSTREAM_URL"]));
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
