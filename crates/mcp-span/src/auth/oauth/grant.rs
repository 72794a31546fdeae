//! Asks the token endpoint: for a code, a refresh token, or just as the client that we are.

use std::time::{SystemTime, UNIX_EPOCH};

use http::{HeaderValue, StatusCode};
use serde_json::Value;
use tracing::debug;
use url::Url;

use super::identity::{ClientAuthentication, ClientIdentity};
use super::token::Token;
use super::web::Form;
use super::words::{login_error, refused};
use super::{OAuth, pkce};
use crate::error::Error;
use crate::secret::{Scrubber, Secret};
use crate::wire::header;

/// What the token endpoint is asked with.
pub(super) struct TokenRequest<'a> {
    pub(super) oauth: &'a OAuth,
    pub(super) endpoint: &'a Url,
    pub(super) identity: &'a ClientIdentity,
    /// The audience of what we sign.
    pub(super) issuer: &'a str,
    /// The resource that the token is for (RFC 8707), if the server is to be told.
    pub(super) resource: Option<&'a str>,
    pub(super) scope: Option<&'a str>,
}

/// Why there is no token.
#[derive(Debug)]
pub(super) enum TokenRefusal {
    /// The code or the refresh token is no good (any more).
    Grant(Error),
    /// The client is not known (any more).
    Client(Error),
    /// The provider says no.
    Other(Error),
    /// The provider says nothing, or not now: nothing is known about what it was asked with.
    Unanswered(Error),
}

impl TokenRefusal {
    pub(super) fn into_error(self) -> Error {
        match self {
            Self::Grant(error)
            | Self::Client(error)
            | Self::Other(error)
            | Self::Unanswered(error) => error,
        }
    }
}

impl TokenRequest<'_> {
    /// Sends `form`, with who we are added.
    pub(super) async fn send(&self, form: Form) -> Result<Token, TokenRefusal> {
        let (status, answer) = self.ask(&form).await.map_err(TokenRefusal::Unanswered)?;
        self.read(status, &answer)
    }

    /// The same, with the answer as it is.
    pub(super) async fn ask(&self, form: &Form) -> Result<(StatusCode, Value), Error> {
        let resource = self.resource.filter(|_| !self.oauth.refuses_resource());
        let (mut status, mut answer) = self.attempt(form, resource, coded).await?;
        if self.has_other_spelling() && answer["error"] == "invalid_client" {
            debug!("the provider does not know the client: asked with its secret as it is");
            let (other_status, other) = self.attempt(form, resource, str::to_owned).await?;
            // What it says to the form of the standard counts, if neither is taken.
            if other["error"] != "invalid_client" {
                (status, answer) = (other_status, other);
            }
        }
        if resource.is_some() && rejects_resource(status, &answer) {
            debug!("the provider does not know the parameter resource: asked without it");
            (status, answer) = self.attempt(form, None, coded).await?;
            if status.is_success() {
                self.oauth.set_refuses_resource(true);
            }
        }
        Ok((status, answer))
    }

    /// Tells the server that `token` is to be used no more (RFC 7009).
    pub(super) async fn revoke(&self, token: &Secret) -> Result<(), Error> {
        let form = vec![("token", token.reveal().to_owned())];
        let (status, answer) = self.attempt(&form, None, coded).await?;
        if status.is_success() { Ok(()) } else { Err(refused("The revocation", status, &answer)) }
    }

    /// Whether the client looks different in a header that is written as other programs do.
    fn has_other_spelling(&self) -> bool {
        let differs = |text: &str| coded(text) != text;
        let Some(secret) = &self.identity.secret else { return false };
        self.identity.proof == ClientAuthentication::Basic
            && (differs(&self.identity.id) || differs(secret.reveal()))
    }

    /// Asks once; `spell` says how a client and its secret stand in a header.
    async fn attempt(
        &self,
        form: &Form,
        resource: Option<&str>,
        spell: fn(&str) -> String,
    ) -> Result<(StatusCode, Value), Error> {
        let mut form = form.clone();
        form.extend(resource.map(|resource| ("resource", resource.to_owned())));
        let mut basic = None;
        match (self.identity.proof, &self.identity.secret) {
            (ClientAuthentication::Basic, Some(secret)) => {
                basic = Some(header::basic(spell(&self.identity.id), spell(secret.reveal())));
            }
            (ClientAuthentication::Post, Some(secret)) => {
                form.push(("client_id", self.identity.id.clone()));
                form.push(("client_secret", secret.reveal().to_owned()));
            }
            (ClientAuthentication::Signed, _) => form.extend(self.signed()?),
            _ => form.push(("client_id", self.identity.id.clone())),
        }
        let OAuth { web, settings, .. } = self.oauth;
        let params = &settings.given.token_params;
        let (status, answer) = web.form(self.endpoint, &form, params, basic.clone()).await?;
        // A token may be the one that was sent, and stays what it is; all else may be shown.
        if status.is_success() && answer["access_token"].is_string() {
            return Ok((status, answer));
        }
        Ok((status, self.cleaned(&form, basic.as_ref(), &answer)))
    }

    /// A refusal without the secrets that were sent: some servers repeat them, and it may be logged.
    fn cleaned(&self, form: &Form, basic: Option<&HeaderValue>, answer: &Value) -> Value {
        let scrubber = Scrubber::default();
        let basic = basic.and_then(|value| value.to_str().ok()?.strip_prefix("Basic "));
        let secret = self.identity.secret.as_ref().map(Secret::reveal);
        let params = self.oauth.settings.given.token_params.iter().map(|(_, value)| &**value);
        let is_secret = |name: &str| {
            let names = ["code", "code_verifier", "device_code", "refresh_token", "token"];
            names.contains(&name) || ["client_secret", "client_assertion"].contains(&name)
        };
        let sent = form.iter().filter(|(name, _)| is_secret(name)).map(|(_, value)| &**value);
        for text in params.chain(basic).chain(secret).chain(sent) {
            scrubber.add(&Secret::new(text));
            scrubber.add(&Secret::new(coded(text)));
        }
        let clean = scrubber.clean(&answer.to_string());
        serde_json::from_str(&clean).unwrap_or_default()
    }

    fn signed(&self) -> Result<Form, Error> {
        let Some(key) = &self.oauth.settings.private_key else {
            return Err(login_error("The client is registered with a key, and there is none")
                .hint("Give it with --oauth-private-key"));
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let assertion = key.sign(&self.identity.id, self.issuer, &pkce::random()?, now)?;
        let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
        Ok(vec![
            ("client_id", self.identity.id.clone()),
            ("client_assertion_type", kind.to_owned()),
            ("client_assertion", assertion),
        ])
    }

    pub(super) fn read(&self, status: StatusCode, answer: &Value) -> Result<Token, TokenRefusal> {
        if status.is_success()
            && let Some(token) = Token::read(answer, self.scope, SystemTime::now())
        {
            return Ok(token);
        }
        let error = refused("The request for a token", status, answer);
        Err(match answer["error"].as_str() {
            Some("invalid_grant") => TokenRefusal::Grant(error),
            Some("invalid_client" | "unauthorized_client") => TokenRefusal::Client(error),
            // Or a stranger's page in between.
            Some("temporarily_unavailable" | "server_error" | "slow_down") | None => {
                TokenRefusal::Unanswered(error)
            }
            Some(_) if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() => {
                TokenRefusal::Unanswered(error)
            }
            // Some say no with a success.
            Some(_) => TokenRefusal::Other(error),
        })
    }
}

