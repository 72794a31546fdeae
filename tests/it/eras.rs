//! A client of the legacy era at a server that speaks 2026-07-28 alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::support::{
    Bridge, Feed, INITIALIZE, INITIALIZED, Reply, Request, Server, cancel, polite, request, result,
    run,
};

const META: &str = "io.modelcontextprotocol/";

/// What a modern server without any legacy side replies.
pub(crate) fn strict(request: &Request) -> Reply {
    let json = request.json();
    let (id, what) = (request.id(), request.what());
    if request.header("mcp-method").is_none() {
        let data = r#"{"supported":["2026-07-28"],"requested":"2025-06-18"}"#;
        return refusal(&id, 400, -32022, data);
    }
    assert_eq!(request.header("mcp-method"), Some(&*what), "the header repeats the body");
    let meta = &json["params"]["_meta"];
    assert_eq!(meta[format!("{META}protocolVersion")], "2026-07-28");
    assert!(meta[format!("{META}clientCapabilities")].is_object());
    match &*what {
        "server/discover" => Reply::json(result(id, DISCOVERED)),
        "subscriptions/listen" => acknowledged(&id).hang(),
        "tools/call" => {
            Reply::json(result(id, r#"{"resultType":"complete","content":[],"ttlMs":1}"#))
        }
        _ => Reply::json(result(id, r#"{"resultType":"complete","tools":[],"ttlMs":1}"#)),
    }
}

const DISCOVERED: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true}},"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"strict","version":"3"}}}"#;

fn refusal(id: &str, status: u16, code: i32, data: &str) -> Reply {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"refused","data":{data}}}}}"#
    );
    Reply::status(status, "application/json", body)
}

fn tagged(id: &str, method: &str, params: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"{method}","params":{{{params}"_meta":{{"{META}subscriptionId":{id}}}}}}}"#
    )
}

