//! Sessions, headers and the order of the opening.

use crate::support::{
    Bridge, Gate, INITIALIZE, INITIALIZED, Reply, Server, polite, request, result,
};

#[tokio::test]
async fn headers_are_those_of_the_specification() {
    // S0-04 to S0-06, S2-09, S2-10, S3-01, S4-04 to S4-07, C21
    let server = Server::start(polite).await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    bridge.ask(request(2, "tools/list")).await;
    bridge.finish().await;
    for r in server.requests().iter().filter(|r| r.http_method == "POST") {
        assert_eq!(r.header("content-type"), Some("application/json"), "{r:?}");
        assert_eq!(r.header("accept"), Some("application/json, text/event-stream"), "{r:?}");
        assert_eq!(r.path, "/mcp");
        let agent = r.header("user-agent").unwrap();
        assert!(agent.starts_with("mcp-span/"), "{agent}");
        let first = r.what() == "initialize";
        let session = (!first).then_some("s1");
        let version = (!first).then_some("2025-06-18");
        assert_eq!(r.header("mcp-session-id"), session, "{r:?}");
        assert_eq!(r.header("mcp-protocol-version"), version, "{r:?}");
    }
    for what in ["GET", "DELETE"] {
        let r = server.saw(what).await;
        assert_eq!(r.header("mcp-session-id"), Some("s1"), "{what}");
        assert_eq!(r.header("mcp-protocol-version"), Some("2025-06-18"), "{what}");
        assert_eq!(r.header("content-type"), None, "{what}");
    }
    assert_eq!(server.saw("GET").await.header("accept"), Some("text/event-stream"));
}

