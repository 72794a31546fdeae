//! What the user has given in place of what is otherwise found out or asked for.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;

use super::authority::FoundAuthority;
use super::identity::ClientAuthentication;
use super::metadata::{Issuer, is_same_issuer};
use super::web::Form;
use super::words::login_error;
use super::{Grant, address};
use crate::error::Error;
use crate::secret::{Secret, shown};

/// Addresses, tokens and parameters that need not be found.
///
/// Another process is handed those that a person's login needs.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Given {
    /// The only authorization server that is used, by its name: nothing goes to any other.
    pub issuer: Option<String>,
    /// Where tokens are had.
    pub token_url: Option<Url>,
    /// Where a person logs in.
    pub authorization_url: Option<Url>,
    /// Nobody is asked who gives out tokens.
    #[serde(skip)]
    pub no_discovery: bool,
    /// Brings a token before anybody is asked.
    #[serde(skip)]
    pub refresh_token: Option<Secret>,
    /// So does this, once.
    #[serde(skip)]
    pub code: Option<OneShot>,
    /// What tokens are for, in place of what the server says.
    pub resource: Option<String>,
    /// The same in the words of some providers, for logins as a client.
    pub audience: Option<String>,
    /// Sent along to the token endpoint.
    pub token_params: Vec<(String, String)>,
    /// Sent along in the address of the login page.
    pub page_params: Vec<(String, String)>,
    /// How the client's secret is sent, if it has one.
    pub style: Option<ClientAuthentication>,
    /// Nobody is asked to log in.
    #[serde(skip)]
    pub no_person: bool,
    /// What is said of a client that is registered on the spot, over what we say.
    pub registration: Map<String, Value>,
}

/// A code obtained elsewhere, with its verifier and redirect URI.
#[derive(Clone, Debug)]
pub struct OneShot {
    /// The code.
    pub code: Secret,
    /// The verifier of its challenge, if it had one.
    pub verifier: Option<Secret>,
    /// The redirect address, if it had one.
    pub redirect: Option<String>,
}

/// What can be given in place of a person's consent, by the words for it.
pub(super) const REFRESH_TOKEN: &str = "refresh token";
pub(super) const CODE: &str = "code";

impl Given {
    /// Where the issuer is that the user has named.
    pub(super) fn issuer_url(&self) -> Option<Url> {
        address::of_user(self.issuer.as_deref()?).ok()
    }

    /// Whether what `issuer` has given out, or was given, may be used with the one that the user
    /// has named.
    pub(super) fn allows(&self, issuer: Option<&str>) -> bool {
        let is_it = |named: &str| issuer.is_some_and(|issuer| is_same_issuer(issuer, named));
        self.issuer.as_deref().is_none_or(is_it)
    }

    /// Takes an address that was found, or given. How near it may be depends on who is asked there:
    /// the user's own choice, or somebody whom the server has named.
    pub(super) fn checked(&self, text: &str, what: &str, server: &Url) -> Result<Url, Error> {
        let mut own = [&self.token_url, &self.authorization_url].into_iter().flatten();
        if let Some(own) = own.find(|own| own.as_str() == text) {
            return Ok(own.clone());
        }
        let is_at =
            |issuer: &Url| Url::parse(text).is_ok_and(|url| url.origin() == issuer.origin());
        let issuer = self.issuer_url().filter(is_at);
        address::checked(text, what, issuer.as_ref().unwrap_or(server))
    }

    /// An endpoint that must be there, checked.
    pub(super) fn endpoint(
        &self,
        found: Option<&String>,
        what: &str,
        server: &Url,
    ) -> Result<Url, Error> {
        let Some(found) = found else {
            let server = shown(server);
            return Err(login_error(format!("The authorization server of {server} has no {what}")));
        };
        self.checked(found, what, server)
    }

    /// Whether a login by `grant` needs no looking for who gives out tokens: that is given, and where
    /// a person has to be sent is, too, or nobody is to be asked for it.
    pub(super) fn is_enough(&self, grant: Grant) -> bool {
        let needs_page = self.authorization_url.is_none() && grant != Grant::ClientCredentials;
        self.token_url.is_some() && (!needs_page || self.no_discovery)
    }

    /// The authority of the token endpoint that is given, which says no more of itself.
    pub(super) fn authority(&self) -> Option<FoundAuthority> {
        let token_url = self.token_url.as_ref()?;
        let metadata = Issuer {
            code_challenge_methods_supported: Some(vec!["S256".to_owned()]),
            ..Issuer::default()
        };
        let issuer = self.issuer.clone();
        let issuer = issuer.unwrap_or_else(|| token_url.origin().ascii_serialization());
        Some(FoundAuthority { metadata, issuer, resource: None, scopes: None, is_guess: false })
    }

    /// What is given counts, whatever was found.
    pub(super) fn amended(&self, mut found: FoundAuthority) -> FoundAuthority {
        let metadata = &mut found.metadata;
        let replace = |found: &mut Option<String>, given: Option<String>| {
            *found = given.or_else(|| found.take());
        };
        replace(&mut metadata.token_endpoint, self.token_url.as_ref().map(Url::to_string));
        let page = self.authorization_url.as_ref().map(Url::to_string);
        replace(&mut metadata.authorization_endpoint, page);
        replace(&mut found.resource, self.resource.clone());
        found
    }
}

impl OneShot {
    pub(super) fn form(&self) -> Form {
        let mut form = vec![
            ("grant_type", "authorization_code".to_owned()),
            ("code", self.code.reveal().to_owned()),
        ];
        form.extend(self.redirect.iter().map(|redirect| ("redirect_uri", redirect.clone())));
        let verifier = self.verifier.iter().map(|verifier| verifier.reveal().to_owned());
        form.extend(verifier.map(|verifier| ("code_verifier", verifier)));
        form
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Option<Url> {
        Some(Url::parse(text).unwrap())
    }

    #[test]
    fn nobody_is_asked_where_everything_is_given() {
        let tokens = Given { token_url: url("https://as/token"), ..Given::default() };
        assert!(!Given::default().is_enough(Grant::ClientCredentials));
        assert!(!tokens.is_enough(Grant::Code), "the page has to be found");
        assert!(tokens.is_enough(Grant::ClientCredentials));
        let authority = tokens.amended(tokens.authority().unwrap());
        assert_eq!(authority.metadata.token_endpoint.as_deref(), Some("https://as/token"));
        assert_eq!((authority.issuer.as_str(), authority.resource), ("https://as", None));
        let both = Given { authorization_url: url("https://as/login"), ..tokens.clone() };
        assert!(both.is_enough(Grant::Code));
        assert!(Given { no_discovery: true, ..tokens }.is_enough(Grant::Code));
    }

    #[test]
    fn a_code_goes_with_what_it_was_asked_for_with() {
        let code = Secret::new("c");
        let alone = OneShot { code: code.clone(), verifier: None, redirect: None };
        assert_eq!(alone.form().len(), 2);
        let whole = OneShot { code, verifier: Some(Secret::new("v")), redirect: Some("r".into()) };
        assert_eq!(
            whole.form()[2..],
            [("redirect_uri", "r".into()), ("code_verifier", "v".into())]
        );
    }
}
