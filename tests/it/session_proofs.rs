//! When a session counts as lost: a bare 404 says so, anything else has to be proved by a ping, and
//! what is not proved is the server's answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::{Bridge, Reply, Request, Server, polite, request, result};

/// A JSON-RPC error under the id of the request.
fn error_to(r: &Request, code: i64, message: &str) -> String {
    let id = r.id();
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#)
}

fn refused(status: u16, body: impl AsRef<[u8]>) -> Reply {
    Reply::status(status, "application/json", body)
}

/// A server with sessions `s1`, `s2`, …, of which it knows the newest; `generation` says which.
fn sessions(
    generation: &Arc<AtomicUsize>,
    forgotten: impl Fn(&Request) -> Reply + Send + Sync + 'static,
) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
    let generation = Arc::clone(generation);
    move |r: &Request| {
        let known = format!("s{}", generation.load(Ordering::SeqCst));
        match (&*r.what(), r.header("mcp-session-id")) {
            ("initialize", _) => {
                let offer = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}"#;
                Reply::json(result(r.id(), offer)).header("Mcp-Session-Id", &known)
            }
            (_, Some(session)) if session == known => polite(r),
            _ => forgotten(r),
        }
    }
}

fn no_valid_session(_: &Request) -> Reply {
    refused(
        400,
        r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}"#,
    )
}

fn bare_404(_: &Request) -> Reply {
    Reply::status(404, "", "")
}

/// Everything that the bridge still says is that nothing is wrong.
async fn assert_quiet_end(bridge: Bridge) {
    let (rest, _, stderr) = bridge.finish().await;
    assert_eq!((rest, stderr.as_str()), (vec![], ""));
}

#[tokio::test]
async fn an_application_error_under_its_own_id_is_passed_on_and_carried_out_once() {
    for (status, text) in [
        (400, "invalid session id for booking 17"),
        (409, "session not found in the calendar"),
        (422, "Session expired: book again"),
        (404, "unknown session of the conference"),
        (404, "item not found"),
        (400, "Server not initialized: run setup"),
    ] {
        let server = Server::start(move |r| match &*r.what() {
            "tools/call" => refused(status, error_to(r, -32000, text)),
            _ => polite(r),
        })
        .await;
        let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
        for id in 0..10 {
            let call = request(id, "tools/call");
            bridge.send(&call).await;
            let own = format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32000,"message":"{text}"}}}}"#
            );
            assert_eq!(bridge.line().await, own, "{status} {text}");
            let other = bridge.ask(request(100 + id, "resources/subscribe")).await;
            assert!(other["result"].is_object(), "{status} {text}: {other}");
        }
        assert_eq!(server.all("tools/call").len(), 10, "{status} {text}");
        assert_eq!(server.all("initialize").len(), 1, "{status} {text}");
        assert_eq!(server.all("DELETE").len(), 0);
        assert_quiet_end(bridge).await;
    }
}

#[tokio::test]
async fn what_does_not_speak_of_a_session_costs_no_ping() {
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => refused(404, error_to(r, -32000, "item not found")),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    assert_eq!(bridge.ask(request(1, "tools/call")).await["error"]["message"], "item not found");
    assert!(server.all("ping").is_empty());
}

#[tokio::test]
async fn a_loss_in_words_is_proved_by_one_ping_and_the_call_is_repeated_once() {
    let generation = Arc::new(AtomicUsize::new(1));
    let server = Server::start(sessions(&generation, no_valid_session)).await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    bridge.ask(request(1, "tools/call")).await;
    generation.store(2, Ordering::SeqCst);
    bridge.send(request(2, "tools/call")).await;
    let (answer, told) = bridge.answer(2).await;
    assert!(answer["result"].is_object(), "{answer}");
    assert!(told.iter().all(|method| method.contains("list_changed")), "{told:?}");
    bridge.finish().await;
    let expected = [
        "initialize",
        "notifications/initialized",
        "tools/call",
        "tools/call",
        "ping",
        "initialize",
        "notifications/initialized",
        "tools/call",
        "DELETE",
    ];
    assert_eq!(server.asked(), expected);
    assert_eq!(server.all("ping")[0].header("mcp-session-id"), Some("s1"), "in the old session");
}

