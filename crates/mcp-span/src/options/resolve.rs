//! What the options mean: a server to connect to.

use std::ffi::OsString;
use std::sync::Arc;

use ::http::header::AUTHORIZATION;
use ::http::{HeaderMap, HeaderValue};

use super::url::{check_url, hide_parts};
use super::{Context, OptionError, ServerOptions};
use crate::auth::oauth::{OAuth, OAuthSettings};
use crate::auth::{Credentials, Source};
use crate::bridge::{HiddenTools, Policy, Stages};
use crate::client::Spec;
use crate::limits::{self, Timeouts};
use crate::revision::Revision;
use crate::revision::translate::Memory;
use crate::secret::Scrubber;
use crate::transport::child::ChildSettings;
use crate::transport::http::{HttpSettings, Transport, basic_authorization};
use crate::{client, net};

impl ServerOptions {
    /// The server to connect to. Files that are named are read, as far as they do not change while
    /// the program runs.
    ///
    /// # Errors
    ///
    /// When an option cannot be used, with the place where it was set.
    #[doc(hidden)]
    pub fn resolve(&self, context: &Context) -> Result<Spec, OptionError> {
        // What a variable stands for may be part of a URL.
        let clean = |error: OptionError| {
            let message = self.scrubber().clean(&error.message);
            OptionError { message, ..error }
        };
        self.resolve_all(context).map_err(clean)
    }

    fn resolve_all(&self, context: &Context) -> Result<Spec, OptionError> {
        let server = match &self.command {
            Some(words) => client::Server::Child(self.child(words, context)?),
            None => client::Server::Http(Box::new(self.http(context)?)),
        };
        let mut policy = self.policy();
        let mut stages = self.stages();
        if let client::Server::Http(http) = &server {
            policy.login_wait = http.login_wait;
            let folder = self.state_dir(context);
            stages.memory = folder.map(|folder| Memory::new(&folder, &http.url));
        }
        Ok(Spec { server, policy, stages })
    }

    /// The settings for a server that is a program.
    fn child(&self, words: &[OsString], context: &Context) -> Result<ChildSettings, OptionError> {
        if self.url.is_some() {
            return Err(OptionError::new(
                "there are two servers: one by its URL or name, and a command after '--'; one is enough",
            ));
        }
        let mut words = words.iter();
        let program = words.next().cloned().unwrap_or_default();
        let env = self.env.iter().flatten();
        Ok(ChildSettings {
            env: env.map(|(name, value)| (name.into(), value.clone())).collect(),
            cwd: self.cwd.clone(),
            scrubber: self.scrubber(),
            max_message: self.max_message_size(),
            environment: self.environment(context),
            ..ChildSettings::new(program).args(words)
        })
    }

    /// The settings for a server that has a URL.
    pub(crate) fn http(&self, context: &Context) -> Result<HttpSettings, OptionError> {
        let transport = self.checked_transport()?;
        let url = match &self.mcp_hub {
            Some(hub) if hub != "local" && self.url.is_some() => {
                return Err(OptionError::new(format!(
                    "there are two URLs: one is enough with {}",
                    self.label("mcp-hub")
                )));
            }
            Some(hub) if hub != "local" => Some(hub),
            _ => self.url.as_ref(),
        };
        let url = check_url(url.map(String::as_str), self.allow_http == Some(true))?;
        let scrubber = self.scrubber();
        hide_parts(&url, &scrubber);
        let mut headers = self.resolve_headers(context, &scrubber)?;
        let sources = self.resolve_credentials(context, &mut headers, &scrubber)?;
        let mut http = HttpSettings {
            transport,
            headers,
            protocol_version: self.checked_version()?,
            timeouts: self.policy().timeouts,
            net: net::Options {
                connect_timeout: self.connect_timeout(),
                ipv4: self.ipv4 == Some(true),
                proxies: self.resolve_proxies(context, &url, &scrubber)?,
                tls: self.resolve_certificates(context)?,
                ..net::Options::default()
            },
            away_wait: self.away_wait(),
            login_wait: self.oauth_wait(),
            max_message: self.max_message_size(),
            parallel: usize::try_from(self.max_parallel()).unwrap_or(usize::MAX),
            serial: self.serial == Some(true),
            server_stream: self.no_server_stream != Some(true),
            cookies: self.no_cookies != Some(true),
            scrubber,
            ..HttpSettings::new(url)
        };
        let login = self.resolve_login(context, &http.scrubber)?;
        let login = || {
            let by_headers = self.profile_by_headers == Some(true);
            logins(apart_by_headers(login?, by_headers, &http), &http)
        };
        http.credentials = sources.or_else(login).map(Arc::new);
        Ok(http)
    }

    /// Knows the secrets that came with the options.
    #[doc(hidden)]
    #[must_use]
    pub fn scrubber(&self) -> Scrubber {
        let scrubber = Scrubber::default();
        self.secrets.iter().for_each(|secret| scrubber.add(secret));
        scrubber
    }

    fn checked_transport(&self) -> Result<Transport, OptionError> {
        let hub = [
            ("mcp-hub", self.mcp_hub.is_some()),
            ("mcp-hub-mode", self.mcp_hub_mode == Some(true)),
        ];
        let hub = hub.into_iter().find_map(|(name, is_given)| is_given.then_some(name));
        match (self.transport(), hub) {
            (Transport::Http, Some(hub)) => Err(OptionError::new(format!(
                "{} http and {} exclude each other",
                self.label("transport"),
                self.label(hub)
            ))),
            (Transport::Auto, Some(_)) => Ok(Transport::Sse),
            (transport, _) => Ok(transport),
        }
    }

