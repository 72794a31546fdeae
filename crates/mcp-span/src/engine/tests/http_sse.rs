//! HTTP+SSE: answers come on the stream that is the session.

use super::*;
use crate::limits;

#[test]
fn answers_on_the_stream_of_http_sse_are_matched_by_id_and_once() {
    // S2-40, S3-15
    let mut scene = Scene::opened(SSE);
    for id in 1..4 {
        scene.says(request(id, "a"));
    }
    scene.on(Event::Message { message: answer_to(&request("1.0", "a")), answers: None });
    scene.on(Event::Message { message: answer_to(&request(3, "a")), answers: None });
    assert_eq!(scene.dropped.len(), 3, "their POSTs, and that of the handshake");
    assert_eq!(scene.engine.table.tickets(|_| true).len(), 1);
}

#[test]
fn an_acknowledgement_of_http_sse_makes_room_for_the_next() {
    let mut scene = Scene::opened(Limits { parallel: 1, ..SSE });
    scene.says(request(1, "a"));
    assert_eq!(scene.says(request(2, "b")), NOTHING);
    assert_eq!(scene.accept("a"), ["b2"]);
    let mut scene = Scene::opened(Limits { parallel: 1, serial: true, ..SSE });
    scene.says(request(1, "a"));
    scene.says(request(2, "b"));
    assert_eq!(scene.accept("a"), NOTHING, "unless they go one by one");
}

#[test]
fn only_its_own_progress_gives_a_request_more_time() {
    // C28
    let mut scene = Scene::opened(SSE);
    let limit = LIMITS.timeouts.quick.unwrap();
    scene.says(request(1, "a"));
    scene.says(request(2, "a"));
    scene.wait(limit / 2);
    scene.on(Event::Message { message: progress(2), answers: None });
    scene.on(Event::Message { message: progress("\"unknown\""), answers: None });
    scene.outputs();
    scene.wait(limit / 2);
    assert_eq!(scene.outputs(), ["1 failed: timeout"]);
}

#[test]
fn time_in_which_nobody_could_listen_or_run_does_not_count() {
    let mut scene = Scene::opened(SSE);
    let limit = LIMITS.timeouts.quick.unwrap();
    scene.says(request(1, "a"));
    scene.engine.set_client_ready(false, scene.now);
    scene.wait(limit);
    scene.engine.set_client_ready(true, scene.now);
    scene.wait(limit - Duration::from_secs(1));
    assert_eq!(scene.outputs(), NOTHING, "the client took nothing");
    scene.wait(limits::STOPPED + Duration::from_secs(1));
    assert_eq!(scene.outputs(), NOTHING, "the program was stopped");
    scene.wait(limits::STOPPED);
    assert_eq!(scene.outputs(), ["1 failed: timeout"]);
}

#[test]
fn an_answer_may_come_although_its_post_broke() {
    let mut scene = Scene::opened(SSE);
    scene.says(request(1, "a"));
    scene.says(request(2, "a"));
    let broke = || Error::new(ErrorKind::Closed, "broke");
    scene.fail("a", broke());
    scene.fail("a", broke());
    assert_eq!(scene.outputs(), NOTHING);
    scene.on(Event::Message { message: answer_to(&request(2, "a")), answers: None });
    scene.wait(limits::LINGER);
    assert_eq!(scene.outputs(), ["answer 2", "1 failed: closed"]);
}

#[test]
fn the_end_of_the_stream_ends_what_was_sent_on_it_and_keeps_what_was_not() {
    // C7
    let mut scene = Scene::opened(SSE);
    for id in 1..4 {
        scene.says(request(id, "a"));
    }
    scene.find("a").progress.mark_started();
    let cut = Error::new(ErrorKind::Closed, "cut");
    assert_eq!(scene.on(Event::StreamEnded(cut.into())), ["initialize"]);
    assert_eq!(scene.outputs(), ["1 failed: closed"]);
    assert_eq!(scene.reopen(), ["a2", "a3"]);
}

#[test]
fn a_server_that_turns_out_to_speak_http_sse_is_heard_on_its_stream() {
    let mut scene = Scene::new(LIMITS);
    scene.says(request(0, "initialize"));
    scene.on(Event::StreamOpened);
    let answer = answer_to(&request(0, "initialize"));
    scene.on(Event::Message { message: answer, answers: None });
    assert_eq!(scene.outputs(), ["answer 0"]);
    assert_eq!(scene.says(notification(INITIALIZED)), [INITIALIZED]);
}

#[test]
fn the_clock_of_a_message_starts_when_the_stream_is_open() {
    let mut scene = Scene::new(SSE);
    let limit = LIMITS.timeouts.quick.unwrap();
    scene.says(request(0, "initialize"));
    assert_eq!(scene.engine.deadline(), None, "a login may take its time");
    scene.wait(2 * limit);
    scene.on(Event::StreamOpened);
    assert_eq!(scene.engine.deadline(), Some(scene.now + limit));
    scene.wait(limit);
    assert_eq!(scene.outputs(), ["0 failed: timeout"]);
}
