//! Which transport a server speaks: found out in the handshake, and not at a Streamable HTTP server's
//! expense.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::hub::{cannot, is_get, session_of};
use crate::support::{
    Bridge, Feed, Gate, Hub, INITIALIZE, INITIALIZED, Reply, Request, Server, Streams, cancel,
    polite, request, run,
};

/// A POST to the URL itself, which only a Streamable HTTP server wants.
fn is_to_url(r: &Request) -> bool {
    r.http_method == "POST" && session_of(r).is_none()
}

/// A hub that refuses a POST to its URL in this way.
async fn refusing(reply: fn() -> Reply) -> Hub {
    Hub::start(move |r, _| is_to_url(r).then(reply)).await
}

type Script = fn(&Request) -> Reply;

/// A server without any MCP, which shows `stream` to whoever asks for one.
async fn without(stream: Script) -> Server {
    Server::start(move |r| if is_get(r) { stream(r) } else { cannot(r) }).await
}

#[tokio::test]
async fn a_refusal_without_a_json_rpc_body_leads_to_the_older_transport() {
    // C9, S3-12, 4(d)10
    let ways: [fn() -> Reply; 4] = [
        || Reply::status(404, "text/html", "<pre>Cannot POST /mcp</pre>"),
        || Reply::status(405, "", ""),
        || Reply::status(400, "text/plain", "Bad Request"),
        || Reply::status(415, "application/json", r#"{"detail":"Unsupported"}"#),
    ];
    for way in ways {
        let hub = refusing(way).await;
        let mut bridge = Bridge::ready(&[&hub.url]).await;
        assert_eq!(bridge.ask(request(1, "tools/list")).await["result"]["session"], 1);
        let asked = ["initialize", "GET", "initialize", "notifications/initialized", "tools/list"];
        assert_eq!(hub.asked(), asked, "exactly one POST and one GET more");
        assert_eq!(hub.all("initialize")[1].text(), INITIALIZE);
        assert_eq!(hub.all("GET")[0].header("accept"), Some("text/event-stream"));
        let (rest, _, stderr) = bridge.finish().await;
        assert_eq!((rest, stderr.as_str()), (vec![], ""));
    }
}

#[tokio::test]
async fn what_was_found_out_is_remembered() {
    // C9, S3-12
    let hub = Hub::plain().await;
    let mut bridge = Bridge::ready(&[&hub.url]).await;
    for session in [2, 3] {
        bridge.ask(request(1, "a")).await;
        let lose: fn(&Feed) = if session == 2 { Feed::end } else { Feed::reset };
        lose(&hub.streams.forget());
        assert_eq!(bridge.receive().await["method"], "notifications/tools/list_changed");
        assert_eq!(bridge.ask(request(2, "a")).await["result"]["session"], session);
    }
    assert_eq!(hub.requests().iter().filter(|r| is_to_url(r)).count(), 1);
}

#[tokio::test]
async fn a_json_rpc_error_is_an_answer_whatever_its_status() {
    // C9, C23
    for status in [400, 404] {
        let body =
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"No such luck"}}"#;
        let server = Server::start(move |r| {
            if is_get(r) { polite(r) } else { Reply::status(status, "application/json", body) }
        })
        .await;
        let mut bridge = Bridge::start(&[&server.url]);
        let answer = bridge.ask(INITIALIZE).await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&"init".into(), &(-32603).into()));
        assert_eq!(server.asked(), ["initialize"], "{status}");
    }
}

#[tokio::test]
async fn statuses_with_a_meaning_of_their_own_lead_nowhere() {
    // C9
    for status in [401, 403, 408, 429, 500, 503] {
        let server = Server::start(move |_| Reply::status(status, "text/plain", "no")).await;
        let mut bridge = Bridge::start(&[&server.url, "--connect-wait", "0.3", "--no-oauth"]);
        let error = bridge.ask(INITIALIZE).await["error"].clone();
        assert_eq!((&error["code"], &error["data"]["status"]), (&(-32001).into(), &status.into()));
        assert!(server.all("GET").is_empty(), "{status}");
    }
}

