//! Servers that cannot be reached, retries and deadlines.

use super::*;
use crate::error::Delivery;
use crate::limits;

#[test]
fn what_waits_for_a_server_goes_out_in_order_when_it_is_back() {
    let mut scene = Scene::opened(LIMITS);
    scene.says(request(1, "a"));
    assert_eq!(scene.fail("a", refused()), NOTHING);
    for id in 2..5 {
        assert_eq!(scene.says(request(id, "a")), if id == 2 { vec!["a1"] } else { vec![] });
    }
    assert_eq!(scene.wait(Duration::from_millis(150)), NOTHING, "one is tried");
    assert_eq!(scene.answer("a"), ["a2", "a3", "a4"]);
    assert_eq!(scene.outputs(), ["answer 1"]);
}

#[test]
fn a_server_that_is_away_is_not_asked_by_everybody_who_waits() {
    let mut scene = Scene::opened(Limits { parallel: 1, ..LIMITS });
    scene.says(request(1, "a"));
    scene.says(request(2, "a"));
    assert_eq!(scene.fail("a", refused()), NOTHING);
    assert_eq!(scene.wait(limits::AWAY_BASE), ["a1"]);
    assert_eq!(scene.fail("a", refused()), NOTHING);
    assert_eq!(scene.wait(limits::AWAY_BASE), NOTHING, "the pause doubles");
    assert_eq!(scene.wait(limits::AWAY_BASE), ["a1"]);
}

#[test]
fn patience_ends_with_an_error_that_says_why() {
    let mut scene = Scene::opened(LIMITS);
    scene.says(request(1, "a"));
    scene.fail("a", refused());
    scene.wait(policy().away_wait);
    let error = scene.failure();
    assert!(error.message.contains("refused"), "{error}");
    assert_eq!(error.delivery, Delivery::NotDelivered);
}

#[test]
fn a_probe_never_waits() {
    // C22
    let mut scene = Scene::opened(LIMITS);
    scene.lose();
    scene.outputs();
    assert_eq!(scene.says(request(7, "server/discover")), NOTHING);
    assert_eq!(scene.outputs(), ["answer 7"], "nobody there knows it");
    let mut scene = Scene::opened(LIMITS);
    scene.says(request(1, "a"));
    scene.fail("a", refused());
    assert_eq!(scene.says(request(7, "server/discover")), ["server/discover"], "tried at once");
}

#[test]
fn a_call_that_was_repeated_may_have_been_carried_out() {
    let mut scene = Scene::opened(LIMITS);
    scene.says(request(1, "tools/list"));
    let cut = Error::new(ErrorKind::Closed, "cut");
    assert_eq!(scene.fail("tools/list", cut), ["tools/list"], "it is safe, and sent again");
    scene.fail("tools/list", refused());
    scene.wait(policy().away_wait);
    assert_eq!(scene.failure().delivery, Delivery::Unknown);
}

#[test]
fn what_is_not_safe_or_has_told_of_progress_is_not_repeated() {
    let mut scene = Scene::opened(LIMITS);
    scene.says(request(1, "a"));
    assert_eq!(scene.fail("a", Error::new(ErrorKind::Closed, "cut")), NOTHING);
    scene.says(request(2, "tools/list"));
    scene.on(Event::Message { message: progress(2), answers: None });
    assert_eq!(scene.fail("tools/list", Error::new(ErrorKind::Closed, "cut")), NOTHING);
    let outputs = ["1 failed: closed", "notifications/progress", "2 failed: closed"];
    assert_eq!(scene.outputs(), outputs);
}

#[test]
fn a_server_that_asks_to_wait_is_waited_for_within_the_requests_own_time() {
    let mut scene = Scene::opened(LIMITS);
    let rest = |seconds| Error { retry_after: Some(Duration::from_secs(seconds)), ..status(429) };
    scene.says(request(1, "a"));
    scene.fail("a", rest(2));
    assert_eq!(scene.says(request(2, "b")), ["b2"], "others go on");
    assert_eq!(scene.wait(Duration::from_secs(2)), ["a1"]);
    scene.fail("a", rest(3000));
    assert_eq!(scene.outputs(), ["1 failed: http-status"]);
}

#[test]
fn the_server_is_told_of_a_timeout_unless_it_was_a_handshake() {
    // C19
    let mut scene = Scene::opened(LIMITS);
    scene.says(request(1, "a"));
    assert_eq!(scene.fail("a", Error::new(ErrorKind::Timeout, "x")), ["notifications/cancelled"]);
    scene.says(request(2, "initialize"));
    assert_eq!(scene.fail("initialize", Error::new(ErrorKind::Timeout, "x")), NOTHING);
}

#[test]
fn silence_ends_a_request_over_a_pair_of_streams_and_the_server_is_told() {
    // S1-23, S1-24
    let mut scene = Scene::with(policy(), None);
    let limit = LIMITS.timeouts.quick.unwrap();
    scene.says(request(7, "a"));
    scene.wait(limit - Duration::from_secs(2));
    scene.on(Event::Message { message: progress(7), answers: None });
    scene.outputs();
    assert_eq!(scene.wait(Duration::from_secs(4)), NOTHING, "progress is a sign of life");
    assert_eq!(scene.wait(limit - Duration::from_secs(4)), ["notifications/cancelled"]);
    let error = scene.failure();
    assert!(error.message.contains("timeout after 30000ms"), "{error}");
    scene.accept("notifications/cancelled");
    assert_eq!(scene.engine.deadline(), None, "nothing is left to look for");
}

#[test]
fn an_answer_that_came_while_the_program_was_stopped_is_not_late() {
    let mut scene = Scene::with(policy(), None);
    scene.says(request(7, "a"));
    scene.wait(Duration::from_secs(60));
    assert_eq!(scene.outputs(), NOTHING, "what has come is looked at first");
    assert_eq!(scene.engine.deadline(), Some(scene.now + limits::STOPPED));
    scene.answer("a");
    scene.wait(limits::STOPPED);
    assert_eq!(scene.outputs(), ["answer 7"]);
}

#[test]
fn a_session_is_kept_alive_by_one_ping_at_a_time() {
    let pause = Duration::from_secs(20);
    let mut scene = Scene::with(Policy { keep_alive: Some(pause), ..policy() }, Some(LIMITS));
    assert_eq!(scene.wait(2 * pause), NOTHING, "not without a session");
    scene.open("0");
    assert_eq!(scene.wait(pause), ["ping"]);
    assert_eq!(scene.wait(pause), NOTHING);
    scene.answer("ping");
    assert_eq!(scene.outputs(), NOTHING, "that is nobody's concern");
    assert_eq!(scene.wait(pause), ["ping"]);
}

#[test]
fn a_client_that_leaves_has_its_answers_first() {
    // C20, C27
    let mut scene = Scene::opened(LIMITS);
    scene.asks(1);
    scene.outputs();
    scene.says(request(2, "a"));
    scene.engine.on_client_closed(scene.now);
    assert_eq!(scene.leaves(), ["answer"], "the server's question has no answer but that");
    assert!(!scene.engine.is_finished());
    scene.answer("a");
    assert!(scene.engine.is_finished());
    assert!(!scene.engine.is_idle(), "the refusal was not taken yet");
    scene.accept("answer");
    assert!(scene.engine.is_idle());
}
