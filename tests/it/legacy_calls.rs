//! How calls end over the older transport: acknowledged or not, answered, refused, late, unwanted.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::support::hub::{acknowledged, is_get, session_of, silent_about_calls};
use crate::support::{Bridge, Gate, Hub, PATIENCE, Reply, cancel, request, result};

#[tokio::test]
async fn a_message_that_is_never_acknowledged_ends_by_the_clock() {
    // C2, C19
    let hub = Hub::start(|r, _| (r.what() == "tools/call").then(|| Reply::nothing().hang())).await;
    let mut bridge = hub.ready(&["--timeout", "0.5"]).await;
    let error = bridge.ask(request(1, "tools/call")).await["error"].clone();
    assert_eq!(error["message"], "Request timeout after 500ms", "{error}");
    assert_eq!(error["data"]["delivery"], "unknown");
    let notice = hub.saw("notifications/cancelled").await;
    assert_eq!((&notice.json()["params"]["requestId"], session_of(&notice)), (&1.into(), Some(1)));
    assert_eq!(bridge.ask(request(2, "a")).await["id"], 2);
    assert_eq!(hub.all("tools/call").len(), 1);
}

#[tokio::test]
async fn an_acknowledged_call_without_an_answer_ends_by_the_clock() {
    let hub = silent_about_calls().await;
    let mut bridge = hub.ready(&["--timeout", "0.5"]).await;
    let error = bridge.ask(request(1, "tools/call")).await["error"].clone();
    assert_eq!(error["data"]["kind"], "timeout", "{error}");
    hub.saw("notifications/cancelled").await;
    hub.streams.say(result(1, "{}"));
    assert_eq!(bridge.ask(request(2, "a")).await["id"], 2, "the late answer is dropped");
}

#[tokio::test]
async fn an_answer_counts_even_if_its_acknowledgement_was_lost() {
    let hub = Hub::start(|r, _| (r.what() == "tools/call").then(|| Reply::nothing().cut())).await;
    let mut bridge = hub.ready(&[]).await;
    bridge.send(request(1, "tools/call")).await;
    hub.saw("tools/call").await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    hub.streams.say(result(1, "\"done\""));
    assert_eq!(bridge.receive().await["result"], "done");
    let start = Instant::now();
    let error = bridge.ask(request(2, "tools/call")).await["error"].clone();
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    assert_eq!(error["data"]["kind"], "closed", "{error}");
    assert_eq!(error["data"]["delivery"], "unknown", "{error}");
    assert_eq!(hub.all("tools/call").len(), 2, "neither was sent again");
    assert_eq!(hub.streams.count(), 1);
}

#[tokio::test]
async fn a_refused_message_is_one_error_and_nothing_more() {
    // C4, 4(d)13; section 7, 11
    for (status, delivery) in [(413, "not-delivered"), (401, "not-delivered"), (500, "unknown")] {
        let hub = Hub::start(move |r, _| {
            (r.what() == "tools/call").then(|| Reply::status(status, "text/html", "<p>no</p>"))
        })
        .await;
        let mut bridge = hub.ready(&[]).await;
        let error = bridge.ask(request(1, "tools/call")).await["error"].clone();
        assert_eq!((&error["code"], &error["data"]["status"]), (&(-32001).into(), &status.into()));
        assert_eq!(error["data"]["delivery"], delivery, "{error}");
        assert_eq!(bridge.ask(request(2, "a")).await["result"]["session"], 1);
        assert_eq!(hub.all("tools/call").len(), 1);
    }
}

#[tokio::test]
async fn a_cancelled_call_leaves_nothing_behind() {
    // C19, 4(d)23; section 7, 13
    let hub = silent_about_calls().await;
    let mut bridge = hub.ready(&["--timeout", "0.7"]).await;
    bridge.send(request(1, "tools/call")).await;
    hub.saw("tools/call").await;
    bridge.send(cancel(1)).await;
    assert_eq!(hub.saw("notifications/cancelled").await.text(), cancel(1));
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert_eq!(bridge.ask(request(2, "a")).await["id"], 2, "no late error");
    bridge.send(request(3, "tools/call")).await;
    bridge.send(cancel(3)).await;
    let start = Instant::now();
    let (rest, status, stderr) = bridge.finish().await;
    assert_eq!((rest, status.code(), stderr.as_str()), (vec![], Some(0), ""));
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
}

