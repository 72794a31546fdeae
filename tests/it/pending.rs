//! Logins that become necessary while a client waits for an answer: nobody is kept waiting for a person
//! without being told, neither by a call nor by the end of the program.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::provider::place;
use crate::support::{
    Bridge, Gate, INITIALIZE, INITIALIZED, Manners, Provider, Reply, Request, modern, polite,
    request, result, soon,
};

/// A person who comes when the test says so.
const LATE: &str = "while [ -e \"$0\" ] && [ ! -e \"$2/go\" ]; do sleep 0.02; done
                    exec curl -sL -o /dev/null \"$1\"";
const SOON: [&str; 2] = ["--oauth-wait", "0.2"];

const OFFER: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},
    "serverInfo":{"name":"s","version":"1"}}"#;

/// A session whose token is no good any more, and nobody who logs in.
async fn without_token(args: &[&str]) -> (Provider, Bridge) {
    let provider = Provider::start(Manners { gives_refresh: false, ..Manners::default() }).await;
    let bridge = provider.ready(&[args, &["--no-server-stream"]].concat()).await;
    provider.server().saw("notifications/initialized").await;
    provider.desk.expire();
    provider.browse(LATE);
    (provider, bridge)
}

fn is_told_of(provider: &Provider, answer: &Value) {
    let (error, page) = (&answer["error"], provider.pages().pop().unwrap());
    assert_eq!(error["data"]["kind"], "login", "{answer}");
    assert_eq!(error["data"]["url"], page, "{answer}");
    assert!(error["message"].as_str().unwrap().contains(&page), "{answer}");
}

async fn ends_at_once(provider: &Provider, bridge: Bridge) {
    let begun = Instant::now();
    let (rest, status, stderr) = bridge.finish().await;
    assert!(status.success(), "{stderr}");
    // Two seconds on a machine that has nothing else to do.
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    assert_eq!(rest.len(), 1, "{rest:?}");
    is_told_of(provider, &serde_json::from_str(&rest[0]).unwrap());
}

#[tokio::test]
async fn a_client_that_leaves_in_mid_session_is_not_held_up_by_a_login() {
    let (provider, mut bridge) = without_token(&[]).await;
    bridge.send(request(1, "tools/call")).await;
    provider.browsed(2).await;
    ends_at_once(&provider, bridge).await;
}

#[tokio::test]
async fn neither_is_one_of_the_modern_era() {
    let provider = Provider::start(Manners::default()).await;
    provider.browse(LATE);
    let mut bridge = provider.bridge(&[]);
    bridge.send(modern(1, "tools/list", "")).await;
    provider.browsed(1).await;
    ends_at_once(&provider, bridge).await;
}

