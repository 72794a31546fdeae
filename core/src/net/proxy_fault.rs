//! What goes wrong at a proxy, told so that it is plain whose fault it is.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::{Response, StatusCode};

use super::connect::Unreachable;
use super::fault::connect_failure;
use super::proxy::Proxy;
use super::tls_fault::{self, TlsFault};
use super::tunnel::offers;
use crate::error::{Error, Kind};

/// A proxy, and what it did.
#[derive(Debug, thiserror::Error)]
#[error("{trouble}")]
pub(super) struct ProxyFault {
    proxy: Arc<Proxy>,
    trouble: Trouble,
}

/// Why there is no way through a proxy.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// The proxy itself.
    #[error("{0}")]
    Unreachable(#[from] Unreachable),
    /// TLS to the proxy itself.
    #[error("{0}")]
    Tls(TlsFault),
    /// TLS to the server, through the proxy.
    #[error("{0}")]
    ServerTls(TlsFault),
    /// In the middle of the handshake.
    #[error("{0}")]
    Broken(#[from] io::Error),
    #[error("{0}")]
    Garbage(&'static str),
    #[error("{}", .0.text)]
    Refused(Refused),
    #[error("{}", .0.text)]
    Login(Refused),
    #[error("no connection within {} ms", .0.as_millis())]
    Timeout(Duration),
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
    pub(super) fn new(proxy: &Arc<Proxy>, trouble: Trouble) -> Self {
        Self { proxy: Arc::clone(proxy), trouble }
    }

    /// What is wrong with credentials, if that is what the proxy that passes requests on has answered.
    pub(super) fn of<B>(response: &Response<B>, forwarder: Option<&Arc<Proxy>>) -> Option<Self> {
        let wants_login = response.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED;
        let proxy = forwarder.filter(|_| wants_login)?;
        let offers = offers(response.headers());
        let (status, text) = (Some(response.status().as_u16()), response.status().to_string());
        Some(Self::new(proxy, Trouble::Login(Refused { status, text, offers, body: None })))
    }

    /// The error for somebody who wanted to reach `target`, a `host:port`.
    pub(super) fn explain(&self, target: &str) -> Error {
        let (place, origin) = (self.proxy.place(), &*self.proxy.origin);
        let proxy = format!("The proxy {place}");
        let check = format!("Check the proxy that {origin} names");
        let error = match &self.trouble {
            Trouble::Unreachable(Unreachable::Tcp(cause)) => {
                Error::new(Kind::Proxy, format!("{proxy} {}", connect_failure(cause)))
                    .hint(format!("{check}, and that it runs"))
            }
            Trouble::Unreachable(_) => {
                let host = self.proxy.address.host().unwrap_or_default();
                let message = format!("The host name {host} of the proxy could not be resolved");
                Error::new(Kind::Proxy, message).hint(check)
            }
            Trouble::Tls(fault) => {
                let error = tls_fault::explain(fault, &format!("the proxy {place}"));
                let helps = error.hint.clone().unwrap_or_default();
                error.hint(format!("{check}, and that it speaks https itself. {helps}"))
            }
            Trouble::ServerTls(fault) => {
                let error =
                    tls_fault::explain(fault, &format!("{target} through the proxy {place}"));
                let helps = error.hint.clone().unwrap_or_default();
                error.hint(format!(
                    "If the proxy looks into https, its certificate authority must be trusted \
                     here. {helps}"
                ))
            }
            Trouble::Broken(_) => Error::new(Kind::Proxy, format!("{proxy} broke the connection"))
                .hint(format!("{check}, and its scheme")),
            Trouble::Garbage(_) => {
                let what = if self.proxy.is_socks() { "a SOCKS5" } else { "an HTTP" };
                Error::new(Kind::Proxy, format!("{place} does not answer like {what} proxy"))
                    .hint(format!("{check}, and its scheme"))
            }
            Trouble::Refused(said) => {
                let message = format!("{proxy} refused to connect to {target} ({})", said.text);
                let hint = format!(
                    "Ask who runs the proxy, which comes from {origin}; --no-proxy goes without it"
                );
                said.told(Error::new(Kind::Proxy, message).hint(hint))
            }
            Trouble::Login(said) => self.refused_login(said),
            Trouble::Timeout(limit) => {
                let message = format!(
                    "No connection to {target} through the proxy {place} within {} ms",
                    limit.as_millis()
                );
                Error::new(Kind::Proxy, message)
                    .hint(format!("{check}, or allow more --connect-timeout"))
            }
        };
        error.because(&self.trouble).not_delivered()
    }

    fn refused_login(&self, said: &Refused) -> Error {
        let other = if self.proxy.login.is_some() { "other credentials" } else { "credentials" };
        let message = format!("The proxy {} wants {other} ({})", self.proxy.place(), said.text);
        let is_basic = |offer: &String| offer.eq_ignore_ascii_case("basic");
        let hint = if said.offers.is_empty() || said.offers.iter().any(is_basic) {
            format!("Put user and password into {}: http://user:password@host", self.proxy.origin)
        } else {
            let offers = said.offers.join(", ");
            format!("It takes {offers}; only Basic is spoken here: use a local proxy that logs in")
        };
        said.told(Error::new(Kind::ProxyAuth, message).hint(hint))
    }
}

impl Refused {
    fn told(&self, mut error: Error) -> Error {
        error.status = self.status;
        error.body = self.body.as_deref().map(Into::into);
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Delivery;

    fn explained(proxy: &str, trouble: Trouble) -> Error {
        let proxy = Arc::new(Proxy::parse(proxy, "HTTPS_PROXY").unwrap());
        let error = ProxyFault::new(&proxy, trouble).explain("example.com:443");
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
        let error = explained("u:s3cret@proxy:3128", Trouble::Garbage("no status line"));
        assert_eq!(error.message, "proxy:3128 does not answer like an HTTP proxy");
        assert!(error.hint.as_ref().unwrap().contains("HTTPS_PROXY"), "{error:?}");
        assert!(error.kind == Kind::Proxy && error.is_unreachable());
        let said = refused(403, "403 Forbidden", &[]);
        let error = explained("proxy:3128", Trouble::Refused(said));
        let expected = "The proxy proxy:3128 refused to connect to example.com:443 (403 Forbidden)";
        assert_eq!((&*error.message, error.status), (expected, Some(403)));
        assert!(error.is_unreachable());
    }

    #[test]
    fn credentials_that_are_refused_are_final() {
        let login = |proxy, offers| {
            explained(proxy, Trouble::Login(refused(407, "407 Authentication Required", offers)))
        };
        let error = login("u:s3cret@proxy:1", &["Basic"]);
        assert!(error.kind == Kind::ProxyAuth && !error.is_unreachable());
        assert!(error.message.contains("wants other credentials (407"), "{error}");
        assert!(login("proxy:1", &[]).message.contains("wants credentials"));
        let hint = login("proxy:1", &["Negotiate", "NTLM"]).hint.unwrap();
        assert!(hint.contains("Negotiate, NTLM; only Basic"), "{hint}");
    }
}
