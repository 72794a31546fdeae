//! Proxies, and which of them a request goes through. Pure.

use std::fmt;
use std::sync::Arc;

use http::uri::Scheme;
use http::{HeaderValue, Uri};
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use url::Url;

use super::exceptions::Exceptions;
use super::loopback::is_loopback;
use crate::secret::Secret;
use crate::wire::header;

/// The proxies of a client, and what they are for. By default there are none.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Proxies {
    /// For http URLs.
    #[serde(skip)]
    pub http: Option<Arc<Proxy>>,
    /// For https URLs.
    #[serde(skip)]
    pub https: Option<Arc<Proxy>>,
    /// For these there is none.
    pub except: Exceptions,
    /// Whether they are for this machine, too.
    pub loopback: bool,
}

impl Proxies {
    /// The proxy for `uri`; `None` if it is asked directly.
    #[must_use]
    pub fn of(&self, uri: &Uri) -> Option<&Arc<Proxy>> {
        let proxy = if is_secure(uri) { &self.https } else { &self.http };
        let (proxy, host) = (proxy.as_ref()?, uri.host()?);
        let is_excepted = is_loopback(host) && !self.loopback;
        (!is_excepted && !self.except.contains(host, port(uri))).then_some(proxy)
    }
}

/// The port of an http or https URI.
pub(super) fn port(uri: &Uri) -> u16 {
    uri.port_u16().unwrap_or(if is_secure(uri) { 443 } else { 80 })
}

/// Whether it is an https URI.
pub(super) fn is_secure(uri: &Uri) -> bool {
    uri.scheme() == Some(&Scheme::HTTPS)
}

/// One proxy.
#[derive(Clone)]
pub struct Proxy {
    pub(super) speaks: ProxyProtocol,
    /// An http URI of nothing but host and port: where to connect to.
    pub(super) address: Uri,
    pub(super) login: Option<ProxyCredentials>,
    /// The flag or variable that it came from, for people.
    pub origin: String,
    /// All of it, which is never shown.
    pub(super) url: Url,
}

/// How a proxy is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProxyProtocol {
    Http,
    /// HTTP inside TLS.
    Https,
    /// SOCKS5; names are resolved here.
    Socks5,
    /// SOCKS5; names are resolved there.
    Socks5h,
}

impl ProxyProtocol {
    pub(super) fn is_socks(self) -> bool {
        matches!(self, Self::Socks5 | Self::Socks5h)
    }
}

/// A user and a password.
#[derive(Clone)]
pub(super) struct ProxyCredentials {
    pub(super) user: Vec<u8>,
    pub(super) password: Vec<u8>,
    /// Both in the form that HTTP has for them.
    pub(super) basic: HeaderValue,
}

impl Proxy {
    /// Reads the URL of a proxy, `http` if it has no scheme; `origin` is where it was found.
    ///
    /// # Errors
    ///
    /// What is wrong with it, without a word of it but its scheme.
    pub fn parse(text: &str, origin: &str) -> Result<Self, String> {
        let wrong = || "it is not the URL of a proxy, such as http://proxy.example:8080".to_owned();
        let text = text.trim();
        let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let url = Url::parse(&url).map_err(|error| match error {
            url::ParseError::EmptyHost => "there is no host in it".to_owned(),
            _ => wrong(),
        })?;
        let (speaks, usual_port) = match url.scheme() {
            "http" => (ProxyProtocol::Http, 80),
            "https" => (ProxyProtocol::Https, 443),
            // Desktops write `socks` for it.
            "socks5" | "socks" => (ProxyProtocol::Socks5, 1080),
            "socks5h" => (ProxyProtocol::Socks5h, 1080),
            other => {
                let other = other.escape_debug();
                return Err(format!(
                    "its scheme is '{other}'; http, https, socks5 and socks5h are spoken here"
                ));
            }
        };
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| "there is no host in it".to_owned())?;
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err("there is something behind its host and port (in a password, write %2F \
                        for '/', %3F for '?' and %23 for '#')"
                .to_owned());
        }
        let place = format!("{host}:{}", url.port().unwrap_or(usual_port));
        let address = format!("http://{place}/").parse().map_err(|_| wrong())?;
        let login = ProxyCredentials::of(&url, speaks)?;
        Ok(Self { speaks, address, login, origin: origin.to_owned(), url })
    }

    /// What must not be shown of it, in all forms in which it is sent.
    pub fn secrets(&self) -> impl Iterator<Item = Secret> {
        let text = |bytes: &[u8]| Secret::new(String::from_utf8_lossy(bytes));
        let sent = self.login.iter().flat_map(move |login| {
            let basic = Secret::new(login.basic.to_str().unwrap_or_default());
            [text(&login.user), text(&login.password), basic]
        });
        // As it stands in the URL, too.
        sent.chain(self.url.password().map(Secret::new))
    }

    /// `host:port`, which is what one can check.
    pub(super) fn place(&self) -> &str {
        self.address.authority().map_or("", |authority| authority.as_str())
    }

    /// Whether it gets the request itself, with the whole URL in it, rather than a tunnel.
    pub(super) fn forwards(&self, uri: &Uri) -> bool {
        !self.speaks.is_socks() && !is_secure(uri)
    }
}

impl ProxyCredentials {
    fn of(url: &Url, speaks: ProxyProtocol) -> Result<Option<Self>, String> {
        if url.username().is_empty() && url.password().is_none() {
            return Ok(None);
        }
        let user: Vec<u8> = percent_decode_str(url.username()).collect();
        let password: Vec<u8> = percent_decode_str(url.password().unwrap_or_default()).collect();
        if speaks.is_socks() && user.len().max(password.len()) > usize::from(u8::MAX) {
            return Err("its user or password is longer than SOCKS allows".to_owned());
        }
        let basic = header::basic(&user, &password);
        Ok(Some(Self { user, password, basic }))
    }
}

