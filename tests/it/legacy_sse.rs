//! The older transport: one GET stream for all that the server says, POSTs for all that it is told.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::support::hub::{acknowledged, is_get, offer, session_of, silent_about_calls};
use crate::support::{
    Bridge, Gate, Hub, INITIALIZE, INITIALIZED, Reply, Server, Streams, request, result,
};

#[tokio::test]
async fn nothing_is_said_before_the_address_is_known_and_nothing_is_opened_before_the_first_message()
 {
    // C33, S3-02, S3-11, S3-17
    let gate = Gate::new();
    let held = gate.clone();
    let hub = Hub::start(move |r, streams| is_get(r).then(|| streams.open().held(&held))).await;
    let mut bridge = hub.bridge(&[]);
    // What is answered by the bridge itself shows that it has started.
    bridge.ask(request(0, "server/discover")).await;
    assert_eq!(hub.connections(), 0);
    bridge.send(INITIALIZE).await;
    bridge.send(request(1, "tools/list")).await;
    hub.saw("GET").await;
    bridge.ask(request(2, "server/discover")).await;
    assert_eq!(hub.asked(), ["GET"]);
    gate.open();
    assert_eq!(bridge.receive().await["id"], "init");
    assert_eq!(bridge.receive().await["id"], 1);
    assert_eq!(hub.asked(), ["GET", "initialize", "tools/list"]);
    assert_eq!(hub.requests()[1].path, "/messages?sessionId=1");
    assert_eq!(hub.requests()[1].text(), INITIALIZE);
}

#[tokio::test]
async fn the_users_headers_go_with_the_stream_and_with_every_message() {
    let hub = Hub::plain().await;
    let args = ["--header", "Authorization: Bearer t0ken", "--header", "X-Team: a"];
    let mut bridge = hub.ready(&args).await;
    bridge.ask(request(1, "tools/list")).await;
    let asked = hub.requests();
    assert_eq!(asked.len(), 4);
    for r in &asked {
        assert_eq!(r.header("authorization"), Some("Bearer t0ken"), "{r:?}");
        assert_eq!(r.header("x-team"), Some("a"), "{r:?}");
        assert_eq!(r.header("mcp-session-id"), None, "S3-06: the session is in the query");
        let kind = (!is_get(r)).then_some("application/json");
        assert_eq!(r.header("content-type"), kind, "{r:?}");
    }
    assert_eq!(asked[0].header("accept"), Some("text/event-stream"));
}

#[tokio::test]
async fn answers_come_in_any_order_and_keep_the_clients_own_ids() {
    // C13, S2-40, S3-14, S3-15, 4(d)17, 4(d)18
    let hub = silent_about_calls().await;
    let mut bridge = hub.ready(&[]).await;
    let big = "9007199254740993";
    for id in ["\"a\"", "1", big, "\"1\""] {
        bridge.send(request(id, "tools/call")).await;
    }
    hub.saw_count("tools/call", 4).await;
    let rounded = "9007199254740992";
    for (id, said) in [("\"1\"", "\"1\""), (big, rounded), ("\"a\"", "\"a\""), ("1", "1")] {
        hub.streams.say(result(said, "{}"));
        assert_eq!(bridge.line().await, result(id, "{}"));
    }
    bridge.send(request(big, "tools/call")).await;
    hub.saw_count("tools/call", 5).await;
    hub.streams.say(result(big, "{}"));
    assert_eq!(bridge.line().await, result(big, "{}"));
}

#[tokio::test]
async fn addresses_are_taken_as_they_are_meant() {
    // S2-37, S3-06
    let cases: [(&str, &str); 5] = [
        ("/messages?sessionId=", "/messages?sessionId=1"),
        ("messages?sessionId=", "/messages?sessionId=1"),
        ("?sessionId=", "/mcp?sessionId=1"),
        ("/deep/er/messages?x=y&sessionId=", "/deep/er/messages?x=y&sessionId=1"),
        ("http://HOST/whole?sessionId=", "/whole?sessionId=1"),
    ];
    for (announced, expected) in cases {
        let hub = Hub::start(move |r, streams| {
            let announced = announced.replace("HOST", r.header("host").expect("a host"));
            is_get(r).then(|| streams.open_with(|n| format!("{announced}{n}")))
        })
        .await;
        let mut bridge = hub.ready(&[]).await;
        assert_eq!(bridge.ask(request(1, "a")).await["result"]["did"], "a", "{announced}");
        assert!(hub.requests()[1..].iter().all(|r| r.path == expected), "{announced}");
    }
}

#[tokio::test]
async fn a_redirected_stream_counts_from_where_it_ended_up() {
    let hub = Hub::start(|r, streams| match (&*r.http_method, &*r.path) {
        ("GET", "/mcp") => Some(Reply::status(307, "", "").header("Location", "/other/sse")),
        ("GET", "/other/sse") => Some(streams.open_with(|n| format!("messages?sessionId={n}"))),
        _ => None,
    })
    .await;
    let mut bridge = hub.ready(&[]).await;
    bridge.ask(request(1, "a")).await;
    assert_eq!(hub.all("a")[0].path, "/other/messages?sessionId=1");
}

