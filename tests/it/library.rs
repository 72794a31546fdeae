//! The library's client over HTTP, HTTP+SSE and child processes: the same lines for all.

use std::time::Duration;

use mcp_span::client::Spec;
use mcp_span::error::{Delivery, ErrorKind};
use mcp_span::transport::{child, http};
use mcp_span::{Client, Error, Stage};
use serde_json::json;

use crate::support::hub::acknowledged;
use crate::support::{Gate, Hub, Manners, Provider, Reply, Server, polite, result, soon};

fn http(url: &str) -> http::HttpSettings {
    http::HttpSettings::new(url.parse().expect("a URL"))
}

async fn client(spec: Spec) -> Client {
    soon("a connection", Client::builder(spec).connect()).await.expect("a connection")
}

/// The failure of one call that the server replies to so.
async fn failure(reply: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Error {
    let server = Server::start(move |r| match &*r.what() {
        "tools/call" => reply(&r.id()),
        _ => polite(r),
    })
    .await;
    let client = client(Spec::url(server.url.parse().expect("a URL"))).await;
    let failure = soon("an end", async { client.call("x", ()).await }).await;
    assert_eq!(server.all("tools/call").len(), 1, "one POST, whatever the answer");
    client.close().await;
    failure.expect_err("a failure")
}

#[tokio::test]
async fn the_same_conversation_over_every_transport() {
    // S1-03, S1-06: stdio, Streamable HTTP found by itself and asked for, HTTP+SSE likewise.
    let server = Server::start(polite).await;
    let hub = Hub::start(|_, _| None).await;
    let with = |url: &str, transport| {
        let mut settings = http(url);
        settings.transport = transport;
        Spec::http(settings)
    };
    let demo = child::ChildSettings::new(env!("CARGO_BIN_EXE_mcp-span")).args(["demo"]);
    let specs = [
        Spec::child(demo),
        with(&server.url, http::Transport::Auto),
        with(&server.url, http::Transport::Http),
        with(&hub.url, http::Transport::Auto),
        with(&hub.url, http::Transport::Sse),
    ];
    for spec in specs {
        let client = client(spec).await;
        assert!(client.server()["serverInfo"]["name"].is_string(), "{}", client.server());
        client.ping().await.expect("a pong");
        client.tools().await.expect("a list, be it empty");
        client.notify("notifications/x", json!({"a": 1})).await.expect("it was sent");
        assert!(client.is_connected());
        soon("goodbye", client.close()).await;
        assert!(!client.is_connected());
        assert_eq!(client.ping().await.unwrap_err().message, "Transport closed");
    }
    // S1-31, S1-32: the session is named in each message, and ended.
    assert!(server.all("notifications/x").iter().all(|r| r.header("mcp-session-id") == Some("s1")));
    assert_eq!(server.all("DELETE").len(), 2);
    assert_eq!(hub.all("notifications/x").len(), 2);
}

#[tokio::test]
async fn a_call_to_a_child_has_progress_and_a_result() {
    let demo = child::ChildSettings::new(env!("CARGO_BIN_EXE_mcp-span")).args(["demo"]);
    let client = client(Spec::child(demo)).await;
    let mut steps = Vec::new();
    let counted = client
        .call("countdown", json!({"from": 2}))
        .on_progress(|progress| steps.push((progress.progress, progress.total)))
        .await
        .expect("a result");
    assert_eq!(counted.text(), "Counted down from 2.");
    assert_eq!(steps, [(1.0, Some(2.0)), (2.0, Some(2.0))]);
    let unknown = client.call("no-such-tool", ()).await.unwrap_err();
    assert_eq!((unknown.kind, unknown.code()), (ErrorKind::Rpc, -32602));
    client.close().await;
}

#[tokio::test]
async fn s1_13_s1_14_events_before_the_answer_are_notifications() {
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => Reply::sse()
            .event(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"on"}}"#)
            .event(result("77", "{}"))
            .event(result(r.id(), r#"{"content":[]}"#))
            .end(),
        _ => polite(r),
    })
    .await;
    let client = client(Spec::url(server.url.parse().unwrap())).await;
    let mut notifications = client.notifications();
    assert_eq!(client.call("x", ()).typed().await, Ok(json!({"content": []})));
    let heard = soon("a notification", notifications.next()).await.unwrap();
    assert_eq!(heard.params["data"], "on");
    client.close().await;
}

