//! Servers that are not there, not yet or not any more; and those that want to be left alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::{Bridge, INITIALIZE, Reply, Server, is_one_warning, polite, request, result};

/// An address at which nobody listens, yet.
async fn reserved() -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}

#[tokio::test]
async fn a_server_that_starts_after_the_client_is_waited_for() {
    // C37, S2-16; peers b 11
    let address = reserved().await;
    let mut bridge = Bridge::start(&[&format!("http://{address}/mcp")]);
    bridge.send(INITIALIZE).await;
    bridge.send(crate::support::INITIALIZED).await;
    bridge.send(request(2, "tools/list")).await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    let server = Server::start_at(address, polite).await;
    assert_eq!(bridge.receive().await["id"], "init");
    assert_eq!(bridge.receive().await["id"], 2);
    let posts: Vec<String> = server.asked().into_iter().filter(|w| w != "GET").collect();
    assert_eq!(
        posts,
        ["initialize", "notifications/initialized", "tools/list"],
        "in order, once each"
    );
    let (rest, _, stderr) = bridge.finish().await;
    assert!(rest.is_empty() && is_one_warning(&stderr), "{rest:?} {stderr}");
}

#[tokio::test]
async fn patience_has_an_end_for_initialize_and_a_shorter_one_for_the_rest() {
    // C37
    let address = reserved().await;
    let url = format!("http://{address}/mcp");
    let mut bridge = Bridge::start(&[&url, "--connect-wait", "1", "--away-wait", "0.3"]);
    let start = Instant::now();
    bridge.send(request(1, "initialize")).await;
    let answer = bridge.receive().await;
    assert!(start.elapsed() >= Duration::from_millis(900), "{:?}", start.elapsed());
    assert_eq!(answer["error"]["data"]["kind"], "connect", "{answer}");
    assert_eq!(answer["error"]["data"]["delivery"], "not-delivered");
    assert!(answer["error"]["message"].as_str().unwrap().contains(&address.to_string()));
    let start = Instant::now();
    let answer = bridge.ask(request(2, "tools/call")).await;
    assert!(start.elapsed() < Duration::from_millis(900), "{:?}", start.elapsed());
    assert_eq!(answer["error"]["data"]["delivery"], "not-delivered");
    // The process stays, and a later request finds the server when it is there.
    let _server = Server::start_at(address, polite).await;
    assert!(bridge.ask(request(3, "initialize")).await["result"].is_object());
}

#[tokio::test]
async fn a_server_that_restarts_is_waited_for_and_its_lost_session_replaced() {
    // peers b 1, 10; S2-20
    let forgetful = |known: &'static str| {
        move |r: &crate::support::Request| match (&*r.what(), r.header("mcp-session-id")) {
            ("initialize", _) => Reply::json(result(
                r.id(),
                r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}"#,
            ))
            .header("Mcp-Session-Id", known),
            (_, Some(session)) if session == known => polite(r),
            _ => Reply::status(404, "", ""),
        }
    };
    let address = reserved().await;
    let first = Server::start_at(address, forgetful("s1")).await;
    let mut bridge = Bridge::ready(&[&format!("http://{address}/mcp"), "--no-server-stream"]).await;
    bridge.ask(request(1, "tools/call")).await;
    first.stop().await;
    for id in 2..30 {
        bridge.send(request(id, "tools/call")).await;
    }
    tokio::time::sleep(Duration::from_millis(400)).await;
    let second = Server::start_at(address, forgetful("s2")).await;
    let mut answered = 0;
    while answered < 28 {
        let message = bridge.receive().await;
        if message["id"].is_number() {
            assert!(message["result"].is_object(), "{message}");
            answered += 1;
        }
    }
    assert_eq!(second.all("initialize").len(), 1, "however many wait");
    let calls = second.all("tools/call");
    let carried_out = calls.iter().filter(|r| r.header("mcp-session-id") == Some("s2")).count();
    assert_eq!(carried_out, 28, "each once");
    let (_, _, stderr) = bridge.finish().await;
    assert!(is_one_warning(&stderr), "{stderr}");
}

