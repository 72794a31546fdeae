//! What may leave, in which order, and how many at once.

use super::*;
use crate::limits;
use crate::message::Id;

#[test]
fn the_handshake_goes_in_order() {
    // S1-02, C1
    let mut scene = Scene::new(LIMITS);
    assert_eq!(scene.says(request(0, "initialize")), ["initialize"]);
    assert_eq!(scene.says(notification(INITIALIZED)), NOTHING);
    assert_eq!(scene.says(request(2, "a")), NOTHING);
    assert_eq!(scene.answer("initialize"), [INITIALIZED]);
    assert_eq!(scene.says(request(3, "b")), NOTHING);
    assert_eq!(scene.accept(INITIALIZED), ["a2", "b3"]);
}

#[test]
fn the_handshake_goes_in_order_over_a_pair_of_streams() {
    let mut scene = Scene::with(policy(), None);
    assert_eq!(scene.says(request(0, "initialize")), ["initialize"]);
    assert_eq!(scene.says(request(2, "a")), NOTHING);
    assert_eq!(scene.answer("initialize"), ["a2"], "as many as the peer takes");
}

#[test]
fn a_client_that_never_confirms_is_not_held_up() {
    let mut scene = Scene::new(LIMITS);
    scene.says(request(0, "initialize"));
    scene.says(request(2, "a"));
    assert_eq!(scene.answer("initialize"), ["a2"]);
}

#[test]
fn after_a_failed_handshake_the_rest_goes_its_way() {
    let mut scene = Scene::new(LIMITS);
    scene.says(request(0, "initialize"));
    scene.says(request(2, "a"));
    assert_eq!(scene.fail("initialize", status(500)), ["a2"]);
    assert_eq!(scene.outputs(), ["0 failed: http-status"]);
}

#[test]
fn what_waits_behind_an_initialize_waits_for_its_next_try_as_well() {
    let mut scene = Scene::new(LIMITS);
    scene.says(request(0, "initialize"));
    scene.says(request(1, "a"));
    assert_eq!(scene.fail("initialize", status(503)), NOTHING);
    assert_eq!(scene.wait(limits::AWAY_BASE), ["initialize"]);
    assert_eq!(scene.answer("initialize"), ["a1"]);
    let mut scene = Scene::new(LIMITS);
    scene.says(request(0, "initialize"));
    scene.says(request(1, "a"));
    let busy = Error { retry_after: Some(Duration::from_secs(1)), ..status(503) };
    assert_eq!(scene.fail("initialize", busy), NOTHING);
    assert_eq!(scene.wait(Duration::from_secs(1)), ["initialize"]);
    assert_eq!(scene.fail("initialize", status(500)), ["a1"], "there is no other try");
}

#[test]
fn modern_requests_do_not_wait_for_a_legacy_handshake() {
    let mut scene = Scene::new(LIMITS);
    assert_eq!(scene.says(request(1, "a")), ["a1"], "and nobody need begin with one");
    scene.says(request(0, "initialize"));
    assert_eq!(scene.says(request(2, "b")), NOTHING);
    assert_eq!(scene.says(modern(3)), ["tools/call"]);
}

#[test]
fn so_many_are_out_at_once_and_the_others_wait_in_order() {
    let mut scene = Scene::opened(LIMITS);
    for id in 1..7 {
        scene.says(request(id, "a"));
    }
    assert_eq!(scene.out.len(), 4);
    assert_eq!(scene.answer("a"), ["a5"]);
    assert_eq!(scene.fail("a", status(500)), ["a6"]);
}

#[test]
fn serial_is_one_at_a_time_pings_included() {
    // S4-02
    let mut scene = Scene::opened(Limits { serial: true, ..LIMITS });
    assert_eq!(scene.says(request(1, "a")), ["a1"]);
    assert_eq!(scene.says(request(2, "ping")), NOTHING);
    assert_eq!(scene.answer("a"), ["ping"]);
}