fn acknowledged(id: &str) -> Reply {
    let method = "notifications/subscriptions/acknowledged";
    Reply::sse().event(tagged(id, method, r#""notifications":{},"#))
}

fn call(id: u32, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)
}

#[tokio::test]
async fn a_legacy_client_reaches_a_modern_server() {
    let server = Server::start(strict).await;
    let mut bridge = Bridge::start(&[&server.url]);
    let answer = bridge.ask(INITIALIZE).await;
    assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(answer["result"]["serverInfo"], json!({"name":"strict","version":"3"}));
    bridge.send(INITIALIZED).await;
    let answer = bridge.ask(call(7, r#"{"name":"t","arguments":{}}"#)).await;
    assert_eq!(answer, json!({"jsonrpc":"2.0","id":7,"result":{"content":[]}}));
    assert_eq!(server.saw("tools/call").await.header("mcp-name"), Some("t"));
    server.saw("subscriptions/listen").await;
    let (rest, status, stderr) = bridge.finish().await;
    assert_eq!((rest.len(), status.code(), stderr.as_str()), (0, Some(0), ""));
    let first: Vec<String> = server.asked().into_iter().take(2).collect();
    assert_eq!(first, ["initialize", "server/discover"], "what costs nothing is tried first");
    assert!(server.all("GET").is_empty() && server.all("DELETE").is_empty());
    assert!(server.requests().iter().all(|r| r.header("mcp-session-id").is_none()));
}

#[tokio::test]
async fn a_client_that_does_not_wait_for_the_handshake_is_served_as_well() {
    let server = Server::start(strict).await;
    let mut bridge = Bridge::start(&[&server.url]);
    for line in [INITIALIZE, INITIALIZED, &request(1, "tools/list"), &request(2, "tools/list")] {
        bridge.send(line).await;
    }
    assert_eq!(bridge.receive().await["id"], "init");
    let (answers, _) = bridge.answers(2).await;
    assert!(answers.iter().all(|answer| answer["result"] == json!({"tools":[]})), "{answers:?}");
}

#[tokio::test]
async fn every_way_to_name_the_modern_era_is_understood() {
    for (status, code, data) in [
        (400, -32022, r#"{"supported":["2026-07-28"]}"#),
        (400, -32020, "null"),
        (404, -32601, "null"),
        (400, -32602, "null"),
        (200, -32601, "null"),
    ] {
        let server = Server::start(move |r| match &*r.what() {
            "initialize" => refusal(&r.id(), status, code, data),
            _ => strict(r),
        })
        .await;
        let mut bridge = Bridge::start(&[&server.url]);
        let answer = bridge.ask(INITIALIZE).await;
        assert_eq!(answer["result"]["serverInfo"]["name"], "strict", "{status} {code}");
    }
}

#[tokio::test]
async fn credentials_and_faults_decide_no_era() {
    for status in [401, 403, 408, 429, 500, 502, 503] {
        // Whatever the body says: gateways write JSON-RPC errors, too.
        for code in [-32601, -32022, -32020] {
            let server = Server::start(move |r| match &*r.what() {
                "initialize" => refusal(&r.id(), status, code, r#"{"supported":["2026-07-28"]}"#),
                _ => strict(r),
            })
            .await;
            let args = [&*server.url, "--no-oauth", "--connect-wait", "0.2"];
            let mut bridge = Bridge::start(&args);
            let answer = bridge.ask(INITIALIZE).await;
            assert_eq!(answer["error"]["data"]["status"], status, "{code}: {answer}");
            assert!(server.all("server/discover").is_empty(), "{status} {code}");
        }
    }
}

#[tokio::test]
async fn the_verdict_is_remembered_and_a_wrong_one_heals() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().to_str().expect("UTF-8");
    let server = Server::start(strict).await;
    let address = server.url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let url = server.url.clone();
    let args = [&*url, "--state-dir", state];
    let opened = |line: &str| -> Value { serde_json::from_str(line).expect("JSON") };
    for expected in [&["initialize", "server/discover"][..], &["server/discover"]] {
        let before = server.asked().len();
        let output = run(&args, &[], &format!("{INITIALIZE}\n")).await;
        let line = String::from_utf8(output.stdout).expect("UTF-8");
        assert_eq!(opened(&line)["result"]["serverInfo"]["name"], "strict");
        assert_eq!(server.asked()[before..], *expected);
    }
    server.stop().await;
    // The same address, another server: it refuses the question as legacy ones do.
    let server = Server::start_at(address.parse().expect("an address"), |r| match &*r.what() {
        "server/discover" => Reply::status(400, "text/plain", "no session"),
        _ => polite(r),
    })
    .await;
    for expected in [&["server/discover", "initialize"][..], &["initialize"]] {
        let before = server.asked().len();
        let output = run(&args, &[], &format!("{INITIALIZE}\n")).await;
        let line = String::from_utf8(output.stdout).expect("UTF-8");
        assert_eq!(opened(&line)["result"]["serverInfo"]["name"], "s", "{line}");
        let asked = server.asked();
        assert_eq!(asked[before..before + expected.len()], *expected);
    }
}

#[tokio::test]
async fn the_legacy_era_alone_never_asks_in_the_modern_way() {
    for args in [["--protocol", "legacy"], ["--protocol=legacy", "--no-cookies"]] {
        let server = Server::start(strict).await;
        let mut bridge = Bridge::start(&[&server.url, args[0], args[1]]);
        assert_eq!(bridge.ask(INITIALIZE).await["error"]["code"], -32022);
        assert_eq!(server.asked(), ["initialize"]);
    }
}

#[tokio::test]
async fn a_question_of_the_servers_reaches_the_client_and_the_answer_goes_back() {
    let server = Server::start(|r| match (&*r.what(), r.json()["params"].get("inputResponses")) {
        ("tools/call", None) => Reply::json(result(
            r.id(),
            r#"{"resultType":"input_required","requestState":"op\u0061que","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"Who?","requestedSchema":{"type":"object","big":9007199254740993}}}}}"#,
        )),
        ("tools/call", Some(_)) => {
            let text = r.text().to_owned();
            assert!(text.contains(r#""requestState":"op\u0061que""#), "byte for byte: {text}");
            assert!(text.contains(r#""inputResponses":{"q":{"action":"accept" , "n":1.0}}"#), "{text}");
            Reply::json(result(r.id(), r#"{"resultType":"complete","content":["done"]}"#))
        }
        _ => strict(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    bridge.send(call(1, r#"{"name":"t"}"#)).await;
    let line = bridge.line().await;
    assert!(line.contains("9007199254740993"), "{line}");
    let question: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(question["method"], "elicitation/create");
    let id = &question["id"];
    let answer =
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"action":"accept" , "n":1.0}}}}"#);
    let answer = bridge.ask(answer).await;
    assert_eq!(answer["result"]["content"], json!(["done"]));
    let calls = server.all("tools/call");
    assert_ne!(calls[0].id(), calls[1].id(), "a retry has a new id");
}

#[tokio::test]
async fn changes_and_updates_come_without_a_gap_when_the_set_changes() {
    let (first, second) = (Feed::new(), Feed::new());
    let feeds = [first.clone(), second.clone()];
    let count = AtomicUsize::new(0);
    let server = Server::start(move |r| match &*r.what() {
        "subscriptions/listen" => {
            let n = count.fetch_add(1, Ordering::SeqCst);
            Reply::sse().feed(&feeds[n.min(1)])
        }
        _ => strict(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    let old = server.saw("subscriptions/listen").await.id();
    let ack = |id: &str| tagged(id, "notifications/subscriptions/acknowledged", "");
    first.event(ack(&old));
    first.event(tagged(&old, "notifications/tools/list_changed", ""));
    assert_eq!(
        bridge.receive().await,
        json!({"jsonrpc":"2.0","method":"notifications/tools/list_changed"})
    );
    bridge
        .send(r#"{"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"a:b"}}"#)
        .await;
    server.saw_count("subscriptions/listen", 2).await;
    first.event(tagged(&old, "notifications/tools/list_changed", ""));
    assert_eq!(bridge.receive().await["method"], "notifications/tools/list_changed");
    let new = server.all("subscriptions/listen")[1].clone();
    assert_eq!(new.json()["params"]["notifications"]["resourceSubscriptions"], json!(["a:b"]));
    second.event(ack(&new.id()));
    assert_eq!(bridge.receive().await, json!({"jsonrpc":"2.0","id":3,"result":{}}));
    server.saw_abandoned("subscriptions/listen").await;
    second.event(tagged(&new.id(), "notifications/resources/updated", r#""uri":"a:b","#));
    assert_eq!(bridge.receive().await["params"], json!({"uri":"a:b"}));
}

#[tokio::test]
async fn cancelling_closes_the_stream_of_the_call() {
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => Reply::sse().hang(),
        _ => strict(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    bridge.send(call(1, r#"{"name":"t"}"#)).await;
    server.saw("tools/call").await;
    bridge.send(cancel(1)).await;
    server.saw_abandoned("tools/call").await;
    assert_eq!(bridge.ask(request(2, "tools/list")).await["id"], 2, "it ended silently");
    assert!(server.all("notifications/cancelled").is_empty());
}

#[tokio::test]
async fn a_cut_call_ends_by_the_table_and_what_is_safe_is_asked_again() {
    let server = Server::start(|r| match &*r.what() {
        "tools/call" | "prompts/get" => Reply::sse().chunk(": x\n\n").cut(),
        _ => strict(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    let error = bridge.ask(call(1, r#"{"name":"t"}"#)).await["error"].clone();
    assert_eq!(error["data"]["delivery"], "unknown", "{error}");
    assert_eq!(server.all("tools/call").len(), 1);
    let line = r#"{"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{"name":"p"}}"#;
    let answer = bridge.ask(line).await;
    assert_eq!((&answer["id"], answer["error"].is_object()), (&json!(2), true));
    let asked = server.all("prompts/get");
    assert_eq!(asked.len(), 2);
    assert_ne!(asked[0].id(), asked[1].id(), "with a new id");
}

#[tokio::test]
async fn progress_logs_and_ping_work_as_before() {
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => {
            assert_eq!(r.json()["params"]["_meta"][format!("{META}logLevel")], "info");
            Reply::sse()
                .event(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1}}"#)
                .event(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#)
                .event(result(r.id(), r#"{"resultType":"complete"}"#))
                .end()
        }
        _ => strict(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    assert_eq!(bridge.ask(request(1, "ping")).await["result"], json!({}));
    let level = r#"{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"info"}}"#;
    assert_eq!(bridge.ask(level).await["result"], json!({}));
    bridge.send(call(3, r#"{"name":"t","_meta":{"progressToken":"p"}}"#)).await;
    let (answer, before) = bridge.answer(3).await;
    assert_eq!(answer["result"], json!({}));
    assert_eq!(before, ["notifications/progress", "notifications/message"]);
    assert!(server.all("ping").is_empty() && server.all("logging/setLevel").is_empty());
}

#[tokio::test]
async fn what_is_piped_in_waits_for_an_initialize_that_is_tried_again() {
    let scripts: [fn(&Request) -> Reply; 2] = [strict, |r| match &*r.what() {
        "server/discover" => Reply::status(400, "text/plain", "unheard of"),
        _ => polite(r),
    }];
    for (n, script) in scripts.into_iter().enumerate() {
        let count = AtomicUsize::new(0);
        let server = Server::start(move |r| match &*r.what() {
            "initialize" if count.fetch_add(1, Ordering::SeqCst) == 0 => {
                Reply::status(503, "text/plain", "not yet").header("Retry-After", "1")
            }
            _ => script(r),
        })
        .await;
        let mut bridge = Bridge::start(&[&server.url]);
        for line in [INITIALIZE, INITIALIZED, &request(1, "tools/list")] {
            bridge.send(line).await;
        }
        assert!(bridge.receive().await["result"]["serverInfo"].is_object(), "{n}");
        assert!(bridge.receive().await["result"].is_object(), "{n}");
        let asked = server.asked();
        assert_eq!(asked[..2], ["initialize", "initialize"], "{n}: nothing overtakes it");
        let next = if n == 0 { "subscriptions/listen" } else { "notifications/initialized" };
        server.saw(next).await;
    }
}

#[tokio::test]
async fn an_error_of_a_tool_is_the_clients_whatever_it_says() {
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => Reply::json(format!(
            r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32000,"message":"not initialized"}}}}"#,
            r.id()
        )),
        _ => strict(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    let error = bridge.ask(call(1, r#"{"name":"t"}"#)).await["error"].clone();
    assert_eq!((&error["code"], &error["message"]), (&json!(-32000), &json!("not initialized")));
    assert_eq!(server.all("tools/call").len(), 1, "it ran once");
    assert_eq!(bridge.ask(request(2, "tools/list")).await["result"], json!({"tools":[]}));
    assert_eq!(server.all("initialize").len(), 1, "and nothing was opened anew");
}

#[tokio::test]
async fn haste_and_credentials_at_the_question_decide_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().to_str().expect("UTF-8");
    for status in [429, 401] {
        let count = AtomicUsize::new(0);
        let server = Server::start(move |r| match &*r.what() {
            "server/discover" if count.fetch_add(1, Ordering::SeqCst) == 0 => {
                Reply::status(status, "text/plain", "no").header("Retry-After", "1")
            }
            _ => strict(r),
        })
        .await;
        let args = [&*server.url, "--state-dir", state, "--no-oauth"];
        let mut bridge = Bridge::start(&args);
        let answer = bridge.ask(INITIALIZE).await;
        if status == 429 {
            assert_eq!(answer["result"]["serverInfo"]["name"], "strict", "it is asked again");
        } else {
            assert_eq!(answer["error"]["data"]["status"], 401, "{answer}");
            let answer = bridge.ask(INITIALIZE.replace("\"init\"", "\"again\"")).await;
            assert_eq!(answer["result"]["serverInfo"]["name"], "strict", "{answer}");
        }
    }
}

#[tokio::test]
async fn a_server_that_is_replaced_by_one_of_the_other_era_is_understood_again() {
    let is_modern = Arc::new(AtomicBool::new(true));
    let now = Arc::clone(&is_modern);
    let server = Server::start(move |r| {
        if now.load(Ordering::SeqCst) {
            return strict_or_stream(r);
        }
        let is_stranger = r.http_method == "POST"
            && r.what() != "initialize"
            && r.header("mcp-session-id").is_none();
        if is_stranger {
            let body = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Bad Request: Missing session ID"}}"#;
            return Reply::status(400, "application/json", body);
        }
        polite(r)
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    assert_eq!(bridge.ask(call(1, r#"{"name":"t"}"#)).await["result"], json!({"content":[]}));
    is_modern.store(false, Ordering::SeqCst);
    bridge.send(call(2, r#"{"name":"t"}"#)).await;
    let (answer, _) = bridge.answer(2).await;
    assert_eq!(answer["result"]["did"], "tools/call", "{answer}");
    is_modern.store(true, Ordering::SeqCst);
    bridge.send(call(3, r#"{"name":"t"}"#)).await;
    let (answer, _) = bridge.answer(3).await;
    assert_eq!(answer["error"]["code"], -32022, "the first learns of it: {answer}");
    bridge.send(call(4, r#"{"name":"t"}"#)).await;
    let (answer, _) = bridge.answer(4).await;
    assert_eq!(answer["result"], json!({"content":[]}), "{answer}");
}

#[tokio::test]
async fn a_modern_server_with_a_bad_day_is_not_taken_for_a_legacy_one() {
    let asked = AtomicUsize::new(0);
    let server = Server::start(move |r| match &*r.what() {
        "server/discover" if asked.fetch_add(1, Ordering::SeqCst) == 1 => {
            refusal(&r.id(), 200, -32603, "null")
        }
        "tools/call" if r.text().contains("\"bad\"") => {
            let error = r#"{"code":-32000,"message":"there is no session with the database"}"#;
            Reply::json(format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, r.id()))
        }
        _ => strict_or_stream(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    let answer = bridge.ask(call(1, r#"{"name":"bad"}"#)).await;
    assert_eq!(answer["error"]["code"], -32000, "{answer}");
    server.saw_count("server/discover", 2).await;
    assert_eq!(bridge.ask(call(2, r#"{"name":"t"}"#)).await["result"], json!({"content":[]}));
    assert_eq!(server.all("initialize").len(), 1, "nobody opened a session");
}

/// The same for whatever HTTP method.
fn strict_or_stream(r: &Request) -> Reply {
    if r.http_method == "POST" && r.json().get("id").is_some() {
        return strict(r);
    }
    Reply::status(405, "", "")
}
