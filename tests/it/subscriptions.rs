//! `subscriptions/listen` stays open for the client, whatever becomes of the server's stream.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::support::{Bridge, Feed, Reply, Request, Server, cancel, modern, polite, result};

const KEY: &str = "io.modelcontextprotocol/subscriptionId";

fn listen() -> String {
    modern(
        "\"listen:0\"",
        "subscriptions/listen",
        r#""notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["x://a","x://b"]},"#,
    )
}

/// The server has no prompts.
fn acknowledged() -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"{KEY}":"listen:0"}},"notifications":{{"toolsListChanged":true,"resourceSubscriptions":["x://a","x://b"]}}}}}}"#
    )
}

fn updated(uri: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/resources/updated",
        "params": {"uri": uri, "_meta": {KEY: "listen:0"}}})
}

fn tools_changed() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed",
        "params": {"_meta": {KEY: "listen:0"}}})
}

/// The client hears all that may have changed, and nothing of another acknowledgement.
async fn assert_hears_what_it_may_have_missed(bridge: &mut Bridge) {
    for expected in [tools_changed(), updated("x://a"), updated("x://b")] {
        assert_eq!(bridge.receive().await, expected);
    }
}

/// Plays one reply after another for the subscription; the last one goes on.
fn in_turn(
    replies: impl Fn(usize, &Request) -> Reply + Send + Sync + 'static,
) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
    let count = AtomicUsize::new(0);
    move |r| match &*r.what() {
        "subscriptions/listen" => replies(count.fetch_add(1, Ordering::SeqCst), r),
        _ => polite(r),
    }
}

#[tokio::test]
async fn a_stream_that_ends_without_a_last_word_is_opened_again() {
    // In order, by a cut and by a reset; and then with nothing but its head.
    let endings: [fn(&Feed); 3] = [Feed::end, Feed::cut, Feed::reset];
    for ending in endings {
        let feed = Feed::new();
        let fed = feed.clone();
        let server = Server::start(in_turn(move |turn, _| match turn {
            0 => Reply::sse().feed(&fed),
            1 => Reply::sse().end(),
            _ => Reply::sse().event(acknowledged()).event(updated("x://b").to_string()).hang(),
        }))
        .await;
        let mut bridge = Bridge::start(&[&server.url, "--timeout", "1"]);
        bridge.send(listen()).await;
        feed.chunk("retry: 1\n\n");
        feed.event(acknowledged());
        assert_eq!(bridge.line().await, acknowledged());
        ending(&feed);
        assert_hears_what_it_may_have_missed(&mut bridge).await;
        assert_eq!(bridge.receive().await, updated("x://b"), "and then what the server says");
        let asked = server.all("subscriptions/listen");
        assert_eq!(asked.len(), 3);
        let renamed = asked[1].id();
        assert_ne!(renamed, "\"listen:0\"", "to the server it is another request");
        assert_ne!(renamed, asked[2].id());
        for again in &asked[1..] {
            let text = again.text().replace(&again.id(), "\"listen:0\"");
            assert_eq!(text, asked[0].text(), "and the same but for its id");
            assert_eq!(names(again), names(&asked[0]));
        }
        let (rest, _, stderr) = bridge.finish().await;
        assert_eq!((rest.len(), stderr.as_str()), (1, ""), "{rest:?}");
        assert!(rest[0].contains("shutdown"), "{rest:?}");
    }
}

/// The headers, but for the length.
fn names(request: &Request) -> Vec<(String, String)> {
    let headers = request.headers.iter().cloned();
    headers.filter(|(name, _)| !name.eq_ignore_ascii_case("content-length")).collect()
}

