//! Which proxies are wanted: by flag, by variables of ours, by the file, or by the usual variables.

use std::sync::Arc;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args};
use url::Url;

use super::args::source;
use super::report::Usage;
use mcp_span::net::{self, Exceptions, Proxies, is_loopback};
use mcp_span::secret::Scrubber;

/// What stands between here and the server.
#[derive(Args)]
#[cfg_attr(test, derive(Debug))]
#[command(next_help_heading = "Connection")]
pub(super) struct Proxy {
    #[allow(rustdoc::bare_urls, reason = "the same text is the help of the command line")]
    /// Connect through this proxy
    ///
    /// Such as http://user:password@proxy.example:8080; also https, socks5 and socks5h. The default
    /// is HTTPS_PROXY, HTTP_PROXY or ALL_PROXY.
    #[arg(
        long,
        value_name = "URL",
        env = "MCP_SPAN_PROXY",
        // A default comes from the configuration file, and may hold a password.
        hide_env_values = true,
        hide_default_value = true
    )]
    pub(super) proxy: Option<String>,

    /// Use no proxy at all or, with =LIST, none for these hosts [default: NO_PROXY]
    #[arg(
        long,
        value_name = "LIST",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "*",
        env = "MCP_SPAN_NO_PROXY"
    )]
    pub(super) no_proxy: Option<String>,

    #[arg(skip)]
    proxy_from: Place,
    #[arg(skip)]
    no_proxy_from: Place,
}

/// Where a wish was found; a later one has more weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// In a variable that is for all programs.
    #[default]
    Usual,
    /// The configuration file is for mcp-span alone, so it knows better.
    File,
    Variable,
    Flag,
}

impl Place {
    fn of(matches: &ArgMatches, id: &str) -> Self {
        match source(matches, id) {
            Some(ValueSource::CommandLine) => Self::Flag,
            Some(ValueSource::EnvVariable) => Self::Variable,
            Some(_) => Self::File,
            None => Self::Usual,
        }
    }

    /// How people call it, for a setting of ours.
    fn name(self, flag: &str, variable: &str) -> String {
        match self {
            Self::Flag => format!("--{flag}"),
            Self::Variable => variable.to_owned(),
            Self::File | Self::Usual => format!("'{flag}' in the configuration file"),
        }
    }
}

impl Proxy {
    /// Notes where its values came from.
    pub(super) fn note_places(&mut self, matches: &ArgMatches) {
        self.proxy_from = Place::of(matches, "proxy");
        self.no_proxy_from = Place::of(matches, "no_proxy");
    }