#[tokio::test]
async fn no_message_goes_to_another_origin() {
    // Section 7, 20
    let other = Server::start(crate::support::polite).await;
    let url = other.url.clone();
    let hub = Hub::start(move |r, streams| {
        is_get(r).then(|| streams.open_with(|n| format!("{url}?sessionId={n}")))
    })
    .await;
    let mut bridge = hub.bridge(&["--header", "Authorization: Bearer t0ken"]);
    let error = bridge.ask(INITIALIZE).await["error"].clone();
    assert_eq!(error["data"]["kind"], "redirect", "{error}");
    assert_eq!(error["data"]["delivery"], "not-delivered", "{error}");
    assert!(error["message"].as_str().unwrap().contains("another origin"), "{error}");
    assert_eq!(other.connections(), 0);
    assert_eq!(hub.asked(), ["GET"]);
}

#[tokio::test]
async fn a_further_address_on_the_same_stream_is_ignored() {
    let hub = Hub::plain().await;
    let mut bridge = hub.ready(&[]).await;
    hub.streams.newest().chunk("event: endpoint\ndata: /elsewhere?sessionId=9\n\n");
    hub.streams.say(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#);
    assert_eq!(bridge.receive().await["method"], "notifications/x");
    bridge.ask(request(1, "a")).await;
    assert_eq!(hub.all("a")[0].path, "/messages?sessionId=1");
}

#[tokio::test]
async fn an_address_that_does_not_come_is_not_waited_for_for_ever() {
    // C2
    let hub = Hub::start(|r, streams| {
        (is_get(r) && streams.count() == 0).then(|| {
            drop(streams.open());
            Reply::sse().chunk(": wait\n\n").hang()
        })
    })
    .await;
    let mut bridge = hub.bridge(&["--timeout", "0.5"]);
    let error = bridge.ask(INITIALIZE).await["error"].clone();
    assert_eq!(error["data"]["kind"], "timeout", "{error}");
    assert_eq!(error["data"]["delivery"], "not-delivered", "{error}");
    hub.saw_abandoned("GET").await;
    assert_eq!(hub.asked(), ["GET"]);
    bridge.handshake().await;
}

#[tokio::test]
async fn a_stream_may_be_silent_for_as_long_as_it_likes() {
    // C2, 4(d)4
    let hub = Hub::plain().await;
    let mut bridge = hub.ready(&["--timeout", "0.3"]).await;
    hub.saw("notifications/initialized").await;
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert_eq!(bridge.ask(request(1, "a")).await["id"], 1);
    assert_eq!(hub.asked(), ["GET", "initialize", "notifications/initialized", "a"]);
}

#[tokio::test]
async fn batches_are_taken_apart() {
    // 4(d)12; section 7, 14
    let hub = Hub::plain().await;
    let mut bridge = hub.ready(&[]).await;
    let notice = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
    bridge.send(format!("[{},{notice},{}]", request(1, "a"), request(2, "b"))).await;
    let ids: BTreeSet<u64> = [bridge.receive().await, bridge.receive().await]
        .iter()
        .filter_map(|a| a["id"].as_u64())
        .collect();
    assert_eq!(ids, BTreeSet::from([1, 2]));
    hub.saw("notifications/x").await;
    assert_eq!(hub.all("notifications/x")[0].text(), notice);
    assert_eq!(hub.all("a")[0].text(), request(1, "a"));
    assert_eq!(hub.all("b")[0].text(), request(2, "b"));
}

#[tokio::test]
async fn the_servers_requests_reach_the_client_and_its_answers_the_server() {
    let hub = Hub::plain().await;
    let mut bridge = hub.ready(&[]).await;
    hub.streams.say(request(7, "sampling/createMessage"));
    assert_eq!(bridge.line().await, request(7, "sampling/createMessage"));
    bridge.send(result(7, r#"{"role":"user"}"#)).await;
    let answer = hub.saw("POST").await;
    assert_eq!((answer.text(), session_of(&answer)), (&*result(7, r#"{"role":"user"}"#), Some(1)));
}

#[tokio::test]
async fn bad_events_are_skipped() {
    // C3, C18, S0-21
    let hub = Hub::plain().await;
    let mut bridge = hub.ready(&[]).await;
    let stream = hub.streams.newest();
    stream.event("{broken");
    stream.event("[1, 2]");
    stream.chunk("event: noise\ndata: hello\n\n: comment\n\ndata:\n\nid: 7\n\n");
    stream.chunk(b"event: message\ndata: \"\xff\xfe\"\n\n");
    stream.event(result(99, "{}"));
    stream.chunk("event: other\r\ndata:{\"jsonrpc\":\"2.0\",\r\ndata:\"method\":\"notifications/x\"}\r\n\r\n");
    assert_eq!(bridge.receive().await["method"], "notifications/x");
    assert_eq!(bridge.ask(request(1, "a")).await["result"]["session"], 1);
    let (rest, _, stderr) = bridge.finish().await;
    assert!(rest.is_empty(), "{rest:?}");
    assert!(stderr.contains("an event was skipped"), "{stderr}");
}

#[tokio::test]
async fn serial_means_one_at_a_time() {
    // C1, S4-02
    let hub = silent_about_calls().await;
    let mut bridge = hub.ready(&["--serial"]).await;
    bridge.send(request(1, "tools/call")).await;
    bridge.send(request(2, "a")).await;
    hub.saw("tools/call").await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(hub.all("a").is_empty(), "the first has no answer yet");
    hub.streams.say(result(1, "{}"));
    assert_eq!(bridge.receive().await["id"], 1);
    assert_eq!(bridge.receive().await["id"], 2);
}

#[tokio::test]
async fn calls_run_side_by_side_however_few_may_be_posted_at_once() {
    // C1: the place in line is that of the POST; the answer comes by another way.
    let hub = silent_about_calls().await;
    let mut bridge = hub.ready(&["--max-parallel", "1"]).await;
    for id in 1..=3 {
        bridge.send(request(id, "tools/call")).await;
    }
    hub.saw_count("tools/call", 3).await;
    assert_eq!(bridge.ask(request(4, "a")).await["id"], 4);
}

#[tokio::test]
async fn the_handshake_goes_in_line() {
    // C1, S3-18
    let gate = Gate::new();
    let held = gate.clone();
    let hub = Hub::start(move |r, _| {
        let late = Reply::nothing().wait(&held);
        (r.what() == "notifications/initialized")
            .then(|| late.raw("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"))
    })
    .await;
    let mut bridge = hub.bridge(&[]);
    let lines = format!("{INITIALIZE}\n{INITIALIZED}\n{}\n", request(1, "tools/list"));
    bridge.send_bytes(lines.as_bytes()).await;
    assert_eq!(bridge.receive().await["id"], "init");
    hub.saw("notifications/initialized").await;
    // A ping overtakes what waits.
    assert_eq!(bridge.ask(request(2, "ping")).await["id"], 2);
    assert!(hub.all("tools/list").is_empty());
    gate.open();
    assert_eq!(bridge.receive().await["id"], 1);
}

#[tokio::test]
async fn a_probe_is_answered_without_asking_anybody() {
    // C22
    let hub = Hub::plain().await;
    let mut bridge = hub.bridge(&[]);
    let answer = bridge.ask(request(1, "server/discover")).await;
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    assert_eq!(hub.connections(), 0);
    bridge.handshake().await;
    bridge.ask(request(2, "server/discover")).await;
    assert!(hub.all("server/discover").is_empty());
}

#[tokio::test]
async fn every_legacy_revision_works_and_is_named_from_then_on() {
    // C21, 4(d)15
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let hub = Hub::start(move |r, streams: &Streams| {
            (r.what() == "initialize").then(|| {
                streams.say(result(r.id(), &offer(version)));
                acknowledged()
            })
        })
        .await;
        let mut bridge = hub.ready(&[]).await;
        assert_eq!(bridge.ask(request(1, "a")).await["id"], 1, "{version}");
        let named: Vec<Option<String>> = hub
            .requests()
            .iter()
            .map(|r| r.header("mcp-protocol-version").map(str::to_owned))
            .collect();
        let version = Some(version.to_owned());
        assert_eq!(named, [None, None, version.clone(), version]);
    }
}

#[tokio::test]
async fn cookies_of_the_stream_go_back_with_every_message() {
    // peers b 35: the load balancer that chose a machine for the stream must choose it again.
    let hub = Hub::start(|r, streams| {
        is_get(r).then(|| streams.open().header("Set-Cookie", "lb=node-7; Path=/; HttpOnly"))
    })
    .await;
    let mut bridge = hub.ready(&["-H", "Cookie: mine=1"]).await;
    bridge.ask(request(1, "a")).await;
    let cookies: Vec<Option<String>> =
        hub.requests().iter().map(|r| r.header("cookie").map(str::to_owned)).collect();
    let (first, rest) = cookies.split_first().unwrap();
    assert_eq!((first.as_deref(), rest.len()), (Some("mine=1"), 3));
    assert!(rest.iter().all(|c| c.as_deref() == Some("mine=1; lb=node-7")), "{cookies:?}");
}

#[tokio::test]
async fn a_user_in_the_url_is_known_to_the_stream_and_to_every_message() {
    let hub = Hub::plain().await;
    let url = hub.url.replace("http://", "http://me:s3cret@");
    for args in [&["--transport", "sse"][..], &[]] {
        let mut bridge = Bridge::start(&[&[&*url], args].concat());
        bridge.handshake().await;
        bridge.ask(request(1, "a")).await;
        bridge.finish().await;
    }
    assert!(hub.requests().len() >= 8);
    for r in hub.requests() {
        assert_eq!(r.header("authorization"), Some("Basic bWU6czNjcmV0"), "{}", r.what());
        assert!(!r.path.contains("s3cret"), "{}", r.path);
    }
}
