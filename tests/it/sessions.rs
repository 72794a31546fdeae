//! Sessions that are lost: opened again once, in the client's own words, and nobody notices.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::support::{
    Bridge, Gate, INITIALIZE, INITIALIZED, Reply, Request, Server, polite, request, result,
};

/// A server whose sessions are `s1`, `s2`, …; `generation` says which one it knows.
fn session_server(
    generation: &Arc<AtomicUsize>,
    forgotten: impl Fn() -> Reply + Send + Sync + 'static,
) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
    let generation = Arc::clone(generation);
    move |r: &Request| {
        let known = format!("s{}", generation.load(Ordering::SeqCst));
        match (&*r.what(), r.header("mcp-session-id")) {
            ("initialize", _) => {
                let capabilities = r#"{"tools":{},"prompts":{}}"#;
                let answer =
                    format!(r#"{{"protocolVersion":"2025-06-18","capabilities":{capabilities}}}"#);
                Reply::json(result(r.id(), &answer)).header("Mcp-Session-Id", &known)
            }
            (_, Some(session)) if session == known => polite(r),
            _ => forgotten(),
        }
    }
}

fn not_found() -> Reply {
    let body =
        r#"{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}"#;
    Reply::status(404, "application/json", body)
}

/// Everything up to the answer to `id`; what came before it.
async fn until_answer(bridge: &mut Bridge, id: &str) -> Vec<String> {
    let mut before = Vec::new();
    loop {
        let message = bridge.receive().await;
        if *id == *message["id"].to_string() {
            assert!(message["result"].is_object(), "{message}");
            return before;
        }
        before.push(message["method"].as_str().unwrap_or("?").to_owned());
    }
}

#[tokio::test]
async fn a_404_is_healed_and_the_client_learns_only_that_lists_may_have_changed() {
    // C7, C13, C35, S1-07, S2-20; peers b 1
    let generation = Arc::new(AtomicUsize::new(1));
    let server = Server::start(session_server(&generation, not_found)).await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    bridge.ask(request(1, "tools/call")).await;
    generation.store(2, Ordering::SeqCst);
    bridge.send(request(2, "tools/call")).await;
    let told = until_answer(&mut bridge, "2").await;
    let (rest, _, stderr) = bridge.finish().await;
    let mut told: Vec<String> = told;
    told.extend(rest.iter().map(|l| {
        serde_json::from_str::<serde_json::Value>(l).unwrap()["method"].as_str().unwrap().to_owned()
    }));
    told.sort();
    assert_eq!(told, ["notifications/prompts/list_changed", "notifications/tools/list_changed"]);
    assert_eq!(stderr, "");
    let opened = server.all("initialize");
    assert_eq!(opened.len(), 2);
    assert_eq!(opened[1].header("mcp-session-id"), None, "without the old id");
    assert!(opened[1].id().starts_with("\"mcp-span-"), "under the bridge's own id");
    let own_words = INITIALIZE.replace("\"init\"", &opened[1].id());
    assert_eq!(opened[1].text(), own_words, "in the client's own words");
    assert_eq!(
        server.asked(),
        [
            "initialize",
            "notifications/initialized",
            "tools/call",
            "tools/call",
            "initialize",
            "notifications/initialized",
            "tools/call",
            "DELETE"
        ]
    );
    assert_eq!(server.all("DELETE")[0].header("mcp-session-id"), Some("s2"));
}

#[tokio::test]
async fn words_of_a_lost_session_count_as_well_whatever_the_status() {
    // peers b 2: many servers answer 400.
    for (status, text) in [
        (
            400,
            r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}"#,
        ),
        (400, "Session expired"),
        (410, "unknown session"),
        (422, "invalid session id"),
        (400, "Bad Request: Server not initialized"),
    ] {
        let generation = Arc::new(AtomicUsize::new(1));
        let forgotten = move || Reply::status(status, "application/json", text);
        let server = Server::start(session_server(&generation, forgotten)).await;
        let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
        bridge.ask(request(1, "a")).await;
        generation.store(2, Ordering::SeqCst);
        bridge.send(request(2, "tools/call")).await;
        until_answer(&mut bridge, "2").await;
        assert_eq!(server.all("initialize").len(), 2, "{status} {text}");
    }
}

