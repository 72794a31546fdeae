//! Subscriptions.

use super::*;

#[test]
fn changes_come_through_the_subscription_without_its_mark() {
    let mut rig = Rig::translating();
    let listen = listening(&mut rig);
    rig.server(told(&listen, "notifications/tools/list_changed", json!({})));
    assert_eq!(
        rig.heard_by_client(),
        json!({"jsonrpc":"2.0","method":"notifications/tools/list_changed"})
    );
    let progress = message(
        json!({"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}),
    );
    rig.server(progress.clone());
    assert_eq!(rig.out.pop_front(), Some(Step::ToClient(progress)), "of a request: as it is");
}

#[test]
fn every_list_that_a_server_tells_of_is_listened_for() {
    let mut rig = Rig::new(Some(Era::Modern));
    rig.client(initialize());
    let question = rig.heard_by_server();
    let mut all = offer();
    all["capabilities"] = json!({
        "prompts":{"listChanged":true},"resources":{"listChanged":true},"tools":{"listChanged":false},
    });
    rig.server(result(&question, all));
    rig.out.clear();
    let listen = listening(&mut rig);
    let wanted = json!({"promptsListChanged":true,"resourcesListChanged":true});
    assert_eq!(listen["params"]["notifications"], wanted);
    for method in ["notifications/prompts/list_changed", "notifications/resources/list_changed"] {
        rig.server(told(&listen, method, json!({})));
        assert_eq!(rig.heard_by_client(), json!({"jsonrpc":"2.0","method":method}));
    }
    rig.server(result(&listen, json!({"resultType":"complete"})));
    rig.pass(limits::BACKOFF_BASE);
    let again = rig.heard_by_server();
    rig.server(told(&again, ACKNOWLEDGED, json!({"notifications":{}})));
    let missed = [rig.heard_by_client(), rig.heard_by_client()];
    assert_eq!(missed[0]["method"], "notifications/prompts/list_changed", "after a gap as well");
    assert_eq!(missed[1]["method"], "notifications/resources/list_changed");
}

#[test]
fn subscribing_opens_the_new_stream_before_the_old_one_is_closed() {
    let mut rig = Rig::translating();
    let old = listening(&mut rig);
    let new = rig.ask(4, "resources/subscribe", json!({"uri":"a"}));
    assert_eq!(
        new["params"]["notifications"],
        json!({"toolsListChanged":true,"resourceSubscriptions":["a"]})
    );
    rig.server(told(&old, "notifications/tools/list_changed", json!({})));
    assert_eq!(rig.heard_by_client()["method"], "notifications/tools/list_changed", "no gap");
    rig.server(told(&new, ACKNOWLEDGED, json!({"notifications":{}})));
    assert_eq!(rig.heard_by_server()["params"]["requestId"], old["id"], "now the old one goes");
    assert_eq!(rig.heard_by_client(), json!({"jsonrpc":"2.0","id":4,"result":{}}));
    rig.server(told(&new, "notifications/resources/updated", json!({"uri":"a"})));
    assert_eq!(rig.heard_by_client()["params"], json!({"uri":"a"}));
    rig.client(message(
        json!({"jsonrpc":"2.0","id":5,"method":"resources/subscribe","params":{"uri":"a"}}),
    ));
    assert_eq!(rig.heard_by_client()["result"], json!({}), "it is in force already");
    let last = rig.ask(6, "resources/unsubscribe", json!({"uri":"a"}));
    assert_eq!(last["params"]["notifications"], json!({"toolsListChanged":true}));
}

#[test]
fn a_subscription_that_nobody_acknowledges_does_not_hang_the_client() {
    let mut rig = Rig::translating();
    listening(&mut rig);
    rig.ask(4, "resources/subscribe", json!({"uri":"a"}));
    rig.pass(limits::LISTEN_PATIENCE);
    assert_eq!(rig.heard_by_client()["id"], 4);
}

#[test]
fn a_subscription_that_is_lost_comes_back_and_tells_what_may_have_changed() {
    let mut rig = Rig::translating();
    let listen = listening(&mut rig);
    rig.server(result(&listen, json!({"resultType":"complete"})));
    assert!(rig.out.is_empty());
    rig.pass(limits::BACKOFF_BASE);
    let again = rig.heard_by_server();
    let refused = Error::new(ErrorKind::Connect, "refused").not_delivered();
    rig.fail(message(again), refused);
    rig.pass(limits::BACKOFF_BASE);
    assert!(rig.out.is_empty(), "pauses grow");
    rig.pass(limits::BACKOFF_BASE);
    let again = rig.heard_by_server();
    rig.server(told(&again, ACKNOWLEDGED, json!({"notifications":{}})));
    assert_eq!(rig.heard_by_client()["method"], "notifications/tools/list_changed");
}

#[test]
fn a_resource_that_is_refused_costs_the_others_nothing() {
    let mut rig = Rig::translating();
    let old = listening(&mut rig);
    let new = rig.ask(4, "resources/subscribe", json!({"uri":"bad"}));
    rig.server(error(&new, -32602, Value::Null));
    let answer = rig.heard_by_client();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(4), &json!(-32602)));
    let new = rig.ask(5, "resources/subscribe", json!({"uri":"good"}));
    assert_eq!(new["params"]["notifications"]["resourceSubscriptions"], json!(["good"]));
    rig.server(error(&new, -32603, Value::Null));
    rig.heard_by_client();
    rig.server(result(&old, json!({"resultType":"complete"})));
    rig.pass(limits::BACKOFF_BASE);
    assert_eq!(rig.heard_by_server()["method"], "subscriptions/listen", "the old one comes back");
}

