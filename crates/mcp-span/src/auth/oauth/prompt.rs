//! What a person is shown in order to log in, and between whom that is.

use std::fmt;

use serde::{Deserialize, Serialize};
use url::Url;

use super::words::said;
use crate::untrusted::Untrusted;

/// A page, and what to do there. Its text goes behind "open".
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub enum Prompt {
    /// A page for a browser that can come back to this machine.
    Browser(Url),
    /// A page for any device.
    Device {
        /// Where.
        page: Url,
        /// The same with the code in it.
        filled_in: Option<Url>,
        /// What to enter there, or to compare.
        code: String,
    },
}

impl Prompt {
    /// Where a person has to go.
    pub(super) fn page(&self) -> &Url {
        match self {
            Self::Browser(page) | Self::Device { page, .. } => page,
        }
    }
}

impl fmt::Display for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Browser(page) => write!(f, "{page}"),
            Self::Device { page, filled_in: None, code } => {
                write!(f, "{page} and enter the code {}", Untrusted(code))
            }
            Self::Device { page, filled_in: Some(filled_in), code } => {
                let code = Untrusted(code);
                write!(f, "{filled_in} (or {page}) and see that the code is {code}")
            }
        }
    }
}

/// The server, and who gives out tokens for it, by their hosts.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Parties {
    server: String,
    issuer: String,
    /// Where the page is, if that is another host than the issuer's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    page: Option<String>,
}

impl Parties {
    pub(super) fn new(server: &Url, issuer: &str, page: &Url) -> Self {
        let issuer = Url::parse(issuer).map_or_else(|_| said(issuer), |url| host(&url));
        let page = Some(host(page)).filter(|page| *page != issuer);
        Self { server: host(server), issuer, page }
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
        if let Some(page) = &self.page {
            write!(f, " (its page is at {page})")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_shown_beside_its_page() {
        let page = Url::parse("https://as/device").unwrap();
        let mut prompt = Prompt::Device { page, filled_in: None, code: "AB-CD".into() };
        assert_eq!(prompt.to_string(), "https://as/device and enter the code AB-CD");
        if let Prompt::Device { filled_in, .. } = &mut prompt {
            *filled_in = Some(Url::parse("https://as/device?c=AB-CD").unwrap());
        }
        let text =
            "https://as/device?c=AB-CD (or https://as/device) and see that the code is AB-CD";
        assert_eq!(prompt.to_string(), text);
    }

    #[test]
    fn a_person_is_told_where_and_what_for() {
        let url = |text: &str| Url::parse(text).unwrap();
        let said = |server: &str, issuer: &str| {
            Parties::new(&url(server), issuer, &url(issuer)).to_string()
        };
        let elsewhere = Parties::new(
            &url("https://mcp.example.com/"),
            "https://id.example.com/pool",
            &url("https://shop.login.example/authorize?x=1"),
        );
        assert_eq!(
            elsewhere.to_string(),
            "log in to mcp.example.com at id.example.com (its page is at shop.login.example)"
        );
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
