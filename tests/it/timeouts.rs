//! Silence has an end; activity restarts the clock.

use std::time::Duration;

use crate::support::{Bridge, Gate, Hub, Reply, Server, polite, request, result};

#[tokio::test]
async fn a_silent_server_times_out_and_is_told_so() {
    // S0-22, S1-23, S1-24, S1-33, S1-34, S4-08, S4-26, C2, C19; section 7, 10.
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => Reply::nothing().hang(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--timeout", "0.3"]).await;
    let error = bridge.ask(request("\"x\"", "tools/call")).await["error"].clone();
    assert_eq!(error["code"], -32000);
    assert_eq!(error["message"], "Request timeout after 300ms");
    assert_eq!(error["data"]["kind"], "timeout");
    assert_eq!(error["data"]["delivery"], "unknown");
    let notice = server.saw("notifications/cancelled").await;
    assert_eq!(notice.json()["params"]["requestId"], "x");
    assert_eq!(notice.header("mcp-session-id"), Some("s1"));
    assert_eq!(server.all("tools/call").len(), 1, "it is not sent again");
    assert_eq!(bridge.ask(request(2, "a")).await["id"], 2);
}

#[tokio::test]
async fn a_silent_stream_times_out_in_its_own_words() {
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => Reply::sse().chunk(": here I am\n\n").hang(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--timeout", "0.3"]).await;
    let error = bridge.ask(request(1, "tools/call")).await["error"].clone();
    assert_eq!(error["message"], "SSE response timeout after 300ms");
    assert_eq!(server.saw("notifications/cancelled").await.json()["params"]["requestId"], 1);
}

#[tokio::test]
async fn a_body_that_stops_coming_times_out() {
    let server = Server::start(|_| {
        Reply::nothing()
            .raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{")
            .hang()
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url, "--timeout", "0.3"]);
    let error = bridge.ask(request(1, "a")).await["error"].clone();
    assert_eq!(error["data"]["kind"], "timeout", "{error}");
}

#[tokio::test]
async fn comments_and_progress_restart_the_clock() {
    // C2: inactivity, not total time.
    let server = Server::start(|r| {
        let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#;
        let mut reply = Reply::sse();
        for _ in 0..4 {
            reply = reply.pause(250).chunk(": ping\n\n").pause(250).event(progress);
        }
        reply.event(result(r.id(), "{}")).end()
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url, "--timeout", "1"]);
    bridge.send(request(1, "tools/call")).await;
    for _ in 0..4 {
        assert_eq!(bridge.receive().await["method"], "notifications/progress");
    }
    assert!(bridge.receive().await["result"].is_object(), "two seconds, never one of silence");
}

/// What the client gets for a call whose answer comes, by `answer`, while the bridge is stopped for
/// longer than it may take.
#[cfg(unix)]
async fn stopped_during(mut bridge: Bridge, server: &Server, answer: impl FnOnce()) -> String {
    bridge.send(request(1, "tools/call")).await;
    server.saw("tools/call").await;
    bridge.signal("STOP");
    answer();
    tokio::time::sleep(Duration::from_secs(3)).await;
    bridge.signal("CONT");
    bridge.line().await
}

#[cfg(unix)]
#[tokio::test]
async fn what_came_while_the_bridge_was_stopped_came_in_time() {
    // C2: the server was not silent.
    let limit = ["--timeout", "1", "--no-server-stream"];
    let body = result(1, "{}");
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ";
    let whole = format!("{head}{}\r\n\r\n{body}", body.len());
    let replies = |gate: &Gate| {
        [
            Reply::nothing().wait(gate).raw(&whole),
            Reply::json(&body).held(gate),
            Reply::sse().chunk(": soon\n\n").wait(gate).event(&body).end(),
        ]
    };
    for form in 0..3 {
        let gate = Gate::new();
        let reply = replies(&gate)[form].clone();
        let server = Server::start(move |r| match &*r.what() {
            "tools/call" => reply.clone(),
            _ => polite(r),
        })
        .await;
        let bridge = Bridge::ready(&[&[&*server.url], &limit[..]].concat()).await;
        assert_eq!(stopped_during(bridge, &server, || gate.open()).await, body, "{form}");
    }
    let hub = Hub::start(|r, _| (r.what() == "tools/call").then(Reply::accepted)).await;
    let bridge = hub.ready(&limit[..2]).await;
    assert_eq!(stopped_during(bridge, &hub, || hub.streams.say(&body)).await, body);
}

#[tokio::test]
async fn zero_switches_the_clock_off() {
    let gate = Gate::new();
    let held = gate.clone();
    let server =
        Server::start(move |r| Reply::sse().wait(&held).event(result(r.id(), "{}")).end()).await;
    let mut bridge = Bridge::start_with(&[&server.url], &[("MCP_SPAN_TIMEOUT", "0")]);
    bridge.send(request(1, "a")).await;
    server.saw("a").await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    gate.open();
    assert!(bridge.receive().await["result"].is_object());
}

#[tokio::test]
async fn a_notification_that_is_not_accepted_in_time_is_given_up_silently_for_the_client() {
    // S1-33, S1-34
    let server = Server::start(|r| match &*r.what() {
        "notifications/x" => Reply::nothing().hang(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--timeout", "0.3"]).await;
    bridge.send(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#).await;
    server.saw_abandoned("notifications/x").await;
    assert_eq!(bridge.ask(request(2, "a")).await["id"], 2);
    let (rest, _, stderr) = bridge.finish().await;
    assert!(rest.is_empty());
    assert!(stderr.contains("Notify timeout after 300ms"), "{stderr}");
}

#[tokio::test]
async fn an_initialize_that_times_out_is_not_cancelled_and_can_be_repeated() {
    let server = Server::start(|r| match &*r.what() {
        "initialize" if r.id() == "1" => Reply::nothing().hang(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url, "--timeout", "0.3"]);
    let error = bridge.ask(request(1, "initialize")).await["error"].clone();
    assert_eq!(error["data"]["kind"], "timeout");
    bridge.handshake().await;
    assert!(server.all("notifications/cancelled").is_empty());
}

#[tokio::test]
async fn the_server_is_told_of_a_timeout_even_if_the_client_has_left() {
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => Reply::nothing().hang(),
        "notifications/cancelled" => {
            Reply::nothing().pause(100).raw("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
        }
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--timeout", "0.3"]).await;
    bridge.send(request(1, "tools/call")).await;
    server.saw("tools/call").await;
    let (rest, _, _) = bridge.finish().await;
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!(server.all("notifications/cancelled").len(), 1);
    assert_eq!(server.asked().last().unwrap(), "DELETE");
}