#[tokio::test]
async fn what_is_cancelled_before_it_was_sent_is_never_sent() {
    // C32
    let gate = Gate::new();
    let held = gate.clone();
    let hub = Hub::start(move |r, streams| is_get(r).then(|| streams.open().held(&held))).await;
    let mut bridge = hub.bridge(&[]);
    // The first opens the stream, the second waits behind it.
    bridge.send(request(1, "tools/call")).await;
    bridge.send(request(2, "tools/call")).await;
    hub.saw("GET").await;
    bridge.send(cancel(1)).await;
    bridge.send(cancel(2)).await;
    bridge.ask(request(3, "server/discover")).await;
    gate.open();
    bridge.handshake().await;
    let (rest, _, stderr) = bridge.finish().await;
    assert_eq!((rest, stderr.as_str()), (vec![], ""));
    assert_eq!(hub.asked(), ["GET", "initialize", "notifications/initialized"]);
}

#[tokio::test]
async fn only_its_own_progress_gives_a_request_more_time() {
    // C28
    let hub = silent_about_calls().await;
    let mut bridge = hub.ready(&["--timeout", "1"]).await;
    for id in [1, 2] {
        bridge.send(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"_meta":{{"progressToken":"t{id}"}}}}}}"#)).await;
    }
    hub.saw_count("tools/call", 2).await;
    for n in 1..=6 {
        hub.streams.newest().pause(300);
        hub.streams.say(format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":"t2","progress":{n}}}}}"#));
    }
    hub.streams.say(result(2, "{}"));
    let (late, before) = bridge.answer(1).await;
    assert_eq!(late["error"]["data"]["kind"], "timeout", "{late}");
    assert!(before.len() < 6, "{before:?}");
    let (answer, _) = bridge.answer(2).await;
    assert!(answer["result"].is_object(), "{answer}");
}

#[tokio::test]
async fn an_event_over_the_limit_fails_its_own_request_only() {
    // C17; section 7, 5
    let hub = silent_about_calls().await;
    let mut bridge = hub.ready(&["--max-message-size", "4K"]).await;
    for id in [1, 2] {
        bridge.send(request(id, "tools/call")).await;
    }
    hub.saw_count("tools/call", 2).await;
    hub.streams.say(result(1, &format!("\"{}\"", "x".repeat(100_000))));
    hub.streams.say(result(2, "{}"));
    let error = bridge.receive().await;
    assert_eq!((&error["id"], &error["error"]["data"]["kind"]), (&1.into(), &"too-large".into()));
    assert_eq!(bridge.receive().await["id"], 2);
    assert_eq!(bridge.ask(request(3, "a")).await["result"]["session"], 1);
}

#[tokio::test]
async fn any_success_acknowledges_and_its_body_is_no_answer() {
    // C11, S3-04, 4(d)7
    for status in [200, 202, 204] {
        let hub = Hub::start(move |r, _| {
            let body = if status == 204 { String::new() } else { result("1", "\"wrong\"") };
            (r.what() == "tools/call").then(|| Reply::status(status, "application/json", body))
        })
        .await;
        let mut bridge = hub.ready(&[]).await;
        bridge.send(request(1, "tools/call")).await;
        hub.saw("tools/call").await;
        assert_eq!(bridge.ask(request(2, "ping")).await["id"], 2, "{status}");
        hub.streams.say(result(1, "\"right\""));
        assert_eq!(bridge.receive().await["result"], "right", "{status}");
    }
}

#[tokio::test]
async fn five_hundred_calls_at_once_are_all_answered() {
    let hub = Hub::plain().await;
    let mut bridge = hub.ready(&[]).await;
    let lines: String = (0..500).map(|id| request(id, "tools/call") + "\n").collect();
    bridge.send_bytes(lines.as_bytes()).await;
    let mut answered = BTreeSet::new();
    while answered.len() < 500 {
        let answer = bridge.receive().await;
        assert!(answer["result"].is_object(), "{answer}");
        assert!(answered.insert(answer["id"].as_u64().unwrap()), "{answer}");
    }
    assert_eq!((hub.all("tools/call").len(), hub.streams.count()), (500, 1));
}

#[tokio::test]
async fn the_end_of_stdin_closes_the_stream_and_deletes_nothing() {
    // C20, S3-07, S3-16
    let hub = silent_about_calls().await;
    let mut bridge = hub.ready(&[]).await;
    bridge.send(request(1, "tools/call")).await;
    hub.saw("tools/call").await;
    bridge.close_stdin();
    hub.streams.say(result(1, "\"last\""));
    assert_eq!(bridge.receive().await["result"], "last", "what is in flight may finish");
    let start = Instant::now();
    assert_eq!(bridge.exit().await.code(), Some(0));
    assert!(start.elapsed() < PATIENCE / 4, "{:?}", start.elapsed());
    hub.saw_abandoned("GET").await;
    assert_eq!(hub.asked(), ["GET", "initialize", "notifications/initialized", "tools/call"]);
    assert_eq!(bridge.stderr(), "");
}

