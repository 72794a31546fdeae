//! The flags for what a login need not find out by itself.

use clap::builder::FalseyValueParser;
use clap::{Args, ValueEnum};
use serde_json::Map;
use url::Url;

use super::report::Usage;
use super::secrets::{Purpose, Secrets};
use mcp_span::auth::oauth::{CallbackPlace, ClientAuthentication, Given, OneShot};
use mcp_span::net::is_loopback;
use mcp_span::secret::{Scrubber, shown};

/// Logins, where more is known than servers say.
#[derive(Args, Debug)]
#[command(next_help_heading = "Login, by hand")]
pub(super) struct OAuthGiven {
    /// The only authorization server that is used, by its issuer: nothing goes to any other
    #[arg(long, value_name = "URL", env = "MCP_SPAN_OAUTH_ISSUER")]
    pub(super) oauth_issuer: Option<String>,

    /// The token endpoint, in place of the one that is found
    #[arg(long, value_name = "URL", env = "MCP_SPAN_OAUTH_TOKEN_URL", value_parser = address)]
    pub(super) oauth_token_url: Option<Url>,

    /// The page to log in at, in place of the one that is found
    #[arg(long, value_name = "URL", env = "MCP_SPAN_OAUTH_AUTHORIZATION_URL", value_parser = address)]
    pub(super) oauth_authorization_url: Option<Url>,

    /// Ask nobody who gives out tokens; needs --oauth-token-url
    #[arg(long, env = "MCP_SPAN_OAUTH_NO_DISCOVERY", value_parser = FalseyValueParser::new())]
    pub(super) oauth_no_discovery: bool,

    /// Ask nobody to log in: only tokens that are kept or given are used
    #[arg(long, env = "MCP_SPAN_OAUTH_NO_INTERACTIVE", value_parser = FalseyValueParser::new())]
    pub(super) oauth_no_interactive: bool,

    /// The variable that holds a refresh token, to begin with
    #[arg(long, value_name = "VAR", env = "MCP_SPAN_OAUTH_REFRESH_TOKEN_ENV")]
    pub(super) oauth_refresh_token_env: Option<String>,

    /// The variable that holds an authorization code, to be used once
    #[arg(long, value_name = "VAR", env = "MCP_SPAN_OAUTH_CODE_ENV")]
    pub(super) oauth_code_env: Option<String>,

    /// The variable that holds the verifier that goes with that code
    #[arg(long, value_name = "VAR", env = "MCP_SPAN_OAUTH_CODE_VERIFIER_ENV")]
    pub(super) oauth_code_verifier_env: Option<String>,

    /// The redirect address that goes with that code
    #[arg(long, value_name = "URL", env = "MCP_SPAN_OAUTH_REDIRECT_URI")]
    pub(super) oauth_redirect_uri: Option<String>,

    /// What tokens are for, in place of what the server says
    #[arg(long, value_name = "URI", env = "MCP_SPAN_OAUTH_RESOURCE")]
    pub(super) oauth_resource: Option<String>,

    /// The audience to ask for, with --oauth-grant client-credentials
    #[arg(long, value_name = "TEXT", env = "MCP_SPAN_OAUTH_AUDIENCE")]
    pub(super) oauth_audience: Option<String>,

    /// Send this along to the token endpoint, NAME=VALUE; several times, or one a line
    #[arg(
        long,
        value_name = "PARAM",
        env = "MCP_SPAN_OAUTH_PARAM",
        hide_env_values = true,
        value_delimiter = '\n'
    )]
    pub(super) oauth_param: Vec<String>,

    /// Send this along to the page to log in at, NAME=VALUE; several times, or one a line
    #[arg(
        long,
        value_name = "PARAM",
        env = "MCP_SPAN_OAUTH_AUTHORIZE_PARAM",
        hide_env_values = true,
        value_delimiter = '\n'
    )]
    pub(super) oauth_authorize_param: Vec<String>,

    /// What is said of a client that is registered on the spot, as a JSON object, over what is said
    /// otherwise
    #[arg(long, value_name = "JSON", env = "MCP_SPAN_OAUTH_REGISTRATION")]
    pub(super) oauth_registration: Option<String>,

    /// Send the ID token of a login in place of the access token
    #[arg(
        long,
        visible_alias = "use-id-token",
        env = "MCP_SPAN_OAUTH_USE_ID_TOKEN",
        value_parser = FalseyValueParser::new()
    )]
    pub(super) oauth_use_id_token: bool,

    /// Where the browser goes when a login was done, in place of a page of ours
    #[arg(long, value_name = "URL", env = "MCP_SPAN_OAUTH_SUCCESS_URL", value_parser = address)]
    pub(super) oauth_success_url: Option<Url>,

    /// How the client's secret is sent [default: as the provider says]
    #[arg(long, value_name = "STYLE", env = "MCP_SPAN_OAUTH_AUTH_STYLE")]
    pub(super) oauth_auth_style: Option<StyleName>,

    /// The name of this machine in the redirect address: 127.0.0.1 or localhost
    #[arg(
        long,
        value_name = "HOST",
        env = "MCP_SPAN_OAUTH_CALLBACK_HOST",
        default_value = CallbackPlace::default().host
    )]
    pub(super) oauth_callback_host: String,

    /// The path of the redirect address
    #[arg(
        long,
        value_name = "PATH",
        env = "MCP_SPAN_OAUTH_CALLBACK_PATH",
        default_value = CallbackPlace::default().path
    )]
    pub(super) oauth_callback_path: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum StyleName {
    /// In the header
    #[value(aliases = ["header", "client_secret_basic"])]
    Basic,
    /// In the form
    #[value(aliases = ["body", "client_secret_post"])]
    Post,
}

