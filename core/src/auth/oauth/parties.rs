//! Between whom a login is, in words for a person.

use std::fmt;

use serde::{Deserialize, Serialize};
use url::Url;

use super::said;

/// The server, and who gives out tokens for it, by their hosts.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Parties {
    server: String,
    issuer: String,
}

impl Parties {
    pub(super) fn new(server: &Url, issuer: &str) -> Self {
        let issuer = Url::parse(issuer).map_or_else(|_| said(issuer), |url| host(&url));
        Self { server: host(server), issuer }
    }
}

/// A host in a URL is plain ASCII, whatever was written.
fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Goes before ": open" and a page.
impl fmt::Display for Parties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "log in to {}", self.server)?;
        if self.issuer != self.server {
            write!(f, " at {}", self.issuer)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_is_told_where_and_what_for() {
        let said = |server: &str, issuer: &str| {
            Parties::new(&Url::parse(server).unwrap(), issuer).to_string()
        };
        assert_eq!(
            said("https://mcp.example.com/mcp?key=s3cret", "https://login.example.com/t"),
            "log in to mcp.example.com at login.example.com"
        );
        assert_eq!(said("http://127.0.0.1:1/mcp", "http://127.0.0.1:1"), "log in to 127.0.0.1:1");
        assert_eq!(
            said("https://mcp.example.com/", "https://gïthub.com/\u{1b}[2J"),
            "log in to mcp.example.com at xn--gthub-cta.com"
        );
    }
}
