//! What is kept of a login between runs, in the form in which it is stored.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::address::Reach;
use super::identity::{ClientAuthentication, ClientIdentity};
use super::token::Token;

/// What is kept between runs. Its JSON has secrets in it, and is never shown.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct StoredLogin {
    /// The server that it is for, as it may be shown.
    pub(super) server: String,
    /// Logins are kept apart by what is asked for; earlier versions had one for all.
    pub(super) is_apart: bool,
    /// The user's name for the account, for lists of all of them.
    pub(super) profile: Option<String>,
    /// What it is kept apart by, in words.
    pub(super) apart_by: Vec<String>,
    /// Whose client and token they are; those of another authorization server are no good.
    pub(super) issuer: Option<String>,
    /// A client that was registered on the spot; never one that is configured.
    #[serde(flatten)]
    pub(super) identity: Option<ClientIdentity>,
    /// The client that the token was given to, where that is known.
    #[serde(flatten)]
    pub(super) holder: Option<Holder>,
    pub(super) token: Option<Token>,
    pub(super) token_endpoint: Option<String>,
    pub(super) revocation_endpoint: Option<String>,
    pub(super) resource: Option<String>,
    /// The authorization server does not want to be told what a token is for.
    pub(super) without_resource: bool,
    /// How near the server was when there was a login: nothing that it has named may be nearer.
    #[serde(rename = "server_is")]
    pub(super) near: Option<Reach>,
    /// The token has come from a renewal in this process, not from a login.
    #[serde(skip)]
    pub(super) is_renewal: bool,
}

/// A client, without anything that proves who it is.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct Holder {
    #[serde(rename = "token_client_id")]
    pub(super) id: String,
    #[serde(default, rename = "token_client_proof")]
    pub(super) proof: ClientAuthentication,
}

impl StoredLogin {
    /// Reads it; else says what is wrong with it, without quoting what stands there.
    pub(super) fn read(text: &[u8]) -> Result<Self, String> {
        let mut kept: Self = from_json(text)?;
        // For serde, an array will do in place of an object.
        if parse(text)?["token"].is_array() {
            return Err("its token is no JSON object".to_owned());
        }
        if let Some(identity) = &mut kept.identity
            && identity.port.is_some()
        {
            // Earlier versions did not note it, and seldom had another.
            identity.place.get_or_insert_default();
        }
        Ok(kept)
    }

    /// Whether it has a token, and another one than `before`.
    pub(super) fn has_other_token_than(&self, before: &Self) -> bool {
        self.token.is_some() && self.token != before.token
    }
}

/// The JSON object that a file of tokens holds; else what is wrong, as [`StoredLogin::read`] says it.
pub(super) fn parse(text: &[u8]) -> Result<Value, String> {
    let value: Value = from_json(text)?;
    match value.is_object() {
        true => Ok(value),
        false => Err("it is no JSON object".to_owned()),
    }
}

fn from_json<T: DeserializeOwned>(text: &[u8]) -> Result<T, String> {
    serde_json::from_slice(text)
        .map_err(|error| format!("line {}, column {}", error.line(), error.column()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_of_another_type_is_damaged() {
        for text in ["[]", "7", "\"x\"", "null", "true", r#"{"token": []}"#, r#"{"token": ["a"]}"#]
        {
            assert!(StoredLogin::read(text.as_bytes()).is_err(), "{text}");
        }
        for text in ["{}", r#"{"token": null}"#, r#"{"token": {"access_token": "a"}}"#] {
            assert!(StoredLogin::read(text.as_bytes()).is_ok(), "{text}");
        }
        let Err(why) = StoredLogin::read(b"{\n\"token\": \"s3cret") else { panic!("half a text") };
        assert!(why.starts_with("line 2, column "), "{why}");
    }
}
