//! Finds the authorization server of a resource, and believes only what fits together.

use serde::{Deserialize, Serialize};
use tracing::debug;
use url::Url;

use super::address;
use super::challenge::Challenge;
use super::metadata::{Issuer, Resource, issuer_places, resource_places};
use super::web::Web;
use crate::error::{Error, Kind};
use crate::limits;
use crate::secret::shown;

/// Who gives out tokens for a server.
#[derive(Clone, Debug, Deserialize, Serialize)]
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
        return Ok(Some(Authority {
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
async fn of_its_own(web: &Web, server: &Url, asks: bool) -> Option<Authority> {
    let mut root = server.clone();
    root.set_path("/");
    root.set_query(None);
    let issuer = root.as_str().trim_end_matches('/').to_owned();
    let mut metadata = about(web, &root).await;
    let is_guess = metadata.is_none();
    if is_guess && asks {
        debug!("no metadata at all: the endpoints of the first revision with logins are tried");
        metadata = Some(Issuer::by_default(&root));
    }
    // Its issuer may have another name: well-known servers of that revision stand behind others.
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
