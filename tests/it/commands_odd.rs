//! What servers send that no tree of JSON can hold, or that fits no form: nothing of it is lost.

use std::process::Output;

use crate::support::shop::shop;
use crate::support::{Reply, Request, Server, result, run};

fn parts(output: &Output) -> (Option<i32>, &str, &str) {
    let text = |bytes| std::str::from_utf8(bytes).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// The shop, with another answer to one method.
async fn odd(method: &'static str, answer: &str) -> Server {
    let answer = answer.to_owned();
    Server::start(move |r: &Request| match r.what() == method {
        true => Reply::json(result(r.id(), &answer)),
        false => shop(r),
    })
    .await
}

#[tokio::test]
async fn a_failure_of_a_tool_is_seen_whatever_else_it_sends() {
    let said = "error: the tool 'fail' reported a failure\n";
    let deep = "[".repeat(300) + &"]".repeat(300);
    for (content, extra, shown) in [
        (r"cut \ud83d", "1", "cut \u{fffd}\n"),
        ("hello", "1e999", "hello\n"),
        ("hello", &*deep, "hello\n"),
    ] {
        let content = format!(r#"[{{"type":"text","text":"{content}"}}]"#);
        let answer =
            format!(r#"{{"content":{content},"isError":true,"structuredContent":{extra}}}"#);
        let server = odd("tools/call", &answer).await;
        let output = run(&["call", &server.url, "fail"], &[], "").await;
        assert_eq!(parts(&output), (Some(1), shown, said), "{answer}");
    }
}

#[tokio::test]
async fn half_a_letter_does_not_take_the_rest_with_it() {
    let answer = r#"{"contents":[{"uri":"a://b","text":"cut \ud83d"}]}"#;
    let server = odd("resources/read", answer).await;
    let output = run(&["read", &server.url, "a://b"], &[], "").await;
    assert_eq!(parts(&output), (Some(0), "cut \u{fffd}", ""));
    let answer = r#"{"messages":[{"role":"user","content":[{"type":"text","text":"\ud83d"},{"type":"text","text":"B"}]}]}"#;
    let server = odd("prompts/get", answer).await;
    let output = run(&["prompt", &server.url, "greet", "who=x"], &[], "").await;
    assert_eq!(parts(&output), (Some(0), "user:\n\u{fffd}\nB\n", ""));
    let answer = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"\ud83d","version":"1"}}"#;
    let server = odd("initialize", answer).await;
    let output = run(&["call", &server.url, "order", "what=x", "count=1"], &[], "").await;
    assert_eq!(parts(&output), (Some(0), "ordered\n", ""));
}

#[tokio::test]
async fn an_answer_without_contents_is_not_passed_over_in_silence() {
    let server = odd("resources/read", r#"{"contents":[]}"#).await;
    let output = run(&["read", &server.url, "a://b"], &[], "").await;
    let said = "warning: the resource is empty: the server has sent no contents\n";
    assert_eq!(parts(&output), (Some(0), "", said));
    let server = odd("resources/read", r#"{"other":1}"#).await;
    let output = run(&["read", &server.url, "a://b"], &[], "").await;
    let said = "error: the server's answer has no 'contents'; this is what it sent\n";
    assert_eq!(parts(&output), (Some(1), "{\n  \"other\": 1\n}\n", said));
}

#[tokio::test]
async fn a_place_that_takes_no_files_is_refused_before_anything_is_called() {
    let server = Server::start(shop).await;
    let folder = tempfile::tempdir().unwrap();
    let out = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(out("file"), "").unwrap();
    for out in [out("file/"), out("none/file"), "/dev/null".to_owned()] {
        for words in [["call", "draw"], ["read", "file:///logo.png"]] {
            let output = run(&[words[0], &server.url, words[1], "--out", &out], &[], "").await;
            assert_eq!(output.status.code(), Some(2));
            assert!(parts(&output).2.contains("cannot write there"), "{output:?}");
        }
    }
    assert_eq!(server.requests().len(), 0);
    // A folder that is not there is made.
    let new = out("a/b/");
    let output = run(&["call", &server.url, "draw", "--out", &new], &[], "").await;
    assert_eq!(output.status.code(), Some(0));
    let names: Vec<_> = std::fs::read_dir(new).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert_eq!(names, ["draw-1.png"]);
}

#[tokio::test]
async fn what_cannot_be_written_does_not_hide_the_rest() {
    let answer = r#"{"content":[{"type":"text","text":"important"},
        {"type":"image","data":"aGk=","mimeType":"image/png"},{"type":"text","text":"too"}]}"#;
    let folder = tempfile::tempdir().unwrap();
    let gone = folder.path().join("gone");
    std::fs::create_dir(&gone).unwrap();
    let (answer, going) = (answer.to_owned(), gone.clone());
    let server = Server::start(move |r: &Request| match &*r.what() {
        "tools/call" => {
            // A folder that is not there any more takes no files, even of root.
            std::fs::remove_dir(&going).unwrap();
            Reply::json(result(r.id(), &answer))
        }
        _ => shop(r),
    })
    .await;
    let out = gone.to_str().unwrap();
    let output = run(&["call", &server.url, "draw", "--out", out], &[], "").await;
    let (code, shown, said) = parts(&output);
    assert_eq!(shown, "important\n(image/png, 2 bytes, that could not be written)\ntoo\n");
    assert!(said.starts_with("error: cannot write") && said.contains("draw-1.png"), "{said}");
    assert_eq!(code, Some(1));
}

#[tokio::test]
async fn resources_are_listed_though_their_patterns_are_not() {
    let server = Server::start(|r: &Request| match &*r.what() {
        "resources/templates/list" => Reply::json(format!(
            r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32000,"message":"Not yet"}}}}"#,
            r.id()
        )),
        _ => shop(r),
    })
    .await;
    let output = run(&["resources", &server.url], &[], "").await;
    let (code, shown, said) = parts(&output);
    assert!(shown.contains("note://1"), "{shown}");
    assert_eq!(said, "warning: the server did not list its patterns: Not yet (-32000)\n");
    assert_eq!(code, Some(0));
}

