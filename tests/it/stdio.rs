//! What comes in on stdin: lines, blank lines, bad lines, long lines, batches, odd ids.

use crate::support::{Bridge, Server, polite, request};

#[tokio::test]
async fn blank_lines_and_carriage_returns_do_no_harm() {
    // S0-01, S2-08, C12, C26
    let server = Server::start(polite).await;
    let mut bridge = Bridge::start(&[&server.url]);
    bridge.send_bytes(b"\n\r\n   \n").await;
    bridge.send_bytes(b"  {\"jsonrpc\":\"2.0\",\"id\":1,  \"method\":\"a\"}\t\r\n").await;
    assert_eq!(bridge.receive().await["id"], 1);
    let body = server.saw("a").await.body;
    assert_eq!(body, b"{\"jsonrpc\":\"2.0\",\"id\":1,  \"method\":\"a\"}");
    let (rest, status, stderr) = bridge.finish().await;
    assert_eq!((rest.len(), status.code(), stderr.as_str()), (0, Some(0), ""));
}

#[tokio::test]
async fn a_line_that_is_not_json_is_skipped_and_logged() {
    // S2-17, S2-23, S1-26
    let server = Server::start(polite).await;
    let mut bridge = Bridge::start(&[&server.url]);
    bridge.send("Debugger attached.").await;
    bridge.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}\n").await;
    assert_eq!(bridge.ask(request(2, "a")).await["id"], 2);
    let (rest, _, stderr) = bridge.finish().await;
    assert!(rest.is_empty(), "{rest:?}");
    assert_eq!(stderr.lines().count(), 2, "{stderr}");
    assert!(stderr.contains("a line was skipped: not JSON"), "{stderr}");
    assert_eq!(server.asked(), ["a"]);
}

