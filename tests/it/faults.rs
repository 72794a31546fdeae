//! The wire between bridge and server is damaged, at every byte.

use std::net::SocketAddr;
use std::time::Duration;

use crate::support::relay::{Fault, Relay};
use crate::support::{Bridge, Reply, Server, polite, request, result, soon};

fn address(server: &Server) -> SocketAddr {
    server.url.trim_start_matches("http://").trim_end_matches("/mcp").parse().expect("an address")
}

/// The third connection and all after it are damaged: the handshake is not the matter here.
async fn relayed(server: &Server, fault: Fault) -> (Relay, Bridge) {
    let relay =
        Relay::start(address(server), move |n| if n == 1 { fault } else { Fault::None }).await;
    // One connection for the handshake; it is closed by the server, so that a call takes the next.
    let mut bridge = Bridge::start(&[&relay.url, "--no-server-stream", "--timeout", "1"]);
    bridge.ask(request("\"first\"", "ping")).await;
    (relay, bridge)
}

/// Answers, and closes the connection behind each answer.
fn closing(r: &crate::support::Request) -> Reply {
    if r.json().get("id").is_none() {
        return polite(r);
    }
    let events = r.what() == "events";
    let body = result(r.id(), r#"{"text":"abc"}"#);
    if events {
        return Reply::sse().event(body).end().cut();
    }
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n";
    Reply::nothing().raw(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())).cut()
}

#[tokio::test]
async fn an_answer_that_is_cut_at_any_byte_ends_in_an_answer_or_in_an_error() {
    for method in ["json", "events"] {
        let server = Server::start(closing).await;
        for bytes in (1..160).step_by(7) {
            for fault in [Fault::CutAnswer(bytes), Fault::ResetAnswer(bytes)] {
                let (_relay, mut bridge) = relayed(&server, fault).await;
                let before = server.all(method).len();
                let answer = bridge.ask(request(1, method)).await;
                assert_eq!(answer["id"], 1, "{fault:?}");
                if answer.get("result").is_none() {
                    assert_eq!(
                        answer["error"]["data"]["delivery"], "unknown",
                        "{fault:?}: {answer}"
                    );
                }
                assert_eq!(server.all(method).len() - before, 1, "{fault:?}: carried out once");
            }
        }
    }
}

#[tokio::test]
async fn a_request_that_is_cut_at_any_byte_ends_in_an_error_and_is_not_carried_out() {
    let server = Server::start(closing).await;
    for bytes in (1..200).step_by(13) {
        let (_relay, mut bridge) = relayed(&server, Fault::CutRequest(bytes)).await;
        let answer = bridge.ask(request(1, "tools/call")).await;
        assert_eq!(answer["error"]["data"]["kind"], "closed", "{bytes}: {answer}");
    }
    assert!(server.all("tools/call").is_empty());
}

#[tokio::test]
async fn stalls_and_swallowed_requests_end_with_the_timeout() {
    let server = Server::start(closing).await;
    for fault in [Fault::StallAnswer(30), Fault::StallAnswer(100), Fault::Swallow] {
        let (_relay, mut bridge) = relayed(&server, fault).await;
        let answer = bridge.ask(request(1, "tools/call")).await;
        assert_eq!(answer["error"]["data"]["kind"], "timeout", "{fault:?}: {answer}");
    }
}

#[tokio::test]
async fn slow_and_split_wires_change_nothing() {
    let server = Server::start(closing).await;
    for fault in [Fault::Split, Fault::Delay(Duration::from_millis(50))] {
        for method in ["json", "events"] {
            let (_relay, mut bridge) = relayed(&server, fault).await;
            bridge.send(request(1, method)).await;
            assert_eq!(bridge.line().await, result(1, r#"{"text":"abc"}"#));
        }
    }
}

#[tokio::test]
async fn a_connection_that_is_reset_at_once_is_as_good_as_none() {
    let server = Server::start(closing).await;
    let (_relay, mut bridge) = relayed(&server, Fault::Refuse).await;
    let answer = bridge.ask(request(1, "tools/list")).await;
    assert!(answer["result"].is_object(), "what is safe is sent again: {answer}");
}

#[tokio::test]
async fn no_connection_is_left_over() {
    let server = Server::start(|r| match &*r.what() {
        "GET" => Reply::sse().hang(),
        _ => polite(r),
    })
    .await;
    let relay = Relay::start(address(&server), |_| Fault::None).await;
    let mut bridge = Bridge::ready(&[&relay.url]).await;
    for id in 0..50 {
        bridge.send(request(id, "tools/call")).await;
    }
    for _ in 0..50 {
        bridge.receive().await;
    }
    bridge.finish().await;
    let closed = async {
        while relay.open_connections() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon("the end of all connections", closed).await;
}

/// TCP's own probes find a peer that went without a word; the kernel shows that they are on.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn half_open_connections_are_probed() {
    let server = Server::start(|r| match &*r.what() {
        "GET" => Reply::sse().chunk(": hello\n\n").hang(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    server.saw("GET").await;
    bridge.ask(request(1, "a")).await;
    let remote = format!(":{:04X}", address(&server).port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let timers: Vec<&str> = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|columns| columns.len() > 5 && columns[2].ends_with(&remote) && columns[3] == "01")
        .map(|columns| if columns[5].starts_with("02:") { "keepalive" } else { "none" })
        .collect();
    assert!(!timers.is_empty() && timers.iter().all(|timer| *timer == "keepalive"), "{timers:?}");
}