/// What to say of a text that is no URL.
const NO_URL: &str = "it is not a URL: write it like https://login.example.com";

/// A URL of a flag.
pub(super) fn address(text: &str) -> Result<Url, String> {
    Url::parse(text).map_err(|_| NO_URL.to_owned())
}

/// What is ours to say in the address of the login page.
const OWN: [&str; 6] = [
    "response_type",
    "client_id",
    "redirect_uri",
    "state",
    "code_challenge",
    "code_challenge_method",
];

/// What was typed, checked.
pub(super) fn of(
    typed: &OAuthGiven,
    allow_http: bool,
    secrets: &Secrets,
    scrubber: &Scrubber,
    lookup: impl Fn(&str) -> Option<String> + Copy,
) -> Result<Given, Usage> {
    let find = |purpose, flag, variable| secrets.find(purpose, flag, variable, scrubber, lookup);
    let refresh = typed.oauth_refresh_token_env.as_ref();
    let refresh_token = find(Purpose::RefreshToken, "oauth-refresh-token-env", refresh)?;
    let code = find(Purpose::Code, "oauth-code-env", typed.oauth_code_env.as_ref())?;
    let verifier = typed.oauth_code_verifier_env.as_ref();
    let verifier = find(Purpose::CodeVerifier, "oauth-code-verifier-env", verifier)?;
    let redirect = typed.oauth_redirect_uri.clone();
    if typed.oauth_no_discovery && typed.oauth_token_url.is_none() {
        return Err(Usage::new(
            "--oauth-no-discovery needs --oauth-token-url: who else gives tokens?",
        ));
    }
    Ok(Given {
        issuer: typed.oauth_issuer.as_deref().map(issuer).transpose()?,
        token_url: secure("oauth-token-url", typed.oauth_token_url.as_ref(), allow_http)?,
        authorization_url: secure(
            "oauth-authorization-url",
            typed.oauth_authorization_url.as_ref(),
            allow_http,
        )?,
        no_discovery: typed.oauth_no_discovery,
        refresh_token,
        code: code.map(|code| OneShot { code, verifier, redirect }),
        resource: typed.oauth_resource.clone(),
        audience: typed.oauth_audience.clone(),
        token_params: params("oauth-param", &typed.oauth_param, &["client_secret"])?,
        page_params: params("oauth-authorize-param", &typed.oauth_authorize_param, &OWN)?,
        style: typed.oauth_auth_style.map(|style| match style {
            StyleName::Basic => ClientAuthentication::Basic,
            StyleName::Post => ClientAuthentication::Post,
        }),
        no_person: typed.oauth_no_interactive,
        registration: typed.oauth_registration.as_deref().map_or_else(
            || Ok(Map::new()),
            |text| serde_json::from_str(text).map_err(|_| no_registration()),
        )?,
    })
}

/// Without a word of the text: there may be a secret in it.
fn no_registration() -> Usage {
    Usage::new("--oauth-registration must be a JSON object")
}

/// Where the browser goes in the end.
pub(super) fn success_url(typed: Option<&Url>, allow_http: bool) -> Result<Option<Url>, Usage> {
    let flag = "oauth-success-url";
    let url = secure(flag, typed, allow_http)?;
    let is_bare = |url: &Url| {
        let has_user = !url.username().is_empty() || url.password().is_some();
        !has_user && url.query().is_none() && url.fragment().is_none()
    };
    match url {
        Some(url) if !is_bare(&url) => {
            Err(Usage::new(format!("--{flag}: it must have no user, no query and no fragment")))
        }
        url => Ok(url),
    }
}

