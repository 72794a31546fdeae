//! Where requests go: a URL, and the form of it that goes on the wire.

use http::uri::{InvalidUri, PathAndQuery};
use http::{HeaderValue, Uri};
use url::Url;

use crate::error::{Error, ErrorKind};
use crate::secret::shown;

/// An http or https URL, checked once and ready to be requested many times.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Without user, password and fragment: those are not for the wire.
    url: Url,
    uri: Uri,
    /// The path and query, which are all that the server itself is told: it knows where it is.
    pub(super) path: Uri,
    /// The other part, as the `Host` header has it.
    pub(super) host: HeaderValue,
}

impl Endpoint {
    /// Takes `url` if HTTP can carry it.
    ///
    /// # Errors
    ///
    /// When it cannot.
    pub fn new(url: &Url) -> Result<Self, Error> {
        let mut url = url.clone();
        url.set_fragment(None);
        // Both fail only for URLs without a host, which have neither.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        let unfit = |error: http::Error| {
            let message = format!("{} cannot be requested over HTTP", shown(&url));
            Error::new(ErrorKind::BadUrl, message).because(error).not_delivered()
        };
        let uri: Uri = url.as_str().parse().map_err(|error: InvalidUri| unfit(error.into()))?;
        let root = PathAndQuery::from_static("/");
        let path = Uri::from(uri.path_and_query().cloned().unwrap_or(root));
        // A URL does not name the port that goes without saying.
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let host = HeaderValue::from_str(authority).map_err(|error| unfit(error.into()))?;
        Ok(Self { url, uri, path, host })
    }

    /// The URL.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The URL as requests have it.
    #[must_use]
    pub fn uri(&self) -> &Uri {
        &self.uri
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Endpoint({})", shown(&self.url))
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&shown(&self.url))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_for_the_wire_is_left_out() {
        let url = Url::parse("https://me:pw@example.com:444/mcp?k=a|b`c#part").unwrap();
        let endpoint = Endpoint::new(&url).unwrap();
        assert_eq!(endpoint.uri(), "https://example.com:444/mcp?k=a|b`c");
        assert_eq!(format!("{endpoint:?}"), "Endpoint(https://example.com:444/mcp?k=[secret])");
    }
}
