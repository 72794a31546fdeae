//! `mcp-span check` at servers that want to know who we are. Nobody is ever asked to log in.

use crate::support::{Checked, Manners, Provider, Reply, Server, check, checked, polite};

async fn checked_at(provider: &Provider, args: &[&str]) -> Checked {
    checked(&provider.run("check", args).await)
}

#[tokio::test]
async fn a_server_that_wants_a_login_and_says_how() {
    let provider = Provider::start(Manners::default()).await;
    checked_at(&provider, &[]).await.is(3, r#"
        http://127.0.0.1:PORT/mcp
        ✓ url            plain http on this machine, host 127.0.0.1, port PORT, path /mcp
        ✓ name           an IP address: nothing to resolve
        ✓ proxy          none
        ✓ connection     127.0.0.1:PORT (N ms)
        - tls            the URL is plain http
        ✓ http           HTTP/1.1
        - transport, server, session: the server requires credentials first
        ✗ authorization  login required (HTTP 401 with WWW-Authenticate)
        http://127.0.0.1:PORT/.well-known/oauth-protected-resource/mcp: found
        http://127.0.0.1:PORT/.well-known/oauth-authorization-server: found
        authorization server: http://127.0.0.1:PORT
        resource: http://127.0.0.1:PORT/mcp
        grants: none named (authorization code)
        PKCE: S256
        client registration: dynamic
        no token is stored
        All that a login needs is there; the server itself was not checked
        hint: Run `mcp-span login` with the same arguments, or this check with --login
        > POST http://127.0.0.1:PORT/mcp
        > accept: application/json, text/event-stream
        > content-type: application/json
        > user-agent: mcp-span/VERSION
        > {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{},"clientInfo":{"name":"mcp-span","version":"VERSION"},"protocolVersion":"2025-11-25"}}
        < HTTP/1.1 401
        < content-length: 12
        < content-type: text/plain
        < www-authenticate: Bearer resource_metadata="http://127.0.0.1:PORT/.well-known/oauth-protected-resource/mcp", scope="read"
        < who are you?
        - round-trip, contents: the server requires credentials first
        1 failed
        "#);
    assert!(provider.pages().is_empty(), "no browser");
    assert!(provider.at("/register").is_empty(), "no client");
}

#[tokio::test]
async fn a_server_that_wants_a_token_and_says_nothing() {
    let manners =
        Manners { challenge: None, resource_at: "/no", described_at: "/no", ..Manners::default() };
    let provider = Provider::start(manners).await;
    let found = checked_at(&provider, &[]).await;
    found.says("authorization", r#"
        ✗ authorization  credentials required, and nothing says how to get them (HTTP 401 without
        WWW-Authenticate)
        http://127.0.0.1:PORT/.well-known/oauth-protected-resource/mcp: HTTP 404
        http://127.0.0.1:PORT/.well-known/oauth-protected-resource: HTTP 404
        http://127.0.0.1:PORT/.well-known/oauth-authorization-server: HTTP 404
        http://127.0.0.1:PORT/.well-known/openid-configuration: HTTP 404
        no token is stored
        No metadata at any of the usual places, so there is no way to log in
        hint: Ask the server's operator for a token, and give it with --header
        'Authorization: Bearer …', --bearer-file or --bearer-command
        > POST http://127.0.0.1:PORT/mcp
        > accept: application/json, text/event-stream
        > content-type: application/json
        > user-agent: mcp-span/VERSION
        > {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{},"clientInfo":{"name":"mcp-span","version":"VERSION"},"protocolVersion":"2025-11-25"}}
        < HTTP/1.1 401
        < content-length: 12
        < content-type: text/plain
        < who are you?
        "#);
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
    assert!(finding.contains("lacks PKCE with S256, a way to register a client"), "{finding}");
    assert!(finding.contains("hint: Register a client by hand"), "{finding}");
    let edit_resource =
        |d: &mut serde_json::Value, _: &str| d["resource"] = "https://evil.example/".into();
    let provider = Provider::start(Manners { edit_resource, ..Manners::default() }).await;
    let finding = checked_at(&provider, &[]).await.finding("authorization").replace('\n', " ");
    assert!(finding.contains("login impossible"), "{finding}");
    assert!(finding.contains("says that it is https://evil.example/"), "{finding}");
}

#[tokio::test]
async fn a_stored_token_is_used_and_told_of() {
    let provider = Provider::start(Manners::default()).await;
    assert!(provider.run("login", &[]).await.status.success());
    let found = checked_at(&provider, &["-v"]).await;
    assert_eq!(
        found.finding("authorization"),
        "✓ authorization  the token of the login is accepted\n\
         a token is stored, valid for 59 minutes; it can be renewed"
    );
    assert!(!found.text.contains("hidden-"), "{found:?}");
    // One that has expired is renewed, as the bridge does it.
    provider.desk.expire();
    let found = checked_at(&provider, &[]).await;
    assert!(found.finding("authorization").starts_with("✓ "), "{found:?}");
    provider.desk.forget_tokens();
    let found = checked_at(&provider, &[]).await;
    assert_eq!(found.code, Some(3));
    assert!(found.finding("authorization").contains("login required"), "{found:?}");
    assert_eq!(provider.pages().len(), 1, "that of `login`");
}

#[tokio::test]
async fn a_login_is_made_if_it_is_asked_for() {
    let provider = Provider::start(Manners::default()).await;
    let found = checked_at(&provider, &["--login"]).await;
    assert_ne!(found.code, Some(3), "{found:?}");
    assert_eq!(provider.pages().len(), 1);
    assert!(found.finding("authorization").starts_with("✓ "), "{found:?}");
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
    wrong.says("authorization", r#"
        ✗ authorization  the credentials are refused (HTTP 401 without WWW-Authenticate)
        The given token or header is wrong, expired, or meant for something else; there
        is no login where credentials are given, or with --no-oauth
        hint: Check the token, or omit it to log in
        > POST http://127.0.0.1:PORT/mcp
        > accept: application/json, text/event-stream
        > authorization: Bearer [secret]
        > content-type: application/json
        > user-agent: mcp-span/VERSION
        > {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{},"clientInfo":{"name":"mcp-span","version":"VERSION"},"protocolVersion":"2025-11-25"}}
        < HTTP/1.1 401
        < content-length: 28
        < content-type: application/json
        < {"error":"bad [secret]"}
        "#);
    assert!(!wrong.text.contains("hidden-token"), "{wrong:?}");
    let right = check(&[&server.url, "-H", "Authorization: Bearer right-token-1"], &[]).await;
    assert_eq!(right.code, Some(0), "{right:?}");
    let none = check(&[&server.url, "--bearer-command", "false"], &[]).await;
    assert_eq!(none.code, Some(3));
    assert!(none.finding("authorization").contains("has none, so nothing was sent"), "{none:?}");
    let barred = Server::start(|_| Reply::status(403, "text/plain", "blocked")).await;
    let found = check(&[&barred.url], &[]).await;
    assert!(found.finding("authorization").contains("access is refused (HTTP 403"), "{found:?}");
}
