//! Tokens of logins: renewed in time and once for all, widened on demand, and never given away.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::desk::{Desk, refusal};
use crate::support::provider::place;
use crate::support::{
    Bridge, Feed, Hub, INITIALIZE, Manners, Provider, Reply, Request, Server, polite, request, soon,
};

async fn all_answer(bridge: &mut Bridge, count: usize) {
    let lines: String = (0..count).map(|id| request(id, "tools/call") + "\n").collect();
    bridge.send_bytes(lines.as_bytes()).await;
    for _ in 0..count {
        let answer = bridge.receive().await;
        assert!(answer["result"].is_object(), "{answer}");
    }
}

/// A challenge that leads to the provider, with more to say.
fn challenged(status: u16, more: &str) -> Reply {
    Reply::status(status, "", "").header("WWW-Authenticate", &format!("Bearer {more}"))
}

#[tokio::test]
async fn twenty_requests_at_expiry_cause_one_refresh() {
    // S4-12; protocol d 7
    let provider = Provider::start(Manners::default()).await;
    let mut bridge = provider.ready(&["--no-server-stream"]).await;
    provider.desk.expire();
    all_answer(&mut bridge, 20).await;
    assert_eq!(provider.grants("refresh_token"), 1);
    assert_eq!(provider.pages().len(), 1);
    let (_, _, stderr) = bridge.finish().await;
    assert_eq!(stderr.lines().count(), 1, "only the login: {stderr}");
}

#[tokio::test]
async fn two_processes_at_expiry_refresh_once_between_them() {
    // protocol d 7; peers b 23
    let provider = Provider::start(Manners::default()).await;
    let mut first = provider.ready(&["--no-server-stream"]).await;
    let mut second = provider.ready(&["--no-server-stream"]).await;
    for _ in 0..3 {
        provider.desk.expire();
        tokio::join!(all_answer(&mut first, 5), all_answer(&mut second, 5));
    }
    assert_eq!(provider.grants("refresh_token"), 3);
    assert_eq!(provider.desk.replayed(), 0);
    assert_eq!(provider.pages().len(), 1);
}

#[tokio::test]
async fn sixty_requests_of_three_processes_at_expiry_cause_one_refresh() {
    // protocol d 7; peers b 23
    let provider = Provider::start(Manners::default()).await;
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(provider.ready(&["--no-server-stream"]).await);
    }
    provider.desk.expire();
    let [first, second, third] = &mut all[..] else { panic!("three were started") };
    tokio::join!(all_answer(first, 20), all_answer(second, 20), all_answer(third, 20));
    assert_eq!(provider.grants("refresh_token"), 1);
    assert_eq!(provider.desk.replayed(), 0);
}

#[tokio::test]
async fn two_processes_with_an_old_token_refresh_once_before_they_ask() {
    let provider = Provider::start(Manners::default()).await;
    assert!(provider.run("login", &[]).await.status.success());
    provider.leave(29);
    let before = provider.carried().len();
    let mut both = [provider.bridge(&[]), provider.bridge(&[])];
    for bridge in &mut both {
        bridge.send(INITIALIZE).await;
    }
    for bridge in &mut both {
        assert!(bridge.receive().await["result"].is_object());
    }
    assert_eq!(provider.grants("refresh_token"), 1, "30 seconds before the end of its life");
    let carried = &provider.carried()[before..];
    assert!(carried.iter().all(|(_, token)| token != "hidden-access-2"), "{carried:?}");
}

#[tokio::test]
async fn a_token_that_is_good_for_a_minute_is_used() {
    for lifetime in [json!(60), json!("60"), Value::Null] {
        let lifetimes = (lifetime, json!(3600));
        let provider = Provider::start(Manners { lifetimes, ..Manners::default() }).await;
        provider.ready(&[]).await;
        provider.ready(&[]).await;
        assert_eq!(provider.at("/token").len(), 1);
    }
}

#[tokio::test]
async fn rotated_refresh_tokens_are_kept_for_the_next_time_and_the_next_process() {
    let provider = Provider::start(Manners::default()).await;
    for _ in 0..2 {
        let mut bridge = provider.ready(&["--no-server-stream"]).await;
        for _ in 0..2 {
            provider.desk.expire();
            all_answer(&mut bridge, 1).await;
        }
    }
    assert_eq!(provider.grants("refresh_token"), 4);
    assert_eq!(provider.desk.replayed(), 0);
    assert_eq!(provider.pages().len(), 1);
}