#[tokio::test]
async fn what_a_new_stream_brings_has_the_clients_own_mark() {
    let server = Server::start(in_turn(|turn, r| {
        let id = r.id();
        let marked = |text: String| text.replace("\"listen:0\"", &id);
        let last = format!(r#"{{"resultType":"complete","_meta":{{"{KEY}":{id}}}}}"#);
        match turn {
            0 => Reply::sse().event(acknowledged()).cut(),
            _ => Reply::sse()
                .event(marked(acknowledged()))
                .event(marked(updated("x://b").to_string()))
                .event(result(&id, &last))
                .end(),
        }
    }))
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    bridge.send(listen()).await;
    assert_eq!(bridge.line().await, acknowledged());
    assert_hears_what_it_may_have_missed(&mut bridge).await;
    assert_eq!(bridge.receive().await, updated("x://b"));
    let last = bridge.receive().await;
    assert_eq!(
        (&last["id"], &last["result"]["_meta"][KEY]),
        (&json!("listen:0"), &json!("listen:0"))
    );
}

#[tokio::test]
async fn it_survives_a_restart_of_the_server() {
    let server = Server::start(in_turn(|_, _| Reply::sse().event(acknowledged()).hang())).await;
    let address = server.url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
    let address = address.parse().unwrap();
    let mut bridge = Bridge::start(&[&server.url]);
    bridge.send(listen()).await;
    assert_eq!(bridge.line().await, acknowledged());
    server.stop().await;
    // Longer than the first pause: somebody has found the door closed.
    tokio::time::sleep(std::time::Duration::from_millis(700)).await;
    let server =
        Server::start_at(address, in_turn(|_, _| Reply::sse().event(acknowledged()).hang())).await;
    assert_hears_what_it_may_have_missed(&mut bridge).await;
    bridge.send(cancel("\"listen:0\"")).await;
    server.saw_abandoned("subscriptions/listen").await;
    let (rest, _, stderr) = bridge.finish().await;
    assert_eq!((rest, stderr.as_str()), (vec![], ""));
}

#[tokio::test]
async fn it_is_opened_as_soon_as_another_request_finds_the_server_back() {
    let server = Server::start(in_turn(|_, _| Reply::sse().event(acknowledged()).hang())).await;
    let address = server.url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
    let address = address.parse().unwrap();
    let mut bridge = Bridge::start(&[&server.url]);
    bridge.send(listen()).await;
    assert_eq!(bridge.line().await, acknowledged());
    server.stop().await;
    // Until the pauses have become seconds.
    tokio::time::sleep(std::time::Duration::from_secs(6)).await;
    let _server =
        Server::start_at(address, in_turn(|_, _| Reply::sse().event(acknowledged()).hang())).await;
    bridge.send(modern(2, "a", "")).await;
    let start = std::time::Instant::now();
    let mut heard = Vec::new();
    for _ in 0..4 {
        heard.push(bridge.receive().await["method"].clone());
    }
    assert!(heard.contains(&"notifications/tools/list_changed".into()), "{heard:?}");
    assert!(start.elapsed() < std::time::Duration::from_millis(1500), "{:?}", start.elapsed());
}

#[tokio::test]
async fn what_is_acknowledged_late_is_acknowledged_once() {
    let server = Server::start(in_turn(|turn, _| match turn {
        0 => Reply::nothing().cut(),
        1 => Reply::sse().cut(),
        _ => Reply::sse().event(acknowledged()).event(tools_changed().to_string()).hang(),
    }))
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    bridge.send(listen()).await;
    assert_eq!(bridge.line().await, acknowledged(), "nothing was promised before");
    assert_eq!(bridge.receive().await, tools_changed());
}

#[tokio::test]
async fn a_server_that_is_not_ready_is_asked_again() {
    let server = Server::start(in_turn(|turn, _| match turn {
        0 => Reply::sse().event(acknowledged()).end(),
        1 => Reply::status(502, "text/html", "<html>"),
        2 => Reply::status(429, "", "").header("Retry-After", "0"),
        3 => Reply::nothing().reset(),
        _ => Reply::sse().event(acknowledged()).hang(),
    }))
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    bridge.send(listen()).await;
    assert_eq!(bridge.line().await, acknowledged());
    assert_hears_what_it_may_have_missed(&mut bridge).await;
    assert_eq!(server.all("subscriptions/listen").len(), 5);
}

#[tokio::test]
async fn a_servers_own_pause_is_kept() {
    let server = Server::start(in_turn(|turn, _| match turn {
        0 => Reply::sse().event(acknowledged()).end(),
        1 => Reply::status(503, "", "").header("Retry-After", "2"),
        _ => Reply::sse().event(acknowledged()).hang(),
    }))
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    bridge.send(listen()).await;
    assert_eq!(bridge.line().await, acknowledged());
    server.saw_count("subscriptions/listen", 2).await;
    let refused = std::time::Instant::now();
    server.saw_count("subscriptions/listen", 3).await;
    assert!(refused.elapsed() > std::time::Duration::from_millis(1800), "{:?}", refused.elapsed());
    assert_hears_what_it_may_have_missed(&mut bridge).await;
}

#[tokio::test]
async fn a_refusal_is_the_answer_at_first_and_later() {
    let unknown = r#"{"jsonrpc":"2.0","id":"listen:0","error":{"code":-32601,"message":"no"}}"#;
    for (status, code) in [(404, -32601), (400, -32601), (200, -32601)] {
        for first in [true, false] {
            let server = Server::start(in_turn(move |turn, _| match turn {
                0 if !first => Reply::sse().event(acknowledged()).end(),
                _ => Reply::status(status, "application/json", unknown),
            }))
            .await;
            let mut bridge = Bridge::start(&[&server.url]);
            bridge.send(listen()).await;
            if !first {
                assert_eq!(bridge.line().await, acknowledged());
            }
            let answer = bridge.receive().await;
            assert_eq!(
                (&answer["id"], &answer["error"]["code"]),
                (&"listen:0".into(), &code.into())
            );
            assert_eq!(bridge.ask(modern(2, "a", "")).await["id"], 2);
            assert_eq!(server.all("subscriptions/listen").len(), usize::from(!first) + 1);
        }
    }
    // What is no answer of MCP's is an error of ours.
    let server = Server::start(in_turn(|turn, _| match turn {
        0 => Reply::sse().event(acknowledged()).end(),
        _ => Reply::status(403, "text/plain", "go away"),
    }))
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    bridge.send(listen()).await;
    bridge.receive().await;
    assert_eq!(bridge.receive().await["error"]["message"], "HTTP 403: go away");
}

#[tokio::test]
async fn the_servers_last_word_goes_to_the_client_and_nothing_is_opened_again() {
    let feed = Feed::new();
    let fed = feed.clone();
    let server = Server::start(in_turn(move |_, _| Reply::sse().feed(&fed))).await;
    let mut bridge = Bridge::start(&[&server.url]);
    bridge.send(listen()).await;
    feed.event(acknowledged());
    // Keep-alive comments are nobody's business.
    feed.chunk(": keep-alive\n\n");
    assert_eq!(bridge.line().await, acknowledged());
    let last = result(
        "\"listen:0\"",
        &format!(r#"{{"resultType":"complete","_meta":{{"{KEY}":"listen:0"}}}}"#),
    );
    feed.event(&last);
    feed.end();
    assert_eq!(bridge.line().await, last);
    assert_eq!(bridge.ask(modern(2, "a", "")).await["id"], 2);
    // Longer than the first pause of the backoff.
    tokio::time::sleep(std::time::Duration::from_millis(700)).await;
    assert_eq!(server.all("subscriptions/listen").len(), 1);
    assert!(bridge.finish().await.0.is_empty());
}

#[tokio::test]
async fn a_cancelled_subscription_is_not_opened_again() {
    let server = Server::start(in_turn(|_, _| Reply::sse().event(acknowledged()).end())).await;
    let mut bridge = Bridge::start(&[&server.url]);
    bridge.send(listen()).await;
    assert_eq!(bridge.line().await, acknowledged());
    // While it waits to be opened again.
    bridge.send(cancel("\"listen:0\"")).await;
    assert_eq!(bridge.ask(modern(2, "a", "")).await["id"], 2);
    let before = server.all("subscriptions/listen").len();
    tokio::time::sleep(std::time::Duration::from_millis(700)).await;
    assert_eq!(server.all("subscriptions/listen").len(), before);
    assert!(server.all("notifications/cancelled").is_empty());
    assert!(bridge.finish().await.0.is_empty());
}

#[tokio::test]
async fn subscriptions_take_no_place_in_line() {
    let server = Server::start(in_turn(|_, _| Reply::sse().event(acknowledged()).hang())).await;
    let mut bridge = Bridge::start(&[&server.url, "--max-parallel", "1"]);
    for _ in 0..3 {
        let id = server.all("subscriptions/listen").len();
        bridge.send(listen().replace("listen:0", &format!("listen:{id}"))).await;
        assert_eq!(bridge.line().await, acknowledged());
    }
    assert_eq!(bridge.ask(modern(2, "a", "")).await["id"], 2);
}
