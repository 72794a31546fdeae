//! The embedded server: an ordinary stdio server for a client, a walk for a person.

use crate::support::{Bridge, INITIALIZE, INITIALIZED, request, run, soon};

#[tokio::test]
async fn piped_it_is_an_ordinary_stdio_server() {
    let mut bridge = Bridge::ready(&["demo"]).await;
    let tools = bridge.ask(request(2, "tools/list")).await;
    let names: Vec<&str> = tools["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["echo", "add", "countdown"]);
    let call = r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"countdown","arguments":{"from":2},"_meta":{"progressToken":"p"}}}"#;
    bridge.send(call).await;
    for step in 1..=2 {
        let progress = bridge.receive().await;
        assert_eq!(progress["params"]["progress"], step, "{progress}");
    }
    assert_eq!(bridge.receive().await["result"]["content"][0]["text"], "Counted down from 2.");
    let (rest, status, stderr) = bridge.finish().await;
    assert_eq!((rest.len(), status.code(), stderr.as_str()), (0, Some(0), ""));
}

#[tokio::test]
async fn all_at_once_works_as_well() {
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add","arguments":{"a":2,"b":40}}}"#;
    let output = run(&["demo"], &[], &format!("{INITIALIZE}\n{INITIALIZED}\n{call}\n")).await;
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(stdout.lines().count(), 2);
    assert!(stdout.lines().last().unwrap().contains("\"42\""), "{stdout}");
}

#[tokio::test]
async fn it_answers_the_probe_of_a_modern_client_like_a_legacy_server() {
    let mut bridge = Bridge::start(&["demo"]);
    let probe = r#"{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
    assert_eq!(bridge.ask(probe).await["error"]["code"], -32601);
    bridge.handshake().await;
}

#[cfg(unix)]
#[tokio::test]
async fn without_any_client_it_walks_as_well() {
    let mut demo = crate::support::process::command(&["demo"]);
    demo.stdin(std::process::Stdio::null());
    let output = soon("the walk", demo.output()).await.unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && shown.contains("server → client"), "{shown}");
    assert!(!shown.contains('\u{1b}'), "no colour where there is no terminal");
}

/// `script(1)` of util-linux gives the program a terminal.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn at_a_terminal_it_walks_through_and_shows_every_message() {
    let program = env!("CARGO_BIN_EXE_mcp-span");
    let mut script = tokio::process::Command::new("script");
    script.args(["-qec", &format!("'{program}' demo"), "/dev/null"]);
    script.env("TERM", "xterm").env_remove("NO_COLOR").stdin(std::process::Stdio::null());
    let output = soon("the walk", script.output())
        .await
        .expect("script(1) is there: it is part of util-linux (Debian: bsdutils)");
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{shown}");
    for part in [
        "client → server",
        "server → client",
        "initialize",
        "notifications/initialized",
        "tools/list",
        "tools/call",
        "notifications/progress",
        " ms",
        "\"text\": \"42\"",
        "\u{1b}[",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}
