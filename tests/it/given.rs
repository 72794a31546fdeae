//! Logins where the user knows more than servers say: endpoints, tokens, codes and parameters.

use serde_json::Value;

use crate::support::desk::Form;
use crate::support::{INITIALIZE, Manners, Provider, request};

/// A provider that says nothing of itself, with a client of ours.
fn silent() -> Manners {
    Manners {
        resource_at: "/nowhere",
        described_at: "/nowhere",
        challenge: None,
        known: Some(("mine", "s3cret")),
        proof: "client_secret_post",
        ..Manners::default()
    }
}

/// The flags for it: where tokens are had, and who we are.
fn by_hand(provider: &Provider) -> Vec<String> {
    let at = |path: &str| format!("{}{path}", provider.desk.issuer());
    let flags = [
        ("--oauth-token-url", at("/token")),
        ("--oauth-client-id", "mine".to_owned()),
        ("--oauth-client-secret-env", "CLIENT_SECRET".to_owned()),
        ("--oauth-auth-style", "post".to_owned()),
    ];
    let mut flags: Vec<String> =
        flags.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect();
    flags.push("--no-server-stream".to_owned());
    flags
}

/// A bridge with these and more, whose handshake succeeds.
async fn ready(provider: &Provider, more: &[&str], env: &[(&str, &str)]) -> crate::support::Bridge {
    let flags = by_hand(provider);
    let flags: Vec<&str> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
    let env = [env, &[("CLIENT_SECRET", "s3cret")]].concat();
    let mut bridge = provider.bridge_with(&flags, &env);
    bridge.handshake().await;
    bridge
}

fn asked_for_metadata(provider: &Provider) -> bool {
    provider.server().requests().iter().any(|r| r.path.contains(".well-known"))
}

#[tokio::test]
async fn a_person_logs_in_at_addresses_that_nobody_has_to_find() {
    let provider = Provider::start(silent()).await;
    let page = format!("{}/authorize", provider.desk.issuer());
    let more = [
        "--oauth-authorization-url",
        &page,
        "--oauth-scope",
        "a",
        "--oauth-authorize-param",
        "access_type=offline",
        "--oauth-authorize-param=prompt=login",
        "--oauth-param",
        "tenant=t1",
        "--oauth-callback-host",
        "localhost",
        "--oauth-callback-path",
        "/oauth/callback",
    ];
    let mut bridge = ready(&provider, &more, &[]).await;
    assert!(bridge.ask(request(1, "a")).await["result"].is_object());
    assert!(!asked_for_metadata(&provider));
    let login = &provider.logins()[0];
    assert_eq!((login.get("access_type"), login.get("prompt")), ("offline", "login"));
    assert!(!login.has("resource"), "nobody has named one");
    assert!(!login.has("tenant"), "that is for the token endpoint");
    let redirect = login.get("redirect_uri");
    assert!(redirect.starts_with("http://localhost:"), "{redirect}");
    assert!(redirect.ends_with("/oauth/callback"), "{redirect}");
    let form = &provider.forms()[0];
    assert_eq!((form.get("tenant"), form.get("client_secret")), ("t1", "s3cret"));
}

#[tokio::test]
async fn a_client_names_its_audience_and_its_resource() {
    let provider = Provider::start(silent()).await;
    let more = [
        "--oauth-grant",
        "client-credentials",
        "--oauth-audience",
        "api://x",
        "--oauth-resource",
        "https://other.example/",
    ];
    ready(&provider, &more, &[]).await;
    assert!(!asked_for_metadata(&provider));
    let form = &provider.forms()[0];
    assert_eq!(form.get("audience"), "api://x");
    assert_eq!(form.get("resource"), "https://other.example/");
    let plain = Provider::start(silent()).await;
    let basic = ["--oauth-grant", "client-credentials", "--oauth-auth-style=basic"];
    let flags = by_hand(&plain);
    let flags: Vec<&str> = flags.iter().map(String::as_str).filter(|f| *f != "post").collect();
    let flags: Vec<&str> =
        flags.into_iter().filter(|f| *f != "--oauth-auth-style").chain(basic).collect();
    let mut bridge = plain.bridge_with(&flags, &[("CLIENT_SECRET", "s3cret")]);
    bridge.ask(INITIALIZE).await;
    let asked = &plain.at("/token")[0];
    assert!(asked.header("authorization").unwrap().starts_with("Basic "), "{asked:?}");
    assert!(!Form::of(asked).has("client_secret"));
}

