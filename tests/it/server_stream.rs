//! The stream for what the server says on its own account.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::{Bridge, Gate, INITIALIZED, Reply, Server, polite, request, result};

#[tokio::test]
async fn it_opens_after_initialized_was_accepted_and_its_messages_come_through() {
    // S1-18, S1-40, S4-21, S4-24, C8
    let server = Server::start(|r| match &*r.what() {
        "GET" => Reply::sse()
            .chunk(": welcome\n\n")
            .event(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#)
            .event(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"n":1e1}}"#)
            .event(request("\"r\"", "roots/list"))
            .hang(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url, "--header", "X-A: b"]);
    bridge.handshake().await;
    assert_eq!(
        bridge.line().await,
        r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#
    );
    assert_eq!(
        bridge.line().await,
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"n":1e1}}"#
    );
    assert_eq!(bridge.receive().await["method"], "roots/list");
    bridge.send(result("\"r\"", "{}")).await;
    assert_eq!(server.saw("POST").await.text(), result("\"r\"", "{}"));
    assert_eq!(server.asked()[..3], ["initialize", "notifications/initialized", "GET"]);
    let get = server.saw("GET").await;
    assert_eq!(get.header("x-a"), Some("b"));
    assert_eq!(get.header("last-event-id"), None);
    assert_eq!(server.all("GET").len(), 1);
}

