//! `mcp-span call`: what is sent, what is not, what is shown, and how it ends.

use std::process::Output;

use crate::support::shop::shop;
use crate::support::{Bridge, Gate, Reply, Request, Server, result, run};

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-span");

fn parts(output: &Output) -> (Option<i32>, &str, &str) {
    let text = |bytes| std::str::from_utf8(bytes).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// The body of the only call that the server got.
fn sent(server: &Server) -> String {
    let calls: Vec<Request> =
        server.requests().into_iter().filter(|r| r.what() == "tools/call").collect();
    assert_eq!(calls.len(), 1);
    calls[0].text().to_owned()
}

#[tokio::test]
async fn pairs_become_what_the_schema_wants_and_numbers_stay() {
    let server = Server::start(shop).await;
    let words = ["what=5", "count=123456789012345678901234567890", "tags=a", "tags=2"];
    let args = [&["call", &server.url, "order"], &words[..], &["to.street=7"]].concat();
    let output = run(&args, &[], "").await;
    assert_eq!(parts(&output), (Some(0), "ordered\n", ""));
    let arguments = r#""arguments":{"what":"5","count":123456789012345678901234567890,"tags":["a","2"],"to":{"street":"7"}}"#;
    assert!(sent(&server).contains(arguments), "{}", sent(&server));
}

#[tokio::test]
async fn the_server_may_stand_in_a_variable() {
    let server = Server::start(shop).await;
    let env = [("MCP_SPAN_URL", &*server.url)];
    let output = run(&["call", "order", "what=5", "count=1"], &env, "").await;
    assert_eq!(parts(&output), (Some(0), "ordered\n", ""));
    let output = run(&["tools", "draw"], &env, "").await;
    assert_eq!(parts(&output).0, Some(0));
    // What was typed beats it.
    let env = [("MCP_SPAN_URL", "http://127.0.0.1:1/")];
    let output = run(&["tools", &server.url, "draw"], &env, "").await;
    assert_eq!(parts(&output).0, Some(0));
}

#[tokio::test]
async fn json_is_taken_from_the_line_from_stdin_and_from_a_file() {
    let json = "{\"what\": \"x\",\n \"count\": 1.0}";
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), json).unwrap();
    let named = format!("@{}", file.path().display());
    for word in [json, "-", &named] {
        let server = Server::start(shop).await;
        let output = run(&["call", &server.url, "order", word, "--json"], &[], json).await;
        let shown = r#"{"content":[{"type":"text","text":"ordered"}],"structuredContent":{"id":123456789012345678901234567890}}"#;
        assert_eq!(parts(&output), (Some(0), &*format!("{shown}\n"), ""), "{word}");
        assert!(sent(&server).contains(json), "{}", sent(&server));
    }
    // A line is a message to a program.
    let output =
        run(&["call", "echo", "-", "--", PROGRAM, "demo"], &[], "{\n\"text\":\n\"a\"}").await;
    assert_eq!(parts(&output), (Some(0), "a\n", ""));
}