#[tokio::test]
async fn a_refresh_token_that_is_not_replaced_is_used_again() {
    let provider = Provider::start(Manners { rotates: false, ..Manners::default() }).await;
    let mut bridge = provider.ready(&["--no-server-stream"]).await;
    for _ in 0..2 {
        provider.desk.expire();
        all_answer(&mut bridge, 1).await;
    }
    let forms = provider.forms();
    assert_eq!(forms.len(), 3);
    assert_eq!(forms[1].get("refresh_token"), forms[2].get("refresh_token"));
    assert_eq!(forms[2].get("resource"), provider.url);
}

#[tokio::test]
async fn a_refresh_that_is_refused_leads_to_another_login() {
    let provider = Provider::start(Manners::default()).await;
    let mut bridge = provider.ready(&["--no-server-stream"]).await;
    provider.desk.forget_tokens();
    all_answer(&mut bridge, 3).await;
    assert_eq!(provider.pages().len(), 2);
    assert_eq!(provider.at("/register").len(), 1, "the same client");
    assert_eq!(provider.desk.replayed(), 1, "and the token was tried once");
}

#[tokio::test]
async fn without_a_refresh_token_the_end_of_the_token_means_a_login() {
    let provider = Provider::start(Manners { gives_refresh: false, ..Manners::default() }).await;
    provider.ready(&[]).await;
    provider.desk.expire();
    provider.ready(&[]).await;
    assert_eq!(provider.pages().len(), 2);
    assert_eq!(provider.grants("refresh_token"), 0);
}

#[tokio::test]
async fn a_provider_that_has_forgotten_the_client_gets_it_registered_anew() {
    let provider = Provider::start(Manners::default()).await;
    let mut bridge = provider.ready(&["--no-server-stream"]).await;
    provider.desk.expire();
    provider.desk.forget_clients();
    all_answer(&mut bridge, 2).await;
    assert_eq!(provider.at("/register").len(), 2);
    assert_eq!(provider.pages().len(), 2);
}