#[tokio::test]
async fn s1_15_a_stream_without_the_answer_is_a_failure_with_its_text() {
    let failure = failure(|_| Reply::sse().event(result("77", "{}")).end()).await;
    assert_eq!(failure.message, "No response received for request ID 2");
    assert_eq!((failure.kind, failure.stage()), (ErrorKind::NoResponse, Stage::Receive));
    assert_eq!(failure.delivery, Delivery::Unknown);
}

#[tokio::test]
async fn s1_35_s1_36_http_errors_keep_status_text_and_hints() {
    let failure = failure(|_| {
        Reply::status(403, "text/plain", "not you").header("Mcp-Auth-Server", "https://as.example")
    })
    .await;
    assert_eq!(failure.message, "HTTP 403: not you [Mcp-Auth-Server: https://as.example]");
    assert_eq!((failure.status, failure.is_retryable()), (Some(403), false));
    assert_eq!(failure.stage(), Stage::Receive);
}

#[tokio::test]
async fn s1_37_an_error_of_the_servers_is_the_servers() {
    let failure = failure(|id| {
        let error = r#"{"code":-5,"message":"out of paper","data":{"tray":2}}"#;
        Reply::json(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#))
    })
    .await;
    assert_eq!(failure.to_string(), "MCP error -5: out of paper");
    assert_eq!((failure.kind, failure.stage()), (ErrorKind::Rpc, Stage::Protocol));
    assert_eq!(failure.data(), Some(json!({"tray": 2})));
}

#[tokio::test]
async fn s1_38_an_answer_that_is_no_json_is_a_failure() {
    let failure = failure(|_| Reply::json("{nonsense")).await;
    assert_eq!((failure.kind, failure.stage()), (ErrorKind::BadResponse, Stage::Decode));
}

#[tokio::test]
async fn s1_33_s1_34_silence_is_a_timeout_with_its_text() {
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => Reply::nothing().hang(),
        _ => polite(r),
    })
    .await;
    let mut settings = http(&server.url);
    settings.timeouts.work = Some(Duration::from_millis(300));
    let client = client(Spec::http(settings)).await;
    let failure = client.call("x", ()).await.unwrap_err();
    assert_eq!(failure.message, "Request timeout after 300ms");
    assert_eq!((failure.kind, failure.delivery), (ErrorKind::Timeout, Delivery::Unknown));
    client.close().await;
}

#[tokio::test]
async fn a_server_that_is_down_is_an_error_of_the_connection() {
    let server = Server::start(polite).await;
    let url = server.url.clone();
    server.stop().await;
    let mut spec = Spec::url(url.parse().unwrap());
    spec.policy.connect_wait = Duration::ZERO;
    let failure = soon("an end", Client::builder(spec).connect()).await.unwrap_err();
    assert_eq!((failure.kind, failure.stage()), (ErrorKind::Connect, Stage::Connect));
    assert!(failure.is_retryable() && failure.hint.is_some(), "{failure:?}");
}

