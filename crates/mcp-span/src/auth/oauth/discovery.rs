//! Finds the authorization server of a resource, and believes only what fits together.

use tokio::time::timeout;
use tracing::debug;
use url::Url;

use super::authority::{Authority, FoundAuthority};
use super::challenge::Challenge;
use super::metadata::{
    Issuer, Resource, at_path, canonical, is_same_issuer, issuer_places, resource_places,
};
use super::web::Web;
use super::words::{login_error, said};
use super::{OAuth, OAuthSettings, address};
use crate::error::Error;
use crate::limits;
use crate::secret::shown;

impl Authority {
    /// Who gives out tokens: given, or found. `known` is the one that was used before. `None`: nothing
    /// shows that the server knows of logins at all.
    pub(super) async fn of(
        oauth: &OAuth,
        challenge: Option<&Challenge>,
        known: Option<&str>,
    ) -> Result<Option<Self>, Error> {
        let OAuth { server, settings, .. } = oauth;
        let OAuthSettings { given, grant, .. } = settings;
        let finding = timeout(limits::DISCOVERY_WAIT, oauth.find_authority(challenge, known));
        let found = finding.await.unwrap_or_else(|_| {
            let server = shown(server);
            Err(login_error(format!("{server} does not say in time who gives out tokens")))
        });
        let found = match (found, given.authority()) {
            (Ok(None), given) => given,
            // Where nothing is found, what is given may be enough.
            (Err(_), Some(alone)) if given.issuer.is_none() => Some(alone),
            (found, _) => found?,
        };
        found.map(|found| given.amended(found).check(*grant, given, server)).transpose()
    }
}

impl OAuth {
    async fn find_authority(
        &self,
        challenge: Option<&Challenge>,
        known: Option<&str>,
    ) -> Result<Option<FoundAuthority>, Error> {
        let Self { server, web, settings, .. } = self;
        if settings.given.is_enough(settings.grant) {
            return Ok(None);
        }
        let pinned = settings.given.issuer.as_deref();
        web.take_tried();
        let mut resource = match (self.described(challenge).await?, pinned) {
            (Some(described), _) => described,
            // A server that is its own provider and says nothing of itself knows of no resources.
            (None, Some(pinned)) => {
                let is_own = |issuer: Url| issuer.origin() == server.origin();
                let is_other = !Url::parse(pinned).is_ok_and(is_own);
                Resource { resource: is_other.then(|| canonical(server)), ..Resource::default() }
            }
            (None, None) => return self.own_authority(challenge.is_some()).await,
        };
        resource.check(server)?;
        let mut issuers = std::mem::take(&mut resource.authorization_servers);
        if let Some(pinned) = pinned {
            check_pinned(&issuers, pinned, server)?;
            issuers = vec![pinned.to_owned()];
        }
        // The one that was used before first; the others in their order.
        issuers.sort_by_key(|issuer| Some(issuer.as_str()) != known);
        let mut silent = None;
        for issuer in issuers.into_iter().take(limits::ISSUERS) {
            let place = match pinned {
                Some(_) => address::of_user(&issuer)?,
                None => address::checked(&issuer, "its authorization server", server)?,
            };
            match about(web, &place).await {
                Ok(metadata) => {
                    metadata.check(&issuer)?;
                    return Ok(Some(found(metadata, &issuer, resource)));
                }
                Err(error) => silent = silent.or(Some(error)),
            }
        }
        let none = || login_error(format!("{} names no authorization server", shown(server)));
        Err(silent.unwrap_or_else(none))
    }

    /// What the resource says of itself: where the challenge points, else where it usually stands.
    async fn described(&self, challenge: Option<&Challenge>) -> Result<Option<Resource>, Error> {
        let mut places = resource_places(&self.server);
        if let Some(named) = challenge.and_then(|challenge| challenge.resource_metadata.as_ref()) {
            // What is no address of the web is no reason not to look where it usually stands; one
            // that leads us astray is.
            let is_of_web = |url: &Url| matches!(url.scheme(), "http" | "https");
            if Url::parse(named).is_ok_and(|url| is_of_web(&url)) {
                places.insert(0, address::checked(named, "what it is", &self.server)?);
            } else {
                debug!("the challenge names a place of metadata that cannot be used");
            }
        }
        for place in places {
            let found = self.web.fetch_metadata::<Resource>(&place).await.ok();
            if let Some(mut found) = found.filter(|found| !found.authorization_servers.is_empty()) {
                found.resource.get_or_insert_with(|| canonical(&self.server));
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// 2025-03-26: the server is its own authorization server. Where not even metadata says so, only
    /// a server that `asks` for a token is believed to be one.
    async fn own_authority(&self, asks: bool) -> Result<Option<FoundAuthority>, Error> {
        let Self { server, web, .. } = self;
        let root = at_path(server, "/");
        let issuer = root.origin().ascii_serialization();
        let own = |metadata| found(metadata, &issuer, Resource::default());
        let Ok(metadata) = about(web, &root).await else {
            debug!(
                "no metadata at all: the endpoints of the first revision with logins may be there"
            );
            let guess = || FoundAuthority { is_guess: true, ..own(Issuer::by_default(&root)) };
            return Ok(asks.then(guess));
        };
        if let Some(named) = &metadata.issuer {
            if is_same_issuer(named, &issuer) {
                return Ok(Some(own(metadata)));
            }
            if let Some(verified) = self.confirmed_authority(named).await {
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
    async fn confirmed_authority(&self, issuer: &str) -> Option<FoundAuthority> {
        let place = address::checked(issuer, "its authorization server", &self.server).ok()?;
        let metadata = about(&self.web, &place).await.ok()?;
        metadata.check(issuer).ok()?;
        // That revision has no resources, but a token of somebody else must not be good for more
        // than this server.
        let resource = Some(canonical(&self.server));
        Some(found(metadata, issuer, Resource { resource, ..Resource::default() }))
    }
}

fn found(metadata: Issuer, issuer: &str, resource: Resource) -> FoundAuthority {
    let Resource { resource, scopes_supported: scopes, .. } = resource;
    FoundAuthority { metadata, issuer: issuer.to_owned(), resource, scopes, is_guess: false }
}

/// The issuer that the user has named is one that the server names, if it names any.
fn check_pinned(named: &[String], pinned: &str, server: &Url) -> Result<(), Error> {
    if named.is_empty() || named.iter().any(|named| is_same_issuer(named, pinned)) {
        return Ok(());
    }
    let names: Vec<String> = named.iter().take(limits::ISSUERS).map(|name| said(name)).collect();
    let message = format!(
        "{} names {} as its authorization server, which is not the one of --oauth-issuer: nothing \
         is sent there",
        shown(server),
        names.join(", ")
    );
    let hint = "If the server has moved, name the new one with --oauth-issuer";
    Err(login_error(message).hint(hint))
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