/// Without user and password.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.url.scheme(), self.place())
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self} from {})", self.origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(text: &str) -> Proxy {
        Proxy::parse(text, "--proxy").unwrap()
    }

    #[test]
    fn every_scheme_has_its_port_and_http_is_meant_without_one() {
        for (text, shown, speaks) in [
            ("proxy.example", "http://proxy.example:80", ProxyProtocol::Http),
            ("proxy:3128", "http://proxy:3128", ProxyProtocol::Http),
            (" http://proxy:80/ ", "http://proxy:80", ProxyProtocol::Http),
            ("HTTPS://Proxy", "https://proxy:443", ProxyProtocol::Https),
            ("socks5://127.0.0.1", "socks5://127.0.0.1:1080", ProxyProtocol::Socks5),
            ("socks5h://[::1]:80", "socks5h://[::1]:80", ProxyProtocol::Socks5h),
            ("socks://proxy:1/", "socks://proxy:1", ProxyProtocol::Socks5),
        ] {
            let proxy = proxy(text);
            assert_eq!((&*proxy.to_string(), proxy.speaks), (shown, speaks), "{text}");
            assert_eq!(shown.rsplit_once("//").unwrap().1, proxy.place());
        }
    }

    #[test]
    fn users_and_passwords_are_decoded_and_never_shown() {
        let proxy = proxy("http://m%65:p%40s%3As3cret@proxy:1");
        let login = proxy.login.as_ref().unwrap();
        assert_eq!((&*login.user, &*login.password), (&b"me"[..], &b"p@s:s3cret"[..]));
        assert_eq!(login.basic, "Basic bWU6cEBzOnMzY3JldA==");
        assert!(login.basic.is_sensitive());
        let texts = format!("{proxy} {proxy:?}");
        assert!(!texts.contains("s3cret") && !texts.contains("bWU6"), "{texts}");
        let secrets: Vec<_> = proxy.secrets().map(|secret| secret.reveal().to_owned()).collect();
        let all = ["me", "p@s:s3cret", "Basic bWU6cEBzOnMzY3JldA==", "p%40s%3As3cret"];
        assert_eq!(secrets, all);
        assert!(Proxy::parse("user@proxy:1", "").unwrap().login.is_some());
    }

    #[test]
    fn nonsense_is_refused_without_being_repeated() {
        let long = format!("socks5://{}:x@proxy", "s3cret".repeat(50));
        for (text, part) in [
            ("ftp://s3cret@proxy", "'ftp'"),
            ("socks4://proxy", "'socks4'"),
            ("", "no host"),
            ("http://", "no host"),
            ("socks5://", "no host"),
            ("http://s3cret:s3cret@:80", "no host"),
            ("http://proxy:99999", "not the URL of a proxy"),
            ("http://s3cret:a#b@proxy:80", "not the URL of a proxy"),
            ("http://proxy:80/s3cret", "behind its host"),
            ("http://proxy:80?s3cret", "behind its host"),
            ("a b", "not the URL of a proxy"),
            (&long, "longer than SOCKS allows"),
        ] {
            let why = Proxy::parse(text, "").unwrap_err();
            assert!(why.contains(part) && !why.contains("s3cret"), "{text}: {why}");
        }
    }

    fn rules(except: &str, loopback: bool) -> Proxies {
        Proxies {
            http: Some(Arc::new(proxy("plain:1"))),
            https: Some(Arc::new(proxy("socks5h://secure:1"))),
            except: Exceptions::parse(except).unwrap(),
            loopback,
        }
    }

    fn chosen(proxies: &Proxies, uri: &str) -> Option<String> {
        proxies.of(&uri.parse().unwrap()).map(ToString::to_string)
    }

    #[test]
    fn a_proxy_is_chosen_by_scheme_and_none_for_what_is_excepted() {
        let proxies = rules("direct.example, 192.0.2.0/24, other.example:8443", false);
        let of = |uri| chosen(&proxies, uri);
        assert_eq!(of("http://a.example/").as_deref(), Some("http://plain:1"));
        assert_eq!(of("https://a.example/").as_deref(), Some("socks5h://secure:1"));
        for uri in ["http://direct.example/", "https://192.0.2.9/", "https://other.example:8443/"] {
            assert_eq!(of(uri), None, "{uri}");
        }
        assert!(of("https://other.example/").is_some());
        assert_eq!(chosen(&Proxies::default(), "http://a.example/"), None);
    }

    #[test]
    fn this_machine_is_asked_directly_unless_that_is_not_wanted() {
        for host in ["localhost", "a.localhost", "127.0.0.1", "127.1.2.3", "[::1]", "0.0.0.0"] {
            for scheme in ["http", "https"] {
                let uri = format!("{scheme}://{host}:1/mcp");
                assert_eq!(chosen(&rules("", false), &uri), None, "{uri}");
                assert!(chosen(&rules("", true), &uri).is_some(), "{uri}");
                assert_eq!(chosen(&rules(host, true), &uri), None, "{uri}");
            }
        }
    }

    #[test]
    fn plain_http_is_forwarded_by_http_proxies_only() {
        let uri = |text: &str| text.parse::<Uri>().unwrap();
        for (text, plain, secure) in [
            ("http://p:1", true, false),
            ("https://p:1", true, false),
            ("socks5://p:1", false, false),
        ] {
            let proxy = proxy(text);
            let forwards = |text| proxy.forwards(&uri(text));
            assert_eq!((forwards("http://a/"), forwards("https://a/")), (plain, secure), "{text}");
        }
    }
}
