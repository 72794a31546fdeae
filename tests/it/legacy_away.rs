//! Servers of the older transport that are not there: not yet, or not for a while.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::hub::is_get;
use crate::support::{
    Bridge, Hub, INITIALIZE, INITIALIZED, Reply, Request, Streams, bind_again, is_one_warning,
    request,
};

/// An address at which nobody listens, yet.
async fn reserved() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}

/// Accepts at `address` and resets; gives how many came within the time.
async fn closed_for(address: SocketAddr, time: Duration) -> usize {
    let listener = bind_again(address).await;
    let mut came = 0;
    let _ = tokio::time::timeout(time, async {
        while let Ok((stream, _)) = listener.accept().await {
            came += 1;
            let _ = stream.set_zero_linger();
        }
    })
    .await;
    came
}

#[tokio::test]
async fn a_server_that_restarts_is_waited_for() {
    // C7, C37, 4(d)27; section 7, 12
    let address = reserved().await;
    let hub = Hub::start_at(address, |_, _| None).await;
    let mut bridge = hub.ready(&[]).await;
    bridge.ask(request(1, "a")).await;
    hub.server.stop().await;
    for id in 2..12 {
        bridge.send(request(id, "tools/call")).await;
    }
    let tries = closed_for(address, Duration::from_millis(1500)).await;
    assert!(tries <= 12, "{tries} tries in one and a half seconds");
    let hub = Hub::start_at(address, starting(2)).await;
    let (answers, told) = bridge.answers(10).await;
    assert!(answers.iter().all(|answer| answer["result"]["did"] == "tools/call"), "{answers:?}");
    assert_eq!(told, ["notifications/tools/list_changed"]);
    assert_eq!((hub.all("GET").len(), hub.all("initialize").len()), (3, 1));
    assert_eq!(hub.all("tools/call").len(), 10, "each once");
    let stderr = bridge.finish().await.2;
    assert!(is_one_warning(&stderr), "{stderr}");
}

#[tokio::test]
async fn patience_with_a_server_that_stays_away_has_an_end() {
    // C37
    let hub = Hub::plain().await;
    let mut bridge = hub.ready(&["--away-wait", "0.5"]).await;
    bridge.ask(request(1, "a")).await;
    hub.server.stop().await;
    let start = Instant::now();
    let error = bridge.ask(request(2, "tools/call")).await["error"].clone();
    assert_eq!(error["data"]["delivery"], "not-delivered", "{error}");
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
}

#[tokio::test]
async fn patience_is_no_longer_for_who_came_while_a_new_stream_was_being_opened() {
    // C37
    let hub =
        Hub::start(|r, streams| (is_get(r) && streams.count() > 0).then(|| Reply::sse().hang()))
            .await;
    let mut bridge = hub.ready(&["--away-wait", "0.5"]).await;
    bridge.ask(request(1, "a")).await;
    hub.streams.forget().end();
    hub.saw_count("GET", 2).await;
    bridge.send(request(2, "tools/call")).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    hub.server.stop().await;
    let start = Instant::now();
    let (answer, _) = bridge.answer(2).await;
    assert_eq!(answer["error"]["data"]["delivery"], "not-delivered", "{answer}");
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
}

/// Refuses a few streams as a hub does that is about to start.
fn starting(refusals: usize) -> impl Fn(&Request, &Streams) -> Option<Reply> + Send + Sync {
    let left = AtomicUsize::new(refusals);
    move |r, _| {
        let take = |left: usize| left.checked_sub(1);
        let is_early = || left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok();
        let text = "Error establishing MCP connection";
        (is_get(r) && is_early()).then(|| Reply::status(500, "text/plain", text))
    }
}

#[tokio::test]
async fn a_server_that_is_about_to_start_is_waited_for() {
    // C37, 4(d)25; section 7, 22
    for transport in ["sse", "auto"] {
        let address = reserved().await;
        let mut bridge =
            Bridge::start(&[&format!("http://{address}/mcp"), "--transport", transport]);
        let lines = format!("{INITIALIZE}\n{INITIALIZED}\n{}\n", request(1, "tools/list"));
        bridge.send_bytes(lines.as_bytes()).await;
        tokio::time::sleep(Duration::from_millis(400)).await;
        let hub = Hub::start_at(address, starting(3)).await;
        assert!(bridge.receive().await["result"].is_object(), "{transport}");
        assert_eq!(bridge.receive().await["id"], 1, "{transport}");
        let (rest, _, stderr) = bridge.finish().await;
        assert!(rest.is_empty() && is_one_warning(&stderr), "{transport}: {rest:?} {stderr}");
        assert_eq!(hub.all("GET").len(), 4, "{transport}");
        let told = ["initialize", "notifications/initialized", "tools/list"];
        assert_eq!(hub.told(101), told, "{transport}");
    }
}

#[tokio::test]
async fn leaving_while_the_server_is_away_takes_no_longer_than_its_patience() {
    // C20, C27
    let hub = Hub::plain().await;
    let mut bridge = hub.ready(&["--away-wait", "0.5"]).await;
    bridge.ask(request(1, "a")).await;
    hub.server.stop().await;
    bridge.send(request(2, "tools/call")).await;
    let start = Instant::now();
    let (rest, status, _) = bridge.finish().await;
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(status.code(), Some(0));
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert!(rest[0].contains("not-delivered"), "{rest:?}");
}

#[tokio::test]
async fn leaving_while_the_server_is_away_and_nobody_waits_is_immediate() {
    let hub = Hub::plain().await;
    let mut bridge = hub.ready(&[]).await;
    bridge.ask(request(1, "a")).await;
    hub.server.stop().await;
    let start = Instant::now();
    let (rest, status, stderr) = bridge.finish().await;
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    assert_eq!((rest, status.code(), stderr.as_str()), (vec![], Some(0), ""));
}
