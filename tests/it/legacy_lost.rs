//! Streams of the older transport that end: replaced once, and every request ends by the table.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::hub::{acknowledged, is_get, session_of, unknown};
use crate::support::{
    Feed, Gate, Hub, INITIALIZE, INITIALIZED, Reply, Request, cancel, request, result,
};

const CHANGED: &str = "notifications/tools/list_changed";

/// A hub that is silent in its first session about all but the handshake.
async fn silent_at_first() -> Hub {
    Hub::start(|r, streams| {
        let is_silent = session_of(r) == Some(1) && r.what() != "initialize" && streams.knows(1);
        is_silent.then(|| match &*r.what() {
            "stuck" => Reply::nothing().hang(),
            _ => acknowledged(),
        })
    })
    .await
}

/// That nobody knows whether it was carried out.
fn assert_unknown(answer: &Value, id: u64) {
    let error = &answer["error"];
    assert_eq!(error["message"], format!("No response received for request ID {id}"), "{answer}");
    assert_eq!((&error["code"], &error["data"]["delivery"]), (&(-32000).into(), &"unknown".into()));
}

#[tokio::test]
async fn a_lost_stream_is_replaced_and_each_request_ends_by_the_table() {
    // C7, C13, S1-15, S2-41, S3-16, 4(d)26, 4(d)27; section 7, 12
    for (way, lose) in [("end", Feed::end as fn(&Feed)), ("cut", Feed::cut), ("reset", Feed::reset)]
    {
        let hub = silent_at_first().await;
        let mut bridge = hub.ready(&["--max-parallel", "1"]).await;
        bridge.send(request(1, "tools/call")).await;
        bridge.send(request(2, "tools/list")).await;
        // It holds the only place, so the fourth cannot leave.
        bridge.send(request(3, "stuck")).await;
        bridge.send(request(4, "tools/call")).await;
        hub.saw("stuck").await;
        let start = Instant::now();
        lose(&hub.streams.forget());
        assert_unknown(&bridge.receive().await, 1);
        assert!(start.elapsed() < Duration::from_secs(2), "{way}: {:?}", start.elapsed());
        let (answers, told) = bridge.answers(3).await;
        assert_eq!(answers[0]["result"]["session"], 2, "{way}: it is safe {answers:?}");
        assert_unknown(&answers[1], 3);
        assert_eq!(answers[2]["result"]["session"], 2, "{way}: it had not left {answers:?}");
        let (rest, _, stderr) = bridge.finish().await;
        assert_eq!(told.len() + rest.len(), 1, "{way}: {told:?} {rest:?}");
        assert!(told.iter().chain(&rest).all(|line| line.contains(CHANGED)), "{told:?} {rest:?}");
        assert_eq!(stderr, "", "{way}");
        assert_new_session(&hub);
        assert_eq!(hub.all("tools/call").len(), 2, "{way}");
    }
}

/// One more stream, and the client's own words on it first.
fn assert_new_session(hub: &Hub) {
    assert_eq!(hub.all("GET").len(), 2);
    assert_eq!(hub.told(2)[..2], ["initialize", "notifications/initialized"]);
    let opened = &hub.all("initialize")[1];
    assert!(opened.id().starts_with("\"mcp-span-"), "under the bridge's own id");
    assert_eq!(opened.text(), INITIALIZE.replace("\"init\"", &opened.id()));
    assert_eq!(opened.header("mcp-protocol-version"), None);
    assert_eq!(hub.all("notifications/initialized")[1].text(), INITIALIZED);
}

#[tokio::test]
async fn an_unknown_session_is_replaced_and_the_call_carried_out_once() {
    // C7, 4(d)8, S3-08
    let hub = silent_at_first().await;
    let mut bridge = hub.ready(&[]).await;
    bridge.send(request(1, "tools/call")).await;
    bridge.send(request(2, "tools/list")).await;
    hub.saw("tools/list").await;
    hub.saw("tools/call").await;
    // Both are acknowledged before the third comes: they went out before it on the same wire.
    tokio::time::sleep(Duration::from_millis(100)).await;
    hub.streams.forget();
    bridge.send(request(3, "resources/subscribe")).await;
    let (answers, told) = bridge.answers(3).await;
    assert_unknown(&answers[0], 1);
    assert_eq!(answers[1]["result"]["session"], 2, "{answers:?}");
    assert_eq!(answers[2]["result"]["session"], 2, "{answers:?}");
    assert_eq!(told, [CHANGED]);
    hub.saw_abandoned("GET").await;
    assert_new_session(&hub);
    let third = hub.all("resources/subscribe");
    assert_eq!(third.iter().map(session_of).collect::<Vec<_>>(), [Some(1), Some(2)]);
    assert_eq!(hub.all("tools/call").len(), 1);
}

