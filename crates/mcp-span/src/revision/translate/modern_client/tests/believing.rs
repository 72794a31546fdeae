//! Beliefs about the server that turn out to be wrong, and servers that change.

use super::*;

#[test]
fn a_server_known_as_modern_is_trusted_and_looked_at() {
    let mut rig = Rig::new(Protocol::Auto, Some(Era::Modern));
    let call = request(json!(1), "tools/call", json!({"name": "a"}));
    let list = request(json!(2), "tools/list", json!({}));
    assert_eq!(rig.client(call.clone()).server(), call);
    assert_eq!(rig.client(list.clone()).server(), list, "nothing is held");
    rig.server(result(&call, modern_list())).client();
    assert!(rig.it.is_through());
    assert_eq!(rig.found.take(), None, "nothing new");
}

#[test]
fn a_wrong_belief_in_a_modern_server_heals() {
    let mut rig = Rig::new(Protocol::Auto, Some(Era::Modern));
    let list = request(json!(1), "tools/list", json!({}));
    rig.client(list.clone());
    let probe = rig.server(bridge_error(&list, Some(400))).server();
    let initialize = rig.server(error(&probe, -32601, Value::Null)).server();
    assert_eq!(rig.found.take(), Some(Era::Legacy));
    let said = rig.server(opened(&initialize, json!({})));
    assert_eq!(said.methods_to_server(), ["notifications/initialized", "tools/list"]);
    // A call may have been carried out: it gets what the server said, and the next is translated.
    let mut rig = Rig::new(Protocol::Auto, Some(Era::Modern));
    let call = request(json!(1), "tools/call", json!({"name": "a"}));
    rig.client(call.clone());
    let refusal = error(&call, -32000, Value::Null);
    let probe = rig.server(refusal.clone()).server();
    assert_eq!(rig.server(error(&probe, -32601, Value::Null)).client(), refusal);
    let next = rig.client(request(json!(2), "tools/call", json!({"name": "a"}))).server();
    assert_eq!(next["method"], "initialize");
}

/// A server believed to be modern that is not, with these requests on their way to it.
fn misjudged(requests: &[&Value]) -> Rig {
    let mut rig = Rig::new(Protocol::Auto, Some(Era::Modern));
    for request in requests {
        assert_eq!(rig.client((*request).clone()).server(), **request);
    }
    rig
}

#[test]
fn all_that_a_misjudged_server_turns_away_is_served() {
    let call = |id: u32| request(json!(id), "tools/call", json!({"name": id}));
    let (one, two, three, four, five) =
        (call(1), call(2), call(3), call(4), listen_to_nothing(json!(5)));
    let mut rig = misjudged(&[&one, &two, &three, &four, &five]);
    let refused = |request: &Value| bridge_error(request, Some(400));
    let probe = rig.server(refused(&two)).server();
    assert_eq!(probe["method"], "server/discover");
    rig.server(refused(&one)).nothing();
    rig.server(refused(&five)).nothing();
    let initialize = rig.server(error(&probe, -32601, Value::Null)).server();
    rig.server(refused(&three)).nothing();
    let said = rig.server(opened(&initialize, json!({"tools": {"listChanged": true}})));
    let names: Vec<_> = said.to_server[1..].iter().map(|m| m["params"]["name"].clone()).collect();
    assert_eq!(names, [2, 1, 3]);
    assert_eq!(said.client_text.len(), 1, "{said:?}");
    assert_eq!(said.to_client[0]["params"]["_meta"][SUBSCRIPTION_ID], 5, "it listens here");
    let sent = rig.server(refused(&four)).server();
    assert_eq!(sent["params"], json!({"name": 4}));
    let said = rig.server(result(&sent, json!({}))).client();
    assert_eq!((&said["id"], &said["result"]["resultType"]), (&json!(4), &json!("complete")));
}

