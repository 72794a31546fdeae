//! Fuzz targets for what servers say about logins: challenges, and metadata.

use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, HeaderValue};
use url::Url;

use super::Grant;
use super::authority::{Authority, FoundAuthority};
use super::challenge::Challenge;
use super::given::Given;
use super::metadata::{Issuer, Resource, covers, is_same_issuer, issuer_places, resource_places};
use super::site;

/// A challenge is read, and read again from what was read; each line is a header.
pub fn challenges(data: &[u8]) {
    let mut headers = HeaderMap::new();
    for line in data.split(|byte| *byte == b'\n') {
        if let Ok(value) = HeaderValue::from_bytes(line) {
            headers.append(WWW_AUTHENTICATE, value);
        }
    }
    let Some(challenge) = Challenge::of(&headers) else { return };
    let quoted = |name: &str, value: &Option<String>| {
        let value = value.as_ref()?.replace('\\', "\\\\").replace('"', "\\\"");
        Some(format!("{name}=\"{value}\""))
    };
    let parameters = [
        quoted("resource_metadata", &challenge.resource_metadata),
        quoted("scope", &challenge.scope),
        quoted("error", &challenge.error),
    ];
    let parameters: Vec<String> = parameters.into_iter().flatten().collect();
    let text = format!("Basic realm=\"a\\\"b\", Bearer {}", parameters.join(", "));
    let Ok(value) = HeaderValue::from_str(&text) else { return };
    let again = Challenge::of(&HeaderMap::from_iter([(WWW_AUTHENTICATE, value)]));
    assert_eq!(again, Some(challenge), "{text}");
}

/// Metadata that is accepted is about the server that was asked, and its endpoints belong together.
///
/// The first line is the address of the server, all else the metadata of both sorts.
pub fn metadata(data: &[u8]) {
    let Some(end) = data.iter().position(|byte| *byte == b'\n') else { return };
    let (server, json) = data.split_at(end);
    let Some(server) = str::from_utf8(server).ok().and_then(|text| Url::parse(text).ok()) else {
        return;
    };
    if !matches!(server.scheme(), "http" | "https") {
        return;
    }
    if let Ok(resource) = serde_json::from_slice::<Resource>(json) {
        check_resource(&resource, &server);
    }
    if let Ok(issuer) = serde_json::from_slice::<Issuer>(json) {
        check_issuer(&issuer, &server);
    }
}

fn check_resource(resource: &Resource, server: &Url) {
    for place in resource_places(server) {
        assert_eq!(place.origin(), server.origin());
    }
    let named = resource.resource.as_deref().and_then(|text| Url::parse(text).ok());
    if resource.check(server).is_ok()
        && let Some(named) = named
    {
        assert_eq!(named.origin(), server.origin());
        assert!(covers(&named, server));
    }
    for issuer in resource.authorization_servers.iter().filter_map(|text| Url::parse(text).ok()) {
        for place in issuer_places(&issuer) {
            assert_eq!((place.scheme(), place.host()), (issuer.scheme(), issuer.host()));
        }
    }
}

fn check_issuer(issuer: &Issuer, server: &Url) {
    let json = serde_json::to_vec(issuer).unwrap_or_default();
    assert_eq!(serde_json::from_slice::<Issuer>(&json).ok().as_ref(), Some(issuer));
    let _ = (issuer.check_pkce(), issuer.offers_scope("a"));
    if let Some(name) = &issuer.issuer {
        assert!(is_same_issuer(name, name) && issuer.check(name).is_ok());
    }
    if issuer.check_own(server).is_ok()
        && let Some(token) = &issuer.token_endpoint
    {
        assert_eq!(Url::parse(token).map(|url| url.origin()), Ok(server.origin()));
    }
    let name = issuer.issuer.clone().unwrap_or_default();
    for grant in [Grant::Code, Grant::DeviceCode, Grant::ClientCredentials] {
        let found = FoundAuthority {
            metadata: issuer.clone(),
            issuer: name.clone(),
            resource: None,
            scopes: None,
            is_guess: false,
        };
        if let Ok(authority) = found.check(grant, &Given::default(), server) {
            check_authority(&authority, grant, server);
        }
    }
}

/// A client is registered where people log in, and a token is revoked where it came from.
fn check_authority(authority: &Authority, grant: Grant, server: &Url) {
    let parsed = |text: &Option<String>| text.as_deref().and_then(|text| Url::parse(text).ok());
    let metadata = &authority.metadata;
    let entry = match grant {
        Grant::Code => parsed(&metadata.authorization_endpoint),
        Grant::DeviceCode => parsed(&metadata.device_authorization_endpoint),
        Grant::ClientCredentials => None,
    };
    let token = parsed(&metadata.token_endpoint);
    let belongs = |endpoint: &Option<String>, owner: &Option<Url>| {
        // One that cannot be used at all stays, and is refused when it is needed.
        let checked = |text: &String| Given::default().checked(text, "x", server).ok();
        let endpoint = endpoint.as_ref().and_then(checked);
        endpoint.zip(owner.as_ref()).is_none_or(|(endpoint, owner)| site::is_same(&endpoint, owner))
    };
    assert!(belongs(&metadata.registration_endpoint, &entry), "{metadata:?}");
    assert!(belongs(&metadata.revocation_endpoint, &token), "{metadata:?}");
}
