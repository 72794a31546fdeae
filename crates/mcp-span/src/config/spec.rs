//! What an entry is to the client: a server to connect to.

use std::ffi::OsString;

use ::http::HeaderValue;

use super::{Entry, Fault, Server, values};
use crate::client::{self, Spec};
use crate::limits::Timeouts;
use crate::revision::Revision;
use crate::revision::translate::Protocol;
use crate::secret::{Scrubber, Secret};
use crate::transport::{child, http};

/// Settings about what a program writes for people: whoever uses the library has their own.
const ABOUT_OUTPUT: [&str; 6] =
    ["verbose", "log-level", "log-format", "log-file", "trace-file", "trace-limit"];

impl Entry {
    /// The server to connect to.
    ///
    /// # Errors
    ///
    /// When a setting has no such value, or needs what the library has no hand in: the environment,
    /// a browser, files with certificates.
    pub fn spec(&self) -> Result<Spec, Fault> {
        let mut spec = self.server.spec(&self.scrubber());
        if let Some(limit) = self.timeout {
            spec.policy.timeouts = Timeouts::all(limit);
        }
        for (flag, texts) in &self.settings {
            let text = texts.first().map(Secret::reveal).unwrap_or_default();
            set(&mut spec, flag, text).map_err(|why| self.wrong(flag, why))?;
        }
        if let client::Server::Http(http) = &mut spec.server {
            http.timeouts = spec.policy.timeouts;
            http.away_wait = spec.policy.away_wait;
        }
        Ok(spec)
    }

    /// Knows the secrets of the entry.
    #[must_use]
    pub fn scrubber(&self) -> Scrubber {
        let scrubber = Scrubber::default();
        self.secrets.iter().for_each(|secret| scrubber.add(secret));
        scrubber
    }

    fn wrong(&self, flag: &str, sentence: String) -> Fault {
        Fault {
            place: self.place.clone(),
            server: Some(self.name.clone()),
            key: Some(flag.to_owned()),
            sentence,
            is_off: !self.enabled,
        }
    }
}

impl Server {
    /// The server with the defaults for all that is not part of it.
    #[must_use]
    pub fn spec(&self, scrubber: &Scrubber) -> Spec {
        let scrubber = scrubber.clone();
        match self {
            Self::Child { command, args, env, cwd } => {
                let env = env.iter().map(|(name, value)| (OsString::from(name), value.clone()));
                Spec::child(child::ChildSettings {
                    env: env.collect(),
                    cwd: cwd.clone(),
                    scrubber,
                    ..child::ChildSettings::new(command).args(args)
                })
            }
            Self::Url { url, transport, headers } => Spec::http(http::HttpSettings {
                transport: *transport,
                headers: headers.clone(),
                scrubber,
                ..http::HttpSettings::new(url.clone())
            }),
        }
    }
}

/// Puts one setting into its place. For a child those about HTTP mean nothing.
fn set(spec: &mut Spec, flag: &str, text: &str) -> Result<(), String> {
    let is_on = text == "true";
    match (flag, &mut spec.server) {
        (flag, _) if ABOUT_OUTPUT.contains(&flag) => {}
        ("connect-wait", _) => spec.policy.connect_wait = values::seconds(text)?,
        ("away-wait", _) => spec.policy.away_wait = values::seconds(text)?,
        ("keep-alive", _) => spec.policy.keep_alive = Some(values::some_seconds(text)?),
        ("protocol", _) => spec.stages.protocol = protocol(text)?,
        ("max-message-size", client::Server::Child(child)) => {
            child.max_message = values::bytes(text)?;
        }
        (_, client::Server::Child(_)) => {}
        ("max-message-size", client::Server::Http(http)) => http.max_message = values::bytes(text)?,
        ("connect-timeout", client::Server::Http(http)) => {
            http.net.connect_timeout = values::some_seconds(text)?;
        }
        ("max-parallel", client::Server::Http(http)) => {
            let number = text.parse().ok().filter(|number| *number > 0);
            http.parallel = number.ok_or("it must be a number from 1 up")?;
        }
        ("serial", client::Server::Http(http)) => http.serial = is_on,
        ("no-server-stream", client::Server::Http(http)) => http.server_stream = !is_on,
        ("no-cookies", client::Server::Http(http)) => http.cookies = !is_on,
        ("mcp-hub-mode", client::Server::Http(http)) if is_on => {
            http.transport = http::Transport::Sse;
        }
        ("protocol-version", client::Server::Http(http)) => {
            let value = HeaderValue::from_str(text);
            http.protocol_version =
                Some(value.map_err(|_| {
                    format!("it must be a date such as {}", Revision::LATEST_LEGACY)
                })?);
        }
        // A switch that is off asks for nothing.
        (_, _) if text == "false" => {}
        (flag, _) => return Err(format!("\"{flag}\" is for the command line only")),
    }
    Ok(())
}

fn protocol(text: &str) -> Result<Protocol, String> {
    match text {
        "auto" => Ok(Protocol::Auto),
        "legacy" => Ok(Protocol::Legacy),
        "modern" => Ok(Protocol::Modern),
        _ => Err("it must be auto, legacy or modern".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn spec(entry: &str) -> Result<Spec, Fault> {
        let text = format!("{{\"mcpServers\": {{\"x\": {entry}}}}}");
        let config = super::super::read("f", &text, &|_| Some("s3cr3tvalue".to_owned())).unwrap();
        config.entries.into_iter().next().unwrap().unwrap().spec()
    }

    #[test]
    fn a_url_becomes_a_server_over_http_with_its_settings() {
        let spec = spec(
            r#"{"url": "http://h/", "type": "sse", "headers": {"X-Key": "${K}"}, "timeout": 7000,
                "connectTimeout": 3, "awayWait": 1, "keepAlive": 9, "maxMessageSize": "1M",
                "maxParallel": 2, "serial": true, "noCookies": true, "protocol": "legacy",
                "protocolVersion": "2025-06-18", "logLevel": "debug", "insecure": false}"#,
        );
        let spec = spec.unwrap();
        let client::Server::Http(http) = &spec.server else { panic!() };
        assert_eq!(http.transport, http::Transport::Sse);
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
    fn what_the_library_cannot_do_is_refused() {
        for (setting, word) in [
            (r#""bearerEnv": "T""#, "command line only"),
            (r#""insecure": true"#, "command line only"),
            (r#""connectTimeout": 0"#, "more than 0"),
            (r#""maxParallel": 0"#, "from 1 up"),
            (r#""protocol": "old""#, "legacy"),
        ] {
            let fault = spec(&format!("{{\"url\": \"http://h/\", {setting}}}")).unwrap_err();
            assert!(fault.sentence.contains(word), "{fault}");
            assert_eq!((fault.place.line, fault.server.as_deref()), (1, Some("x")));
        }
    }
}
