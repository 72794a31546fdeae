//! Logins: begun by a server that refuses us, done once, and then kept.

use std::time::Duration;

use serde_json::json;

use crate::support::desk::{Desk, Form};
use crate::support::provider::files_below;
use crate::support::{Hub, INITIALIZE, Manners, Provider, Reply, Server, polite, request, soon};

/// The second sort of quiet: nobody but the MCP endpoint was asked anything.
fn is_left_alone(provider: &Provider) -> bool {
    provider.pages().is_empty() && provider.server().requests().iter().all(|r| r.path == "/mcp")
}

#[tokio::test]
async fn the_whole_flow_happens_once_and_the_next_process_has_the_token_from_the_store() {
    // S4-03, S4-28; protocol d 1-7
    let provider = Provider::start(Manners::default()).await;
    let mut bridge = provider.ready(&["--no-server-stream"]).await;
    assert!(bridge.ask(request(1, "a")).await["result"].is_object());
    let (_, status, stderr) = bridge.finish().await;
    assert!(status.success());
    let pages = provider.pages();
    let host = provider.url.trim_start_matches("http://").trim_end_matches("/mcp");
    assert_eq!(stderr, format!("mcp-span: log in to {host}: open {}\n", pages[0]));
    assert_eq!(pages.len(), 1);
    let registered = provider.at("/register")[0].json();
    assert_eq!(registered["application_type"], "native");
    assert_eq!(registered["grant_types"], json!(["authorization_code", "refresh_token"]));
    let asked = &provider.logins()[0];
    assert_eq!(asked.get("resource"), provider.url);
    assert_eq!(asked.get("scope"), "read");
    assert_eq!(provider.forms()[0].get("resource"), provider.url);
    let first = provider.carried();
    assert_eq!(first[0], ("initialize".to_owned(), "-".to_owned()));
    assert!(first[1..].iter().all(|(_, token)| token == "hidden-access-2"), "{first:?}");
    assert_eq!(first.last().unwrap().0, "DELETE");

    let bridge = provider.ready(&["--no-server-stream"]).await;
    let (_, _, stderr) = bridge.finish().await;
    assert_eq!(stderr, "");
    assert_eq!(provider.at("/token").len(), 1);
    let all = provider.carried();
    assert!(all[first.len()..].iter().all(|(_, token)| token == "hidden-access-2"), "{all:?}");
}

#[tokio::test]
async fn nobody_is_asked_anything_before_a_401() {
    // C5
    let open = Server::start(polite).await;
    let url = open.url.clone();
    let provider = Provider::with(url, Desk::new(Manners::default()).into(), vec![open]);
    let mut bridge = provider.ready(&[]).await;
    bridge.ask(request(1, "a")).await;
    bridge.finish().await;
    assert!(is_left_alone(&provider));
    assert!(files_below(&provider.path("state")).is_empty());
}

#[tokio::test]
async fn a_401_of_a_server_that_knows_of_no_logins_is_the_clients_to_see() {
    // C5, S1-42
    let manners = Manners {
        challenge: None,
        resource_at: "/nowhere",
        described_at: "/nowhere",
        ..Manners::default()
    };
    let provider = Provider::start(manners).await;
    let mut bridge = provider.bridge(&[]);
    let error = bridge.ask(INITIALIZE).await["error"].clone();
    assert_eq!(error["data"]["status"], 401, "{error}");
    assert_eq!(error["data"]["kind"], "http-status", "{error}");
    assert!(error["data"]["hint"].is_string(), "{error}");
    assert!(provider.pages().is_empty());
    let (_, _, stderr) = bridge.finish().await;
    assert!(!stderr.contains("log in to"), "{stderr}");
}

#[tokio::test]
async fn credentials_of_the_users_own_are_never_replaced_by_a_login() {
    // C5
    for (args, env) in [
        (vec!["--header", "Authorization: Bearer mine"], vec![]),
        (vec!["--bearer-env", "T"], vec![("T", "mine")]),
        (vec!["--bearer-command", "echo mine"], vec![]),
        (vec!["--no-oauth"], vec![]),
    ] {
        let provider = Provider::start(Manners::default()).await;
        let mut bridge = provider.bridge_with(&args, &env);
        let error = bridge.ask(INITIALIZE).await["error"].clone();
        assert_eq!(error["data"]["status"], 401, "{error}");
        assert!(is_left_alone(&provider), "{args:?}");
    }
    let mut provider = Provider::start(Manners::default()).await;
    provider.url = provider.url.replace("http://", "http://me:mine@");
    let error = provider.bridge(&[]).ask(INITIALIZE).await["error"].clone();
    assert_eq!(error["data"]["status"], 401, "{error}");
    assert!(is_left_alone(&provider));
}