/// Where the browser comes back to.
pub(super) fn callback(typed: &OAuthGiven) -> Result<CallbackPlace, Usage> {
    let (host, path) = (typed.oauth_callback_host.clone(), typed.oauth_callback_path.clone());
    if !is_callback_host(&host) {
        return Err(Usage::new("--oauth-callback-host must be 127.0.0.1 or localhost"));
    }
    if !is_callback_path(&path) {
        return Err(Usage::new("--oauth-callback-path must be a path such as /callback"));
    }
    Ok(CallbackPlace { host, path })
}

pub(super) fn is_callback_host(host: &str) -> bool {
    matches!(host, "127.0.0.1" | "localhost")
}

pub(super) fn is_callback_path(path: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-._~".contains(c);
    path.starts_with('/') && path.chars().all(is_plain)
}

/// The name of an issuer, as it was typed: names are compared to the letter.
fn issuer(typed: &str) -> Result<String, Usage> {
    let wrong = |why: &str| Err(Usage::new(format!("--oauth-issuer: {why}")));
    let Ok(url) = Url::parse(typed) else {
        return wrong(NO_URL);
    };
    if !url.username().is_empty() || url.query().is_some() || url.fragment().is_some() {
        return wrong("an issuer must have no user, no query and no fragment");
    }
    let is_local = url.scheme() == "http" && url.host_str().is_some_and(is_loopback);
    if url.scheme() != "https" && !is_local {
        return wrong("it must be https, because secrets go there");
    }
    Ok(typed.to_owned())
}

/// Tokens and codes cross it: encrypted, but on this machine.
fn secure(flag: &str, url: Option<&Url>, allow_http: bool) -> Result<Option<Url>, Usage> {
    let Some(url) = url else { return Ok(None) };
    let is_local = url.host_str().is_some_and(is_loopback);
    match url.scheme() {
        "https" => Ok(Some(url.clone())),
        "http" if is_local || allow_http => Ok(Some(url.clone())),
        "http" => Err(Usage::new(format!(
            "--{flag}: {} is plain http to another machine: use https, or --allow-http if you trust the way",
            shown(url)
        ))),
        scheme => Err(Usage::new(format!("--{flag}: the scheme is '{scheme}', not https"))),
    }
}

fn params(flag: &str, texts: &[String], own: &[&str]) -> Result<Vec<(String, String)>, Usage> {
    let texts = texts.iter().filter(|text| !text.is_empty());
    let pairs = texts.map(|text| match text.split_once('=') {
        Some((name, _)) if own.contains(&name) => {
            Err(Usage::new(format!("--{flag}: {name} is not to be set by hand")))
        }
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(Usage::new(format!("--{flag}: a parameter is written NAME=VALUE"))),
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_given_by_hand_are_encrypted_or_on_this_machine() {
        let of = |text: &str, allow| secure("f", Some(&Url::parse(text).unwrap()), allow);
        assert!(of("https://as/t", false).unwrap().is_some());
        assert!(of("http://localhost:1/t", false).unwrap().is_some());
        assert!(of("http://as.example/t", true).unwrap().is_some());
        assert!(of("http://as.example/t?k=s3cret", false).unwrap_err().0.contains("--allow-http"));
        assert!(of("ftp://as.example/t", true).is_err());
    }

    #[test]
    fn the_last_page_is_an_address_and_no_more() {
        let of = |text: &str, allow| success_url(Some(&Url::parse(text).unwrap()), allow);
        assert!(of("https://app.example/done", false).unwrap().is_some());
        assert!(of("http://localhost:1/done", false).unwrap().is_some());
        assert!(of("http://app.example/done", true).unwrap().is_some());
        for wrong in [
            "http://app.example/done",
            "https://me@app.example/",
            "https://app.example/?s3cret",
            "https://app.example/#x",
            "ftp://app.example/",
        ] {
            let why = of(wrong, false).unwrap_err().0;
            assert!(why.contains("--oauth-success-url") && !why.contains("s3cret"), "{why}");
        }
    }

    #[test]
    fn parameters_are_pairs_and_not_the_ones_that_are_ours() {
        let of = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|t| (*t).to_owned()).collect();
            params("f", &texts, &OWN)
        };
        assert_eq!(
            of(&["a=b=c", "", "d="]).unwrap(),
            [("a".into(), "b=c".into()), ("d".into(), String::new())]
        );
        for wrong in ["s3cret", "=s3cret", "state=s3cret"] {
            assert!(!of(&[wrong]).unwrap_err().0.contains("s3cret"));
        }
    }

    #[test]
    fn the_way_back_is_a_path_of_this_machine() {
        assert!(is_callback_path("/oauth/callback") && is_callback_path("/"));
        assert!(
            !is_callback_path("callback") && !is_callback_path("/a?b") && !is_callback_path("/ü")
        );
        assert!(!is_callback_host("evil.example") && !is_callback_host("0.0.0.0"));
    }
}