#[test]
fn a_call_that_is_refused_for_its_revision_is_served_in_another() {
    let call = request(json!(1), "tools/call", json!({"name": 1}));
    let mut rig = misjudged(&[&call]);
    let refusal = error(&call, -32022, json!({"supported": [Revision::LATEST_LEGACY]}));
    let probe = rig.server(refusal).server();
    let initialize = rig.server(error(&probe, -32601, Value::Null)).server();
    let said = rig.server(opened(&initialize, json!({})));
    assert_eq!(said.methods_to_server()[1..], ["tools/call"]);
}

#[test]
fn what_a_misjudged_server_has_carried_out_is_not_sent_again() {
    let call = |id: u32| request(json!(id), "tools/call", json!({"name": id}));
    let (one, two, three) = (call(1), call(2), call(3));
    let mut rig = misjudged(&[&one, &two, &three]);
    let probe = rig.server(bridge_error(&one, Some(400))).server();
    let done = result(&two, json!({"content": []}));
    assert_eq!(rig.server(done.clone()).client(), done);
    rig.server(error(&probe, -32601, Value::Null)).server();
    let failed = error(&three, -32000, Value::Null);
    assert_eq!(rig.server(failed.clone()).client(), failed);
}

#[test]
fn all_refusals_of_a_modern_server_reach_the_client() {
    let list = |id: u32| request(json!(id), "prompts/list", json!({}));
    let (one, two, three) = (list(1), list(2), list(3));
    let mut rig = misjudged(&[&one, &two, &three]);
    let refused = |request: &Value| error(request, -32601, Value::Null);
    let probe = rig.server(refused(&one)).server();
    rig.server(refused(&two)).nothing();
    rig.server(refused(&three)).nothing();
    rig.client(cancel(json!(2))).nothing();
    let said = rig.server(discovered(&probe, &[Revision::LATEST_MODERN]));
    assert_eq!(said.to_client, [refused(&one), refused(&three)]);
    assert!(said.to_server.is_empty() && rig.it.is_through());
}

#[test]
fn one_that_refuses_late_turns_away_all_that_did_not_wait() {
    let mut rig = Rig::new(Protocol::Auto, None);
    let first = request(json!(1), "tools/call", json!({"name": "a"}));
    let second = request(json!(2), "tools/call", json!({"name": "b"}));
    rig.client(first.clone()).server();
    rig.client(second.clone()).nothing();
    rig.wait(limits::TRIAL_WAIT).server();
    let probe = rig.server(bridge_error(&second, Some(400))).server();
    rig.server(bridge_error(&first, Some(400))).nothing();
    let initialize = rig.server(error(&probe, -32601, Value::Null)).server();
    let said = rig.server(opened(&initialize, json!({})));
    assert_eq!(said.methods_to_server()[1..], ["tools/call", "tools/call"]);
}

#[test]
fn a_server_known_as_legacy_is_opened_at_once() {
    let mut rig = Rig::new(Protocol::Auto, Some(Era::Legacy));
    let initialize = rig.client(request(json!(1), "tools/list", json!({}))).server();
    assert_eq!(
        initialize["params"],
        json!({
            "protocolVersion": Revision::LATEST_LEGACY,
            "capabilities": envelope()[CLIENT_CAPABILITIES],
            "clientInfo": {"name": "tester", "version": "7"},
        })
    );
    let said = rig.server(opened(&initialize, json!({})));
    assert_eq!(said.methods_to_server(), ["notifications/initialized", "tools/list"]);
    assert_eq!(rig.found.take(), None);
}

#[test]
fn a_wrong_belief_in_a_legacy_server_heals() {
    let supported = json!({"supported": [Revision::LATEST_MODERN]});
    for (code, data) in
        [(-32022, supported), (-32020, Value::Null), (-32601, Value::Null), (-32602, Value::Null)]
    {
        let mut rig = Rig::new(Protocol::Auto, Some(Era::Legacy));
        let list = request(json!(1), "tools/list", json!({}));
        let call = request(json!(2), "tools/call", json!({"name": "a"}));
        let initialize = rig.client(list.clone()).server();
        rig.client(call.clone()).nothing();
        let said = rig.server(error(&initialize, code, data));
        assert!(said.to_client.is_empty());
        assert_eq!(said.to_server, [list, call], "as they came");
        assert!(rig.it.is_through());
        assert_eq!(rig.found.take(), Some(Era::Modern));
    }
}

