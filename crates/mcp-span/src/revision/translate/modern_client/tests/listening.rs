//! Subscriptions that are served here.

use super::*;
use crate::limits;

fn listen(id: u32, notifications: Value) -> Value {
    request(json!(id), "subscriptions/listen", json!({"notifications": notifications}))
}

fn everything() -> Value {
    json!({
        "tools": {"listChanged": true},
        "prompts": {"listChanged": false},
        "resources": {"listChanged": true, "subscribe": true},
    })
}

fn updated(uri: &str) -> Value {
    notice("notifications/resources/updated", json!({"uri": uri}))
}

fn tagged(mut notice: Value, id: u32) -> Value {
    notice["params"]["_meta"] = json!({SUBSCRIPTION_ID: id});
    notice
}

fn acknowledged(id: u32, notifications: Value) -> Value {
    let params = json!({"notifications": notifications});
    tagged(notice("notifications/subscriptions/acknowledged", params), id)
}

/// One that listens for `uris` as request `id`.
fn listening(rig: &mut Rig, id: u32, uris: &[&str]) -> Said {
    let said = rig.client(listen(id, json!({"resourceSubscriptions": uris})));
    let mut last = Said::default();
    for subscribe in &said.to_server {
        assert_eq!(subscribe["method"], "resources/subscribe");
        last = rig.server(result(subscribe, json!({})));
    }
    if said.to_server.is_empty() { said } else { last }
}

#[test]
fn what_the_server_has_is_acknowledged_and_heard() {
    let mut rig = Rig::serving(everything());
    let wanted = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": false});
    let said = rig.client(listen(7, wanted)).client();
    assert_eq!(said, acknowledged(7, json!({"toolsListChanged": true})));
    let news = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    assert_eq!(rig.server(news.clone()).client(), tagged(news.clone(), 7));
    rig.server(notice("notifications/resources/list_changed", json!({}))).nothing();
    rig.client(listen(8, json!({"toolsListChanged": true}))).client();
    assert_eq!(rig.server(news.clone()).to_client, [tagged(news.clone(), 7), tagged(news, 8)]);
}

#[test]
fn without_a_subscription_nothing_is_heard() {
    let mut rig = Rig::serving(everything());
    rig.server(notice("notifications/tools/list_changed", json!({}))).nothing();
    rig.server(updated("a:b")).nothing();
}

#[test]
fn resources_are_subscribed_to_once_and_left_by_the_last() {
    let mut rig = Rig::serving(everything());
    let said = rig.client(listen(1, json!({"resourceSubscriptions": ["a:1", "a:2", "a:1"]})));
    assert!(said.to_client.is_empty(), "the server has not agreed yet");
    let uris: Vec<_> = said.to_server.iter().map(|m| m["params"]["uri"].clone()).collect();
    assert_eq!(uris, ["a:1", "a:2"]);
    rig.server(result(&said.to_server[0], json!({}))).nothing();
    let ack = rig.server(result(&said.to_server[1], json!({}))).client();
    assert_eq!(ack, acknowledged(1, json!({"resourceSubscriptions": ["a:1", "a:2"]})));
    let ack = rig.client(listen(2, json!({"resourceSubscriptions": ["a:2"]}))).client();
    assert_eq!(ack, acknowledged(2, json!({"resourceSubscriptions": ["a:2"]})));
    let both = rig.server(updated("a:2")).to_client;
    assert_eq!(both, [tagged(updated("a:2"), 1), tagged(updated("a:2"), 2)]);
    let left = rig.client(cancel(json!(1))).server();
    assert_eq!(
        (&left["method"], &left["params"]["uri"]),
        (&json!("resources/unsubscribe"), &json!("a:1"))
    );
    rig.server(result(&left, json!({}))).nothing();
    assert_eq!(rig.server(updated("a:2/part")).to_client.len(), 1);
    rig.server(updated("a:1")).nothing();
}

