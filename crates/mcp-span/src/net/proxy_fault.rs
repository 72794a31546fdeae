//! What goes wrong at a proxy, told so that it is plain whose fault it is.

use std::io;

use http::Response;
use http::header::PROXY_AUTHENTICATE;

use super::connect::Unreachable;
use super::fault::connect_failure;
use super::proxy::Proxy;
use super::tls_fault::{self, TlsFault};
use crate::error::{Error, ErrorKind};

/// Why there is no way through a proxy.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProxyFault {
    #[error("{0}")]
    Unreachable(#[from] Unreachable),
    /// TLS to the proxy itself.
    #[error("{0}")]
    Tls(#[from] TlsFault),
    /// In the middle of the handshake.
    #[error("{0}")]
    Broken(#[from] io::Error),
    #[error("{0}")]
    Garbage(&'static str),
    #[error("{}", .0.text)]
    Refused(Refused),
    #[error("{}", .0.text)]
    Login(Refused),
}

/// What a proxy said when it refused.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Refused {
    /// The HTTP status, if the proxy speaks HTTP.
    pub(super) status: Option<u16>,
    /// The status with its text, or the meaning of a SOCKS code.
    pub(super) text: String,
    /// The beginning of what it had to say to that.
    pub(super) body: Option<String>,
    /// The ways of logging in that it offers, if it named any.
    pub(super) offers: Vec<String>,
}

impl ProxyFault {
    /// The error for somebody who wanted to reach `target`, a `host:port`, through `proxy`.
    pub(super) fn explain(&self, proxy: &Proxy, target: &str) -> Error {
        let (place, origin, check) = (proxy.place(), &*proxy.origin, check(proxy));
        let (message, hint) = match self {
            Self::Tls(fault) => {
                let check = format!("{check}, and that it speaks https itself. ");
                return tls_fault::explain(fault, &format!("the proxy {place}"), &check);
            }
            Self::Unreachable(Unreachable::Tcp(kind, _)) => {
                let failure = connect_failure(*kind);
                (format!("The proxy {place} {failure}"), format!("{check}, and that it runs"))
            }
            Self::Unreachable(_) => {
                let host = proxy.address.host().unwrap_or_default();
                (format!("The host name {host} of the proxy could not be resolved"), check)
            }
            Self::Broken(_) => {
                let message = format!("The proxy {place} broke the connection");
                (message, format!("{check}, and its scheme"))
            }
            Self::Garbage(_) => {
                let what = if proxy.speaks.is_socks() { "a SOCKS5" } else { "an HTTP" };
                let message = format!("{place} does not answer like {what} proxy");
                (message, format!("{check}, and its scheme"))
            }
            Self::Refused(said) => (
                format!("The proxy {place} refused to connect to {target} ({})", said.text),
                format!(
                    "Ask who runs the proxy, which comes from {origin}; --no-proxy goes without it"
                ),
            ),
            Self::Login(said) => {
                let other = if proxy.login.is_some() { "other " } else { "" };
                let message = format!("The proxy {place} wants {other}credentials ({})", said.text);
                (message, said.credentials(origin))
            }
        };
        let kind =
            if matches!(self, Self::Login(_)) { ErrorKind::ProxyAuth } else { ErrorKind::Proxy };
        let mut error = Error::new(kind, message).hint(hint);
        if let Self::Refused(said) | Self::Login(said) = self {
            error.status = said.status;
            error.body = said.body.as_deref().map(Into::into);
        }
        error
    }
}

/// The beginning of most hints.
pub(super) fn check(proxy: &Proxy) -> String {
    format!("Check the proxy that {} names", proxy.origin)
}

impl Refused {
    /// What the head of an HTTP proxy's answer says.
    pub(super) fn of<B>(response: &Response<B>) -> Self {
        let challenges = response.headers().get_all(PROXY_AUTHENTICATE).iter();
        let words = challenges.filter_map(|value| value.to_str().ok()?.split_whitespace().next());
        let offers = words.map(|scheme| scheme.trim_end_matches(',').to_owned()).collect();
        let (status, text) = (response.status().as_u16(), response.status().to_string());
        Self { status: Some(status), text, body: None, offers }
    }

    /// How it can have the credentials that it wants, which `origin` has to name.
    fn credentials(&self, origin: &str) -> String {
        let is_basic = |offer: &String| offer.eq_ignore_ascii_case("basic");
        if self.offers.is_empty() || self.offers.iter().any(is_basic) {
            return format!("Put user and password into {origin}: http://user:password@host");
        }
        let offers = self.offers.join(", ");
        format!("It takes {offers}; only Basic is spoken here: use a local proxy that logs in")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::connect::ConnectFault;
    use super::super::fault::unconnected;
    use super::*;
    use crate::error::Delivery;

    fn explained(proxy: &str, fault: ProxyFault) -> Error {
        let proxy = Arc::new(Proxy::parse(proxy, "HTTPS_PROXY").unwrap());
        let url = "https://example.com/".parse().unwrap();
        let error = unconnected(&ConnectFault::Proxy(proxy, fault), &url);
        assert_eq!(error.delivery, Delivery::NotDelivered);
        let texts = format!("{error:?}");
        assert!(!texts.contains("s3cret"), "{texts}");
        error
    }

    fn refused(status: u16, text: &str, offers: &[&str]) -> Refused {
        let offers = offers.iter().map(ToString::to_string).collect();
        Refused { status: Some(status), text: text.to_owned(), body: None, offers }
    }

    #[test]
    fn it_is_plain_which_proxy_and_where_it_came_from() {
        let error = explained("u:s3cret@proxy:3128", ProxyFault::Garbage("no status line"));
        assert_eq!(error.message, "proxy:3128 does not answer like an HTTP proxy");
        assert!(error.hint.as_ref().unwrap().contains("HTTPS_PROXY"), "{error:?}");
        assert!(error.kind == ErrorKind::Proxy && error.is_unreachable());
        let said = refused(403, "403 Forbidden", &[]);
        let error = explained("proxy:3128", ProxyFault::Refused(said));
        let expected = "The proxy proxy:3128 refused to connect to example.com:443 (403 Forbidden)";
        assert_eq!((&*error.message, error.status), (expected, Some(403)));
        assert!(error.is_unreachable());
    }

    #[test]
    fn credentials_that_are_refused_are_final() {
        let login = |proxy, offers| {
            explained(proxy, ProxyFault::Login(refused(407, "407 Authentication Required", offers)))
        };
        let error = login("u:s3cret@proxy:1", &["Basic"]);
        assert!(error.kind == ErrorKind::ProxyAuth && !error.is_unreachable());
        assert!(error.message.contains("wants other credentials (407"), "{error}");
        assert!(login("proxy:1", &[]).message.contains("wants credentials"));
        let hint = login("proxy:1", &["Negotiate", "NTLM"]).hint.unwrap();
        assert!(hint.contains("Negotiate, NTLM; only Basic"), "{hint}");
    }
}
