//! `mcp-span check` at servers that want to know who we are. Nobody is ever asked to log in.

use crate::support::{Checked, Manners, Provider, Reply, Server, check, checked, polite};

async fn checked_at(provider: &Provider, args: &[&str]) -> Checked {
    checked(&provider.run("check", args).await)
}

#[tokio::test]
async fn a_server_that_wants_a_login_and_says_how() {
    let provider = Provider::start(Manners::default()).await;
    checked_at(&provider, &[]).await.is(3, "");
    assert!(provider.pages().is_empty(), "no browser");
    assert!(provider.at("/register").is_empty(), "no client");
}

#[tokio::test]
async fn a_server_that_wants_a_token_and_says_nothing() {
    let manners =
        Manners { challenge: None, resource_at: "/no", described_at: "/no", ..Manners::default() };
    let provider = Provider::start(manners).await;
    let found = checked_at(&provider, &[]).await;
    assert_eq!(found.finding("authorization"), "");
    assert_eq!(found.code, Some(3));
}

#[tokio::test]
async fn what_a_login_would_miss_is_named() {
    let edit_metadata = |d: &mut serde_json::Value, _: &str| {
        d["registration_endpoint"] = serde_json::Value::Null;
        d["code_challenge_methods_supported"] = serde_json::Value::Null;
    };
    let provider = Provider::start(Manners { edit_metadata, ..Manners::default() }).await;
    let finding = checked_at(&provider, &[]).await.finding("authorization").replace('\n', " ");
    assert!(
        finding.contains("missing for it: PKCE with S256, a way to register a client"),
        "{finding}"
    );
    assert!(finding.contains("next: Register a client by hand"), "{finding}");
    let edit_resource =
        |d: &mut serde_json::Value, _: &str| d["resource"] = "https://evil.example/".into();
    let provider = Provider::start(Manners { edit_resource, ..Manners::default() }).await;
    let finding = checked_at(&provider, &[]).await.finding("authorization").replace('\n', " ");
    assert!(finding.contains("a login is not possible"), "{finding}");
    assert!(finding.contains("says that it is https://evil.example/"), "{finding}");
}

#[tokio::test]
async fn a_stored_token_is_used_and_told_of() {
    let provider = Provider::start(Manners::default()).await;
    assert!(provider.run("login", &[]).await.status.success());
    let found = checked_at(&provider, &[]).await;
    assert_eq!(
        found.finding("authorization"),
        "ok       authorization    the token of a login is taken\n\
         a token is stored, good for 59 minutes, and can be renewed"
    );
    assert!(!found.text.contains("hidden-"), "{found:?}");
    // One that has expired is renewed, as the bridge does it.
    provider.desk.expire();
    let found = checked_at(&provider, &[]).await;
    assert!(found.finding("authorization").starts_with("ok "), "{found:?}");
    provider.desk.forget_tokens();
    let found = checked_at(&provider, &[]).await;
    assert_eq!(found.code, Some(3));
    assert!(found.finding("authorization").contains("a login is needed"), "{found:?}");
    assert_eq!(provider.pages().len(), 1, "that of `login`");
}

#[tokio::test]
async fn a_login_is_made_if_it_is_asked_for() {
    let provider = Provider::start(Manners::default()).await;
    let found = checked_at(&provider, &["--login"]).await;
    assert_ne!(found.code, Some(3), "{found:?}");
    assert_eq!(provider.pages().len(), 1);
    assert!(found.finding("authorization").starts_with("ok "), "{found:?}");
}

#[tokio::test]
async fn given_credentials_that_are_refused_are_not_shown() {
    let server = Server::start(|r| match r.header("authorization") {
        Some("Bearer right-token-1") => polite(r),
        _ => Reply::status(401, "application/json", r#"{"error":"bad hidden-token"}"#),
    })
    .await;
    let wrong = check(&[&server.url, "-H", "Authorization: Bearer hidden-token"], &[]).await;
    assert_eq!(wrong.code, Some(3));
    assert_eq!(wrong.finding("authorization"), "");
    assert!(!wrong.text.contains("hidden-token"), "{wrong:?}");
    let right = check(&[&server.url, "-H", "Authorization: Bearer right-token-1"], &[]).await;
    assert_eq!(right.code, Some(0), "{right:?}");
    let none = check(&[&server.url, "--bearer-command", "false"], &[]).await;
    assert_eq!(none.code, Some(3));
    assert!(none.finding("authorization").contains("gives none, so nothing was sent"), "{none:?}");
    let barred = Server::start(|_| Reply::status(403, "text/plain", "blocked")).await;
    let found = check(&[&barred.url], &[]).await;
    assert!(found.finding("authorization").contains("access is refused (HTTP 403"), "{found:?}");
}