#[test]
fn a_modern_server_that_turns_legacy_is_found_out_with_the_next_request() {
    let mut rig = Rig::new(Protocol::Auto, None);
    let list = request(json!(1), "tools/list", json!({}));
    rig.client(list.clone());
    rig.server(result(&list, json!({"resultType": "complete"})));
    assert!(rig.it.is_through());
    let mut refusal = error(&json!({"id": 2}), -32000, Value::Null);
    rig.it.on_message_to_client(&parse(&refusal.to_string()));
    assert!(rig.it.is_through(), "a tool may write this");
    refusal["error"]["message"] = "Bad Request: Server not initialized".into();
    rig.it.on_message_to_client(&parse(&refusal.to_string()));
    assert!(!rig.it.is_through());
    let call = request(json!(3), "tools/call", json!({"name": "a"}));
    assert_eq!(rig.client(call.clone()).server(), call);
    refusal["id"] = json!(3);
    let probe = rig.server(refusal).server();
    assert_eq!(probe["method"], "server/discover");
    let said = rig.server(error(&probe, -32601, Value::Null));
    assert_eq!(said.methods_to_server(), ["initialize"], "and then it goes on in the older form");
}

#[test]
fn a_legacy_server_that_turns_modern_gets_the_next_request_as_it_came() {
    let mut rig = Rig::serving(json!({"tools": {}}));
    let sent = rig.client(request(json!(1), "tools/call", json!({"name": "a"}))).server();
    let refusal = error(&sent, -32022, json!({"supported": [Revision::LATEST_MODERN]}));
    let said = rig.server(refusal);
    assert_eq!(said.to_client[0]["error"]["code"], -32022);
    let question = &said.to_server[0];
    assert_eq!(question["params"], json!({"_meta": envelope()}), "in the client's words");
    rig.server(discovered(question, &[Revision::LATEST_MODERN])).nothing();
    assert!(rig.it.is_through());
    assert_eq!(rig.found.take(), Some(Era::Modern));
    let call = request(json!(2), "tools/call", json!({"name": "a"}));
    assert_eq!(rig.client(call.clone()).server(), call);
}

#[test]
fn a_tool_that_writes_as_a_modern_server_does_changes_nothing() {
    let mut rig = Rig::serving(json!({}));
    for code in [-32020, -32021, -32022] {
        let sent = rig.client(request(json!(1), "tools/call", json!({"name": "a"}))).server();
        let said = rig.server(error(&sent, code, Value::Null));
        assert_eq!(said.to_client[0]["error"]["code"], code);
        let question = &said.to_server[0];
        assert_eq!(question["method"], "server/discover", "it is asked before it is believed");
        rig.server(error(question, -32601, Value::Null)).nothing();
        let sent = rig.client(request(json!(2), "tools/call", json!({"name": "a"}))).server();
        assert_eq!(sent["params"], json!({"name": "a"}), "it is still translated");
        rig.server(error(&sent, code, Value::Null)).client();
        rig.now += limits::DOUBT_PAUSE;
    }
}

#[test]
fn questions_of_a_server_that_is_replaced_are_refused_for_that_reason() {
    let mut rig = Rig::serving(json!({}));
    rig.client(request(json!(1), "tools/call", json!({"name": "a"}))).server();
    rig.server(plain(json!("q"), "roots/list", json!({}))).client();
    let sent = rig.client(request(json!(2), "tools/list", json!({}))).server();
    let question = rig.server(error(&sent, -32020, Value::Null)).to_server[0].clone();
    let said = rig.server(discovered(&question, &[Revision::LATEST_MODERN]));
    assert_eq!(said.to_server[0]["error"]["message"], "The server was replaced by another");
    assert_eq!(said.to_server[1]["params"]["reason"], "The server was replaced by another");
}
