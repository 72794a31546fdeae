//! What a modern server learns from headers: arguments of calls, and the revision that both speak.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{Bridge, Gate, Reply, Request, Server, cancel, modern, polite, result};

fn tool(name: &str, header: &str) -> String {
    format!(
        r#"{{"name":"{name}", "inputSchema":{{"type":"object","properties":{{"region":{{"type":"string","x-mcp-header":"{header}"}}}}}}}}"#
    )
}

fn tools(r: &Request, tools: &[String]) -> Reply {
    Reply::json(result(
        r.id(),
        &format!(r#"{{"tools":[{}],"resultType":"complete"}}"#, tools.join(", ")),
    ))
}

fn call(id: impl std::fmt::Display, name: &str, arguments: &str) -> String {
    modern(id, "tools/call", &format!(r#""name":"{name}","arguments":{arguments},"#))
}

fn refusal(r: &Request, code: i32, data: &str) -> Reply {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":{code},"message":"no"{data}}}}}"#,
        r.id()
    );
    Reply::status(400, "application/json", body)
}

#[tokio::test]
async fn arguments_are_repeated_in_headers_as_the_tools_schema_says() {
    // b.4
    let schema = r#"{"type":"object","properties":{"s":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"Count"},"b":{"type":"boolean","x-mcp-header":"Dry-Run"},"o":{"type":"object","properties":{"deep":{"type":"string","x-mcp-header":"Deep"}}}}}"#;
    let server = Server::start(move |r| match &*r.what() {
        "tools/list" => tools(
            r,
            &[format!(r#"{{"name":"t","inputSchema":{schema}}}"#), r#"{"name":"u"}"#.into()],
        ),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url, "--header", "Mcp-Param-Region: mine"]);
    bridge.ask(call(1, "t", r#"{"s":"early"}"#)).await;
    let early = server.requests().pop().unwrap();
    assert_eq!(early.header("mcp-param-count"), None, "nobody has seen the schema yet");
    let listed = bridge.ask(modern(2, "tools/list", "")).await;
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 2, "{listed}");
    let cases = [
        (
            r#"{"s":"us-west1","n":12345678901234567890,"b":true,"o":{"deep":"x"}}"#,
            ["us-west1", "12345678901234567890", "true", "x"],
        ),
        (
            r#"{"s":"Zürich","n":42.0,"b":false,"o":{"deep":" x"}}"#,
            ["=?base64?WsO8cmljaA==?=", "42", "false", "=?base64?IHg=?="],
        ),
        (
            r#"{"s":"=?base64?eA==?=","n":-1,"b":null,"o":{"deep":""}}"#,
            ["=?base64?PT9iYXNlNjQ/ZUE9PT89?=", "-1", "", "=?base64??="],
        ),
        (r#"{"s":"a\tb\r\nx: y","n":null,"o":null}"#, ["=?base64?YQliDQp4OiB5?=", "", "", ""]),
    ];
    for (arguments, expected) in cases {
        let line = call(3, "t", arguments);
        assert_eq!(bridge.ask(&line).await["id"], 3);
        let r = server.requests().pop().unwrap();
        assert_eq!(r.text(), line, "the body stays as it is");
        let names = ["mcp-param-region", "mcp-param-count", "mcp-param-dry-run", "mcp-param-deep"];
        // The arguments win over what the user has given by hand.
        let found = names.map(|name| r.header(name).unwrap_or_default());
        assert_eq!(found, expected, "{arguments}");
    }
    bridge.ask(call(4, "u", r#"{"s":"x"}"#)).await;
    assert_eq!(server.requests().pop().unwrap().header("mcp-param-count"), None);
}

#[tokio::test]
async fn pages_add_up_and_a_first_page_starts_anew() {
    let server = Server::start(|r| match (&*r.what(), r.json()["params"]["cursor"].as_str()) {
        ("tools/list", None) if r.id() == "8" => refusal(r, -32603, ""),
        ("tools/list", None) if r.id() == "9" => tools(r, &[r#"{"name":"a"}"#.into()]),
        ("tools/list", None) => tools(r, &[tool("a", "A")]),
        ("tools/list", Some(_)) => tools(r, &[tool("b", "B")]),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    bridge.ask(modern(1, "tools/list", "")).await;
    bridge.ask(modern(2, "tools/list", r#""cursor":"2","#)).await;
    assert!(bridge.ask(modern(8, "tools/list", "")).await["error"].is_object(), "no page at all");
    for (name, header) in [("a", "mcp-param-a"), ("b", "mcp-param-b")] {
        bridge.ask(call(3, name, r#"{"region":"r"}"#)).await;
        assert_eq!(server.requests().pop().unwrap().header(header), Some("r"), "{name}");
    }
    bridge.ask(modern(9, "tools/list", "")).await;
    for name in ["a", "b"] {
        bridge.ask(call(4, name, r#"{"region":"r"}"#)).await;
        let r = server.requests().pop().unwrap();
        assert!(r.headers.iter().all(|(name, _)| !name.starts_with("mcp-param")), "{name}");
    }
}

#[tokio::test]
async fn tools_with_invalid_annotations_are_taken_out_and_named_once_in_the_log() {
    let server = Server::start(|r| match &*r.what() {
        "tools/list" => tools(r, &[tool("bad one", "a b"), tool("good", "A"), tool("empty", "")]),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    let expected =
        result(1, &format!(r#"{{"tools":[{}],"resultType":"complete"}}"#, tool("good", "A")));
    for _ in 0..2 {
        bridge.send(modern(1, "tools/list", "")).await;
        assert_eq!(bridge.line().await, expected, "every other byte is the server's");
    }
    bridge.ask(call(2, "good", r#"{"region":"r"}"#)).await;
    assert_eq!(server.requests().pop().unwrap().header("mcp-param-a"), Some("r"));
    let (_, _, stderr) = bridge.finish().await;
    assert_eq!(stderr.lines().count(), 2, "{stderr}");
    assert!(stderr.contains("tool 'bad one' is not offered to the client: x-mcp-header at region"));
    assert!(stderr.contains("'empty'"), "{stderr}");
}

#[tokio::test]
async fn a_legacy_list_is_left_alone() {
    let list = format!(r#"{{"tools":[{}]}}"#, tool("bad", ""));
    let answer = list.clone();
    let server = Server::start(move |r| match &*r.what() {
        "tools/list" => Reply::json(result(r.id(), &list)),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    bridge.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await;
    assert_eq!(bridge.line().await, result(1, &answer));
}

/// Knows which arguments it wants in headers, and changes its mind after the first list.
fn particular(r: &Request, lists: &AtomicUsize) -> Reply {
    match (&*r.what(), r.json()["params"]["cursor"].as_str()) {
        ("tools/list", None) => {
            let header = if lists.fetch_add(1, Ordering::SeqCst) == 0 { "Old" } else { "New" };
            let list = format!(
                r#"{{"resultType":"complete","tools":[{}],"nextCursor":"p2"}}"#,
                tool("x", header)
            );
            Reply::sse().event(result(r.id(), &list)).end()
        }
        ("tools/list", Some(_)) => tools(r, &[tool("t", "New")]),
        ("tools/call", _) if r.header("mcp-param-new") == Some("r") => polite(r),
        ("tools/call", _) => refusal(r, -32020, ""),
        _ => polite(r),
    }
}

#[tokio::test]
async fn a_call_with_wrong_headers_is_sent_once_more_after_the_tools_were_listed_again() {
    let lists = AtomicUsize::new(0);
    let server = Server::start(move |r| particular(r, &lists)).await;
    let mut bridge = Bridge::start(&[&server.url]);
    bridge.ask(modern(1, "tools/list", "")).await;
    let line = modern(2, "tools/call", r#""name":"t","arguments":{"region":"r"},"#);
    assert_eq!(bridge.ask(&line).await["result"]["did"], "tools/call");
    assert_eq!(
        server.asked(),
        ["tools/list", "tools/call", "tools/list", "tools/list", "tools/call"],
        "every page"
    );
    let own = server.all("tools/list").pop().unwrap();
    assert!(own.id().starts_with("\"mcp-span-"), "{}", own.id());
    assert_eq!(own.header("mcp-method"), Some("tools/list"));
    assert_eq!(own.header("mcp-protocol-version"), Some("2026-07-28"));
    let meta = &own.json()["params"]["_meta"];
    assert!(meta["io.modelcontextprotocol/clientCapabilities"].is_object(), "{meta}");
    let calls = server.all("tools/call");
    assert_eq!(calls[0].text(), calls[1].text(), "the same id, the same body");
    // What was learnt stays.
    bridge.ask(call(3, "t", r#"{"region":"r"}"#)).await;
    assert_eq!(server.all("tools/call").len(), 3);
    let (rest, _, stderr) = bridge.finish().await;
    assert_eq!((rest, stderr.as_str()), (vec![], ""), "our own lists never show");
}

#[tokio::test]
async fn a_refusal_that_another_list_does_not_explain_goes_to_the_client() {
    for list in [
        |r: &Request| tools(r, &[tool("t", "A")]),
        |_: &Request| Reply::status(500, "", ""),
        |r: &Request| refusal(r, -32601, ""),
        |_: &Request| Reply::sse().end(),
    ] {
        let lists = AtomicUsize::new(0);
        let server = Server::start(move |r| match &*r.what() {
            "tools/list" if lists.fetch_add(1, Ordering::SeqCst) == 0 => {
                tools(r, &[tool("t", "A")])
            }
            "tools/list" => list(r),
            _ => refusal(r, -32020, ""),
        })
        .await;
        let mut bridge = Bridge::start(&[&server.url]);
        bridge.ask(modern(1, "tools/list", "")).await;
        let answer = bridge.ask(call(2, "t", r#"{"region":"r"}"#)).await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&2.into(), &(-32020).into()));
        assert_eq!(server.asked(), ["tools/list", "tools/call", "tools/list"]);
    }
}

#[tokio::test]
async fn a_call_that_is_refused_twice_is_not_sent_a_third_time() {
    let server = Server::start(|r| match &*r.what() {
        "tools/list" => tools(r, &[tool("t", "A")]),
        _ => refusal(r, -32020, ""),
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    let answer = bridge.ask(call(1, "t", r#"{"region":"r"}"#)).await;
    assert_eq!(answer["error"]["code"], -32020, "{answer}");
    assert_eq!(server.asked(), ["tools/call", "tools/list", "tools/call"]);
    // Only calls are mended in this way.
    let answer = bridge.ask(modern(2, "prompts/get", r#""name":"p","#)).await;
    assert_eq!(answer["error"]["code"], -32020, "{answer}");
    assert_eq!(server.asked().len(), 4);
}

#[tokio::test]
async fn a_call_can_be_cancelled_while_the_tools_are_listed_again() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::start(move |r| match &*r.what() {
        "tools/list" => Reply::sse().wait(&held).event(result(r.id(), "{\"tools\":[]}")).end(),
        "tools/call" => refusal(r, -32020, ""),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    bridge.send(call(1, "t", "{}")).await;
    server.saw("tools/list").await;
    bridge.send(cancel(1)).await;
    server.saw_abandoned("tools/list").await;
    assert_eq!(bridge.ask(modern(2, "a", "")).await["id"], 2);
    gate.open();
    assert!(bridge.finish().await.0.is_empty());
}

#[tokio::test]
async fn a_refused_revision_is_replaced_by_one_in_common_once_and_for_all() {
    // c.3
    let server = Server::start(|r| match r.header("mcp-protocol-version") {
        Some("2026-07-28") => polite(r),
        _ => refusal(r, -32022, r#","data":{"supported":["2025-11-25","2026-07-28"]}"#),
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    let newer =
        |id| modern(id, "tools/call", r#""name":"t","n":1.0,"#).replace("2026-07-28", "2099-01-01");
    for id in [1, 2] {
        assert_eq!(bridge.ask(newer(id)).await["result"]["did"], "tools/call");
    }
    let calls = server.all("tools/call");
    let spoken: Vec<_> = calls.iter().map(|r| r.header("mcp-protocol-version").unwrap()).collect();
    assert_eq!(spoken, ["2099-01-01", "2026-07-28", "2026-07-28"], "remembered");
    assert_eq!(
        calls[1].text(),
        modern(1, "tools/call", r#""name":"t","n":1.0,"#),
        "header and body"
    );
    // Who speaks that revision anyway is not concerned.
    let line = modern(3, "tools/list", "");
    bridge.ask(&line).await;
    assert_eq!(server.requests().pop().unwrap().text(), line);
}

#[tokio::test]
async fn a_revision_that_is_refused_although_it_is_supported_is_tried_once_more() {
    // The suite's request-metadata does this, with the first request, whatever that is.
    for method in ["server/discover", "tools/list"] {
        let seen = AtomicUsize::new(0);
        let server = Server::start(move |r| {
            if seen.fetch_add(1, Ordering::SeqCst) == 0 {
                return refusal(r, -32022, r#","data":{"supported":["2026-07-28"]}"#);
            }
            polite(r)
        })
        .await;
        let mut bridge = Bridge::start(&[&server.url]);
        assert_eq!(bridge.ask(modern(1, method, "")).await["result"]["did"], method);
        assert_eq!(server.asked().len(), 2);
    }
}

#[tokio::test]
async fn without_a_revision_in_common_the_refusal_goes_to_the_client() {
    for supported in [r#"["2099-01-01"]"#, "[]"] {
        let data = format!(r#","data":{{"supported":{supported}}}"#);
        let server = Server::start(move |r| refusal(r, -32022, &data)).await;
        let mut bridge = Bridge::start(&[&server.url]);
        assert_eq!(bridge.ask(modern(1, "tools/list", "")).await["error"]["code"], -32022);
        assert_eq!(server.asked().len(), 1, "{supported}");
    }
}