#[tokio::test]
async fn statuses_with_a_meaning_of_their_own_do_not_count() {
    for status in [401, 403, 408, 413, 429] {
        let server = Server::start(move |r| match &*r.what() {
            "tools/call" => Reply::status(status, "text/plain", "Session expired"),
            _ => polite(r),
        })
        .await;
        let mut bridge = Bridge::ready(&[&server.url]).await;
        let answer = bridge.ask(request(2, "tools/call")).await;
        assert_eq!(answer["error"]["data"]["status"], status, "{answer}");
        assert_eq!(server.all("initialize").len(), 1);
    }
}

#[tokio::test]
async fn a_tool_may_speak_of_sessions() {
    // A JSON-RPC error in a 200 never is a lost session.
    let error = r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32001,"message":"login session expired: session not found"}}"#;
    let server = Server::start(move |r| match &*r.what() {
        "tools/call" => Reply::json(error),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    bridge.send(request(2, "tools/call")).await;
    assert_eq!(bridge.line().await, error);
    assert_eq!(server.all("initialize").len(), 1);
}

#[tokio::test]
async fn a_hundred_requests_that_meet_the_loss_cause_one_new_session() {
    let generation = Arc::new(AtomicUsize::new(1));
    let server = Server::start(session_server(&generation, not_found)).await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    bridge.ask(request("\"x\"", "a")).await;
    generation.store(2, Ordering::SeqCst);
    let lines: String = (0..100).map(|id| request(id, "tools/call") + "\n").collect();
    bridge.send_bytes(lines.as_bytes()).await;
    let mut answered = std::collections::BTreeSet::new();
    while answered.len() < 100 {
        let message = bridge.receive().await;
        if let Some(id) = message["id"].as_u64() {
            assert!(message["result"].is_object(), "{message}");
            assert!(answered.insert(id), "{id} came twice");
        }
    }
    assert_eq!(server.all("initialize").len(), 2);
    assert_eq!(server.all("notifications/initialized").len(), 2);
    let carried_out = server
        .all("tools/call")
        .iter()
        .filter(|r| r.header("mcp-session-id") == Some("s2"))
        .count();
    assert_eq!(carried_out, 100, "each exactly once in the new session");
}

#[tokio::test]
async fn nothing_is_sent_in_the_new_session_before_it_is_confirmed() {
    let generation = Arc::new(AtomicUsize::new(1));
    let gate = Gate::new();
    let (held, inner) = (gate.clone(), session_server(&generation, not_found));
    let server = Server::start(move |r| match (&*r.what(), r.header("mcp-session-id")) {
        ("notifications/initialized", Some("s2")) => {
            Reply::nothing().wait(&held).raw("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
        }
        _ => inner(r),
    })
    .await;
    let mut bridge =
        Bridge::ready(&[&server.url, "--no-server-stream", "--max-parallel", "2"]).await;
    bridge.ask(request("\"x\"", "a")).await;
    generation.store(2, Ordering::SeqCst);
    for id in 0..6 {
        bridge.send(request(id, &format!("m{id}"))).await;
    }
    server.saw_count("notifications/initialized", 2).await;
    bridge.send(request(6, "m6")).await;
    let in_new = |server: &Server| -> Vec<String> {
        let new =
            server.requests().into_iter().filter(|r| r.header("mcp-session-id") == Some("s2"));
        new.map(|r| r.what()).collect()
    };
    assert_eq!(in_new(&server), ["notifications/initialized"]);
    gate.open();
    for _ in 0..7 {
        until_some_answer(&mut bridge).await;
    }
    let mut sent = in_new(&server).split_off(1);
    sent.sort();
    assert_eq!(sent, ["m0", "m1", "m2", "m3", "m4", "m5", "m6"]);
}

async fn until_some_answer(bridge: &mut Bridge) {
    while bridge.receive().await["id"].is_null() {}
}

#[tokio::test]
async fn subscriptions_and_the_log_level_are_restored_and_their_answers_never_show() {
    let generation = Arc::new(AtomicUsize::new(1));
    let server = Server::start(session_server(&generation, not_found)).await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    let with_params = |id: u32, method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
    };
    bridge.ask(with_params(1, "resources/subscribe", r#"{"uri":"a://1"}"#)).await;
    bridge.ask(with_params(2, "resources/subscribe", r#"{"uri":"a://2"}"#)).await;
    bridge.ask(with_params(3, "resources/unsubscribe", r#"{"uri":"a://1"}"#)).await;
    bridge.ask(with_params(4, "logging/setLevel", r#"{"level":"debug"}"#)).await;
    generation.store(2, Ordering::SeqCst);
    bridge.send(request(5, "a")).await;
    until_answer(&mut bridge, "5").await;
    server.saw_count("resources/subscribe", 3).await;
    server.saw_count("logging/setLevel", 2).await;
    let restored = server.all("resources/subscribe").pop().unwrap();
    assert_eq!(restored.json()["params"]["uri"], "a://2");
    assert!(restored.id().starts_with("\"mcp-span-"));
    assert_eq!(restored.header("mcp-session-id"), Some("s2"));
    let (rest, _, _) = bridge.finish().await;
    assert!(rest.iter().all(|line| line.contains("list_changed")), "{rest:?}");
}

#[tokio::test]
async fn a_server_that_opens_no_new_session_ends_the_requests_and_is_not_asked_in_a_loop() {
    let opened = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&opened);
    let server = Server::start(move |r| match &*r.what() {
        "initialize" if count.fetch_add(1, Ordering::SeqCst) == 0 => polite(r),
        "initialize" => Reply::status(400, "text/plain", "no more sessions"),
        "notifications/initialized" => Reply::accepted(),
        _ => not_found(),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    for id in 0..3 {
        let answer = bridge.ask(request(id, "tools/call")).await;
        assert_eq!(answer["id"], id);
        assert_eq!(answer["error"]["code"], -32001, "{answer}");
        assert_eq!(answer["error"]["data"]["delivery"], "not-delivered");
    }
    let asked = server.all("initialize").len();
    assert!((2..=4).contains(&asked), "{asked}");
}

#[tokio::test]
async fn a_session_that_is_lost_again_and_again_ends_the_request() {
    let server = Server::start(|r| match &*r.what() {
        "initialize" | "notifications/initialized" => polite(r),
        _ => not_found(),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    bridge.send(request(1, "tools/call")).await;
    loop {
        let message = bridge.receive().await;
        if message["id"] == 1 {
            assert_eq!(message["error"]["message"], "Session not found", "the server's own words");
            break;
        }
    }
    assert_eq!(server.all("initialize").len(), 2, "confirmed by one, never a loop");
    assert_eq!(server.all("tools/call").len(), 2, "sent again once, no more");
}

#[tokio::test]
async fn storms_of_lost_sessions_are_kept_down() {
    // C7, C30: at most 5 in 30 seconds, whatever the server does.
    let server = Server::start(|r| match &*r.what() {
        "initialize" | "notifications/initialized" => polite(r),
        _ => not_found(),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream", "--timeout", "2"]).await;
    for id in 0..4 {
        bridge.send(request(id, "tools/call")).await;
        loop {
            let message = bridge.receive().await;
            if message["id"] == id {
                break;
            }
        }
    }
    assert!(server.all("initialize").len() <= 6, "{}", server.all("initialize").len());
}

#[tokio::test]
async fn a_request_that_is_cancelled_while_it_waits_for_the_new_session_is_never_sent() {
    let generation = Arc::new(AtomicUsize::new(1));
    let gate = Gate::new();
    let (held, inner) = (gate.clone(), session_server(&generation, not_found));
    let known = Arc::clone(&generation);
    let server = Server::start(move |r| match &*r.what() {
        "initialize" if known.load(Ordering::SeqCst) == 2 => Reply::sse()
            .wait(&held)
            .event(result(r.id(), r#"{"protocolVersion":"2025-06-18"}"#))
            .end()
            .header("Mcp-Session-Id", "s2"),
        _ => inner(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    bridge.ask(request(0, "a")).await;
    generation.store(2, Ordering::SeqCst);
    bridge.send(request(1, "first")).await;
    server.saw_count("initialize", 2).await;
    bridge.send(request(2, "second")).await;
    for id in [1, 2] {
        bridge.send(format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)).await;
    }
    bridge.send(request(3, "third")).await;
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    gate.open();
    until_answer(&mut bridge, "3").await;
    let (rest, _, _) = bridge.finish().await;
    assert!(rest.is_empty(), "{rest:?}");
    assert_eq!(server.all("first").len(), 1, "only in the old session");
    assert!(server.all("second").is_empty());
    assert!(server.all("notifications/cancelled").is_empty());
}

#[tokio::test]
async fn a_loss_that_the_servers_stream_finds_out_is_healed_without_any_request() {
    // C8: 404 on the GET, and a ping that confirms it.
    let generation = Arc::new(AtomicUsize::new(1));
    let (inner, known) = (session_server(&generation, not_found), Arc::clone(&generation));
    let server = Server::start(move |r| match (&*r.what(), r.header("mcp-session-id")) {
        ("GET", Some("s1")) if known.load(Ordering::SeqCst) == 1 => {
            known.store(2, Ordering::SeqCst);
            Reply::sse().chunk("retry: 100\n\n").end()
        }
        ("GET", Some("s2")) => {
            Reply::sse().event(r#"{"jsonrpc":"2.0","method":"notifications/new"}"#).hang()
        }
        _ => inner(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    loop {
        if bridge.receive().await["method"] == "notifications/new" {
            break;
        }
    }
    assert_eq!(server.all("initialize").len(), 2);
    assert_eq!(server.all("ping").len(), 1);
}

#[tokio::test]
async fn an_answer_to_a_question_of_the_old_session_is_not_sent_in_the_new_one() {
    let generation = Arc::new(AtomicUsize::new(1));
    let (inner, known) = (session_server(&generation, not_found), Arc::clone(&generation));
    let server = Server::start(move |r| match (&*r.what(), known.load(Ordering::SeqCst)) {
        ("tools/call", 1) => Reply::sse().event(request(1, "sampling/createMessage")).hang(),
        _ => inner(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    bridge.send(request(1, "tools/call")).await;
    assert_eq!(bridge.receive().await["method"], "sampling/createMessage");
    generation.store(2, Ordering::SeqCst);
    bridge.send(request(2, "a")).await;
    until_answer(&mut bridge, "2").await;
    bridge.send(result(1, "{}")).await;
    bridge.send(request(3, "ping")).await;
    until_answer(&mut bridge, "3").await;
    assert!(server.all("POST").is_empty(), "nobody asked in this session");
}

#[tokio::test]
async fn nor_as_the_answer_to_a_new_question_with_the_same_id() {
    // A server that has started anew counts from the beginning.
    let generation = Arc::new(AtomicUsize::new(1));
    let (inner, known) = (session_server(&generation, not_found), Arc::clone(&generation));
    let server = Server::start(move |r| match (&*r.what(), known.load(Ordering::SeqCst)) {
        ("tools/call", 1) => Reply::sse().event(request(1, "elicitation/create")).hang(),
        ("tools/call", 2) if r.header("mcp-session-id") == Some("s2") => {
            Reply::sse().event(request(1, "roots/list")).event(result(2, "{}")).end()
        }
        _ => inner(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    bridge.send(request(1, "tools/call")).await;
    assert_eq!(bridge.receive().await["method"], "elicitation/create");
    generation.store(2, Ordering::SeqCst);
    bridge.send(request(2, "tools/call")).await;
    let taken_back = bridge.receive().await;
    assert_eq!(taken_back["method"], "notifications/cancelled");
    assert_eq!(taken_back["params"]["requestId"], 1);
    let question = loop {
        let message = bridge.receive().await;
        if message["method"] == "roots/list" {
            break message;
        }
    };
    assert_ne!(question["id"], 1, "the client may still answer the old one");
    until_answer(&mut bridge, "2").await;
    bridge.send(result(1, r#"{"action":"accept"}"#)).await;
    bridge.send(result(&question["id"], r#"{"roots":[]}"#)).await;
    assert_eq!(
        server.saw("POST").await.json(),
        json!({"jsonrpc":"2.0","id":1,"result":{"roots":[]}})
    );
    bridge.ask(request(3, "ping")).await;
    assert_eq!(server.all("POST").len(), 1);
}

/// A server that asks before it answers an `initialize`, in a session of this number or a later one.
fn asks_first(generation: &Arc<AtomicUsize>) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
    let inner = session_server(generation, not_found);
    let (known, gate) = (Arc::clone(generation), Gate::new());
    move |r| match &*r.what() {
        "initialize" => {
            let answer = r#"{"protocolVersion":"2025-06-18","capabilities":{}}"#;
            let session = format!("s{}", known.load(Ordering::SeqCst));
            let asking = Reply::sse().header("Mcp-Session-Id", &session);
            asking.event(request(99, "ping")).wait(&gate).event(result(r.id(), answer)).end()
        }
        "POST" => {
            gate.open_once();
            inner(r)
        }
        _ => inner(r),
    }
}

#[tokio::test]
async fn a_server_that_asks_before_it_answers_initialize_has_its_answer() {
    // C1: answers of the client's never wait; a ping may come at any time.
    let generation = Arc::new(AtomicUsize::new(1));
    let server = Server::start(asks_first(&generation)).await;
    let mut bridge = Bridge::start(&[&server.url, "--no-server-stream", "--timeout", "10"]);
    bridge.send(INITIALIZE).await;
    assert_eq!(bridge.receive().await["id"], 99);
    bridge.send(result(99, "{}")).await;
    assert_eq!(bridge.receive().await["id"], "init");
    assert_eq!(server.saw("POST").await.header("mcp-session-id"), Some("s1"));
    bridge.send(INITIALIZED).await;
    // The same where the bridge itself opens a session.
    generation.store(2, Ordering::SeqCst);
    bridge.send(request(2, "a")).await;
    assert_eq!(bridge.receive().await["method"], "ping");
    bridge.send(result(99, "{}")).await;
    until_answer(&mut bridge, "2").await;
    let answers = server.all("POST");
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[1].header("mcp-session-id"), Some("s2"));
}

#[tokio::test]
async fn another_revision_or_fewer_capabilities_are_logged_and_used() {
    let count = Arc::new(AtomicUsize::new(0));
    let opened = Arc::clone(&count);
    let server = Server::start(move |r| match (&*r.what(), r.header("mcp-session-id")) {
        ("initialize", _) => {
            let n = opened.fetch_add(1, Ordering::SeqCst);
            let (version, capabilities) = if n == 0 {
                ("2025-06-18", r#"{"tools":{},"prompts":{}}"#)
            } else {
                ("2025-03-26", r#"{"tools":{}}"#)
            };
            let answer =
                format!(r#"{{"protocolVersion":"{version}","capabilities":{capabilities}}}"#);
            Reply::json(result(r.id(), &answer)).header("Mcp-Session-Id", &format!("s{n}"))
        }
        ("a", Some("s0")) => not_found(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    bridge.send(request(1, "a")).await;
    until_answer(&mut bridge, "1").await;
    assert_eq!(server.all("a")[1].header("mcp-protocol-version"), Some("2025-03-26"));
    let (_, _, stderr) = bridge.finish().await;
    assert!(stderr.contains("another revision or fewer capabilities"), "{stderr}");
}

#[tokio::test]
async fn a_keep_alive_pings_inside_the_session_only() {
    let server = Server::start(polite).await;
    let mut bridge = Bridge::start(&[&server.url, "--keep-alive", "0.1", "--no-server-stream"]);
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert!(server.requests().is_empty(), "there is no session yet");
    bridge.handshake().await;
    server.saw_count("ping", 3).await;
    assert!(server.all("ping").iter().all(|r| r.header("mcp-session-id") == Some("s1")));
    let (rest, _, stderr) = bridge.finish().await;
    assert_eq!((rest, stderr.as_str()), (vec![], ""), "its answers never show");
}

#[tokio::test]
async fn a_loss_that_the_servers_stream_is_told_in_words_is_healed_as_well() {
    let generation = Arc::new(AtomicUsize::new(1));
    let forgotten =
        || Reply::status(400, "text/plain", "Bad Request: No valid session ID provided");
    let (inner, known) = (session_server(&generation, forgotten), Arc::clone(&generation));
    let server = Server::start(move |r| match (&*r.what(), r.header("mcp-session-id")) {
        ("GET", Some("s1")) if known.load(Ordering::SeqCst) == 1 => {
            known.store(2, Ordering::SeqCst);
            Reply::sse().chunk("retry: 100\n\n").end()
        }
        ("GET", Some("s2")) => {
            Reply::sse().event(r#"{"jsonrpc":"2.0","method":"notifications/new"}"#).hang()
        }
        _ => inner(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    while bridge.receive().await["method"] != "notifications/new" {}
    assert_eq!(server.all("initialize").len(), 2);
}

#[tokio::test]
async fn the_clients_own_initialize_during_the_repair_is_answered() {
    let generation = Arc::new(AtomicUsize::new(1));
    let (inner, known) = (session_server(&generation, not_found), Arc::clone(&generation));
    let server = Server::start(move |r| match &*r.what() {
        "initialize" if known.load(Ordering::SeqCst) == 2 && r.id().starts_with("\"mcp-span") => {
            let answer = result(r.id(), r#"{"protocolVersion":"2025-06-18"}"#);
            Reply::sse().pause(400).event(answer).end().header("Mcp-Session-Id", "s2")
        }
        _ => inner(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    bridge.ask(request(0, "a")).await;
    generation.store(2, Ordering::SeqCst);
    bridge.send(request(1, "a")).await;
    server.saw_count("initialize", 2).await;
    bridge.send(INITIALIZE).await;
    let mut ids = Vec::new();
    while ids.len() < 2 {
        let message = bridge.receive().await;
        if !message["id"].is_null() {
            assert!(message["result"].is_object(), "{message}");
            ids.push(message["id"].to_string());
        }
    }
    ids.sort();
    assert_eq!(ids, ["\"init\"", "1"]);
}

#[tokio::test]
async fn a_complaint_that_is_not_about_the_session_is_passed_on() {
    // "session" is a word of the tool's own.
    let complaint = r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"Invalid params: session_name is required, session id unknown"}}"#;
    let server = Server::start(move |r| match &*r.what() {
        "tools/call" => Reply::status(400, "application/json", complaint),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    bridge.send(request(2, "tools/call")).await;
    assert_eq!(bridge.line().await, complaint);
    assert_eq!(server.all("initialize").len(), 1);
    assert_eq!(server.all("tools/call").len(), 1);
}

#[tokio::test]
async fn nothing_goes_out_without_a_session_while_it_is_being_replaced() {
    let generation = Arc::new(AtomicUsize::new(1));
    let server = Server::start(session_server(&generation, not_found)).await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    bridge.ask(request("\"x\"", "a")).await;
    generation.store(2, Ordering::SeqCst);
    let lines: String = (0..60)
        .map(|id| request(id, if id % 3 == 0 { "ping" } else { "tools/call" }) + "\n")
        .collect();
    bridge.send_bytes(lines.as_bytes()).await;
    for _ in 0..60 {
        loop {
            let message = bridge.receive().await;
            if message["id"].is_number() {
                assert!(message["result"].is_object(), "{message}");
                break;
            }
        }
    }
    let without: Vec<String> = server
        .requests()
        .iter()
        .filter(|r| r.header("mcp-session-id").is_none())
        .map(Request::what)
        .collect();
    assert_eq!(without, ["initialize", "initialize"]);
}

#[tokio::test]
async fn a_confirmation_that_is_refused_as_lost_does_not_loop_for_ever() {
    let server = Server::start(|r| match &*r.what() {
        "initialize" => polite(r),
        _ => not_found(),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream", "--timeout", "2"]).await;
    bridge.send(request(1, "tools/call")).await;
    loop {
        let message = bridge.receive().await;
        if message["id"] == 1 {
            assert!(message["error"].is_object(), "{message}");
            break;
        }
    }
    assert!(server.all("initialize").len() <= 7, "{}", server.all("initialize").len());
}

#[tokio::test]
async fn a_subscription_that_meets_the_loss_is_made_once_in_the_new_session() {
    let generation = Arc::new(AtomicUsize::new(1));
    let server = Server::start(session_server(&generation, not_found)).await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    bridge.ask(request("\"x\"", "a")).await;
    generation.store(2, Ordering::SeqCst);
    bridge
        .send(r#"{"jsonrpc":"2.0","id":7,"method":"resources/subscribe","params":{"uri":"a://1"}}"#)
        .await;
    until_answer(&mut bridge, "7").await;
    bridge.finish().await;
    let in_new = server
        .all("resources/subscribe")
        .into_iter()
        .filter(|r| r.header("mcp-session-id") == Some("s2"));
    assert_eq!(in_new.count(), 1);
}

#[tokio::test]
async fn those_who_met_the_loss_wait_for_a_server_that_needs_a_moment() {
    // The new session is refused by a gateway, or reset, for a while; then it is opened.
    for way in [502, 503, 0] {
        let generation = Arc::new(AtomicUsize::new(1));
        let (inner, known) = (session_server(&generation, not_found), Arc::clone(&generation));
        let tries = AtomicUsize::new(0);
        let server = Server::start(move |r| match &*r.what() {
            "initialize"
                if known.load(Ordering::SeqCst) == 2
                    && tries.fetch_add(1, Ordering::SeqCst) < 3 =>
            {
                if way == 0 {
                    Reply::nothing().reset()
                } else {
                    Reply::status(way, "", "")
                }
            }
            _ => inner(r),
        })
        .await;
        let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
        bridge.ask(request(0, "a")).await;
        generation.store(2, Ordering::SeqCst);
        bridge.send(request(1, "tools/call")).await;
        bridge.send(request(2, "tools/call")).await;
        for _ in 0..2 {
            loop {
                let message = bridge.receive().await;
                if message["id"].is_number() {
                    assert!(message["result"].is_object(), "{way}: {message}");
                    break;
                }
            }
        }
    }
}

#[tokio::test]
async fn a_capability_that_is_lost_is_told_the_user_and_its_list_the_client() {
    // C35: the same revision, but no prompts any more, and resources that are new.
    let count = AtomicUsize::new(0);
    let server = Server::start(move |r| match (&*r.what(), r.header("mcp-session-id")) {
        ("initialize", _) => {
            let n = count.fetch_add(1, Ordering::SeqCst);
            let capabilities = ["\"prompts\":{}", "\"resources\":{}"][n.min(1)];
            let answer = format!(
                r#"{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}},{capabilities}}}}}"#
            );
            Reply::json(result(r.id(), &answer)).header("Mcp-Session-Id", &format!("s{n}"))
        }
        ("a", Some("s0")) => not_found(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    bridge.send(request(1, "a")).await;
    let mut told = until_answer(&mut bridge, "1").await;
    let (rest, _, stderr) = bridge.finish().await;
    for line in rest {
        let message: serde_json::Value = serde_json::from_str(&line).unwrap();
        told.push(message["method"].as_str().unwrap().to_owned());
    }
    told.sort();
    let expected = ["prompts", "resources", "tools"];
    assert_eq!(told, expected.map(|list| format!("notifications/{list}/list_changed")));
    assert!(stderr.contains("another revision or fewer capabilities"), "{stderr}");
}
