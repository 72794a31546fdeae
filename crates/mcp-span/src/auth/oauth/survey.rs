//! Looks at all that a login would need, and begins none: which metadata there is, and what it says.

use http::HeaderMap;

use super::authority::{Authority, FoundAuthority};
use super::challenge::Challenge;
use super::{Grant, OAuth, OAuthSettings};
use crate::error::Error;

/// What a login would find.
#[derive(Clone, Debug)]
pub struct Survey {
    /// What was asked for, in this order.
    pub tried: Vec<TriedPlace>,
    /// Who gives out tokens; `None` if nothing shows that the server knows of logins.
    pub provider: Result<Option<Provider>, Error>,
}

/// A place where metadata was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriedPlace {
    /// The place, as it may be shown.
    pub url: String,
    /// What was there.
    pub found: FoundMetadata,
}

/// What stands at a place of metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundMetadata {
    /// A document.
    Document,
    /// Something that is none.
    Unreadable,
    /// An HTTP error.
    Status(u16),
    /// There was no answer, for this reason.
    Nobody(String),
}

/// What an authorization server offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Its name.
    pub issuer: String,
    /// No metadata says that it is one.
    pub is_guess: bool,
    /// What a token is for, as the server names itself.
    pub resource: Option<String>,
    /// The scopes that the server names.
    pub scopes: Vec<String>,
    /// The ways to a token that it names; empty if it names none, which means codes.
    pub grants: Vec<String>,
    /// PKCE with SHA-256, without which codes are not safe.
    pub has_pkce: bool,
    /// How a client becomes known to it: `configured`, `metadata-document`, `registration`.
    pub ways_in: Vec<&'static str>,
    /// What a login as it is configured would miss.
    pub missing: Vec<&'static str>,
}

/// Finds out what a login after this refusal would find. Nobody is asked to log in, no client is
/// registered, and nothing is kept.
pub async fn survey(oauth: &OAuth, said: &HeaderMap) -> Survey {
    let challenge = Challenge::of(said);
    let known = oauth.kept().await.issuer;
    let found = Authority::of(oauth, challenge.as_ref(), known.as_deref()).await;
    let tried = oauth.web.take_tried();
    let provider = found.map(|found| found.map(|found| provider(found, &oauth.settings)));
    Survey { tried, provider }
}

fn provider(found: Authority, settings: &OAuthSettings) -> Provider {
    let FoundAuthority { metadata, issuer, resource, scopes, is_guess } = found.found;
    let [by_code, by_device] = [Grant::Code, Grant::DeviceCode].map(|way| way == settings.grant);
    let has_document = settings.client_metadata_url.is_some();
    let has_pkce = metadata.check_pkce().is_ok();
    let ways_in = names([
        (settings.client_id.is_some(), "configured"),
        (has_document && metadata.client_id_metadata_document_supported, "metadata-document"),
        (metadata.registration_endpoint.is_some(), "registration"),
    ]);
    let (page, device) = (metadata.authorization_endpoint, metadata.device_authorization_endpoint);
    let missing = names([
        (metadata.token_endpoint.is_none(), "a token endpoint"),
        (by_code && page.is_none(), "an authorization endpoint"),
        (by_device && device.is_none(), "an endpoint for logins on other devices"),
        (by_code && !has_pkce, "PKCE with S256"),
        (ways_in.is_empty(), "a way to register a client"),
    ]);
    Provider {
        grants: metadata.grant_types_supported.unwrap_or_default(),
        scopes: scopes.or(metadata.scopes_supported).unwrap_or_default(),
        issuer,
        is_guess,
        resource,
        has_pkce,
        ways_in,
        missing,
    }
}

/// The names of what is so.
fn names<const N: usize>(table: [(bool, &'static str); N]) -> Vec<&'static str> {
    table.into_iter().filter_map(|(is_so, name)| is_so.then_some(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::settings;
    use super::*;

    fn authority(json: &str) -> Authority {
        Authority::unchecked(FoundAuthority {
            metadata: serde_json::from_str(json).unwrap(),
            issuer: "https://as".into(),
            resource: Some("https://h/mcp".into()),
            scopes: None,
            is_guess: false,
        })
    }

    #[test]
    fn what_a_login_needs_is_named_if_it_is_missing() {
        let bare = provider(authority("{}"), &settings());
        let all = [
            "a token endpoint",
            "an authorization endpoint",
            "PKCE with S256",
            "a way to register a client",
        ];
        assert_eq!(bare.missing, all);
        let whole = r#"{"token_endpoint":"https://as/t","authorization_endpoint":"https://as/a",
            "registration_endpoint":"https://as/r","code_challenge_methods_supported":["S256"],
            "grant_types_supported":["authorization_code"],"scopes_supported":["a"]}"#;
        let good = provider(authority(whole), &settings());
        assert_eq!(good.missing, [""; 0]);
        assert_eq!(
            (good.ways_in, good.grants),
            (vec!["registration"], vec!["authorization_code".into()])
        );
        assert_eq!((good.scopes, good.has_pkce), (vec!["a".to_owned()], true));
    }

    #[test]
    fn a_client_of_our_own_needs_no_registration() {
        let known = OAuthSettings { client_id: Some("me".into()), ..settings() };
        let found = provider(authority(r#"{"token_endpoint":"https://as/t"}"#), &known);
        assert_eq!(found.ways_in, ["configured"]);
        assert!(!found.missing.contains(&"a way to register a client"));
        let device = OAuthSettings { grant: Grant::DeviceCode, ..known };
        let found = provider(authority(r#"{"token_endpoint":"https://as/t"}"#), &device);
        assert_eq!(found.missing, ["an endpoint for logins on other devices"]);
    }
}