#[tokio::test]
async fn a_hundred_that_meet_the_loss_cause_one_new_stream() {
    // C7, 4(d)28
    let hub = Hub::plain().await;
    let mut bridge = hub.ready(&[]).await;
    bridge.ask(request(1000, "a")).await;
    hub.streams.forget();
    let lines: String = (0..100).map(|id| request(id, "tools/call") + "\n").collect();
    bridge.send_bytes(lines.as_bytes()).await;
    let (answers, told) = bridge.answers(100).await;
    let ids: BTreeSet<u64> = answers.iter().filter_map(|a| a["id"].as_u64()).collect();
    assert_eq!(ids.len(), 100, "each once");
    let answered = answers.iter().filter(|a| a["result"]["session"] == 2).count();
    let in_new = hub.told(2).iter().filter(|what| *what == "tools/call").count();
    assert_eq!(answered, 100, "the server has turned all of them away {:?}", answers[0]);
    assert_eq!(in_new, 100, "and carried each out once");
    assert_eq!(told, [CHANGED]);
    assert_new_session(&hub);
}

#[tokio::test]
async fn a_server_that_never_knows_the_session_gets_no_storm() {
    let hub = Hub::start(|r, _| (r.what() == "tools/call").then(|| unknown(7))).await;
    let mut bridge = hub.ready(&[]).await;
    for id in 0..3 {
        bridge.send(request(id, "tools/call")).await;
        let (answer, _) = bridge.answer(id).await;
        assert_eq!(answer["error"]["data"]["status"], 404, "{answer}");
        assert_eq!(answer["error"]["data"]["delivery"], "not-delivered", "{answer}");
    }
    assert!(hub.all("tools/call").len() <= 6, "{:?}", hub.asked());
    assert!(hub.all("GET").len() <= 6, "{:?}", hub.asked());
    assert!(bridge.ask(request(9, "a")).await["result"].is_object());
}

#[tokio::test]
async fn a_stream_that_ends_while_nobody_waits_is_opened_again_by_itself() {
    // C7, C35, 4(d)29
    let hub = Hub::plain().await;
    let mut bridge = hub.ready(&[]).await;
    hub.saw("notifications/initialized").await;
    hub.streams.forget().end();
    assert_eq!(bridge.receive().await["method"], CHANGED);
    hub.saw_count("notifications/initialized", 2).await;
    assert_new_session(&hub);
    assert_eq!(bridge.ask(request(1, "a")).await["result"]["session"], 2);
    assert_eq!(bridge.finish().await.2, "");
}