#[tokio::test]
async fn a_client_that_is_refused_with_its_code_is_registered_anew_the_next_time() {
    let asked = AtomicUsize::new(0);
    let instead = move |r: &Request| {
        let is_second = place(r) == "/token" && asked.fetch_add(1, Ordering::SeqCst) == 1;
        is_second.then(|| refusal(401, "invalid_client", "never heard of it"))
    };
    let manners =
        Manners { instead: Arc::new(instead), gives_refresh: false, ..Manners::default() };
    let provider = Provider::start(manners).await;
    provider.ready(&[]).await;
    provider.desk.expire();
    let error = provider.bridge(&[]).ask(INITIALIZE).await["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("never heard of it"), "{error}");
    assert!(provider.run("login", &[]).await.status.success());
    assert_eq!(provider.at("/register").len(), 2);
}

#[tokio::test]
async fn the_second_401_in_a_row_is_the_clients_to_see_and_no_loop_of_tabs() {
    // S4-12, S4-13
    for gives_refresh in [true, false] {
        let manners = Manners { gives_refresh, ..Manners::default() };
        let reply = challenged(401, "error=invalid_token");
        let provider = Provider::start(manners.instead("/mcp", reply)).await;
        let mut bridge = provider.bridge(&[]);
        for id in 0..6 {
            let error = bridge.ask(request(id, "tools/call")).await["error"].clone();
            assert_eq!(error["data"]["status"], 401, "{error}");
            assert!(error["data"]["hint"].is_string(), "{error}");
            assert!(error["message"].as_str().unwrap().contains("invalid_token"), "{error}");
            if id == 0 {
                let tokens: Vec<_> = provider.carried().into_iter().map(|(_, t)| t).collect();
                assert_eq!(tokens, ["-", "hidden-access-2"], "one fresh token, one retry");
            }
        }
        let asked = provider.carried().len();
        assert!(asked <= 12, "{asked}");
        let pages = provider.pages().len();
        // Who cannot renew a token logs in once more, and then no more.
        assert_eq!(pages, if gives_refresh { 1 } else { 2 });
    }
}

#[tokio::test]
async fn a_server_that_has_changed_its_provider_is_logged_in_to_there() {
    // The old provider still renews, but the server takes nothing of it any more.
    let edit_token = |answer: &mut Value, _: &str| answer["access_token"] = "hidden-moved".into();
    let new = Provider::start(Manners { edit_token, ..Manners::default() }).await;
    let issuer = new.desk.issuer();
    let has_moved = Arc::new(AtomicUsize::new(0));
    let moving = Arc::clone(&has_moved);
    let instead = move |r: &Request| {
        if moving.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let origin = format!("http://{}", r.header("host").unwrap());
        match place(r) {
            "/.well-known/oauth-protected-resource/mcp" => {
                let answer =
                    json!({"resource": format!("{origin}/mcp"), "authorization_servers": [issuer]});
                Some(Reply::json(answer.to_string()))
            }
            "/mcp" if r.header("authorization") == Some("Bearer hidden-moved") => Some(polite(r)),
            "/mcp" => Some(challenged(401, "error=invalid_token")),
            _ => None,
        }
    };
    let manners = Manners { instead: Arc::new(instead), ..Manners::default() };
    let provider = Provider::start(manners).await;
    let mut bridge = provider.ready(&["--no-server-stream"]).await;
    provider.server().saw("notifications/initialized").await;
    has_moved.store(1, Ordering::SeqCst);
    all_answer(&mut bridge, 3).await;
    assert_eq!(provider.grants("refresh_token"), 1);
    assert_eq!((provider.pages().len(), new.logins().len()), (2, 1));
    let sent_there: Vec<_> = new.forms().iter().map(|form| form.has("refresh_token")).collect();
    assert_eq!(sent_there, [false], "what the old one gave is not shown to the new one");
}

#[tokio::test]
async fn more_scope_is_asked_for_on_top_of_what_there_was() {
    // protocol d 9
    let needs = &[("tools/call", "write"), ("tools/list", "read")];
    let provider = Provider::start(Manners { needs, ..Manners::default() }).await;
    let mut bridge = provider.ready(&["--no-server-stream"]).await;
    all_answer(&mut bridge, 5).await;
    assert!(bridge.ask(request(7, "tools/list")).await["result"].is_object());
    let scopes: Vec<_> = provider.logins().iter().map(|l| l.get("scope").to_owned()).collect();
    assert_eq!(scopes, ["read", "read write"]);
    assert_eq!(provider.grants("refresh_token"), 0, "which could not widen it");
}

#[tokio::test]
async fn scope_that_the_user_has_not_asked_for_is_no_reason_for_a_login() {
    let needs = &[("tools/call", "write")];
    let provider = Provider::start(Manners { needs, ..Manners::default() }).await;
    let mut bridge = provider.ready(&["--no-server-stream", "--oauth-scope", "read"]).await;
    let error = bridge.ask(request(1, "tools/call")).await["error"].clone();
    assert_eq!(error["data"]["status"], 403, "{error}");
    assert_eq!(provider.pages().len(), 1);
    assert_eq!(provider.server().all("tools/call").len(), 1);
}

#[tokio::test]
async fn a_server_that_never_has_enough_scope_is_not_followed_for_ever() {
    // protocol d 9
    let reply = challenged(403, r#"error="insufficient_scope", scope="more""#);
    let manners = Manners::default().where_it_is(|r| r.what() == "tools/call", reply);
    let provider = Provider::start(manners).await;
    let mut bridge = provider.ready(&["--no-server-stream"]).await;
    for id in 0..5 {
        let error = bridge.ask(request(id, "tools/call")).await["error"].clone();
        assert_eq!(error["data"]["status"], 403, "{error}");
    }
    let pages = provider.pages().len();
    assert_eq!(pages, 2, "the login, and once for more");
    assert!(bridge.ask(request(9, "tools/list")).await["result"].is_object());
}

#[tokio::test]
async fn a_login_that_waits_for_a_person_keeps_nobody_from_renewing() {
    let needs = &[("tools/call", "write")];
    let provider = Provider::start(Manners { needs, ..Manners::default() }).await;
    let mut first = provider.ready(&["--no-server-stream"]).await;
    let mut second = provider.ready(&["--no-server-stream"]).await;
    provider.browse("exec sleep 60");
    first.send(request(1, "tools/call")).await;
    provider.browsed(2).await;
    provider.desk.expire();
    for bridge in [&mut first, &mut second] {
        let answer = bridge.ask(request(2, "tools/list")).await;
        assert!(answer["id"] == 2 && answer["result"].is_object(), "{answer}");
    }
    assert_eq!(provider.grants("refresh_token"), 1);
    assert_eq!((provider.desk.replayed(), provider.pages().len()), (0, 2));
}

#[tokio::test]
async fn a_login_replaces_what_was_renewed_while_it_lasted() {
    let needs = &[("tools/call", "write")];
    let provider = Provider::start(Manners { needs, ..Manners::default() }).await;
    let mut bridge = provider.ready(&["--no-server-stream"]).await;
    provider
        .browse("while [ ! -e \"$2/go\" ]; do sleep 0.02; done\nexec curl -sL -o /dev/null \"$1\"");
    bridge.send(request(1, "tools/call")).await;
    provider.browsed(2).await;
    provider.desk.expire();
    assert!(bridge.ask(request(2, "tools/list")).await["result"].is_object());
    // Whoever waits for the login looks at the store several times in this.
    tokio::time::sleep(Duration::from_millis(400)).await;
    std::fs::write(provider.path("go"), "").unwrap();
    let answer = bridge.receive().await;
    assert!(answer["id"] == 1 && answer["result"].is_object(), "{answer}");
    let kept = std::fs::read_to_string(provider.kept()).unwrap();
    assert!(kept.contains("read write"), "{kept}");
}

#[tokio::test]
async fn processes_that_get_the_same_access_token_again_do_not_use_a_refresh_token_twice() {
    // The first login and all renewals bring the same access token, and another refresh token.
    let asked = AtomicUsize::new(0);
    let instead = move |r: &Request| match place(r) {
        "/token" => {
            let n = asked.fetch_add(1, Ordering::SeqCst);
            let expires_in = if n == 0 { 4 } else { 3600 };
            let answer = json!({"access_token": "hidden-same", "expires_in": expires_in,
                "refresh_token": format!("hidden-refresh-{n}")});
            Some(Reply::json(answer.to_string()))
        }
        "/mcp" if r.header("authorization") == Some("Bearer hidden-same") => Some(polite(r)),
        _ => None,
    };
    let manners = Manners { instead: Arc::new(instead), ..Manners::default() };
    let provider = Provider::start(manners).await;
    let mut first = provider.ready(&["--no-server-stream"]).await;
    let mut second = provider.ready(&["--no-server-stream"]).await;
    // Half of its life is over.
    tokio::time::sleep(Duration::from_millis(2600)).await;
    for bridge in [&mut first, &mut second] {
        all_answer(bridge, 2).await;
    }
    assert_eq!(provider.grants("refresh_token"), 1);
}

#[tokio::test]
async fn a_plain_403_is_no_reason_for_a_login() {
    // C5
    for reply in [Reply::status(403, "text/plain", "not you"), challenged(403, "realm=x")] {
        let manners = Manners::default().where_it_is(|r| r.what() == "tools/call", reply);
        let provider = Provider::start(manners).await;
        let mut bridge = provider.ready(&["--no-server-stream"]).await;
        let error = bridge.ask(request(1, "tools/call")).await["error"].clone();
        assert_eq!(error["data"]["status"], 403, "{error}");
        assert_eq!(provider.pages().len(), 1);
        assert_eq!(provider.at("/token").len(), 1);
        let calls = provider.server().all("tools/call").len();
        assert_eq!(calls, 1, "nothing new, so nothing to try");
    }
}

#[tokio::test]
async fn rmcp_936_a_token_never_goes_to_another_origin() {
    // C5; peers c 6
    let thief = Server::start(polite).await;
    let reply = Reply::status(307, "", "").header("Location", &thief.url);
    let manners = Manners { elsewhere: true, ..Manners::default() };
    let manners = manners.where_it_is(|r| r.what() == "tools/call", reply);
    let provider = Provider::start(manners).await;
    let mut bridge = provider.ready(&["--no-server-stream"]).await;
    let error = bridge.ask(request(1, "tools/call")).await["error"].clone();
    assert_eq!(error["data"]["kind"], "redirect", "{error}");
    bridge.finish().await;
    assert!(thief.requests().is_empty());
    for r in provider.authority().requests() {
        assert_eq!(r.header("authorization"), None, "{r:?}");
        assert_eq!(r.header("mcp-session-id"), None, "{r:?}");
    }
}

#[tokio::test]
async fn a_provider_that_is_away_at_expiry_is_not_a_lost_account() {
    let manners = Manners::default().where_it_is(
        |r| r.text().contains("refresh_token&"),
        Reply::status(503, "text/plain", "later"),
    );
    let provider = Provider::start(manners).await;
    let mut bridge = provider.ready(&["--no-server-stream"]).await;
    provider.desk.expire();
    let error = bridge.ask(request(1, "tools/call")).await["error"].clone();
    assert_eq!(error["data"]["kind"], "login", "{error}");
    assert_eq!(error["data"]["status"], 401, "{error}");
    let kept = std::fs::read_to_string(provider.kept()).unwrap();
    assert!(kept.contains("hidden-refresh-2"));
    assert_eq!(provider.pages().len(), 1);
}

#[tokio::test]
async fn rmcp_936_neither_code_nor_secret_goes_to_where_the_token_endpoint_redirects() {
    let thief = Server::start(polite).await;
    for status in [302, 307, 308] {
        let reply = Reply::status(status, "", "").header("Location", &thief.url);
        let manners = Manners { proof: "client_secret_post", ..Manners::default() };
        let provider = Provider::start(manners.instead("/token", reply)).await;
        let error = provider.bridge(&[]).ask(INITIALIZE).await["error"].clone();
        assert!(error["message"].as_str().unwrap().contains("another origin"), "{error}");
        assert_eq!(provider.at("/token").len(), 1);
        assert!(thief.requests().is_empty(), "{status}");
    }
}

#[tokio::test]
async fn a_stream_that_is_opened_again_after_expiry_renews_the_token() {
    let feed = Feed::new();
    let first = feed.clone();
    let provider = Provider::guarding(Manners::default(), move |r| match &*r.http_method {
        "GET" => Reply::sse().feed(&first),
        _ => polite(r),
    })
    .await;
    let bridge = provider.ready(&[]).await;
    let streams = async |count: usize| {
        let opened = async {
            loop {
                let mut carried = provider.carried();
                carried.retain(|(what, _)| what == "GET");
                if carried.len() >= count {
                    return carried.into_iter().map(|(_, token)| token).collect::<Vec<_>>();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        soon("a stream", opened).await
    };
    streams(1).await;
    provider.desk.expire();
    feed.cut();
    // The second is refused, the third has the new token.
    let tokens = streams(3).await;
    assert_eq!(tokens[..3], ["hidden-access-2", "hidden-access-2", "hidden-access-3"]);
    let (_, status, _) = bridge.finish().await;
    assert!(status.success());
    assert_eq!(provider.grants("refresh_token"), 1);
}

#[tokio::test]
async fn servers_of_the_older_transport_see_one_refresh_at_expiry_as_well() {
    let desk = Arc::new(Desk::new(Manners {
        challenge: Some(""),
        resource_at: "/.well-known/oauth-protected-resource",
        edit_resource: |document, origin| document["resource"] = format!("{origin}/").into(),
        ..Manners::default()
    }));
    let at = Arc::clone(&desk);
    let hub = Hub::start(move |r, _| at.answer(r)).await;
    desk.guards(&hub.url);
    let provider = Provider::with(hub.url.clone(), desk, Vec::new());
    let mut bridge = provider.ready(&[]).await;
    provider.desk.expire();
    all_answer(&mut bridge, 20).await;
    let of_sort = |sort: &str| {
        let asked = hub.requests();
        asked.iter().filter(|r| r.path == "/token" && r.text().contains(sort)).count()
    };
    assert_eq!(of_sort("grant_type=refresh_token"), 1);
    assert_eq!(of_sort("grant_type=authorization_code"), 1);
    assert_eq!(hub.streams.count(), 1, "the stream is not opened again for that");
}
