//! Registers a client on the spot (RFC 7591).

use http::StatusCode;
use serde_json::{Map, Value, json};
use tracing::debug;
use url::Url;

use super::callback_port::CallbackPort;
use super::flow::LoginRun;
use super::identity::{ClientAuthentication, ClientIdentity, Only, identity};
use super::{OAuth, device, refused};
use crate::error::Error;

impl LoginRun<'_> {
    /// Registers a client at `place`, for logins that ask for the scope of this one and come `back`
    /// in the same way.
    pub(super) async fn register(
        &self,
        place: &Url,
        back: Option<&CallbackPort>,
    ) -> Result<ClientIdentity, Error> {
        let Self { oauth: OAuth { web, settings, .. }, plan } = self;
        let (issuer, wished) = (&plan.authority.metadata, &settings.given.registration);
        let named = wished.get("token_endpoint_auth_method").and_then(Value::as_str);
        let offered = [
            ClientAuthentication::Nothing,
            ClientAuthentication::Basic,
            ClientAuthentication::Post,
        ]
        .into_iter()
        .find(|proof| proof.is_offered(issuer));
        let wanted = named.and_then(ClientAuthentication::named).or(offered).unwrap_or_default();
        let mut request = description(wanted, back, plan.scope.as_deref());
        describe(&mut request, wished);
        let (mut status, mut answer) = web.json(place, &request).await?;
        let has_scope = request["scope"].is_string() && !wished.contains_key("scope");
        if has_scope && rejects_scope(status, &answer) {
            debug!("the provider registers no client with these scopes: asked without them");
            request.as_object_mut().and_then(|members| members.remove("scope"));
            (status, answer) = web.json(place, &request).await?;
        }
        let id = answer["client_id"].as_str().filter(|id| status.is_success() && !id.is_empty());
        let Some(id) = id else {
            return Err(refused("The registration", status, &answer));
        };
        let (port, place) = back.map(|back| (back.port, back.place.clone())).unzip();
        Ok(ClientIdentity {
            port,
            place,
            scope: request["scope"].as_str().map(str::to_owned),
            only: back.is_none().then_some(Only::Devices),
            ..identity(id, &answer, wanted, issuer)
        })
    }
}

/// What we say of ourselves. Some providers let a client ask for nothing but what it was registered
/// for.
fn description(
    proof: ClientAuthentication,
    back: Option<&CallbackPort>,
    scope: Option<&str>,
) -> Value {
    let (redirects, grant, responses) = match back {
        Some(back) => (vec![back.redirect_uri()], "authorization_code", vec!["code"]),
        None => (vec![], device::GRANT_TYPE, vec![]),
    };
    let mut request = json!({
        "client_name": "mcp-span",
        "application_type": "native",
        "token_endpoint_auth_method": proof,
        "redirect_uris": redirects,
        "grant_types": [grant, "refresh_token"],
        "response_types": responses,
    });
    if let Some(scope) = scope {
        request["scope"] = scope.into();
    }
    request
}

/// Puts what the user says of the client into its registration. The address that the browser comes
/// back to is one of those that are registered, whatever others there are.
fn describe(request: &mut Value, said: &Map<String, Value>) {
    let own = request["redirect_uris"].as_array().cloned().unwrap_or_default();
    for (name, value) in said {
        request[name] = value.clone();
    }
    if let Some(all) = request["redirect_uris"].as_array_mut() {
        let missing: Vec<Value> = own.into_iter().filter(|uri| !all.contains(uri)).collect();
        all.splice(0..0, missing);
    }
}

/// Whether it may be the scopes that a provider does not like: others only ignore what they do not
/// know when it is asked for.
fn rejects_scope(status: StatusCode, answer: &Value) -> bool {
    let error = answer["error"].as_str();
    status == StatusCode::BAD_REQUEST
        && matches!(error, Some("invalid_client_metadata" | "invalid_scope" | "invalid_request"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_says_of_the_client_counts() {
        let mut request = json!({"client_name": "mcp-span", "redirect_uris": ["http://a/"]});
        let said =
            json!({"client_name": "mine", "software_id": "x", "redirect_uris": ["http://b/"]});
        describe(&mut request, said.as_object().unwrap());
        let expected = json!({"client_name": "mine", "software_id": "x",
            "redirect_uris": ["http://a/", "http://b/"]});
        assert_eq!(request, expected);
        let same = request.clone();
        describe(&mut request, &Map::new());
        assert_eq!(request, same);
    }
}
