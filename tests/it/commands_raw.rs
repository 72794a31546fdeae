//! `mcp-span raw`, `read` and `prompt`: any method, and two that have a command of their own.

use std::process::Output;

use crate::support::shop::shop;
use crate::support::{Server, run};

fn parts(output: &Output) -> (Option<i32>, &str, &str) {
    let text = |bytes| std::str::from_utf8(bytes).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[tokio::test]
async fn any_method_is_sent_and_its_result_printed_as_it_came() {
    let server = Server::start(shop).await;
    let params = r#"{"n": 1.0, "big": 123456789012345678901234567890}"#;
    let output = run(&["raw", &server.url, "big", params], &[], "").await;
    let shown = "{\"n\": 123456789012345678901234567890, \"f\": 1.0}\n";
    assert_eq!(parts(&output), (Some(0), shown, ""));
    let request = server.requests().into_iter().find(|r| r.what() == "big").unwrap();
    assert!(request.text().contains(&format!("\"params\":{params}")), "{}", request.text());
    let output = run(&["raw", &server.url, "other", "-"], &[], "[1, 2]").await;
    assert_eq!(parts(&output), (Some(0), "{\"did\":\"other\"}\n", ""));
}

#[tokio::test]
async fn an_error_of_the_server_is_told_in_full() {
    let server = Server::start(shop).await;
    let output = run(&["raw", &server.url, "refuse"], &[], "").await;
    let said = "error: the server answered: No[2J way (-32050) {\"why\":\"x\"}\n";
    assert_eq!(parts(&output), (Some(1), "", said));
    let output = run(&["raw", &server.url, "refuse", "--json"], &[], "").await;
    let json: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(json["error"]["code"], -32050);
    assert_eq!(json["error"]["kind"], "json-rpc");
    assert_eq!(json["error"]["data"]["why"], "x");
}

#[tokio::test]
async fn a_notification_has_no_answer() {
    let server = Server::start(shop).await;
    let output =
        run(&["raw", &server.url, "notifications/x", "{\"a\":1}", "--notify"], &[], "").await;
    assert_eq!(parts(&output), (Some(0), "", ""));
    let sent = server.requests().into_iter().find(|r| r.what() == "notifications/x").unwrap();
    assert_eq!(sent.text(), r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"a":1}}"#);
}

#[tokio::test]
async fn what_is_no_json_is_not_sent() {
    let server = Server::start(shop).await;
    for params in ["{", "5", "\"x\"", "{} {}"] {
        let output = run(&["raw", &server.url, "a", params], &[], "").await;
        assert_eq!(output.status.code(), Some(2), "{params}");
    }
    let output = run(&["raw", &server.url], &[], "").await;
    assert_eq!(output.status.code(), Some(2));
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn a_text_is_printed_as_it_is_and_bytes_become_a_file() {
    let server = Server::start(shop).await;
    let output = run(&["read", &server.url, "note://1"], &[], "").await;
    assert_eq!(parts(&output), (Some(0), "no\u{1b}te", ""), "stdout is no terminal");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let output = run(&["read", &server.url, "file:///a/logo.png", "--out", out], &[], "").await;
    let path = folder.path().join("logo-1.png");
    let shown = format!("{} (image/png, 8 bytes)\n", path.display());
    assert_eq!(parts(&output), (Some(0), &*shown, ""));
    assert_eq!(std::fs::read(path).unwrap(), b"\x89PNG\r\n\x1a\n");
    for line in [&["--out", "-"][..], &[]] {
        let args = [&["read", &server.url, "file:///a/logo.png"], line].concat();
        let output = run(&args, &[], "").await;
        assert_eq!(output.stdout, b"\x89PNG\r\n\x1a\n", "stdout is no terminal");
    }
    let output = run(&["read", &server.url, "note://1", "--json"], &[], "").await;
    let shown = "{\"contents\":[{\"uri\":\"note://1\",\"text\":\"no\\u001bte\"}]}\n";
    assert_eq!(parts(&output), (Some(0), shown, ""));
}

#[tokio::test]
async fn one_resource_becomes_the_file_that_was_asked_for() {
    let server = Server::start(shop).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.bin");
    let out = file.to_str().unwrap();
    for (uri, about, bytes) in [
        ("file:///a/logo.png", "image/png, 8 bytes", &b"\x89PNG\r\n\x1a\n"[..]),
        ("note://1", "data, 5 bytes", b"no\x1bte"),
    ] {
        let output = run(&["read", &server.url, uri, "--out", out], &[], "").await;
        assert_eq!(parts(&output), (Some(0), &*format!("{out} ({about})\n"), ""));
        assert_eq!(std::fs::read(&file).unwrap(), bytes);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_prompt_is_filled_in_and_shown_with_its_roles() {
    let server = Server::start(shop).await;
    let output = run(&["prompt", &server.url, "greet", "who=7"], &[], "").await;
    assert_eq!(parts(&output), (Some(0), "user:\n7\n\nassistant:\nHello.\n", ""));
    let sent = server.requests().into_iter().find(|r| r.what() == "prompts/get").unwrap();
    assert_eq!(sent.json()["params"]["arguments"], serde_json::json!({"who": "7"}));
    let output = run(&["prompt", &server.url, "greet", "hows=x"], &[], "").await;
    let said = "\
error: the arguments do not fit the prompt 'greet':
  who: missing
  hows: unknown; did you mean 'how'?
hint: 'mcp-span prompts <URL> greet' shows what it takes
";
    assert_eq!(parts(&output), (Some(2), "", said));
}

#[tokio::test]
async fn the_target_may_stand_in_the_environment() {
    let server = Server::start(shop).await;
    let env = [("MCP_SPAN_URL", &*server.url)];
    let output = run(&["prompts", "--json"], &env, "").await;
    assert!(parts(&output).1.starts_with("{\"prompts\":["), "{output:?}");
    // A program that is named beats it.
    let program = env!("CARGO_BIN_EXE_mcp-span");
    let output = run(&["prompts", "--json", "--", program, "demo"], &env, "").await;
    assert_eq!(parts(&output), (Some(0), "{\"prompts\":[]}\n", ""));
}
