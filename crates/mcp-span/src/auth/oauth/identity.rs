//! Who we are to an authorization server: configured, a document of ours, or registered on the spot.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::callback_port::CallbackPort;
use super::flow::{LoginRun, Plan};
use super::kept::{Holder, StoredLogin};
use super::metadata::Issuer;
use super::scope::Scopes;
use super::words::{login_error, said};
use super::{CallbackPlace, OAuth, OAuthSettings};
use crate::error::Error;
use crate::secret::{self, Secret, shown};

/// A client in the sense of OAuth, in the form in which it is stored.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct ClientIdentity {
    #[serde(rename = "client_id")]
    pub(super) id: String,
    #[serde(rename = "client_secret", serialize_with = "secret::revealed")]
    pub(super) secret: Option<Secret>,
    #[serde(default, rename = "client_proof")]
    pub(super) proof: ClientAuthentication,
    /// The port of the redirect address that it was registered with on the spot.
    #[serde(rename = "client_port")]
    pub(super) port: Option<u16>,
    /// The same for what stands around the port.
    #[serde(rename = "client_place")]
    pub(super) place: Option<CallbackPlace>,
    /// The scopes that it was registered for, if any were said.
    #[serde(rename = "client_scope")]
    pub(super) scope: Option<String>,
    /// It cannot do all that we can.
    #[serde(rename = "client_only")]
    pub(super) only: Option<Only>,
}

impl ClientIdentity {
    /// A client that was not registered on the spot.
    fn new(id: impl Into<String>, secret: Option<Secret>, proof: ClientAuthentication) -> Self {
        Self { id: id.into(), secret, proof, port: None, place: None, scope: None, only: None }
    }

    /// Whether it may ask for these scopes, as far as that is known.
    pub(super) fn may_ask_for(&self, scope: Option<&str>) -> bool {
        let registered = self.scope.as_deref().map(Scopes::of);
        registered.is_none_or(|registered| scope.is_none_or(|s| registered.has(&Scopes::of(s))))
    }
}

/// What a client is good for, if not for everything.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Only {
    /// Logins on other devices: it has no redirect address.
    Devices,
    /// Renewing the token that it came with: its redirect address is that of another program.
    Renewal,
}

/// How a client proves at the token endpoint who it is, by the names of RFC 7591.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub enum ClientAuthentication {
    /// By nothing but its id.
    #[default]
    #[serde(rename = "none")]
    Nothing,
    /// Id and secret in the header.
    #[serde(rename = "client_secret_basic")]
    Basic,
    /// Id and secret in the form.
    #[serde(rename = "client_secret_post")]
    Post,
    /// A token that is signed with our key.
    #[serde(rename = "private_key_jwt")]
    Signed,
}

impl ClientAuthentication {
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::deserialize(Value::from(name)).ok()
    }

    /// Whether the server takes it, as far as it says what it takes.
    pub(super) fn is_offered(self, issuer: &Issuer) -> bool {
        let offered = issuer.token_endpoint_auth_methods_supported.as_deref();
        offered.is_none_or(|names| names.iter().any(|name| Self::named(name) == Some(self)))
    }

    /// For a client with a secret: what the server offers, and the header where it says nothing.
    fn with_secret(issuer: &Issuer) -> Self {
        let ways = [Self::Basic, Self::Post];
        ways.into_iter().find(|way| way.is_offered(issuer)).unwrap_or(Self::Basic)
    }
}

/// The identity that was configured, if any.
pub(super) fn configured(settings: &OAuthSettings, issuer: &Issuer) -> Option<ClientIdentity> {
    let id = settings.client_id.clone()?;
    let secret = settings.client_secret.clone();
    let proof = match (&settings.private_key, &secret) {
        (Some(_), _) => ClientAuthentication::Signed,
        (None, Some(_)) => {
            settings.given.style.unwrap_or_else(|| ClientAuthentication::with_secret(issuer))
        }
        (None, None) => ClientAuthentication::Nothing,
    };
    Some(ClientIdentity::new(id, secret, proof))
}

/// Whether `id` is that of a client in the settings, rather than of one registered on the spot.
pub(super) fn is_configured(settings: &OAuthSettings, id: &str) -> bool {
    settings.client_id.as_deref() == Some(id)
        || settings.client_metadata_url.as_ref().is_some_and(|url| url.as_str() == id)
}

/// The client that the token in `kept` was given to: only that one can renew or revoke it. `None` if
/// the settings have changed since.
pub(super) fn of_token(settings: &OAuthSettings, kept: &StoredLogin) -> Option<ClientIdentity> {
    let Some(Holder { id, proof }) = kept.holder.clone() else { return kept.identity.clone() };
    if !is_configured(settings, &id) {
        let registered = kept.identity.clone().filter(|identity| identity.id == id);
        return registered.filter(|_| settings.client_id.is_none());
    }
    let secret = settings.client_secret.clone().filter(|_| settings.client_id.is_some());
    let proof = match (&settings.private_key, &secret) {
        (Some(_), _) if settings.client_id.is_some() => ClientAuthentication::Signed,
        (_, None) => ClientAuthentication::Nothing,
        (_, Some(_)) if proof == ClientAuthentication::Post => ClientAuthentication::Post,
        (_, Some(_)) => ClientAuthentication::Basic,
    };
    Some(ClientIdentity::new(id, secret, proof))
}