#[test]
fn what_the_server_refuses_is_not_acknowledged() {
    let mut rig = Rig::serving(everything());
    let said = rig.client(listen(1, json!({"resourceSubscriptions": ["a:1", "a:2"]})));
    rig.server(error(&said.to_server[0], -32002, Value::Null)).nothing();
    let ack = rig.server(result(&said.to_server[1], json!({}))).client();
    assert_eq!(ack, acknowledged(1, json!({"resourceSubscriptions": ["a:2"]})));
    let mut rig = Rig::serving(json!({"resources": {}}));
    let ack = rig.client(listen(1, json!({"resourceSubscriptions": ["a:1"]}))).client();
    assert_eq!(ack, acknowledged(1, json!({})));
}

#[test]
fn news_that_come_before_the_acknowledgement_follow_it() {
    let mut rig = Rig::serving(everything());
    let wanted = json!({"toolsListChanged": true, "resourceSubscriptions": ["a:1"]});
    let subscribe = rig.client(listen(1, wanted.clone())).server();
    let news = notice("notifications/tools/list_changed", json!({}));
    rig.server(news.clone()).nothing();
    rig.server(news.clone()).nothing();
    let said = rig.server(result(&subscribe, json!({}))).to_client;
    assert_eq!(said, [acknowledged(1, wanted), tagged(news, 1)]);
}

#[test]
fn changing_ones_mind_quickly_ends_as_it_should() {
    let mut rig = Rig::serving(everything());
    let subscribe = rig.client(listen(1, json!({"resourceSubscriptions": ["a:1"]}))).server();
    rig.client(cancel(json!(1))).nothing();
    let leave = rig.server(result(&subscribe, json!({}))).server();
    assert_eq!(leave["method"], "resources/unsubscribe");
    rig.client(listen(2, json!({"resourceSubscriptions": ["a:1"]}))).nothing();
    let subscribe = rig.server(result(&leave, json!({}))).server();
    assert_eq!(subscribe["method"], "resources/subscribe");
    assert_eq!(
        rig.server(result(&subscribe, json!({}))).client()["params"]["_meta"][SUBSCRIPTION_ID],
        2
    );
}

#[test]
fn the_end_of_the_client_is_the_end_of_its_subscriptions() {
    let mut rig = Rig::serving(everything());
    listening(&mut rig, 1, &["a:1"]).client();
    let said = rig.leave();
    assert_eq!(
        said.to_client,
        [json!({"jsonrpc": "2.0", "id": 1, "result": {
            "_meta": {SUBSCRIPTION_ID: 1, SERVER_INFO: {"name": "old", "version": "1"}},
            "resultType": "complete",
        }})]
    );
    assert!(said.to_server.is_empty(), "the session ends anyway: {said:?}");
    rig.server(updated("a:1")).nothing();
}

/// The ids of the requests that are cancelled; nothing else is said to the server.
fn cancelled(said: &Said) -> Vec<Value> {
    assert!(said.methods_to_server().iter().all(|m| *m == "notifications/cancelled"), "{said:?}");
    said.to_server.iter().map(|m| m["params"]["requestId"].clone()).collect()
}

#[test]
fn a_client_that_leaves_waits_for_nothing_of_ours() {
    let mut rig = Rig::serving(everything());
    let subscribe = rig.client(listen(1, json!({"resourceSubscriptions": ["a:1"]}))).server();
    listening(&mut rig, 2, &["a:2"]).client();
    let unsubscribe = rig.client(cancel(json!(2))).server();
    let said = rig.leave();
    let mut ids = cancelled(&said);
    ids.sort_by_key(Value::to_string);
    assert_eq!(ids, [subscribe["id"].clone(), unsubscribe["id"].clone()]);
    assert_eq!(said.to_client.len(), 1);
    assert_eq!(said.to_client[0]["id"], 1);
}

#[test]
fn the_log_level_holds_up_nobody_who_has_left() {
    let mut rig = Rig::serving(json!({"logging": {}}));
    let loud = json!({"name": "a", "_meta": {LOG_LEVEL: "info"}});
    let level = rig.client(request(json!(1), "tools/call", loud)).server();
    assert_eq!(level["method"], "logging/setLevel");
    rig.leave().nothing();
    let call = rig.wait(limits::LEVEL_WAIT).server();
    let end = rig.server(result(&call, json!({})));
    assert_eq!(end.to_client[0]["id"], 1);
    assert_eq!(cancelled(&end), [level["id"].clone()]);
}