#[tokio::test]
async fn what_does_not_fit_is_not_sent() {
    let server = Server::start(shop).await;
    let output = run(&["call", &server.url, "order", "count=0", "sise=l", "size=x"], &[], "").await;
    let said = "\
error: the arguments do not fit the tool 'order':
  what: missing
  sise: unknown; did you mean 'size'?
  size: expected one of \"s\", \"m\", \"l\", got \"x\"
hint: 'mcp-span tools <URL> order' shows what it takes; --no-check sends it all the same
";
    assert_eq!(parts(&output), (Some(2), "", said));
    let output = run(&["call", &server.url, "ordre"], &[], "").await;
    assert_eq!(output.status.code(), Some(2));
    let output = run(&["call", &server.url, "order", "nonsense"], &[], "").await;
    assert!(parts(&output).2.contains("key=value"), "{output:?}");
    assert_eq!(output.status.code(), Some(2));
    assert!(!server.asked().contains(&"tools/call".to_owned()));
    let output = run(&["call", &server.url, "order", "count=0", "--no-check"], &[], "").await;
    assert_eq!(output.status.code(), Some(0));
    assert!(sent(&server).contains(r#""arguments":{"count":0}"#));
}

#[tokio::test]
async fn failures_of_the_tool_and_of_the_server_have_exit_code_one() {
    let server = Server::start(shop).await;
    let output = run(&["call", &server.url, "fail"], &[], "").await;
    assert_eq!(
        parts(&output),
        (Some(1), "it broke\n", "error: the tool 'fail' reported a failure\n")
    );
    let output = run(&["call", &server.url, "fail", "--json"], &[], "").await;
    assert_eq!(output.status.code(), Some(1));
    assert!(parts(&output).1.contains("\"isError\":true"));
    let output = run(&["call", "echo", "{}", "--no-check", "--", PROGRAM, "demo"], &[], "").await;
    let said = "error: the server answered: echo wants a string 'text' (-32602)\n";
    assert_eq!(parts(&output), (Some(1), "", said));
}

#[tokio::test]
async fn pictures_become_files_that_replace_nothing() {
    let server = Server::start(shop).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("draw-1.png"), "mine").unwrap();
    let out = folder.path().to_str().unwrap();
    let output = run(&["call", &server.url, "draw", "--out", out], &[], "").await;
    let path = folder.path().join("draw-2.png");
    let shown = format!("{} (image/png, 8 bytes)\n→ note://1  note\n", path.display());
    assert_eq!(parts(&output), (Some(0), &*shown, ""));
    assert_eq!(std::fs::read(path).unwrap(), b"\x89PNG\r\n\x1a\n");
    assert_eq!(std::fs::read(folder.path().join("draw-1.png")).unwrap(), b"mine");
}

#[tokio::test]
async fn pictures_become_the_file_that_was_asked_for_or_none() {
    let server = Server::start(shop).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("picture.png");
    std::fs::write(&file, "an older and longer picture").unwrap();
    let out = file.to_str().unwrap();
    let output = run(&["call", &server.url, "draw", "--out", out], &[], "").await;
    let shown = format!("{out} (image/png, 8 bytes)\n→ note://1  note\n");
    assert_eq!(parts(&output), (Some(0), &*shown, ""));
    assert_eq!(std::fs::read(&file).unwrap(), b"\x89PNG\r\n\x1a\n");
    // Nobody has asked for a file.
    let mut command = crate::support::process::command(&["call", &server.url, "draw"]);
    command.current_dir(folder.path()).stdin(std::process::Stdio::null());
    let output = command.output().await.unwrap();
    let shown = "[image/png, 8 bytes; use --out FILE or DIR to save it]\n→ note://1  note\n";
    assert_eq!(parts(&output), (Some(0), shown, ""));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    // All is text.
    let none = folder.path().join("none.png");
    let out = none.to_str().unwrap();
    let args = ["call", &server.url, "order", "what=x", "count=1", "--out", out];
    let output = run(&args, &[], "").await;
    let said = format!("warning: {out} was not written: all is text\n");
    assert_eq!(parts(&output), (Some(0), "ordered\n", &*said));
    assert!(!none.exists());
}

#[tokio::test]
async fn arguments_that_the_schema_does_not_have_are_sent_with_a_warning() {
    let line = ["call", "add", "a=1", "b=2", "bb=3", "--", PROGRAM, "demo"];
    let output = run(&line, &[], "").await;
    let said = "warning: unknown argument 'bb'; did you mean 'b'?\n";
    assert_eq!(parts(&output), (Some(0), "3\n", said));
    for quiet in ["--quiet", "--json", "--no-check"] {
        let output = run(&[&line[..1], &[quiet], &line[1..]].concat(), &[], "").await;
        assert_eq!((parts(&output).0, parts(&output).2), (Some(0), ""), "{quiet}");
    }
}

#[tokio::test]
async fn nothing_is_offered_that_nobody_can_answer() {
    let server = Server::start(shop).await;
    run(&["call", &server.url, "fail"], &[], "").await;
    let folder = tempfile::tempdir().unwrap();
    let mut command = crate::support::process::command(&["call", &server.url, "fail", "--roots"]);
    command.current_dir(folder.path()).stdin(std::process::Stdio::null());
    command.output().await.unwrap();
    let offers: Vec<_> =
        server.requests().into_iter().filter(|r| r.what() == "initialize").collect();
    assert_eq!(offers[0].json()["params"]["capabilities"], serde_json::json!({}));
    assert_eq!(offers[1].json()["params"]["capabilities"], serde_json::json!({"roots": {}}));
}

#[tokio::test]
async fn the_working_directory_is_told_if_it_was_allowed() {
    let gate = Gate::new();
    let (open, held) = (gate.clone(), gate.clone());
    let asks = move |r: &Request| {
        if r.text().contains("\"roots\":[") {
            open.open();
        }
        match &*r.what() {
            "tools/call" => Reply::sse()
                .event(r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#)
                .wait(&held)
                .event(result(r.id(), r#"{"content":[{"type":"text","text":"seen"}]}"#))
                .end(),
            _ => shop(r),
        }
    };
    let server = Server::start(asks).await;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let mut command = crate::support::process::command(&["call", &server.url, "fail", "--roots"]);
    command.current_dir(&folder).stdin(std::process::Stdio::null());
    let output = crate::support::soon("the end", command.output()).await.unwrap();
    assert_eq!(parts(&output), (Some(0), "seen\n", ""));
    let answer = server.requests().into_iter().find(|r| r.text().contains("\"roots\":[")).unwrap();
    let uri = format!("file://{}", folder.display());
    assert_eq!(answer.json()["result"]["roots"][0]["uri"], uri);
}

#[tokio::test]
async fn the_servers_log_is_told_to_those_who_ask_for_it() {
    let logs = |r: &Request| {
        match &*r.what() {
        "tools/call" => Reply::sse()
            .event(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"db","data":"wo\u001brk"}}"#)
            .event(format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{},"progress":1,"total":2}}}}"#, r.json()["params"]["_meta"]["progressToken"]))
            .event(result(r.id(), r#"{"content":[]}"#))
            .end(),
        _ => shop(r),
    }
    };
    let server = Server::start(logs).await;
    let output = run(&["call", &server.url, "fail", "-v"], &[], "").await;
    let (code, stdout, stderr) = parts(&output);
    assert_eq!((code, stdout), (Some(0), ""), "{stderr}");
    assert!(stderr.contains("server info db: work\n"), "{stderr}");
    assert!(stderr.contains("██████████░░░░░░░░░░  50%\n"), "{stderr}");
    assert!(server.asked().contains(&"logging/setLevel".to_owned()));
    let output = run(&["call", &server.url, "fail"], &[], "").await;
    assert_eq!(parts(&output), (Some(0), "", ""));
}

#[cfg(unix)]
#[tokio::test]
async fn an_interrupted_call_is_cancelled_at_the_server() {
    let hangs = |r: &Request| match &*r.what() {
        "tools/call" => Reply::sse().hang(),
        _ => shop(r),
    };
    let server = Server::start(hangs).await;
    let mut call = Bridge::start(&["call", &server.url, "fail"]);
    server.saw("tools/call").await;
    call.signal("INT");
    assert_eq!(call.exit().await.code(), Some(130));
    let asked = server.asked();
    assert!(asked.contains(&"notifications/cancelled".to_owned()), "{asked:?}");
    assert_eq!(asked.last().unwrap(), "DELETE", "{asked:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn an_interrupt_leaves_no_process_behind() {
    // It never answers, and ignores that its stdin ends.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let script = format!("echo $$ > '{}'; while :; do sleep 0.05; done", file.display());
    let mut call = Bridge::start(&["tools", "--", "sh", "-c", &script]);
    let pid = loop {
        match std::fs::read_to_string(&file) {
            Ok(pid) if pid.ends_with('\n') => break pid,
            _ => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
        }
    };
    call.signal("INT");
    assert_eq!(call.exit().await.code(), Some(130));
    let alive = std::process::Command::new("kill").args(["-0", pid.trim()]).output().unwrap();
    assert!(!alive.status.success(), "{pid} is still there");
}