#[tokio::test]
async fn json_that_is_not_json_rpc_is_answered_if_it_has_an_id() {
    // C12
    let server = Server::start(polite).await;
    let mut bridge = Bridge::start(&[&server.url]);
    for (line, id) in [
        (r#"{"id":5}"#, "5"),
        (r#"{"id":"x","method":"tools/list"}"#, "\"x\""),
        (r#"{"jsonrpc":"1.0","id":6,"method":"a"}"#, "6"),
        (r#"{"jsonrpc":"2.0","id":7,"method":7}"#, "7"),
        (r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#, "null"),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"a"}"#, "null"),
    ] {
        let answer = bridge.ask(line).await;
        assert_eq!(answer["id"].to_string(), id, "{line}");
        assert_eq!(answer["error"]["code"], -32600, "{line}");
        assert_eq!(answer["error"]["data"]["kind"], "invalid-request");
    }
    for line in ["5", "\"a\"", "{}", "[]", "[1]", r#"{"jsonrpc":"2.0"}"#, r#"{"id":1,"result":{}}"#]
    {
        bridge.send(line).await;
    }
    assert_eq!(bridge.ask(request(8, "a")).await["id"], 8, "nothing else was answered");
    assert_eq!(server.asked(), ["a"]);
}

#[tokio::test]
async fn a_line_over_the_limit_is_answered_and_skipped() {
    // C12, C17, C34: also when its id comes last.
    let server = Server::start(polite).await;
    let mut bridge = Bridge::start(&[&server.url, "--max-message-size", "1K"]);
    let long = "x".repeat(300_000);
    bridge.send(format!(r#"{{"jsonrpc":"2.0","method":"a","params":"{long}","id":41}}"#)).await;
    let answer = bridge.receive().await;
    assert_eq!(answer["id"], 41);
    assert_eq!(answer["error"]["code"], -32000);
    assert_eq!(answer["error"]["data"]["kind"], "too-large");
    assert_eq!(answer["error"]["data"]["delivery"], "not-delivered");
    bridge.send(format!(r#"{{"jsonrpc":"2.0","method":"a","params":"{long}"}}"#)).await;
    assert_eq!(bridge.ask(request(42, "b")).await["id"], 42);
    assert_eq!(server.asked(), ["b"]);
}

#[tokio::test]
async fn a_large_line_is_forwarded_whole() {
    // Section 7, 6: 5 MB.
    let server = Server::start(polite).await;
    let mut bridge = Bridge::start(&[&server.url]);
    let line =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":"{}"}}"#, "x".repeat(5 << 20));
    assert_eq!(bridge.ask(&line).await["id"], 1);
    assert_eq!(server.saw("a").await.body, line.into_bytes());
}

#[tokio::test]
async fn batches_are_taken_apart_and_each_id_is_answered_once() {
    // b.1, C25: 2025-03-26 has arrays; servers get single messages.
    let server = Server::start(polite).await;
    let mut bridge = Bridge::start(&[&server.url]);
    let line = format!(
        r#"[{},{{"jsonrpc":"2.0","method":"notifications/x"}},{},{{"id":3}},4]"#,
        request(1, "a"),
        request(2, "b")
    );
    bridge.send(line).await;
    let mut ids: Vec<String> = Vec::new();
    for _ in 0..3 {
        ids.push(bridge.receive().await["id"].to_string());
    }
    ids.sort();
    assert_eq!(ids, ["1", "2", "3"]);
    server.saw("notifications/x").await;
    let (rest, _, _) = bridge.finish().await;
    assert!(rest.is_empty(), "{rest:?}");
    assert!(server.requests().iter().all(|r| r.json().is_object() || r.body.is_empty()));
}

#[tokio::test]
async fn ids_keep_their_exact_text() {
    // S0-17, C13
    let server = Server::start(polite).await;
    let mut bridge = Bridge::start(&[&server.url]);
    for id in [
        "0",
        "9007199254740993",
        "12345678901234567890",
        "\"1\"",
        "-1",
        r#""a\u0062\"\\""#,
        "\"\"",
        "1.5",
    ] {
        bridge.send(request(id, "a")).await;
        let line = bridge.line().await;
        assert!(line.contains(&format!(r#""id":{id},"#)), "{id}: {line}");
    }
}

#[tokio::test]
async fn an_id_that_the_server_writes_in_another_form_still_finds_its_request() {
    let server = Server::start(|r| {
        // As a JavaScript server would: numbers are doubles, strings are decoded.
        let answer = match &*r.id() {
            "9007199254740993" => "9007199254740992",
            r#""\u0061\/""# => r#""a/""#,
            "1.0" => "1",
            other => panic!("{other}"),
        };
        crate::support::Reply::json(crate::support::result(answer, "{}"))
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    bridge.send(request("9007199254740993", "a")).await;
    let line = bridge.line().await;
    assert!(line.contains("9007199254740993"), "the client's own id comes back: {line}");
    for id in [r#""\u0061\/""#, "1.0"] {
        bridge.send(request(id, "a")).await;
        let line = bridge.line().await;
        assert!(line.contains(&format!(r#""id":{id},"#)), "{id}: {line}");
    }
}

#[tokio::test]
async fn a_second_request_with_an_id_in_flight_is_refused() {
    let gate = crate::support::Gate::new();
    let held = gate.clone();
    let server = Server::start(move |r| {
        crate::support::Reply::sse().wait(&held).event(crate::support::result(r.id(), "{}")).end()
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    bridge.send(request(1, "a")).await;
    server.saw("a").await;
    let refused = bridge.ask(request(1, "b")).await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&1.into(), &(-32600).into()));
    gate.open();
    assert!(bridge.receive().await["result"].is_object());
    assert_eq!(server.asked(), ["a"], "the second one was not sent");
}

#[tokio::test]
async fn a_byte_order_mark_before_the_first_line_does_no_harm() {
    let server = Server::start(polite).await;
    let mut bridge = Bridge::start(&[&server.url]);
    assert_eq!(bridge.ask(format!("\u{feff}{}", request(1, "a"))).await["id"], 1);
}

#[tokio::test]
async fn members_that_do_not_apply_may_be_null() {
    let server = Server::start(polite).await;
    let mut bridge = Bridge::start(&[&server.url]);
    let line = r#"{"jsonrpc":"2.0","id":7,"method":"a","error":null,"result":null}"#;
    assert_eq!(bridge.ask(line).await["id"], 7);
    let line = r#"{"jsonrpc":"2.0","id":8,"method":"a","result":{}}"#;
    assert_eq!(bridge.ask(line).await["error"]["code"], -32600);
}