/// Lets the client change what it hears of, without a look at what comes of it.
fn change(rig: &mut Rig, id: u32, method: &str, uri: &str) {
    let params = json!({"uri":uri});
    rig.client(message(json!({"jsonrpc":"2.0","id":id,"method":method,"params":params})));
}

fn uris(listen: &Value) -> &Value {
    &listen["params"]["notifications"]["resourceSubscriptions"]
}

#[test]
fn one_stream_is_unacknowledged_at_a_time_and_the_next_has_all_that_came_meanwhile() {
    let mut rig = Rig::translating();
    let old = listening(&mut rig);
    let first = rig.ask(1, "resources/subscribe", json!({"uri":"a"}));
    for (id, uri) in [(2, "b"), (3, "c"), (4, "d")] {
        change(&mut rig, id, "resources/subscribe", uri);
    }
    change(&mut rig, 5, "resources/unsubscribe", "c");
    assert!(rig.out.is_empty(), "{:?}", rig.out);
    rig.server(told(&first, ACKNOWLEDGED, json!({"notifications":{}})));
    assert_eq!(rig.heard_by_server()["params"]["requestId"], old["id"]);
    assert_eq!(rig.heard_by_client()["id"], 1, "the others are not in force yet");
    let second = rig.heard_by_server();
    assert_eq!(uris(&second), &json!(["a", "b", "d"]));
    rig.server(told(&second, ACKNOWLEDGED, json!({"notifications":{}})));
    assert_eq!(rig.heard_by_server()["params"]["requestId"], first["id"]);
    for id in 2..=5 {
        assert_eq!(rig.heard_by_client(), json!({"jsonrpc":"2.0","id":id,"result":{}}));
    }
    assert!(rig.out.is_empty() && rig.translation.wake_at().is_none());
}

#[test]
fn changes_that_are_refused_together_are_tried_one_by_one() {
    let mut rig = Rig::translating();
    listening(&mut rig);
    let first = rig.ask(1, "resources/subscribe", json!({"uri":"a"}));
    for (id, uri) in [(2, "bad"), (3, "c")] {
        change(&mut rig, id, "resources/subscribe", uri);
    }
    rig.server(told(&first, ACKNOWLEDGED, json!({"notifications":{}})));
    rig.heard_by_server();
    assert_eq!(rig.heard_by_client()["id"], 1);
    let both = rig.heard_by_server();
    assert_eq!(uris(&both), &json!(["a", "bad", "c"]));
    rig.server(error(&both, -32602, Value::Null));
    let bad = rig.heard_by_server();
    assert_eq!(uris(&bad), &json!(["a", "bad"]));
    rig.server(error(&bad, -32602, Value::Null));
    let refused = rig.heard_by_client();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(2), &json!(-32602)));
    let good = rig.heard_by_server();
    assert_eq!(uris(&good), &json!(["a", "c"]));
    rig.server(told(&good, ACKNOWLEDGED, json!({"notifications":{}})));
    rig.heard_by_server();
    assert_eq!(rig.heard_by_client(), json!({"jsonrpc":"2.0","id":3,"result":{}}));
    assert!(rig.out.is_empty() && rig.translation.wake_at().is_none());
}

#[test]
fn the_patience_with_one_change_is_none_with_the_next() {
    let mut rig = Rig::translating();
    listening(&mut rig);
    let first = rig.ask(1, "resources/subscribe", json!({"uri":"a"}));
    rig.pass(limits::LISTEN_PATIENCE - Duration::from_millis(1));
    change(&mut rig, 2, "resources/subscribe", "bad");
    rig.server(told(&first, ACKNOWLEDGED, json!({"notifications":{}})));
    rig.heard_by_server();
    assert_eq!(rig.heard_by_client()["id"], 1);
    let second = rig.heard_by_server();
    rig.pass(Duration::from_millis(1));
    assert!(rig.out.is_empty(), "the server has only just been asked");
    rig.server(error(&second, -32602, Value::Null));
    let refused = rig.heard_by_client();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(2), &json!(-32602)));
}

