//! How the process ends: end of stdin, signals, a dead parent, a closed stdout.

use std::time::{Duration, Instant};

use crate::support::process::command;
use crate::support::{
    Bridge, Gate, INITIALIZE, INITIALIZED, Reply, Server, polite, request, result, run, soon,
};

#[tokio::test]
async fn rmcp_934_at_the_end_of_stdin_the_session_is_deleted_and_the_exit_code_is_0() {
    // S1-32, C20
    let server = Server::start(|r| match &*r.what() {
        "GET" => Reply::sse().hang(),
        _ => polite(r),
    })
    .await;
    let bridge = Bridge::ready(&[&server.url]).await;
    server.saw("GET").await;
    let (rest, status, stderr) = bridge.finish().await;
    assert_eq!((rest.len(), status.code(), stderr.as_str()), (0, Some(0), ""));
    assert_eq!(server.all("DELETE").len(), 1);
    assert_eq!(server.asked().last().unwrap(), "DELETE");
}

#[tokio::test]
async fn what_was_asked_before_the_end_of_stdin_is_answered() {
    // C20: echo '…' | mcp-span URL
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => Reply::sse().pause(300).event(result(r.id(), "{}")).end(),
        _ => polite(r),
    })
    .await;
    let input = format!("{INITIALIZE}\n{INITIALIZED}\n{}", request(2, "tools/call"));
    let output = run(&[&server.url], &[], &input).await;
    let stdout = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{stdout}");
    assert_eq!(lines[1], result(2, "{}"));
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(server.asked().last().unwrap(), "DELETE");
}

#[tokio::test]
async fn a_notification_just_before_the_end_still_arrives() {
    let server = Server::start(polite).await;
    let input = r#"{"jsonrpc":"2.0","method":"notifications/last"}"#;
    run(&[&server.url], &[], input).await;
    assert_eq!(server.asked(), ["notifications/last"]);
}

#[tokio::test]
async fn what_is_in_flight_at_the_end_of_stdin_has_one_total_bound() {
    // C27: comments keep the request itself alive, but not for ever.
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => {
            (0..100).fold(Reply::sse(), |reply, _| reply.pause(100).chunk(": alive\n\n"))
        }
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--timeout", "1"]).await;
    bridge.send(request(1, "tools/call")).await;
    server.saw("tools/call").await;
    let start = Instant::now();
    let (rest, status, _) = bridge.finish().await;
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    assert_eq!(status.code(), Some(0));
    assert_eq!(rest.len(), 1);
    assert!(rest[0].contains("\"kind\":\"shutdown\""), "it ends with an answer: {rest:?}");
}

