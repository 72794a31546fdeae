//! Finds the authorization server of a resource, and believes only what fits together.

use tracing::debug;
use url::Url;

use super::address;
use super::authority::FoundAuthority;
use super::challenge::Challenge;
use super::metadata::{Issuer, Resource, at_path, is_same_issuer, issuer_places, resource_places};
use super::web::Web;
use super::words::{login_error, said};
use crate::error::Error;
use crate::limits;
use crate::secret::shown;

/// Finds the authority for `server`; `known` is the one that was used before, `pinned` the only one
/// that may be used. `None`: nothing shows that the server knows of logins at all.
pub(super) async fn find(
    web: &Web,
    server: &Url,
    challenge: Option<&Challenge>,
    known: Option<&str>,
    pinned: Option<&str>,
) -> Result<Option<FoundAuthority>, Error> {
    web.take_tried();
    let described = describe(web, server, challenge).await?;
    if let Some(issuer) = pinned {
        return at(web, server, issuer, described).await.map(Some);
    }
    let Some(resource) = described else {
        return of_its_own(web, server, challenge.is_some()).await;
    };
    resource.check(server)?;
    let mut issuers: Vec<&String> = resource.authorization_servers.iter().collect();
    // The one that was used before first; the others in their order.
    if let Some(at) = issuers.iter().position(|issuer| Some(issuer.as_str()) == known) {
        issuers[..=at].rotate_right(1);
    }
    let mut silent = None;
    for issuer in issuers.into_iter().take(limits::ISSUERS) {
        let place = address::checked(issuer, "its authorization server", server)?;
        match about(web, &place).await {
            Ok(metadata) => {
                metadata.check(issuer)?;
                return Ok(Some(found(metadata, issuer, &resource, Some(canonical(server)))));
            }
            Err(error) => silent = silent.or(Some(error)),
        }
    }
    let none = || login_error(format!("{} names no authorization server", shown(server)));
    Err(silent.unwrap_or_else(none))
}

/// The issuer that the user has named, if the server names no other.
async fn at(
    web: &Web,
    server: &Url,
    issuer: &str,
    described: Option<Resource>,
) -> Result<FoundAuthority, Error> {
    let place = address::of_user(issuer)?;
    // A server that is its own provider and says nothing of itself knows of no resources.
    let is_own = described.is_none() && place.origin() == server.origin();
    let described = described.unwrap_or_default();
    described.check(server)?;
    let named = &described.authorization_servers;
    if !named.is_empty() && !named.iter().any(|named| is_same_issuer(named, issuer)) {
        let names: Vec<String> =
            named.iter().take(limits::ISSUERS).map(|name| said(name)).collect();
        let message = format!(
            "{} names {} as its authorization server, which is not the one of --oauth-issuer: \
             nothing is sent there",
            shown(server),
            names.join(", ")
        );
        let hint = "If the server has moved, name the new one with --oauth-issuer";
        return Err(login_error(message).hint(hint));
    }
    let metadata = about(web, &place).await?;
    metadata.check(issuer)?;
    Ok(found(metadata, issuer, &described, (!is_own).then(|| canonical(server))))
}

/// `unnamed` is what tokens are for if the resource does not say it.
fn found(
    metadata: Issuer,
    issuer: &str,
    resource: &Resource,
    unnamed: Option<String>,
) -> FoundAuthority {
    let (scopes, resource) = (resource.scopes_supported.clone(), resource.resource.clone());
    let (issuer, resource) = (issuer.to_owned(), resource.or(unnamed));
    FoundAuthority { metadata, issuer, resource, scopes, is_guess: false }
}

/// What an authorization server says of itself.
async fn about(web: &Web, issuer: &Url) -> Result<Issuer, Error> {
    let mut why = None;
    for url in issuer_places(issuer) {
        match web.fetch_metadata::<Issuer>(&url).await {
            Ok(metadata) => return Ok(metadata),
            Err(reason) => why = why.or(reason),
        }
    }
    let hint = why.as_ref().and_then(|why: &Error| why.hint.clone());
    let server = shown(issuer);
    let error = login_error(format!("The authorization server {server} says nothing of itself"));
    Err(Error { hint, ..why.into_iter().fold(error, Error::because) })
}

/// What the resource says of itself: where the challenge points, else where it usually stands.
async fn describe(
    web: &Web,
    server: &Url,
    challenge: Option<&Challenge>,
) -> Result<Option<Resource>, Error> {
    let mut places = resource_places(server);
    if let Some(named) = challenge.and_then(|challenge| challenge.resource_metadata.as_ref()) {
        // What is no address of the web is no reason not to look where it usually stands; one that
        // leads us astray is.
        let is_of_web = |url: &Url| matches!(url.scheme(), "http" | "https");
        if Url::parse(named).is_ok_and(|url| is_of_web(&url)) {
            places.insert(0, address::checked(named, "what it is", server)?);
        } else {
            debug!("the challenge names a place of metadata that cannot be used");
        }
    }
    for place in places {
        let found = web.fetch_metadata::<Resource>(&place).await.ok();
        if let Some(found) = found.filter(|found| !found.authorization_servers.is_empty()) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// 2025-03-26: the server is its own authorization server. Where not even metadata says so, only a
/// server that `asks` for a token is believed to be one.
async fn of_its_own(web: &Web, server: &Url, asks: bool) -> Result<Option<FoundAuthority>, Error> {
    let root = at_path(server, "/");
    let issuer = root.origin().ascii_serialization();
    let own = |metadata| found(metadata, &issuer, &Resource::default(), None);
    let Ok(metadata) = about(web, &root).await else {
        debug!("no metadata at all: the endpoints of the first revision with logins may be there");
        return Ok(
            asks.then(|| FoundAuthority { is_guess: true, ..own(Issuer::by_default(&root)) })
        );
    };
    if let Some(named) = &metadata.issuer {
        if is_same_issuer(named, &issuer) {
            return Ok(Some(own(metadata)));
        }
        if let Some(verified) = by_name(web, server, named).await {
            return Ok(Some(verified));
        }
    }
    metadata.check_own(server)?;
    // A name of another origin that nobody confirms says nothing about where a code came from.
    let is_own =
        |name: &String| Url::parse(name).is_ok_and(|name| name.origin() == server.origin());
    let named = metadata.issuer.clone().filter(is_own);
    Ok(Some(own(Issuer { issuer: named, ..metadata })))
}

/// What the issuer of this name says of itself, if it confirms the name.
async fn by_name(web: &Web, server: &Url, issuer: &str) -> Option<FoundAuthority> {
    let place = address::checked(issuer, "its authorization server", server).ok()?;
    let metadata = about(web, &place).await.ok()?;
    metadata.check(issuer).ok()?;
    // That revision has no resources, but a token of somebody else must not be good for more than
    // this server.
    Some(found(metadata, issuer, &Resource::default(), Some(canonical(server))))
}

/// The name of the resource, as RFC 8707 wants it: without the query, in which some keep a secret.
fn canonical(server: &Url) -> String {
    let url = at_path(server, server.path());
    match url.path() {
        "/" => url.as_str().trim_end_matches('/').to_owned(),
        _ => url.to_string(),
    }
}
