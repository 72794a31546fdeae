//! Registers a client on the spot (RFC 7591).

use http::StatusCode;
use serde_json::{Map, Value, json};
use tracing::debug;
use url::Url;

use super::identity::{ClientAuthentication, ClientIdentity, Only, Purpose, identity};
use super::metadata::Issuer;
use super::web::Web;
use super::{CallbackPlace, device, refused};
use crate::error::Error;

/// Registers a client at `place`, for logins that ask for `scope`; `said` is what the user says of it.
pub(super) async fn register(
    issuer: &Issuer,
    web: &Web,
    place: &Url,
    purpose: Purpose<'_>,
    scope: Option<&str>,
    said: &Map<String, Value>,
) -> Result<ClientIdentity, Error> {
    let named = said.get("token_endpoint_auth_method").and_then(Value::as_str);
    let offered =
        [ClientAuthentication::Nothing, ClientAuthentication::Basic, ClientAuthentication::Post]
            .into_iter()
            .find(|proof| proof.is_offered(issuer));
    let wanted = named.and_then(ClientAuthentication::named).or(offered).unwrap_or_default();
    let mut request = description(wanted, purpose, scope);
    describe(&mut request, said);
    let (mut status, mut answer) = web.json(place, &request).await?;
    let mut scope = request["scope"].as_str().map(str::to_owned);
    if scope.is_some() && !said.contains_key("scope") && rejects_scope(status, &answer) {
        debug!("the provider registers no client with these scopes: asked without them");
        request.as_object_mut().and_then(|members| members.remove("scope"));
        scope = None;
        (status, answer) = web.json(place, &request).await?;
    }
    let text = |name: &str| answer[name].as_str().filter(|text| !text.is_empty());
    let Some(id) = text("client_id").filter(|_| status.is_success()) else {
        return Err(refused("The registration", status, &answer));
    };
    let identity = ClientIdentity { scope, ..identity(id, &answer, wanted, issuer) };
    Ok(match purpose {
        Purpose::Redirect(redirect) => {
            let url = Url::parse(redirect).ok();
            let place = url.as_ref().and_then(CallbackPlace::of);
            ClientIdentity { port: url.and_then(|url| url.port()), place, ..identity }
        }
        Purpose::Devices => ClientIdentity { only: Some(Only::Devices), ..identity },
    })
}

/// What we say of ourselves. Some providers let a client ask for nothing but what it was registered
/// for.
fn description(proof: ClientAuthentication, purpose: Purpose<'_>, scope: Option<&str>) -> Value {
    let (redirects, grant, responses) = match purpose {
        Purpose::Redirect(redirect) => (vec![redirect], "authorization_code", vec!["code"]),
        Purpose::Devices => (vec![], device::GRANT_TYPE, vec![]),
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
