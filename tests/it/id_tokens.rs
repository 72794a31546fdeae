//! Logins whose ID token goes to the server, and what else mcp-remote's flags ask of a login.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::support::{Bridge, Manners, Provider, Reply, request};

/// A token of OpenID Connect that is good for an hour, under the number of the access token.
fn add_id_token(answer: &mut Value, _: &str) {
    if answer["scope"].as_str().is_some_and(|scope| scope.split(' ').any(|s| s == "openid")) {
        answer["id_token"] = jwt(answer, 3600).into();
    }
}

/// The same for one that is over at once.
fn add_short_id_token(answer: &mut Value, _: &str) {
    answer["id_token"] =
        jwt(answer, if answer["access_token"] == FIRST { 10 } else { 3600 }).into();
}

const FIRST: &str = "hidden-access-2";

fn jwt(answer: &Value, seconds: i64) -> String {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() as i64;
    let claims = json!({"sub": answer["access_token"], "iat": now - 3600, "exp": now + seconds});
    format!("e30.{}.hidden", URL_SAFE_NO_PAD.encode(claims.to_string()))
}

/// Whom an ID token is about: here, the access token that came with it.
fn subject(token: &str) -> String {
    let claims = token.split('.').nth(1).and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
    let claims: Value = serde_json::from_slice(&claims.unwrap_or_default()).unwrap_or_default();
    claims["sub"].as_str().unwrap_or("no ID token").to_owned()
}

/// A provider that speaks OpenID Connect, whose server takes nothing but ID tokens.
fn openid() -> Manners {
    Manners {
        edit_token: add_id_token,
        edit_metadata: |metadata, _| metadata["scopes_supported"] = json!(["openid", "read"]),
        ..Manners::default()
    }
}

/// Takes ID tokens for what their access tokens are.
async fn start(manners: Manners) -> Provider {
    let access_of = |token: &str| match subject(token) {
        access if access.starts_with("hidden-access") => access,
        _ => token.to_owned(),
    };
    Provider::start(Manners { access_of, ..manners }).await
}

async fn list(bridge: &mut Bridge) {
    let answer = bridge.ask(request(1, "tools/list")).await;
    assert!(answer["result"].is_object(), "{answer}");
}

/// The token with which the server was asked last.
fn last(provider: &Provider) -> String {
    provider.carried().pop().unwrap().1
}

#[tokio::test]
async fn the_id_token_is_sent_and_asked_for_where_it_is_offered() {
    for flag in ["--oauth-use-id-token", "--use-id-token"] {
        let provider = start(openid()).await;
        let mut bridge = provider.ready(&[flag, "--no-server-stream"]).await;
        list(&mut bridge).await;
        assert_eq!(subject(&last(&provider)), FIRST);
        assert_eq!(provider.logins()[0].get("scope"), "read openid");
        let (_, _, stderr) = bridge.finish().await;
        assert!(!stderr.contains("ID token"), "{stderr}");
        let mut again = provider.ready(&[flag, "--no-server-stream"]).await;
        list(&mut again).await;
        assert_eq!(subject(&last(&provider)), FIRST, "it was stored");
        assert_eq!(provider.logins().len(), 1);
    }
}

#[tokio::test]
async fn without_the_flag_the_access_token_is_sent() {
    let provider = start(openid()).await;
    let mut bridge = provider.ready(&["--oauth-scope", "openid", "--no-server-stream"]).await;
    list(&mut bridge).await;
    assert_eq!(last(&provider), FIRST);
}

#[tokio::test]
async fn an_id_token_is_renewed_by_its_own_end() {
    let manners = Manners { edit_token: add_short_id_token, ..openid() };
    let provider = start(manners).await;
    let args = ["--oauth-use-id-token", "--no-server-stream"];
    assert!(provider.run("login", &args[..1]).await.status.success());
    let mut bridge = provider.ready(&args).await;
    list(&mut bridge).await;
    assert_eq!(provider.grants("refresh_token"), 1, "the access token is good for an hour");
    let renewed = subject(&last(&provider));
    assert!(renewed.starts_with("hidden-access-") && renewed != FIRST, "{renewed}");
    drop(bridge);
    let mut again = provider.ready(&args).await;
    list(&mut again).await;
    assert_eq!(subject(&last(&provider)), renewed, "it was stored");
    assert_eq!(provider.grants("refresh_token"), 1);
}

