//! Logs: nothing in normal use, everything on demand, secrets never.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{Bridge, Reply, Server, polite, request, result};

#[tokio::test]
async fn stderr_is_empty_in_normal_use() {
    // S2-25, S2-31
    let server = Server::start(|r| match &*r.what() {
        "GET" => Reply::sse().event(r#"{"jsonrpc":"2.0","method":"n"}"#).hang(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    bridge.receive().await;
    for id in 0..5 {
        bridge.ask(request(id, "tools/call")).await;
    }
    let (_, _, stderr) = bridge.finish().await;
    assert_eq!(stderr, "");
}

#[tokio::test]
async fn debug_lines_tell_time_direction_type_method_id_and_session() {
    // S2-29, S2-30, C16
    type Way = (&'static [&'static str], &'static [(&'static str, &'static str)]);
    let ways: [Way; 6] = [
        (&["--debug"], &[]),
        (&["-v"], &[]),
        (&["--verbose"], &[]),
        (&["--log-level", "debug"], &[]),
        (&[], &[("DEBUG", "1")]),
        (&[], &[("MCP_SPAN_LOG_LEVEL", "debug")]),
    ];
    for (args, env) in ways {
        let server = Server::start(polite).await;
        let args: Vec<&str> = [&[server.url.as_str()], args].concat();
        let mut bridge = Bridge::start_with(&args, env);
        bridge.handshake().await;
        bridge.ask(request(7, "tools/list")).await;
        let (rest, _, stderr) = bridge.finish().await;
        assert!(rest.is_empty(), "never on stdout");
        let line = stderr.lines().find(|l| l.contains("method=\"tools/list\"")).unwrap();
        let year = line.split('-').next().unwrap();
        assert!(year.len() == 4 && year.parse::<u32>().is_ok(), "a timestamp: {line}");
        for part in
            ["DEBUG", "direction=\"client->server\"", "type=\"request\"", "id=7", "session=\"s1\""]
        {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert!(stderr.contains("direction=\"server->client\" type=\"response\""), "{stderr}");
    }
}

#[tokio::test]
async fn debug_lines_mark_retries_and_tell_in_words_what_becomes_of_a_request() {
    let count = AtomicUsize::new(0);
    let server = Server::start(move |r| match &*r.what() {
        // Cut off without a word: it only looks, so it is sent once more.
        "tools/list" if count.fetch_add(1, Ordering::Relaxed) == 0 => Reply::nothing().cut(),
        "notifications/x" => Reply::json(result(99, "{}")),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "-v", "--no-server-stream"]).await;
    bridge.ask(request(7, "tools/list")).await;
    bridge.send(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#).await;
    bridge.ask(request(8, "tools/list")).await;
    let (_, _, stderr) = bridge.finish().await;
    let sent: Vec<&str> = stderr
        .lines()
        .filter(|line| line.contains("->server\"") && line.contains(" id=7 "))
        .collect();
    assert_eq!(sent.len(), 2, "{stderr}");
    assert!(sent[0].contains("\"client->server\"") && !sent[0].contains("retry"), "{stderr}");
    assert!(sent[1].contains("\"bridge->server\" retry=1 "), "{stderr}");
    assert!(stderr.contains("tools/list failed, retry 1 of 1: "), "{stderr}");
    assert!(stderr.contains("the bridge ends: the client has closed its input"), "{stderr}");
    for ours in ["Message(", "Response {", "Again", "WhenBack", "ClientClosed", "verdict="] {
        assert!(!stderr.contains(ours), "{ours}: {stderr}");
    }
}

#[tokio::test]
async fn json_lines_and_a_file_of_ones_own() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("log");
    let server = Server::start(polite).await;
    let path = file.to_str().unwrap();
    let args = [&*server.url, "--debug", "--log-format", "json", "--log-file", path];
    let mut bridge = Bridge::ready(&args).await;
    bridge.ask(request(7, "tools/list")).await;
    let (_, _, stderr) = bridge.finish().await;
    assert_eq!(stderr, "");
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let line = lines.iter().find(|line| line["method"] == "tools/list").unwrap();
    assert_eq!((&line["level"], &line["session"]), (&"DEBUG".into(), &"s1".into()));
    assert!(line["timestamp"].is_string());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[tokio::test]
async fn secrets_appear_nowhere_whatever_the_level() {
    // C16: the server echoes what it was sent; neither logs nor errors repeat it.
    let server = Server::start(|r| {
        let heard = format!("{:?} {}", r.headers, r.path);
        match &*r.what() {
            "refused" => Reply::status(403, "text/plain", heard),
            "html" => Reply::status(200, "text/html", heard),
            "broken" => Reply::json(heard),
            "notifications/refused" => Reply::status(400, "text/plain", heard),
            "moved" => {
                Reply::status(307, "", "").header("Location", "http://h.invalid/?token=urlsecret99")
            }
            _ => polite(r),
        }
    })
    .await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "Cookie: sid=cookiesecret99\n").unwrap();
    let url = server.url.replace("http://", "http://user:passsecret99@")
        + "?token=urlsecret99&t=a%2Fsecret99";
    let args = [
        &*url,
        "--log-level",
        "trace",
        "--header",
        "Authorization: Bearer ${TOKEN}",
        "--header",
        "X-Api-Key: keysecret99",
        "--header-file",
        file.path().to_str().unwrap(),
    ];
    let mut bridge =
        Bridge::start_with(&args, &[("TOKEN", "tokensecret99"), ("RUST_LOG", "trace")]);
    bridge.handshake().await;
    let mut seen = String::new();
    bridge.send(r#"{"jsonrpc":"2.0","method":"notifications/refused"}"#).await;
    for (id, method) in [(1, "refused"), (2, "html"), (3, "broken"), (4, "moved"), (5, "a")] {
        seen += &bridge.ask(request(id, method)).await.to_string();
    }
    let (rest, _, stderr) = bridge.finish().await;
    seen += &rest.concat();
    assert!(stderr.contains("notifications/refused did not reach"), "{stderr}");
    for text in [&seen, &stderr] {
        assert!(!text.contains("secret99"), "{text}");
    }
    assert!(seen.contains("[secret]"), "{seen}");
}

#[tokio::test]
async fn payloads_are_not_logged() {
    let server = Server::start(|r| Reply::json(result(r.id(), "\"private answer\""))).await;
    let mut bridge = Bridge::start(&[&server.url, "--log-level", "trace"]);
    bridge.ask(r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"q":"private question"}}"#).await;
    let (_, _, stderr) = bridge.finish().await;
    assert!(!stderr.is_empty() && !stderr.contains("private"), "{stderr}");
}

#[tokio::test]
async fn credentials_made_from_the_url_are_secrets_as_well() {
    let server = Server::start(|r| {
        Reply::status(400, "text/plain", format!("{:?}", r.header("authorization")))
    })
    .await;
    let url = server.url.replace("http://", "http://user:p%40sssecret99@");
    let mut bridge = Bridge::start(&[&url, "--debug"]);
    let answer = bridge.ask(request(1, "a")).await.to_string();
    assert!(answer.contains("[secret]"), "{answer}");
    let coded = "dXNlcjpwQHNzc2VjcmV0OTk=";
    let (_, _, stderr) = bridge.finish().await;
    for text in [&answer, &stderr] {
        assert!(!text.contains(coded) && !text.contains("secret99"), "{text}");
    }
}

#[tokio::test]
async fn a_stderr_that_nobody_reads_stops_nothing() {
    use std::process::Stdio;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    let server = Server::start(|r| {
        let junk = "data: nonsense\n\n".repeat(3000);
        Reply::sse().chunk(junk).event(result(r.id(), "{}")).end()
    })
    .await;
    let mut command = crate::support::process::command(&[&server.url, "--debug"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut lines = BufReader::new(stdout).lines();
    for id in 0..3 {
        stdin.write_all((request(id, "a") + "\n").as_bytes()).await.unwrap();
        let line = crate::support::soon("an answer", lines.next_line()).await.unwrap().unwrap();
        assert_eq!(line, result(id, "{}"));
    }
    drop(stdin);
    let status = crate::support::soon("the end", child.wait()).await.unwrap();
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn parts_of_secrets_are_secrets_wherever_they_turn_up() {
    // Cut texts, parts of values, keys in a path, redirects in a debug line.
    let server = Server::start(|r| match &*r.what() {
        "cut" => Reply::status(
            500,
            "text/plain",
            format!("{}tokensecret99tokensecret99", "x".repeat(475)),
        ),
        "parts" => Reply::status(
            500,
            "text/plain",
            "cookiesecret99 prefixsecret99 quotedsecret99 usersecret99 0123keysecret99ab",
        )
        .header("WWW-Authenticate", &format!("{}tokensecret99tokensecret99", "y".repeat(235))),
        "GET" => Reply::status(307, "", "")
            .header("Location", "http://127.0.0.1:1/tokensecret99tokensecret99"),
        "DELETE" => Reply::status(307, "", "")
            .header("Location", "http://127.0.0.1:1/tokensecret99tokensecret99"),
        _ => polite(r),
    })
    .await;
    let url = server
        .url
        .replace("http://", "http://usersecret99@")
        .replace("/mcp", "/0123keysecret99ab/mcp");
    let args = [
        &*url,
        "--debug",
        "--header",
        "Authorization: Bearer ${T}${T}",
        "--header",
        "Cookie: session=cookiesecret99; a=b",
        "--header",
        "X-Thing: pre-${P}",
        "--header",
        "X-Token: Token token=\"quotedsecret99\"",
    ];
    let env = [("T", "tokensecret99"), ("P", "prefixsecret99")];
    let mut bridge = Bridge::start_with(&args, &env);
    bridge.handshake().await;
    let mut seen = String::new();
    for (id, method) in [(1, "cut"), (2, "parts"), (3, "tokensecret99tokensecret99")] {
        seen += &bridge.ask(request(id, method)).await["error"].to_string();
    }
    let (_, _, stderr) = bridge.finish().await;
    for text in [&seen, &stderr] {
        for secret in ["secret99", "tokensec", "cookiesec"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
    }
}
