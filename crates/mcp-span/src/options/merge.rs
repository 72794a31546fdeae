//! Options of one server from two places, the stronger of which wins.
//!
//! Some options belong together: what is said about one of them in the stronger place settles the
//! others as well, so that nothing in the weaker place contradicts it.

use super::table::OPTIONS;
use super::{Header, Origin, ServerOptions};

impl ServerOptions {
    /// Takes from `weaker` what is not said here.
    pub fn merge(&mut self, mut weaker: Self) {
        self.settle_server(&mut weaker);
        self.settle_credentials(&mut weaker);
        self.settle_headers(&mut weaker);
        self.settle_network(&mut weaker);
        if self.log_level.is_some() {
            weaker.verbose = None;
        }
        for option in OPTIONS {
            if (option.take)(self, &mut weaker)
                && let Some((name, origin)) = weaker.origins.remove_entry(option.name)
            {
                self.origins.insert(name, origin);
            }
        }
        self.cwd = self.cwd.take().or(weaker.cwd);
        self.secrets.append(&mut weaker.secrets);
    }

    /// Whether it is said which server is meant.
    #[doc(hidden)]
    #[must_use]
    pub fn names_server(&self) -> bool {
        self.url.is_some() || self.mcp_hub.is_some() || self.command.is_some()
    }

    fn settle_server(&mut self, weaker: &mut Self) {
        if self.names_server() {
            (weaker.url, weaker.mcp_hub, weaker.command) = (None, None, None);
            (weaker.env, weaker.cwd) = (None, None);
        } else {
            (self.command, self.env) = (weaker.command.take(), weaker.env.take());
        }
        if self.transport.is_some() {
            weaker.mcp_hub_mode = None;
        } else if self.mcp_hub_mode == Some(true) {
            weaker.transport = None;
        }
    }

    /// Of credentials there is one sort, and the strongest counts.
    fn settle_credentials(&mut self, weaker: &mut Self) {
        let has_source = self.credential_source().is_some();
        if has_source || self.has_authorization() {
            (weaker.bearer_token, weaker.bearer_env, weaker.bearer_file) = (None, None, None);
            (weaker.bearer_command, weaker.header_command) = (None, None);
        }
        if has_source {
            weaker.headers.iter_mut().for_each(|all| all.retain(|one| !one.is_authorization()));
            weaker.weak_headers.retain(|one| !one.is_authorization());
        }
        self.bearer_token = self.bearer_token.take().or(weaker.bearer_token.take());
        // A secret goes with the client whose it is.
        if self.oauth_client_id.is_none() && self.oauth_client_secret.is_none() {
            self.oauth_client_secret = weaker.oauth_client_secret.take();
        }
        let others = [
            (&mut self.oauth_refresh_token, &mut weaker.oauth_refresh_token),
            (&mut self.oauth_code, &mut weaker.oauth_code),
            (&mut self.oauth_code_verifier, &mut weaker.oauth_code_verifier),
        ];
        for (own, weaker) in others {
            *own = own.take().or(weaker.take());
        }
    }

    /// The option that says where credentials come from.
    #[doc(hidden)]
    #[must_use]
    pub fn credential_source(&self) -> Option<&'static str> {
        [
            (self.bearer_token.is_some(), "bearer-token"),
            (self.bearer_env.is_some(), "bearer-env"),
            (self.bearer_file.is_some(), "bearer-file"),
            (self.bearer_command.is_some(), "bearer-command"),
            (self.header_command.is_some(), "header-command"),
        ]
        .into_iter()
        .find_map(|(is_given, name)| is_given.then_some(name))
    }

    fn has_authorization(&self) -> bool {
        self.headers.iter().flatten().any(Header::is_authorization)
    }

    /// Headers are put together by their names: those of one place stay together.
    fn settle_headers(&mut self, weaker: &mut Self) {
        let is_list_of_its_own = |options: &Self| {
            options.headers.is_some()
                && !matches!(options.origin("header"), Some(Origin::Server(..)))
        };
        // A list replaces another one; the headers of an entry belong to its URL, and stay.
        if is_list_of_its_own(self) && is_list_of_its_own(weaker) {
            weaker.headers = None;
        }
        let theirs = weaker.headers.take().unwrap_or_default();
        let below = std::mem::take(&mut weaker.weak_headers);
        // Errors name the place of the strongest.
        let origin = weaker.origins.remove_entry("header");
        let is_first = self.headers.is_none() && self.weak_headers.is_empty();
        self.origins.extend(origin.filter(|_| is_first && !theirs.is_empty()));
        if self.header_file.is_some() {
            weaker.header_file = None;
            add_others(&mut self.weak_headers, theirs);
        } else if !theirs.is_empty() {
            add_others(self.headers.get_or_insert_default(), theirs);
        }
        add_others(&mut self.weak_headers, below);
    }

    fn settle_network(&mut self, weaker: &mut Self) {
        if self.insecure == Some(true) && self.ca_certs.is_none() {
            weaker.ca_certs = None;
        }
        if self.ca_certs.is_some() {
            weaker.insecure = None;
        }
        let is_none_at_all = |options: &Self| options.no_proxy.as_deref().is_some_and(is_all);
        if is_none_at_all(self) {
            weaker.proxy = None;
        } else if self.proxy.is_some() && self.no_proxy.is_none() && is_none_at_all(weaker) {
            // None in general, and this one in particular.
            self.no_proxy = Some(String::new());
        }
    }
}

