//! Tools that are hidden: no list shows them, and nobody can call them.

use serde_json::{Value, json};

use crate::support::{Bridge, Reply, Request, Server, polite, request, run};

/// A list with what is on it written out, and each call answered with the tool's name.
fn with_tools(tools: &'static str) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
    move |r| match &*r.what() {
        "tools/list" if r.json()["params"]["cursor"] == "c" => Reply::json(
            json!({"jsonrpc": "2.0", "id": r.json()["id"], "result": {"tools": []}}).to_string(),
        ),
        "tools/list" => Reply::json(format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{{ {tools} , "nextCursor": "c" }} }}"#,
            r.json()["id"]
        )),
        "tools/call" => Reply::json(
            json!({"jsonrpc": "2.0", "id": r.json()["id"], "result": {"content": [],
                "structuredContent": r.json()["params"]["name"]}})
            .to_string(),
        ),
        _ => polite(r),
    }
}

const TOOLS: &str = r#""tools": [ {"name":"deleteTask"}, { "name" : "list" , "x": 1.0 },{"name":"removeUser"}, {"name":"getAccount"},{"name":"undelete"} ]"#;

fn call(id: u32, name: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name}})
        .to_string()
}

fn names(answer: &Value) -> Vec<&str> {
    let tools = answer["result"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

/// How many calls the server has got.
fn calls(server: &Server) -> usize {
    server.asked().iter().filter(|what| *what == "tools/call").count()
}

#[tokio::test]
async fn the_examples_that_mcp_remote_documents() {
    let server = Server::start(with_tools(TOOLS)).await;
    for name in [&["mcp-remote"][..], &[]] {
        let args: Vec<&str> = name
            .iter()
            .copied()
            .chain([&*server.url, "--ignore-tool", "delete*", "--ignore-tool", "*account"])
            .collect();
        let mut bridge = Bridge::ready(&args).await;
        let list = bridge.ask(request(1, "tools/list")).await;
        assert_eq!(names(&list), ["list", "removeUser", "undelete"]);
        assert_eq!(list["result"]["nextCursor"], "c");
        for hidden in ["deleteTask", "DELETEALL", "getAccount", "delete", "delete\nx"] {
            let answer = bridge.ask(call(2, hidden)).await;
            assert_eq!(answer["error"]["data"]["kind"], "tool-hidden", "{answer}");
            assert_eq!(answer["error"]["data"]["delivery"], "not-delivered");
            let text = answer["error"]["message"].as_str().unwrap();
            assert!(text.contains("--ignore-tool"), "{text}");
        }
        let answer = bridge.ask(call(3, "undelete")).await;
        assert_eq!(answer["result"]["structuredContent"], "undelete");
        let (_, status, stderr) = bridge.finish().await;
        assert_eq!((status.code(), &*stderr), (Some(0), ""));
    }
    assert_eq!(calls(&server), 2, "nothing that is hidden has reached the server");
}

#[tokio::test]
async fn what_is_left_of_a_list_is_the_bytes_that_came() {
    let server = Server::start(with_tools(TOOLS)).await;
    let mut bridge = Bridge::ready(&[&server.url, "--ignore-tool", "*e*e*"]).await;
    bridge.send(&request(1, "tools/list")).await;
    let line = bridge.line().await;
    let expected = r#"{"jsonrpc":"2.0","id":1,"result":{ "tools": [ { "name" : "list" , "x": 1.0 }, {"name":"getAccount"} ] , "nextCursor": "c" } }"#;
    assert_eq!(line.trim_end(), expected);
}

#[tokio::test]
async fn a_list_that_cannot_be_read_with_certainty_is_not_shown() {
    for tools in [
        r#""tools": [{"name":"delete"}], "tools": [{"name":"list"}]"#,
        r#""tools": {"name":"delete"}"#,
        r#""t\u006fols": "delete""#,
    ] {
        let server = Server::start(with_tools(tools)).await;
        let mut bridge = Bridge::ready(&[&server.url, "--ignore-tool", "delete"]).await;
        let answer = bridge.ask(request(1, "tools/list")).await;
        assert_eq!(answer["error"]["data"]["kind"], "tool-hidden", "{tools}: {answer}");
    }
    for (tools, left) in [
        (r#""t\u006fols": [{"n\u0061me":"d\u0065lete"},{"name":"list"}]"#, &["list"][..]),
        (r#""tools": [{"name":"list","name":"delete"},{"name":"a"}]"#, &["a"]),
        (r#""tools": [{"name":7},{},null,"delete",{"name":"a"}]"#, &["a"]),
        (r#""tools": [{"name":"delete"}]"#, &[]),
    ] {
        let server = Server::start(with_tools(tools)).await;
        let mut bridge = Bridge::ready(&[&server.url, "--ignore-tool", "delete"]).await;
        let answer = bridge.ask(request(1, "tools/list")).await;
        assert_eq!(names(&answer), left, "{tools}");
    }
}

#[tokio::test]
async fn a_call_whose_tool_cannot_be_told_is_refused() {
    let server = Server::start(with_tools(TOOLS)).await;
    let mut bridge = Bridge::ready(&[&server.url, "--ignore-tool", "delete"]).await;
    for params in [
        r#"{"name":"list","name":"delete"}"#,
        r#"{"n\u0061me":"delet\u0065"}"#,
        r#"{"name":7}"#,
        "{}",
        "[]",
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        let answer = bridge.ask(&text).await;
        assert_eq!(answer["error"]["data"]["kind"], "tool-hidden", "{params}: {answer}");
    }
    let without = bridge.ask(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#).await;
    assert_eq!(without["error"]["data"]["kind"], "tool-hidden");
    // Nobody would hear of a refusal.
    bridge.send(r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"delete"}}"#).await;
    let next = bridge.ask(call(2, "list")).await;
    assert_eq!(next["result"]["structuredContent"], "list");
    assert_eq!(calls(&server), 1);
}

#[tokio::test]
async fn a_second_request_under_the_same_id_brings_nothing_to_light() {
    let server = Server::start(|r: &Request| match &*r.what() {
        "tools/list" => {
            let body = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"delete"}]}}"#;
            Reply::sse().pause(300).event(body)
        }
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--ignore-tool", "delete"]).await;
    bridge.send(&request(1, "tools/list")).await;
    bridge.send(&request(1, "prompts/list")).await;
    let refused = bridge.receive().await;
    assert!(refused["error"].is_object(), "{refused}");
    let list = bridge.receive().await;
    assert!(names(&list).is_empty(), "{list}");
}

#[tokio::test]
async fn clients_and_servers_of_the_modern_era_have_them_hidden_as_well() {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let ask = |id: u32, method: &str, mut params: Value| {
        params["_meta"] = meta.clone();
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
    };
    // One of each era: it is translated in between, or passes as it is.
    let modern = |r: &Request| match &*r.what() {
        "tools/list" => Reply::json(
            json!({"jsonrpc": "2.0", "id": r.json()["id"], "result": {"resultType": "complete",
                "ttlMs": 0, "cacheScope": "private",
                "tools": [{"name": "delete", "inputSchema": {"type": "object"}},
                          {"name": "list", "inputSchema": {"type": "object"}}]}})
            .to_string(),
        ),
        _ => crate::eras::strict(r),
    };
    for server in [Server::start(modern).await, Server::start(with_tools(TOOLS)).await] {
        let mut bridge = Bridge::start(&[&server.url, "--ignore-tool", "delete*"]);
        let list = bridge.ask(ask(1, "tools/list", json!({}))).await;
        let names = names(&list);
        assert!(names.contains(&"list") && !names.iter().any(|name| name.starts_with("delete")));
        let answer = bridge.ask(ask(2, "tools/call", json!({"name": "delete"}))).await;
        assert_eq!(answer["error"]["data"]["kind"], "tool-hidden", "{answer}");
        assert_eq!(calls(&server), 0);
    }
    let server = Server::start(modern).await;
    let mut bridge = Bridge::ready(&[&server.url, "--ignore-tool", "delete*"]).await;
    let list = bridge.ask(request(1, "tools/list")).await;
    assert_eq!(names(&list), ["list"], "a legacy client at a modern server");
    let answer = bridge.ask(call(2, "deleteTask")).await;
    assert_eq!(answer["error"]["data"]["kind"], "tool-hidden", "{answer}");
}

#[tokio::test]
async fn commands_do_not_see_or_call_them_either_and_say_why() {
    let server = Server::start(with_tools(TOOLS)).await;
    let hide = ["--ignore-tool", "delete*"];
    let list = run(&[&["tools", &*server.url, "--json"], &hide[..]].concat(), &[], "").await;
    let text = String::from_utf8(list.stdout).unwrap();
    assert!(text.contains("\"list\"") && !text.contains("deleteTask"), "{text}");
    let called = run(&[&["call", &*server.url, "deleteTask"], &hide[..]].concat(), &[], "").await;
    assert!(!called.status.success());
    assert_eq!(calls(&server), 0);
    for command in ["call", "tools"] {
        let asked =
            run(&[&[command, &*server.url, "deleteTask"], &hide[..]].concat(), &[], "").await;
        let stderr = String::from_utf8(asked.stderr).unwrap();
        assert_eq!(asked.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains("'deleteTask' is hidden by --ignore-tool 'delete*'"), "{stderr}");
    }
    let none = run(&["tools", &*server.url, "--ignore-tool", "*"], &[], "").await;
    let stderr = String::from_utf8(none.stderr).unwrap();
    assert!(stderr.contains("has no tools but those that --ignore-tool hides"), "{stderr}");
    let env = [("MCP_SPAN_IGNORE_TOOL", "delete*\nremove*")];
    let list = run(&["tools", &*server.url, "--json"], &env, "").await;
    let text = String::from_utf8(list.stdout).unwrap();
    assert!(!text.contains("deleteTask") && !text.contains("removeUser"), "{text}");
}