#[test]
fn a_refused_reopening_forgets_no_resource() {
    let mut rig = Rig::translating();
    listening(&mut rig);
    let listen = rig.ask(1, "resources/subscribe", json!({"uri":"a"}));
    rig.server(told(&listen, ACKNOWLEDGED, json!({"notifications":{}})));
    rig.out.clear();
    rig.server(result(&listen, json!({"resultType":"complete"})));
    rig.pass(limits::BACKOFF_BASE);
    for code in [-32603, -32601] {
        let again = rig.heard_by_server();
        assert_eq!(uris(&again), &json!(["a"]));
        rig.server(error(&again, code, Value::Null));
        assert!(rig.out.is_empty(), "nobody waits for an answer");
        rig.pass(limits::BACKOFF_CAP);
    }
    let again = rig.heard_by_server();
    assert_eq!(uris(&again), &json!(["a"]));
    rig.server(told(&again, ACKNOWLEDGED, json!({"notifications":{}})));
    assert_eq!(rig.heard_by_client()["method"], "notifications/tools/list_changed");
    assert_eq!(rig.heard_by_client()["params"]["uri"], "a");
}

#[test]
fn a_server_that_never_acknowledges_has_one_stream_at_most() {
    let mut rig = Rig::translating();
    rig.client(message(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#));
    let mut last = rig.heard_by_server();
    for (id, uri) in [(1, "a"), (2, "b"), (3, "c")] {
        change(&mut rig, id, "resources/subscribe", uri);
        assert!(rig.out.is_empty());
        rig.pass(limits::LISTEN_PATIENCE);
        assert_eq!(rig.heard_by_client()["id"], id);
        let next = rig.heard_by_server();
        assert_eq!(rig.heard_by_server()["params"]["requestId"], last["id"]);
        last = next;
    }
    assert_eq!(uris(&last), &json!(["a", "b", "c"]));
    rig.server(told(&last, "notifications/resources/updated", json!({"uri":"a"})));
    assert_eq!(rig.heard_by_client()["params"], json!({"uri":"a"}), "and it is heard");
}

#[test]
fn the_resources_of_one_client_have_a_limit() {
    let mut rig = Rig::translating();
    for id in 0..=limits::LISTEN_RESOURCES {
        change(&mut rig, id as u32, "resources/subscribe", &id.to_string());
    }
    rig.out.truncate(limits::LISTEN_RESOURCES + 1);
    let last = match rig.out.pop_back() {
        Some(Step::ToClient(answer)) => value(&answer),
        other => panic!("{other:?}"),
    };
    assert_eq!(last["error"]["data"]["kind"], "overloaded", "{last}");
    rig.out.clear();
    change(&mut rig, 9999, "resources/unsubscribe", "0");
    assert_eq!(rig.heard_by_client()["result"], json!({}), "it can make room");
    change(&mut rig, 9998, "resources/subscribe", "new");
    assert_eq!(rig.heard_by_client()["result"], json!({}));
}

#[test]
fn a_stream_that_ends_as_soon_as_it_is_acknowledged_is_not_hurried() {
    let mut rig = Rig::translating();
    let mut listen = listening(&mut rig);
    let mut pause = limits::BACKOFF_BASE;
    for _ in 0..5 {
        rig.server(result(&listen, json!({"resultType":"complete"})));
        rig.pass(pause - Duration::from_millis(1));
        assert!(rig.out.is_empty(), "pauses grow");
        rig.pass(Duration::from_millis(1));
        listen = rig.heard_by_server();
        rig.server(told(&listen, ACKNOWLEDGED, json!({"notifications":{}})));
        rig.out.clear();
        pause *= 2;
    }
    rig.now += limits::STREAM_STEADY;
    rig.server(result(&listen, json!({"resultType":"complete"})));
    rig.pass(limits::BACKOFF_BASE);
    rig.heard_by_server();
}

#[test]
fn a_server_without_subscriptions_is_not_asked_again() {
    let mut rig = Rig::translating();
    rig.client(message(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#));
    let listen = rig.heard_by_server();
    rig.server(error(&listen, -32601, Value::Null));
    rig.client(message(
        json!({"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"a"}}),
    ));
    assert_eq!(rig.heard_by_client()["error"]["code"], -32601);
    assert!(rig.translation.wake_at().is_none());
}