#[test]
fn an_opening_that_only_subscriptions_wait_for_is_given_up() {
    for known in [None, Some(Era::Legacy)] {
        let mut rig = Rig::new(Protocol::Auto, known);
        let own = rig.client(listen(1, json!({"toolsListChanged": true}))).server();
        rig.client(notice("notifications/roots/list_changed", json!({}))).nothing();
        let said = rig.leave();
        assert_eq!(cancelled(&said), [own["id"].clone()]);
        assert_eq!(
            said.to_client,
            [json!({"jsonrpc": "2.0", "id": 1, "result": {
                "_meta": {SUBSCRIPTION_ID: 1}, "resultType": "complete",
            }})]
        );
        assert!(!rig.it.is_holding());
    }
}

#[test]
fn an_opening_that_a_call_waits_for_goes_on() {
    let mut rig = Rig::new(Protocol::Legacy, None);
    let initialize = rig.client(listen(1, json!({"toolsListChanged": true}))).server();
    rig.client(request(json!(2), "tools/call", json!({"name": "a"}))).nothing();
    let said = rig.leave().client();
    assert_eq!(said["result"]["_meta"][SUBSCRIPTION_ID], 1);
    let said = rig.server(opened(&initialize, everything()));
    assert!(said.to_client.is_empty());
    assert_eq!(said.methods_to_server(), ["notifications/initialized", "tools/call"]);
    let ask = plain(json!("q"), "roots/list", json!({}));
    assert_eq!(rig.server(ask).server()["error"]["code"], -32603, "nobody will answer");
}

#[test]
fn a_subscription_that_is_turned_away_too_late_ends() {
    let mut rig = Rig::new(Protocol::Auto, Some(Era::Modern));
    let passed = listen(1, json!({"toolsListChanged": true}));
    rig.client(passed.clone()).server();
    rig.leave().nothing();
    let said = rig.server(bridge_error(&passed, Some(400)));
    assert_eq!(said.to_client[0]["id"], 1);
    assert!(rig.it.session.own.is_empty() && !rig.it.is_holding());
}

#[test]
fn there_is_room_for_so_many_subscriptions() {
    let mut rig = Rig::serving(everything());
    for id in 0..limits::LISTENS {
        rig.client(listen(u32::try_from(id).unwrap(), json!({}))).client();
    }
    let refused = rig.client(listen(1000, json!({}))).client();
    assert_eq!(refused["error"]["data"]["kind"], "overloaded");
    let refused = rig.client(listen(0, json!({}))).client();
    assert_eq!(refused["error"]["code"], -32600, "its id is in use");
    rig.client(cancel(json!(0))).nothing();
    rig.client(listen(1000, json!({}))).client();
    let refused = rig.client(request(json!(5000), "subscriptions/listen", json!({}))).client();
    assert!(refused["error"]["code"].is_number());
    let uris: Vec<String> = (0..limits::LISTEN_RESOURCES + 5).map(|n| format!("a:{n}")).collect();
    let mut rig = Rig::serving(everything());
    let said = rig.client(listen(1, json!({"resourceSubscriptions": uris})));
    assert_eq!(said.to_server.len(), limits::LISTEN_RESOURCES);
    let refused = rig.client(request(json!(2), "subscriptions/listen", json!({}))).client();
    assert_eq!(refused["error"]["code"], -32602);
}

#[test]
fn the_resources_of_all_subscriptions_have_a_limit() {
    let mut rig = Rig::serving(json!({"resources": {"subscribe": true}}));
    let mut asked = 0;
    for id in 0..10 {
        let uris: Vec<String> = (0..1000).map(|n| format!("x:{id}-{n}")).collect();
        let said = rig.client(listen(id, json!({"resourceSubscriptions": uris})));
        asked += said.to_server.len();
    }
    assert_eq!(asked, limits::SUBSCRIBED_RESOURCES);
    // One that there is no room for says so by what it does not acknowledge.
    let said = rig.client(listen(11, json!({"resourceSubscriptions": ["x:more"]}))).client();
    assert_eq!(said["params"]["notifications"], json!({}));
}
