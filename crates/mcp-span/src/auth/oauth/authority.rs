//! The authorization server of a login, with only those of its endpoints that belong together. Pure.
//!
//! Whoever writes metadata can name endpoints of others in it. A page of an honest provider beside a
//! token endpoint of an attacker would send the honest provider's code to the attacker; a
//! registration of the attacker beside it would make us somebody whom people trust there.

use std::ops::Deref;

use serde::{Deserialize, Serialize};
use url::Url;

use super::Grant;
use super::given::Given;
use super::metadata::Issuer;
use super::site;
use super::words::{login_error, said};
use crate::error::Error;

/// Who gives out tokens for a server, as it was found or given.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct FoundAuthority {
    pub(super) metadata: Issuer,
    /// Its name, as it was asked for: what it says of itself was found there.
    pub(super) issuer: String,
    /// What tokens are for; `None` where the server is of 2025-03-26 and knows no such thing.
    pub(super) resource: Option<String>,
    /// The scopes that the resource names, if it does.
    pub(super) scopes: Option<Vec<String>>,
    /// Nothing says that it is one: it is tried whether it is.
    pub(super) is_guess: bool,
}

/// The same after [`FoundAuthority::check`], which is the only way to have one, here or in the
/// process that has handed a login to this one.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Authority {
    pub(super) found: FoundAuthority,
    /// The host of a registration that is not used, because it is not the provider's own.
    stray_registration: Option<String>,
}

impl FoundAuthority {
    /// Takes what belongs together, for a login by `grant`, and refuses what cannot be trusted.
    ///
    /// An endpoint that the user has given is the user's to choose.
    pub(super) fn check(
        mut self,
        grant: Grant,
        given: &Given,
        server: &Url,
    ) -> Result<Authority, Error> {
        let metadata = &mut self.metadata;
        let token = metadata.token_endpoint.as_ref().and_then(|text| Url::parse(text).ok());
        let entry = match grant {
            Grant::Code => &metadata.authorization_endpoint,
            Grant::DeviceCode => &metadata.device_authorization_endpoint,
            Grant::ClientCredentials => &None,
        };
        let entry =
            entry.as_ref().map(|text| given.checked(text, "a login", server)).transpose()?;
        let is_promised =
            grant == Grant::Code && metadata.authorization_response_iss_parameter_supported;
        if let Some(entry) = entry.as_ref().filter(|_| !is_promised && given.token_url.is_none()) {
            let own = Url::parse(&self.issuer).ok();
            if !own.iter().chain(&token).any(|url| site::is_same(url, entry)) {
                return Err(mismatched(&self.issuer, entry, token.as_ref()));
            }
        }
        // An address that cannot be used at all stays, and is an error for whoever needs it.
        let take_stray = |endpoint: &mut Option<String>, owner: &Option<Url>| {
            let url = given.checked(endpoint.as_ref()?, "clients", server).ok()?;
            let is_of_owner = site::is_same(&url, owner.as_ref()?);
            let host = url.host_str().filter(|_| !is_of_owner)?.to_owned();
            *endpoint = None;
            Some(host)
        };
        let stray_registration = take_stray(&mut metadata.registration_endpoint, &entry);
        // A refresh token goes to whom it came from, and to nobody else.
        take_stray(&mut metadata.revocation_endpoint, &token);
        Ok(Authority { found: self, stray_registration })
    }
}

impl Deref for Authority {
    type Target = FoundAuthority;

    fn deref(&self) -> &FoundAuthority {
        &self.found
    }
}

impl Authority {
    /// The issuer's URL; given names may be none.
    pub(super) fn url(&self) -> Option<Url> {
        Url::parse(&self.issuer).ok()
    }

    /// For tests of what comes after the check.
    #[cfg(test)]
    pub(super) fn unchecked(found: FoundAuthority) -> Self {
        Self { found, stray_registration: None }
    }

    /// Why a registration that there is was not used, in words.
    pub(super) fn about_registration(&self) -> Option<String> {
        let host = self.stray_registration.as_ref()?;
        Some(format!(
            "clients are registered at {host}, which is not where people log in: it could make us \
             pass for somebody else there"
        ))
    }
}