#[tokio::test]
async fn a_probe_opens_no_browser_and_the_handshake_behind_it_does() {
    // C5, C22
    let provider = Provider::start(Manners::default()).await;
    let mut bridge = provider.bridge(&[]);
    let answer = bridge.ask(request(1, "server/discover")).await;
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    assert!(is_left_alone(&provider));
    bridge.handshake().await;
    assert_eq!(provider.pages().len(), 1);
    drop(bridge);
    // With a token that is kept, the question goes through.
    let answer = provider.bridge(&[]).ask(request(1, "server/discover")).await;
    assert!(answer["result"].is_object(), "{answer}");
}

#[tokio::test]
async fn the_listener_is_up_before_the_browser_starts() {
    let provider = Provider::start(Manners::default()).await;
    provider.browse(
        r#"port=$(printf '%s' "$1" | sed 's/.*redirect_uri=http%3A%2F%2F127\.0\.0\.1%3A\([0-9]*\)%2F.*/\1/')
           curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port/early" > "$2/early"
           curl -sL "$1" > "$2/last-page""#,
    );
    let bridge = provider.ready(&[]).await;
    assert_eq!(std::fs::read_to_string(provider.path("early")).unwrap(), "404");
    bridge.finish().await;
    // The token is there before the browser has its page.
    let page = soon("the page", async {
        loop {
            let page = std::fs::read_to_string(provider.path("last-page")).unwrap();
            if !page.is_empty() {
                return page;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert!(page.contains("You are logged in"), "{page}");
}

#[tokio::test]
async fn providers_are_found_wherever_they_describe_themselves() {
    // protocol d 2, 3
    let root = "/.well-known/oauth-protected-resource";
    let none = Manners { challenge: Some(""), ..Manners::default() };
    for manners in [
        none.clone(),
        Manners { resource_at: root, ..none.clone() },
        Manners { elsewhere: true, ..Manners::default() },
        Manners { described_at: "/.well-known/openid-configuration", ..none.clone() },
        Manners {
            tenant: "/t",
            described_at: "/.well-known/oauth-authorization-server/t",
            elsewhere: true,
            ..none.clone()
        },
        Manners {
            tenant: "/t",
            described_at: "/.well-known/openid-configuration/t",
            ..none.clone()
        },
        Manners {
            tenant: "/t",
            described_at: "/t/.well-known/openid-configuration",
            ..none.clone()
        },
    ] {
        let places = (manners.resource_at, manners.described_at, manners.tenant);
        let provider = Provider::start(manners).await;
        provider.ready(&[]).await;
        assert_eq!(provider.logins().len(), 1, "{places:?}");
        assert_eq!(provider.logins()[0].get("resource"), provider.url, "{places:?}");
    }
}

#[tokio::test]
async fn a_server_of_the_first_revision_with_logins_is_its_own_provider() {
    // protocol d: 2025-03-26
    let manners = Manners { resource_at: "/nowhere", challenge: None, ..Manners::default() };
    for manners in [
        manners.clone(),
        Manners { described_at: "/nowhere", challenge: Some("realm=x"), ..manners },
    ] {
        let provider = Provider::start(manners).await;
        provider.ready(&[]).await;
        assert_eq!(provider.logins().len(), 1);
        assert!(!provider.logins()[0].has("resource"), "it knows no such thing");
    }
}

#[tokio::test]
async fn two_processes_that_need_a_login_share_one() {
    // protocol d 7; peers b 23
    let provider = Provider::start(Manners::default()).await;
    provider
        .browse("while [ ! -e \"$2/go\" ]; do sleep 0.02; done\nexec curl -sL -o /dev/null \"$1\"");
    let mut bridges = [provider.bridge(&[]), provider.bridge(&[])];
    for bridge in &mut bridges {
        bridge.send(INITIALIZE).await;
    }
    provider.server().saw_count("initialize", 2).await;
    provider.browsed(1).await;
    std::fs::write(provider.path("go"), "").unwrap();
    for bridge in &mut bridges {
        let answer = bridge.receive().await;
        assert!(answer["result"].is_object(), "{answer}");
    }
    assert_eq!(provider.pages().len(), 1);
    assert_eq!(provider.at("/token").len(), 1);
}

#[tokio::test]
async fn many_requests_of_one_process_share_one_login() {
    let provider = Provider::start(Manners::default()).await;
    let mut bridge = provider.bridge(&["--no-server-stream"]);
    let lines: String = (0..20).map(|id| request(id, "tools/call") + "\n").collect();
    bridge.send_bytes(lines.as_bytes()).await;
    for _ in 0..20 {
        let answer = bridge.receive().await;
        assert!(answer["result"].is_object(), "{answer}");
    }
    assert_eq!(provider.pages().len(), 1);
}

#[tokio::test]
async fn every_sort_of_request_carries_the_token() {
    // protocol d 8; S4-24
    let provider = Provider::start(Manners::default()).await;
    let mut bridge = provider.ready(&[]).await;
    provider.server().saw("GET").await;
    bridge.ask(request(1, "a")).await;
    bridge.finish().await;
    let carried = provider.carried();
    for what in ["notifications/initialized", "GET", "a", "DELETE"] {
        assert!(
            carried.iter().any(|(w, token)| w == what && token == "hidden-access-2"),
            "{what}: {carried:?}"
        );
    }
}

#[tokio::test]
async fn servers_of_the_older_transport_are_logged_in_to_as_well() {
    let desk = std::sync::Arc::new(Desk::new(Manners {
        challenge: Some(""),
        resource_at: "/.well-known/oauth-protected-resource",
        edit_resource: |document, origin| document["resource"] = format!("{origin}/").into(),
        ..Manners::default()
    }));
    let at = std::sync::Arc::clone(&desk);
    let hub = Hub::start(move |r, _| at.answer(r)).await;
    desk.guards(&hub.url);
    let provider = Provider::with(hub.url.clone(), desk, Vec::new());
    let mut bridge = provider.ready(&[]).await;
    assert!(bridge.ask(request(1, "tools/list")).await["result"].is_object());
    bridge.finish().await;
    let mut asked = hub.requests();
    asked
        .retain(|r| r.path.starts_with("/mess") || r.header("accept") == Some("text/event-stream"));
    let tokens: Vec<_> = asked.iter().map(|r| r.header("authorization")).collect();
    assert!(tokens.len() > 3, "{asked:?}");
    let login = tokens.iter().position(Option::is_some).unwrap();
    let with_token = Some("Bearer hidden-access-2");
    assert!(tokens[login..].iter().all(|token| *token == with_token), "{tokens:?}");
    let logins = hub.requests().iter().filter(|r| r.path == "/token").map(Form::of).count();
    assert_eq!(logins, 1);
}

#[tokio::test]
async fn a_person_may_take_longer_than_a_request() {
    // C2: the clock is for the server
    let provider = Provider::guarding(Manners::default(), |r| match &*r.what() {
        "tools/call" => Reply::nothing().hang(),
        _ => polite(r),
    })
    .await;
    provider.browse("sleep 1.5\nexec curl -sL -o /dev/null \"$1\"");
    let mut bridge = provider.bridge(&["--timeout", "0.5", "--no-server-stream"]);
    bridge.handshake().await;
    let error = bridge.ask(request(1, "tools/call")).await["error"].clone();
    assert_eq!(error["data"]["kind"], "timeout", "{error}");
}

#[tokio::test]
async fn nobody_logs_in_to_leave() {
    let provider = Provider::start(Manners { gives_refresh: false, ..Manners::default() }).await;
    let bridge = provider.ready(&["--no-server-stream"]).await;
    provider.server().saw("notifications/initialized").await;
    provider.desk.expire();
    let (_, status, _) = bridge.finish().await;
    assert!(status.success());
    assert_eq!(provider.server().all("DELETE").len(), 1);
    assert_eq!(provider.pages().len(), 1);
}
