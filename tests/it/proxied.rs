//! What stands between us and a server: load balancers that want their cookies back, and proxies
//! that pack what nobody asked to be packed.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::support::{Bridge, Reply, Server, polite, request, result};

fn packed(text: &str) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer.write_all(text.as_bytes()).unwrap();
    packer.finish().unwrap()
}

#[tokio::test]
async fn cookies_go_back_with_every_request_of_the_session() {
    // peers b 35: sticky load balancers
    let script = |r: &crate::support::Request| match &*r.what() {
        "initialize" => polite(r).header("Set-Cookie", "lb=node-7; Path=/; HttpOnly"),
        _ => polite(r),
    };
    let server = Server::start(script).await;
    let mut bridge = Bridge::ready(&[&server.url, "-H", "Cookie: mine=1"]).await;
    bridge.ask(request(1, "a")).await;
    server.saw("GET").await;
    bridge.finish().await;
    for request in server.requests() {
        let expected = if request.what() == "initialize" { "mine=1" } else { "mine=1; lb=node-7" };
        assert_eq!(request.header("cookie"), Some(expected), "{}", request.what());
    }
    let server = Server::start(script).await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-cookies"]).await;
    bridge.ask(request(1, "a")).await;
    assert!(server.requests().iter().all(|request| request.header("cookie").is_none()));
}

#[tokio::test]
async fn packed_answers_are_unpacked() {
    let server = Server::start(|r| {
        let id = || r.id();
        match &*r.what() {
            "json" => {
                Reply::json(packed(&result(id(), "{\"n\":1}"))).header("Content-Encoding", "gzip")
            }
            "events" => {
                let event = format!("data: {}\n\n", result(id(), "{\"n\":2}"));
                let bytes = packed(&event);
                let (first, second) = bytes.split_at(bytes.len() / 2);
                Reply::sse().header("Content-Encoding", "GZIP").chunk(first).chunk(second).end()
            }
            "error" => Reply::status(418, "text/plain", packed("a teapot"))
                .header("Content-Encoding", "x-gzip"),
            "other" => Reply::json("?").header("Content-Encoding", "br"),
            "lie" => Reply::json(result(id(), "{}")).header("Content-Encoding", "gzip"),
            "plain" => Reply::json(result(id(), "{}")).header("Content-Encoding", "identity"),
            _ => polite(r),
        }
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    assert_eq!(bridge.ask(request(1, "json")).await["result"]["n"], 1);
    assert_eq!(bridge.ask(request(2, "events")).await["result"]["n"], 2);
    let error = bridge.ask(request(3, "error")).await["error"].clone();
    assert_eq!(error["message"], "HTTP 418: a teapot");
    let error = bridge.ask(request(4, "other")).await["error"].clone();
    assert_eq!(error["data"]["kind"], "bad-response");
    assert!(error["message"].as_str().unwrap().contains("'br'"), "{error}");
    let error = bridge.ask(request(5, "lie")).await["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("cannot be unpacked"), "{error}");
    assert!(bridge.ask(request(6, "plain")).await["result"].is_object());
    assert!(server.requests().iter().all(|r| r.header("accept-encoding").is_none()));
}

#[tokio::test]
async fn an_answer_that_is_small_when_packed_is_still_too_large() {
    let server = Server::start(|r| match &*r.what() {
        "bomb" => Reply::json(packed(&result(r.id(), &format!("\"{}\"", "x".repeat(5_000_000)))))
            .header("Content-Encoding", "gzip"),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--max-message-size", "1M"]).await;
    let error = bridge.ask(request(1, "bomb")).await["error"].clone();
    assert_eq!(error["data"]["kind"], "too-large", "{error}");
    assert!(bridge.ask(request(2, "a")).await["result"].is_object());
}