fn mismatched(issuer: &str, entry: &Url, token: Option<&Url>) -> Error {
    let host = |url: Option<&Url>| url.and_then(Url::host_str).unwrap_or("nowhere").to_owned();
    let message = format!(
        "The authorization server {} has people log in at {} and gives out tokens at {}: nothing \
         shows that these belong together, and a login could end up with a stranger",
        said(issuer),
        host(Some(entry)),
        host(token)
    );
    let hint = "If this is right, give the addresses with --oauth-authorization-url and \
                --oauth-token-url";
    login_error(message).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Issuer, page, token endpoint, registration, revocation: as each of them describes itself.
    type Shape = (&'static str, &'static str, &'static str, &'static str, &'static str);

    /// None of these promises `iss`.
    const PROVIDERS: &[Shape] = &[
        (
            "https://accounts.google.com",
            "https://accounts.google.com/o/oauth2/v2/auth",
            "https://oauth2.googleapis.com/token",
            "",
            "https://oauth2.googleapis.com/revoke",
        ),
        (
            "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_AbC",
            "https://shop.auth.eu-west-1.amazoncognito.com/oauth2/authorize",
            "https://shop.auth.eu-west-1.amazoncognito.com/oauth2/token",
            "",
            "https://shop.auth.eu-west-1.amazoncognito.com/oauth2/revoke",
        ),
        (
            "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_AbC",
            "https://login.shop.example/oauth2/authorize",
            "https://login.shop.example/oauth2/token",
            "",
            "https://login.shop.example/oauth2/revoke",
        ),
        (
            "https://login.microsoftonline.com/4f1/v2.0",
            "https://login.microsoftonline.com/4f1/oauth2/v2.0/authorize",
            "https://login.microsoftonline.com/4f1/oauth2/v2.0/token",
            "",
            "",
        ),
        (
            "https://sts.windows.net/4f1/",
            "https://login.microsoftonline.com/4f1/oauth2/authorize",
            "https://login.microsoftonline.com/4f1/oauth2/token",
            "",
            "",
        ),
        (
            "https://shop.b2clogin.com/4f1/v2.0/",
            "https://shop.b2clogin.com/shop.onmicrosoft.com/oauth2/v2.0/authorize?p=b2c_1_in",
            "https://shop.b2clogin.com/shop.onmicrosoft.com/oauth2/v2.0/token?p=b2c_1_in",
            "",
            "",
        ),
        (
            "https://shop.eu.auth0.com/",
            "https://shop.eu.auth0.com/authorize",
            "https://shop.eu.auth0.com/oauth/token",
            "https://shop.eu.auth0.com/oidc/register",
            "https://shop.eu.auth0.com/oauth/revoke",
        ),
        (
            "https://login.shop.example/",
            "https://login.shop.example/authorize",
            "https://login.shop.example/oauth/token",
            "https://login.shop.example/oidc/register",
            "https://login.shop.example/oauth/revoke",
        ),
        (
            "https://shop.okta.com/oauth2/default",
            "https://shop.okta.com/oauth2/default/v1/authorize",
            "https://shop.okta.com/oauth2/default/v1/token",
            "https://shop.okta.com/oauth2/v1/clients",
            "https://shop.okta.com/oauth2/default/v1/revoke",
        ),
        (
            "https://id.shop.example/oauth2/aus1",
            "https://id.shop.example/oauth2/aus1/v1/authorize",
            "https://id.shop.example/oauth2/aus1/v1/token",
            "https://id.shop.example/oauth2/v1/clients",
            "https://id.shop.example/oauth2/aus1/v1/revoke",
        ),
        (
            "https://sso.shop.example/realms/shop",
            "https://sso.shop.example/realms/shop/protocol/openid-connect/auth",
            "https://sso.shop.example/realms/shop/protocol/openid-connect/token",
            "https://sso.shop.example/realms/shop/clients-registrations/openid-connect",
            "https://sso.shop.example/realms/shop/protocol/openid-connect/revoke",
        ),
        (
            "https://github.com/login/oauth",
            "https://github.com/login/oauth/authorize",
            "https://github.com/login/oauth/access_token",
            "",
            "",
        ),
        (
            "https://cf.mcp.atlassian.com",
            "https://mcp.atlassian.com/v1/authorize",
            "https://cf.mcp.atlassian.com/v1/token",
            "https://cf.mcp.atlassian.com/v1/register",
            "https://cf.mcp.atlassian.com/v1/token",
        ),
        (
            "https://www.facebook.com",
            "https://facebook.com/dialog/oauth/",
            "https://graph.facebook.com/oauth/access_token",
            "",
            "",
        ),
        (
            "https://www.paypal.com",
            "https://www.paypal.com/signin/authorize",
            "https://api.paypal.com/v1/oauth2/token",
            "",
            "",
        ),
        (
            "https://mcp.tenant.workers.dev",
            "https://mcp.tenant.workers.dev/authorize",
            "https://mcp.tenant.workers.dev/token",
            "https://mcp.tenant.workers.dev/register",
            "https://mcp.tenant.workers.dev/token",
        ),
        (
            "https://auth.shop.co.uk",
            "https://www.shop.co.uk/login",
            "https://api.shop.co.uk/token",
            "https://api.shop.co.uk/clients",
            "",
        ),
    ];

    fn server() -> Url {
        Url::parse("https://mcp.example.com/mcp").unwrap()
    }

    fn found(&(issuer, page, token, registration, revocation): &Shape) -> FoundAuthority {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let metadata = Issuer {
            issuer: text(issuer),
            authorization_endpoint: text(page),
            token_endpoint: text(token),
            registration_endpoint: text(registration),
            revocation_endpoint: text(revocation),
            device_authorization_endpoint: text(page),
            ..Issuer::default()
        };
        let issuer = issuer.to_owned();
        FoundAuthority { metadata, issuer, resource: None, scopes: None, is_guess: false }
    }

    fn check(shape: &Shape, grant: Grant) -> Result<Authority, Error> {
        found(shape).check(grant, &Given::default(), &server())
    }

    #[test]
    fn well_known_providers_pass_with_all_their_endpoints() {
        for shape in PROVIDERS {
            for grant in [Grant::Code, Grant::DeviceCode, Grant::ClientCredentials] {
                let authority = check(shape, grant).unwrap();
                assert_eq!(authority.metadata, found(shape).metadata, "{shape:?}");
                assert_eq!(authority.about_registration(), None);
            }
        }
    }

    #[test]
    fn a_page_of_somebody_else_is_refused_unless_the_answer_will_say_whose_it_is() {
        let honest = "https://honest.example/authorize";
        for (issuer, token) in [
            ("https://evil.example", "https://evil.example/token"),
            ("https://evil.example", "https://evil.example/honest.example/token"),
            ("https://evil.example", "https://evil-honest.example/token"),
            ("https://evil.example", "https://evilhonest.example/token"),
            ("https://honest.example.evil.example", "https://evil.example/token"),
        ] {
            let shape = (issuer, honest, token, "", "");
            let error = check(&shape, Grant::Code).unwrap_err();
            assert!(error.message.contains("honest.example"), "{error}");
            assert!(error.message.contains("belong together"), "{error}");
            assert!(check(&shape, Grant::DeviceCode).is_err(), "a device code is as good");
            let mut promising = found(&shape);
            promising.metadata.authorization_response_iss_parameter_supported = true;
            let given = Given::default();
            assert!(promising.clone().check(Grant::Code, &given, &server()).is_ok());
            assert!(promising.check(Grant::DeviceCode, &given, &server()).is_err());
        }
        // Tenants of one provider are strangers.
        let tenants = [
            ("https://evil.auth0.com/", "https://honest.auth0.com/authorize"),
            ("https://evil.us.auth0.com/", "https://honest.us.auth0.com/authorize"),
            ("https://evil.okta.com", "https://honest.okta.com/oauth2/v1/authorize"),
            ("https://evil.workers.dev", "https://honest.workers.dev/authorize"),
            ("https://evil.co.uk", "https://honest.co.uk/authorize"),
        ];
        for (issuer, page) in tenants {
            assert!(check(&(issuer, page, issuer, "", ""), Grant::Code).is_err(), "{issuer}");
        }
    }

    #[test]
    fn a_registration_of_somebody_else_is_not_used() {
        // The id that it gives could be that of a program which people trust at the honest provider.
        let evil = "https://evil.example";
        let shape = (
            evil,
            "https://honest.example/authorize",
            "https://honest.example/token",
            "https://evil.example/register",
            "https://evil.example/revoke",
        );
        for grant in [Grant::Code, Grant::DeviceCode] {
            let authority = check(&shape, grant).unwrap();
            assert_eq!(authority.metadata.registration_endpoint, None);
            assert!(authority.about_registration().unwrap().contains("evil.example"));
            assert_eq!(authority.metadata.revocation_endpoint, None, "nor is its revocation");
        }
    }

    #[test]
    fn addresses_that_the_user_gives_are_the_users_to_choose() {
        let url = |text: &str| Some(Url::parse(text).unwrap());
        let torn = ("https://a.example", "https://b.example/page", "https://c.example/t", "", "");
        let token = Given { token_url: url("https://c.example/t"), ..Given::default() };
        assert!(found(&torn).check(Grant::Code, &token, &server()).is_ok());
        // A page alone is not enough: the code would go to whomever the server names.
        let page = Given { authorization_url: url("https://b.example/page"), ..Given::default() };
        assert!(found(&torn).check(Grant::Code, &page, &server()).is_err());
    }
}
