//! Finds the authorization server of a resource, and believes only what fits together.

use tracing::debug;
use url::Url;

use super::address;
use super::authority::Found;
use super::challenge::Challenge;
use super::metadata::{Issuer, Resource, is_same_root, issuer_places, resource_places};
use super::web::Web;
use crate::error::{Error, Kind};
use crate::limits;
use crate::secret::shown;

/// Finds the authority for `server`; `known` is the one that was used before. `None`: nothing shows
/// that the server knows of logins at all.
pub(super) async fn find(
    web: &Web,
    server: &Url,
    challenge: Option<&Challenge>,
    known: Option<&str>,
) -> Result<Option<Found>, Error> {
    let Some(resource) = describe(web, server, challenge).await? else {
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
        let Some(metadata) = about(web, &place).await else {
            silent.get_or_insert(place);
            continue;
        };
        metadata.check(issuer)?;
        return Ok(Some(Found {
            metadata,
            issuer: issuer.clone(),
            resource: Some(resource.resource.unwrap_or_else(|| canonical(server))),
            scopes: resource.scopes_supported,
            is_guess: false,
        }));
    }
    let message = match silent {
        Some(place) => {
            format!("The authorization server {} says nothing of itself", shown(&place))
        }
        None => format!("{} names no authorization server", shown(server)),
    };
    Err(Error::new(Kind::Login, message).not_delivered())
}

/// What an authorization server says of itself.
async fn about(web: &Web, issuer: &Url) -> Option<Issuer> {
    for url in issuer_places(issuer) {
        if let Some(metadata) = web.document::<Issuer>(&url).await {
            return Some(metadata);
        }
    }
    None
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
        let found = web.document::<Resource>(&place).await;
        if let Some(found) = found.filter(|found| !found.authorization_servers.is_empty()) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// 2025-03-26: the server is its own authorization server. Where not even metadata says so, only a
/// server that `asks` for a token is believed to be one.
async fn of_its_own(web: &Web, server: &Url, asks: bool) -> Result<Option<Found>, Error> {
    let mut root = server.clone();
    root.set_path("/");
    root.set_query(None);
    let issuer = root.origin().ascii_serialization();
    let found = |metadata, is_guess| {
        let issuer = issuer.clone();
        Found { metadata, issuer, resource: None, scopes: None, is_guess }
    };
    let Some(metadata) = about(web, &root).await else {
        debug!("no metadata at all: the endpoints of the first revision with logins may be there");
        return Ok(asks.then(|| found(Issuer::by_default(&root), true)));
    };
    match &metadata.issuer {
        Some(named) if *named == issuer || is_same_root(named, &issuer) => {
            Ok(Some(found(metadata, false)))
        }
        named => match by_name(web, server, named.as_deref()).await {
            Some(verified) => Ok(Some(verified)),
            None => {
                metadata.check_own(server)?;
                // A name of another origin that nobody confirms says nothing about where a code
                // came from.
                let is_own = |name: &String| {
                    Url::parse(name).is_ok_and(|name| name.origin() == server.origin())
                };
                let issuer = metadata.issuer.clone().filter(is_own);
                Ok(Some(found(Issuer { issuer, ..metadata }, false)))
            }
        },
    }
}

/// What the issuer of this name says of itself, if it confirms the name.
async fn by_name(web: &Web, server: &Url, issuer: Option<&str>) -> Option<Found> {
    let issuer = issuer?.to_owned();
    let place = address::checked(&issuer, "its authorization server", server).ok()?;
    let metadata = about(web, &place).await?;
    metadata.check(&issuer).ok()?;
    // That revision has no resources, but a token of somebody else must not be good for more than
    // this server.
    let resource = Some(canonical(server));
    Some(Found { metadata, issuer, resource, scopes: None, is_guess: false })
}

/// The name of the resource, as RFC 8707 wants it: without the query, in which some keep a secret.
fn canonical(server: &Url) -> String {
    let mut url = server.clone();
    url.set_fragment(None);
    url.set_query(None);
    // Both fail only for URLs without a host, which have neither.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    match url.path() {
        "/" => url.as_str().trim_end_matches('/').to_owned(),
        _ => url.to_string(),
    }
}
