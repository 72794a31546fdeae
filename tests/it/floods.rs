//! Payloads of very many small parts: what they take of memory, of the log, and of the time of
//! others.

use std::time::{Duration, Instant};

use crate::support::process::command;
use crate::support::{Bridge, Reply, Server, polite, request, result, run};

/// Bytes of a payload.
const SIZE: usize = 4 << 20;

/// What a payload of [`SIZE`] may cost at most, in MiB: four times its size and what the program
/// needs by itself. Each of its elements used to be kept, for thirty times its size.
const MOST: usize = 16 + 40;

/// What answers that wait for their reader may take: far less than all of them.
const MOST_WAITING: usize = 16;

/// An array of numbers, with `last` behind them.
fn batch(size: usize, last: &str) -> String {
    format!("[{}{last}]", "1,".repeat(size / 2))
}

/// The most that a process ever had in memory, in MiB.
#[cfg(target_os = "linux")]
fn peak(pid: u32) -> Option<usize> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<usize>().ok()? / 1024)
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_servers_batch_is_not_kept_in_pieces() {
    let server = Server::start(|r| match &*r.what() {
        "json" => Reply::json(batch(SIZE, &result(r.id(), "{}"))),
        "events" => Reply::sse().event(batch(SIZE, &result(r.id(), "{}"))).end(),
        _ => polite(r),
    })
    .await;
    for method in ["json", "events"] {
        let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
        assert!(bridge.ask(request(5, method)).await["result"].is_object());
        let peak = peak(bridge.pid()).unwrap();
        assert!(peak < MOST, "{method}: {peak} MiB");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_clients_batch_is_not_kept_in_pieces() {
    let server = Server::start(polite).await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    assert_eq!(bridge.ask(batch(SIZE, &request(5, "a"))).await["id"], 5);
    let peak = peak(bridge.pid()).unwrap();
    assert!(peak < MOST, "{peak} MiB");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn answers_that_a_client_does_not_read_stop_the_reading_of_its_batch() {
    let server = Server::start(polite).await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    let before = peak(bridge.pid()).unwrap();
    // Each of these has an answer of some 200 bytes, and takes twice that until it is written.
    let count = 100_000;
    bridge.send(format!("[{}{}]", r#"{"id":7},"#.repeat(count), request(5, "a"))).await;
    let until = Instant::now() + Duration::from_secs(1);
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let more = peak(bridge.pid()).unwrap() - before;
        assert!(more < MOST_WAITING, "{more} MiB");
    }
    for _ in 0..count {
        assert!(bridge.line().await.contains("-32600"));
    }
    assert_eq!(bridge.receive().await["id"], 5);
}

#[tokio::test]
async fn a_batch_writes_one_line_to_the_log_however_many_of_its_elements_are_no_messages() {
    let server = Server::start(|r| match &*r.what() {
        "events" => Reply::sse().event(batch(2000, &result(r.id(), "{}"))).end(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    assert!(bridge.ask(request(5, "events")).await["result"].is_object());
    assert_eq!(bridge.ask(batch(4000, &request(6, "a"))).await["id"], 6);
    let (_, _, stderr) = bridge.finish().await;
    assert_eq!(stderr.lines().count(), 2, "{stderr}");
    assert!(stderr.contains("SSE error: an event is a batch, and 1000 elements"), "{stderr}");
    assert!(stderr.contains("a line is a batch, and 2000 elements"), "{stderr}");
    assert!(stderr.contains("it is not an object"), "{stderr}");
}

/// A server that lists `count` tools on one page.
async fn listing(count: usize) -> Server {
    let tools = format!(r#"{{"tools":[{}{{}}]}}"#, "{},".repeat(count - 1));
    Server::start(move |r| match &*r.what() {
        "server/discover" => Reply::status(400, "", ""),
        "initialize" => Reply::json(result(
            r.id(),
            r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#,
        )),
        "tools/list" => Reply::json(result(r.id(), &tools)),
        _ => polite(r),
    })
    .await
}

#[tokio::test]
async fn a_list_of_too_many_items_is_refused_also_on_a_single_page() {
    let server = listing(100_001).await;
    let output = run(&["tools", &server.url], &[], "").await;
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("tools/list") && stderr.contains("more than 100000"), "{stderr}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_list_of_too_many_items_is_not_taken_in_before_it_is_refused() {
    let server = listing(SIZE / 3).await;
    for words in
        [&["tools", &*server.url][..], &["tools", &server.url, "--json"], &["check", &server.url]]
    {
        let mut child = command(words);
        child.stdin(std::process::Stdio::null());
        child.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let mut child = child.spawn().unwrap();
        let pid = child.id().unwrap();
        let mut most = 0;
        while child.try_wait().unwrap().is_none() {
            most = most.max(peak(pid).unwrap_or_default());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert!((5..MOST).contains(&most), "{words:?}: {most} MiB");
    }
}
