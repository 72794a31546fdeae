//! What is sent again, and what never is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::{Bridge, Reply, Request, Server, polite, request, result};

/// A server that breaks the first `times` requests with `method`, after having seen them.
fn breaking(
    method: &'static str,
    times: usize,
    how: fn() -> Reply,
) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
    let count = AtomicUsize::new(0);
    move |r: &Request| {
        if r.what() == method && count.fetch_add(1, Ordering::SeqCst) < times {
            return how();
        }
        if r.what() == "tools/list" {
            return Reply::json(result(
                r.id(),
                r#"{"tools":[{"name":"look","annotations":{"readOnlyHint":true}},{"name":"put","annotations":{"idempotentHint":true}},{"name":"pay"}]}"#,
            ));
        }
        polite(r)
    }
}

const WAYS: [fn() -> Reply; 4] = [
    || Reply::nothing().cut(),
    || Reply::nothing().reset(),
    || Reply::sse().chunk("data: {").reset(),
    || Reply::sse().end(),
];

fn call(id: u32, tool: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}"}}}}"#)
}

#[tokio::test]
async fn what_only_looks_is_sent_again_once() {
    for how in WAYS {
        for method in
            ["tools/list", "resources/read", "prompts/get", "completion/complete", "initialize"]
        {
            let server = Server::start(breaking(method, 1, how)).await;
            let mut bridge = Bridge::start(&[&server.url, "--no-server-stream"]);
            let answer = bridge.ask(request(1, method)).await;
            assert!(answer["result"].is_object(), "{method}: {answer}");
            assert_eq!(server.all(method).len(), 2);
        }
        let server = Server::start(breaking("tools/list", 9, how)).await;
        let mut bridge = Bridge::start(&[&server.url]);
        let answer = bridge.ask(request(1, "tools/list")).await;
        assert_eq!(answer["error"]["data"]["delivery"], "unknown", "{answer}");
        assert_eq!(server.all("tools/list").len(), 2, "once, not twice");
    }
}

#[tokio::test]
async fn what_does_something_is_never_sent_again() {
    // C6; peers b 5; also on a connection that was used before.
    for how in WAYS {
        for method in ["tools/call", "x/unknown", "logging/setLevel", "resources/subscribe"] {
            let server = Server::start(breaking(method, 9, how)).await;
            let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
            bridge.ask(request(1, "ping")).await;
            bridge.send(request(2, method)).await;
            server.saw(method).await;
            let start = Instant::now();
            let answer = bridge.receive().await;
            assert!(start.elapsed() < Duration::from_secs(1), "{method}: {:?}", start.elapsed());
            assert_eq!(answer["error"]["data"]["delivery"], "unknown", "{answer}");
            assert_eq!(server.all(method).len(), 1, "{method}");
        }
    }
}

#[tokio::test]
async fn a_tool_is_sent_again_if_it_says_that_this_does_no_harm() {
    for (tool, times) in [("look", 2), ("put", 2), ("pay", 1), ("unlisted", 1)] {
        let server = Server::start(breaking("tools/call", 1, || Reply::nothing().reset())).await;
        let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
        bridge.ask(request(1, "tools/list")).await;
        let answer = bridge.ask(call(2, tool)).await;
        assert_eq!(server.all("tools/call").len(), times, "{tool}: {answer}");
        assert_eq!(answer["result"].is_object(), times == 2, "{tool}: {answer}");
    }
}

#[tokio::test]
async fn a_tool_that_was_never_listed_is_not_known_to_be_safe() {
    let server = Server::start(breaking("tools/call", 1, || Reply::nothing().reset())).await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    let answer = bridge.ask(call(2, "look")).await;
    assert_eq!(answer["error"]["data"]["delivery"], "unknown", "{answer}");
}

#[tokio::test]
async fn errors_of_the_server_are_final() {
    for status in [400, 404, 405, 409, 415, 500, 501, 502, 503, 504] {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let server = Server::start(move |r| {
            if r.what() == "tools/list" {
                counted.fetch_add(1, Ordering::SeqCst);
                return Reply::status(status, "text/plain", "no");
            }
            polite(r)
        })
        .await;
        let mut bridge = Bridge::start(&[&server.url]);
        let answer = bridge.ask(request(1, "tools/list")).await;
        assert_eq!(answer["error"]["data"]["status"], status, "{answer}");
        assert_eq!(count.load(Ordering::SeqCst), 1, "{status}");
    }
}

#[tokio::test]
async fn an_idle_connection_that_the_server_has_closed_costs_nobody_anything() {
    // Section 7, 15: the server closes after each answer, without a word.
    let server = Server::start(|r| {
        let body = result(r.id(), "{}");
        Reply::nothing()
            .raw(format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ))
            .cut()
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    for id in 0..20 {
        let answer = bridge.ask(request(id, "tools/call")).await;
        assert!(answer["result"].is_object(), "{answer}");
        // The close has arrived by the time of the next call: it is seen before anything is sent.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(server.all("tools/call").len(), 20);
}

#[tokio::test]
async fn a_repeated_call_that_ends_undelivered_may_have_been_carried_out_before() {
    // The first try is carried out and its answer lost; the second finds nobody.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let server =
        Server::start_at(address, breaking("tools/list", 9, || Reply::nothing().pause(300).cut()))
            .await;
    let url = format!("http://{address}/mcp");
    let mut bridge = Bridge::start(&[&url, "--away-wait", "0.6"]);
    bridge.send(request(1, "tools/list")).await;
    server.saw("tools/list").await;
    server.stop().await;
    let answer = bridge.receive().await;
    assert_eq!(answer["error"]["data"]["kind"], "connect", "{answer}");
    assert_eq!(answer["error"]["data"]["delivery"], "unknown", "{answer}");
}

#[tokio::test]
async fn a_connection_that_was_idle_for_longer_than_servers_keep_it_is_not_used_again() {
    // Section 7, 15: the usual server closes after five seconds, and a request may meet that.
    let server = Server::start(polite).await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    bridge.ask(request(1, "tools/call")).await;
    bridge.ask(request(2, "tools/call")).await;
    assert_eq!(server.connections(), 1, "used again while it is fresh");
    tokio::time::sleep(Duration::from_millis(4500)).await;
    bridge.ask(request(3, "tools/call")).await;
    assert_eq!(server.connections(), 2);
}