#[tokio::test]
async fn a_refused_id_token_is_renewed() {
    let provider = start(openid()).await;
    let mut bridge = provider.ready(&["--oauth-use-id-token", "--no-server-stream"]).await;
    provider.desk.expire();
    list(&mut bridge).await;
    assert_eq!(provider.grants("refresh_token"), 1);
    assert_ne!(subject(&last(&provider)), FIRST);
}

#[tokio::test]
async fn where_there_is_no_id_token_the_access_token_is_sent_and_that_is_said_once() {
    let provider = start(Manners::default()).await;
    let mut bridge = provider.ready(&["--oauth-use-id-token", "--no-server-stream"]).await;
    list(&mut bridge).await;
    list(&mut bridge).await;
    assert_eq!(last(&provider), FIRST);
    let (_, _, stderr) = bridge.finish().await;
    assert_eq!(stderr.matches("gave no ID token").count(), 1, "{stderr}");
    assert!(stderr.contains("--oauth-scope"), "{stderr}");
}

#[tokio::test]
async fn after_a_login_the_browser_goes_where_the_user_wants() {
    let provider = Provider::start(Manners::default()).await;
    // As far as the redirect address, and no further.
    provider.browse(
        "curl -s -L --max-redirs 1 -o /dev/null -w '%{redirect_url}\\n' \"$1\" > \"$2/way\"",
    );
    let url = "https://app.example.com/cli-connected";
    let mut bridge = provider.bridge(&["--auth-success-url", url]);
    bridge.handshake().await;
    let read = async {
        loop {
            match std::fs::read_to_string(provider.path("way")) {
                Ok(text) if text.ends_with('\n') => return text,
                _ => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
            }
        }
    };
    let way = crate::support::soon("the browser's way", read).await;
    assert_eq!(way.trim(), url, "and nothing is added to it");
}

#[tokio::test]
async fn a_login_that_fails_shows_why_and_leads_nowhere() {
    let refused = Reply::status(400, "application/json", r#"{"error":"invalid_grant"}"#);
    let provider = Provider::start(Manners::default().instead("/token", refused)).await;
    provider.browse("curl -s -L -o \"$2/page\" -w '%{url_effective}\\n' \"$1\" > \"$2/way\"");
    let mut bridge = provider.bridge(&["--oauth-success-url", "https://app.example.com/done"]);
    bridge.send(crate::support::INITIALIZE).await;
    assert!(bridge.receive().await["error"].is_object());
    let read = async {
        loop {
            match std::fs::read_to_string(provider.path("way")) {
                Ok(text) if text.ends_with('\n') => return text,
                _ => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
            }
        }
    };
    let way = crate::support::soon("the browser's way", read).await;
    assert!(way.starts_with("http://127.0.0.1:"), "{way}");
}

#[tokio::test]
async fn what_is_said_of_a_client_is_in_its_registration() {
    let provider = Provider::start(Manners::default()).await;
    let metadata = r#"{"client_name":"mine","software_id":"x-1","scope":"read","contacts":["me@example.com"]}"#;
    provider.ready(&["--static-oauth-client-metadata", metadata]).await;
    let registered = provider.at("/register")[0].json();
    let expected = [
        ("client_name", json!("mine")),
        ("software_id", json!("x-1")),
        ("scope", json!("read")),
        ("contacts", json!(["me@example.com"])),
        ("response_types", json!(["code"])),
    ];
    for (name, value) in expected {
        assert_eq!(registered[name], value, "{registered}");
    }
    assert_eq!(provider.logins()[0].get("scope"), "read");
}
