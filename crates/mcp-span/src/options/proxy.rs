//! Which proxies are wanted: by the options, or by the usual variables.

use std::sync::Arc;

use ::url::Url;

use super::{Context, OptionError, Origin, ServerOptions, Variables};
use crate::net::{self, Exceptions, Proxies, is_loopback};
use crate::secret::Scrubber;

impl ServerOptions {
    /// The proxies for a connection to `url`; their secrets go to `scrubber`.
    pub(super) fn resolve_proxies(
        &self,
        context: &Context,
        url: &Url,
        scrubber: &Scrubber,
    ) -> Result<Proxies, OptionError> {
        let variables = &context.variables;
        let mut except = self.exceptions(variables)?;
        if except.is_all() {
            if self.no_proxy.is_some() || self.proxy.is_none() {
                return Ok(Proxies::default());
            }
            // Somebody wants none in general, and this one in particular.
            except = Exceptions::default();
        }
        // What is for all programs, or all servers, is not meant for this machine. A flag is about one
        // URL, so that whoever types it knows.
        let is_for_this_url = matches!(self.origin("proxy"), None | Some(Origin::Flag));
        let loopback = self.proxy.is_some() && is_for_this_url;
        if !loopback && url.host_str().is_some_and(is_loopback) {
            return Ok(Proxies::default());
        }
        let (http, https) = match &self.proxy {
            Some(text) => {
                let proxy = read(text, &self.label("proxy"))?;
                (Some(Arc::clone(&proxy)), Some(proxy))
            }
            None => (usual_proxy("HTTP_PROXY", variables)?, usual_proxy("HTTPS_PROXY", variables)?),
        };
        for proxy in http.iter().chain(&https) {
            proxy.secrets().for_each(|secret| scrubber.add(&secret));
        }
        Ok(Proxies { http, https, except, loopback })
    }

    /// The hosts that no proxy is for. What is wrong in a list of ours is an error; in one that is
    /// for all programs there may be forms that only others know.
    fn exceptions(&self, variables: &Variables) -> Result<Exceptions, OptionError> {
        let Some(list) = &self.no_proxy else {
            let list = usual("NO_PROXY", variables).map(|(_, list)| list).unwrap_or_default();
            return Ok(Exceptions::parse(&list).unwrap_or_else(|(known, _)| known));
        };
        Exceptions::parse(list).map_err(|(_, entry)| {
            let entry = entry.escape_debug();
            self.wrong("no-proxy", format!("'{entry}' is no host, domain, address or network"))
        })
    }
}

/// A proxy without user and password, or that it is none.
#[must_use]
pub fn shown_proxy(text: &str) -> String {
    net::Proxy::parse(text, "")
        .map_or_else(|_| "[not a proxy]".to_owned(), |proxy| proxy.to_string())
}

/// The usual variables for proxies that are set, as they may be shown.
#[must_use]
pub fn usual_proxy_variables(variables: &Variables) -> Vec<(String, String)> {
    let proxies = ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"].map(|name| usual(name, variables));
    let proxies = proxies.into_iter().flatten().map(|(name, text)| (name, shown_proxy(&text)));
    proxies.chain(usual("NO_PROXY", variables)).collect()
}

fn read(text: &str, origin: &str) -> Result<Arc<net::Proxy>, OptionError> {
    let proxy = net::Proxy::parse(text, origin);
    proxy.map(Arc::new).map_err(|why| OptionError::new(format!("{origin}: {why}")))
}

fn usual_proxy(name: &str, variables: &Variables) -> Result<Option<Arc<net::Proxy>>, OptionError> {
    let found = usual(name, variables).or_else(|| usual("ALL_PROXY", variables));
    found.map(|(name, text)| read(&text, &name)).transpose()
}

