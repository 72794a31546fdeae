//! Traces: cuts of streams, names of tools, and retries in one line each.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Bridge, INITIALIZE, Reply, Server, polite, request, result, run, soon};

/// A place for a trace.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("trace.jsonl")
    }

    fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }

    fn recoveries(&self, what: &str) -> Vec<Value> {
        let lines = self.lines().into_iter();
        lines.map(|line| line["data"].clone()).filter(|data| data["what"] == *what).collect()
    }

    /// Waits until `text` is in it so many times.
    async fn saw(&self, text: &str, times: usize) {
        let count =
            || std::fs::read_to_string(self.path()).map_or(0, |all| all.matches(text).count());
        let waiting = async {
            while count() < times {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        soon(text, waiting).await;
    }

    /// What the program tells of it.
    async fn told(&self) -> String {
        let path = self.path();
        let output = run(&["trace", path.to_str().unwrap()], &[], "").await;
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

#[tokio::test]
async fn a_cut_and_its_resumption_are_events_with_the_last_one_that_came() {
    let server = Server::start(|r| match (&*r.what(), r.header("last-event-id")) {
        ("tools/call", _) => Reply::sse()
            .chunk("id: 17\nretry: 30\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"one\"}\n\n")
            .reset(),
        ("GET", Some("17")) => Reply::sse().event(result(5, "{}")).end(),
        _ => polite(r),
    })
    .await;
    let place = Place::new();
    let path = place.path();
    let mut bridge = Bridge::ready(&[&server.url, "--trace-file", path.to_str().unwrap()]).await;
    bridge.send(request(5, "tools/call")).await;
    bridge.answer(5).await;
    bridge.finish().await;
    let cuts = place.recoveries("stream-cut");
    assert_eq!(cuts.len(), 1, "{cuts:?}");
    assert_eq!(cuts[0]["after"], "17");
    assert!(cuts[0]["why"].is_string(), "{cuts:?}");
    assert_eq!(place.recoveries("stream-resumed").len(), 1);
    let told = place.told().await;
    assert!(told.contains("** a stream was cut after event 17: "), "{told}");
    assert!(told.contains("** a cut stream was resumed"), "{told}");
}

#[tokio::test]
async fn the_servers_own_stream_is_told_of_when_it_is_cut() {
    let server = Server::start(|r| match (&*r.what(), r.header("last-event-id")) {
        ("GET", None) => Reply::sse()
            .chunk("id: 4\nretry: 10\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n\n")
            .end(),
        ("GET", Some(_)) => Reply::sse().hang(),
        _ => polite(r),
    })
    .await;
    let place = Place::new();
    let path = place.path();
    let bridge = Bridge::ready(&[&server.url, "--trace-file", path.to_str().unwrap()]).await;
    place.saw("stream-reopened", 1).await;
    bridge.finish().await;
    assert_eq!(place.recoveries("stream-cut")[0]["after"], "4");
}

#[tokio::test]
async fn lines_of_calls_name_the_tool_the_prompt_or_the_resource() {
    let server = Server::start(polite).await;
    let place = Place::new();
    let path = place.path();
    let args = [&*server.url, "--no-server-stream", "--trace-file", path.to_str().unwrap()];
    let mut bridge = Bridge::ready(&args).await;
    let large = "x".repeat(100_000);
    let ask = |id, method, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}}}}}"#)
    };
    bridge.ask(ask(1, "tools/call", r#""name":"add","arguments":{"name":"no"}"#)).await;
    bridge.ask(ask(2, "prompts/get", r#""name":"greeting""#)).await;
    bridge.ask(ask(3, "resources/read", r#""uri":"file:///x""#)).await;
    bridge.ask(ask(4, "tools/call", &format!(r#""arguments":"{large}","name":"big""#))).await;
    bridge.finish().await;
    let names = |kind: &str| -> Vec<String> {
        let lines = place.lines().into_iter().filter(|line| line["type"] == *kind);
        lines.filter_map(|line| Some(line["data"]["name"].as_str()?.to_owned())).collect()
    };
    for kind in ["HTTP_REQ", "HTTP_RES"] {
        assert_eq!(names(kind), ["add", "greeting", "file:///x", "big"]);
    }
    assert_eq!(names("STDIN"), ["big"], "a message that is too large to be kept");
    let told = place.told().await;
    for part in [
        "  tools/call add #1\n",
        "tools/call add #1, ",
        " to tools/call add #1, after",
        "answer to tools/call add #1",
        "prompts/get greeting #2",
        "resources/read file:///x #3",
        "tools/call big #4",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[tokio::test]
async fn a_retry_in_vain_is_one_line_and_the_one_that_succeeds_is_told_in_full() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let url = format!("http://{address}/mcp");
    let place = Place::new();
    let path = place.path();
    let args = [&*url, "--no-server-stream", "--trace-file", path.to_str().unwrap()];
    let mut bridge = Bridge::start(&args);
    bridge.send(INITIALIZE).await;
    place.saw(r#""what":"retry""#, 3).await;
    let server = Server::start_at(address, polite).await;
    assert_eq!(bridge.receive().await["id"], "init");
    bridge.finish().await;
    server.stop().await;
    let lines = place.lines();
    let at = |what: &str| {
        let is = |line: &Value| line["type"] == *what || line["data"]["what"] == *what;
        lines.iter().position(is).unwrap_or_else(|| panic!("{what}: {lines:?}"))
    };
    let between = &lines[at("server-away") + 1..at("server-back")];
    let retries = place.recoveries("retry");
    for (n, retry) in retries.iter().enumerate() {
        assert_eq!(retry["number"], n + 1, "{retries:?}");
        assert_eq!((&retry["id"], &retry["rpcMethod"]), (&"init".into(), &"initialize".into()));
        assert!(retry["why"].as_str().unwrap().contains("refused"), "{retry}");
    }
    // The last try has reached the server: its connection and its exchange are those of any other.
    let others: Vec<&Value> =
        between.iter().filter(|line| line["data"]["what"] != "retry").collect();
    assert_eq!(between.len() - others.len(), retries.len(), "{between:?}");
    let kinds: Vec<&str> = others.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["CONNECTION", "HTTP_REQ", "HTTP_RES"], "{between:?}");
    let told = place.told().await;
    assert!(told.contains("** retry 1 of initialize #\"init\": "), "{told}");
    assert_eq!(told.matches("no connection to").count(), 1, "only the first try: {told}");
}

#[tokio::test]
async fn tries_of_the_stream_are_one_line_each_counted_without_gaps_and_no_requests_own() {
    let server = Server::start(|r| match &*r.what() {
        "GET" => Reply::sse().hang(),
        _ => polite(r),
    })
    .await;
    let place = Place::new();
    let path = place.path();
    let path = path.to_str().unwrap();
    let args = [&*server.url, "--away-wait", "1", "--trace-file", path];
    let mut bridge = Bridge::ready(&args).await;
    server.saw("GET").await;
    server.stop().await;
    // Before the client has said anything.
    place.saw(r#""what":"retry""#, 2).await;
    assert!(bridge.ask(request(3, "tools/call")).await["error"].is_object());
    assert!(bridge.ask(request(4, "tools/call")).await["error"].is_object());
    bridge.finish().await;
    let retries = place.recoveries("retry");
    let numbers = |is_it: &dyn Fn(&Value) -> bool| -> Vec<u64> {
        let mine = retries.iter().filter(|retry| is_it(retry));
        mine.map(|retry| retry["number"].as_u64().unwrap()).collect()
    };
    let of_stream = numbers(&|retry| retry["method"] == "GET");
    assert!(of_stream.len() >= 2, "{retries:?}");
    assert_eq!(of_stream, (1..=of_stream.len() as u64).collect::<Vec<_>>(), "{retries:?}");
    let of_first = numbers(&|retry| retry["id"] == 3);
    assert_eq!(of_first, (1..=of_first.len() as u64).collect::<Vec<_>>(), "{retries:?}");
    let of_second = numbers(&|retry| retry["id"] == 4);
    assert_eq!(of_second, (0..of_second.len() as u64).collect::<Vec<_>>(), "{retries:?}");
    // The first try of the stream, and the first of the first request, are told in full.
    let told = place.told().await;
    assert_eq!(told.matches("no connection to").count(), 2, "{told}");
    let output = run(&["trace", path, "--id", "3"], &[], "").await;
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("of tools/call #3") && !told.contains("GET"), "{told}");
}

#[tokio::test]
async fn an_id_that_is_not_in_the_trace_is_an_error_that_says_so() {
    let server = Server::start(polite).await;
    let place = Place::new();
    let path = place.path();
    let path = path.to_str().unwrap();
    let mut bridge = Bridge::ready(&[&server.url, "--trace-file", path]).await;
    bridge.ask(request(3, "tools/list")).await;
    bridge.finish().await;
    for (args, code) in [
        (["--id", "99"], 2),
        (["--method", "tools/lst"], 2),
        (["--id", "3"], 0),
        (["--method", "tools/list"], 0),
    ] {
        let output = run(&[&["trace", path], &args[..]].concat(), &[], "").await;
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
        assert_eq!(output.stdout.is_empty(), code == 2, "{args:?}");
        let sentence = format!("has no line about {}\n", args.join(" "));
        assert_eq!(stderr.contains(&sentence), code == 2, "{stderr}");
    }
}
