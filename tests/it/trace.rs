//! Traces: everything that crosses, in order, without credentials, within bounds; and told again.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use crate::support::shop::shop;
use crate::support::{Bridge, Gate, INITIALIZE, Reply, Server, polite, request, result, run, soon};

/// A place for a trace.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("trace.jsonl")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.path()).unwrap()
    }

    /// All that is in it.
    fn lines(&self) -> Vec<Value> {
        let text = self.text();
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }

    /// Waits until `text` is in it.
    async fn saw(&self, text: &str) {
        let waiting = async {
            while !std::fs::read_to_string(self.path()).is_ok_and(|all| all.contains(text)) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        soon(text, waiting).await;
    }

    /// What the program tells of it.
    async fn told(&self, args: &[&str]) -> String {
        let path = self.path();
        let output = run(&[&["trace", path.to_str().unwrap()], args].concat(), &[], "").await;
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

fn tracing<'a>(url: &'a str, path: &'a Path) -> Vec<&'a str> {
    vec![url, "--no-server-stream", "--trace-file", path.to_str().unwrap()]
}

fn types(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn every_message_and_exchange_is_written_in_order() {
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => Reply::sse()
            .event(r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#)
            .event(result(r.id(), "{ \"n\": 1.00000000000000000001 }"))
            .end(),
        _ => polite(r),
    })
    .await;
    let place = Place::new();
    let path = place.path();
    let mut bridge = Bridge::start(&tracing(&server.url, &path));
    bridge.ask(INITIALIZE).await;
    bridge.ask(request(7, "tools/call")).await;
    bridge.receive().await;
    bridge.finish().await;
    let lines = place.lines();
    let handshake = ["STDIN", "HTTP_REQ", "CONNECTION", "HTTP_RES", "HTTP_BODY", "STDOUT"];
    let call = ["STDIN", "HTTP_REQ", "HTTP_RES", "SSE_CHUNK", "SSE_CHUNK", "STDOUT", "STDOUT"];
    let mut seen = types(&lines);
    assert_eq!(seen.remove(0), "START");
    assert_eq!(seen[..6], handshake);
    let mut rest = seen.split_off(6);
    // A stream's events may be written while more of them are read.
    rest[3..7].sort_unstable();
    assert_eq!(rest[..7], call, "{rest:?}");
    assert_eq!(rest[7..], ["HTTP_REQ", "HTTP_RES"], "the DELETE");
    let of = |kind: &str| lines.iter().rfind(|line| line["type"] == *kind).unwrap();
    assert_eq!(lines[1]["data"], serde_json::from_str::<Value>(INITIALIZE).unwrap());
    assert!(place.text().contains("{ \"n\": 1.00000000000000000001 }"), "bytes stay what they are");
    for (kind, direction) in [
        ("STDIN", "client->bridge"),
        ("HTTP_REQ", "bridge->server"),
        ("HTTP_RES", "server->bridge"),
        ("SSE_CHUNK", "server->bridge"),
        ("STDOUT", "bridge->client"),
    ] {
        assert_eq!(of(kind)["direction"], direction);
    }
    let asked = lines.iter().find(|line| line["data"]["rpcMethod"] == "tools/call").unwrap();
    assert_eq!((&asked["data"]["id"], &asked["data"]["method"]), (&7.into(), &"POST".into()));
    assert_eq!(asked["data"]["headers"]["mcp-session-id"], "s1");
    assert_eq!(asked["data"]["url"], *server.url);
    let exchange = &asked["data"]["exchange"];
    let answered =
        |line: &&Value| line["type"] == "HTTP_RES" && line["data"]["exchange"] == *exchange;
    let answered = &lines.iter().find(answered).unwrap()["data"];
    assert_eq!((&answered["id"], &answered["status"]), (&7.into(), &200.into()));
    assert!(answered["ms"].is_f64() && answered["headers"]["content-type"] == "text/event-stream");
    let times: Vec<&str> = lines.iter().map(|line| line["timestamp"].as_str().unwrap()).collect();
    assert!(times.is_sorted() && times.iter().all(|time| time.ends_with('Z')), "{times:?}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[tokio::test]
async fn the_older_transport_is_traced_and_its_session_is_not_told() {
    let (first, second) = (Gate::new(), Gate::new());
    let gates = (first.clone(), second.clone());
    let server = Server::start(move |r| match (&*r.http_method, &*r.what()) {
        ("GET", _) => Reply::sse()
            .chunk("event: endpoint\ndata: /messages?sessionId=sessionsecret99\n\n")
            .wait(&first)
            .event(result("\"init\"", r#"{"protocolVersion":"2024-11-05","capabilities":{}}"#))
            .wait(&second)
            .event(result(7, "{}"))
            .hang(),
        (_, what) => {
            match what {
                "initialize" => gates.0.open(),
                "tools/list" => gates.1.open(),
                _ => {}
            }
            Reply::accepted()
        }
    })
    .await;
    let place = Place::new();
    let path = place.path();
    let mut bridge = Bridge::start(&[
        &*server.url,
        "--transport",
        "sse",
        "--trace-file",
        path.to_str().unwrap(),
    ]);
    bridge.handshake().await;
    bridge.ask(request(7, "tools/list")).await;
    bridge.finish().await;
    let lines = place.lines();
    let seen = types(&lines);
    assert_eq!(
        seen[1..6],
        ["STDIN", "HTTP_REQ", "CONNECTION", "HTTP_RES", "SSE_CHUNK"],
        "{seen:?}"
    );
    let count = |kind: &str| seen.iter().filter(|seen| **seen == kind).count();
    assert_eq!((count("STDIN"), count("STDOUT")), (3, 2));
    assert_eq!((count("SSE_CHUNK"), count("HTTP_REQ")), (3, 4));
    assert!(!place.text().contains("sessionsecret99"), "{}", place.text());
    let told = place.told(&[]).await;
    assert!(told.contains("endpoint for messages: http://127.0.0.1"), "{told}");
}

#[cfg(unix)]
#[tokio::test]
async fn secrets_are_nowhere_in_it() {
    let server = Server::start(|r| {
        let heard = format!("{:?} {}", r.headers, r.path);
        let escaped = Value::from(heard.clone()).to_string().replace('/', "\\/");
        match &*r.what() {
            "refused" => Reply::status(403, "text/plain", heard),
            "large" => {
                let filler = "token99secret ".repeat(20_000);
                Reply::json(result(r.id(), &format!("{{\"t\":\"{filler}\"}}")))
            }
            "events" => Reply::sse().event(result(r.id(), &escaped)).end(),
            "moved" => {
                let to = "/x?token=urlsecret99";
                Reply::status(307, "", "").header("Location", &format!("http://h.invalid{to}"))
            }
            "initialize" => polite(r).header("Set-Cookie", "sid=setsecret99"),
            _ if r.json().get("id").is_none() => polite(r),
            _ => Reply::json(result(r.id(), &escaped))
                .header("X-Auth-Token", "newsecret99")
                .header("Mcp-Session-Id", "0123456789-sessionsecret99"),
        }
    })
    .await;
    let place = Place::new();
    let path = place.path();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "Cookie: sid=cookiesecret99\n").unwrap();
    let url = server.url.replace("http://", "http://user:passsecret99@")
        + "?token=urlsecret99&t=a%2Fsecret99";
    let mut args = tracing(&url, &path);
    args.extend(["--header", "X-Thing: ${THING}", "--header", "X-Api-Key: keysecret99"]);
    args.extend(["--header-file", file.path().to_str().unwrap()]);
    args.extend(["--bearer-command", "echo token99secret/+secret99=="]);
    let mut bridge = Bridge::start_with(&args, &[("THING", "thing/secret99")]);
    bridge.handshake().await;
    let methods = ["refused", "large", "events", "moved", "echo"];
    for (id, method) in methods.into_iter().enumerate() {
        let line =
            request(id, method).replace('}', r#","params":{"q":"token99secret\/+secret99=="}}"#);
        bridge.ask(line).await;
    }
    bridge.finish().await;
    let told = place.told(&[]).await;
    for text in [place.text(), told] {
        for secret in ["secret99", "token99secret/", "token99secret\\", "dXNlcjpwYXNz"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
    }
    let lines = place.lines();
    let post = lines.iter().find(|line| line["type"] == "HTTP_REQ").unwrap();
    assert_eq!(post["data"]["headers"]["authorization"], "Bearer [secret]");
    let large = lines.iter().find(|line| line["type"] == "HTTP_BODY" && line["data"]["id"] == 1);
    assert!(large.unwrap()["data"]["size"].as_u64().unwrap() > 200_000, "a large one is cut");
}

#[tokio::test]
async fn a_small_limit_keeps_both_files_within_it_and_nothing_of_the_end_is_lost() {
    let server = Server::start(polite).await;
    let place = Place::new();
    let path = place.path();
    let mut args = tracing(&server.url, &path);
    args.extend(["--trace-limit", "16K"]);
    let mut bridge = Bridge::ready(&args).await;
    for id in 0..60 {
        bridge.ask(request(id, "tools/list")).await;
    }
    bridge.finish().await;
    let older = path.with_extension("jsonl.1");
    for path in [&path, &older] {
        let size = std::fs::metadata(path).unwrap().len();
        assert!(size <= 8 * 1024, "{size}");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
    let lines = place.lines();
    assert_eq!(lines.last().unwrap()["type"], "HTTP_RES", "the DELETE's");
    let told = place.told(&[]).await;
    assert!(told.contains("answer to tools/list #59, after "), "{told}");
    let (all, new) = (told.lines().count(), lines.len());
    assert!(all > new + 10, "the older file comes first: {all} {new}");
}

#[tokio::test]
async fn without_the_flag_there_is_no_file_and_a_log_has_no_bodies_with_or_without() {
    for with_trace in [false, true] {
        let server = Server::start(|r| Reply::json(result(r.id(), "\"private answer\""))).await;
        let place = Place::new();
        let (path, log) = (place.path(), place.0.path().join("log"));
        let mut args = vec![&*server.url, "--log-file", log.to_str().unwrap()];
        if with_trace {
            args.extend(["--trace-file", path.to_str().unwrap()]);
        }
        let env = [("RUST_LOG", "trace,mcp-span traffic=trace,mcp_span=trace")];
        let mut bridge = Bridge::start_with(&args, &env);
        let question = r#"{"jsonrpc":"2.0","id":1,"method":"a","params":"private question"}"#;
        bridge.ask(question).await;
        let (_, _, stderr) = bridge.finish().await;
        assert_eq!(stderr, "");
        let log = std::fs::read_to_string(&log).unwrap();
        assert!(log.contains("client->server") && !log.contains("private"), "{log}");
        assert_eq!(path.exists(), with_trace);
        if with_trace {
            assert!(place.text().contains("private question"), "{}", place.text());
        }
    }
}

#[tokio::test]
async fn a_lost_session_an_error_and_what_was_never_answered_are_told() {
    let generation = Arc::new(AtomicUsize::new(1));
    let known = Arc::clone(&generation);
    let server = Server::start(move |r| {
        let session = format!("s{}", known.load(Ordering::SeqCst));
        match (&*r.what(), r.header("mcp-session-id")) {
            ("initialize", _) => Reply::json(result(r.id(), r#"{"protocolVersion":"2025-06-18"}"#))
                .header("Mcp-Session-Id", &session),
            (_, Some(named)) if named != session => Reply::status(404, "text/plain", "who?"),
            ("bad", _) => Reply::json(format!(
                r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32601,"message":"not here"}}}}"#,
                r.id()
            )),
            ("slow", _) => Reply::nothing().hang(),
            _ => polite(r),
        }
    })
    .await;
    let place = Place::new();
    let path = place.path();
    let mut bridge = Bridge::ready(&tracing(&server.url, &path)).await;
    bridge.ask(request(1, "tools/list")).await;
    generation.store(2, Ordering::SeqCst);
    bridge.ask(request(2, "tools/call")).await;
    bridge.ask(request(3, "bad")).await;
    bridge.send(request(9, "slow")).await;
    server.saw("slow").await;
    bridge.signal("TERM");
    bridge.exit().await;
    let recoveries: Vec<Value> = place.lines();
    let recoveries = recoveries.iter().filter(|line| line["type"] == "RECOVERY");
    let what: Vec<&str> = recoveries.map(|line| line["data"]["what"].as_str().unwrap()).collect();
    assert_eq!(what, ["session-lost", "session-opened"]);
    let told = place.told(&[]).await;
    for part in [
        "+0.0",
        "client → bridge  tools/list #1\n",
        "bridge → client  answer to tools/list #1, after ",
        "error to bad #3: -32601 not here, after ",
        "** the server has lost the session: HTTP 404: who?",
        "** a new session is open",
        "initialize (the bridge's own)",
        "no answer to slow #9, given up after ",
        "Never answered:\n  slow #9, asked at +",
        "5 requests: 3 answered, 1 with an error, 1 never answered\n",
        "Slowest: ",
        "Recoveries: session lost 1, session opened 1\n",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let by_id = place.told(&["--id", "3"]).await;
    assert!(by_id.contains("bad #3") && !by_id.contains("tools/"), "{by_id}");
    assert!(by_id.contains("1 request: 0 answered, 1 with an error\n"), "{by_id}");
    let by_method = place.told(&["--method", "tools/call"]).await;
    assert!(by_method.contains("lost the session") && !by_method.contains("bad"), "{by_method}");
}

#[tokio::test]
async fn a_server_that_is_away_and_new_credentials_are_recoveries() {
    let token = Arc::new(Mutex::new("first-token"));
    let taken = Arc::clone(&token);
    let server = Server::start(move |r| {
        let expected = format!("Bearer {}", taken.lock().unwrap());
        match r.header("authorization") == Some(&expected) {
            true => polite(r),
            false => Reply::status(401, "", ""),
        }
    })
    .await;
    let address = server.url.split('/').nth(2).unwrap().parse().unwrap();
    let place = Place::new();
    let path = place.path();
    let file = place.0.path().join("token");
    std::fs::write(&file, "first-token").unwrap();
    let mut args = tracing(&server.url, &path);
    args.extend(["--bearer-file", file.to_str().unwrap()]);
    let mut bridge = Bridge::ready(&args).await;
    *token.lock().unwrap() = "second-token";
    std::fs::write(&file, "second-token").unwrap();
    bridge.ask(request(1, "tools/list")).await;
    let url = server.url.clone();
    server.stop().await;
    bridge.send(request(2, "tools/list")).await;
    place.saw("server-away").await;
    let again = Server::start_at(address, polite).await;
    assert_eq!(again.url, url);
    assert_eq!(bridge.receive().await["id"], 2);
    bridge.finish().await;
    let lines = place.lines();
    let recoveries = lines.iter().filter(|line| line["type"] == "RECOVERY");
    let what = recoveries.map(|line| line["data"]["what"].as_str().unwrap());
    let what: Vec<&str> = what.filter(|what| *what != "retry").collect();
    assert_eq!(what, ["credentials-renewed", "server-away", "server-back"]);
    let refused = lines.iter().find(|l| l["type"] == "CONNECTION" && l["data"]["opened"] == false);
    assert!(refused.unwrap()["data"]["why"].as_str().unwrap().contains("refused"));
}

#[tokio::test]
async fn files_that_are_no_traces_are_refused_with_a_sentence() {
    let place = Place::new();
    let at = |name: &str, text: &str| {
        let path = place.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (notes, empty) = (at("notes", "dear diary\n"), at("empty", ""));
    let folder = place.0.path().to_str().unwrap();
    for (path, word) in [
        ("/no/such/file", "cannot be read"),
        (folder, "cannot be read"),
        (&*notes, "is not a trace"),
        (&*empty, "is not a trace"),
    ] {
        let output = run(&["trace", path], &[], "").await;
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{path}");
        assert!(stderr.contains(word) && output.stdout.is_empty(), "{path}: {stderr}");
    }
    let output = run(&["http://127.0.0.1:9/", "--trace-file", &notes], &[], "").await;
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "dear diary\n");
    let line = r#"{"timestamp":"2026-11-15T14:05:00Z","direction":"client->bridge","type":"STDIN","data":{"id":1,"method":"a"}}"#;
    let mixed = at("mixed", &format!("half a li\n{line}\n{{}}\n\u{0}\n"));
    let output = run(&["trace", &mixed], &[], "").await;
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("a #1") && told.contains("3 lines could not be read"), "{told}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_reader_that_has_seen_enough_is_no_error() {
    let place = Place::new();
    let line = r#"{"timestamp":"2026-11-15T14:05:00Z","direction":"client->bridge","type":"STDIN","data":{"method":"a"}}"#;
    std::fs::write(place.path(), format!("{line}\n").repeat(20_000)).unwrap();
    let program = env!("CARGO_BIN_EXE_mcp-span");
    let script = format!("'{program}' trace '{}' | head -n 1", place.path().display());
    let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 1);
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[cfg(unix)]
#[tokio::test]
async fn a_disk_that_takes_no_more_costs_one_warning() {
    let server = Server::start(polite).await;
    let place = Place::new();
    let path = place.path();
    let program = env!("CARGO_BIN_EXE_mcp-span");
    let (url, path) = (&server.url, path.display());
    let script = format!("trap '' XFSZ; ulimit -f 4; exec '{program}' {url} --trace-file '{path}'");
    let mut command = tokio::process::Command::new("sh");
    command.args(["-c", &script]).env_clear().kill_on_drop(true);
    let mut bridge = Bridge::spawn(command);
    bridge.handshake().await;
    for id in 0..50 {
        bridge.ask(request(id, "tools/list")).await;
    }
    let (_, status, stderr) = bridge.finish().await;
    assert_eq!(status.code(), Some(0));
    assert_eq!(stderr.matches("the trace ends here").count(), 1, "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[cfg(unix)]
#[tokio::test]
async fn of_two_that_write_to_one_file_the_second_does_without() {
    let server = Server::start(polite).await;
    let place = Place::new();
    let path = place.path();
    let mut first = Bridge::ready(&tracing(&server.url, &path)).await;
    let mut second = Bridge::ready(&tracing(&server.url, &path)).await;
    second.ask(request(1, "second")).await;
    first.ask(request(1, "first")).await;
    let (_, _, stderr) = second.finish().await;
    assert!(stderr.contains("another process writes to the trace file"), "{stderr}");
    first.finish().await;
    let text = place.text();
    assert!(text.contains("\"first\"") && !text.contains("\"second\""), "{text}");
    assert_eq!(types(&place.lines()).iter().filter(|t| **t == "START").count(), 1);
}

#[tokio::test]
async fn the_environment_and_the_configuration_file_can_ask_for_it_as_well() {
    let server = Server::start(polite).await;
    let place = Place::new();
    let path = place.path();
    let config = place.0.path().join("config.json");
    let text = serde_json::json!({ "traceFile": path, "traceLimit": "1M" }).to_string();
    std::fs::write(&config, text).unwrap();
    let input = request(1, "tools/list") + "\n";
    run(&[&*server.url, "--config", config.to_str().unwrap()], &[], &input).await;
    let env = [("MCP_SPAN_TRACE_FILE", path.to_str().unwrap())];
    run(&[&*server.url], &env, &input).await;
    let told = place.told(&["--method", "tools/list"]).await;
    assert!(told.contains("2 requests: 2 answered\n"), "{told}");
    let output = run(&[&*server.url, "--trace-limit", "1K"], &[], "").await;
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("at least 16K"));
}

#[tokio::test]
async fn a_visit_is_told_as_completely_as_a_bridge() {
    let server = Server::start(shop).await;
    let program = env!("CARGO_BIN_EXE_mcp-span");
    for target in [&[&*server.url][..], &["--", program, "demo"]] {
        let place = Place::new();
        let path = place.path();
        let path = path.to_str().unwrap();
        let line = [&["tools", "--trace-file", path][..], target].concat();
        let output = run(&line, &[], "").await;
        assert_eq!(output.status.code(), Some(0));
        let told = place.told(&[]).await;
        for part in ["initialize #1", "tools/list #2", "answer to tools/list #2, after "] {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert!(told.contains("requests: ") && !told.contains("0 requests"), "{told}");
        assert!(!told.contains("never answered"), "{told}");
    }
}
