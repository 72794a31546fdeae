//! What breaks between clients and servers of two eras, and what is made whole again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::eras_modern::{OPENED, sessions};
use crate::support::{Bridge, Feed, Hub, Reply, Request, Server, modern, polite, result};

#[tokio::test]
async fn failing_servers_decide_no_era_for_a_modern_client() {
    let refusal = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no"}}"#;
    let replies: [fn(&str) -> Reply; 4] = [
        |_| Reply::status(500, "text/plain", "no"),
        |_| Reply::status(502, "text/html", "<h1>Bad Gateway</h1>"),
        |body| Reply::status(503, "application/json", body),
        |_| Reply::nothing().hang(),
    ];
    for (at, reply) in replies.into_iter().enumerate() {
        let count = AtomicUsize::new(0);
        let server = Server::start(move |r| match count.fetch_add(1, Ordering::SeqCst) {
            0 => reply(refusal),
            _ => polite(r),
        })
        .await;
        let mut bridge = Bridge::start(&[&server.url, "--timeout", "1"]);
        let answer = bridge.ask(modern(1, "completion/complete", "")).await;
        assert!(answer["error"].is_object(), "{at}: {answer}");
        let answer = bridge.ask(modern(2, "tools/list", "")).await;
        assert_eq!(answer["result"]["did"], "tools/list", "{at}: {answer}");
        let last = server.all("tools/list").pop().expect("the list");
        assert_eq!(last.header("mcp-method"), Some("tools/list"), "{at}: as it came");
        assert!(server.all("initialize").is_empty(), "{at}");
    }
}

/// A server with sessions that forgets the first one when it is told to.
fn forgetful(is_lost: &Arc<AtomicBool>, stream: &Feed) -> impl Fn(&Request) -> Reply + use<> {
    let (is_lost, stream) = (Arc::clone(is_lost), stream.clone());
    move |r| {
        let is_lost = is_lost.load(Ordering::SeqCst);
        let session = if is_lost { "s2" } else { "s1" };
        match &*r.what() {
            "initialize" => Reply::json(result(r.id(), OPENED)).header("Mcp-Session-Id", session),
            _ if is_lost && r.header("mcp-session-id") == Some("s1") => {
                Reply::status(404, "text/plain", "Session not found")
            }
            "GET" if is_lost => Reply::sse().feed(&stream),
            _ => sessions(r),
        }
    }
}

#[tokio::test]
async fn a_new_session_knows_what_the_old_one_was_told_for_a_modern_client() {
    let (is_lost, stream) = (Arc::new(AtomicBool::new(false)), Feed::new());
    let server = Server::start(forgetful(&is_lost, &stream)).await;
    let mut bridge = Bridge::start(&[&server.url]);
    let loud = |id: u32| {
        modern(id, "tools/call", r#""name":"t","#).replace(
            r#""io.modelcontextprotocol/clientCapabilities""#,
            r#""io.modelcontextprotocol/logLevel":"info","io.modelcontextprotocol/clientCapabilities""#,
        )
    };
    let answer = bridge.ask(loud(1)).await;
    assert_eq!(answer["result"]["did"], "tools/call", "{answer}");
    let listen = r#""notifications":{"resourceSubscriptions":["a:b"]},"#;
    let acknowledged = bridge.ask(modern(2, "subscriptions/listen", listen)).await;
    assert_eq!(acknowledged["params"]["notifications"], json!({"resourceSubscriptions":["a:b"]}));
    is_lost.store(true, Ordering::SeqCst);
    let answer = bridge.ask(loud(3)).await;
    assert_eq!(answer["result"]["did"], "tools/call", "{answer}");
    server.saw_count("resources/subscribe", 2).await;
    server.saw_count("logging/setLevel", 2).await;
    for what in ["resources/subscribe", "logging/setLevel"] {
        let told: Vec<Value> =
            server.all(what).iter().map(|r| r.json()["params"].clone()).collect();
        assert_eq!(told[0], told[1], "{what}");
        assert_eq!(server.all(what)[1].header("mcp-session-id"), Some("s2"), "{what}");
    }
    stream.event(
        r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}"#,
    );
    let heard = bridge.receive().await;
    assert_eq!(heard["params"]["uri"], "a:b", "{heard}");
    let mark = "io.modelcontextprotocol/subscriptionId";
    assert_eq!(heard["params"]["_meta"][mark], 2);
}

#[tokio::test]
async fn a_modern_client_outlives_the_stream_of_an_older_transport() {
    let hub = Hub::plain().await;
    let mut bridge = Bridge::start(&[&hub.url]);
    let answer = bridge.ask(modern(1, "tools/call", r#""name":"t","#)).await;
    assert_eq!(answer["result"]["session"], 1, "{answer}");
    for session in 2..4 {
        hub.streams.forget().end();
        // One more, by which it was found out what the hub speaks.
        hub.saw_count("initialize", session as usize + 1).await;
        let answer = bridge.ask(modern(session, "tools/call", r#""name":"t","#)).await;
        assert_eq!(answer["result"]["session"], session, "{answer}");
        assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    }
}