fn rejects_resource(status: StatusCode, answer: &Value) -> bool {
    status.is_client_error()
        && names_resource(answer["error"].as_str(), answer["error_description"].as_str())
}

/// Some providers refuse the parameter `resource`, and say that this is what they refuse.
pub(super) fn names_resource(error: Option<&str>, description: Option<&str>) -> bool {
    let description = description.unwrap_or_default().to_ascii_lowercase();
    match error {
        Some("invalid_target") => true,
        Some("invalid_request") => description.contains("resource"),
        // Entra has several errors for it, and one number.
        _ => description.contains("aadsts9010010"),
    }
}

/// As it stands in a form, which is how a client and its secret are joined in a header (RFC 6749,
/// 2.3.1). Many programs join them as they are, and some providers know nothing else.
fn coded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_provider_that_names_the_parameter_is_asked_without_it() {
        let bad = StatusCode::BAD_REQUEST;
        let described = json!({"error": "invalid_request", "error_description": "AADSTS9010010: The resource parameter …"});
        assert!(rejects_resource(bad, &described));
        assert!(rejects_resource(bad, &json!({"error": "invalid_target"})));
        assert!(!rejects_resource(bad, &json!({"error": "invalid_request"})));
        let grant = json!({"error": "invalid_grant", "error_description": "not for this resource"});
        assert!(!rejects_resource(bad, &grant));
        assert!(!rejects_resource(StatusCode::OK, &described));
    }

    #[test]
    fn ids_and_secrets_are_coded_before_they_are_joined() {
        let value = header::basic(coded("a b"), coded("c:d"));
        let coded = value.to_str().unwrap().strip_prefix("Basic ").unwrap();
        assert_eq!(STANDARD.decode(coded).unwrap(), b"a+b:c%3Ad");
        assert!(value.is_sensitive());
        let plain = header::basic("a b", "c:d");
        let plain = plain.to_str().unwrap().strip_prefix("Basic ").unwrap();
        assert_eq!(STANDARD.decode(plain).unwrap(), b"a b:c:d");
    }
}