impl LoginRun<'_> {
    /// Who we are to an authorization server that does not know us yet, in the order of the
    /// specification. A login on another device has no way `back`.
    pub(super) async fn choose_identity(
        &self,
        back: Option<&CallbackPort>,
    ) -> Result<ClientIdentity, Error> {
        let Self { oauth: OAuth { server, settings, .. }, plan: Plan { authority, .. } } = self;
        let issuer = &authority.metadata;
        if let Some(identity) = configured(settings, issuer) {
            return Ok(identity);
        }
        if let Some(document) = &settings.client_metadata_url
            && issuer.client_id_metadata_document_supported
        {
            return Ok(ClientIdentity::new(document.as_str(), None, ClientAuthentication::Nothing));
        }
        if let Some(place) = &issuer.registration_endpoint {
            let place = settings.given.checked(place, "registration", server)?;
            return self.register(&place, back).await;
        }
        let name = issuer.issuer.as_deref().map_or("its authorization server".to_owned(), said);
        let message =
            format!("{} wants a login, and {name} knows no client of ours", shown(server));
        let with = match back {
            None => "for logins on other devices".to_owned(),
            Some(back) if settings.callback_port.is_some() => {
                format!("with the redirect address {}", back.redirect_uri())
            }
            // Each login has another port.
            Some(CallbackPort { place: CallbackPlace { host, path }, .. }) => format!(
                "with the redirect address http://{host}{path} on any port (or fix one with \
                 --oauth-callback-port, and register the address with it)"
            ),
        };
        let hint = format!(
            "Register a native application there, {with}, and give its id with --oauth-client-id"
        );
        let error = login_error(message).hint(hint);
        Err(authority.about_registration().into_iter().fold(error, Error::because))
    }
}

pub(super) fn identity(
    id: &str,
    answer: &Value,
    wanted: ClientAuthentication,
    issuer: &Issuer,
) -> ClientIdentity {
    let secret = answer["client_secret"].as_str().filter(|text| !text.is_empty()).map(Secret::new);
    let named = answer["token_endpoint_auth_method"].as_str().and_then(ClientAuthentication::named);
    let usual = match &secret {
        Some(_) if wanted == ClientAuthentication::Nothing => {
            ClientAuthentication::with_secret(issuer)
        }
        _ => wanted,
    };
    ClientIdentity::new(id, secret, named.unwrap_or(usual))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn offering(names: &[&str]) -> Issuer {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Issuer { token_endpoint_auth_methods_supported: Some(names), ..Issuer::default() }
    }

    #[test]
    fn a_secret_goes_the_way_that_the_server_offers() {
        assert_eq!(
            ClientAuthentication::with_secret(&Issuer::default()),
            ClientAuthentication::Basic
        );
        assert_eq!(
            ClientAuthentication::with_secret(&offering(&["client_secret_post"])),
            ClientAuthentication::Post
        );
        let both = offering(&["client_secret_post", "client_secret_basic"]);
        assert_eq!(ClientAuthentication::with_secret(&both), ClientAuthentication::Basic);
        assert_eq!(
            ClientAuthentication::with_secret(&offering(&["private_key_jwt"])),
            ClientAuthentication::Basic
        );
    }

    #[test]
    fn a_client_asks_for_what_it_was_registered_for() {
        let with = |scope: Option<&str>| {
            let scope = scope.map(str::to_owned);
            ClientIdentity {
                scope,
                ..identity("i", &Value::Null, ClientAuthentication::Nothing, &Issuer::default())
            }
        };
        assert!(with(Some("a b")).may_ask_for(Some("b")) && with(Some("a")).may_ask_for(None));
        assert!(with(None).may_ask_for(Some("a")), "nothing was said");
        assert!(!with(Some("a")).may_ask_for(Some("a b")));
    }

    #[test]
    fn a_registration_says_how_to_prove_it() {
        let read = |answer: Value| {
            identity("i", &answer, ClientAuthentication::Nothing, &Issuer::default()).proof
        };
        assert_eq!(read(json!({})), ClientAuthentication::Nothing);
        assert_eq!(read(json!({"client_secret": "s"})), ClientAuthentication::Basic);
        let named =
            json!({"client_secret": "s", "token_endpoint_auth_method": "client_secret_post"});
        assert_eq!(read(named), ClientAuthentication::Post);
    }

    #[test]
    fn only_the_client_that_has_a_token_renews_it() {
        let registered = ClientIdentity {
            port: Some(1),
            ..ClientIdentity::new("r", None, ClientAuthentication::Nothing)
        };
        let kept = |holder: &str| StoredLogin {
            identity: Some(registered.clone()),
            holder: Some(Holder { id: holder.into(), proof: ClientAuthentication::Post }),
            ..StoredLogin::default()
        };
        let plain = crate::auth::oauth::tests::settings();
        let by_hand = OAuthSettings {
            client_id: Some("c".into()),
            client_secret: Some(Secret::new("s")),
            ..plain.clone()
        };
        assert_eq!(of_token(&plain, &kept("r")), Some(registered.clone()));
        assert_eq!(of_token(&plain, &kept("c")), None, "it is configured no more");
        assert_eq!(of_token(&by_hand, &kept("r")), None, "another is configured");
        let used = of_token(&by_hand, &kept("c")).unwrap();
        assert_eq!((used.proof, used.secret.unwrap().reveal()), (ClientAuthentication::Post, "s"));
        let old = StoredLogin { holder: None, ..kept("r") };
        assert_eq!(of_token(&plain, &old), Some(registered.clone()));
    }
}
