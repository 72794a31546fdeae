//! What a browser brings back from a login, in the query of the redirect address. Pure.

use super::grant::names_resource;

/// The parameters of the redirect. Never shown: a code is as good as a token for a while.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Callback {
    pub(super) code: Option<String>,
    pub(super) state: Option<String>,
    pub(super) issuer: Option<String>,
    pub(super) error: Option<String>,
    pub(super) description: Option<String>,
}

impl Callback {
    /// Reads the query of the redirect address.
    pub(super) fn parse(query: &str) -> Self {
        let value = |wanted: &str| {
            let mut pairs = url::form_urlencoded::parse(query.as_bytes());
            pairs.find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned())
        };
        Self {
            code: value("code"),
            state: value("state"),
            issuer: value("iss"),
            error: value("error"),
            description: value("error_description"),
        }
    }

    /// Whether the provider has refused the parameter `resource`, by name.
    pub(super) fn rejects_resource(&self) -> bool {
        names_resource(self.error.as_deref(), self.description.as_deref())
    }
}