/// What a Streamable HTTP server is asked in a conversation in which its session is lost once.
async fn asked_by(transport: &str) -> Vec<String> {
    let calls = AtomicUsize::new(0);
    let server = Server::start(move |r| match &*r.what() {
        "tools/call" if calls.fetch_add(1, Ordering::SeqCst) == 1 => cannot(r),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--transport", transport]).await;
    server.saw("GET").await;
    for id in 0..3 {
        bridge.send(request(id, "tools/call")).await;
        assert!(bridge.answer(id).await.0["result"].is_object());
    }
    server.saw_count("GET", 2).await;
    bridge.finish().await;
    let mut asked = server.asked();
    // The server's own stream is opened beside all else.
    asked.sort();
    asked
}

#[tokio::test]
async fn a_streamable_http_server_notices_nothing() {
    // C9: a compliant server is never asked twice.
    let asked = asked_by("http").await;
    assert_eq!(asked.iter().filter(|what| *what == "initialize").count(), 2, "{asked:?}");
    assert_eq!(asked_by("auto").await, asked);
}

#[tokio::test]
async fn who_has_spoken_streamable_http_once_is_not_tried_otherwise() {
    let opened = AtomicUsize::new(0);
    let server = Server::start(move |r| match &*r.what() {
        "initialize" if opened.fetch_add(1, Ordering::SeqCst) > 0 => cannot(r),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    let error = bridge.ask(request(1, "initialize")).await["error"].clone();
    assert_eq!(error["data"]["status"], 404, "{error}");
    assert!(server.all("GET").is_empty());
}

#[tokio::test]
async fn a_server_of_neither_sort_is_told_by_its_first_refusal() {
    // C9: accepted only if its first event is `endpoint`.
    let ways: [(&str, Script); 5] = [
        ("a page", |_| Reply::status(200, "text/html", "<p>hello")),
        ("another stream", |_| Reply::sse().event(request(1, "ping")).hang()),
        ("nothing there", cannot),
        ("silence", |_| Reply::sse().chunk(": hello\n\n").hang()),
        ("no stream", |_| Reply::status(405, "", "")),
    ];
    for (way, stream) in ways {
        let server = without(stream).await;
        let mut bridge = Bridge::start(&[&server.url, "--timeout", "0.5"]);
        let start = Instant::now();
        for tries in 1..=2 {
            let error = bridge.ask(INITIALIZE).await["error"].clone();
            assert_eq!(error["data"]["status"], 404, "{way}: {error}");
            assert_eq!(error["data"]["delivery"], "not-delivered", "{way}: {error}");
            let message = error["message"].as_str().unwrap();
            assert!(message.contains("Cannot POST /mcp"), "{way}: {error}");
            assert_eq!(server.asked(), ["initialize", "GET"].repeat(tries), "{way}");
        }
        assert!(start.elapsed() < Duration::from_secs(6), "{way}: {:?}", start.elapsed());
    }
}

#[tokio::test]
async fn a_stream_that_ends_at_once_does_not_keep_the_client_waiting() {
    let server = without(|_| Reply::sse().end()).await;
    let mut bridge = Bridge::start(&[&server.url]);
    let start = Instant::now();
    let error = bridge.ask(INITIALIZE).await["error"].clone();
    assert_eq!(error["data"]["status"], 404, "{error}");
    assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
    assert_eq!(server.asked(), ["initialize", "GET"]);
}

#[tokio::test]
async fn a_stream_that_wants_credentials_says_so() {
    let ways: [(u16, Script); 2] = [
        (401, |_| Reply::status(401, "", "").header("WWW-Authenticate", "Bearer realm=\"x\"")),
        (403, |_| Reply::status(403, "", "")),
    ];
    for (status, way) in ways {
        let server = without(way).await;
        let mut bridge = Bridge::start(&[&server.url, "--no-oauth"]);
        let error = bridge.ask(INITIALIZE).await["error"].clone();
        assert_eq!(error["data"]["status"], status, "{error}");
        assert_eq!(server.asked(), ["initialize", "GET"], "{status}");
    }
}

#[tokio::test]
async fn who_names_the_transport_gets_no_other() {
    // S3-19, S3-20
    let hub = Hub::plain().await;
    let mut bridge = Bridge::start(&[&hub.url, "--transport", "http"]);
    let error = bridge.ask(INITIALIZE).await["error"].clone();
    assert_eq!(error["data"]["status"], 404, "{error}");
    assert_eq!(hub.asked(), ["initialize"]);
    let hub = Hub::plain().await;
    let mut bridge = Bridge::ready(&[&hub.url, "--transport", "sse"]).await;
    bridge.ask(request(1, "a")).await;
    assert!(!hub.requests().iter().any(is_to_url));
    let server = Server::start(polite).await;
    let mut bridge = Bridge::start(&[&server.url, "--transport", "sse"]);
    let error = bridge.ask(INITIALIZE).await["error"].clone();
    assert_eq!((&error["data"]["status"], server.asked()), (&405.into(), vec!["GET".to_owned()]));
}

#[tokio::test]
async fn the_names_that_others_have_for_transports_are_understood() {
    for (name, first) in [
        ("http-first", "initialize"),
        ("sse-first", "initialize"),
        ("auto", "initialize"),
        ("http-only", "initialize"),
        ("sse-only", "GET"),
        ("sse", "GET"),
    ] {
        let hub = Hub::plain().await;
        let mut bridge = Bridge::start_with(&[&hub.url], &[("MCP_SPAN_TRANSPORT", name)]);
        let worked = bridge.ask(INITIALIZE).await["result"].is_object();
        assert_eq!(worked, name != "http-only", "{name}");
        assert_eq!(hub.asked()[0], first, "{name}");
    }
    let output = run(&["http://localhost:1/mcp", "--transport", "pigeon"], &[], "").await;
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("pigeon") && stderr.contains("--transport"), "{stderr}");
}

#[tokio::test]
async fn what_is_piped_in_at_once_comes_out_right() {
    // S3-18
    let hub = Hub::plain().await;
    let input = format!("{INITIALIZE}\n{INITIALIZED}\n{}\n", request(1, "tools/list"));
    let output = run(&[&hub.url], &[], &input).await;
    let stdout = String::from_utf8(output.stdout).unwrap();
    let ids: Vec<serde_json::Value> = stdout
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].clone())
        .collect();
    assert_eq!(ids, ["init".into(), serde_json::Value::from(1)]);
    assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]));
    assert_eq!(hub.told(1), ["initialize", "notifications/initialized", "tools/list"]);
    assert!(hub.requests().iter().all(|r| ["GET", "POST"].contains(&&*r.http_method)));
    assert_eq!(hub.requests().len(), 5, "never a HEAD, nor anything else");
}

