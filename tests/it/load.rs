//! Much at once, and peers that do not keep up: memory stays bounded, nothing is lost.

use std::time::Duration;

use crate::support::{Bridge, Gate, Hub, Reply, Request, Server, polite, request, result, soon};

#[tokio::test]
async fn ten_thousand_requests_in_flight_are_held() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::start(move |r| match &*r.what() {
        "tools/call" => Reply::sse().wait(&held).event(result(r.id(), "{}")).end(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    let lines: String = (0..10_000).map(|id| request(id, "tools/call") + "\n").collect();
    bridge.send_bytes(lines.as_bytes()).await;
    assert_eq!(bridge.ask(request("\"p\"", "ping")).await["id"], "p");
    gate.open();
    let mut answered = vec![false; 10_000];
    for _ in 0..10_000 {
        let answer = bridge.receive().await;
        let id = usize::try_from(answer["id"].as_u64().unwrap()).unwrap();
        assert!(!std::mem::replace(&mut answered[id], true), "{id} came twice");
    }
}

/// Notifications from `first` on, each in a piece of its own.
fn burst(first: usize, count: usize) -> Reply {
    (first..first + count).fold(Reply::sse(), |reply, n| {
        let data = format!(r#"{{"jsonrpc":"2.0","method":"n","params":[{n}]}}"#);
        reply.chunk(format!("id: {n}\nretry: 10\ndata: {data}\n\n"))
    })
}

#[tokio::test]
async fn a_burst_of_events_arrives_whole_and_in_order_also_if_it_is_cut() {
    let server = Server::start(|r| match (&*r.what(), r.header("last-event-id")) {
        ("tools/call", _) => burst(0, 1000).reset(),
        ("GET", Some(last)) => match last.parse::<usize>() {
            // A reset may overtake what was sent before it.
            Ok(last) if last < 1999 => burst(last + 1, 1999 - last).cut(),
            _ => Reply::sse().event(result(7, "{}")).end(),
        },
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    bridge.send(request(7, "tools/call")).await;
    for n in 0..2000 {
        assert_eq!(bridge.receive().await["params"][0], n);
    }
    assert_eq!(bridge.receive().await["id"], 7);
    assert_eq!(server.all("tools/call").len(), 1);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_client_that_stops_reading_stops_the_server_and_loses_nothing() {
    // 200 MB of notifications: they must not pile up in the bridge.
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => {
            let text = "x".repeat(100_000);
            let reply = (0..2000).fold(Reply::sse(), |reply, n| {
                reply.event(format!(r#"{{"jsonrpc":"2.0","method":"n","params":[{n},"{text}"]}}"#))
            });
            reply.event(result(r.id(), "{}")).end()
        }
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    bridge.send(request(1, "tools/call")).await;
    server.saw("tools/call").await;
    // Long enough for all of it to have come, if nothing held it back.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let held = bridge.resident();
    assert!(held < 60, "{held} MiB");
    for n in 0..2000 {
        assert_eq!(bridge.receive().await["params"][0], n);
    }
    assert_eq!(bridge.receive().await["id"], 1);
    assert_eq!(bridge.ask(request(2, "ping")).await["id"], 2, "the session lives");
    let after = bridge.resident();
    assert!(after < 60, "{after} MiB");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_server_that_stops_reading_stops_the_client() {
    // C1: what waits is bounded by bytes.
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => Reply::nothing().hang(),
        _ => polite(r),
    })
    .await;
    let mut bridge =
        Bridge::ready(&[&server.url, "--max-parallel", "1", "--no-server-stream"]).await;
    let big = "x".repeat(4 << 20);
    let mut sent = 0;
    loop {
        let line =
            format!(r#"{{"jsonrpc":"2.0","id":{sent},"method":"tools/call","params":"{big}"}}"#)
                + "\n";
        let sending = bridge.send_bytes(line.as_bytes());
        if tokio::time::timeout(Duration::from_secs(1), sending).await.is_err() {
            break;
        }
        sent += 1;
        assert!(sent < 100, "400 MB are not taken in");
    }
    let held = bridge.resident();
    // Twice what is taken in: the buffers that messages are slices of grow by doubling.
    assert!(held < 300, "{held} MiB");
}

#[tokio::test]
async fn a_server_that_asks_much_and_takes_no_answers_gets_only_so_many_connections() {
    for is_legacy in [false, true] {
        let gate = Gate::new();
        let held = gate.clone();
        let accepting = move |r: &Request| {
            let accepted = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";
            (r.what() == "POST").then(|| Reply::nothing().wait(&held).raw(accepted))
        };
        let asking = (0..300).map(|n| request(n, "ping"));
        let (server, mut bridge) = if is_legacy {
            let hub = Hub::start(move |r, _| accepting(r)).await;
            let bridge = hub.ready(&[]).await;
            asking.for_each(|question| hub.streams.say(question));
            (hub.server, bridge)
        } else {
            let stream = asking.fold(Reply::sse(), Reply::event).hang();
            let server = Server::start(move |r| match &*r.what() {
                "GET" => stream.clone(),
                _ => accepting(r).unwrap_or_else(|| polite(r)),
            })
            .await;
            let bridge = Bridge::ready(&[&server.url]).await;
            (server, bridge)
        };
        for _ in 0..300 {
            let question = bridge.receive().await;
            bridge.send(result(&question["id"], "{}")).await;
        }
        // A call beside it waits for none of them.
        bridge.ask(request("\"x\"", "a")).await;
        let out = server.all("POST").len();
        assert!((32..=64).contains(&out), "{out} at once");
        gate.open();
        server.saw_count("POST", 300).await;
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn memory_is_given_back_after_a_large_message() {
    let text = "y".repeat(60 << 20);
    let server = Server::start(move |r| match &*r.what() {
        "big" => Reply::json(result(r.id(), &format!("\"{text}\""))),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    for id in 0..3 {
        bridge.send(request(id, "big")).await;
        assert!(bridge.line().await.len() > 60 << 20);
    }
    bridge.ask(request(9, "ping")).await;
    let after = bridge.resident();
    assert!(after < 30, "{after} MiB");
}

#[cfg(unix)]
#[tokio::test]
async fn a_process_that_slept_finds_dead_connections_and_lost_sessions_and_heals_them() {
    // As after a night with the lid closed: the server has forgotten everything and closed all.
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    let night = Arc::new(AtomicBool::new(false));
    let asleep = Arc::clone(&night);
    let server = Server::start(move |r| match (&*r.what(), r.header("mcp-session-id")) {
        ("initialize", _) => {
            let id = if asleep.load(Ordering::SeqCst) { "s2" } else { "s1" };
            Reply::json(result(r.id(), r#"{"protocolVersion":"2025-06-18"}"#))
                .header("Mcp-Session-Id", id)
        }
        (_, Some("s1")) if asleep.load(Ordering::SeqCst) => Reply::status(404, "", ""),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    bridge.ask(request(1, "tools/call")).await;
    bridge.signal("STOP");
    server.close_connections();
    night.store(true, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(300)).await;
    bridge.signal("CONT");
    let answer = bridge.ask(request(2, "tools/call")).await;
    assert_eq!((&answer["id"], answer["result"].is_object()), (&2.into(), true), "{answer}");
    assert_eq!(server.all("initialize").len(), 2);
}

#[tokio::test]
async fn answers_of_the_client_come_through_even_if_too_much_waits() {
    // C1: the server waits for an answer; the client's requests fill all there is.
    let gate = Gate::new();
    let (held, opener) = (gate.clone(), gate.clone());
    let server = Server::start(move |r| match &*r.what() {
        "ask" => Reply::sse()
            .event(request("\"q\"", "sampling/createMessage"))
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
    let mut bridge =
        Bridge::ready(&[&server.url, "--max-parallel", "1", "--no-server-stream"]).await;
    bridge.send(request("\"asks\"", "ask")).await;
    assert_eq!(bridge.receive().await["id"], "q");
    let big = "x".repeat(40 << 20);
    for id in 0..5 {
        bridge
            .send(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"a","params":"{big}"}}"#))
            .await;
    }
    bridge.send(result("\"q\"", "{}")).await;
    let (mut answered, mut refused) = (0, 0);
    for _ in 0..6 {
        let message = bridge.receive().await;
        match message["error"]["data"]["kind"].as_str() {
            Some("overloaded") => refused += 1,
            _ => {
                assert!(message["result"].is_object(), "{message}");
                answered += 1;
            }
        }
    }
    assert!(answered >= 4 && refused >= 1, "{answered} {refused}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_gets_no_answer_is_not_taken_in_without_end_either() {
    // Notifications of a mebibyte for a server that takes its time with the first.
    use std::cell::Cell;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    const COUNT: usize = 180;
    let gate = Gate::new();
    let held = gate.clone();
    let arrived = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&arrived);
    let server = Server::start(move |r| match &*r.what() {
        "big" => {
            counter.fetch_add(1, Ordering::SeqCst);
            let accepted = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";
            Reply::nothing().wait(&held).raw(accepted)
        }
        _ => polite(r),
    })
    .await;
    let mut bridge =
        Bridge::ready(&[&server.url, "--max-parallel", "1", "--no-server-stream"]).await;
    let pid = bridge.pid();
    let notice =
        format!(r#"{{"jsonrpc":"2.0","method":"big","params":"{}"}}"#, "x".repeat(1 << 20));
    let sent = Cell::new(0);
    let sending = async {
        for _ in 0..COUNT {
            bridge.send(&notice).await;
            sent.set(sent.get() + 1);
        }
    };
    let watching = async {
        let mut before = 0;
        // Until stdin is full.
        while sent.get() == 0 || sent.get() > before {
            before = sent.get();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert!((64..150).contains(&before), "{before} MiB were taken in");
        let resident = crate::support::process::resident(pid);
        // What is read at once is kept as a whole while any message of it is.
        assert!(resident < 300, "{resident} MiB");
        gate.open();
    };
    tokio::join!(sending, watching);
    let all = async {
        while arrived.load(Ordering::SeqCst) < COUNT {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon("all at the server", all).await;
    assert_eq!(bridge.ask(request(1, "ping")).await["id"], 1, "and then all is well");
    assert_eq!(bridge.finish().await.2, "", "nothing was left out");
}
