//! The settings of mcp-oauth2-proxy, from its variables and its file: in terms of our own flags.
//!
//! Its variables have no prefix, so they count only where one of two says that they are meant for
//! this: `UPSTREAM_URL` or `MCP_PROXY_CONFIG`.

use std::collections::BTreeMap;
use std::ffi::OsString;

use serde_json::Value;

use super::super::report::Usage;
use super::super::secrets::{Purpose, Secrets};
use super::super::settings;
use super::client_info::{content, object, redirect_flags};
use mcp_span::ServerOptions;

/// What it says: values by our flags, and secrets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Theirs {
    pub(crate) url: String,
    pub(crate) flags: Vec<(&'static str, String)>,
    pub(crate) secrets: Secrets,
}

/// A setting: its place in the file, its variable, and what becomes of it.
type Row = (&'static str, &'static str, Conversion);

/// How a value is read, and what it is here.
#[derive(Clone, Copy)]
enum Conversion {
    /// The value of our flag.
    Text(&'static str),
    /// The same, one of these.
    OneOf(&'static str, &'static [&'static str]),
    /// The same, a whole number from the first to the second.
    Integer(&'static str, i64, i64),
    /// The same in seconds, in place of milliseconds.
    Milliseconds(&'static str),
    /// Our switch.
    On(&'static str),
    /// Our switch, which says the contrary.
    Off(&'static str),
    /// Texts by their names, for the token endpoint and the login page.
    Parameters,
    Hidden(Purpose),
    /// Read elsewhere.
    Url,
}

use Conversion::{Hidden, Integer, Milliseconds, Off, On, OneOf, Parameters, Text};

/// The two variables that say that the settings are meant.
const URL: &str = "UPSTREAM_URL";
const FILE: &str = "MCP_PROXY_CONFIG";

const LEVELS: &[&str] = &["trace", "debug", "info", "warn", "error", "fatal"];
const GRANTS: &[&str] = &["client_credentials", "authorization_code"];
const MOST: i64 = i32::MAX as i64;

const SETTINGS: &[Row] = &[
    ("upstream.url", URL, Conversion::Url),
    ("upstream.timeoutMs", "UPSTREAM_TIMEOUT_MS", Milliseconds("timeout")),
    ("upstream.openServerStream", "UPSTREAM_OPEN_SERVER_STREAM", Off("no-server-stream")),
    ("upstream.protocolVersion", "UPSTREAM_PROTOCOL_VERSION", Text("protocol-version")),
    ("oauth2.grant", "OAUTH2_GRANT", OneOf("oauth-grant", GRANTS)),
    ("oauth2.tokenUrl", "OAUTH2_TOKEN_URL", Text("oauth-token-url")),
    ("oauth2.clientId", "OAUTH2_CLIENT_ID", Text("oauth-client-id")),
    ("oauth2.clientSecret", "OAUTH2_CLIENT_SECRET", Hidden(Purpose::ClientSecret)),
    ("oauth2.refreshToken", "OAUTH2_REFRESH_TOKEN", Hidden(Purpose::RefreshToken)),
    ("oauth2.authorizationCode", "OAUTH2_AUTHORIZATION_CODE", Hidden(Purpose::Code)),
    ("oauth2.codeVerifier", "OAUTH2_CODE_VERIFIER", Hidden(Purpose::CodeVerifier)),
    ("oauth2.authorizationUrl", "OAUTH2_AUTHORIZATION_URL", Text("oauth-authorization-url")),
    ("oauth2.redirectUri", "OAUTH2_REDIRECT_URI", Text("oauth-redirect-uri")),
    ("oauth2.interactive", "OAUTH2_INTERACTIVE", Off("oauth-no-interactive")),
    ("oauth2.callbackHost", "OAUTH2_CALLBACK_HOST", Text("oauth-callback-host")),
    ("oauth2.callbackPort", "OAUTH2_CALLBACK_PORT", Integer("oauth-callback-port", 0, 65535)),
    (
        "oauth2.callbackTimeoutSeconds",
        "OAUTH2_CALLBACK_TIMEOUT_SECONDS",
        Integer("oauth-login-timeout", 1, MOST),
    ),
    ("oauth2.tokenCacheDir", "OAUTH2_TOKEN_CACHE_DIR", Text("state-dir")),
    ("oauth2.scope", "OAUTH2_SCOPE", Text("oauth-scope")),
    ("oauth2.resource", "OAUTH2_RESOURCE", Text("oauth-resource")),
    ("oauth2.audience", "OAUTH2_AUDIENCE", Text("oauth-audience")),
    ("oauth2.authStyle", "OAUTH2_AUTH_STYLE", OneOf("oauth-auth-style", &["header", "body"])),
    ("oauth2.refreshSkewSeconds", "OAUTH2_REFRESH_SKEW_SECONDS", Integer("oauth-skew", 0, MOST)),
    ("oauth2.extraParams", "OAUTH2_EXTRA_PARAMS", Parameters),
    ("discovery.enabled", "DISCOVERY_ENABLED", Off("oauth-no-discovery")),
    ("log.level", "LOG_LEVEL", OneOf("log-level", LEVELS)),
    ("allowInsecureHttp", "ALLOW_INSECURE_HTTP", On("allow-http")),
];

/// What it has where nothing is said, and we have not: its users have registered this port.
const DEFAULTS: [(&str, &str); 2] =
    [("oauth-auth-style", "body"), ("oauth-callback-port", "53682")];

/// Whether its settings count.
pub(crate) fn is_meant(lookup: impl Fn(&str) -> Option<OsString>) -> bool {
    [FILE, URL].iter().any(|name| lookup(name).is_some_and(|value| !value.is_empty()))
}

/// Reads all of it; `None` if it is not meant. What is wrong in it is no business of a command that
/// is about another server than the one that it names, or about none: `is_about` knows.
pub(crate) fn read(
    lookup: impl Fn(&str) -> Option<String>,
    is_about: impl FnOnce(Option<&str>) -> bool,
) -> Result<Option<Theirs>, Usage> {
    let lookup = |name: &str| lookup(name).filter(|value| !value.is_empty());
    let (file, url) = (lookup(FILE), lookup(URL));
    if file.is_none() && url.is_none() {
        return Ok(None);
    }
    let document = file.map_or(Ok(Value::Null), |file| {
        let text = content(FILE, &format!("@{file}"))?;
        object(&format!("{FILE}: {file}"), &text).map(Value::Object)
    });
    let in_file = || setting(document.as_ref().ok()?, "upstream.url")?.as_str();
    if !is_about(url.as_deref().or_else(in_file)) {
        return Ok(None);
    }
    let document = document?;
    let mut theirs = Theirs::default();
    for (path, variable, conversion) in SETTINGS {
        // A variable beats the file.
        if let Some(text) = lookup(variable) {
            theirs.add(variable, from_text(text, *conversion), *conversion)?;
        } else if let Some(value) = setting(&document, path) {
            theirs.add(path, value.clone(), *conversion)?;
        }
    }
    theirs.check()?;
    Ok(Some(theirs))
}

fn setting<'a>(document: &'a Value, path: &str) -> Option<&'a Value> {
    let value = document.pointer(&format!("/{}", path.replace('.', "/")));
    value.filter(|value| !value.is_null())
}

/// A variable's text as it would stand in the file; as it is where it is wrong.
fn from_text(text: String, conversion: Conversion) -> Value {
    let value = match conversion {
        Integer(..) | Milliseconds(_) => text.trim().parse::<i64>().ok().map(Value::from),
        On(_) | Off(_) => {
            let text = text.trim().to_ascii_lowercase();
            Some(matches!(&*text, "1" | "true" | "yes" | "on").into())
        }
        Parameters => serde_json::from_str(&text).ok(),
        _ => None,
    };
    value.unwrap_or(Value::String(text))
}

impl Theirs {
    /// The same as options.
    pub(crate) fn options(self) -> Result<ServerOptions, Usage> {
        let mut options = settings::foreign(&self.flags, "mcp-oauth2-proxy")?;
        options.url = Some(self.url);
        self.secrets.set(&mut options);
        Ok(options)
    }

    fn add(&mut self, name: &str, value: Value, conversion: Conversion) -> Result<(), Usage> {
        let must = |what: &str| Usage::new(format!("{name} must be {what}"));
        let text = || value.as_str().ok_or_else(|| must("a text")).map(str::to_owned);
        let switch = || value.as_bool().ok_or_else(|| must("true or false"));
        let integer = |least: i64, most: i64| match value.as_i64() {
            Some(number) if (least..=most).contains(&number) => Ok(number),
            Some(_) => Err(must(&format!("an integer from {least} to {most}, got {value}"))),
            None => Err(must(&format!("an integer, got {value}"))),
        };
        match conversion {
            Conversion::Url => self.url = text()?,
            Text(flag) => self.flags.push((flag, text()?)),
            Hidden(purpose) => self.secrets.add(purpose, text()?),
            OneOf(flag, known) => {
                let text = text()?.to_ascii_lowercase();
                if !known.contains(&text.as_str()) {
                    return Err(must(&format!("one of {}, got {text:?}", known.join(", "))));
                }
                let ours = match text.as_str() {
                    "fatal" => "error".to_owned(),
                    _ => text.replace('_', "-"),
                };
                self.flags.push((flag, ours));
            }
            Integer(flag, least, most) => {
                self.flags.push((flag, integer(least, most)?.to_string()));
            }
            Milliseconds(flag) => {
                let number = integer(1, MOST)?;
                self.flags.push((flag, format!("{}.{:03}", number / 1000, number % 1000)));
            }
            On(flag) => self.flags.push((flag, switch()?.to_string())),
            Off(flag) => self.flags.push((flag, (!switch()?).to_string())),
            Parameters => {
                let pairs: BTreeMap<String, String> =
                    serde_json::from_value(value).map_err(|_| must("a JSON object of texts"))?;
                for (key, value) in pairs {
                    self.flags.push(("oauth-param", format!("{key}={value}")));
                    self.flags.push(("oauth-authorize-param", format!("{key}={value}")));
                }
            }
        }
        Ok(())
    }

    /// What it insists on, and what it has where nothing is said.
    fn check(&mut self) -> Result<(), Usage> {
        let has = |flags: &[(&str, String)], name: &str| flags.iter().any(|(n, _)| *n == name);
        for (flag, names) in [
            ("oauth-grant", "OAUTH2_GRANT (oauth2.grant)"),
            ("oauth-client-id", "OAUTH2_CLIENT_ID (oauth2.clientId)"),
        ] {
            if !has(&self.flags, flag) {
                return Err(Usage::new(format!("{names} is missing")));
            }
        }
        if self.url.is_empty() {
            return Err(Usage::new("UPSTREAM_URL (upstream.url) is missing"));
        }
        let redirect = self.flags.iter().find(|(name, _)| *name == "oauth-redirect-uri");
        let way = redirect.map(|(_, address)| redirect_flags(address)).unwrap_or_default();
        let more = way.into_iter().chain(DEFAULTS.map(|(flag, value)| (flag, value.to_owned())));
        for (flag, value) in more.collect::<Vec<_>>() {
            if !has(&self.flags, flag) {
                self.flags.push((flag, value));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Our flag for a setting, if it has one.
    fn target(conversion: Conversion) -> Option<&'static str> {
        match conversion {
            Text(flag)
            | OneOf(flag, _)
            | Integer(flag, ..)
            | Milliseconds(flag)
            | On(flag)
            | Off(flag) => Some(flag),
            Parameters | Hidden(_) | Conversion::Url => None,
        }
    }

    #[test]
    fn every_setting_has_a_flag_a_variable_and_a_line_in_the_documentation() {
        let page = include_str!("../../../../docs/migrating.md");
        for (_, variable, conversion) in SETTINGS {
            assert!(page.contains(&format!("`{variable}`")), "{variable} is not in migrating.md");
            let Some(flag) = target(*conversion) else { continue };
            assert!(mcp_span::options::find(flag).is_some(), "no option {flag} for {variable}");
            assert!(page.contains(&format!("`--{flag}")), "--{flag} is not in migrating.md");
        }
    }

    const LEAST: [(&str, &str); 3] = [
        ("UPSTREAM_URL", "https://h/mcp"),
        ("OAUTH2_GRANT", "authorization_code"),
        ("OAUTH2_CLIENT_ID", "c"),
    ];

    fn with(more: &[(&str, &str)]) -> Result<Option<Theirs>, Usage> {
        let all: Vec<(&str, &str)> = more.iter().chain(&LEAST).copied().collect();
        let lookup = |name: &str| Some(all.iter().find(|(n, _)| *n == name)?.1.to_owned());
        read(lookup, |url| url == Some("https://h/mcp"))
    }

    fn flag(more: &[(&str, &str)], name: &str) -> Option<String> {
        let flags = with(more).unwrap().unwrap().flags;
        flags.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    #[test]
    fn its_variables_count_only_where_one_of_two_is_there() {
        let lookup = |name: &str| (name == "OAUTH2_TOKEN_URL").then(|| "https://as/".to_owned());
        assert_eq!(read(lookup, |_| true).unwrap(), None);
        assert_eq!(with(&[]).unwrap().unwrap().url, "https://h/mcp");
        assert_eq!(with(&[("UPSTREAM_URL", "https://other/")]).unwrap(), None);
    }

    #[test]
    fn values_are_put_into_our_words() {
        assert_eq!(flag(&[], "oauth-grant").unwrap(), "authorization-code");
        assert_eq!(flag(&[], "oauth-callback-port").unwrap(), "53682");
        assert_eq!(flag(&[("UPSTREAM_TIMEOUT_MS", "1500")], "timeout").unwrap(), "1.500");
        for (text, ours) in [("yes", "false"), ("ON", "false"), ("0", "true"), ("nonsense", "true")]
        {
            let env = [("OAUTH2_INTERACTIVE", text)];
            assert_eq!(flag(&env, "oauth-no-interactive").unwrap(), ours, "{text}");
        }
        let env = [("OAUTH2_REDIRECT_URI", "http://localhost:4000/cb")];
        assert_eq!(flag(&env, "oauth-callback-path").unwrap(), "/cb");
        assert_eq!(flag(&env, "oauth-callback-port").unwrap(), "4000");
        let env = [("OAUTH2_EXTRA_PARAMS", r#"{"a": "b"}"#), ("LOG_LEVEL", "fatal")];
        assert_eq!(flag(&env, "oauth-param").unwrap(), "a=b");
        assert_eq!(flag(&env, "oauth-authorize-param").unwrap(), "a=b");
        assert_eq!(flag(&env, "log-level").unwrap(), "error");
    }

    #[test]
    fn what_is_wrong_is_said_under_its_own_name() {
        for (name, value, part) in [
            ("OAUTH2_CALLBACK_PORT", "x", "OAUTH2_CALLBACK_PORT must be an integer, got \"x\""),
            ("OAUTH2_CALLBACK_PORT", "99999", "from 0 to 65535"),
            ("UPSTREAM_TIMEOUT_MS", "0", "UPSTREAM_TIMEOUT_MS must be an integer from 1"),
            ("OAUTH2_GRANT", "password", "must be one of client_credentials, authorization_code"),
            ("OAUTH2_EXTRA_PARAMS", "[1]", "OAUTH2_EXTRA_PARAMS must be a JSON object of texts"),
            ("OAUTH2_EXTRA_PARAMS", "{", "must be a JSON object of texts"),
            ("MCP_PROXY_CONFIG", "/no/such", "/no/such cannot be read"),
        ] {
            let why = with(&[(name, value)]).unwrap_err().0;
            assert!(why.contains(part), "{name}: {why}");
        }
    }

    #[test]
    fn a_variable_beats_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = r#"{"upstream": {"url": "https://file/"}, "log": {"level": "debug"},
            "oauth2": {"scope": "file", "callbackPort": 7, "interactive": false, "clientSecret": "s"},
            "allowInsecureHttp": true}"#;
        std::fs::write(file.path(), text).unwrap();
        let env = [("MCP_PROXY_CONFIG", file.path().to_str().unwrap()), ("OAUTH2_SCOPE", "mine")];
        assert_eq!(with(&env).unwrap().unwrap().url, "https://h/mcp");
        for (name, value) in [
            ("oauth-scope", "mine"),
            ("oauth-callback-port", "7"),
            ("oauth-no-interactive", "true"),
            ("allow-http", "true"),
            ("log-level", "debug"),
        ] {
            assert_eq!(flag(&env, name).as_deref(), Some(value), "{name}");
        }
        assert_ne!(with(&env).unwrap().unwrap().secrets, Secrets::default());
        std::fs::write(file.path(), r#"{"oauth2": {"callbackPort": "7"}}"#).unwrap();
        assert!(with(&env).unwrap_err().0.starts_with("oauth2.callbackPort must be an integer"));
    }
}