#[tokio::test]
async fn calls_in_mid_session_are_told_where_to_log_in_and_the_login_goes_on() {
    let (provider, mut bridge) = without_token(&SOON).await;
    for id in 1..3 {
        let answer = bridge.ask(request(id, "tools/call")).await;
        is_told_of(&provider, &answer);
        assert_eq!(answer["error"]["data"]["delivery"], "not-delivered", "{answer}");
    }
    std::fs::write(provider.path("go"), "").unwrap();
    let served = async {
        while bridge.ask(request(3, "tools/call")).await["result"].is_null() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon("the login", served).await;
    assert_eq!(provider.pages().len(), 2);
}

#[tokio::test]
async fn requests_of_the_modern_era_are_told_as_well() {
    let provider = Provider::start(Manners::default()).await;
    provider.browse(LATE);
    let mut bridge = provider.bridge(&SOON);
    let answer = bridge.ask(modern(1, "tools/call", r#""name":"t","#)).await;
    is_told_of(&provider, &answer);
    assert_eq!(answer["error"]["data"]["delivery"], "not-delivered", "{answer}");
}

#[tokio::test]
async fn a_modern_client_sees_the_login_as_a_tool_until_it_is_done() {
    for is_modern in [true, false] {
        let script = move |r: &Request| match &*r.what() {
            "tools/list" if is_modern => Reply::json(result(
                r.id(),
                r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"real"}]}"#,
            )),
            "server/discover" if is_modern => Reply::json(result(
                r.id(),
                r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#,
            )),
            "server/discover" => Reply::json(format!(
                r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32601,"message":"no such method"}}}}"#,
                r.id()
            )),
            "initialize" => Reply::json(result(r.id(), OFFER)),
            "tools/list" if r.header("mcp-protocol-version") != Some("2026-07-28") => {
                Reply::json(result(r.id(), r#"{"tools":[{"name":"real"}]}"#))
            }
            "tools/list" => Reply::status(400, "text/plain", "Bad Request: not initialized"),
            _ => polite(r),
        };
        let provider = Provider::guarding(Manners::default(), script).await;
        provider.browse(LATE);
        let mut bridge = provider.bridge(&SOON);
        let list = bridge.ask(modern(1, "tools/list", "")).await["result"].clone();
        let page = provider.pages().pop().unwrap();
        assert_eq!(list["resultType"], "complete", "{list}");
        assert_eq!(list["tools"][0]["name"], "mcp_span_login", "{list}");
        assert!(list["tools"][0]["description"].as_str().unwrap().contains(&page), "{list}");
        assert_eq!(list["ttlMs"], 0, "{list}");
        let call = modern(2, "tools/call", r#""name":"mcp_span_login","#);
        let result = bridge.ask(call).await["result"].clone();
        assert!(result["content"][0]["text"].as_str().unwrap().contains(&page), "{result}");
        std::fs::write(provider.path("go"), "").unwrap();
        let mut tools = Value::Null;
        let served = async {
            while tools[0]["name"] != "real" {
                tokio::time::sleep(Duration::from_millis(20)).await;
                tools = bridge.ask(modern(3, "tools/list", "")).await["result"]["tools"].clone();
            }
        };
        soon("the real tools", served).await;
        assert_eq!(tools.as_array().unwrap().len(), 1, "it is gone: {tools}");
        assert_eq!(provider.pages().len(), 1);
    }
}

#[tokio::test]
async fn a_login_that_takes_long_to_prepare_keeps_no_client_waiting_either() {
    let gate = Gate::new();
    let held = Reply::status(201, "application/json", "{}").held(&gate);
    let manners = Manners::default().where_it_is(|r| place(r) == "/register", held);
    let provider = Provider::start(manners).await;
    let mut bridge = provider.bridge(&SOON);
    let answer = bridge.ask(INITIALIZE).await;
    let instructions = answer["result"]["instructions"].as_str().unwrap();
    assert!(instructions.contains("login is under way"), "{answer}");
    let error = bridge.ask(request(1, "tools/call")).await["error"].clone();
    assert_eq!(error["data"]["kind"], "login", "{error}");
    assert_eq!(error["data"]["delivery"], "not-delivered", "{error}");
    assert!(provider.pages().is_empty());
}

#[tokio::test]
async fn a_server_that_fails_after_the_login_is_tried_again_unasked() {
    for failure in [
        Reply::status(503, "text/plain", "soon"),
        Reply::status(500, "text/plain", "oops"),
        Reply::nothing().reset(),
    ] {
        let tries = AtomicUsize::new(0);
        let script = move |r: &Request| match &*r.what() {
            "initialize" if tries.fetch_add(1, Ordering::SeqCst) < 2 => failure.clone(),
            "initialize" => Reply::json(result(r.id(), OFFER)),
            "tools/list" => Reply::json(result(r.id(), r#"{"tools":[{"name":"real"}]}"#)),
            _ => polite(r),
        };
        let provider = Provider::guarding(Manners::default(), script).await;
        provider.browse(LATE);
        let mut bridge = provider.bridge(&SOON);
        let welcome = bridge.ask(INITIALIZE).await;
        assert_eq!(welcome["result"]["serverInfo"]["name"], "mcp-span", "{welcome}");
        bridge.send(INITIALIZED).await;
        provider.browsed(1).await;
        std::fs::write(provider.path("go"), "").unwrap();
        let news = bridge.receive().await;
        assert_eq!(news["method"], "notifications/tools/list_changed", "{news}");
        let tools = bridge.ask(request(2, "tools/list")).await;
        assert_eq!(tools["result"]["tools"][0]["name"], "real", "{tools}");
        assert_eq!(provider.pages().len(), 1);
    }
}
