//! Cancellation: at once, to the right place, and without a late error.

use crate::support::{Bridge, Gate, Reply, Server, cancel, polite, request, result};

#[tokio::test]
async fn a_cancellation_goes_through_at_once_and_leaves_no_late_answer() {
    // C19; section 7, 13: id 0 is an id, and the bytes stay.
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::start(move |r| match &*r.what() {
        "tools/call" => Reply::sse().wait(&held).event(result(r.id(), "{}")).end(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    bridge.send(request(0, "tools/call")).await;
    server.saw("tools/call").await;
    bridge.send(cancel("0")).await;
    let notice = server.saw("notifications/cancelled").await;
    assert_eq!(notice.text(), cancel("0"));
    assert_eq!(notice.header("mcp-session-id"), Some("s1"));
    gate.open();
    assert_eq!(bridge.ask(request(1, "a")).await["id"], 1);
    let (rest, _, stderr) = bridge.finish().await;
    assert_eq!((rest, stderr.as_str()), (vec![], ""));
}

#[tokio::test]
async fn a_cancelled_call_that_the_server_never_answers_leaves_nothing_behind() {
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => Reply::sse().hang(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    bridge.send(request(1, "tools/call")).await;
    server.saw("tools/call").await;
    bridge.send(cancel("1")).await;
    server.saw_abandoned("tools/call").await;
    let (rest, status, stderr) = bridge.finish().await;
    assert_eq!((rest, status.code(), stderr.as_str()), (vec![], Some(0), ""));
}

#[tokio::test]
async fn what_was_not_sent_yet_is_dropped_with_its_cancellation() {
    // C32: it waits in line behind another.
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::start(move |r| match &*r.what() {
        "slow" => Reply::sse().wait(&held).event(result(r.id(), "{}")).end(),
        _ => polite(r),
    })
    .await;
    let mut bridge =
        Bridge::ready(&[&server.url, "--max-parallel", "1", "--no-server-stream"]).await;
    bridge.send(request(1, "slow")).await;
    bridge.send(request(2, "never")).await;
    server.saw("slow").await;
    bridge.send(cancel("2")).await;
    // A ping overtakes the line: with its answer, the cancellation has been read, too.
    assert_eq!(bridge.ask(request(9, "ping")).await["id"], 9);
    bridge.send(request(3, "a")).await;
    gate.open();
    assert_eq!(bridge.receive().await["id"], 1);
    assert_eq!(bridge.receive().await["id"], 3);
    assert_eq!(server.asked(), ["initialize", "notifications/initialized", "slow", "ping", "a"]);
}

#[tokio::test]
async fn a_cancellation_overtakes_the_calls_that_fill_the_line() {
    // C1
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => Reply::sse().hang(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--max-parallel", "2"]).await;
    for id in 0..6 {
        bridge.send(request(id, "tools/call")).await;
    }
    server.saw_count("tools/call", 2).await;
    bridge.send(cancel("0")).await;
    server.saw("notifications/cancelled").await;
    server.saw_count("tools/call", 3).await;
    assert_eq!(bridge.ask(request(9, "ping")).await["id"], 9);
}

#[tokio::test]
async fn a_cancellation_by_the_server_reaches_the_client_and_its_answer_is_dropped() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::start(move |r| match &*r.what() {
        "tools/call" => Reply::sse()
            .event(request(5, "sampling/createMessage"))
            .event(cancel("5"))
            .wait(&held)
            .event(result(r.id(), "{}"))
            .end(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    bridge.send(request(1, "tools/call")).await;
    assert_eq!(bridge.receive().await["method"], "sampling/createMessage");
    assert_eq!(bridge.line().await, cancel("5"));
    bridge.send(result(5, "{}")).await;
    assert_eq!(bridge.ask(request(2, "ping")).await["id"], 2);
    gate.open();
    assert_eq!(bridge.receive().await["id"], 1);
    assert!(server.all("POST").is_empty(), "nobody waits for that answer any more");
}

#[tokio::test]
async fn an_initialize_is_never_cancelled_at_the_server() {
    // b.2
    let server = Server::start(|r| match &*r.what() {
        "initialize" if r.id() == "1" => Reply::sse().hang(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    bridge.send(request(1, "initialize")).await;
    server.saw("initialize").await;
    bridge.send(cancel("1")).await;
    server.saw_abandoned("initialize").await;
    bridge.handshake().await;
    assert_eq!(bridge.ask(request(2, "a")).await["id"], 2);
    assert!(server.all("notifications/cancelled").is_empty());
}

#[tokio::test]
async fn an_id_that_is_used_again_after_a_cancellation_gets_its_own_answer() {
    let gate = Gate::new();
    let held = gate.clone();
    let count = std::sync::atomic::AtomicUsize::new(0);
    let server = Server::start(move |r| match &*r.what() {
        "tools/call" => match count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 => Reply::sse().pause(300).event(result(r.id(), "\"old\"")).end(),
            _ => Reply::sse().wait(&held).event(result(r.id(), "\"new\"")).end(),
        },
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    bridge.send(request(5, "tools/call")).await;
    server.saw("tools/call").await;
    bridge.send(cancel("5")).await;
    bridge.send(request(5, "tools/call")).await;
    server.saw_count("tools/call", 2).await;
    tokio::time::sleep(std::time::Duration::from_millis(600)).await;
    gate.open();
    assert_eq!(bridge.receive().await["result"], "new");
}

#[tokio::test]
async fn a_late_cancellation_hits_nobody_else() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::start(move |r| match &*r.what() {
        "slow" => Reply::sse().wait(&held).event(result(r.id(), "{}")).end(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    bridge.send(request("9007199254740993", "slow")).await;
    server.saw("slow").await;
    bridge.ask(request("9007199254740992", "a")).await;
    bridge.send(cancel("9007199254740992")).await;
    bridge.ask(request(1, "ping")).await;
    gate.open();
    assert!(bridge.line().await.contains("9007199254740993"));
}