#[tokio::test]
async fn a_loss_that_is_told_under_the_requests_own_id_is_proved_by_a_ping_as_well() {
    for status in [400, 404] {
        let generation = Arc::new(AtomicUsize::new(1));
        let forgotten = move |r: &Request| match &*r.http_method {
            "POST" if r.json().get("id").is_some() => {
                refused(status, error_to(r, -32001, "Session not found"))
            }
            _ => refused(status, ""),
        };
        let server = Server::start(sessions(&generation, forgotten)).await;
        let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
        bridge.ask(request(1, "tools/call")).await;
        generation.store(2, Ordering::SeqCst);
        bridge.send(request(2, "tools/call")).await;
        let (answer, _) = bridge.answer(2).await;
        assert!(answer["result"].is_object(), "{status}: {answer}");
        assert_eq!(server.all("tools/call").len(), 3, "{status}");
        assert_eq!(server.all("initialize").len(), 2, "{status}");
    }
}

#[tokio::test]
async fn a_loss_is_also_proved_by_a_ping_that_is_answered_with_200_and_an_error() {
    let generation = Arc::new(AtomicUsize::new(1));
    let forgotten = |r: &Request| match &*r.what() {
        "ping" => refused(200, error_to(r, -32001, "Session not found")),
        _ => no_valid_session(r),
    };
    let server = Server::start(sessions(&generation, forgotten)).await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    bridge.ask(request(1, "tools/call")).await;
    generation.store(2, Ordering::SeqCst);
    bridge.send(request(2, "tools/call")).await;
    let (answer, _) = bridge.answer(2).await;
    assert!(answer["result"].is_object(), "{answer}");
    assert_eq!(server.all("tools/call").len(), 3);
}

#[tokio::test]
async fn a_call_is_not_repeated_where_the_ping_proves_nothing() {
    for (status, text) in [
        (401, "Session expired"),
        (400, "Bad Request"),
        (404, ""),
        (404, "Not Found"),
        (429, "slow down"),
        (500, "No valid session ID provided"),
    ] {
        let server = Server::start(move |r| match &*r.what() {
            "tools/call" => no_valid_session(r),
            "ping" => Reply::status(status, "text/plain", text),
            _ => polite(r),
        })
        .await;
        let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
        let answer = bridge.ask(request(1, "tools/call")).await;
        let said = "Bad Request: No valid session ID provided";
        assert_eq!(answer["error"]["message"], said, "{status} {text}");
        assert_eq!(server.all("tools/call").len(), 1, "{status} {text}");
        assert_eq!(server.all("initialize").len(), 1, "{status} {text}");
    }
}

