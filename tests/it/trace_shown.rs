//! How a trace is shown: at several widths, in colour, to a program; and of commands that explore.

use std::process::Output;

use serde_json::Value;

use crate::support::shop::shop;
use crate::support::snapshot::{assert, page, whole};
use crate::support::{Reply, Server, polite, run};

/// What `mcp-span trace` shows of lines `second direction type data`.
async fn shown(lines: &[&str], args: &[&str], env: &[(&str, &str)]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.jsonl");
    let line = |line: &&str| {
        let parts: Vec<&str> = line.splitn(4, ' ').collect();
        let [at, direction, kind, data] = parts[..] else { panic!("{line}") };
        format!(
            r#"{{"timestamp":"2026-11-15T14:05:{at}Z","direction":"{direction}","type":"{kind}","data":{data}}}"#
        ) + "\n"
    };
    std::fs::write(&path, lines.iter().map(line).collect::<String>()).unwrap();
    run(&[&["trace", path.to_str().unwrap()], args].concat(), env, "").await
}

fn text(output: Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

const BRIDGE: [&str; 17] = [
    r#"00.000000 client->bridge START {"version":"1.2.3","system":"linux x86_64","pid":7}"#,
    r#"00.001000 client->bridge STDIN {"jsonrpc":"2.0","id":0,"method":"initialize"}"#,
    r#"00.002000 bridge->server HTTP_REQ {"exchange":1,"method":"POST","url":"https://example.com/mcp","size":90,"id":0,"rpcMethod":"initialize"}"#,
    r#"00.040000 bridge->server CONNECTION {"to":"example.com:443","opened":false,"why":"connection refused","ms":38.2}"#,
    r#"00.041000 server->bridge HTTP_RES {"exchange":1,"method":"POST","error":"connection refused","ms":39.0,"id":0,"rpcMethod":"initialize"}"#,
    r#"00.041500 bridge->server RECOVERY {"what":"server-away","why":"connection refused"}"#,
    r#"00.150000 bridge->server RECOVERY {"what":"retry","number":1,"why":"connection refused","method":"POST","id":0,"rpcMethod":"initialize"}"#,
    r#"00.300000 bridge->server RECOVERY {"what":"server-back"}"#,
    r#"00.400000 bridge->client STDOUT {"jsonrpc":"2.0","id":0,"result":{}}"#,
    r#"01.000000 client->bridge STDIN {"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"天気予報を調べる"}}"#,
    r#"01.002000 bridge->server HTTP_REQ {"exchange":2,"method":"POST","url":"https://example.com/mcp","size":210,"id":"a","rpcMethod":"tools/call","name":"天気予報を調べる"}"#,
    r#"01.250000 server->bridge HTTP_RES {"exchange":2,"method":"POST","status":200,"headers":{"content-type":"text/event-stream"},"ms":248.0,"id":"a","rpcMethod":"tools/call","name":"天気予報を調べる"}"#,
    r#"01.300000 server->bridge SSE_CHUNK {"data":{"jsonrpc":"2.0","id":"a","error":{"code":-32000,"message":"no such place; names are given in kana, and with the prefecture, as they stand on a map"}}}"#,
    r#"01.301000 bridge->client STDOUT {"jsonrpc":"2.0","id":"a","error":{"code":-32000,"message":"no such place; names are given in kana, and with the prefecture, as they stand on a map"}}"#,
    r#"02.000000 client->bridge STDIN {"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"file:///\u001b[31mred"}}"#,
    r#"03.000000 client->bridge STDIN {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#,
    r#"03.500000 bridge->client GAP {"lost":12}"#,
];

#[tokio::test]
async fn it_is_laid_out_for_the_width_and_coloured() {
    for width in ["40", "80", "120"] {
        for has_colour in [false, true] {
            let output = shown(&BRIDGE, &[], &page(width, has_colour)).await;
            let colour = if has_colour { "coloured" } else { "plain" };
            assert(&format!("trace-{width}-{colour}"), &text(output));
        }
    }
}

#[tokio::test]
async fn behind_a_pipe_an_event_is_one_line() {
    let text = text(shown(&BRIDGE, &[], &[]).await);
    let events = text.split("\n\n").next().unwrap();
    assert_eq!(events.lines().count(), BRIDGE.len(), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[tokio::test]
async fn as_json_each_event_is_a_line_with_what_is_known_of_its_request() {
    assert("trace-json", &whole(&shown(&BRIDGE, &["--json"], &page("40", true)).await));
    let output = shown(&BRIDGE, &["--json", "--id", "a"], &[]).await;
    let lines = text(output);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().all(|line| line["id"] == "a"), "{lines:?}");
    let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["STDIN", "HTTP_REQ", "HTTP_RES", "SSE_CHUNK", "STDOUT"]);
    let last = lines.last().unwrap();
    assert_eq!((&last["took"], &last["seconds"]), (&0.301.into(), &1.301.into()));
    assert_eq!(last["data"]["error"]["code"], -32000);
    assert_eq!(last["method"], "tools/call");

    let batch = r#"00.5 client->bridge STDIN [{"id":1,"method":"a"},{"id":2,"method":"b"}]"#;
    let lines = text(shown(&[batch], &["--json"], &[]).await);
    assert!(lines.lines().nth(1).unwrap().contains(r#""data":{"id":2,"method":"b"}"#), "{lines}");

    let output = shown(&BRIDGE, &["--json", "--id", "nobody"], &[]).await;
    let error: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!((output.status.code(), &error["error"]["kind"]), (Some(2), &"usage".into()));
}

/// What a command that explores `server` leaves in its trace.
async fn explored(server: &Server, words: &[&str], code: i32) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.jsonl");
    let path = path.to_str().unwrap();
    let (command, rest) = words.split_first().unwrap();
    let line = [&[command, "--trace-file", path, &*server.url][..], rest].concat();
    let output = run(&line, &[], "").await;
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    text(run(&["trace", path], &[], "").await)
}

#[tokio::test]
async fn a_call_is_shown_with_its_tool_and_its_end() {
    let server = Server::start(shop).await;
    let told = explored(&server, &["call", "order", "what=tea", "count=1"], 0).await;
    for part in ["tools/call order #", "answer to tools/call order #", "Slowest: "] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!told.contains("Never answered") && !told.contains("0 requests"), "{told}");
}

#[tokio::test]
async fn a_request_that_http_refuses_has_ended_with_an_error() {
    let server = Server::start(|r| match &*r.what() {
        "tools/list" => Reply::status(500, "text/plain", "broken"),
        _ => polite(r),
    })
    .await;
    let told = explored(&server, &["tools"], 3).await;
    assert!(told.contains("HTTP 500 text/plain to tools/list #2, after "), "{told}");
    assert!(told.contains("2 requests: 1 answered, 1 with an error\n"), "{told}");
    assert!(!told.contains("Never answered"), "{told}");
}