#[tokio::test]
async fn a_server_that_is_away_is_not_stormed() {
    // C7, C30: a hundred requests wait, and one at a time is tried.
    let attempts = Arc::new(AtomicUsize::new(0));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let counted = Arc::clone(&attempts);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = stream.set_zero_linger();
        }
    });
    let mut bridge = Bridge::start(&[&url, "--away-wait", "2"]);
    bridge.send(request(0, "tools/list")).await;
    bridge.receive().await;
    let before = attempts.load(Ordering::SeqCst);
    for id in 1..=100 {
        bridge.send(request(id, "tools/list")).await;
    }
    for _ in 0..100 {
        assert!(bridge.receive().await["error"].is_object());
    }
    let tried = attempts.load(Ordering::SeqCst) - before;
    // Each is safe and may be tried twice; the HTTP client may open a connection more than it needs.
    assert!(tried <= 300, "{tried} connections for 100 requests");
}

#[tokio::test]
async fn notifications_are_not_lost_while_the_server_is_away() {
    let address = reserved().await;
    let mut bridge = Bridge::start(&[&format!("http://{address}/mcp")]);
    bridge.send(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#).await;
    tokio::time::sleep(Duration::from_millis(150)).await;
    let server = Server::start_at(address, polite).await;
    server.saw("notifications/x").await;
    let (rest, _, stderr) = bridge.finish().await;
    assert!(rest.is_empty() && is_one_warning(&stderr), "{rest:?} {stderr}");
    assert_eq!(server.all("notifications/x").len(), 1);
}

#[tokio::test]
async fn retry_after_is_waited_for_whatever_the_method() {
    // C6; peers a1
    for (status, value) in [(429, "1".to_owned()), (503, date_in(2))] {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let server = Server::start(move |r| match &*r.what() {
            "tools/call" if counted.fetch_add(1, Ordering::SeqCst) == 0 => {
                Reply::status(status, "", "").header("Retry-After", &value)
            }
            _ => polite(r),
        })
        .await;
        let mut bridge = Bridge::ready(&[&server.url]).await;
        bridge.send(request(1, "tools/call")).await;
        server.saw("tools/call").await;
        assert_eq!(bridge.ask(request(2, "ping")).await["id"], 2, "others do not wait");
        let answer = bridge.receive().await;
        assert!(answer["result"].is_object(), "{answer}");
        assert_eq!(count.load(Ordering::SeqCst), 2);
    }
}

/// An HTTP date so many seconds from now.
fn date_in(seconds: u64) -> String {
    httpdate::fmt_http_date(std::time::SystemTime::now() + Duration::from_secs(seconds))
}

#[tokio::test]
async fn a_pause_that_is_too_long_is_told_at_once() {
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => Reply::status(429, "text/plain", "slow down").header("Retry-After", "3600"),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    let error = bridge.ask(request(1, "tools/call")).await["error"].clone();
    assert_eq!(error["data"]["retryAfterMs"], 3_600_000, "{error}");
    assert_eq!((&error["code"], &error["data"]["status"]), (&(-32001).into(), &429.into()));
    assert_eq!(error["data"]["delivery"], "not-delivered");
}

#[tokio::test]
async fn a_gateway_without_its_server_is_waited_out_by_initialize() {
    // C6: 502, 503, 504 to an initialize.
    for status in [502, 503, 504] {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let server = Server::start(move |r| match &*r.what() {
            "initialize" if counted.fetch_add(1, Ordering::SeqCst) < 2 => {
                Reply::status(status, "", "")
            }
            "tools/list" => Reply::status(status, "", ""),
            _ => polite(r),
        })
        .await;
        let mut bridge = Bridge::ready(&[&server.url]).await;
        assert_eq!(count.load(Ordering::SeqCst), 3);
        let answer = bridge.ask(request(1, "tools/list")).await;
        assert_eq!(answer["error"]["data"]["status"], status, "final for all else");
    }
}

#[tokio::test]
async fn a_cancelled_request_that_waits_for_the_server_is_forgotten() {
    // C32
    let address = reserved().await;
    let mut bridge = Bridge::start(&[&format!("http://{address}/mcp"), "--away-wait", "10"]);
    bridge.send(request(1, "tools/call")).await;
    bridge.send(request(2, "tools/call")).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    bridge
        .send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#)
        .await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let server = Server::start_at(address, polite).await;
    assert_eq!(bridge.receive().await["id"], 1);
    let (rest, _, _) = bridge.finish().await;
    assert!(rest.is_empty());
    assert_eq!(server.all("tools/call").len(), 1);
    assert!(server.all("notifications/cancelled").is_empty());
}

#[tokio::test]
async fn leaving_while_the_server_is_away_does_not_take_for_ever() {
    let address = reserved().await;
    let url = format!("http://{address}/mcp");
    let mut bridge = Bridge::start(&[&url, "--away-wait", "0.5"]);
    bridge.send(request(1, "tools/call")).await;
    let (rest, status, _) = bridge.finish().await;
    assert_eq!(status.code(), Some(0));
    assert_eq!(rest.len(), 1);
    assert!(rest[0].contains("not-delivered"), "{rest:?}");
}

/// A bridge whose session is open, and whose server then goes; calls 10… wait for it.
async fn left_alone(
    script: impl Fn(&crate::support::Request) -> Reply + Send + Sync + Clone + 'static,
    calls: u32,
    parallel: &str,
) -> (std::net::SocketAddr, Bridge) {
    let address = reserved().await;
    let server = Server::start_at(address, script).await;
    let url = format!("http://{address}/mcp");
    let args = [&*url, "--no-server-stream", "--timeout", "3", "--max-parallel", parallel];
    let mut bridge = Bridge::ready(&args).await;
    bridge.ask(request(1, "ping")).await;
    server.stop().await;
    for id in 10..10 + calls {
        bridge.send(request(id, &format!("m{id}"))).await;
    }
    // Long enough for all of them to have found out.
    tokio::time::sleep(Duration::from_millis(250)).await;
    (address, bridge)
}

#[tokio::test]
async fn a_first_try_that_goes_wrong_holds_up_nobody() {
    // The one that finds the server back is reset, or never answered, or cancelled.
    for (way, cancel) in [("reset", false), ("hang", false), ("hang", true)] {
        let script = move |r: &crate::support::Request| match (&*r.what(), way) {
            ("m10", "reset") => Reply::nothing().reset(),
            ("m10", _) => Reply::nothing().hang(),
            _ => polite(r),
        };
        let (address, mut bridge) = left_alone(script, 3, "128").await;
        let server = Server::start_at(address, script).await;
        if cancel {
            server.saw("m10").await;
            bridge.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":10}}"#).await;
        }
        let mut answered = Vec::new();
        while answered.len() < 2 {
            let message = bridge.receive().await;
            if message["result"].is_object() {
                answered.push(message["id"].as_u64().unwrap());
            }
        }
        answered.sort_unstable();
        assert_eq!(answered, [11, 12], "{way} {cancel}");
        bridge.send(request(20, "ping")).await;
        while bridge.receive().await["id"] != 20 {}
        drop(server);
    }
}

#[tokio::test]
async fn what_waited_leaves_in_the_order_it_came() {
    let (address, mut bridge) = left_alone(polite, 12, "1").await;
    let server = Server::start_at(address, polite).await;
    for _ in 0..12 {
        assert!(bridge.receive().await["result"].is_object());
    }
    let expected: Vec<String> = (10..22).map(|id| format!("m{id}")).collect();
    assert_eq!(server.asked(), expected);
}

#[tokio::test]
async fn a_server_that_asks_for_pauses_again_and_again_does_not_get_a_storm_and_the_request_ends() {
    for pause in ["0", "1", "18446744073709551615"] {
        let server = Server::start(move |r| match &*r.what() {
            "tools/call" | "notifications/x" => {
                Reply::status(429, "", "").header("Retry-After", pause)
            }
            _ => polite(r),
        })
        .await;
        let mut bridge =
            Bridge::ready(&[&server.url, "--no-server-stream", "--timeout", "2"]).await;
        bridge.send(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#).await;
        let error = bridge.ask(request(1, "tools/call")).await["error"].clone();
        assert_eq!(error["data"]["status"], 429, "{error}");
        assert!(server.all("tools/call").len() <= 6, "{}", server.all("tools/call").len());
        assert_eq!(bridge.ask(request(2, "ping")).await["id"], 2);
    }
}

#[tokio::test]
async fn many_notifications_do_not_storm_a_server_that_is_away() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let url = format!("http://{address}/mcp");
    let mut bridge = Bridge::start(&[&url, "--away-wait", "2"]);
    for n in 0..100 {
        bridge.send(format!(r#"{{"jsonrpc":"2.0","method":"notifications/{n}"}}"#)).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let counted = Arc::clone(&attempts);
    let server = Server::start_at(address, move |r| {
        counted.fetch_add(1, Ordering::SeqCst);
        polite(r)
    })
    .await;
    for n in 0..100 {
        server.saw(&format!("notifications/{n}")).await;
    }
    assert_eq!(attempts.load(Ordering::SeqCst), 100, "each once");
}

#[tokio::test]
async fn a_hundred_that_wait_for_a_server_that_refuses_connections_make_no_hundred_tries() {
    // C7, C30: nobody counts refused connections but the one who tries.
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.jsonl");
    let url = format!("http://{}/mcp", reserved().await);
    let trace_file = trace.to_str().unwrap();
    let mut bridge = Bridge::start(&[&url, "--away-wait", "2", "--trace-file", trace_file]);
    // It is known to be away after this.
    bridge.ask(request(0, "tools/call")).await;
    for id in 1..=100 {
        bridge.send(request(id, "tools/call")).await;
    }
    let (answers, _) = bridge.answers(100).await;
    assert!(answers.iter().all(|a| a["error"]["data"]["kind"] == "connect"), "{answers:?}");
    bridge.finish().await;
    let text = std::fs::read_to_string(trace).unwrap();
    let is_try =
        |line: &&str| line.contains(r#""type":"CONNECTION""#) || line.contains(r#""what":"retry""#);
    let tries = text.lines().filter(is_try).count();
    // 0.1, 0.2, 0.4 and 0.8 s apart, then every second; four seconds in all.
    assert!((4..=14).contains(&tries), "{tries} tries in four seconds");
}

#[tokio::test]
async fn a_server_that_closes_every_connection_while_it_starts_is_waited_for_by_initialize() {
    for is_reset in [false, true] {
        let ready_at = Instant::now() + Duration::from_millis(1500);
        let server = Server::start(move |r| match Instant::now() < ready_at {
            true if is_reset => Reply::nothing().reset(),
            true => Reply::nothing().cut(),
            false => polite(r),
        })
        .await;
        let mut bridge = Bridge::start(&[&server.url, "--no-server-stream"]);
        bridge.send(INITIALIZE).await;
        let answer = bridge.receive().await;
        assert!(answer["result"].is_object(), "{answer}");
        assert!(server.all("initialize").len() > 2, "{:?}", server.asked());
        let (rest, _, stderr) = bridge.finish().await;
        assert!(rest.is_empty() && is_one_warning(&stderr), "{rest:?} {stderr}");
    }
}

#[tokio::test]
async fn a_server_that_closes_every_connection_is_not_waited_for_beyond_connect_wait() {
    let server = Server::start(|_| Reply::nothing().cut()).await;
    let mut bridge = Bridge::start(&[&server.url, "--connect-wait", "1"]);
    let start = Instant::now();
    let answer = bridge.ask(request(1, "initialize")).await;
    assert_eq!(answer["error"]["data"]["kind"], "closed", "{answer}");
    let elapsed = start.elapsed();
    assert!(elapsed >= Duration::from_millis(900), "{elapsed:?}");
    assert!(elapsed < Duration::from_secs(5), "{elapsed:?}");
    assert!(server.all("initialize").len() < 20, "no storm");
}
