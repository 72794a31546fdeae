//! Who gives out tokens for a server: where that is looked for, in which order, and for how long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::provider::place;
use crate::support::{INITIALIZE, Manners, Provider, Reply, Request};

const RESOURCE: &str = "/.well-known/oauth-protected-resource";
const RESOURCE_MCP: &str = "/.well-known/oauth-protected-resource/mcp";
const OAUTH: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";

/// The documents that were asked for in a login that succeeds, in order.
async fn asked_for(manners: Manners) -> Vec<String> {
    let provider = Provider::start(manners).await;
    provider.ready(&["--no-server-stream"]).await;
    let mut asked = provider.server().requests();
    asked.retain(|r| r.http_method == "GET" && place(r) != "/authorize");
    asked.iter().map(|r| place(r).to_owned()).collect()
}

#[tokio::test]
async fn the_resource_is_asked_where_the_challenge_says_then_below_its_path_then_at_the_root() {
    // RFC 9728; protocol d 2
    let named = Manners {
        challenge: Some(r#"resource_metadata="{}/who""#),
        resource_at: "/who",
        ..Manners::default()
    };
    assert_eq!(asked_for(named.clone()).await, ["/who", OAUTH]);
    let unnamed = Manners { challenge: Some("realm=x"), ..Manners::default() };
    assert_eq!(asked_for(unnamed.clone()).await, [RESOURCE_MCP, OAUTH]);
    let at_root = Manners { resource_at: RESOURCE, ..unnamed };
    assert_eq!(asked_for(at_root).await, [RESOURCE_MCP, RESOURCE, OAUTH]);
    // The one that was named is not there.
    let in_vain = Manners { resource_at: RESOURCE, ..named };
    assert_eq!(asked_for(in_vain).await, ["/who", RESOURCE_MCP, RESOURCE, OAUTH]);
}

#[tokio::test]
async fn a_place_that_is_no_address_is_passed_over() {
    for challenge in [
        r#"resource_metadata="/.well-known/oauth-protected-resource/mcp""#,
        r#"resource_metadata="file:///etc/hostname""#,
    ] {
        let manners = Manners { challenge: Some(challenge), ..Manners::default() };
        assert_eq!(asked_for(manners).await, [RESOURCE_MCP, OAUTH], "{challenge}");
    }
}

#[tokio::test]
async fn of_several_providers_the_first_that_says_something_is_taken() {
    let edit_resource = |document: &mut serde_json::Value, _: &str| {
        let real = document["authorization_servers"][0].clone();
        // Nobody listens there.
        document["authorization_servers"] = serde_json::json!(["http://127.0.0.1:9", real]);
    };
    let manners = Manners { edit_resource, ..Manners::default() };
    assert_eq!(asked_for(manners).await, [RESOURCE_MCP, OAUTH]);
}

#[tokio::test]
async fn an_issuer_is_asked_by_oauths_rule_then_by_openids_and_with_a_path_in_three_places() {
    // RFC 8414; protocol d 3
    let at = |described_at| Manners { described_at, ..Manners::default() };
    assert_eq!(asked_for(at(OPENID)).await, [RESOURCE_MCP, OAUTH, OPENID]);
    let of_tenant = |described_at| Manners { tenant: "/t", ..at(described_at) };
    let places = [
        "/.well-known/oauth-authorization-server/t",
        "/.well-known/openid-configuration/t",
        "/t/.well-known/openid-configuration",
    ];
    for (last, place) in places.iter().enumerate() {
        let expected = [&[RESOURCE_MCP], &places[..=last]].concat();
        assert_eq!(asked_for(of_tenant(place)).await, expected);
    }
}

#[tokio::test]
async fn the_challenge_for_bearers_is_found_among_others_in_one_header_or_several() {
    // protocol d 1
    for (first, second) in [
        (r#"Basic realm="a, Bearer scope=\"no\"", Bearer realm=x, SCOPE = "right"@"#, None),
        ("Negotiate YWJj==, Bearer scope=right@", Some("Basic realm=x")),
        ("Basic realm=x", Some(r#"Digest nonce="Bearer scope=no", bearer scope="right"@"#)),
    ] {
        let instead = move |r: &Request| {
            let whole = |text: &str| {
                let named = format!(", resource_metadata=\"http://{}/who\"", r.header("host")?);
                Some(text.replace('@', &named))
            };
            let is_stranger = place(r) == "/mcp" && r.header("authorization").is_none();
            let mut reply = is_stranger.then(|| Reply::status(401, "", ""))?;
            for text in [Some(first), second].into_iter().flatten() {
                reply = reply.header("WWW-Authenticate", &whole(text)?);
            }
            Some(reply)
        };
        let manners =
            Manners { resource_at: "/who", instead: Arc::new(instead), ..Manners::default() };
        let provider = Provider::start(manners).await;
        provider.ready(&[]).await;
        assert_eq!(provider.logins()[0].get("scope"), "right", "{first} {second:?}");
        assert_eq!(provider.at("/who").len(), 1);
    }
}

#[tokio::test]
async fn ghsa_8r9q_7v3j_jr4g_no_challenge_is_too_tangled_to_be_read() {
    let tangled = [
        format!("Bearer {}", "a=\"\\\"\\\"\",,, ".repeat(4000)),
        format!("Bearer {}", "=".repeat(50_000)),
        format!("Bearer scope=\"{}", "\\".repeat(50_000)),
        "Bearer ".repeat(8000),
    ];
    for text in tangled {
        let reply = Reply::status(401, "", "").header("WWW-Authenticate", text.trim_end());
        let manners = Manners { resource_at: "/no", described_at: "/no", ..Manners::default() };
        let provider = Provider::start(manners.instead("/mcp", reply)).await;
        let begun = Instant::now();
        let error = provider.bridge(&[]).ask(INITIALIZE).await["error"].clone();
        assert_eq!(error["data"]["status"], 401, "{error}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn a_provider_that_never_finishes_its_metadata_is_not_waited_for() {
    for path in [RESOURCE_MCP, OAUTH] {
        let manners = Manners::default().instead(path, Reply::nothing().hang());
        let provider = Provider::start(manners).await;
        let begun = Instant::now();
        let mut bridge = provider.bridge(&["--oauth-wait", "30"]);
        let error = bridge.ask(INITIALIZE).await["error"].clone();
        assert_eq!(error["data"]["status"], 401, "{error}");
        assert!(begun.elapsed() < Duration::from_secs(14), "{:?}", begun.elapsed());
        assert!(provider.pages().is_empty());
    }
}
