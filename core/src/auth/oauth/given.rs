//! What the user has given in place of what is otherwise found out or asked for.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::timeout;
use tracing::{debug, warn};
use url::Url;

use super::authority::{Authority, FoundAuthority};
use super::challenge::Challenge;
use super::discovery;
use super::flow::{LoginRun, Plan, refresh_form};
use super::grant::TokenRefusal;
use super::identity::{self, ClientIdentity};
use super::metadata::{Issuer, is_same_issuer};
use super::token::Token;
use super::words::login_error;
use super::{Grant, OAuth, OAuthSettings, address};
use crate::error::Error;
use crate::limits;
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
    /// How the client's secret is sent.
    pub style: Option<Style>,
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
const REFRESH_TOKEN: &str = "refresh token";
const CODE: &str = "code";

/// Where a client's secret stands in a request.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub enum Style {
    /// In the header.
    Basic,
    /// In the form.
    Post,
}

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

    /// The authority that needs no looking for: all of it is given, or nobody is to be asked.
    /// `needs_page`: a person has to be sent somewhere.
    pub(super) fn authority(&self, needs_page: bool) -> Option<FoundAuthority> {
        let token_url = self.token_url.as_ref()?;
        let is_whole = self.authorization_url.is_some() || !needs_page;
        if !is_whole && !self.no_discovery {
            return None;
        }
        let metadata = Issuer {
            code_challenge_methods_supported: Some(vec!["S256".to_owned()]),
            ..Issuer::default()
        };
        let issuer = self.issuer.clone();
        let issuer = issuer.unwrap_or_else(|| token_url.origin().ascii_serialization());
        let (resource, scopes) = (None, None);
        Some(self.amended(FoundAuthority { metadata, issuer, resource, scopes, is_guess: false }))
    }

    /// What is given counts, whatever was found.
    fn amended(&self, mut found: FoundAuthority) -> FoundAuthority {
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

impl Authority {
    /// Who gives out tokens: given, or found.
    pub(super) async fn of(
        oauth: &OAuth,
        challenge: Option<&Challenge>,
        known: Option<&str>,
    ) -> Result<Option<Self>, Error> {
        let OAuthSettings { given, grant, .. } = &oauth.settings;
        let found = match given.authority(*grant != Grant::ClientCredentials) {
            None => found_authority(oauth, challenge, known).await?,
            whole => whole,
        };
        found.map(|found| found.check(*grant, given, &oauth.server)).transpose()
    }
}

async fn found_authority(
    oauth: &OAuth,
    challenge: Option<&Challenge>,
    known: Option<&str>,
) -> Result<Option<FoundAuthority>, Error> {
    let (server, given) = (&oauth.server, &oauth.settings.given);
    let finding = discovery::find(&oauth.web, server, challenge, known, given.issuer.as_deref());
    let found = timeout(limits::DISCOVERY_WAIT, finding).await.unwrap_or_else(|_| {
        let server = shown(server);
        Err(login_error(format!("{server} does not say in time who gives out tokens")))
    });
    // Where nothing is found, what is given may be enough.
    match (found, given.authority(false)) {
        (Ok(Some(found)), _) => Ok(Some(given.amended(found))),
        (Err(error), _) if given.issuer.is_some() => Err(error),
        (_, Some(given)) => Ok(Some(given)),
        (found, None) => found,
    }
}

impl LoginRun<'_> {
    /// A token by what was given, if that is still good for anything.
    pub(super) async fn by_what_was_given(&self) -> Result<Option<(ClientIdentity, Token)>, Error> {
        let Self { oauth, plan: Plan { authority, .. } } = self;
        let (given, spent) = (&oauth.settings.given, oauth.state(|state| state.spent.clone()));
        let kept = oauth.kept_for(authority).await?;
        let forms = [
            (REFRESH_TOKEN, given.refresh_token.as_ref().map(refresh_form)),
            (CODE, given.code.as_ref().map(OneShot::form)),
        ];
        let left =
            |(what, form): (_, Option<_>)| Some((what, form.filter(|_| !spent.contains(what))?));
        let forms: Vec<_> = forms.into_iter().filter_map(left).collect();
        if forms.is_empty() {
            return Ok(None);
        }
        let configured = identity::configured(&oauth.settings, &authority.metadata);
        let Some(identity) = configured.or(kept.identity) else {
            let message = "A refresh token or a code is good for nothing without its client";
            return Err(login_error(message).hint("Give the client's id with --oauth-client-id"));
        };
        for (what, form) in forms {
            // Who uses a code twice is taken for a thief; a refresh token may still be good later.
            if what == CODE {
                oauth.state(|state| state.spent.insert(what));
            }
            match self.request(&identity).send(form).await {
                Ok(token) => {
                    debug!("the {what} that was given has brought a token");
                    let given = given.refresh_token.clone();
                    let given = given.filter(|_| !spent.contains(REFRESH_TOKEN));
                    let refresh = token.refresh.clone().or(given);
                    return Ok(Some((identity, Token { refresh, ..token })));
                }
                Err(TokenRefusal::Grant(error)) => {
                    warn!("the {what} that was given is no good any more: {error}");
                    oauth.state(|state| state.spent.insert(what));
                }
                Err(refusal) => return Err(refusal.into_error()),
            }
        }
        Ok(None)
    }
}

impl OneShot {
    fn form(&self) -> Vec<(&'static str, String)> {
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
        assert!(Given::default().authority(false).is_none());
        assert!(tokens.authority(true).is_none(), "the page has to be found");
        let authority = tokens.authority(false).unwrap();
        assert_eq!(authority.metadata.token_endpoint.as_deref(), Some("https://as/token"));
        assert_eq!((authority.issuer.as_str(), authority.resource), ("https://as", None));
        let both = Given { authorization_url: url("https://as/login"), ..tokens.clone() };
        assert!(both.authority(true).is_some());
        assert!(Given { no_discovery: true, ..tokens }.authority(true).is_some());
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