/// A variable that many programs read, and the name under which it was found: small letters win, as
/// with curl. Empty counts as not set.
fn usual(name: &str, variables: &Variables) -> Option<(String, String)> {
    let found = |name: String| {
        let value = variables.text(&name).filter(|value| !value.trim().is_empty());
        value.map(|value| (name, value))
    };
    let small = found(name.to_ascii_lowercase());
    // To a CGI program, HTTP_PROXY is the header `Proxy` of a request: anybody can set it.
    let is_foreign = name == "HTTP_PROXY" && variables.get("REQUEST_METHOD").is_some();
    small.or_else(|| if is_foreign { None } else { found(name.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::FilePlace;
    use crate::options::{Given, find};

    type Case<'a> = &'a [(&'static str, &'a str, Origin)];

    fn place() -> FilePlace {
        FilePlace { file: "f".into(), line: 1, column: 2 }
    }

    fn proxies(
        url: &str,
        variables: &[(&str, &str)],
        set: Case<'_>,
    ) -> Result<Proxies, OptionError> {
        let mut options = ServerOptions::default();
        for (name, value, origin) in set {
            options.set(find(name).unwrap(), Given::Text(value), origin.clone()).unwrap();
        }
        let variables = Variables::new(variables.iter().copied());
        let context = Context { variables, ..Context::default() };
        options.resolve_proxies(&context, &url.parse().unwrap(), &Scrubber::default())
    }

    /// The proxy that it comes to; empty for none.
    fn chosen(url: &str, variables: &[(&str, &str)], set: Case<'_>) -> String {
        let proxies = proxies(url, variables, set).unwrap();
        let proxy = proxies.of(&url.parse().unwrap());
        proxy.map(|proxy| format!("{proxy:?}")).unwrap_or_default()
    }

    const URL: &str = "https://server.example/mcp";

    #[test]
    fn the_usual_variables_count_by_scheme_and_small_letters_win() {
        let chosen = |url, variables: &[(&str, &str)]| chosen(url, variables, &[]);
        let http = "http://server.example/";
        let env = [("HTTPS_PROXY", "s:1"), ("HTTP_PROXY", "p:1"), ("ALL_PROXY", "socks5://a:1")];
        assert_eq!(chosen(URL, &env), "Proxy(http://s:1 from HTTPS_PROXY)");
        assert_eq!(chosen(http, &env), "Proxy(http://p:1 from HTTP_PROXY)");
        assert_eq!(chosen(URL, &env[1..]), "Proxy(socks5://a:1 from ALL_PROXY)");
        let env = [("https_proxy", "small:1"), ("HTTPS_PROXY", "large:1")];
        assert_eq!(chosen(URL, &env), "Proxy(http://small:1 from https_proxy)");
        let env = [("https_proxy", " "), ("HTTPS_PROXY", "large:1")];
        assert_eq!(chosen(URL, &env), "Proxy(http://large:1 from HTTPS_PROXY)");
        let env = [("REQUEST_METHOD", "GET"), ("HTTP_PROXY", "evil:1"), ("http_proxy", "mine:1")];
        assert_eq!(chosen(http, &env[..2]), "");
        assert_eq!(chosen(http, &env), "Proxy(http://mine:1 from http_proxy)");
        assert_eq!(chosen(URL, &[("HTTPS_PROXY", "s:1"), ("no_proxy", ".example")]), "");
    }

    #[test]
    fn what_is_for_us_beats_what_is_for_all() {
        let env = [("HTTPS_PROXY", "usual:1")];
        for (origin, name) in [
            (Origin::File(place()), "f, line 1, column 2: \"proxy\""),
            (Origin::Variable, "MCP_SPAN_PROXY"),
            (Origin::Flag, "--proxy"),
        ] {
            let chosen = chosen(URL, &env, &[("proxy", "ours:1", origin)]);
            assert_eq!(chosen, format!("Proxy(http://ours:1 from {name})"));
        }
        let env = [("NO_PROXY", "server.example"), ("HTTPS_PROXY", "usual:1")];
        let list = [("no-proxy", "other.example", Origin::Variable)];
        assert_eq!(chosen(URL, &env, &list), "Proxy(http://usual:1 from HTTPS_PROXY)");
        let ours = [("proxy", "ours:1", Origin::Flag)];
        assert_eq!(chosen(URL, &env, &ours), "", "a list counts for all");
    }

    #[test]
    fn no_proxy_at_all_yields_only_to_a_proxy_that_is_named_nearer_by() {
        let none = ("no-proxy", "*", Origin::Variable);
        let ours = ("proxy", "ours:1", Origin::Variable);
        let env = [("HTTPS_PROXY", "ftp://nonsense")];
        assert_eq!(chosen(URL, &env, std::slice::from_ref(&none)), "");
        assert_eq!(chosen(URL, &env, &[ours.clone(), none]), "");
        assert!(chosen(URL, &[("NO_PROXY", "*")], &[ours]).contains("ours"));
    }

    #[test]
    fn this_machine_is_reached_through_a_proxy_only_if_that_is_typed() {
        for url in ["http://localhost:1/", "https://127.0.0.1:1/", "http://[::1]:1/"] {
            let env = [("ALL_PROXY", "nonsense://"), ("HTTP_PROXY", "")];
            assert_eq!(chosen(url, &env, &[]), "");
            for origin in [Origin::File(place()), Origin::Variable] {
                assert_eq!(chosen(url, &[], &[("proxy", "ours:1", origin)]), "");
            }
            assert!(chosen(url, &[], &[("proxy", "ours:1", Origin::Flag)]).contains("ours"));
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place_and_without_its_value() {
        let wrong = |variables: &[(&str, &str)], set: Case<'_>| {
            proxies(URL, variables, set).unwrap_err().to_string()
        };
        let text = wrong(&[("HTTPS_PROXY", "ftp://me:s3cret@proxy")], &[]);
        assert!(text.starts_with("HTTPS_PROXY: ") && !text.contains("s3cret"), "{text}");
        let text = wrong(&[], &[("proxy", "http://", Origin::Flag)]);
        assert_eq!(text, "--proxy: there is no host in it");
        let text = wrong(&[], &[("no-proxy", "a, 10.0.0.0/99", Origin::Variable)]);
        assert!(text.starts_with("MCP_SPAN_NO_PROXY: '10.0.0.0/99'"), "{text}");
        assert!(proxies(URL, &[("NO_PROXY", "169.254/16,<local>")], &[]).is_ok());
    }
}
