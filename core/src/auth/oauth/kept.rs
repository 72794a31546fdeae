//! What is kept of a login between runs, and the form in which it is stored.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

use super::CallbackPlace;
use super::address::Reach;
use super::identity::{Identity, Only, Proof};
use super::token::{Stored, Token};
use crate::secret::Secret;

/// What is kept between runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    /// The user's name for the account, for lists of all of them.
    pub(super) profile: Option<String>,
    /// Whose client and token they are; those of another authorization server are no good.
    pub(super) issuer: Option<String>,
    /// A client that was registered on the spot; never one that is configured.
    pub(super) identity: Option<Identity>,
    /// The client that the token was given to, where that is known.
    pub(super) holder: Option<Holder>,
    pub(super) token: Option<Token>,
    pub(super) token_endpoint: Option<String>,
    pub(super) revocation_endpoint: Option<String>,
    pub(super) resource: Option<String>,
    /// The authorization server does not want to be told what a token is for.
    pub(super) without_resource: bool,
    /// How near the server was when there was a login: nothing that it has named may be nearer.
    pub(super) near: Option<Reach>,
}

/// A client, without anything that proves who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) id: String,
    pub(super) proof: Proof,
}

/// The form in which it is stored. It is never shown.
#[derive(Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct OnDisk {
    server: String,
    /// Logins are kept apart by what is asked for; earlier versions had one for all.
    pub(super) is_apart: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<String>,
    /// What it is kept apart by, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    apart_by: Vec<String>,
    issuer: Option<String>,
    client_id: Option<String>,
    client_secret: Option<String>,
    client_proof: Option<String>,
    client_port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_place: Option<CallbackPlace>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_scope: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_only: Option<String>,
    token_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
    resource: Option<String>,
    without_resource: bool,
    server_is: Option<String>,
    token_client_id: Option<String>,
    token_client_proof: Option<String>,
    token: Option<Stored>,
}

impl OnDisk {
    /// Reads it; else says what is wrong with it, without quoting what stands there.
    pub(super) fn read(text: &[u8]) -> Result<Self, String> {
        let place =
            |error: serde_json::Error| format!("line {}, column {}", error.line(), error.column());
        let read = serde_json::from_slice(text).map_err(place)?;
        // For serde, an array will do in place of an object.
        let value: Value = serde_json::from_slice(text).map_err(place)?;
        let token = &value["token"];
        match value.is_object() && (token.is_object() || token.is_null()) {
            true => Ok(read),
            false => Err("it is no JSON object, or its token is none".to_owned()),
        }
    }

    /// The same as a login that is kept apart from others, by this.
    pub(super) fn apart(self, by: &[String]) -> Self {
        Self { is_apart: true, apart_by: by.to_vec(), ..self }
    }

    pub(super) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// What the token was asked for, if that was said.
    pub(super) fn resource(&self) -> Option<&str> {
        self.resource.as_deref()
    }

    /// The form in which it is stored, for `server`.
    pub(super) fn of(server: &Url, kept: &Kept) -> Self {
        let identity = kept.identity.as_ref();
        Self {
            server: crate::secret::shown(server),
            is_apart: true,
            profile: kept.profile.clone(),
            apart_by: Vec::new(),
            issuer: kept.issuer.clone(),
            client_id: identity.map(|identity| identity.id.clone()),
            client_secret: identity
                .and_then(|identity| identity.secret.as_ref())
                .map(|secret| secret.reveal().to_owned()),
            client_proof: identity.map(|identity| identity.proof.name().to_owned()),
            client_port: identity.and_then(|identity| identity.port),
            client_place: identity.and_then(|identity| identity.place.clone()),
            client_scope: identity.and_then(|identity| identity.scope.clone()),
            client_only: identity
                .and_then(|identity| identity.only)
                .map(|only| only.name().to_owned()),
            token_endpoint: kept.token_endpoint.clone(),
            revocation_endpoint: kept.revocation_endpoint.clone(),
            resource: kept.resource.clone(),
            without_resource: kept.without_resource,
            server_is: kept.near.map(|near| near.name().to_owned()),
            token_client_id: kept.holder.as_ref().map(|holder| holder.id.clone()),
            token_client_proof: kept.holder.as_ref().map(|h| h.proof.name().to_owned()),
            token: kept.token.as_ref().map(Stored::from),
        }
    }
}

impl From<OnDisk> for Kept {
    fn from(disk: OnDisk) -> Self {
        let proof = |name: Option<&str>| name.and_then(Proof::of).unwrap_or(Proof::Nothing);
        let secret = disk.client_secret.map(Secret::new);
        Self {
            profile: disk.profile,
            issuer: disk.issuer,
            identity: disk.client_id.map(|id| Identity {
                id,
                secret,
                proof: proof(disk.client_proof.as_deref()),
                port: disk.client_port,
                // Earlier versions did not note it, and seldom had another.
                place: disk
                    .client_place
                    .or_else(|| disk.client_port.map(|_| CallbackPlace::default())),
                scope: disk.client_scope,
                only: disk.client_only.as_deref().and_then(Only::of),
            }),
            holder: disk
                .token_client_id
                .map(|id| Holder { id, proof: proof(disk.token_client_proof.as_deref()) }),
            token: disk.token.map(Token::from),
            token_endpoint: disk.token_endpoint,
            revocation_endpoint: disk.revocation_endpoint,
            resource: disk.resource,
            without_resource: disk.without_resource,
            near: disk.server_is.as_deref().and_then(Reach::named),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_of_another_type_is_damaged() {
        for text in ["[]", "7", "\"x\"", "null", "true", r#"{"token": []}"#, r#"{"token": ["a"]}"#]
        {
            assert!(OnDisk::read(text.as_bytes()).is_err(), "{text}");
        }
        for text in ["{}", r#"{"token": null}"#, r#"{"token": {"access_token": "a"}}"#] {
            assert!(OnDisk::read(text.as_bytes()).is_ok(), "{text}");
        }
        let Err(why) = OnDisk::read(b"{\n\"token\": \"s3cret") else { panic!("half a text") };
        assert!(why.starts_with("line 2, column "), "{why}");
    }
}