#[tokio::test]
async fn the_negotiated_version_is_the_servers_for_every_legacy_revision() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2031-01-01"] {
        let server = Server::start(move |r| match &*r.what() {
            "initialize" => {
                Reply::json(result(r.id(), &format!(r#"{{"protocolVersion":"{version}"}}"#)))
            }
            _ => polite(r),
        })
        .await;
        let mut bridge = Bridge::ready(&[&server.url]).await;
        bridge.ask(request(2, "a")).await;
        let r = server.saw("a").await;
        assert_eq!(r.header("mcp-protocol-version"), Some(version));
        assert_eq!(r.header("mcp-session-id"), None, "none was given");
    }
}

#[tokio::test]
async fn a_configured_version_wins_but_never_on_initialize() {
    // S4-06, C21
    let server = Server::start(polite).await;
    for args in
        [["--protocol-version", "2025-03-26"], ["--header", "MCP-Protocol-Version: 2025-03-26"]]
    {
        let before = server.requests().len();
        let mut bridge = Bridge::ready(&[&server.url, args[0], args[1]]).await;
        bridge.ask(request(2, "a")).await;
        let requests = server.requests().split_off(before);
        let version = |what: &str| {
            let r = requests.iter().find(|r| r.what() == what).unwrap();
            r.header("mcp-protocol-version").map(str::to_owned)
        };
        assert_eq!(version("initialize"), None);
        assert_eq!(version("a").as_deref(), Some("2025-03-26"));
    }
}

#[tokio::test]
async fn the_handshake_goes_in_line_even_if_all_is_sent_at_once() {
    // S1-02, C1: answers are held back one by one; nothing overtakes.
    let (answer, accept) = (Gate::new(), Gate::new());
    let (answering, accepting) = (answer.clone(), accept.clone());
    let server = Server::start(move |r| match &*r.what() {
        "initialize" => {
            let body = result(r.id(), r#"{"protocolVersion":"2025-06-18"}"#);
            Reply::sse().wait(&answering).event(body).end().header("Mcp-Session-Id", "s1")
        }
        "notifications/initialized" => Reply::nothing()
            .wait(&accepting)
            .raw("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    bridge.send(INITIALIZE).await;
    bridge.send(INITIALIZED).await;
    bridge.send(request(2, "tools/list")).await;
    server.saw("initialize").await;
    // Pings are excepted: they may be sent at any time.
    bridge.send(request(3, "ping")).await;
    assert_eq!(bridge.receive().await["id"], 3);
    assert_eq!(server.asked(), ["initialize", "ping"]);
    answer.open();
    assert_eq!(bridge.receive().await["id"], "init");
    server.saw("notifications/initialized").await;
    assert_eq!(bridge.ask(request(4, "ping")).await["id"], 4);
    assert_eq!(server.asked(), ["initialize", "ping", "notifications/initialized", "ping"]);
    accept.open();
    assert_eq!(bridge.receive().await["id"], 2);
}

#[tokio::test]
async fn the_session_comes_from_the_answer_to_initialize_or_from_the_first_that_has_one() {
    // S1-31, S2-11, S4-15, C14
    let server = Server::start(|r| match &*r.what() {
        "a" => polite(r).header("Mcp-Session-Id", "first"),
        "b" => polite(r).header("Mcp-Session-Id", "second"),
        "initialize" => Reply::json(result(r.id(), r#"{"protocolVersion":"2025-06-18"}"#))
            .header("Mcp-Session-Id", "third"),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    for method in ["a", "b", "c"] {
        bridge.ask(request(1, method)).await;
    }
    bridge.handshake().await;
    bridge.ask(request(1, "d")).await;
    let session = |what: &str| server.all(what)[0].header("mcp-session-id").map(str::to_owned);
    assert_eq!(session("a"), None);
    assert_eq!(session("b").as_deref(), Some("first"));
    assert_eq!(session("c").as_deref(), Some("first"), "the first one stays");
    assert_eq!(session("initialize"), None, "a new session asks without the old one");
    assert_eq!(session("d").as_deref(), Some("third"), "an answer to initialize always counts");
    let gone = server.saw("DELETE").await;
    assert_eq!(gone.header("mcp-session-id"), Some("first"), "the old session is given back");
}

#[tokio::test]
async fn an_initialize_that_fails_leaves_the_way_open_for_another() {
    let server =
        Server::start(|r| match (&*r.what(), r.json()["params"]["protocolVersion"].as_str()) {
            ("initialize", Some("2025-06-18")) => polite(r),
            ("initialize", _) => {
                Reply::json(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}"#)
                    .header("Mcp-Session-Id", "never")
            }
            ("server/discover", _) => Reply::status(400, "text/plain", "unheard of"),
            _ => polite(r),
        })
        .await;
    let mut bridge = Bridge::start(&[&server.url]);
    let refused = bridge.ask(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#).await;
    assert_eq!(refused["error"]["code"], -32602);
    bridge.handshake().await;
    assert_eq!(bridge.ask(request(2, "a")).await["id"], 2);
    assert_eq!(server.saw("a").await.header("mcp-session-id"), Some("s1"));
}

#[tokio::test]
async fn a_first_message_that_is_not_initialize_is_not_held_up() {
    let server = Server::start(polite).await;
    let mut bridge = Bridge::start(&[&server.url]);
    assert_eq!(bridge.ask(request(1, "tools/list")).await["id"], 1);
    assert_eq!(server.requests()[0].header("mcp-session-id"), None);
}

#[tokio::test]
async fn user_headers_go_with_everything_and_transport_headers_win() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "# comment\nX-File: from ${WHERE}\n").unwrap();
    let server = Server::start(polite).await;
    let mut bridge = Bridge::start_with(
        &[
            &server.url,
            "--header",
            "Authorization:Bearer ${TOKEN}",
            "-H",
            "X-Two: a",
            "--header",
            "accept: text/plain",
            "--header",
            "Mcp-Session-Id: mine",
            "--header",
            "User-Agent: me/1",
            "--header-file",
            file.path().to_str().unwrap(),
        ],
        &[("TOKEN", "t0ps3cret"), ("WHERE", "a file")],
    );
    bridge.handshake().await;
    bridge.ask(request(2, "a")).await;
    bridge.finish().await;
    for r in server.requests() {
        assert_eq!(r.header("authorization"), Some("Bearer t0ps3cret"), "{}", r.what());
        assert_eq!(r.header("x-two"), Some("a"));
        assert_eq!(r.header("x-file"), Some("from a file"));
        assert_eq!(r.header("user-agent"), Some("me/1"));
        assert_ne!(r.header("accept"), Some("text/plain"));
        assert_ne!(r.header("mcp-session-id"), Some("mine"));
    }
}

#[tokio::test]
async fn one_connection_is_used_for_one_call_after_the_other() {
    let server = Server::start(|r| match &*r.what() {
        "events" => Reply::sse().event(result(r.id(), "{}")).end(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    for id in 0..5 {
        bridge.ask(request(id, "tools/call")).await;
        bridge.ask(request(id, "events")).await;
    }
    assert_eq!(server.connections(), 1, "answers in events give their connection back, too");
}

#[tokio::test]
async fn a_user_in_the_url_becomes_basic_authorization_and_is_not_in_the_request() {
    let server = Server::start(polite).await;
    let url = server.url.replace("http://", "http://me:pass%20word@") + "?key=value#part";
    let mut bridge = Bridge::start(&[&url]);
    bridge.ask(request(1, "a")).await;
    let r = server.saw("a").await;
    assert_eq!(r.header("authorization"), Some("Basic bWU6cGFzcyB3b3Jk"));
    assert_eq!(r.path, "/mcp?key=value");
    assert!(!r.header("host").unwrap().contains('@'));
}

#[tokio::test]
async fn an_answer_without_a_revision_opens_a_session_all_the_same() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::start(move |r| match &*r.what() {
        "initialize" => Reply::json(result(r.id(), "{}")).header("Mcp-Session-Id", "s9"),
        "notifications/initialized" => {
            Reply::nothing().wait(&held).raw("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
        }
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    bridge.send(request(2, "tools/list")).await;
    server.saw("notifications/initialized").await;
    assert_eq!(bridge.ask(request(3, "ping")).await["id"], 3);
    assert!(server.all("tools/list").is_empty(), "not before the confirmation is accepted");
    gate.open();
    assert_eq!(bridge.receive().await["id"], 2);
    let list = server.saw("tools/list").await;
    assert_eq!(list.header("mcp-session-id"), Some("s9"));
    assert_eq!(list.header("mcp-protocol-version"), None);
}