#[tokio::test]
async fn an_answer_is_not_kept_back_for_long_by_a_ping_that_nobody_answers() {
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => refused(400, error_to(r, -32000, "invalid session id")),
        "ping" => Reply::nothing().hang(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    let start = Instant::now();
    let answer = bridge.ask(request(1, "tools/call")).await;
    assert_eq!(answer["error"]["message"], "invalid session id", "{answer}");
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert_eq!(server.all("initialize").len(), 1);
}

#[tokio::test]
async fn a_server_without_pings_and_with_post_routes_only_keeps_its_one_session() {
    // It has sessions, answers 404 to the GET, and knows no `ping`.
    type Refuse = fn(&Request) -> Reply;
    let ways: [Refuse; 6] = [
        |_| Reply::status(400, "text/plain", "Bad Request"),
        bare_404,
        |_| refused(404, r#"{"detail":"Not Found"}"#),
        |r| refused(404, error_to(r, -32601, "Method not found")),
        |r| refused(400, error_to(r, -32601, "Unknown method in session s1, session id s1")),
        |_| Reply::status(422, "text/plain", "unknown method, sessionId=s1"),
    ];
    for (way, ping) in ways.into_iter().enumerate() {
        let server = Server::start(move |r| match &*r.what() {
            "GET" => Reply::status(404, "text/plain", "404 page not found"),
            "ping" => ping(r),
            _ => polite(r),
        })
        .await;
        let mut bridge = Bridge::ready(&[&server.url]).await;
        server.saw("ping").await;
        for id in 0..14 {
            let answer = bridge.ask(request(id, "tools/call")).await;
            assert!(answer["result"].is_object(), "way {way}: {answer}");
        }
        assert_quiet_end(bridge).await;
        assert_eq!(server.all("initialize").len(), 1, "way {way}");
        assert_eq!(server.all("tools/call").len(), 14, "way {way}");
        assert_eq!(server.all("DELETE").len(), 1, "way {way}");
    }
}

#[tokio::test]
async fn a_server_that_denies_every_ping_its_session_keeps_the_second() {
    let denials: [fn(&Request) -> Reply; 2] = [
        |r| refused(404, error_to(r, -32001, "Session not found")),
        |_| Reply::status(400, "text/plain", "Bad Request: unknown session"),
    ];
    for (way, deny) in denials.into_iter().enumerate() {
        let sessions = AtomicUsize::new(0);
        let server = Server::start(move |r| match &*r.what() {
            "GET" => Reply::status(404, "text/plain", "404 page not found"),
            "ping" => deny(r),
            "initialize" => {
                let number = sessions.fetch_add(1, Ordering::SeqCst);
                let offer = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}"#;
                let session = format!("denied-{number}");
                Reply::json(result(r.id(), offer)).header("Mcp-Session-Id", &session)
            }
            _ => polite(r),
        })
        .await;
        let mut bridge = Bridge::ready(&[&server.url]).await;
        server.saw_count("ping", 2).await;
        for id in 0..14 {
            bridge.send(request(id, "tools/call")).await;
            let (answer, _) = bridge.answer(id).await;
            assert!(answer["result"].is_object(), "way {way}: {answer}");
        }
        for id in 20..26 {
            bridge.send(request(id, "ping")).await;
            let (answer, _) = bridge.answer(id).await;
            assert!(answer["error"].is_object(), "way {way}: {answer}");
        }
        assert_quiet_end(bridge).await;
        assert_eq!(server.all("initialize").len(), 2, "way {way}");
        assert_eq!(server.all("tools/call").len(), 14, "way {way}");
    }
}

#[tokio::test]
async fn the_clients_own_pings_open_no_sessions_where_a_server_does_not_know_them() {
    let server = Server::start(|r| match &*r.what() {
        "ping" => bare_404(r),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    for id in 0..8 {
        let answer = bridge.ask(request(id, "ping")).await;
        assert_eq!(answer["error"]["data"]["status"], 404, "{answer}");
        let answer = bridge.ask(request(100 + id, "tools/call")).await;
        assert!(answer["result"].is_object(), "{answer}");
    }
    assert_eq!(server.all("initialize").len(), 1);
    assert_eq!(server.all("ping").len(), 8);
}

#[tokio::test]
async fn a_bare_404_to_a_ping_proves_a_loss_where_pings_were_answered_before() {
    let generation = Arc::new(AtomicUsize::new(1));
    let (inner, known) = (sessions(&generation, bare_404), Arc::clone(&generation));
    let server = Server::start(move |r| match (&*r.what(), r.header("mcp-session-id")) {
        ("GET", Some("s1")) if known.load(Ordering::SeqCst) == 1 => {
            Reply::sse().chunk("retry: 100\n\n").end()
        }
        _ => inner(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    bridge.ask(request(1, "ping")).await;
    generation.store(2, Ordering::SeqCst);
    // Found out by the server's stream: nobody asks for anything.
    server.saw_count("notifications/initialized", 2).await;
    let (answer, _) = {
        bridge.send(request(2, "tools/call")).await;
        bridge.answer(2).await
    };
    assert!(answer["result"].is_object(), "{answer}");
    assert_eq!(server.all("tools/call").len(), 1);
}

#[tokio::test]
async fn a_loss_that_no_ping_can_prove_is_told_by_the_next_request_that_meets_a_404() {
    let generation = Arc::new(AtomicUsize::new(1));
    let (inner, known) = (sessions(&generation, bare_404), Arc::clone(&generation));
    let server = Server::start(move |r| match (&*r.what(), r.header("mcp-session-id")) {
        ("GET", Some("s1")) if known.load(Ordering::SeqCst) == 1 => {
            known.store(2, Ordering::SeqCst);
            Reply::sse().chunk("retry: 100\n\n").end()
        }
        _ => inner(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    server.saw("ping").await;
    bridge.send(request(1, "tools/call")).await;
    let (answer, _) = bridge.answer(1).await;
    assert!(answer["result"].is_object(), "{answer}");
    assert_eq!(server.all("initialize").len(), 2);
}

#[tokio::test]
async fn a_404_that_a_new_session_does_not_heal_is_no_loss_where_pings_are_answered() {
    // Bare, so it means what the specification says, once; then it is known to mean something else.
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => Reply::status(404, "application/json", r#"{"error":"no such booking"}"#),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    for id in 0..10 {
        bridge.send(request(id, "tools/call")).await;
        let (answer, _) = bridge.answer(id).await;
        assert_eq!(answer["error"]["data"]["status"], 404, "{answer}");
        bridge.send(request(100 + id, "a")).await;
        let (answer, _) = bridge.answer(100 + id).await;
        assert!(answer["result"].is_object(), "{answer}");
    }
    assert_eq!(server.all("initialize").len(), 2);
    assert_eq!(server.all("tools/call").len(), 11, "sent again once, by the first of them");
}

#[tokio::test]
async fn a_second_loss_is_healed_long_after_the_first_was_healed_in_silence() {
    for forgotten in [no_valid_session as fn(&Request) -> Reply, bare_404] {
        let generation = Arc::new(AtomicUsize::new(1));
        let (inner, known) = (sessions(&generation, forgotten), Arc::clone(&generation));
        let server = Server::start(move |r| match (&*r.what(), r.header("mcp-session-id")) {
            ("GET", Some("s1")) if known.load(Ordering::SeqCst) == 1 => {
                Reply::sse().chunk("retry: 100\n\n").end()
            }
            _ => inner(r),
        })
        .await;
        let mut bridge = Bridge::ready(&[&server.url, "--away-wait", "1"]).await;
        bridge.ask(request(0, "ping")).await;
        generation.store(2, Ordering::SeqCst);
        server.saw_count("notifications/initialized", 2).await;
        // Longer than anything waits for a session that nobody opens.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        for number in 3..6 {
            generation.store(number, Ordering::SeqCst);
            bridge.send(request(number, "tools/call")).await;
            let (answer, _) = bridge.answer(number).await;
            assert!(answer["result"].is_object(), "{answer}");
        }
        assert_eq!(server.all("initialize").len(), 5);
    }
}

#[tokio::test]
async fn the_limit_on_new_sessions_holds_up_no_call_in_a_living_one() {
    let generation = Arc::new(AtomicUsize::new(1));
    let inner = sessions(&generation, no_valid_session);
    let server = Server::start(move |r| match &*r.what() {
        "prompts/get" => refused(400, error_to(r, -32000, "invalid session id for booking 17")),
        _ => inner(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    // As many as there may be in half a minute.
    for number in 2..7 {
        generation.store(number, Ordering::SeqCst);
        bridge.send(request(number, "tools/call")).await;
        let (answer, _) = bridge.answer(number).await;
        assert!(answer["result"].is_object(), "{answer}");
    }
    for id in 100..103 {
        bridge.send(request(id, "prompts/get")).await;
        let (answer, _) = bridge.answer(id).await;
        assert_eq!(answer["error"]["message"], "invalid session id for booking 17");
        bridge.send(request(100 + id, "tools/call")).await;
        let (answer, _) = bridge.answer(100 + id).await;
        assert!(answer["result"].is_object(), "{answer}");
    }
    assert_eq!(server.all("initialize").len(), 6);
}

#[tokio::test]
async fn an_unsafe_call_that_was_answered_is_not_repeated_when_its_session_is_lost_a_moment_later()
{
    for (status, text) in [
        (400, "invalid session id for booking 17"),
        (409, "Session expired: book again"),
        (422, "unknown session of the conference"),
        (404, "no session for booking 17"),
    ] {
        for in_plain_text in [false, true] {
            // In plain text, 404 means what the specification says.
            if in_plain_text && status == 404 {
                continue;
            }
            let generation = Arc::new(AtomicUsize::new(1));
            let not_found = |r: &Request| match r.json()["id"].is_null() {
                true => refused(404, ""),
                false => refused(404, error_to(r, -32001, "Session not found")),
            };
            let (inner, known) = (sessions(&generation, not_found), Arc::clone(&generation));
            let server = Server::start(move |r| match &*r.what() {
                // The work is done, then the session expires.
                "tools/call" if known.load(Ordering::SeqCst) == 1 => {
                    known.store(2, Ordering::SeqCst);
                    match in_plain_text {
                        true => Reply::status(status, "text/plain", text),
                        false => refused(status, error_to(r, -32000, text)),
                    }
                }
                _ => inner(r),
            })
            .await;
            let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
            bridge.send(request(1, "tools/call")).await;
            let (answer, _) = bridge.answer(1).await;
            let said = match in_plain_text {
                true => &answer["error"]["data"]["body"],
                false => &answer["error"]["message"],
            };
            assert_eq!(said, text, "{status}: {answer}");
            server.saw_count("notifications/initialized", 2).await;
            assert_eq!(server.all("tools/call").len(), 1, "{status} {text}");
            bridge.send(request(2, "tools/call")).await;
            let (answer, _) = bridge.answer(2).await;
            assert!(answer["result"].is_object(), "{status}: {answer}");
            assert_eq!(server.all("tools/call").len(), 2, "{status} {text}");
            assert_eq!(server.all("initialize").len(), 2, "{status} {text}");
        }
    }
}

#[tokio::test]
async fn a_safe_request_is_repeated_in_whatever_words_its_loss_is_told() {
    let generation = Arc::new(AtomicUsize::new(1));
    let forgotten = |r: &Request| match &*r.what() {
        "ping" => refused(404, error_to(r, -32001, "Session not found")),
        _ => refused(400, error_to(r, -32000, "Session expired")),
    };
    let server = Server::start(sessions(&generation, forgotten)).await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    generation.store(2, Ordering::SeqCst);
    bridge.send(request(1, "resources/read")).await;
    let (answer, _) = bridge.answer(1).await;
    assert!(answer["result"].is_object(), "{answer}");
    assert_eq!(server.all("resources/read").len(), 2);
}

/// The forms in which a server may write an answer.
const FORMS: [(&str, &str, &str); 5] = [
    ("application/json", "", ""),
    ("text/event-stream", "event: message\ndata: ", "\n\n"),
    ("application/json", "[", "]"),
    ("application/json", "\u{feff}", ""),
    ("text/event-stream", ": hello\n\ndata: [", "]\n\n"),
];

#[tokio::test]
async fn an_error_under_its_own_id_is_the_answer_in_every_form_and_with_every_status() {
    for status in [404, 400, 422, 500] {
        for (media, before, after) in FORMS {
            let server = Server::start(move |r| match &*r.what() {
                "tools/call" => {
                    let error = error_to(r, -32004, "item not found");
                    Reply::status(status, media, format!("{before}{error}{after}"))
                }
                _ => polite(r),
            })
            .await;
            let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
            bridge.send(request(1, "tools/call")).await;
            let own =
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32004,"message":"item not found"}}"#;
            assert_eq!(bridge.line().await, own, "{status} {media} {before}");
            assert_eq!(server.all("tools/call").len(), 1, "{status} {media} {before}");
            assert_eq!(server.all("initialize").len(), 1, "{status} {media} {before}");
            assert_quiet_end(bridge).await;
        }
    }
}

#[tokio::test]
async fn a_result_under_its_own_id_is_the_answer_even_with_404() {
    for (media, before, after) in FORMS {
        let server = Server::start(move |r| match &*r.what() {
            "tools/call" => {
                let body = result(r.id(), r#"{"content":[],"isError":true}"#);
                Reply::status(404, media, format!("{before}{body}{after}"))
            }
            _ => polite(r),
        })
        .await;
        let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
        let answer = bridge.ask(request(1, "tools/call")).await;
        assert_eq!(answer["result"]["isError"], true, "{media} {before}: {answer}");
        assert_eq!(server.all("tools/call").len(), 1, "{media} {before}");
        assert_eq!(server.all("initialize").len(), 1, "{media} {before}");
        assert!(server.all("ping").is_empty());
    }
}

#[tokio::test]
async fn a_loss_is_recognised_in_the_words_of_many_servers() {
    for text in [
        "Session ID s1 not found",
        "Session s1 not found",
        r#"session \"s1\" has expired"#,
        "Unknown Mcp-Session-Id",
        "Unrecognized session id",
        "Session ID is not recognized",
        "Stale session id",
        "session_not_found",
        "SessionNotFound",
        "Could not find session",
        "Session closed",
        "Session timed out",
        "The session has been terminated",
    ] {
        let generation = Arc::new(AtomicUsize::new(1));
        let forgotten = move |r: &Request| match r.json()["id"].is_null() {
            true => refused(400, ""),
            false => refused(400, error_to(r, -32000, text)),
        };
        let server = Server::start(sessions(&generation, forgotten)).await;
        let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
        generation.store(2, Ordering::SeqCst);
        bridge.send(request(1, "tools/call")).await;
        let (answer, _) = bridge.answer(1).await;
        assert!(answer["result"].is_object(), "{text}: {answer}");
        assert_eq!(server.all("tools/call").len(), 2, "{text}");
    }
}

#[tokio::test]
async fn what_a_new_session_does_not_heal_ends_as_the_http_error_that_it_is() {
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => Reply::status(404, "text/plain", "no such booking"),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    bridge.send(request(1, "tools/call")).await;
    let (answer, _) = bridge.answer(1).await;
    assert_eq!(answer["error"]["data"]["kind"], "http-status", "{answer}");
}
