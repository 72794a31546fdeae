//! A client of 2026-07-28 at servers of the legacy era, Streamable HTTP and HTTP+SSE.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{
    Bridge, Feed, Gate, Hub, INITIALIZE, Reply, Request, Server, cancel, modern, polite, result,
    run,
};

const META: &str = "io.modelcontextprotocol/";

/// A legacy server with sessions: it serves nobody who has not opened one.
pub(crate) fn sessions(request: &Request) -> Reply {
    let is_post = request.http_method == "POST";
    if is_post && request.what() != "initialize" && request.header("mcp-session-id").is_none() {
        let body = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}"#;
        return Reply::status(400, "application/json", body);
    }
    match &*request.what() {
        "initialize" => Reply::json(result(request.id(), OPENED)).header("Mcp-Session-Id", "s1"),
        _ => polite(&without_headers(request)),
    }
}

/// What is sent in a session has no headers of the modern era.
fn without_headers(request: &Request) -> Request {
    assert_eq!(request.header("mcp-method"), None, "{}", request.what());
    request.clone()
}

pub(crate) const OPENED: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{}},"serverInfo":{"name":"old","version":"1"},"instructions":"be kind"}"#;

#[tokio::test]
async fn a_client_that_does_not_ask_is_served_by_translation() {
    let server = Server::start(sessions).await;
    let mut bridge = Bridge::start(&[&server.url]);
    let answer = bridge.ask(modern(1, "tools/list", "")).await;
    assert_eq!(
        answer,
        json!({"jsonrpc":"2.0","id":1,"result":{
            "did":"tools/list","resultType":"complete","ttlMs":0,"cacheScope":"private",
            "_meta":{format!("{META}serverInfo"):{"name":"old","version":"1"}},
        }})
    );
    let call = modern(2, "tools/call", r#""name":"t","arguments":{"n" : 9007199254740993.0},"#);
    assert_eq!(bridge.ask(call).await["result"]["resultType"], "complete");
    let sent = server.saw("tools/call").await;
    assert!(sent.text().contains(r#""arguments":{"n" : 9007199254740993.0}"#), "{}", sent.text());
    assert!(!sent.text().contains(META), "the envelope is taken off: {}", sent.text());
    assert_eq!(sent.header("mcp-session-id"), Some("s1"));
    assert_eq!(sent.header("mcp-protocol-version"), Some("2025-11-25"));
    let opened = server.saw("initialize").await.json();
    assert_eq!(opened["params"]["protocolVersion"], "2025-11-25");
    let (rest, status, stderr) = bridge.finish().await;
    assert_eq!((rest.len(), status.code(), stderr.as_str()), (0, Some(0), ""));
    let asked = server.asked();
    assert_eq!(
        asked[..4],
        ["tools/list", "server/discover", "initialize", "notifications/initialized"]
    );
    assert_eq!(server.all("DELETE").len(), 1, "the session is closed");
}

#[tokio::test]
async fn an_unsafe_call_that_was_turned_away_is_carried_out_once() {
    let server = Server::start(sessions).await;
    let mut bridge = Bridge::start(&[&server.url]);
    let answer = bridge.ask(modern(1, "tools/call", r#""name":"t","#)).await;
    assert_eq!(answer["result"]["did"], "tools/call");
    let in_session = |r: &&Request| r.header("mcp-session-id").is_some();
    assert_eq!(server.all("tools/call").iter().filter(in_session).count(), 1);
}

#[tokio::test]
async fn one_that_asks_is_refused_unless_the_modern_era_was_promised() {
    let server = Server::start(sessions).await;
    let discover = modern("\"d\"", "server/discover", "");
    let mut bridge = Bridge::start(&[&server.url]);
    assert_eq!(bridge.ask(&discover).await["error"]["code"], -32601);
    assert_eq!(server.asked(), ["server/discover"]);
    assert_eq!(bridge.ask(INITIALIZE).await["result"]["serverInfo"]["name"], "old");
    let mut bridge = Bridge::start(&[&server.url, "--protocol", "modern"]);
    let answer = bridge.ask(&discover).await;
    assert_eq!(answer["result"]["supportedVersions"], json!(["2026-07-28"]), "{answer}");
    assert_eq!(answer["result"]["instructions"], "be kind");
    assert_eq!(answer["result"]["capabilities"]["tools"], json!({"listChanged":true}));
    assert_eq!(bridge.ask(modern(2, "tools/list", "")).await["result"]["did"], "tools/list");
    let mut bridge = Bridge::start(&[&server.url, "--protocol", "legacy"]);
    let before = server.asked().len();
    assert_eq!(bridge.ask(&discover).await["error"]["code"], -32601);
    assert_eq!(server.asked().len(), before, "nobody was asked");
    assert_eq!(bridge.ask(modern(2, "tools/list", "")).await["result"]["did"], "tools/list");
    assert_eq!(server.asked()[before], "initialize", "at once");
}

#[tokio::test]
async fn what_was_found_out_is_remembered() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(sessions).await;
    let args = [&*server.url, "--state-dir", folder.path().to_str().expect("UTF-8")];
    for first in ["tools/list", "initialize"] {
        let before = server.asked().len();
        let output = run(&args, &[], &format!("{}\n", modern(1, "tools/list", ""))).await;
        assert!(String::from_utf8_lossy(&output.stdout).contains("\"did\""), "{output:?}");
        assert_eq!(server.asked()[before], first);
    }
}

#[tokio::test]
async fn credentials_decide_no_era() {
    for status in [401, 403, 429] {
        let count = AtomicUsize::new(0);
        let server = Server::start(move |r| match count.fetch_add(1, Ordering::SeqCst) {
            0 | 1 => Reply::status(status, "text/plain", "no"),
            _ => polite(r),
        })
        .await;
        let mut bridge = Bridge::start(&[&server.url, "--no-oauth"]);
        let answer = bridge.ask(modern(1, "tools/list", "")).await;
        assert_eq!(answer["error"]["data"]["status"], status, "{answer}");
        let answer = bridge.ask(modern(2, "server/discover", "")).await;
        assert_eq!(answer["error"]["code"], -32601, "{answer}");
        assert_eq!(bridge.ask(modern(3, "tools/list", "")).await["result"]["did"], "tools/list");
        assert_eq!(server.asked(), ["tools/list", "server/discover", "tools/list"]);
    }
}

#[tokio::test]
async fn a_probe_that_meets_a_failing_gateway_decides_no_era() {
    let count = AtomicUsize::new(0);
    let server = Server::start(move |r| match &*r.what() {
        "server/discover" if count.fetch_add(1, Ordering::SeqCst) == 0 => {
            let body = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no"}}"#;
            Reply::status(502, "application/json", body)
        }
        "tools/call" if r.header("mcp-session-id").is_none() => {
            Reply::status(400, "text/plain", "what?")
        }
        _ => sessions(r),
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    let answer = bridge.ask(modern(1, "tools/call", r#""name":"t","#)).await;
    assert_eq!(answer["error"]["data"]["status"], 400, "as the server said: {answer}");
    assert!(server.all("initialize").is_empty());
    let answer = bridge.ask(modern(2, "tools/call", r#""name":"t","#)).await;
    assert_eq!(answer["result"]["did"], "tools/call", "the next finds out: {answer}");
}

/// A question during a call, in the stream of the call's answer.
fn asks_back(feed: &Feed) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
    let feed = feed.clone();
    move |r| match &*r.what() {
        "tools/call" if r.header("mcp-session-id").is_some() => {
            feed.event(
                r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"Who?","requestedSchema":{"big":12345678901234567890}}}"#,
            );
            Reply::sse().feed(&feed)
        }
        _ => sessions(r),
    }
}

pub(crate) fn call(id: u32, more: &str) -> String {
    modern(id, "tools/call", &format!(r#""name":"t","arguments":{{}},{more}"#)).replace(
        r#""io.modelcontextprotocol/clientCapabilities":{}"#,
        r#""io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}"#,
    )
}

#[tokio::test]
async fn a_question_during_a_call_is_answered_by_calling_again() {
    let feed = Feed::new();
    let server = Server::start(asks_back(&feed)).await;
    let mut bridge = Bridge::start(&[&server.url]);
    bridge.send(call(1, "")).await;
    let line = bridge.line().await;
    assert!(line.contains(r#""requestedSchema":{"big":12345678901234567890}"#), "{line}");
    let parked: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(parked["result"]["resultType"], "input_required");
    let state = parked["result"]["requestState"].as_str().expect("a handle");
    let questions = parked["result"]["inputRequests"].as_object().expect("questions");
    let (key, question) = questions.iter().next().expect("a question");
    assert_eq!(question["method"], "elicitation/create");
    let wrong = call(2, r#""inputResponses":{},"requestState":"guessed","#);
    assert_eq!(bridge.ask(wrong).await["error"]["code"], -32602, "a handle cannot be guessed");
    let answers = format!(r#""inputResponses":{{"{key}":{{"action":"accept" , "n":1.50}}}},"#);
    let other =
        call(3, &format!(r#"{answers}"requestState":"{state}","#)).replace("\"t\"", "\"u\"");
    assert_eq!(bridge.ask(other).await["error"]["code"], -32602, "it belongs to its call");
    bridge.send(call(4, &format!(r#"{answers}"requestState":"{state}","#))).await;
    server.until_answer().await;
    let calls = server.all("tools/call");
    let upstream = calls.iter().find(|r| r.header("mcp-session-id").is_some()).expect("a call");
    feed.event(result(upstream.id(), r#"{"content":["done"]}"#));
    feed.end();
    let answer = bridge.receive().await;
    assert_eq!((&answer["id"], &answer["result"]["content"]), (&json!(4), &json!(["done"])));
    let reply = server.requests().into_iter().find(|r| r.json()["result"].is_object());
    assert!(reply.expect("the answer").text().contains(r#"{"action":"accept" , "n":1.50}"#));
}

#[tokio::test]
async fn a_call_whose_session_is_lost_with_the_answer_ends_at_once() {
    let (feed, is_lost) = (Feed::new(), Arc::new(AtomicBool::new(false)));
    let (asking, lost) = (asks_back(&feed), Arc::clone(&is_lost));
    let server = Server::start(move |r| {
        let is_old = r.header("mcp-session-id") == Some("s1");
        match &*r.what() {
            "initialize" if lost.load(Ordering::SeqCst) => {
                Reply::json(result(r.id(), OPENED)).header("Mcp-Session-Id", "s2")
            }
            _ if is_old && lost.load(Ordering::SeqCst) => {
                Reply::status(404, "text/plain", "Session not found")
            }
            "tools/call" if r.header("mcp-session-id") == Some("s2") => sessions(r),
            _ => asking(r),
        }
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    let parked = bridge.ask(call(1, "")).await;
    let state = parked["result"]["requestState"].as_str().expect("a handle").to_owned();
    is_lost.store(true, Ordering::SeqCst);
    let more = format!(r#""inputResponses":{{"input-1":{{}}}},"requestState":"{state}","#);
    let answer = bridge.ask(call(2, &more)).await;
    assert_eq!(answer["error"]["data"]["kind"], "session-lost", "{answer}");
    assert_eq!(answer["error"]["data"]["delivery"], "unknown");
    let answer = bridge.ask(call(3, "")).await;
    assert_eq!(answer["result"]["did"], "tools/call", "in the new session: {answer}");
}

#[tokio::test]
async fn a_lost_session_is_repaired_underneath() {
    let count = AtomicUsize::new(0);
    let server = Server::start(move |r| match &*r.what() {
        "tools/call" if r.header("mcp-session-id") == Some("s1") => {
            if count.fetch_add(1, Ordering::SeqCst) == 1 {
                return Reply::status(404, "text/plain", "session not found");
            }
            sessions(r)
        }
        _ => sessions(r),
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    for id in 1..4 {
        let answer = bridge.ask(call(id, "")).await;
        assert_eq!(answer["result"]["did"], "tools/call", "{answer}");
    }
    assert_eq!(server.all("initialize").len(), 2);
}

#[tokio::test]
async fn changes_reach_a_listener_with_its_mark() {
    let stream = Feed::new();
    let fed = stream.clone();
    let server = Server::start(move |r| match &*r.http_method {
        "GET" => Reply::sse().feed(&fed),
        _ => sessions(r),
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    let filter = r#""notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["a:b"]},"#;
    bridge.send(modern("\"l\"", "subscriptions/listen", filter)).await;
    let ack = bridge.receive().await;
    assert_eq!(ack["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(ack["params"]["_meta"][format!("{META}subscriptionId")], "l");
    assert_eq!(
        ack["params"]["notifications"],
        json!({"toolsListChanged":true,"resourceSubscriptions":["a:b"]}),
        "what the server offers"
    );
    server.saw("resources/subscribe").await;
    server.saw("GET").await;
    stream.event(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
    stream.event(r#"{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}"#);
    stream.event(
        r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}"#,
    );
    for method in ["notifications/tools/list_changed", "notifications/resources/updated"] {
        let told = bridge.receive().await;
        assert_eq!(told["method"], method);
        assert_eq!(told["params"]["_meta"][format!("{META}subscriptionId")], "l");
    }
    let (rest, status, _) = bridge.finish().await;
    assert_eq!(status.code(), Some(0));
    let end: Value = serde_json::from_str(&rest[0]).expect("JSON");
    assert_eq!((&end["id"], &end["result"]["resultType"]), (&json!("l"), &json!("complete")));
}

#[tokio::test]
async fn cancelling_and_logs_follow_the_older_rules() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::start(move |r| match &*r.what() {
        "tools/call" if r.header("mcp-session-id").is_some() => Reply::sse().wait(&held).hang(),
        _ => sessions(r),
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    bridge.ask(modern(1, "tools/list", "")).await;
    let line = call(2, "").replace(
        r#""io.modelcontextprotocol/clientCapabilities""#,
        r#""io.modelcontextprotocol/logLevel":"info","io.modelcontextprotocol/clientCapabilities""#,
    );
    bridge.send(line).await;
    let sent = server.saw("tools/call").await;
    let asked = server.asked();
    let place = |what: &str| asked.iter().position(|asked| asked == what);
    assert!(place("logging/setLevel") < place("tools/call"), "{asked:?}");
    assert_eq!(server.saw("logging/setLevel").await.json()["params"]["level"], "info");
    bridge.send(cancel(2)).await;
    let notice = server.saw("notifications/cancelled").await;
    assert_eq!(notice.json()["params"]["requestId"].to_string(), sent.id());
}

#[tokio::test]
async fn a_modern_client_reaches_a_server_of_the_older_transport() {
    let hub = Hub::plain().await;
    let mut bridge = Bridge::start(&[&hub.url]);
    let answer = bridge.ask(modern(1, "tools/list", "")).await;
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    let answer = bridge.ask(modern(2, "tools/call", r#""name":"t","#)).await;
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
}

#[tokio::test]
async fn a_verdict_that_is_no_longer_true_costs_no_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let is_replaced = Arc::new(AtomicBool::new(false));
    let is_old = Arc::clone(&is_replaced);
    let server = Server::start(move |r| match &*r.what() {
        _ if is_old.load(Ordering::SeqCst) => sessions(r),
        "server/discover" => Reply::json(result(
            r.id(),
            r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}"#,
        )),
        _ => Reply::json(result(r.id(), r#"{"resultType":"complete"}"#)),
    })
    .await;
    let args = [&*server.url, "--state-dir", folder.path().to_str().expect("UTF-8")];
    run(&args, &[], &format!("{}\n", modern(0, "server/discover", ""))).await;
    is_replaced.store(true, Ordering::SeqCst);
    let filter = r#""notifications":{"toolsListChanged":true},"#;
    let input = [
        modern(1, "tools/list", ""),
        modern(2, "tools/call", r#""name":"t","#),
        modern("\"l\"", "subscriptions/listen", filter),
        modern(3, "prompts/list", ""),
        modern(4, "tools/call", r#""name":"u","#),
    ];
    let before = server.asked().len();
    let mut bridge = Bridge::start(&args);
    bridge.send(input.join("\n")).await;
    let mut answered = Vec::new();
    for _ in 0..5 {
        let said = bridge.receive().await;
        match said["method"].as_str() {
            Some(method) => assert_eq!(method, "notifications/subscriptions/acknowledged"),
            None => assert_eq!(said["result"]["resultType"], "complete", "{said}"),
        }
        answered.extend(said["id"].as_u64());
    }
    answered.sort_unstable();
    assert_eq!(answered, [1, 2, 3, 4]);
    assert_ne!(server.asked()[before], "initialize", "the verdict was believed");
    let done = server.all("tools/call");
    assert_eq!(done.iter().filter(|r| r.header("mcp-session-id").is_some()).count(), 2);
}

#[tokio::test]
async fn a_call_that_has_failed_inside_is_not_made_again() {
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => Reply::json(format!(
            r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32000,"message":"payment session failed after charge"}}}}"#,
            r.id()
        )),
        "server/discover" => Reply::json(format!(
            r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32601,"message":"Method not found"}}}}"#,
            r.id()
        )),
        "initialize" => Reply::json(result(r.id(), OPENED)),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    let answer = bridge.ask(modern(1, "tools/call", r#""name":"pay","#)).await;
    assert_eq!(answer["error"]["message"], "payment session failed after charge");
    assert_eq!(bridge.ask(modern(2, "tools/list", "")).await["result"]["did"], "tools/list");
    assert_eq!(server.all("tools/call").len(), 1);
}

#[tokio::test]
async fn an_error_that_another_mcp_span_wrote_is_a_servers_as_any_other() {
    // It looks like ours to the letter: kind, delivery and status.
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => Reply::json(format!(
            r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32001,"message":"HTTP 404: Not Found","data":{{"kind":"http-status","delivery":"not-delivered","status":404}}}}}}"#,
            r.id()
        )),
        "server/discover" => Reply::json(format!(
            r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32601,"message":"Method not found"}}}}"#,
            r.id()
        )),
        "initialize" => Reply::json(result(r.id(), OPENED)),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    let answer = bridge.ask(modern(1, "tools/call", r#""name":"pay","#)).await;
    assert_eq!(answer["error"]["data"]["status"], 404, "{answer}");
    assert_eq!(bridge.ask(modern(2, "tools/list", "")).await["result"]["did"], "tools/list");
    assert_eq!(server.all("tools/call").len(), 1, "it may have been carried out");
}

#[tokio::test]
async fn a_subscription_that_is_never_agreed_to_holds_up_no_exit() {
    let server = Server::start(|r| match &*r.what() {
        "resources/subscribe" => Reply::sse().hang(),
        _ => sessions(r),
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    let filter = r#""notifications":{"resourceSubscriptions":["a:b"]},"#;
    bridge.send(modern("\"l\"", "subscriptions/listen", filter)).await;
    server.saw("resources/subscribe").await;
    let since = Instant::now();
    let (rest, status, _) = bridge.finish().await;
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    assert_eq!(status.code(), Some(0));
    let end: Value = serde_json::from_str(&rest[0]).expect("JSON");
    assert_eq!((&end["id"], &end["result"]["resultType"]), (&json!("l"), &json!("complete")));
    assert!(server.all("resources/unsubscribe").is_empty(), "the session ends anyway");
}

#[tokio::test]
async fn a_flood_before_the_era_is_known_waits_and_is_not_refused() {
    // More than wait inside of the bridge: the rest waits on stdin.
    const COUNT: usize = 3000;
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::start(move |r| match (&*r.what(), r.header("mcp-session-id")) {
        ("server/discover", _) => Reply::status(400, "text/plain", "no session").held(&held),
        _ => sessions(r),
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    bridge.send(modern("\"l\"", "subscriptions/listen", r#""notifications":{},"#)).await;
    server.saw("server/discover").await;
    let lines: String = (1..=COUNT).map(|id| modern(id, "tools/list", "") + "\n").collect();
    let opening = async {
        // Long enough for all of it to come in, if nothing held it back.
        tokio::time::sleep(Duration::from_millis(500)).await;
        gate.open();
    };
    tokio::join!(bridge.send_bytes(lines.as_bytes()), opening);
    let (answers, _) = bridge.answers(COUNT).await;
    assert!(answers.iter().all(|answer| answer["result"]["did"] == "tools/list"), "none refused");
}
