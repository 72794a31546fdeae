//! Sessions that are lost, and opened again.

use super::*;
use crate::limits::{self, Clock};

const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

#[test]
fn all_wait_in_order_for_the_session_that_replaces_a_lost_one() {
    let mut scene = Scene::opened(Limits { parallel: 2, ..LIMITS });
    for id in 2..6 {
        scene.says(request(id, "m"));
    }
    let later = scene.out.values().next_back().unwrap().ticket;
    let (session, error) = (scene.out[&later].session, Box::new(lost()));
    scene.out.remove(&later);
    let event = Event::SessionRejected { ticket: later, session, error, last_word: None };
    assert_eq!(scene.on(event), ["initialize"], "in the client's words");
    assert_eq!(scene.forget("m"), NOTHING, "once, however many meet the loss");
    assert_eq!(scene.reopen(), ["m2", "m3"]);
    assert_eq!(scene.outputs(), ["notifications/tools/list_changed"]);
    assert_eq!(scene.forget("m"), ["m4"]);
    assert_eq!(scene.outputs(), ["2 failed: http-status"], "the refusal is the answer");
}

#[test]
fn who_waits_for_a_session_in_vain_is_told() {
    let mut scene = Scene::opened(LIMITS);
    scene.says(request(2, "a"));
    assert_eq!(scene.forget("a"), ["initialize"]);
    scene.fail("initialize", status(400).not_delivered());
    assert_eq!(scene.outputs(), ["2 failed: http-status"]);
    assert_eq!(scene.engine.deadline(), None, "a refusal is final until somebody asks");
    scene.says(request(3, "a"));
    assert_eq!(scene.wait(limits::AWAY_CAP), ["initialize"]);
}

#[test]
fn nobody_waits_for_ever_for_a_session() {
    let mut scene = Scene::opened(LIMITS);
    scene.says(request(2, "a"));
    scene.forget("a");
    let reopening = policy().timeouts.drain(Clock::Quick);
    scene.wait(reopening);
    assert_eq!(scene.outputs(), ["2 failed: session-lost"]);
    // A loss that was made good does not shorten the next one (D5).
    scene.reopen();
    scene.outputs();
    scene.wait(reopening);
    scene.says(request(3, "a"));
    scene.forget("a");
    scene.wait(reopening - Duration::from_millis(1));
    assert_eq!(scene.outputs(), NOTHING);
}

#[test]
fn a_loss_during_the_clients_own_initialize_holds_all_until_that_is_confirmed() {
    let mut scene = Scene::opened(LIMITS);
    scene.says(request(2, "a"));
    scene.says(request(3, "initialize"));
    assert_eq!(scene.forget("a"), NOTHING);
    assert_eq!(scene.answer("initialize"), NOTHING);
    assert_eq!(scene.outputs(), ["answer 3"], "it is being replaced already");
    assert_eq!(scene.says(notification(INITIALIZED)), [INITIALIZED]);
    assert_eq!(scene.accept(INITIALIZED), ["a2"]);
}

#[test]
fn a_client_that_opens_its_own_session_and_never_confirms_it_is_not_waited_for() {
    let mut scene = Scene::opened(LIMITS);
    scene.says(request(2, "a"));
    assert_eq!(scene.forget("a"), ["initialize"]);
    assert_eq!(scene.says(request(3, "initialize")), ["initialize"], "in place of the bridge's");
    assert_eq!(scene.dropped.len(), 1);
    assert_eq!(scene.answer("initialize"), NOTHING);
    assert_eq!(scene.wait(limits::CONFIRMATION), ["a2"]);
}

#[test]
fn a_loss_that_the_clients_initialize_did_not_mend_is_the_bridges_matter() {
    let mut scene = Scene::opened(LIMITS);
    scene.says(request(2, "a"));
    scene.says(request(3, "initialize"));
    scene.forget("a");
    assert_eq!(scene.fail("initialize", Error::new(ErrorKind::Timeout, "x")), ["initialize"]);
    assert_eq!(scene.outputs(), ["3 failed: timeout"]);
    assert_eq!(scene.reopen(), ["a2"]);
}

#[test]
fn a_session_that_was_replaced_is_not_lost_again_by_what_was_sent_in_it() {
    let mut scene = Scene::opened(LIMITS);
    scene.says(request(2, "a"));
    scene.says(request(3, "b"));
    scene.forget("a");
    assert_eq!(scene.reopen(), ["a2"]);
    assert_eq!(scene.forget("b"), ["b3"], "it goes out in the new one");
}