    fn checked_version(&self) -> Result<Option<HeaderValue>, OptionError> {
        let version = self.protocol_version.as_deref().map(HeaderValue::from_str).transpose();
        version.map_err(|_| {
            let known = Revision::LATEST_LEGACY;
            self.wrong("protocol-version", format!("it must be a date such as {known}"))
        })
    }

    /// How patient a connection is.
    fn policy(&self) -> Policy {
        Policy {
            timeouts: self.timeout.map_or_else(Timeouts::default, Timeouts::all),
            connect_wait: self.connect_wait(),
            away_wait: self.away_wait(),
            keep_alive: self.keep_alive,
            ..Policy::default()
        }
    }

    fn stages(&self) -> Stages {
        let hidden_tools = HiddenTools::new(self.ignore_tool.iter().flatten().map(String::as_str));
        Stages { protocol: self.protocol(), hidden_tools, ..Stages::default() }
    }
}

/// The login for these headers alone, if that is asked for, or if there is one: an account that was
/// kept for them, as mcp-remote does, is the one that is meant by whoever sends them.
fn apart_by_headers(
    login: OAuthSettings,
    is_asked_for: bool,
    http: &HttpSettings,
) -> OAuthSettings {
    let apart = OAuthSettings { apart_by: as_pairs(&http.headers), ..login.clone() };
    let is_kept = || !http.headers.is_empty() && OAuth::is_kept_in_file(&http.url, &apart);
    if is_asked_for || is_kept() { apart } else { login }
}

/// Headers with their values, for telling them apart alone.
fn as_pairs(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}

/// Logins, unless the user has given credentials: then nothing is done behind the user's back (C5).
fn logins(login: OAuthSettings, http: &HttpSettings) -> Option<Credentials> {
    if http.headers.contains_key(AUTHORIZATION) || basic_authorization(&http.url).is_some() {
        return None;
    }
    let oauth = OAuth::new(&http.url, login, http.net.clone());
    let source = Source::OAuth(Arc::new(oauth));
    Some(Credentials::new(source, limits::CREDENTIAL_TTL, http.scrubber.clone()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::revision::translate::Protocol;

    /// The server of an entry in a configuration file.
    fn spec(entry: &str) -> Result<Spec, OptionError> {
        let text = format!("{{\"mcpServers\": {{\"x\": {entry}}}}}");
        let lookup = |_: &str| Some("s3cr3tvalue".to_owned());
        let config = crate::config::read("f", &text, &lookup).unwrap();
        config.entries.into_iter().next().unwrap().unwrap().options.resolve(&Context::default())
    }

    #[test]
    fn a_url_becomes_a_server_over_http_with_its_settings() {
        let spec = spec(
            r#"{"url": "http://localhost/", "type": "sse", "headers": {"X-Key": "${K}"},
                "timeout": 7000, "connectTimeout": 3, "awayWait": 1, "keepAlive": 9,
                "maxMessageSize": "1M", "maxParallel": 2, "serial": true, "noCookies": true,
                "protocol": "legacy", "protocolVersion": "2025-06-18", "insecure": false}"#,
        );
        let spec = spec.unwrap();
        let client::Server::Http(http) = &spec.server else { panic!() };
        assert_eq!(http.transport, Transport::Sse);
        assert_eq!(http.headers["x-key"], "s3cr3tvalue");
        assert_eq!(http.timeouts, Timeouts::all(Duration::from_secs(7)));
        assert_eq!(
            (http.away_wait, spec.policy.away_wait),
            (Duration::from_secs(1), http.away_wait)
        );
        assert_eq!(http.net.connect_timeout, Duration::from_secs(3));
        assert_eq!((http.max_message, http.parallel), (1 << 20, 2));
        assert!(http.serial && !http.cookies && http.server_stream);
        assert_eq!(spec.stages.protocol, Protocol::Legacy);
        assert_eq!(http.scrubber.clean("an s3cr3tvalue"), "an [secret]");
    }

    #[test]
    fn a_command_becomes_a_child_with_its_variables() {
        let spec = spec(
            r#"{"command": "c", "args": ["a", "${T}"], "env": {"B": "${T}"}, "cwd": "/tmp",
                "timeout": 0, "maxMessageSize": "2K", "bearerFile": "/no"}"#,
        );
        let spec = spec.unwrap();
        let client::Server::Child(child) = &spec.server else { panic!() };
        assert_eq!((&*child.program, &*child.args[1]), ("c".as_ref(), "s3cr3tvalue".as_ref()));
        assert_eq!(child.env[0].1.reveal(), "s3cr3tvalue");
        assert_eq!((child.max_message, child.cwd.as_deref()), (2048, Some("/tmp".as_ref())));
        assert_eq!(spec.policy.timeouts, Timeouts { quick: None, work: None });
        assert!(!format!("{spec:?}").contains("s3cr3t"));
    }

    #[test]
    fn what_cannot_be_used_is_said_with_its_place() {
        for (settings, why) in [
            (r#""bearerEnv": "T""#, "\"bearer-env\": the variable T is not set"),
            (r#""clientKey": "k""#, "\"client-key\": it is of no use"),
            (
                r#""insecure": true, "caCert": "c""#,
                "\"insecure\" and f, line 1, column 62: server 'x': \"ca-cert\" exclude each other",
            ),
            (r#""bearerFile": "/no", "bearerCommand": "x""#, "\"bearer-file\" and"),
            (r#""mcpHubMode": true, "type": "http""#, "exclude each other"),
            (r#""protocolVersion": "\u0001""#, "\"protocol-version\": it must be a date"),
        ] {
            let entry = format!("{{\"url\": \"https://h/\", {settings}}}");
            let error = spec(&entry).unwrap_err().to_string();
            assert!(error.contains("f, line 1, column") && error.contains(why), "{error}");
        }
    }
}
