//! Requests of revision 2026-07-28 pass by their own rules; probes get a quick answer.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::support::{Bridge, Gate, INITIALIZE, Reply, Server, cancel, modern, polite, result};

#[tokio::test]
async fn headers_repeat_what_the_body_says() {
    // b.4
    let server = Server::start(|r| polite(r).header("Mcp-Session-Id", "ignored")).await;
    let mut bridge = Bridge::start(&[&server.url, "--protocol-version", "2025-03-26"]);
    let cases = [
        ("tools/list", "", None),
        ("tools/call", r#""name":"get_weather","#, Some("get_weather")),
        ("tools/call", r#""name":"w\u00e4rme","#, Some("=?base64?d8Okcm1l?=")),
        ("prompts/get", r#""name":" p ","#, Some("=?base64?IHAg?=")),
        ("resources/read", r#""uri":"file:///a b","#, Some("file:///a b")),
        ("tasks/get", r#""taskId":"t1","#, Some("t1")),
        ("completion/complete", r#""name":"x","#, None),
    ];
    for (method, params, name) in cases {
        let line = modern(1, method, params);
        assert_eq!(bridge.ask(&line).await["id"], 1);
        let r = server.requests().pop().unwrap();
        assert_eq!(r.text(), line);
        assert_eq!(r.header("mcp-protocol-version"), Some("2026-07-28"), "{method}");
        assert_eq!(r.header("mcp-method"), Some(method));
        assert_eq!(r.header("mcp-name"), name, "{method}");
        assert_eq!(r.header("mcp-session-id"), None, "{method}: there are no sessions");
        assert_eq!(r.header("accept"), Some("application/json, text/event-stream"));
    }
    bridge.finish().await;
    assert!(server.all("GET").is_empty() && server.all("DELETE").is_empty());
}

#[tokio::test]
async fn cancellation_is_closing_the_stream() {
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => Reply::sse().hang(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    bridge.send(modern(1, "tools/call", r#""name":"x","#)).await;
    server.saw("tools/call").await;
    bridge
        .send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#)
        .await;
    server.saw_abandoned("tools/call").await;
    assert_eq!(bridge.ask(modern(2, "tools/list", "")).await["id"], 2);
    let (rest, _, _) = bridge.finish().await;
    assert!(rest.is_empty(), "a cancelled request ends silently: {rest:?}");
    assert!(server.all("notifications/cancelled").is_empty(), "it is not POSTed");
}

#[tokio::test]
async fn errors_in_http_errors_are_delivered_in_band() {
    let bodies = [
        (404, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}"#),
        (400, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"HeaderMismatch"}}"#),
        (
            400,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"x","data":{"supported":["2026-07-28"]}}}"#,
        ),
    ];
    for (status, body) in bodies {
        let server = Server::start(move |_| Reply::status(status, "application/json", body)).await;
        let mut bridge = Bridge::start(&[&server.url]);
        bridge.send(modern(1, "tools/call", r#""name":"x","#)).await;
        assert_eq!(bridge.line().await, body);
    }
}

#[tokio::test]
async fn a_broken_stream_loses_the_request_and_is_not_resumed() {
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => Reply::sse().chunk("id: x\nretry: 1\ndata: \n\n").cut(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    let error = bridge.ask(modern(1, "tools/call", r#""name":"x","#)).await["error"].clone();
    assert_eq!(error["message"], "No response received for request ID 1");
    assert_eq!(server.asked(), ["tools/call"]);
}

#[tokio::test]
async fn a_request_that_is_made_again_has_a_new_id() {
    // A stream that breaks loses its request; the next one is another to the server.
    let (gate, count) = (Gate::new(), AtomicUsize::new(0));
    let held = gate.clone();
    let server = Server::start(move |r| match (&*r.what(), count.fetch_add(1, Ordering::SeqCst)) {
        (_, 0 | 2..=4) => Reply::sse().chunk(": here\n\n").cut(),
        (_, 5) => Reply::sse().wait(&held).event(result(r.id(), "{}")).end(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    let answer = bridge.ask(modern(1, "tools/list", "")).await;
    assert_eq!((&answer["id"], &answer["result"]["did"]), (&json!(1), &json!("tools/list")));
    let asked = server.all("tools/list");
    assert_eq!((asked.len(), asked[0].id().as_str()), (2, "1"));
    assert_ne!(asked[1].id(), "1");
    assert_eq!(asked[1].text().replace(&asked[1].id(), "1"), asked[0].text());
    // What fails again is told to the client by its own name.
    let error = bridge.ask(modern(2, "tools/list", "")).await["error"].clone();
    assert_eq!(error["message"], "No response received for request ID 2");
    // And it can be cancelled.
    bridge.send(modern(3, "tools/list", "")).await;
    server.saw_count("tools/list", 6).await;
    bridge.send(cancel(3)).await;
    server.saw_abandoned("tools/list").await;
    gate.open();
    let (rest, ..) = bridge.finish().await;
    assert!(rest.is_empty(), "{rest:?}");
}

#[tokio::test]
async fn a_modern_server_answers_the_probe() {
    // C22
    let answer =
        r#"{"supportedVersions":["2026-07-28"],"capabilities":{},"resultType":"complete"}"#;
    let server = Server::start(move |r| Reply::json(result(r.id(), answer))).await;
    let mut bridge = Bridge::start(&[&server.url]);
    bridge.send(modern("\"server-discover-probe-1\"", "server/discover", "")).await;
    assert_eq!(bridge.line().await, result("\"server-discover-probe-1\"", answer));
    let r = server.saw("server/discover").await;
    assert_eq!(r.header("mcp-method"), Some("server/discover"));
    assert_eq!(r.header("mcp-protocol-version"), Some("2026-07-28"));
}

#[tokio::test]
async fn a_legacy_server_refuses_the_probe_and_initialize_starts_afresh() {
    // C22, C5: whatever form the refusal has, the client gets -32601 at once.
    let refusals: [fn() -> Reply; 8] = [
        || {
            Reply::status(
                400,
                "application/json",
                r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}"#,
            )
        },
        || {
            Reply::json(
                r#"{"jsonrpc":"2.0","id":"d","error":{"code":-32601,"message":"Method not found"}}"#,
            )
        },
        || Reply::json(r#"{"jsonrpc":"2.0","id":"d","error":{"code":-32602,"message":"Invalid"}}"#),
        || Reply::status(404, "text/html", "Cannot POST /mcp"),
        || Reply::status(405, "", ""),
        || Reply::status(401, "", "").header("WWW-Authenticate", "Bearer"),
        || {
            Reply::status(
                400,
                "application/json",
                r#"{"jsonrpc":"2.0","id":"d","error":{"code":-32022,"message":"x","data":{"supported":["2025-11-25"]}}}"#,
            )
        },
        || {
            Reply::sse()
                .event(r#"{"jsonrpc":"2.0","id":"d","error":{"code":-1,"message":"x"}}"#)
                .end()
        },
    ];
    for refusal in refusals {
        let server = Server::start(move |r| match &*r.what() {
            "server/discover" => refusal().header("Mcp-Session-Id", "probe"),
            _ => polite(r),
        })
        .await;
        let mut bridge = Bridge::start(&[&server.url]);
        let answer = bridge.ask(modern("\"d\"", "server/discover", "")).await;
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&"d".into(), &(-32601).into()),
            "{answer}"
        );
        assert_eq!(server.asked(), ["server/discover"], "no session, no GET, nothing else");
        bridge.handshake().await;
        bridge.ask(crate::support::request(2, "a")).await;
        assert_eq!(server.saw("a").await.header("mcp-session-id"), Some("s1"));
        let (_, _, stderr) = bridge.finish().await;
        assert_eq!(stderr, "");
    }
}

#[tokio::test]
async fn a_modern_refusal_of_the_probe_passes_as_it_is() {
    let body = r#"{"jsonrpc":"2.0","id":"d","error":{"code":-32022,"message":"x","data":{"supported":["2026-07-28"]}}}"#;
    let server = Server::start(move |_| Reply::status(400, "application/json", body)).await;
    let mut bridge = Bridge::start(&[&server.url]);
    bridge.send(modern("\"d\"", "server/discover", "")).await;
    assert_eq!(bridge.line().await, body);
}

#[tokio::test]
async fn a_server_that_fails_says_nothing_about_its_era() {
    // Gateways write JSON-RPC errors into the bodies of their 5xx.
    for code in [-32601, -32022, -32000] {
        for status in [500, 503] {
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":"d","error":{{"code":{code},"message":"x","data":{{"supported":["2026-07-28"]}}}}}}"#
            );
            let server =
                Server::start(move |_| Reply::status(status, "application/json", &body)).await;
            let mut bridge = Bridge::start(&[&server.url]);
            let answer = bridge.ask(modern("\"d\"", "server/discover", "")).await;
            let error = &answer["error"];
            assert_eq!(
                (&error["code"], &error["data"]["status"]),
                (&json!(-32001), &json!(status))
            );
        }
    }
}

#[tokio::test]
async fn haste_says_nothing_about_an_era_whatever_the_body_is() {
    let body = r#"{"jsonrpc":"2.0","id":"d","error":{"code":-32022,"message":"x","data":{"supported":["2026-07-28"]}}}"#;
    for status in [408, 429] {
        let server = Server::start(move |r| match &*r.what() {
            "server/discover" => Reply::status(status, "application/json", body),
            _ => polite(r),
        })
        .await;
        let mut bridge = Bridge::start(&[&server.url]);
        let answer = bridge.ask(modern("\"d\"", "server/discover", "")).await;
        let error = &answer["error"];
        assert_eq!((&error["code"], &error["data"]["status"]), (&json!(-32601), &json!(status)));
        assert_eq!(bridge.ask(INITIALIZE).await["result"]["serverInfo"]["name"], "s");
    }
}

#[tokio::test]
async fn an_initialize_is_not_held_up_by_a_probe() {
    // C22
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::start(move |r| match &*r.what() {
        "server/discover" => Reply::sse().wait(&held).event(result(r.id(), "{}")).end(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    bridge.send(modern("\"d\"", "server/discover", "")).await;
    server.saw("server/discover").await;
    assert_eq!(bridge.ask(INITIALIZE).await["id"], "init");
    gate.open();
    assert_eq!(bridge.receive().await["id"], "d");
}

#[tokio::test]
async fn a_probe_at_a_server_that_is_down_is_answered_and_the_bridge_stays() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    drop(listener);
    let mut bridge = Bridge::start(&[&url]);
    let answer = bridge.ask(modern(1, "server/discover", "")).await;
    assert_eq!(answer["error"]["data"]["kind"], "connect", "{answer}");
}

#[tokio::test]
async fn a_subscription_holds_up_neither_others_nor_the_end() {
    let server = Server::start(|r| match &*r.what() {
        "subscriptions/listen" => Reply::sse()
            .event(r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged"}"#)
            .hang(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url, "--serial"]);
    bridge.send(modern("\"listen:0\"", "subscriptions/listen", "")).await;
    assert_eq!(bridge.receive().await["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(bridge.ask(modern(2, "tools/list", "")).await["id"], 2);
    let start = std::time::Instant::now();
    let (rest, status, _) = bridge.finish().await;
    assert!(start.elapsed() < std::time::Duration::from_secs(2), "clients wait 2 s");
    assert_eq!(status.code(), Some(0));
    assert_eq!(rest.len(), 1, "it ends with an answer: {rest:?}");
    assert!(rest[0].contains("listen:0") && rest[0].contains("shutdown"));
}
