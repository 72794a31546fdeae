//! JSON, events, acknowledgements, and all that is none of these: an end for every request.

use serde_json::Value;

use crate::support::{Bridge, Reply, Server, polite, request, result};

/// The error that a single `tools/call` ends with when the server replies so.
async fn error_for(reply: impl Fn() -> Reply + Send + Sync + 'static) -> Value {
    let server = Server::start(move |_| reply()).await;
    let mut bridge = Bridge::start(&[&server.url, "--no-oauth"]);
    let answer = bridge.ask(request(1, "tools/call")).await;
    assert_eq!(answer["id"], 1, "{answer}");
    assert_eq!(server.requests().len(), 1, "one POST, whatever the answer");
    answer["error"].clone()
}

fn is(error: &Value, code: i64, kind: &str) {
    assert_eq!((&error["code"], &error["data"]["kind"]), (&code.into(), &kind.into()), "{error}");
}

#[tokio::test]
async fn json_and_events_are_both_answers() {
    // S1-12, S1-13, S2-13, S4-09, S4-16, S1-39
    let server = Server::start(|r| match &*r.what() {
        "json" => Reply::status(200, "Application/JSON; charset=utf-8", result(r.id(), "{}")),
        _ => Reply::sse().event(result(r.id(), "{}")).end(),
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    for method in ["json", "events"] {
        bridge.send(request(1, method)).await;
        assert_eq!(bridge.line().await, result(1, "{}"));
    }
}

/// An answer with `count` headers beside its own.
fn with_headers(reply: Reply, count: usize) -> Reply {
    (0..count).fold(reply, |reply, n| reply.header(&format!("X-Header-{n}"), "value"))
}

#[tokio::test]
async fn answers_may_have_hundreds_of_headers() {
    let server = Server::start(|r| with_headers(Reply::json(result(r.id(), "{}")), 300)).await;
    let mut bridge = Bridge::start(&[&server.url]);
    bridge.send(request(1, "tools/call")).await;
    assert_eq!(bridge.line().await, result(1, "{}"));
}

#[tokio::test]
async fn an_answer_with_thousands_of_headers_is_no_broken_connection() {
    let error = error_for(|| with_headers(Reply::json(result(1, "{}")), 3000)).await;
    is(&error, -32000, "too-large");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("too many headers"), "{message}");
    assert_eq!(error["data"]["delivery"], "unknown", "it may have been carried out");
    assert!(error["data"]["hint"].is_string(), "{error}");
}

#[tokio::test]
async fn any_success_is_enough_for_a_notification_and_nothing_is_written() {
    // S1-16, S1-17, S4-11; section 7, 1: exactly one POST for each.
    let server = Server::start(|r| match &*r.what() {
        "notifications/a" => Reply::accepted(),
        "notifications/b" => Reply::status(200, "application/json", "{}"),
        "notifications/c" => Reply::status(204, "", ""),
        "notifications/d" => Reply::status(200, "text/html", "<p>thanks"),
        "notifications/e" => Reply::status(202, "text/plain", "Accepted"),
        "notifications/f" => Reply::status(500, "text/plain", "no"),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    for letter in ["a", "b", "c", "d", "e", "f"] {
        bridge.send(format!(r#"{{"jsonrpc":"2.0","method":"notifications/{letter}"}}"#)).await;
    }
    assert_eq!(bridge.ask(request(2, "ping")).await["id"], 2);
    let (rest, _, stderr) = bridge.finish().await;
    assert!(rest.is_empty(), "a notification gets no reply, ever: {rest:?}");
    for letter in ["a", "b", "c", "d", "e", "f"] {
        assert_eq!(server.all(&format!("notifications/{letter}")).len(), 1, "{letter}");
    }
    assert!(stderr.contains("notifications/f did not reach the server: HTTP 500: no"), "{stderr}");
}

#[tokio::test]
async fn a_stream_that_ends_without_an_answer_is_said_to_have_done_so() {
    // S1-15; section 7, 3.
    let error = error_for(|| Reply::sse().chunk(": nothing\n\n").end()).await;
    is(&error, -32000, "no-response");
    assert_eq!(error["message"], "No response received for request ID 1");
    assert_eq!(error["data"]["delivery"], "unknown");
}

#[tokio::test]
async fn a_bad_event_is_skipped_with_a_warning_and_the_stream_goes_on() {
    // S0-21, S1-42, C3, C18
    let server = Server::start(|r| {
        Reply::sse()
            .event("{broken")
            .chunk(b"data: {\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}\n\n")
            .event("[DONE]")
            .event(result(r.id(), "{}"))
            .end()
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    assert!(bridge.ask(request(1, "a")).await["result"].is_object());
    let (rest, _, stderr) = bridge.finish().await;
    assert!(rest.is_empty());
    assert_eq!(stderr.matches("SSE error:").count(), 3, "{stderr}");
}

#[tokio::test]
async fn http_errors_have_status_text_and_hints() {
    // S0-20, S1-35, S1-36, S2-19, S4-14, C4, C5
    let error = error_for(|| Reply::status(500, "text/plain", "boom")).await;
    is(&error, -32001, "http-status");
    assert_eq!(error["message"], "HTTP 500: boom");
    assert_eq!((&error["data"]["status"], &error["data"]["body"]), (&500.into(), &"boom".into()));
    assert_eq!(error["data"]["delivery"], "unknown");
    let error = error_for(|| {
        Reply::status(401, "", "")
            .header("WWW-Authenticate", "Bearer resource_metadata=\"https://x/y\"")
            .header("Mcp-Auth-Server", "https://as.example")
    })
    .await;
    is(&error, -32001, "http-status");
    assert_eq!(
        error["message"],
        "HTTP 401: Unauthorized [WWW-Authenticate: Bearer resource_metadata=\"https://x/y\"; \
         Mcp-Auth-Server: https://as.example]"
    );
    assert_eq!(error["data"]["delivery"], "not-delivered");
    let error = error_for(|| Reply::status(413, "text/html", "<html>Payload Too Large")).await;
    assert_eq!(error["data"]["status"], 413);
}

#[tokio::test]
async fn no_tag_of_a_page_stands_in_an_error_wherever_the_page_comes_from() {
    const PAGE: &str = "<!DOCTYPE html><html><head><title>Sorry</title><style>p {}</style></head>\
                        <body><p>Try <b>later</b></p></body></html>";
    const XML: &str = "<?xml version=\"1.0\"?>\n<!DOCTYPE html>\n<html><p>Sorry</p></html>";
    for reply in [
        || Reply::status(404, "text/html", PAGE),
        || Reply::status(500, "text/plain", PAGE),
        || Reply::status(503, "", format!("\u{feff}\n{PAGE}")),
        || Reply::status(502, "text/html", "<p>Sorry</p>"),
        || Reply::status(502, "text/html", XML),
        || Reply::json(PAGE),
        || Reply::status(401, "text/html", PAGE),
    ] {
        let error = error_for(reply).await;
        let (body, all) = (&error["data"]["body"], error.to_string());
        assert!(body.as_str().is_some_and(|body| body.starts_with("Sorry")), "{error}");
        assert!(!all.contains("</") && !all.contains("p {}"), "{error}");
    }
    let error = error_for(|| Reply::status(500, "text/html", "<html><body></body></html>")).await;
    assert_eq!(error["message"], "HTTP 500: Internal Server Error");
    assert_eq!(error["data"].get("body"), None, "a page without a word: {error}");
}

#[tokio::test]
async fn texts_of_errors_are_cut_at_500_characters() {
    // C24
    let error = error_for(|| Reply::status(503, "text/plain", "ü\n".repeat(10_000))).await;
    for text in [&error["message"], &error["data"]["body"]] {
        assert!((490..=500).contains(&text.as_str().unwrap().chars().count()), "{text}");
    }
    assert!(!error["message"].as_str().unwrap().contains('\n'));
}

#[tokio::test]
async fn a_json_rpc_error_in_an_http_error_is_passed_on_under_the_pending_id() {
    // C23, S2-18
    for id in [r#","id":null"#, r#","id":1"#, r#","id":99"#, ""] {
        let body = format!(
            r#"{{"jsonrpc":"2.0","error":{{"code":-32000,"message":"Bad Request: Server not initialized"}}{id}}}"#
        );
        let error = error_for(move || Reply::status(400, "application/json", &body)).await;
        assert_eq!(error["code"], -32000, "{id}: {error}");
        assert_eq!(error["message"], "Bad Request: Server not initialized");
        assert!(error.get("data").is_none(), "the server's own words: {error}");
    }
}

#[tokio::test]
async fn an_error_with_id_null_in_a_success_belongs_to_the_request() {
    // C23
    let body = r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}"#;
    let error = error_for(move || Reply::json(body)).await;
    assert_eq!(error["code"], -32700);
    let error = error_for(move || Reply::sse().event(body).end()).await;
    assert_eq!(error["code"], -32700);
}

#[tokio::test]
async fn a_401_keeps_its_meaning_whatever_its_body() {
    let body = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"nope"},"id":1}"#;
    for status in [401, 403] {
        let error = error_for(move || {
            Reply::status(status, "application/json", body).header("WWW-Authenticate", "Bearer")
        })
        .await;
        is(&error, -32001, "http-status");
        assert!(error["message"].as_str().unwrap().ends_with("[WWW-Authenticate: Bearer]"));
        assert!(error["data"]["hint"].as_str().unwrap().contains("--header"));
    }
}

#[tokio::test]
async fn a_success_that_is_no_answer_is_an_error() {
    // S1-38; section 7, 4.
    let error = error_for(|| Reply::status(200, "text/html", "<html>Welcome</html>")).await;
    is(&error, -32000, "bad-response");
    assert!(error["message"].as_str().unwrap().contains("text/html"), "{error}");
    let error =
        error_for(|| Reply::status(200, "", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)).await;
    is(&error, -32000, "bad-response");
    for body in ["{\"jsonrpc\":\"2.0\",\"id\":1,\"resu", "nonsense", "{\"foo\":1}", "5"] {
        let error = error_for(move || Reply::json(body)).await;
        is(&error, -32000, "bad-response");
        assert_eq!(error["data"]["body"], body);
    }
    for body in ["", " \n"] {
        let error = error_for(move || Reply::json(body)).await;
        is(&error, -32000, "no-response");
    }
    let error = error_for(|| Reply::json("[]")).await;
    is(&error, -32000, "no-response");
    let error = error_for(Reply::accepted).await;
    is(&error, -32000, "no-response");
    let error = error_for(|| Reply::status(204, "", "")).await;
    is(&error, -32000, "no-response");
    let error = error_for(|| Reply::json(result(2, "{}"))).await;
    is(&error, -32000, "no-response");
}

#[tokio::test]
async fn an_answer_over_the_limit_ends_its_request_and_nothing_else() {
    // S4-20, C17; section 7, 5.
    let server = Server::start(|r| match &*r.what() {
        "json" => Reply::json(result(r.id(), &format!("\"{}\"", "x".repeat(5000)))),
        "events" => Reply::sse().event(result(r.id(), &format!("\"{}\"", "x".repeat(5000)))).hang(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--max-message-size", "2K"]).await;
    for method in ["json", "events"] {
        let error = bridge.ask(request(1, method)).await["error"].clone();
        is(&error, -32000, "too-large");
        assert!(error["data"]["hint"].as_str().unwrap().contains("--max-message-size"));
    }
    server.saw_abandoned("events").await;
    assert_eq!(bridge.ask(request(2, "a")).await["id"], 2, "the bridge lives on");
}

#[tokio::test]
async fn many_events_of_the_permitted_size_are_no_large_message() {
    // C17: the limit counts the unfinished event only.
    let server = Server::start(|r| {
        let note = format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, "n".repeat(900));
        let all = format!("data: {note}\n\n").repeat(20);
        Reply::sse().chunk(all).event(result(r.id(), "{}")).end()
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url, "--max-message-size", "1K"]);
    bridge.send(request(1, "a")).await;
    for _ in 0..20 {
        assert!(bridge.receive().await["method"].is_string());
    }
    assert_eq!(bridge.receive().await["id"], 1);
}

#[tokio::test]
async fn a_large_answer_comes_through_whole() {
    // S2-21
    let text = "y".repeat(20 << 20);
    let answer = result(1, &format!("\"{text}\""));
    let (json, event) = (answer.clone(), answer.clone());
    let server = Server::start(move |r| match &*r.what() {
        "json" => Reply::json(&json),
        _ => Reply::sse().event(&event).end(),
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    for method in ["json", "events"] {
        bridge.send(request(1, method)).await;
        assert!(bridge.line().await == answer, "{method}");
    }
}

#[tokio::test]
async fn the_rest_of_a_stream_is_read_after_the_answer() {
    let server = Server::start(|r| match &*r.what() {
        "a" => Reply::sse()
            .event(result(r.id(), "{}"))
            .event(r#"{"jsonrpc":"2.0","method":"notifications/late"}"#)
            .end(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    assert_eq!(bridge.ask(request(1, "a")).await["id"], 1);
    assert_eq!(bridge.receive().await["method"], "notifications/late");
}

#[tokio::test]
async fn a_stream_that_the_server_never_ends_is_let_go_after_its_answer() {
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => (0..100).fold(Reply::sse().event(result(r.id(), "{}")), |reply, _| {
            reply.pause(200).chunk(": still here\n\n")
        }),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    assert_eq!(bridge.ask(request(1, "tools/call")).await["id"], 1);
    server.saw_abandoned("tools/call").await;
}

#[tokio::test]
async fn events_of_other_sorts_are_no_errors() {
    // C18
    let server = Server::start(|r| {
        Reply::sse()
            .chunk("event: ping\ndata: 2026-01-01T00:00:00Z\n\n")
            .chunk("event: heartbeat\ndata: {}\n\n")
            .chunk(format!("event: custom\ndata: {}\n\n", result(r.id(), "{}")))
            .end()
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    assert_eq!(bridge.ask(request(1, "a")).await["id"], 1, "what is JSON-RPC counts");
    let (_, _, stderr) = bridge.finish().await;
    assert_eq!(stderr, "");
}

#[tokio::test]
async fn a_large_json_rpc_error_in_an_http_error_passes_whole() {
    let error = format!(
        r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":-32602,"message":"no","data":"{}"}}}}"#,
        "x".repeat(300_000)
    );
    let body = error.clone();
    let server = Server::start(move |_| Reply::status(400, "application/json", &body)).await;
    let mut bridge = Bridge::start(&[&server.url]);
    bridge.send(request(1, "a")).await;
    assert!(bridge.line().await == error);
}

#[tokio::test]
async fn a_byte_order_mark_before_a_body_does_no_harm() {
    let server = Server::start(|r| Reply::json(format!("\u{feff}{}", result(r.id(), "{}")))).await;
    let mut bridge = Bridge::start(&[&server.url]);
    assert_eq!(bridge.ask(request(1, "a")).await["id"], 1);
}