/// Tokens of a login that was made before.
async fn refresh_token(provider: &Provider) -> String {
    let page = format!("{}/authorize", provider.desk.issuer());
    let bridge = ready(provider, &["--oauth-authorization-url", &page], &[]).await;
    bridge.finish().await;
    let kept = provider.kept();
    let text: Value = serde_json::from_slice(&std::fs::read(&kept).unwrap()).unwrap();
    std::fs::remove_file(kept).unwrap();
    provider.desk.expire();
    text["token"]["refresh_token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_refresh_token_that_is_given_saves_the_login_and_what_it_brings_is_kept() {
    // 5(c): sources in order
    let provider = Provider::start(silent()).await;
    let token = refresh_token(&provider).await;
    let more = ["--oauth-refresh-token-env", "REFRESH", "--oauth-no-interactive"];
    let env = [("REFRESH", &*token)];
    ready(&provider, &more, &env).await.finish().await;
    assert_eq!(provider.grants("refresh_token"), 1);
    provider.desk.expire();
    // It was used up by now; the one that came for it is in the store.
    let (_, _, stderr) = ready(&provider, &more, &env).await.finish().await;
    assert_eq!((provider.grants("refresh_token"), &*stderr), (2, ""));
    assert_eq!((provider.pages().len(), provider.desk.replayed()), (1, 0));
}

#[tokio::test]
async fn where_nobody_is_to_be_asked_the_error_says_so() {
    let provider = Provider::start(silent()).await;
    let flags = by_hand(&provider);
    let flags: Vec<&str> =
        flags.iter().map(String::as_str).chain(["--oauth-no-interactive"]).collect();
    let mut bridge = provider.bridge_with(&flags, &[("CLIENT_SECRET", "s3cret")]);
    let error = bridge.ask(INITIALIZE).await["error"].clone();
    let text = error.to_string();
    assert!(text.contains("nobody is to be asked") && text.contains("mcp-span login"), "{text}");
    assert!(provider.pages().is_empty());
    // A refresh token that is too old is no way, either.
    let more = [&flags[..], &["--oauth-refresh-token-env", "REFRESH"]].concat();
    let env = [("CLIENT_SECRET", "s3cret"), ("REFRESH", "hidden-old")];
    let mut bridge = provider.bridge_with(&more, &env);
    let error = bridge.ask(INITIALIZE).await["error"].clone();
    assert!(error.to_string().contains("nobody is to be asked"), "{error}");
    let (_, _, stderr) = bridge.finish().await;
    assert!(stderr.contains("no good any more") && !stderr.contains("hidden-"), "{stderr}");
}

#[tokio::test]
async fn a_code_that_is_given_is_used_once() {
    // 5(c): authorizationCode, codeVerifier, redirectUri
    let provider = Provider::start(silent()).await;
    let verifier = "a-verifier-of-forty-three-letters-and-no-less";
    let digest = ring::digest::digest(&ring::digest::SHA256, verifier.as_bytes());
    use base64::Engine;
    let challenge = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(digest);
    let redirect = "https://app.example/back";
    let mut page = url::Url::parse(&provider.desk.issuer()).unwrap().join("/authorize").unwrap();
    page.query_pairs_mut().extend_pairs([
        ("response_type", "code"),
        ("client_id", "mine"),
        ("redirect_uri", redirect),
        ("state", "a-state-of-more-than-twenty-two"),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
    ]);
    let args = ["-s", "-o", "/dev/null", "-w", "%{redirect_url}", page.as_str()];
    let curl = tokio::process::Command::new("curl").args(args).output().await.unwrap();
    let back = url::Url::parse(std::str::from_utf8(&curl.stdout).unwrap()).unwrap();
    let code = back.query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned();
    let more = [
        "--oauth-code-env",
        "CODE",
        "--oauth-code-verifier-env",
        "VERIFIER",
        "--oauth-redirect-uri",
        redirect,
        "--oauth-no-interactive",
    ];
    let env = [("CODE", &*code), ("VERIFIER", verifier)];
    ready(&provider, &more, &env).await.finish().await;
    let (_, _, stderr) = ready(&provider, &more, &env).await.finish().await;
    assert_eq!((provider.grants("authorization_code"), &*stderr), (1, ""));
    assert!(provider.pages().is_empty());
}

#[tokio::test]
async fn tokens_are_renewed_as_early_as_the_user_wants() {
    for (skew, renewals) in [("30", 0), ("200", 1)] {
        let provider = Provider::start(Manners::default()).await;
        provider.ready(&[]).await.finish().await;
        provider.leave(100);
        let mut bridge = provider.ready(&["--oauth-skew", skew, "--no-server-stream"]).await;
        bridge.ask(request(1, "a")).await;
        assert_eq!(provider.grants("refresh_token"), renewals, "{skew}");
    }
}

#[tokio::test]
async fn a_person_has_as_long_as_the_user_wants() {
    let provider = Provider::start(Manners::default()).await;
    provider.browse("true");
    let login = provider.run("login", &["--oauth-login-timeout", "0.5"]).await;
    assert_eq!(login.status.code(), Some(1));
    let stderr = String::from_utf8(login.stderr).unwrap();
    assert!(stderr.contains("Nobody has logged in to"), "{stderr}");
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused_at_the_start() {
    let provider = Provider::start(Manners::default()).await;
    for (args, part) in [
        (&["--oauth-no-discovery"][..], "needs --oauth-token-url"),
        (&["--oauth-token-url", "http://as.example/token"], "is plain http to another machine"),
        (&["--oauth-authorization-url", "ftp://as.example/"], "the scheme is 'ftp'"),
        (&["--oauth-callback-host", "0.0.0.0"], "must be 127.0.0.1 or localhost"),
        (&["--oauth-callback-path", "callback"], "must be a path"),
        (&["--oauth-param", "s3cret"], "NAME=VALUE"),
        (&["--oauth-authorize-param", "state=s3cret"], "state is not to be set by hand"),
        (&["--oauth-refresh-token-env", "NOT_THERE"], "the variable NOT_THERE is not set"),
        (&["--oauth-auth-style", "loud"], "'loud'"),
    ] {
        let output = provider.run("status", args).await;
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(part) && !stderr.contains("s3cret"), "{args:?}: {stderr}");
    }
}
