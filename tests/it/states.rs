//! Changes of state: a line each at `info`, one warning when nothing can be reached, else nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::{
    Bridge, Feed, Hub, INITIALIZE, INITIALIZED, Manners, Provider, Reply, Server, modern, polite,
    request, result, soon,
};

/// What a bridge has said, without the time.
fn said(stderr: &str) -> Vec<String> {
    let line = |line: &str| line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ");
    stderr.lines().map(line).collect()
}

/// Waits until `text` stands on the bridge's stderr.
async fn saw(bridge: &Bridge, text: &str) {
    let waiting = async {
        while !bridge.stderr().contains(text) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon(text, waiting).await;
}

/// An address where nobody is.
async fn reserved() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}

fn address(server: &Server) -> SocketAddr {
    server.url.split('/').nth(2).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_server_that_refuses_connections_is_worth_one_warning_however_often_it_is_tried() {
    let url = format!("http://{}/mcp", reserved().await);
    let mut bridge = Bridge::start(&[&url, "--connect-wait", "5", "--away-wait", "3"]);
    let begun = Instant::now();
    let all = format!("{INITIALIZE}\n{INITIALIZED}\n{}\n", request(1, "tools/list"));
    bridge.send_bytes(all.as_bytes()).await;
    saw(&bridge, "waiting up to").await;
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!(bridge.answer("init").await.0["error"]["data"]["kind"], "connect");
    bridge.ask(request(2, "tools/list")).await;
    let (_, _, stderr) = bridge.finish().await;
    let mut lines = said(&stderr);
    // What has nobody who could be told otherwise is told here.
    lines.retain(|line| !line.contains("notifications/initialized did not reach"));
    assert_eq!(lines.len(), 1, "{stderr}");
    assert!(lines[0].starts_with("WARN Server not reachable (") && lines[0].contains("refused"));
    assert!(lines[0].ends_with("), waiting up to 5 s"), "{stderr}");
    assert!(!stderr.contains("error"), "some clients take the word for a failure: {stderr}");
}

#[tokio::test]
async fn a_gateway_without_a_server_is_warned_of_as_well() {
    let server = Server::start(|_| Reply::status(502, "text/html", "<h1>Bad Gateway</h1>")).await;
    let mut bridge = Bridge::start(&[&server.url, "--connect-wait", "2"]);
    bridge.ask(INITIALIZE).await;
    let (_, _, stderr) = bridge.finish().await;
    assert_eq!(said(&stderr).len(), 1, "{stderr}");
    assert!(stderr.contains("502") && !stderr.contains('<'), "{stderr}");
}

#[tokio::test]
async fn a_server_that_comes_and_goes_is_told_of_each_time() {
    let server = Server::start(polite).await;
    let place = address(&server);
    let mut bridge =
        Bridge::ready(&[&server.url, "--no-server-stream", "--log-level", "info"]).await;
    // Then nothing of the handshake is under way any more.
    bridge.ask(request(0, "tools/list")).await;
    let mut server = Some(server);
    for id in 1..=2 {
        server.take().unwrap().stop().await;
        bridge.send(request(id, "tools/list")).await;
        let waiting = async {
            while bridge.stderr().matches("waiting up to").count() < id {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        soon("a warning", waiting).await;
        server = Some(Server::start_at(place, polite).await);
        bridge.receive().await;
    }
    let (_, _, stderr) = bridge.finish().await;
    let lines = said(&stderr);
    assert_eq!(lines[0], "INFO Connected over Streamable HTTP, revision 2025-06-18", "{stderr}");
    for (n, line) in lines[1..].iter().enumerate() {
        let begins = ["WARN Server not reachable (", "INFO Server reachable again"][n % 2];
        assert!(line.starts_with(begins), "{stderr}");
    }
    assert_eq!(lines.len(), 5, "{stderr}");
}

#[tokio::test]
async fn a_lost_session_and_the_next_one_are_a_line_each() {
    let count = Arc::new(AtomicUsize::new(0));
    let server = Server::start(move |r| {
        let first = || count.fetch_add(1, Ordering::Relaxed) == 0;
        if r.what() == "tools/list" && first() { Reply::status(404, "", "") } else { polite(r) }
    })
    .await;
    let mut bridge =
        Bridge::ready(&[&server.url, "--no-server-stream", "--log-level", "info"]).await;
    bridge.send(request(1, "tools/list")).await;
    bridge.answer(1).await;
    let (_, _, stderr) = bridge.finish().await;
    let lines = said(&stderr);
    assert_eq!(lines.len(), 3, "{stderr}");
    assert!(lines[1].starts_with("INFO Session lost, opening another"), "{stderr}");
    assert_eq!(lines[2], "INFO Session opened again", "{stderr}");
}

#[tokio::test]
async fn a_stream_that_is_cut_is_told_with_the_event_that_it_goes_on_after() {
    let feed = Feed::new();
    let first = feed.clone();
    let server = Server::start(move |r| match (&*r.what(), r.header("last-event-id")) {
        ("tools/call", _) => Reply::sse()
            .chunk("id: 17\nretry: 30\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"one\"}\n\n")
            .end(),
        ("GET", Some("17")) => Reply::sse().event(result(5, "{}")).end(),
        ("GET", None) => Reply::sse().feed(&first),
        ("GET", Some(_)) => Reply::sse().hang(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--log-level", "info"]).await;
    bridge.send(request(5, "tools/call")).await;
    bridge.answer(5).await;
    saw(&bridge, "Stream resumed").await;
    feed.chunk("id: 4\nretry: 10\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"two\"}\n\n");
    feed.end();
    saw(&bridge, "Server's own stream open again").await;
    let (_, _, stderr) = bridge.finish().await;
    for part in [
        "INFO Stream cut, resuming after event 17",
        "Server's own stream cut, opening it again after event 4",
    ] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    assert!(!stderr.to_lowercase().contains("error"), "nothing is wrong: {stderr}");
}

#[tokio::test]
async fn the_older_transport_tells_the_same_and_is_silent_in_normal_use() {
    let hub = Hub::plain().await;
    let mut bridge = hub.ready(&[]).await;
    for id in 0..5 {
        bridge.ask(request(id, "tools/call")).await;
    }
    let (_, _, stderr) = bridge.finish().await;
    assert_eq!(stderr, "");
    let mut bridge = hub.ready(&["--log-level", "info"]).await;
    // Its confirmation is accepted, then; else its refusal would tell of the loss before the stream.
    bridge.ask(request(8, "tools/list")).await;
    hub.streams.forget().end();
    saw(&bridge, "Session opened again").await;
    bridge.send(request(9, "tools/list")).await;
    bridge.answer(9).await;
    let (_, _, stderr) = bridge.finish().await;
    let lines = said(&stderr);
    assert_eq!(lines[0], "INFO Connected over HTTP+SSE, revision 2025-06-18", "{stderr}");
    assert!(lines[1].starts_with("INFO Stream cut"), "{stderr}");
    assert!(lines[2].starts_with("INFO Session lost, opening another"), "{stderr}");
    assert_eq!(lines[3..], ["INFO Session opened again"], "{stderr}");
}

#[tokio::test]
async fn a_modern_server_is_told_by_its_revision() {
    let server = Server::start(polite).await;
    let mut bridge = Bridge::start(&[&server.url, "--log-level", "info"]);
    for id in 1..=3 {
        bridge.ask(modern(id, "tools/list", "")).await;
    }
    let (_, _, stderr) = bridge.finish().await;
    assert_eq!(
        said(&stderr),
        ["INFO Connected over Streamable HTTP, revision 2026-07-28"],
        "{stderr}"
    );
}

#[tokio::test]
async fn a_login_and_a_refreshed_token_are_a_line_each() {
    let provider = Provider::start(Manners::default()).await;
    let mut bridge = provider.bridge(&["--log-level", "info", "--no-server-stream"]);
    bridge.handshake().await;
    let (_, _, stderr) = bridge.finish().await;
    for part in ["INFO Logging in to http://", "INFO Logged in to http://"] {
        assert_eq!(stderr.matches(part).count(), 1, "{part}: {stderr}");
    }
    provider.leave(0);
    let mut bridge = provider.bridge(&["--log-level", "info", "--no-server-stream"]);
    bridge.handshake().await;
    let (_, _, stderr) = bridge.finish().await;
    assert!(stderr.contains(" refreshed\n") && !stderr.contains("Logging in"), "{stderr}");
    assert!(!stderr.contains("hidden-"), "{stderr}");
}