#[tokio::test]
async fn subscriptions_and_the_log_level_are_restored() {
    // C7
    let hub = Hub::plain().await;
    let mut bridge = hub.ready(&[]).await;
    let with = |id: u32, method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
    };
    bridge.ask(with(1, "resources/subscribe", r#"{"uri":"a://1"}"#)).await;
    bridge.ask(with(2, "resources/subscribe", r#"{"uri":"a://2"}"#)).await;
    bridge.ask(with(3, "resources/unsubscribe", r#"{"uri":"a://1"}"#)).await;
    bridge.ask(with(4, "logging/setLevel", r#"{"level":"debug"}"#)).await;
    hub.streams.forget().cut();
    hub.saw_count("resources/subscribe", 3).await;
    hub.saw_count("logging/setLevel", 2).await;
    let restored = hub.all("resources/subscribe").pop().unwrap();
    assert_eq!(
        (&restored.json()["params"]["uri"], session_of(&restored)),
        (&"a://2".into(), Some(2))
    );
    let (rest, _, stderr) = bridge.finish().await;
    assert!(rest.iter().all(|line| line.contains(CHANGED)), "{rest:?}");
    assert_eq!(stderr, "");
}

#[tokio::test]
async fn a_server_that_ends_every_stream_gets_no_storm_and_requests_end() {
    // C7, C30: at most 5 new ones in half a minute.
    let hub = Hub::start(|r, streams| {
        (r.what() == "notifications/initialized").then(|| {
            streams.newest().end();
            acknowledged()
        })
    })
    .await;
    let mut bridge = hub.ready(&["--timeout", "2", "--away-wait", "1"]).await;
    for id in 0..3 {
        bridge.send(request(id, "tools/call")).await;
        let (answer, _) = bridge.answer(id).await;
        assert!(answer["error"].is_object(), "{answer}");
    }
    assert!(hub.all("GET").len() <= 7, "{}", hub.all("GET").len());
}

#[tokio::test]
async fn an_initialize_whose_stream_ends_is_repeated_and_answered_once() {
    for lose in [Feed::end as fn(&Feed), Feed::cut, Feed::reset] {
        let hub = Hub::start(move |r, streams| {
            (r.what() == "initialize" && streams.count() == 1).then(|| {
                lose(&streams.newest());
                acknowledged()
            })
        })
        .await;
        let mut bridge = hub.ready(&[]).await;
        assert_eq!(bridge.ask(request(1, "a")).await["result"]["session"], 2);
        assert_eq!((hub.all("GET").len(), hub.all("initialize").len()), (2, 2));
        let (rest, _, stderr) = bridge.finish().await;
        assert_eq!((rest, stderr.as_str()), (vec![], ""));
    }
}

#[tokio::test]
async fn a_server_that_lets_no_new_session_begin_gets_no_storm_whatever_it_says_before() {
    // C30: one try a second, while somebody waits.
    let hub = Hub::start(|r, streams| {
        let is_again = streams.count() > 0 && is_get(r);
        let ends = r.what() == "initialize" && streams.count() > 1;
        if is_again {
            let reply = streams.open();
            streams.say(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
            return Some(reply);
        }
        ends.then(|| {
            streams.newest().end();
            acknowledged()
        })
    })
    .await;
    let mut bridge = hub.ready(&["--away-wait", "3", "--timeout", "3"]).await;
    bridge.ask(request(1, "a")).await;
    hub.streams.forget().end();
    hub.saw_count("GET", 2).await;
    bridge.send(request(2, "tools/call")).await;
    let (answer, _) = bridge.answer(2).await;
    assert_eq!(answer["error"]["data"]["delivery"], "not-delivered", "{answer}");
    assert!(hub.streams.count() <= 12, "{} streams", hub.streams.count());
}

#[tokio::test]
async fn a_confirmation_that_is_refused_as_lost_does_not_loop_for_ever() {
    let hub =
        Hub::start(|r, _| (r.what() == "notifications/initialized").then(|| unknown(7))).await;
    let mut bridge = hub.ready(&["--timeout", "2", "--away-wait", "1"]).await;
    bridge.send(request(1, "tools/call")).await;
    let (answer, _) = bridge.answer(1).await;
    assert!(answer["error"].is_object(), "{answer}");
    assert!(hub.streams.count() <= 7, "{} streams", hub.streams.count());
}

#[tokio::test]
async fn nothing_but_the_handshake_is_said_on_a_new_stream_before_it_is_confirmed() {
    let hub = Hub::start(|r, streams| {
        let is_open = streams.count() < 2 || r.what() != "initialize";
        (r.what() == "tools/call" || !is_open).then(acknowledged)
    })
    .await;
    let mut bridge = hub.ready(&["--timeout", "2"]).await;
    bridge.send(request(1, "tools/call")).await;
    hub.saw("tools/call").await;
    hub.streams.forget().end();
    assert_unknown(&bridge.receive().await, 1);
    hub.saw_count("initialize", 2).await;
    bridge.send(cancel(1)).await;
    bridge.send(request(2, "ping")).await;
    bridge.send(request(3, "a")).await;
    // The new session is never opened, and all of them end for that.
    let (answers, _) = bridge.answers(2).await;
    assert!(
        answers.iter().all(|a| a["error"]["data"]["delivery"] == "not-delivered"),
        "{answers:?}"
    );
    assert_eq!(hub.told(2), ["initialize"]);
}

#[tokio::test]
async fn an_answer_to_a_question_of_the_old_session_is_not_said_in_the_new_one() {
    let hub = Hub::plain().await;
    let mut bridge = hub.ready(&[]).await;
    hub.streams.say(request(7, "sampling/createMessage"));
    assert_eq!(bridge.receive().await["method"], "sampling/createMessage");
    hub.streams.forget().cut();
    let taken_back = bridge.receive().await;
    assert_eq!(taken_back["method"], "notifications/cancelled");
    assert_eq!(taken_back["params"]["requestId"], 7);
    assert_eq!(bridge.receive().await["method"], CHANGED);
    bridge.send(result(7, "{}")).await;
    assert_eq!(bridge.ask(request(1, "a")).await["result"]["session"], 2);
    assert!(hub.all("POST").is_empty());
}

#[tokio::test]
async fn a_hub_that_asks_before_it_answers_initialize_has_its_answer() {
    // C1: answers of the client's never wait; a ping may come at any time.
    let hub = Hub::start(|r, streams| match &*r.what() {
        "initialize" => {
            streams.say(request(99, "ping"));
            Some(Reply::accepted())
        }
        "POST" => {
            streams
                .say(result("\"init\"", r#"{"protocolVersion":"2025-06-18","capabilities":{}}"#));
            Some(Reply::accepted())
        }
        _ => None,
    })
    .await;
    let mut bridge = hub.bridge(&["--timeout", "10"]);
    bridge.send(INITIALIZE).await;
    assert_eq!(bridge.receive().await["id"], 99);
    bridge.send(result(99, "{}")).await;
    assert_eq!(bridge.receive().await["id"], "init");
}

#[tokio::test]
async fn a_keep_alive_pings_in_every_session() {
    let hub = Hub::plain().await;
    let mut bridge = hub.ready(&["--keep-alive", "0.1"]).await;
    hub.saw_count("ping", 2).await;
    hub.streams.forget().end();
    assert_eq!(bridge.receive().await["method"], CHANGED);
    let before = hub.all("ping").len();
    hub.saw_count("ping", before + 2).await;
    let (rest, _, stderr) = bridge.finish().await;
    assert_eq!((rest, stderr.as_str()), (vec![], ""), "its answers never show");
}

/// A JSON-RPC error under the id of the request, as the answer to its POST.
fn error_to(r: &Request, status: u16, text: &str) -> Reply {
    let id = r.id();
    let error =
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32000,"message":"{text}"}}}}"#);
    Reply::status(status, "application/json", error)
}

#[tokio::test]
async fn an_application_error_under_its_own_id_is_passed_on_and_carried_out_once() {
    for (status, text) in [
        (400, "invalid session id for booking 17"),
        (409, "session not found in the calendar"),
        (422, "Session expired: book again"),
        (404, "unknown session of the conference"),
        (404, "item not found"),
    ] {
        let hub =
            Hub::start(move |r, _| (r.what() == "tools/call").then(|| error_to(r, status, text)))
                .await;
        let mut bridge = hub.ready(&[]).await;
        for id in 0..10 {
            let answer = bridge.ask(request(id, "tools/call")).await;
            assert_eq!(answer["error"]["message"], text, "{status}: {answer}");
            let other = bridge.ask(request(100 + id, "resources/subscribe")).await;
            assert_eq!(other["result"]["session"], 1, "{status} {text}: {other}");
        }
        assert_eq!(hub.all("tools/call").len(), 10, "{status} {text}");
        assert_eq!((hub.all("GET").len(), hub.all("initialize").len()), (1, 1), "{status} {text}");
        let (rest, _, stderr) = bridge.finish().await;
        assert_eq!((rest, stderr.as_str()), (vec![], ""));
    }
}

#[tokio::test]
async fn a_loss_in_words_is_proved_by_a_ping_and_the_call_is_repeated_once() {
    let hub = Hub::start(|r, streams| {
        let is_unknown = session_of(r).is_some_and(|session| !streams.knows(session));
        is_unknown.then(|| Reply::status(400, "text/plain", "No transport found for sessionId"))
    })
    .await;
    let mut bridge = hub.ready(&[]).await;
    assert_eq!(bridge.ask(request(1, "tools/call")).await["result"]["session"], 1);
    hub.streams.forget();
    bridge.send(request(2, "tools/call")).await;
    let (answer, _) = bridge.answer(2).await;
    assert_eq!(answer["result"]["session"], 2, "{answer}");
    assert_eq!(hub.all("tools/call").len(), 3);
    assert_eq!(hub.told(1).last().map(String::as_str), Some("ping"));
}

#[tokio::test]
async fn a_complaint_in_words_is_passed_on_where_a_ping_is_taken() {
    let hub = Hub::start(|r, _| {
        let says = || Reply::status(400, "text/plain", "No session for this booking");
        (r.what() == "tools/call").then(says)
    })
    .await;
    let mut bridge = hub.ready(&[]).await;
    for id in 0..8 {
        let answer = bridge.ask(request(id, "tools/call")).await;
        assert_eq!(answer["error"]["data"]["status"], 400, "{answer}");
    }
    assert_eq!((hub.all("GET").len(), hub.all("tools/call").len()), (1, 8));
    let (rest, _, _) = bridge.finish().await;
    assert!(rest.is_empty(), "the bridge's own pings never show: {rest:?}");
}

#[tokio::test]
async fn a_second_loss_is_healed_although_the_next_stream_opens_slowly() {
    let hub = Hub::start(|r, streams| {
        (is_get(r) && streams.count() == 2).then(|| {
            let gate = Gate::new();
            let opening = gate.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(2)).await;
                opening.open();
            });
            streams.open().held(&gate)
        })
    })
    .await;
    let mut bridge = hub.ready(&["--timeout", "4"]).await;
    hub.saw("notifications/initialized").await;
    hub.streams.forget().end();
    hub.saw_count("notifications/initialized", 2).await;
    // With what the stream takes, longer than anything waits for a session.
    tokio::time::sleep(Duration::from_secs(3)).await;
    hub.streams.forget();
    bridge.send(request(1, "tools/call")).await;
    let (answer, _) = bridge.answer(1).await;
    assert_eq!(answer["result"]["session"], 3, "{answer}");
}
