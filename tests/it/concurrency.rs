//! What runs side by side, what waits, and what never does.

use std::collections::BTreeSet;

use crate::support::{Bridge, Gate, Reply, Server, polite, request, result};

#[tokio::test]
async fn a_slow_call_holds_up_nothing() {
    // S2-22, S2-40, C1; section 7, 9.
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::start(move |r| match &*r.what() {
        "tools/call" => Reply::sse().wait(&held).event(result(r.id(), "{}")).end(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    bridge.send(request(1, "tools/call")).await;
    server.saw("tools/call").await;
    assert_eq!(bridge.ask(request(2, "ping")).await["id"], 2);
    assert_eq!(bridge.ask(request(3, "tools/list")).await["id"], 3);
    gate.open();
    assert_eq!(bridge.receive().await["id"], 1);
}

#[tokio::test]
async fn a_thousand_calls_at_once_are_each_answered_once() {
    let server = Server::start(|r| match r.id().parse::<u32>() {
        Ok(id) if id % 2 == 0 => Reply::sse().event(result(id, "{}")).end(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    let lines: String = (0..1000).map(|id| request(id, "tools/call") + "\n").collect();
    bridge.send_bytes(lines.as_bytes()).await;
    let mut answered = BTreeSet::new();
    for _ in 0..1000 {
        let answer = bridge.receive().await;
        assert!(answered.insert(answer["id"].as_u64().unwrap()), "{answer} came twice");
    }
    assert_eq!(answered.len(), 1000);
    assert_eq!(server.all("tools/call").len(), 1000);
}

#[tokio::test]
async fn the_cap_queues_and_control_messages_pass_it() {
    // C1: 10 calls fill a line of 2; ping and answers to the server go at once.
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::start(move |r| match &*r.what() {
        "tools/call" => Reply::sse()
            .event(request(format!("\"s{}\"", r.id()), "sampling/createMessage"))
            .wait(&held)
            .event(result(r.id(), "{}"))
            .end(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--max-parallel", "2"]).await;
    for id in 0..10 {
        bridge.send(request(id, "tools/call")).await;
    }
    for _ in 0..2 {
        let asked = bridge.receive().await;
        bridge.send(result(&asked["id"], "{}")).await;
    }
    server.saw_count("POST", 2).await;
    assert_eq!(bridge.ask(request(99, "ping")).await["id"], 99);
    assert_eq!(server.all("tools/call").len(), 2);
    gate.open();
    let mut answered = 0;
    while answered < 10 {
        answered += u32::from(bridge.receive().await.get("result").is_some());
    }
    let ids: Vec<String> =
        server.all("tools/call").iter().map(crate::support::Request::id).collect();
    let expected: Vec<String> = (0..10).map(|id| id.to_string()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>(), expected.iter().collect());
}

#[tokio::test]
async fn serial_is_strictly_one_at_a_time() {
    // S4-02, C1
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => Reply::sse().pause(20).event(result(r.id(), "{}")).end(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--serial"]).await;
    for id in 0..5 {
        bridge.send(request(id, "tools/call")).await;
        bridge.send(request(format!("\"p{id}\""), "ping")).await;
    }
    for id in 0..5 {
        assert_eq!(bridge.receive().await["id"], id);
        assert_eq!(bridge.receive().await["id"], format!("p{id}"));
    }
    let asked: Vec<String> = server.asked().into_iter().filter(|w| w != "GET").skip(2).collect();
    assert_eq!(asked, ["tools/call", "ping"].repeat(5));
}

#[tokio::test]
async fn serial_does_not_deadlock_on_a_question_of_the_server() {
    let gate = Gate::new();
    let (held, opener) = (gate.clone(), gate.clone());
    let server = Server::start(move |r| match &*r.what() {
        "tools/call" => Reply::sse()
            .event(request("\"q\"", "elicitation/create"))
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
    let mut bridge = Bridge::ready(&[&server.url, "--serial"]).await;
    bridge.send(request(1, "tools/call")).await;
    assert_eq!(bridge.receive().await["id"], "q");
    bridge.send(result("\"q\"", "{}")).await;
    assert_eq!(bridge.receive().await["id"], 1);
}

#[tokio::test]
async fn requests_leave_in_the_order_they_came() {
    let server = Server::start(polite).await;
    let mut bridge = Bridge::ready(&[&server.url, "--max-parallel", "1"]).await;
    let lines: String = (0..50).map(|id| request(id, &format!("m{id}")) + "\n").collect();
    bridge.send_bytes(lines.as_bytes()).await;
    for id in 0..50 {
        assert_eq!(bridge.receive().await["id"], id);
    }
}

#[tokio::test]
async fn stdin_is_read_on_while_calls_wait() {
    // C1: what waits is bounded by bytes, not by the number of calls in flight.
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::start(move |r| match &*r.what() {
        "tools/call" => Reply::sse().wait(&held).event(result(r.id(), "{}")).end(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url, "--max-parallel", "1"]).await;
    let lines: String = (0..3000).map(|id| request(id, "tools/call") + "\n").collect();
    bridge.send_bytes(lines.as_bytes()).await;
    assert_eq!(bridge.ask(request("\"p\"", "ping")).await["id"], "p");
    gate.open();
    for _ in 0..3000 {
        bridge.receive().await;
    }
}