#[tokio::test]
async fn a_probe_of_an_older_server_is_answered_and_opens_nothing() {
    // C22
    let hub = Hub::plain().await;
    let mut bridge = Bridge::start(&[&hub.url]);
    let answer = bridge.ask(request(1, "server/discover")).await;
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    assert!(hub.all("GET").is_empty());
    bridge.handshake().await;
    assert_eq!(hub.streams.count(), 1);
}

#[tokio::test]
async fn leaving_while_it_is_being_found_out_takes_no_longer_than_a_request() {
    // C27
    let server = without(|_| Reply::sse().hang()).await;
    let mut bridge = Bridge::start(&[&server.url, "--timeout", "1"]);
    bridge.send(INITIALIZE).await;
    server.saw("GET").await;
    let start = Instant::now();
    let (rest, status, _) = bridge.finish().await;
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!((rest.len(), status.code()), (1, Some(0)), "{rest:?}");
    assert!(rest[0].contains("error"), "{rest:?}");
}

#[tokio::test]
async fn a_handshake_that_is_cancelled_meanwhile_is_forgotten() {
    let gate = Gate::new();
    let held = gate.clone();
    let script = move |r: &Request, streams: &Streams| {
        is_get(r).then(|| match streams.count() {
            0 => streams.open().held(&held),
            _ => streams.open(),
        })
    };
    let hub = Hub::start(script).await;
    let mut bridge = Bridge::start(&[&hub.url]);
    bridge.send(INITIALIZE).await;
    hub.saw("GET").await;
    bridge.send(cancel("\"init\"")).await;
    hub.saw_abandoned("GET").await;
    gate.open();
    bridge.handshake().await;
    assert_eq!(bridge.ask(request(1, "a")).await["result"]["session"], 2);
    assert!(hub.all("notifications/cancelled").is_empty());
}