#[tokio::test]
async fn an_answered_call_does_not_keep_its_connection_for_an_acknowledgement_that_never_comes() {
    let hub = Hub::start(|r, streams| {
        (r.what() == "tools/call").then(|| {
            streams.answer(r);
            Reply::nothing().hang()
        })
    })
    .await;
    let mut bridge = hub.ready(&[]).await;
    assert!(bridge.ask(request(1, "tools/call")).await["result"].is_object());
    hub.saw_abandoned("tools/call").await;
    assert_eq!(bridge.ask(request(2, "a")).await["id"], 2);
}

#[tokio::test]
async fn the_clients_answers_wait_for_nothing_however_many_pings_are_out() {
    // C1
    let hub = Hub::start(|r, _| match &*r.what() {
        "stuck" => Some(Reply::nothing().hang()),
        "ping" => Some(acknowledged()),
        _ => None,
    })
    .await;
    let mut bridge = hub.ready(&["--max-parallel", "1"]).await;
    bridge.send(request("\"s\"", "stuck")).await;
    hub.saw("stuck").await;
    for id in 0..128 {
        bridge.send(request(id, "ping")).await;
    }
    hub.saw_count("ping", 128).await;
    hub.streams.say(request(7, "roots/list"));
    assert_eq!(bridge.receive().await["method"], "roots/list");
    bridge.send(result(7, "{}")).await;
    assert_eq!(hub.saw("POST").await.text(), result(7, "{}"));
}

#[tokio::test]
async fn a_signal_ends_it_at_once_whatever_is_in_flight() {
    // C20
    let hub = silent_about_calls().await;
    let mut bridge = hub.ready(&[]).await;
    bridge.send(request(1, "tools/call")).await;
    hub.saw("tools/call").await;
    bridge.signal("TERM");
    let start = Instant::now();
    assert_eq!(bridge.exit().await.code(), Some(0));
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    hub.saw_abandoned("GET").await;
}

/// A call that the server does not answer, and behind it 200 notifications that fill every pipe.
async fn called_before_a_flood() -> (Hub, Bridge) {
    let hub = silent_about_calls().await;
    let mut bridge = hub.ready(&["--timeout", "1"]).await;
    bridge.send(request(1, "tools/call")).await;
    hub.saw("tools/call").await;
    let note = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/x","params":"{}"}}"#,
        "x".repeat(60_000)
    );
    for _ in 0..200 {
        hub.streams.say(&note);
    }
    (hub, bridge)
}

#[tokio::test]
async fn time_in_which_the_client_does_not_read_is_nobodys_silence() {
    let (hub, mut bridge) = called_before_a_flood().await;
    hub.streams.say(result(1, "{}"));
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let (answer, before) = bridge.answer(1).await;
    assert!(answer["result"].is_object(), "{answer}");
    assert_eq!(before.len(), 200);
}

#[tokio::test]
async fn clocks_go_on_as_soon_as_the_client_reads_again() {
    let (_hub, mut bridge) = called_before_a_flood().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    // Nothing else happens: only the clock can end it.
    let (answer, before) = bridge.answer(1).await;
    assert_eq!(answer["error"]["data"]["kind"], "timeout", "{answer}");
    assert_eq!(before.len(), 200);
}

#[tokio::test]
async fn a_notification_that_is_never_acknowledged_ends_by_the_clock_and_holds_up_nobody() {
    // C2
    let hub =
        Hub::start(|r, _| (r.what() == "notifications/x").then(|| Reply::nothing().hang())).await;
    let mut bridge = hub.ready(&["--timeout", "0.5", "--max-parallel", "1"]).await;
    bridge.send(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#).await;
    hub.saw("notifications/x").await;
    let start = Instant::now();
    assert_eq!(bridge.ask(request(1, "a")).await["id"], 1, "it has its place in line back");
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    hub.saw_abandoned("notifications/x").await;
    let (rest, status, stderr) = bridge.finish().await;
    assert_eq!((rest.len(), status.code()), (0, Some(0)));
    assert!(stderr.contains("notifications/x did not reach the server"), "{stderr}");
    assert!(stderr.contains("Notify timeout after 500ms"), "{stderr}");
    assert_eq!(hub.all("notifications/x").len(), 1);
}