#[tokio::test]
async fn unchecked_calls_need_no_list_of_tools() {
    let server = Server::start(|r: &Request| match &*r.what() {
        "tools/list" => Reply::json(format!(
            r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32603,"message":"boom"}}}}"#,
            r.id()
        )),
        _ => shop(r),
    })
    .await;
    let output = run(&["call", &server.url, "order", "what=x", "--no-check"], &[], "").await;
    assert_eq!(parts(&output), (Some(0), "ordered\n", ""));
    let output = run(&["call", &server.url, "order", "what=x"], &[], "").await;
    assert_eq!(output.status.code(), Some(1));
}

#[tokio::test]
async fn a_secret_that_the_server_repeats_is_not_shown() {
    let server = Server::start(|r: &Request| match &*r.what() {
        "tools/list" => Reply::json(format!(
            r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32603,"message":"who is hunter2-hunter2?","data":{{"x":"hunter2-hunter2"}}}}}}"#,
            r.id()
        )),
        _ => shop(r),
    })
    .await;
    for json in [&["--json"][..], &[]] {
        let args = [&["tools", &server.url, "--header", "X-Me: hunter2-hunter2"], json].concat();
        let output = run(&args, &[], "").await;
        let (code, shown, said) = parts(&output);
        assert_eq!((code, shown), (Some(1), ""));
        assert!(said.contains("who is") && !said.contains("hunter2"), "{said}");
    }
}

#[tokio::test]
async fn after_a_call_that_broke_a_person_knows_that_it_may_have_been_carried_out() {
    let server = Server::start(|r: &Request| match &*r.what() {
        "tools/call" => Reply::status(500, "text/plain", "boom"),
        _ => shop(r),
    })
    .await;
    let output = run(&["call", &server.url, "fail"], &[], "").await;
    let (code, _, said) = parts(&output);
    assert_eq!(code, Some(3));
    assert!(said.contains("try it again later, or look into its log"), "{said}");
    assert!(said.contains("may have been carried out"), "{said}");
}

#[tokio::test]
async fn wrong_usage_is_json_as_well_for_who_has_asked_for_it() {
    let lines: [&[&str]; 5] = [
        &["tools", "nosuchname", "--json"],
        &["call", "--json", "http://127.0.0.1:1/mcp", "x", "--no-such-flag"],
        &["check", "--json", "nosuchname"],
        &["install", "nobody", "http://127.0.0.1:1/mcp", "--json"],
        &["read", "--json", "ftp://h/"],
    ];
    for line in lines {
        let output = run(line, &[], "").await;
        let (code, shown, said) = parts(&output);
        assert_eq!((code, shown), (Some(2), ""), "{line:?}");
        let told: serde_json::Value = serde_json::from_str(said).expect(said);
        assert_eq!(told["error"]["kind"], "usage", "{line:?}");
        assert!(told["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{said}");
    }
}

#[tokio::test]
async fn a_program_finds_nothing_but_json_on_stderr_unless_it_asks_for_a_log() {
    let script = r#"echo '{"junk": 1}'; exit 3"#;
    let log = |level: &'static [&str]| {
        let words = [&["tools", "--json"], level, &["--", "sh", "-c", script]].concat();
        async move { run(&words, &[], "").await }
    };
    let output = log(&[]).await;
    let error: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!((output.status.code(), &error["error"]["kind"]), (Some(3), &"closed".into()));
    let output = log(&["--log-level", "warn"]).await;
    assert!(String::from_utf8(output.stderr).unwrap().contains("WARN a line was skipped"));
}