#[tokio::test]
async fn it_does_not_open_if_initialized_was_not_accepted() {
    let server = Server::start(|r| match &*r.what() {
        "notifications/initialized" => Reply::status(500, "", ""),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    assert_eq!(bridge.ask(request(1, "a")).await["id"], 1);
    assert!(server.all("GET").is_empty());
}

#[tokio::test]
async fn a_405_means_never_again_and_nobody_hears_of_it() {
    // S1-41, S4-23, C8; section 7, 19.
    let server = Server::start(polite).await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    server.saw("GET").await;
    assert_eq!(bridge.ask(request(1, "a")).await["id"], 1);
    // Longer than the first pause of the backoff.
    tokio::time::sleep(Duration::from_millis(800)).await;
    let (rest, _, stderr) = bridge.finish().await;
    assert_eq!((rest.len(), stderr.as_str()), (0, ""));
    assert_eq!(server.all("GET").len(), 1);
}

#[tokio::test]
async fn a_404_is_checked_by_a_ping_inside_the_session() {
    // C8
    let server = Server::start(|r| match &*r.what() {
        "GET" => Reply::status(404, "", ""),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    let ping = server.saw("ping").await;
    assert_eq!(ping.header("mcp-session-id"), Some("s1"));
    assert!(ping.id().starts_with("\"mcp-span-"), "an id that collides with nobody's");
    assert_eq!(bridge.ask(request(1, "a")).await["id"], 1);
    let (rest, _, stderr) = bridge.finish().await;
    assert_eq!((rest, stderr.as_str()), (vec![], ""), "the bridge's own ping never shows");
    assert_eq!(server.all("GET").len(), 1);
    assert_eq!(server.all("ping").len(), 1);
}

#[tokio::test]
async fn other_refusals_harm_nothing() {
    // C8: 400, 409 and what is no stream at all.
    for reply in [
        || Reply::status(400, "application/json", "{}"),
        || Reply::status(409, "", ""),
        || Reply::json("{}"),
        || Reply::status(500, "", ""),
    ] {
        let server = Server::start(move |r| match &*r.what() {
            "GET" => reply(),
            _ => polite(r),
        })
        .await;
        let mut bridge = Bridge::ready(&[&server.url]).await;
        server.saw("GET").await;
        assert_eq!(bridge.ask(request(1, "a")).await["id"], 1);
        let (rest, _, stderr) = bridge.finish().await;
        assert_eq!((rest.len(), stderr.as_str()), (0, ""));
    }
}

#[tokio::test]
async fn it_can_be_switched_off() {
    let server = Server::start(polite).await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    bridge.ask(request(1, "a")).await;
    bridge.finish().await;
    assert!(server.all("GET").is_empty());
}

#[tokio::test]
async fn it_is_opened_again_from_where_it_ended_after_the_servers_own_delay() {
    // S1-43, superseded by C7
    let server = Server::start(|r| match (&*r.what(), r.header("last-event-id")) {
        ("GET", None) => Reply::sse()
            .chunk("id: e1\nretry: 20\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"one\"}\n\n")
            .end(),
        ("GET", Some("e1")) => {
            Reply::sse().chunk("id: e2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"two\"}\n\n").hang()
        }
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    assert_eq!(bridge.receive().await["method"], "one");
    assert_eq!(bridge.receive().await["method"], "two");
    assert_eq!(server.all("GET").len(), 2);
}

#[tokio::test]
async fn a_silent_stream_has_no_idle_limit() {
    // C2
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::start(move |r| match &*r.what() {
        "GET" => Reply::sse().wait(&held).event(r#"{"jsonrpc":"2.0","method":"late"}"#).hang(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--timeout", "0.2"]).await;
    server.saw("GET").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    gate.open();
    assert_eq!(bridge.receive().await["method"], "late");
    assert_eq!(server.all("GET").len(), 1);
}

#[tokio::test]
async fn one_whose_head_is_held_back_is_asked_for_as_often_as_before() {
    // C2, C8: a proxy that buffers sends the head along with the first event.
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::start(move |r| match &*r.what() {
        "GET" => Reply::nothing()
            .wait(&held)
            .raw("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            .raw("data: {\"jsonrpc\":\"2.0\",\"method\":\"first\"}\n\n")
            .hang(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--timeout", "0.5"]).await;
    // With pauses that double, this would take half a minute.
    server.saw_count("GET", 8).await;
    gate.open();
    assert_eq!(bridge.receive().await["method"], "first");
    let (rest, _, stderr) = bridge.finish().await;
    assert_eq!((rest.len(), stderr.as_str()), (0, ""));
}

#[tokio::test]
async fn a_priming_event_that_is_repeated_is_no_message() {
    // C3: the everything server repeats those of its other streams as empty objects.
    let server = Server::start(|r| match &*r.what() {
        "GET" => Reply::sse()
            .chunk("event: message\nid: e1\ndata: {}\n\n")
            .event(r#"{"jsonrpc":"2.0","method":"n"}"#)
            .hang(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    assert_eq!(bridge.receive().await["method"], "n");
    let (rest, _, stderr) = bridge.finish().await;
    assert_eq!((rest.len(), stderr.as_str()), (0, ""));
}

#[tokio::test]
async fn an_answer_that_comes_on_it_finds_its_request() {
    // A server that accepts a call and answers it elsewhere gets away with it if it is quick.
    let gate = Gate::new();
    let (held, opener) = (gate.clone(), gate.clone());
    let server = Server::start(move |r| match &*r.what() {
        "GET" => Reply::sse().wait(&held).event(result(7, "{}")).hang(),
        "tools/call" => {
            opener.open();
            Reply::sse().hang()
        }
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    server.saw("GET").await;
    assert_eq!(bridge.ask(request(7, "tools/call")).await["id"], 7);
}

#[tokio::test]
async fn a_server_that_asks_for_a_storm_does_not_get_one() {
    // C30: a delay of zero, and an end after each event.
    let server = Server::start(|r| match &*r.what() {
        "GET" => {
            Reply::sse().chunk("retry: 0\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n\n").end()
        }
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let asked = server.all("GET").len();
    assert!((2..=11).contains(&asked), "{asked} times in a second");
    assert_eq!(bridge.receive().await["method"], "n");
}

#[tokio::test]
async fn an_answer_that_comes_on_it_makes_room_for_the_next_call() {
    let (first, second) = (Gate::new(), Gate::new());
    let (wait_first, wait_second) = (first.clone(), second.clone());
    let server = Server::start(move |r| match (&*r.what(), r.header("mcp-session-id").is_some()) {
        ("GET", _) => Reply::sse()
            .wait(&wait_first)
            .event(result(1, "{}"))
            .wait(&wait_second)
            .event(result(2, "{}"))
            .hang(),
        ("tools/call", _) => {
            if r.id() == "1" {
                first.open();
            } else {
                second.open();
            }
            (0..40).fold(Reply::sse(), |reply, _| reply.pause(100).chunk(": busy\n\n"))
        }
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--max-parallel", "1"]).await;
    server.saw("GET").await;
    for id in 1..=2 {
        assert_eq!(bridge.ask(request(id, "tools/call")).await["id"], id);
    }
}

#[tokio::test]
async fn a_stream_that_ends_again_and_again_is_asked_for_less_and_less() {
    let server = Server::start(|r| match &*r.what() {
        "GET" => Reply::sse().event(r#"{"jsonrpc":"2.0","method":"n"}"#).end(),
        _ => polite(r),
    })
    .await;
    let _bridge = Bridge::ready(&[&server.url]).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let asked = server.all("GET").len();
    assert!((2..=5).contains(&asked), "{asked} times in three seconds");
}

/// A server that has no stream for now, for a reason that passes.
async fn without_stream_for_now() -> Server {
    Server::start(|r| match &*r.what() {
        "GET" => Reply::status(500, "", ""),
        _ => polite(r),
    })
    .await
}

#[tokio::test]
async fn what_the_client_says_brings_a_stream_back_before_its_pause_is_over() {
    // C7: after the fifth try the pause is four seconds or more.
    let server = without_stream_for_now().await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    server.saw_count("GET", 5).await;
    let since = Instant::now();
    assert_eq!(bridge.ask(request(1, "a")).await["id"], 1);
    server.saw_count("GET", 6).await;
    assert!(since.elapsed() < Duration::from_secs(3), "{:?}", since.elapsed());
}

#[tokio::test]
async fn a_client_that_talks_much_asks_for_it_once_a_second_at_most() {
    // C7
    let server = without_stream_for_now().await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    server.saw_count("GET", 4).await;
    let (since, before) = (Instant::now(), server.all("GET").len());
    let mut id = 0;
    while since.elapsed() < Duration::from_millis(2500) {
        id += 1;
        bridge.ask(request(id, "a")).await;
    }
    let asked = server.all("GET").len() - before;
    assert!((1..=3).contains(&asked), "{asked} times in two and a half seconds");
}

#[tokio::test]
async fn there_are_never_two_of_them() {
    // C8: a confirmation that is repeated, a lost session, another handshake.
    let sessions = AtomicUsize::new(0);
    let known = Arc::new(AtomicUsize::new(1));
    let forgotten = Arc::clone(&known);
    let server = Server::start(move |r| {
        let named = r.header("mcp-session-id").map(str::to_owned);
        match &*r.what() {
            "GET" => Reply::sse().chunk(": welcome\n\n").hang(),
            "initialize" => {
                let session = format!("s{}", sessions.fetch_add(1, Ordering::SeqCst) + 1);
                Reply::json(result(r.id(), r#"{"protocolVersion":"2025-06-18"}"#))
                    .header("Mcp-Session-Id", &session)
            }
            "a" if named != Some(format!("s{}", forgotten.load(Ordering::SeqCst))) => {
                Reply::status(404, "", "")
            }
            _ => polite(r),
        }
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    server.saw_count("GET", 1).await;
    bridge.send(INITIALIZED).await;
    server.saw_count("GET", 2).await;
    server.saw_abandoned_count("GET", 1).await;
    known.store(2, Ordering::SeqCst);
    bridge.send(request(1, "a")).await;
    assert!(bridge.answer(1).await.0["result"].is_object());
    server.saw_count("GET", 3).await;
    server.saw_abandoned_count("GET", 2).await;
    bridge.handshake().await;
    server.saw_count("GET", 4).await;
    server.saw_abandoned_count("GET", 3).await;
    // Long enough for one that would come back.
    tokio::time::sleep(Duration::from_millis(800)).await;
    assert_eq!((server.all("GET").len(), server.abandoned("GET")), (4, 3));
}

#[tokio::test]
async fn a_server_that_does_not_want_it_is_left_alone_however_much_is_said() {
    // C8: the slow backoff.
    for status in [400, 409, 429] {
        let server = Server::start(move |r| match &*r.what() {
            "GET" => Reply::status(status, "", ""),
            _ => polite(r),
        })
        .await;
        let mut bridge = Bridge::ready(&[&server.url]).await;
        server.saw("GET").await;
        let since = Instant::now();
        let mut id = 0;
        while since.elapsed() < Duration::from_millis(2200) {
            id += 1;
            bridge.ask(request(id, "a")).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // 429 says "not so fast" and no more: the usual pauses of half a second, one, two.
        let most = if status == 429 { 4 } else { 1 };
        assert!(server.all("GET").len() <= most, "{status}: {}", server.all("GET").len());
    }
}

#[tokio::test]
async fn a_server_that_asks_for_a_pause_before_its_stream_gets_it() {
    for status in [429, 503] {
        let server = Server::start(move |r| match &*r.what() {
            "GET" => Reply::status(status, "", "").header("Retry-After", "3"),
            _ => polite(r),
        })
        .await;
        let mut bridge = Bridge::ready(&[&server.url]).await;
        server.saw("GET").await;
        let start = Instant::now();
        for id in 0..5 {
            bridge.ask(request(id, "tools/call")).await;
            tokio::time::sleep(Duration::from_millis(450)).await;
        }
        assert_eq!(server.all("GET").len(), 1, "{status}");
        server.saw_count("GET", 2).await;
        assert!(start.elapsed() >= Duration::from_millis(2900), "{status}");
    }
}