#[tokio::test]
async fn a_question_of_the_server_after_the_end_of_stdin_is_answered_for_the_client() {
    let gate = Gate::new();
    let (held, opener) = (gate.clone(), gate.clone());
    let server = Server::start(move |r| match &*r.what() {
        "tools/call" => Reply::sse()
            .pause(200)
            .event(request(1, "elicitation/create"))
            .wait(&held)
            .event(result(r.id(), "{}"))
            .end(),
        "POST" => {
            opener.open();
            Reply::accepted()
        }
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    bridge.send(request(2, "tools/call")).await;
    let (rest, status, _) = bridge.finish().await;
    assert_eq!((rest, status.code()), (vec![result(2, "{}")], Some(0)));
    assert!(server.saw("POST").await.json()["error"].is_object());
}

#[tokio::test]
async fn signals_end_it_at_once_with_exit_code_0() {
    // C20
    for signal in ["TERM", "INT", "HUP"] {
        let server = Server::start(|r| match &*r.what() {
            "tools/call" => Reply::sse().hang(),
            "GET" => Reply::sse().hang(),
            _ => polite(r),
        })
        .await;
        let mut bridge = Bridge::ready(&[&server.url]).await;
        bridge.send(request(1, "tools/call")).await;
        server.saw("tools/call").await;
        bridge.signal(signal);
        assert_eq!(bridge.exit().await.code(), Some(0), "{signal}");
        server.saw("DELETE").await;
    }
}

/// Ends stdin, then the process by a signal: it must be as quick about it as before the end of stdin,
/// and delete its session.
async fn assert_signal_ends(mut bridge: Bridge, server: &Server, signal: &str, what: &str) {
    bridge.close_stdin();
    // It has to have heard of that; nothing that can be seen from outside tells it.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let start = Instant::now();
    bridge.signal(signal);
    assert_eq!(bridge.exit().await.code(), Some(0), "{what}, {signal}");
    assert!(start.elapsed() < Duration::from_millis(1900), "{what}, {signal}: clients wait 2 s");
    server.saw("DELETE").await;
}

#[tokio::test]
async fn signals_end_it_at_once_when_what_was_said_before_the_end_of_stdin_hangs() {
    // C20
    const CANCEL: &str =
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    const NOTICE: &str = r#"{"jsonrpc":"2.0","method":"notifications/last"}"#;
    const ANSWER: &str = r#"{"jsonrpc":"2.0","id":"q","result":{}}"#;
    for signal in ["TERM", "INT"] {
        for (said, what) in
            [(NOTICE, "notifications/last"), (CANCEL, "notifications/cancelled"), (ANSWER, "POST")]
        {
            let server = Server::start(move |r| match &*r.what() {
                "tools/call" => Reply::sse().event(request("\"q\"", "roots/list")).hang(),
                hangs if hangs == what => Reply::nothing().hang(),
                _ => polite(r),
            })
            .await;
            let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
            if said != NOTICE {
                bridge.send(request(1, "tools/call")).await;
                assert_eq!(bridge.receive().await["method"], "roots/list");
            }
            if said == ANSWER {
                // Nothing but the answer is left in flight.
                bridge.send(ANSWER).await;
                bridge.send(CANCEL).await;
                server.saw("notifications/cancelled").await;
            } else {
                bridge.send(said).await;
            }
            server.saw(what).await;
            assert_signal_ends(bridge, &server, signal, what).await;
        }
    }
}

#[tokio::test]
async fn signals_end_it_at_once_when_nobody_reads_a_large_answer_after_the_end_of_stdin() {
    // C20
    for signal in ["TERM", "INT"] {
        let server = Server::start(|r| match &*r.what() {
            "tools/call" => Reply::json(result(r.id(), &format!("\"{}\"", "x".repeat(8_000_000)))),
            _ => polite(r),
        })
        .await;
        let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
        bridge.send(request(1, "tools/call")).await;
        bridge.send(request(2, "tools/call")).await;
        server.saw_count("tools/call", 2).await;
        assert_signal_ends(bridge, &server, signal, "a large answer").await;
    }
}

#[tokio::test]
async fn a_goodbye_that_is_not_answered_does_not_hold_it_up() {
    let server = Server::start(|r| match &*r.what() {
        "DELETE" => Reply::nothing().hang(),
        _ => polite(r),
    })
    .await;
    for signal in [true, false] {
        let mut bridge = Bridge::ready(&[&server.url]).await;
        bridge.ask(request(1, "a")).await;
        let start = Instant::now();
        if signal {
            bridge.signal("TERM");
        } else {
            bridge.close_stdin();
        }
        assert_eq!(bridge.exit().await.code(), Some(0));
        assert!(start.elapsed() < Duration::from_millis(1900), "clients wait 2 s");
    }
}

#[tokio::test]
async fn a_server_that_is_gone_does_not_hold_it_up() {
    let server = Server::start(polite).await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    bridge.ask(request(1, "a")).await;
    drop(server);
    let (_, status, _) = bridge.finish().await;
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn a_closed_stdout_ends_it_quietly() {
    // S4-27, C20; section 7, 21.
    let server = Server::start(polite).await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    bridge.close_stdout();
    bridge.send(request(1, "a")).await;
    assert_eq!(bridge.exit().await.code(), Some(0));
    assert_eq!(bridge.stderr(), "");
    server.saw("DELETE").await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn it_ends_with_its_parent_even_if_stdin_stays_open() {
    // C20: a sibling that inherited the pipe keeps it open after the client has died.
    let server = Server::start(polite).await;
    let mut shell = tokio::process::Command::new("sh");
    let program = env!("CARGO_BIN_EXE_mcp-span");
    shell.args(["-c", &format!("exec 3<&0; '{program}' '{}' <&3 & echo $!; wait", server.url)]);
    let mut parent = Bridge::spawn({
        shell.kill_on_drop(true);
        shell
    });
    let pid: u32 = parent.line().await.parse().unwrap();
    parent.handshake().await;
    parent.signal("KILL");
    // Our end of stdin is still open: only the parent's death can have ended it.
    server.saw("DELETE").await;
    let gone = async {
        while std::path::Path::new(&format!("/proc/{pid}/status")).exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon("the end of the orphan", gone).await;
}

#[tokio::test]
async fn nothing_is_asked_of_the_server_before_the_client_speaks() {
    // S1-30; started twice, probed, thrown away: it costs the server nothing.
    let server = Server::start(polite).await;
    let bridge = Bridge::start(&[&server.url]);
    let (rest, status, stderr) = bridge.finish().await;
    assert_eq!((rest.len(), status.code(), stderr.as_str()), (0, Some(0), ""));
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn stdin_and_stdout_may_be_files_or_sockets() {
    let server = Server::start(polite).await;
    let dir = tempfile::tempdir().unwrap();
    let (input, output) = (dir.path().join("in"), dir.path().join("out"));
    std::fs::write(&input, format!("{}\n", request(1, "a"))).unwrap();
    let mut bridge = command(&[&server.url]);
    bridge.stdin(std::fs::File::open(&input).unwrap());
    bridge.stdout(std::fs::File::create(&output).unwrap());
    assert!(soon("the end", bridge.status()).await.unwrap().success());
    let written = std::fs::read_to_string(&output).unwrap();
    assert_eq!(written.trim_end(), result(1, r#"{"did":"a"}"#));
}

#[cfg(unix)]
#[tokio::test]
async fn node_gives_its_children_sockets() {
    use std::os::fd::OwnedFd;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let server = Server::start(polite).await;
    let (ours_in, theirs_in) = tokio::net::UnixStream::pair().unwrap();
    let (ours_out, theirs_out) = tokio::net::UnixStream::pair().unwrap();
    let mut bridge = command(&[&server.url]);
    let stdio = |socket: tokio::net::UnixStream| OwnedFd::from(socket.into_std().unwrap());
    bridge.stdin(stdio(theirs_in)).stdout(stdio(theirs_out));
    let mut child = bridge.spawn().unwrap();
    drop(bridge);
    let (mut ours_in, mut ours_out) = (ours_in, ours_out);
    ours_in.write_all((request(1, "a") + "\n").as_bytes()).await.unwrap();
    let mut answer = vec![0; result(1, r#"{"did":"a"}"#).len()];
    soon("the answer", ours_out.read_exact(&mut answer)).await.unwrap();
    assert_eq!(String::from_utf8(answer).unwrap(), result(1, r#"{"did":"a"}"#));
    drop(ours_in);
    assert!(soon("the end", child.wait()).await.unwrap().success());
}

#[cfg(unix)]
#[tokio::test]
async fn the_shells_own_streams_stay_blocking() {
    // The pipe is shared with whoever comes after us in the shell.
    let server = Server::start(polite).await;
    let program = env!("CARGO_BIN_EXE_mcp-span");
    let script = format!(
        "printf '%s\\n' '{}' | '{program}' '{}'; cat /proc/self/fdinfo/1 | grep flags",
        request(1, "a"),
        server.url
    );
    let mut shell = tokio::process::Command::new("sh");
    let output = soon("the shell", shell.args(["-c", &script]).output()).await.unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let flags = stdout.lines().last().unwrap().split_whitespace().last().unwrap();
    let flags = u32::from_str_radix(flags, 8).unwrap();
    assert_eq!(flags & 0o4000, 0, "O_NONBLOCK was left set: {stdout}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_client_that_reads_slowly_gets_everything_after_the_end_of_stdin() {
    // C20: answers of more than a pipe holds, and a reader that takes its time.
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => Reply::json(result(r.id(), &format!("\"{}\"", "x".repeat(400_000)))),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    for id in 0..5 {
        bridge.send(request(id, "tools/call")).await;
    }
    bridge.close_stdin();
    server.saw_count("tools/call", 5).await;
    // Longer than any goodbye may take.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let (lines, status, _) = bridge.finish().await;
    assert_eq!(status.code(), Some(0));
    assert_eq!(lines.len(), 5);
    assert!(lines.iter().all(|line| line.len() > 400_000 && line.ends_with('}')));
}

#[tokio::test]
async fn no_request_ends_in_silence_because_the_client_reads_late() {
    // C27 bounds the wait for the server; whoever reads learns what has become of each request.
    let text = format!("\"{}\"", "x".repeat(100_000));
    let server = Server::start(move |r| match &*r.what() {
        "tools/call" => Reply::json(result(r.id(), &text)),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--timeout", "1"]).await;
    for id in 1..=100 {
        bridge.send(request(id, "tools/call")).await;
    }
    bridge.close_stdin();
    // Until all limits have passed: of the requests, and of the goodbye.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let (rest, status, stderr) = bridge.finish().await;
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
    let mut ended: Vec<u64> = rest
        .iter()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].as_u64().unwrap()
        })
        .collect();
    ended.sort_unstable();
    assert_eq!(ended, (1..=100).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_waits_in_line_is_not_sent_once_the_client_has_been_told_that_it_is_over() {
    // C27
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => Reply::nothing().hang(),
        _ => polite(r),
    })
    .await;
    let args = [&*server.url, "--max-parallel", "1", "--timeout", "1", "--no-server-stream"];
    let mut bridge = Bridge::ready(&args).await;
    for id in 0..3 {
        bridge.send(request(id, "tools/call")).await;
    }
    server.saw("tools/call").await;
    let start = Instant::now();
    let (rest, _, _) = bridge.finish().await;
    assert!(start.elapsed() < Duration::from_millis(1900), "{:?}", start.elapsed());
    assert_eq!(rest.len(), 3, "{rest:?}");
    assert!(
        server.all("tools/call").len() <= 2,
        "the second may have left when the first timed out"
    );
}

#[tokio::test]
async fn a_flood_of_questions_does_not_hold_up_the_end() {
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => (0..200).fold(Reply::sse(), |reply, n| {
            reply.pause(10).event(request(format!("\"q{}-{n}\"", r.id()), "sampling/createMessage"))
        }),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--timeout", "1"]).await;
    for id in 0..60 {
        bridge.send(request(id, "tools/call")).await;
    }
    server.saw_count("tools/call", 60).await;
    let start = Instant::now();
    let (_, status, _) = bridge.finish().await;
    assert_eq!(status.code(), Some(0));
    assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
}
