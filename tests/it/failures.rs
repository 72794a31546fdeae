//! Connections that do not come about, break or stall.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Bridge, Reply, Server, polite, request, result};

fn is(error: &Value, kind: &str, delivery: &str) {
    assert_eq!(error["code"], -32000, "{error}");
    assert_eq!(error["data"]["kind"], kind, "{error}");
    assert_eq!(error["data"]["delivery"], delivery, "{error}");
}

/// An address at which nobody listens.
async fn deserted() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}/mcp", listener.local_addr().unwrap())
}

#[tokio::test]
async fn a_refused_connection_is_an_error_that_says_what_and_where() {
    // S4-25
    let url = deserted().await;
    let mut bridge = Bridge::start(&[&url, "--away-wait", "0.2"]);
    let error = bridge.ask(request(1, "a")).await["error"].clone();
    is(&error, "connect", "not-delivered");
    let place = url.trim_start_matches("http://").trim_end_matches("/mcp");
    assert!(error["message"].as_str().unwrap().contains(place), "{error}");
    assert!(error["data"]["hint"].as_str().unwrap().contains(&url), "{error}");
    // The process stays, and says the same to the next one.
    let again = bridge.ask(request(2, "a")).await;
    assert_eq!((&again["id"], &again["error"]["data"]["kind"]), (&2.into(), &"connect".into()));
    let (rest, status, stderr) = bridge.finish().await;
    assert_eq!((rest.len(), status.code(), stderr.as_str()), (0, Some(0), ""));
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_an_error_of_its_own() {
    let mut bridge = Bridge::start(&["https://no-such-host.invalid/mcp", "--away-wait", "0.2"]);
    let error = bridge.ask(request(1, "a")).await["error"].clone();
    is(&error, "dns", "not-delivered");
    assert!(error["message"].as_str().unwrap().contains("no-such-host.invalid"), "{error}");
}

#[tokio::test]
async fn connecting_has_a_limit_of_its_own() {
    // A listener whose queue is full accepts no connection and refuses none.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut crowd = Vec::new();
    loop {
        let limit = Duration::from_millis(300);
        match std::net::TcpStream::connect_timeout(&address, limit) {
            Ok(stream) => crowd.push(stream),
            Err(_) => break,
        }
    }
    let url = format!("http://{address}/mcp");
    let mut bridge = Bridge::start(&[&url, "--connect-timeout", "0.3", "--away-wait", "0.2"]);
    let error = bridge.ask(request(1, "a")).await["error"].clone();
    is(&error, "connect", "not-delivered");
    assert!(error["message"].as_str().unwrap().contains("300 ms"), "{error}");
}

#[tokio::test]
async fn a_connection_that_breaks_before_the_answer_leaves_the_fate_unknown() {
    for script in [
        || Reply::nothing().cut(),
        || Reply::nothing().reset(),
        || Reply::nothing().raw("HTTP/1.1 200 O").cut(),
        || Reply::nothing().raw("nonsense\r\n\r\n").cut(),
    ] {
        let server = Server::start(move |_| script()).await;
        let mut bridge = Bridge::start(&[&server.url]);
        bridge.send(request(1, "tools/call")).await;
        server.saw("tools/call").await;
        let start = Instant::now();
        let error = bridge.receive().await["error"].clone();
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        is(&error, "closed", "unknown");
        assert!(error["data"]["reason"].is_string(), "{error}");
        assert_eq!(
            server.requests().len(),
            1,
            "a call that may have been carried out is not repeated"
        );
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_ends_its_request() {
    // S1-15, S1-22; the texts of requirements where they have one.
    let half = &result(1, "{\"long\":\"text\"}")[..20];
    let in_json = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{half}"
    );
    let half = half.to_owned();
    let scripts: Vec<(Reply, &str)> = vec![
        (Reply::nothing().raw(&in_json).cut(), "in the middle of the answer"),
        (Reply::nothing().raw(&in_json).reset(), "in the middle of the answer"),
        (
            Reply::sse().chunk(format!("data: {half}")).cut(),
            "No response received for request ID 1",
        ),
        (
            Reply::sse().chunk(format!("data: {half}")).reset(),
            "No response received for request ID 1",
        ),
        (
            Reply::sse().chunk(": hello\n\n").raw("zz\r\n").cut(),
            "No response received for request ID 1",
        ),
    ];
    for (reply, text) in scripts {
        let shown = format!("{reply:?}");
        let server = Server::start(move |_| reply.clone()).await;
        let mut bridge = Bridge::start(&[&server.url]);
        bridge.send(request(1, "tools/call")).await;
        server.saw("tools/call").await;
        let start = Instant::now();
        let error = bridge.receive().await["error"].clone();
        assert!(start.elapsed() < Duration::from_secs(1), "{shown}: {:?}", start.elapsed());
        is(&error, "closed", "unknown");
        assert!(error["message"].as_str().unwrap().contains(text), "{shown}: {error}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_broken_answer_does_not_hurt_the_others() {
    let server = Server::start(|r| match &*r.what() {
        "cut" => Reply::sse().chunk("data: {").reset(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    assert!(bridge.ask(request(1, "cut")).await["error"].is_object());
    assert!(bridge.ask(request(2, "a")).await["result"].is_object());
}

#[tokio::test]
async fn headers_and_bodies_may_come_in_single_bytes() {
    let server = Server::start(|r| {
        let body = result(r.id(), "{\"t\":\"ä\"}");
        let text = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        text.bytes().fold(Reply::nothing(), |reply, byte| reply.raw([byte]))
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    assert_eq!(bridge.ask(request(1, "a")).await["result"]["t"], "ä");
}

#[tokio::test]
async fn tls_where_there_is_none_is_an_error_of_its_own() {
    let server = Server::start(polite).await;
    let url = server.url.replace("http://127.0.0.1", "https://localhost");
    let mut bridge =
        Bridge::start(&[&url, "--timeout", "5", "--connect-timeout", "2", "--away-wait", "0.2"]);
    let error = bridge.ask(request(1, "a")).await["error"].clone();
    assert_eq!(error["data"]["delivery"], "not-delivered", "{error}");
    assert!(matches!(error["data"]["kind"].as_str(), Some("tls" | "connect")), "{error}");
}

#[tokio::test]
async fn an_answer_in_http_1_0_without_length_ends_with_its_connection() {
    let server = Server::start(|r| {
        let body = result(r.id(), "{}");
        Reply::nothing()
            .raw(format!("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{body}"))
            .cut()
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    for id in 1..3 {
        assert_eq!(bridge.ask(request(id, "a")).await["id"], id);
    }
}
