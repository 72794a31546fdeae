//! Answers that were cut and go on from where they were.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::{Bridge, Reply, Server, polite, request, result};

#[tokio::test]
async fn a_cut_answer_is_resumed_from_its_last_event_and_the_call_is_not_repeated() {
    let server = Server::start(|r| match (&*r.what(), r.header("last-event-id")) {
        ("tools/call", _) => Reply::sse()
            .chunk("id: p0\nretry: 30\ndata: \n\n")
            .chunk("id: p1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"one\"}\n\n")
            .end(),
        ("GET", Some("p1")) => Reply::sse()
            .chunk("id: p2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"two\"}\n\ndata: {\"json")
            .reset(),
        ("GET", Some("p2")) => Reply::sse().event(result(5, "\"done\"")).end(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    bridge.send(request(5, "tools/call")).await;
    assert_eq!(bridge.receive().await["method"], "one");
    assert_eq!(bridge.receive().await["method"], "two");
    assert_eq!(bridge.line().await, result(5, "\"done\""));
    assert_eq!(server.all("tools/call").len(), 1);
    let resumed = server.all("GET").into_iter().find(|r| r.header("last-event-id").is_some());
    assert_eq!(resumed.unwrap().header("mcp-session-id"), Some("s1"));
}

#[tokio::test]
async fn a_server_that_cannot_resume_ends_the_request() {
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => Reply::sse().chunk("id: p0\nretry: 10\ndata: \n\n").end(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    let error = bridge.ask(request(5, "tools/call")).await["error"].clone();
    assert_eq!(error["message"], "No response received for request ID 5");
    assert_eq!(server.all("tools/call").len(), 1);
}

#[tokio::test]
async fn an_event_id_that_is_too_long_does_not_go_back_as_a_header() {
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => Reply::sse()
            .chunk("id: p0\nretry: 10\ndata: \n\n")
            .chunk(format!("id: {}\ndata: \n\n", "p".repeat(100_000)))
            .end(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    let error = bridge.ask(request(5, "tools/call")).await["error"].clone();
    assert_eq!(error["message"], "No response received for request ID 5");
    assert!(server.requests().iter().all(|r| r.header("last-event-id").is_none()));
}

#[tokio::test]
async fn resuming_ends_with_the_requests_own_time() {
    // C29
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => Reply::sse().chunk("id: p0\nretry: 10\ndata: \n\n").end(),
        "GET" => Reply::status(503, "", ""),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--timeout", "0.5"]).await;
    let error = bridge.ask(request(5, "tools/call")).await["error"].clone();
    assert_eq!(error["message"], "No response received for request ID 5");
    assert_eq!(error["data"]["kind"], "timeout", "{error}");
    // C19: it may still run there.
    assert_eq!(server.saw("notifications/cancelled").await.json()["params"]["requestId"], 5);
}

#[tokio::test]
async fn a_stream_that_was_complete_is_not_opened_again() {
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => {
            Reply::sse().chunk("id: p0\nretry: 10\ndata: \n\n").event(result(r.id(), "{}")).end()
        }
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    bridge.ask(request(1, "tools/call")).await;
    // Longer than the server's own delay, and than the first pause of the backoff.
    tokio::time::sleep(Duration::from_millis(700)).await;
    bridge.finish().await;
    assert!(server.all("GET").is_empty());
}

#[tokio::test]
async fn a_cut_answer_whose_server_is_gone_ends_when_nobody_comes_back() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let server = Server::start_at(address, |r| match &*r.what() {
        "tools/call" => Reply::sse().chunk("id: p0\ndata: \n\n").hang(),
        _ => polite(r),
    })
    .await;
    let url = format!("http://{address}/mcp");
    let mut bridge = Bridge::ready(&[&url, "--no-server-stream", "--away-wait", "1"]).await;
    bridge.send(request(5, "tools/call")).await;
    server.saw("tools/call").await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    server.stop().await;
    let start = Instant::now();
    let error = bridge.receive().await["error"].clone();
    assert_eq!(error["data"]["delivery"], "unknown", "{error}");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_cut_answer_to_initialize_is_resumed_in_the_session_that_it_names() {
    let server = Server::start(|r| match (&*r.what(), r.header("last-event-id")) {
        ("initialize", _) => {
            Reply::sse().header("Mcp-Session-Id", "s7").chunk("id: i1\nretry: 30\ndata: \n\n").end()
        }
        ("GET", Some("i1")) if r.header("mcp-session-id") == Some("s7") => {
            let offer = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}"#;
            Reply::sse().event(result("\"init\"", offer)).end()
        }
        ("GET", Some(_)) => Reply::status(400, "text/plain", "Mcp-Session-Id header is required"),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    assert!(bridge.ask(request(1, "tools/call")).await["result"].is_object());
    assert_eq!(server.all("initialize").len(), 1);
    assert_eq!(server.all("tools/call")[0].header("mcp-session-id"), Some("s7"));
    bridge.finish().await;
    assert_eq!(server.all("DELETE")[0].header("mcp-session-id"), Some("s7"));
}

#[tokio::test]
async fn a_session_whose_initialize_could_not_be_resumed_is_deleted_when_another_takes_its_place() {
    let count = Arc::new(AtomicUsize::new(0));
    let server = Server::start(move |r| match (&*r.what(), r.header("last-event-id")) {
        ("initialize", _) => {
            let number = count.fetch_add(1, Ordering::SeqCst) + 1;
            let begun = Reply::sse().header("Mcp-Session-Id", &format!("s{number}"));
            let primed = begun.chunk(format!("id: i{number}\nretry: 30\ndata: \n\n"));
            let offer = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}"#;
            if number == 1 { primed.end() } else { primed.event(result(r.id(), offer)).end() }
        }
        ("GET", Some(_)) => Reply::status(400, "text/plain", "cannot go on"),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    assert!(bridge.ask(request(1, "tools/call")).await["result"].is_object());
    let deleted = server.saw("DELETE").await;
    assert_eq!(deleted.header("mcp-session-id"), Some("s1"));
    assert_eq!(server.all("tools/call")[0].header("mcp-session-id"), Some("s2"));
}

#[tokio::test]
async fn a_server_that_is_too_busy_to_resume_is_left_alone_for_as_long_as_it_asks() {
    let count = AtomicUsize::new(0);
    let server = Server::start(move |r| match (&*r.what(), r.header("last-event-id")) {
        ("tools/call", _) => Reply::sse().chunk("id: p0\nretry: 10\ndata: \n\n").end(),
        ("GET", Some("p0")) if count.fetch_add(1, Ordering::SeqCst) == 0 => {
            Reply::status(503, "", "").header("Retry-After", "2")
        }
        ("GET", Some("p0")) => Reply::sse().event(result(5, "\"done\"")).end(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    let start = Instant::now();
    assert_eq!(bridge.ask(request(5, "tools/call")).await["result"], "done");
    assert!(start.elapsed() >= Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!(server.all("GET").len(), 2);
}