/// Whether a list of exceptions excepts every host.
fn is_all(list: &str) -> bool {
    crate::net::Exceptions::parse(list).is_ok_and(|list| list.is_all())
}

/// Adds the headers whose names are not there yet.
fn add_others(headers: &mut Vec<Header>, others: Vec<Header>) {
    let known: Vec<String> = headers.iter().map(Header::key).collect();
    headers.extend(others.into_iter().filter(|other| !known.contains(&other.key())));
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// What the stronger and the weaker of two places come to.
    fn merged(stronger: Value, weaker: Value) -> Value {
        let mut options: ServerOptions = serde_json::from_value(stronger).unwrap();
        options.merge(serde_json::from_value(weaker).unwrap());
        serde_json::to_value(options).unwrap()
    }

    #[test]
    fn what_is_said_in_the_stronger_place_counts() {
        for (stronger, weaker, both) in [
            (json!({"timeout": "1"}), json!({"timeout": "2"}), json!({"timeout": "1"})),
            (json!({"serial": false}), json!({"serial": true}), json!({"serial": false})),
            (json!({}), json!({"serial": true}), json!({"serial": true})),
            // One server.
            (json!({"mcp-hub": "local"}), json!({"url": "u"}), json!({"mcp-hub": "local"})),
            (json!({"url": "u"}), json!({"mcp-hub": "local"}), json!({"url": "u"})),
            (
                json!({"transport": "http"}),
                json!({"mcp-hub-mode": true}),
                json!({"transport": "http"}),
            ),
            // One sort of credentials.
            (json!({"bearer-env": "A"}), json!({"bearer-file": "f"}), json!({"bearer-env": "A"})),
            (
                json!({"header": ["Authorization: a"]}),
                json!({"bearer-file": "f"}),
                json!({"header": ["Authorization: a"]}),
            ),
            (
                json!({"bearer-env": "A"}),
                json!({"header": ["authorization: a", "X: 1"]}),
                json!({"bearer-env": "A", "header": ["X: 1"]}),
            ),
            // Headers by their names.
            (
                json!({"header": ["X: 1"]}),
                json!({"header": ["x: 2", "Y: 3", "Y: 4"]}),
                json!({"header": ["X: 1"]}),
            ),
            (
                json!({"header": ["X: 1"]}),
                json!({"header-file": "f"}),
                json!({"header": ["X: 1"], "header-file": "f"}),
            ),
            // Certificates and proxies.
            (json!({"insecure": true}), json!({"ca-cert": ["f"]}), json!({"insecure": true})),
            (json!({"ca-cert": ["f"]}), json!({"insecure": true}), json!({"ca-cert": ["f"]})),
            (json!({"no-proxy": "*"}), json!({"proxy": "p"}), json!({"no-proxy": "*"})),
            (
                json!({"proxy": "p"}),
                json!({"no-proxy": "*"}),
                json!({"proxy": "p", "no-proxy": ""}),
            ),
            (
                json!({"proxy": "p"}),
                json!({"no-proxy": "h"}),
                json!({"proxy": "p", "no-proxy": "h"}),
            ),
            (json!({"log-level": "off"}), json!({"verbose": true}), json!({"log-level": "off"})),
        ] {
            assert_eq!(merged(stronger.clone(), weaker.clone()), both, "{stronger} over {weaker}");
        }
    }

    #[test]
    fn headers_of_an_entry_are_put_together_with_others_by_their_names() {
        let entry = r#"{"servers": {"a": {"url": "https://h", "headers": {"X": "1", "Y": "1"}}}}"#;
        let config = crate::config::read("f", entry, &|_| None).unwrap();
        let entry = config.servers().next().unwrap().options.clone();
        let list = |lines: &[&str]| {
            serde_json::from_value::<ServerOptions>(json!({ "header": lines })).unwrap()
        };
        let mut options = list(&["Y: 2"]);
        options.merge(entry);
        options.merge(list(&["Z: 3"]));
        let lines: Vec<String> = options.headers.unwrap().iter().map(|h| h.line().into()).collect();
        assert_eq!(lines, ["Y: 2", "x: 1"], "the typed list replaces the one of the file");
    }

    #[test]
    fn a_file_of_headers_beats_what_weaker_places_say() {
        let read = |json: Value| serde_json::from_value::<ServerOptions>(json).unwrap();
        let mut options = read(json!({"header-file": "f"}));
        options.merge(read(json!({"header": ["X: 2"], "header-file": "g"})));
        options.merge(read(json!({"header": ["X: 3", "Y: 3"]})));
        let weak: Vec<String> = options.weak_headers.iter().map(Header::key).collect();
        assert_eq!(weak, ["x", "y"]);
        assert_eq!(options.header_file.unwrap().to_str(), Some("f"));
        assert!(options.headers.is_none());
    }

    #[test]
    fn a_header_behind_a_file_of_headers_is_named_with_its_place() {
        use crate::config::FilePlace;
        use crate::options::{Context, Given, find};
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut options = ServerOptions {
            url: Some("https://h/".to_owned()),
            header_file: Some(file.path().into()),
            ..ServerOptions::default()
        };
        let mut weaker = ServerOptions::default();
        let place = FilePlace { file: "f".into(), line: 2, column: 3 };
        let header = find("header").unwrap();
        weaker.set(header, Given::Text("X: ${UNSET}"), Origin::File(place)).unwrap();
        options.merge(weaker);
        let error = options.resolve(&Context::default()).unwrap_err().message;
        assert!(error.starts_with("f, line 2, column 3: \"header\": "), "{error}");
    }
}
