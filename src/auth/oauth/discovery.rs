//! Finds the authorization server of a resource, and believes only what fits together.

use tracing::debug;
use url::Url;

use super::address;
use super::challenge::Challenge;
use super::metadata::{Issuer, Resource, issuer_places, resource_places};
use super::web::Web;
use crate::error::{Error, Kind};
use crate::secret::shown;

/// Who gives out tokens for a server.
#[derive(Clone, Debug)]
pub(super) struct Authority {
    pub(super) metadata: Issuer,
    /// Its name, as it was asked for.
    pub(super) issuer: String,
    /// What tokens are for; `None` where the server is of 2025-03-26 and knows no such thing.
    pub(super) resource: Option<String>,
    /// The scopes that the resource names, if it does.
    pub(super) scopes: Option<Vec<String>>,
    /// Nothing says that it is one: it is tried whether it is.
    pub(super) is_guess: bool,
}

/// Finds the authority for `server`; `known` is the one that was used before. `None`: nothing shows
/// that the server knows of logins at all.
pub(super) async fn find(
    web: &Web,
    server: &Url,
    challenge: Option<&Challenge>,
    known: Option<&str>,
) -> Result<Option<Authority>, Error> {
    let Some(resource) = describe(web, server, challenge).await? else {
        return Ok(of_its_own(web, server, challenge.is_some()).await);
    };
    resource.check(server)?;
    let named = resource.authorization_servers.iter();
    let issuer = named
        .clone()
        .find(|issuer| Some(issuer.as_str()) == known)
        .or_else(|| resource.authorization_servers.first());
    let Some(issuer) = issuer else {
        let message = format!("{} names no authorization server", shown(server));
        return Err(Error::new(Kind::Login, message).not_delivered());
    };
    let place = address::checked(issuer, "its authorization server", server)?;
    for url in issuer_places(&place) {
        if let Some(metadata) = web.document::<Issuer>(&url).await {
            metadata.check(issuer)?;
            return Ok(Some(Authority {
                metadata,
                issuer: issuer.clone(),
                resource: Some(resource.resource.unwrap_or_else(|| canonical(server))),
                scopes: resource.scopes_supported,
                is_guess: false,
            }));
        }
    }
    let message = format!("The authorization server {} says nothing of itself", shown(&place));
    Err(Error::new(Kind::Login, message).not_delivered())
}

/// What the resource says of itself: where the challenge points, else where it usually stands.
async fn describe(
    web: &Web,
    server: &Url,
    challenge: Option<&Challenge>,
) -> Result<Option<Resource>, Error> {
    let mut places = resource_places(server);
    if let Some(named) = challenge.and_then(|challenge| challenge.resource_metadata.as_ref()) {
        places.insert(0, address::checked(named, "what it is", server)?);
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
async fn of_its_own(web: &Web, server: &Url, asks: bool) -> Option<Authority> {
    let mut root = server.clone();
    root.set_path("/");
    root.set_query(None);
    let issuer = root.as_str().trim_end_matches('/').to_owned();
    let mut metadata = None;
    for place in issuer_places(&root) {
        metadata = web.document::<Issuer>(&place).await;
        if metadata.is_some() {
            break;
        }
    }
    let is_guess = metadata.is_none();
    if is_guess && asks {
        debug!("no metadata at all: the endpoints of 2025-03-26 are tried");
        metadata = Some(Issuer::by_default(&root));
    }
    Some(Authority { metadata: metadata?, issuer, resource: None, scopes: None, is_guess })
}

/// The name of the resource, as RFC 8707 wants it.
fn canonical(server: &Url) -> String {
    let mut url = server.clone();
    url.set_fragment(None);
    // Both fail only for URLs without a host, which have neither.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    match url.path() {
        "/" => url.as_str().trim_end_matches('/').to_owned(),
        _ => url.to_string(),
    }
}