    /// The hosts that no proxy is for. What is wrong in a list of ours is an error; in one that is
    /// for all programs there may be forms that only others know.
    fn exceptions(
        &self,
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<(Exceptions, Place), Usage> {
        let Some(list) = &self.no_proxy else {
            let list = usual("NO_PROXY", &lookup).map(|(_, list)| list).unwrap_or_default();
            let list = Exceptions::parse(&list).unwrap_or_else(|(known, _)| known);
            return Ok((list, Place::Usual));
        };
        let list = Exceptions::parse(list).map_err(|(_, entry)| {
            let place = self.no_proxy_from.name("no-proxy", "MCP_SPAN_NO_PROXY");
            let entry = entry.escape_debug();
            Usage::new(format!("{place}: '{entry}' is no host, domain, address or network"))
        })?;
        Ok((list, self.no_proxy_from))
    }
}

/// The proxies for a connection to `url`; their secrets go to `scrubber`.
pub(super) fn of(
    typed: &Proxy,
    url: &Url,
    scrubber: &Scrubber,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<Proxies, Usage> {
    let place = if typed.proxy.is_some() { typed.proxy_from } else { Place::Usual };
    let (mut except, except_from) = typed.exceptions(&lookup)?;
    if except.is_all() {
        if except_from >= place {
            return Ok(Proxies::default());
        }
        // Somebody wants none in general, and this one in particular.
        except = Exceptions::default();
    }
    // What is for all programs, or all servers, is not meant for this machine. A flag is about one
    // URL, so that whoever types it knows.
    let loopback = place == Place::Flag;
    if !loopback && url.host_str().is_some_and(is_loopback) {
        return Ok(Proxies::default());
    }
    let (http, https) = match &typed.proxy {
        Some(text) => {
            let proxy = read(text, &place.name("proxy", "MCP_SPAN_PROXY"))?;
            (Some(Arc::clone(&proxy)), Some(proxy))
        }
        None => (usual_proxy("HTTP_PROXY", &lookup)?, usual_proxy("HTTPS_PROXY", &lookup)?),
    };
    for proxy in http.iter().chain(&https) {
        proxy.secrets().for_each(|secret| scrubber.add(&secret));
    }
    Ok(Proxies { http, https, except, loopback })
}

/// A proxy without user and password, or that it is none.
pub(super) fn shown(text: &str) -> String {
    net::Proxy::parse(text, "")
        .map_or_else(|_| "[not a proxy]".to_owned(), |proxy| proxy.to_string())
}

/// The usual variables that are set, as they may be shown.
pub(super) fn usual_variables(
    lookup: impl Fn(&str) -> Option<String>,
) -> impl Iterator<Item = (String, String)> {
    let proxies = ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"].map(|name| usual(name, &lookup));
    let proxies = proxies.into_iter().flatten().map(|(name, text)| (name, shown(&text)));
    proxies.chain(usual("NO_PROXY", &lookup))
}

fn read(text: &str, origin: &str) -> Result<Arc<net::Proxy>, Usage> {
    let proxy = net::Proxy::parse(text, origin);
    proxy.map(Arc::new).map_err(|why| Usage::new(format!("{origin}: {why}")))
}

fn usual_proxy(
    name: &str,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<Option<Arc<net::Proxy>>, Usage> {
    let found = usual(name, &lookup).or_else(|| usual("ALL_PROXY", &lookup));
    found.map(|(name, text)| read(&text, &name)).transpose()
}

/// A variable that many programs read, and the name under which it was found: small letters win, as
/// with curl. Empty counts as not set.
fn usual(name: &str, lookup: impl Fn(&str) -> Option<String>) -> Option<(String, String)> {
    let found = |name: String| {
        lookup(&name).filter(|value| !value.trim().is_empty()).map(|value| (name, value))
    };
    let small = found(name.to_ascii_lowercase());
    // To a CGI program, HTTP_PROXY is the header `Proxy` of a request: anybody can set it.
    let is_foreign = name == "HTTP_PROXY" && lookup("REQUEST_METHOD").is_some();
    small.or_else(|| if is_foreign { None } else { found(name.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is asked, in which environment, and what is typed with its place.
    struct Case<'a> {
        url: &'a str,
        env: &'a [(&'a str, &'a str)],
        proxy: Option<(&'a str, Place)>,
        no_proxy: Option<(&'a str, Place)>,
    }

    const NOTHING: Case<'_> =
        Case { url: "https://server.example/mcp", env: &[], proxy: None, no_proxy: None };

    impl Case<'_> {
        fn proxies(&self) -> Result<Proxies, Usage> {
            let (proxy, proxy_from) = self.proxy.unzip();
            let (no_proxy, no_proxy_from) = self.no_proxy.unzip();
            let typed = Proxy {
                proxy: proxy.map(str::to_owned),
                no_proxy: no_proxy.map(str::to_owned),
                proxy_from: proxy_from.unwrap_or_default(),
                no_proxy_from: no_proxy_from.unwrap_or_default(),
            };
            let url = Url::parse(self.url).unwrap();
            of(&typed, &url, &Scrubber::default(), |name| {
                self.env.iter().find(|(known, _)| *known == name).map(|(_, v)| (*v).to_owned())
            })
        }

        /// The proxy that it comes to; empty for none.
        fn chosen(&self) -> String {
            let proxies = self.proxies().unwrap();
            let proxy = proxies.of(&self.url.parse().unwrap());
            proxy.map(|proxy| format!("{proxy:?}")).unwrap_or_default()
        }
    }

    #[test]
    fn the_usual_variables_count_by_scheme_and_small_letters_win() {
        let chosen = |url, env: &[(&str, &str)]| Case { url, env, ..NOTHING }.chosen();
        let (https, http) = ("https://server.example/", "http://server.example/");
        let env = [("HTTPS_PROXY", "s:1"), ("HTTP_PROXY", "p:1"), ("ALL_PROXY", "socks5://a:1")];
        assert_eq!(chosen(https, &env), "Proxy(http://s:1 from HTTPS_PROXY)");
        assert_eq!(chosen(http, &env), "Proxy(http://p:1 from HTTP_PROXY)");
        assert_eq!(chosen(https, &env[1..]), "Proxy(socks5://a:1 from ALL_PROXY)");
        let env = [("https_proxy", "small:1"), ("HTTPS_PROXY", "large:1")];
        assert_eq!(chosen(https, &env), "Proxy(http://small:1 from https_proxy)");
        let env = [("https_proxy", " "), ("HTTPS_PROXY", "large:1")];
        assert_eq!(chosen(https, &env), "Proxy(http://large:1 from HTTPS_PROXY)");
        let env = [("REQUEST_METHOD", "GET"), ("HTTP_PROXY", "evil:1"), ("http_proxy", "mine:1")];
        assert_eq!(chosen(http, &env[..2]), "");
        assert_eq!(chosen(http, &env), "Proxy(http://mine:1 from http_proxy)");
        assert_eq!(chosen(https, &[("HTTPS_PROXY", "s:1"), ("no_proxy", ".example")]), "");
    }

    #[test]
    fn what_is_for_us_beats_what_is_for_all() {
        let env = [("HTTPS_PROXY", "usual:1")];
        for (place, name) in [
            (Place::File, "'proxy' in the configuration file"),
            (Place::Variable, "MCP_SPAN_PROXY"),
            (Place::Flag, "--proxy"),
        ] {
            let case = Case { env: &env, proxy: Some(("ours:1", place)), ..NOTHING };
            assert_eq!(case.chosen(), format!("Proxy(http://ours:1 from {name})"));
        }
        let env = [("NO_PROXY", "server.example"), ("HTTPS_PROXY", "usual:1")];
        let case = Case { env: &env, no_proxy: Some(("other.example", Place::File)), ..NOTHING };
        assert_eq!(case.chosen(), "Proxy(http://usual:1 from HTTPS_PROXY)");
        let proxy = Some(("ours:1", Place::Flag));
        assert_eq!(Case { env: &env, proxy, ..NOTHING }.chosen(), "", "a list counts for all");
    }

    #[test]
    fn no_proxy_at_all_yields_only_to_a_proxy_that_is_named_nearer_by() {
        let none = |place| Some(("*", place));
        let ours = |place| Some(("ours:1", place));
        let env = [("HTTPS_PROXY", "ftp://nonsense")];
        for place in [Place::File, Place::Variable, Place::Flag] {
            let case = Case { env: &env, no_proxy: none(place), ..NOTHING };
            assert_eq!(case.chosen(), "", "{place:?}");
            let both = Case { proxy: ours(place), no_proxy: none(place), ..NOTHING };
            assert_eq!(both.chosen(), "", "{place:?}");
        }
        let nearer = Case { proxy: ours(Place::Flag), no_proxy: none(Place::File), ..NOTHING };
        assert!(nearer.chosen().contains("ours"));
        let usual = Case { proxy: ours(Place::File), env: &[("NO_PROXY", "*")], ..NOTHING };
        assert!(usual.chosen().contains("ours"));
    }

    #[test]
    fn this_machine_is_reached_through_a_proxy_only_if_that_is_typed() {
        for url in ["http://localhost:1/", "https://127.0.0.1:1/", "http://[::1]:1/"] {
            let env = [("ALL_PROXY", "nonsense://"), ("HTTP_PROXY", "")];
            assert_eq!(Case { url, env: &env, ..NOTHING }.chosen(), "");
            for place in [Place::File, Place::Variable] {
                let proxy = Some(("ours:1", place));
                assert_eq!(Case { url, proxy, ..NOTHING }.chosen(), "", "{place:?}");
            }
            let proxy = Some(("ours:1", Place::Flag));
            assert!(Case { url, proxy, ..NOTHING }.chosen().contains("ours"));
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place_and_without_its_value() {
        let wrong = |case: Case<'_>| case.proxies().unwrap_err().0;
        let env = [("HTTPS_PROXY", "ftp://me:s3cret@proxy")];
        let text = wrong(Case { env: &env, ..NOTHING });
        assert!(text.starts_with("HTTPS_PROXY: ") && !text.contains("s3cret"), "{text}");
        let text = wrong(Case { proxy: Some(("http://", Place::Flag)), ..NOTHING });
        assert_eq!(text, "--proxy: there is no host in it");
        let text = wrong(Case { no_proxy: Some(("a, 10.0.0.0/99", Place::Variable)), ..NOTHING });
        assert!(text.starts_with("MCP_SPAN_NO_PROXY: '10.0.0.0/99'"), "{text}");
        let env = [("NO_PROXY", "169.254/16,<local>")];
        assert!(Case { env: &env, ..NOTHING }.proxies().is_ok());
    }
}