#[test]
fn answers_cancellations_and_pings_never_wait_behind_calls() {
    let mut scene = Scene::opened(Limits { parallel: 1, ..LIMITS });
    scene.asks(7);
    scene.says(request(1, "a"));
    assert_eq!(scene.says(request(2, "ping")), ["ping"]);
    assert_eq!(scene.says(message(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#)), ["answer"]);
    assert_eq!(scene.says(cancelled(99)), ["notifications/cancelled"]);
    assert_eq!(scene.says(notification("n")), NOTHING);
}

/// Answers to so many questions of the server's; gives back how many leave.
fn answers(scene: &mut Scene, count: usize) -> usize {
    (0..count).for_each(|id| scene.asks(id));
    let answer = |id| message(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    (0..count).map(|id| scene.says(answer(id)).len()).sum()
}

#[test]
fn urgent_ones_wait_for_their_like_and_die_with_their_session() {
    let mut scene = Scene::opened(LIMITS);
    assert_eq!(answers(&mut scene, limits::URGENT_IN_FLIGHT + 2), limits::URGENT_IN_FLIGHT);
    assert_eq!(scene.accept("answer"), ["answer"], "each that arrives makes room for the next");
    scene.asks(0);
    scene.says(request(1, "a"));
    assert_eq!(scene.forget("a"), ["initialize"]);
    assert_eq!(scene.accept("answer"), NOTHING, "nobody wants to hear those that waited");
    let answer = message(r#"{"jsonrpc":"2.0","id":0,"result":{}}"#);
    assert_eq!(scene.says(answer), NOTHING, "nor any other");
}

#[test]
fn word_of_an_unknown_request_needs_a_session_however_long_it_waits() {
    let mut scene = Scene::opened(LIMITS);
    answers(&mut scene, limits::URGENT_IN_FLIGHT);
    scene.says(request(1, "a"));
    assert_eq!(scene.says(cancelled(99)), NOTHING);
    assert!(!scene.find("a").needs_session_id);
    assert_eq!(scene.accept("answer"), ["notifications/cancelled"]);
    assert!(scene.find("notifications/cancelled").needs_session_id);
}

#[test]
fn what_has_not_left_can_be_withdrawn() {
    // C32
    let mut scene = Scene::opened(Limits { parallel: 1, ..LIMITS });
    scene.says(request(1, "a"));
    scene.says(request(2, "b"));
    assert_eq!(scene.says(cancelled(2)), NOTHING);
    scene.find("a").progress.mark_started();
    assert_eq!(scene.says(cancelled(1)), ["notifications/cancelled"]);
    assert_eq!(scene.dropped.len(), 1);
    assert_eq!(scene.outputs(), NOTHING, "both end silently");
}

#[test]
fn an_id_is_in_flight_once() {
    let mut scene = Scene::opened(LIMITS);
    scene.says(request(1, "a"));
    assert_eq!(scene.says(request(1, "b")), NOTHING);
    assert_eq!(scene.outputs(), ["1 failed: invalid-request"]);
    scene.answer("a");
    assert_eq!(scene.outputs(), ["answer 1"]);
}

#[test]
fn more_than_can_be_held_is_not_read_unless_the_server_waits_for_answers() {
    let mut scene = Scene::opened(LIMITS);
    let large = |id: u32| {
        let text = "x".repeat(limits::UNANSWERED_BYTES / 8);
        message(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"a","params":{{"x":"{text}"}}}}"#))
    };
    for id in 1..9 {
        assert!(scene.engine.has_room(), "{id}");
        scene.says(large(id));
    }
    assert!(!scene.engine.has_room());
    scene.asks(1);
    assert!(scene.engine.has_room(), "its answer may stand behind requests");
    scene.outputs();
    scene.says(request(9, "a"));
    assert_eq!(scene.outputs(), ["9 failed: overloaded"]);
    scene.answer("a");
    scene.says(request(9, "a"));
    assert_eq!(scene.outputs(), ["answer 1"]);
}

#[test]
fn a_request_that_is_repeated_has_a_new_id_which_the_client_never_sees() {
    let mut scene = Scene::opened(LIMITS);
    let list = String::from_utf8_lossy(modern(7).bytes()).replace("tools/call", "tools/list");
    let list = message(&list);
    scene.says(list.clone());
    let cut = Error::new(ErrorKind::NoResponse, "No response received for request ID 7");
    assert_eq!(scene.fail("tools/list", cut), ["tools/list"]);
    let sent = scene.find("tools/list").message;
    let new = sent.id().unwrap().clone();
    assert_ne!(new, Id::number(7));
    assert_eq!(crate::message::edit::with_id(&sent, &Id::number(7)), list, "nothing else is new");
    let text = format!("No response received for request ID {new}");
    scene.fail("tools/list", Error::new(ErrorKind::NoResponse, text));
    assert_eq!(scene.failure().message, "No response received for request ID 7");
    scene.says(list.clone());
    scene.fail("tools/list", Error::new(ErrorKind::NoResponse, "x"));
    scene.answer("tools/list");
    assert_eq!(scene.outputs(), ["answer 7"]);
    scene.says(list);
    scene.fail("tools/list", Error::new(ErrorKind::NoResponse, "x"));
    scene.find("tools/list").progress.mark_started();
    assert_eq!(scene.says(cancelled(7)), NOTHING, "it is cancelled by closing its stream");
    assert_eq!(scene.dropped.len(), 1);
}

#[test]
fn a_server_that_asks_without_end_is_refused_until_some_is_answered() {
    let mut scene = Scene::with(policy(), None);
    scene.open("0");
    let most = limits::SERVER_REQUESTS_BYTES / 256;
    for id in 0..2 * most {
        scene.engine.on_event(
            Event::Message {
                message: message(&format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"method":"roots/list"}}"#
                )),
                answers: None,
            },
            scene.now,
        );
    }
    let passed = scene.outputs().len();
    assert!((most / 2..most).contains(&passed), "{passed}");
    assert_eq!(scene.leaves().len(), 2 * most - passed, "each of the others has an answer");
    let refusal = scene.find("answer").message;
    assert!(String::from_utf8_lossy(refusal.bytes()).contains("overloaded"));
    scene.says(message(r#"{"jsonrpc":"2.0","id":0,"result":{}}"#));
    scene.asks(2 * most);
    assert_eq!(scene.outputs().len(), 1, "there is room for one more");
}