#[test]
fn a_session_is_lost_even_if_whoever_found_out_was_cancelled() {
    for limits in [LIMITS, SSE] {
        let mut scene = Scene::opened(limits);
        scene.says(request(1, "a"));
        let send = scene.find("a");
        scene.says(cancelled(1));
        let (ticket, session, error) = (send.ticket, send.session, Box::new(lost()));
        let left = scene.on(Event::SessionRejected { ticket, session, error, last_word: None });
        assert_eq!(left, ["initialize"], "{limits:?}");
    }
}

#[test]
fn the_loss_of_a_session_that_was_replaced_is_no_news() {
    let mut scene = Scene::opened(LIMITS);
    scene.says(request(1, "a"));
    let ticket = scene.take("a").ticket;
    scene.says(request(2, "initialize"));
    // The link has begun the new session, whose answer is still on its way.
    let error = Box::new(lost());
    scene.on(Event::SessionRejected { ticket, session: None, error, last_word: None });
    assert_eq!(scene.answer("initialize"), ["a1"], "nothing waits for a confirmation");
}

#[test]
fn storms_are_kept_down() {
    // C7: 5 in 30 seconds.
    let mut scene = Scene::opened(LIMITS);
    for _ in 0..limits::REOPENINGS {
        assert_eq!(scene.lose(), ["initialize"]);
        scene.reopen();
    }
    assert_eq!(scene.lose(), NOTHING);
    assert_eq!(scene.engine.deadline(), Some(scene.now + limits::REOPEN_WINDOW));
    assert_eq!(scene.wait(limits::REOPEN_WINDOW), ["initialize"]);
}

#[test]
fn a_session_lost_while_the_server_is_away_is_asked_for_when_it_is_back() {
    let mut scene = Scene::opened(LIMITS);
    assert_eq!(scene.lose(), ["initialize"]);
    assert_eq!(scene.fail("initialize", refused()), NOTHING);
    let next = scene.engine.deadline().expect("another try, even if nobody waits");
    assert_eq!(scene.wait(next - scene.now), ["initialize"]);
    scene.fail("initialize", status(400));
    assert_eq!(scene.engine.deadline(), None, "a refusal is final until somebody asks");
}

#[test]
fn a_server_that_wants_to_rest_is_not_hurried() {
    let mut scene = Scene::opened(LIMITS);
    scene.lose();
    let rest = Error { retry_after: Some(Duration::from_secs(3)), ..status(503) };
    assert_eq!(scene.fail("initialize", rest), NOTHING);
    assert_eq!(scene.says(request(1, "a")), NOTHING);
    assert_eq!(scene.lose(), NOTHING);
    assert_eq!(scene.engine.deadline(), Some(scene.now + Duration::from_secs(3)));
    assert_eq!(scene.wait(Duration::from_secs(3)), ["initialize"]);
}

#[test]
fn an_answer_that_waits_for_the_server_is_forgotten_with_its_session() {
    let mut scene = Scene::opened(LIMITS);
    scene.asks(1);
    scene.says(request(2, "a"));
    scene.fail("a", refused());
    assert_eq!(scene.says(message(ANSWER)), ["a2"], "the server is tried at once, by one message");
    scene.fail("a", refused());
    assert_eq!(scene.lose(), ["initialize"]);
    assert_eq!(scene.reopen(), ["a2"], "what waited goes out, but for the answer");
}

#[test]
fn what_is_asked_during_the_handshake_is_answered_during_the_handshake() {
    let mut scene = Scene::opened(LIMITS);
    scene.asks(1);
    scene.lose();
    assert_eq!(scene.outputs(), ["roots/list 1", "notifications/cancelled"]);
    assert_eq!(scene.says(message(ANSWER)), NOTHING, "that was a question of the old session");
    scene.asks(1);
    assert_eq!(scene.says(message(ANSWER)), ["answer"]);
}

#[test]
fn a_client_that_begins_anew_has_no_old_questions() {
    let mut scene = Scene::opened(LIMITS);
    scene.asks(1);
    scene.outputs();
    scene.says(request(5, "initialize"));
    assert_eq!(scene.outputs(), ["notifications/cancelled"]);
    assert_eq!(scene.says(message(ANSWER)), NOTHING);
}

#[test]
fn a_malformed_answer_to_initialize_opens_no_session_and_holds_nothing_up() {
    let mut scene = Scene::with(policy(), None);
    scene.says(request(0, "initialize"));
    scene.says(request(1, "a"));
    let malformed = |id, error: Error| Event::Malformed {
        id: Some(crate::message::Id::number(id)),
        error: error.into(),
    };
    let no_json_rpc = Error::new(ErrorKind::InvalidRequest, "no JSON-RPC");
    assert_eq!(scene.on(malformed(0, no_json_rpc)), ["a1"]);
    assert_eq!(scene.outputs(), ["0 failed: bad-response"]);
    let left = scene.on(malformed(8, Error::new(ErrorKind::TooLarge, "too large")));
    assert_eq!(left, ["answer"], "a question of the server's is answered");
}