#[tokio::test]
async fn a_lost_session_is_healed_below_the_client() {
    let gone = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let script = std::sync::Arc::clone(&gone);
    let server = Server::start(move |r| {
        let is_old = r.header("mcp-session-id").is_some() && r.what() != "DELETE";
        if is_old && script.swap(false, std::sync::atomic::Ordering::SeqCst) {
            return Reply::status(404, "text/plain", "Session not found");
        }
        polite(r)
    })
    .await;
    let client = client(Spec::url(server.url.parse().unwrap())).await;
    gone.store(true, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(client.call("x", ()).typed().await, Ok(json!({"did": "tools/call"})));
    assert_eq!(server.all("initialize").len(), 2);
    client.close().await;
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_over_http_and_closing_does_not_wait_for_it() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::start(move |r| match &*r.what() {
        "tools/call" => Reply::sse().wait(&held).event(result(r.id(), "{}")).end(),
        _ => polite(r),
    })
    .await;
    let client = client(Spec::url(server.url.parse().unwrap())).await;
    let calling = tokio::spawn({
        let client = client.clone();
        async move { client.call("slow", ()).await }
    });
    let asked = server.saw("tools/call").await;
    calling.abort();
    let told = server.saw("notifications/cancelled").await;
    assert_eq!(told.json()["params"]["requestId"].to_string(), asked.id());
    let other = tokio::spawn({
        let client = client.clone();
        async move { client.call("slow", ()).await }
    });
    server.saw_count("tools/call", 2).await;
    soon("goodbye", client.close()).await;
    assert_eq!(other.await.unwrap().unwrap_err().message, "Transport closed");
    server.saw("DELETE").await;
    gate.open();
}

#[tokio::test]
async fn what_a_server_asks_reaches_the_handler_over_http() {
    let feed = crate::support::Feed::new();
    let stream = feed.clone();
    let server = Server::start(move |r| match &*r.http_method {
        "GET" => Reply::sse().feed(&stream),
        _ => polite(r),
    })
    .await;
    let connecting = Client::builder(&server.url).on_request("roots/list", |asked| async move {
        Ok(json!({"roots": [], "asked": asked.method}))
    });
    let client = connecting.connect().await.unwrap();
    server.saw("GET").await;
    feed.event(r#"{"jsonrpc":"2.0","id":"r","method":"roots/list"}"#);
    server.until_answer().await;
    let answered = server.requests();
    let answer = answered.iter().find(|r| !r.json()["result"].is_null()).unwrap();
    assert_eq!(answer.json()["result"]["asked"], "roots/list");
    client.close().await;
}

#[tokio::test]
async fn a_requests_own_timeout_is_longer_than_the_links_over_http() {
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => Reply::sse().pause(700).event(result(r.id(), "{}")).end(),
        _ => polite(r),
    })
    .await;
    let hub = Hub::start(|r, hub| {
        (r.what() == "tools/call").then(|| {
            hub.newest().pause(700);
            hub.say(result(r.id(), "{}"));
            acknowledged()
        })
    })
    .await;
    for url in [&server.url, &hub.url] {
        let client = Client::builder(url).timeout(Duration::from_millis(200));
        let client = soon("a connection", client.connect()).await.unwrap();
        let failure = soon("an end", async { client.call("x", ()).await }).await.unwrap_err();
        assert!(failure.message.ends_with("timeout after 200ms"), "{failure}");
        let patient = async { client.call("x", ()).timeout(Duration::from_secs(60)).await };
        soon("an answer", patient).await.unwrap();
        client.close().await;
    }
}

#[tokio::test]
async fn a_login_that_nobody_has_done_is_an_error_with_its_address() {
    let provider = Provider::start(Manners::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let connecting = || {
        let builder = Client::builder(&provider.url).login_wait(Duration::from_millis(300));
        builder.state_dir(folder.path())
    };
    let error = soon("an error", connecting().connect()).await.unwrap_err();
    assert_eq!(
        (error.kind, error.delivery),
        (ErrorKind::Login, Delivery::NotDelivered),
        "{error:?}"
    );
    let page = error.login_url.expect("where to log in");
    assert_eq!(page.scheme(), "http", "{page}");
    // The page is served on: whoever goes there is logged in.
    let browser =
        std::process::Command::new("curl").args(["-sL", "-o", "/dev/null", page.as_str()]).spawn();
    let logged_in = async {
        loop {
            match connecting().connect().await {
                Ok(client) => return client,
                Err(error) => assert_eq!(error.kind, ErrorKind::Login, "{error:?}"),
            }
        }
    };
    let client = soon("a client", logged_in).await;
    assert!(client.server()["serverInfo"]["name"].is_string());
    client.close().await;
    browser.unwrap().wait().unwrap();
}
