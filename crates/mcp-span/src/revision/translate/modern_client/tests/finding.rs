//! Which era the server speaks is found out, and by what.

use super::*;

#[test]
fn a_legacy_client_is_not_touched() {
    for protocol in [Protocol::Auto, Protocol::Legacy, Protocol::Modern] {
        let mut rig = Rig::new(protocol, None);
        let opening = plain(json!(1), "initialize", json!({}));
        assert_eq!(rig.client(opening.clone()).server(), opening);
        assert_eq!(rig.it.client_era(), Some(Era::Legacy));
        assert!(rig.it.is_through());
        let ping = plain(json!(1), "ping", json!({}));
        assert_eq!(rig.server(ping.clone()).client(), ping);
    }
}

#[test]
fn a_question_that_a_modern_server_answers_opens_the_way() {
    let mut rig = Rig::new(Protocol::Auto, None);
    let asked = request(json!("probe"), "server/discover", json!({}));
    assert_eq!(rig.client(asked.clone()).server(), asked);
    assert_eq!(rig.it.client_era(), Some(Era::Modern));
    assert!(!rig.it.is_through());
    let answer = discovered(&asked, &[Revision::LATEST_MODERN]);
    assert_eq!(rig.server(answer.clone()).client(), answer);
    assert!(rig.it.is_through());
    assert_eq!(rig.found.take(), Some(Era::Modern));
    assert_eq!(rig.found.take(), None, "once");
}

#[test]
fn a_question_that_is_refused_leaves_the_choice_to_the_client() {
    // C22
    let mut rig = Rig::new(Protocol::Auto, None);
    let asked = request(json!(0), "server/discover", json!({}));
    rig.client(asked.clone());
    let refusal = error(&asked, -32601, Value::Null);
    assert_eq!(rig.server(refusal.clone()).client(), refusal);
    assert_eq!(rig.found.take(), Some(Era::Legacy));
    let opening = plain(json!(1), "initialize", json!({}));
    assert_eq!(rig.client(opening.clone()).server(), opening, "it falls back");
    assert!(rig.it.is_through());
    // The other one goes on in the modern way.
    let mut rig = Rig::new(Protocol::Auto, None);
    rig.client(asked.clone());
    rig.server(refusal);
    let call = rig.client(request(json!(1), "tools/call", json!({"name": "a"}))).server();
    assert_eq!(call["method"], "initialize");
}

#[test]
fn a_list_of_old_revisions_is_a_plain_refusal_to_the_client() {
    let mut rig = Rig::new(Protocol::Auto, None);
    let asked = request(json!(0), "server/discover", json!({}));
    rig.client(asked.clone());
    let data = json!({"supported": [Revision::LATEST_LEGACY]});
    let said = rig.server(error(&asked, -32022, data)).client();
    assert_eq!((&said["id"], &said["error"]["code"]), (&json!(0), &json!(-32601)));
    assert_eq!(rig.found.take(), Some(Era::Legacy));
}

#[test]
fn what_is_said_during_the_question_waits_for_its_answer() {
    let mut rig = Rig::new(Protocol::Auto, None);
    let asked = request(json!(0), "server/discover", json!({}));
    rig.client(asked.clone());
    let listen = request(json!(1), "subscriptions/listen", json!({"notifications": {}}));
    rig.client(listen.clone()).nothing();
    assert!(rig.it.is_holding());
    let said = rig.server(discovered(&asked, &[Revision::LATEST_MODERN]));
    assert_eq!((said.to_client.len(), said.to_server), (1, vec![listen]));
    assert!(!rig.it.is_holding());
}

#[test]
fn trouble_decides_nothing() {
    let mut rig = Rig::new(Protocol::Auto, None);
    let asked = request(json!(0), "server/discover", json!({}));
    for status in [None, Some(401), Some(403), Some(408), Some(429), Some(502)] {
        rig.client(asked.clone());
        assert_eq!(rig.server(bridge_error(&asked, status)).client()["id"], 0);
        let list = request(json!(1), "tools/list", json!({}));
        assert_eq!(rig.client(list.clone()).server(), list, "still unknown");
        assert_eq!(rig.server(bridge_error(&list, status)).client()["id"], 1);
    }
    assert_eq!(rig.found.take(), None);
}

#[test]
fn a_safe_request_is_the_question() {
    let mut rig = Rig::new(Protocol::Auto, None);
    let list = request(json!(1), "tools/list", json!({}));
    assert_eq!(rig.client(list.clone()).server(), list);
    let call = request(json!(2), "tools/call", json!({"name": "a"}));
    let other = request(json!(3), "tools/call", json!({"name": "b"}));
    rig.client(call).nothing();
    rig.client(other.clone()).nothing();
    rig.client(cancel(json!(2))).nothing();
    let said = rig.server(result(&list, modern_list()));
    assert_eq!(said.to_client.len(), 1);
    assert_eq!(said.to_server, [other], "what was cancelled is not sent");
    assert!(rig.it.is_through());
    assert_eq!(rig.found.take(), Some(Era::Modern));
}

#[test]
fn an_answer_without_a_type_leads_to_the_question_and_to_translation() {
    let refusals: [fn(&Value) -> Value; 4] = [
        |list| result(list, json!({"tools": []})),
        |list| error(list, -32000, Value::Null),
        |list| error(list, -32601, Value::Null),
        |list| bridge_error(list, Some(400)),
    ];
    for refuse in refusals {
        let mut rig = Rig::new(Protocol::Auto, None);
        let list = request(json!(1), "tools/list", json!({"cursor": "c"}));
        rig.client(list.clone());
        rig.client(request(json!(2), "tools/call", json!({"name": "a"}))).nothing();
        let probe = rig.server(refuse(&list)).server();
        assert_eq!(probe["method"], "server/discover");
        assert_eq!(probe["params"]["_meta"], envelope());
        let initialize = rig.server(error(&probe, -32601, Value::Null)).server();
        assert_eq!(rig.found.take(), Some(Era::Legacy));
        let said = rig.server(opened(&initialize, json!({})));
        let methods = said.methods_to_server();
        assert_eq!(methods, ["notifications/initialized", "tools/list", "tools/call"]);
        assert_eq!(said.to_server[1]["params"], json!({"cursor": "c"}));
        let said = rig.server(result(&said.to_server[1], json!({"tools": []}))).client();
        assert_eq!((&said["id"], &said["result"]["resultType"]), (&json!(1), &json!("complete")));
    }
}

#[test]
fn a_modern_server_may_refuse_what_it_likes() {
    let mut rig = Rig::new(Protocol::Auto, None);
    let list = request(json!(1), "prompts/list", json!({}));
    rig.client(list.clone());
    let refusal = error(&list, -32601, Value::Null);
    let probe = rig.server(refusal.clone()).server();
    assert_eq!(rig.server(discovered(&probe, &["some day"])).client(), refusal);
    assert!(rig.it.is_through());
    // Some errors say it at once.
    let mut rig = Rig::new(Protocol::Auto, None);
    rig.client(list.clone());
    let refusal = error(&list, -32021, json!({"requiredCapabilities": {}}));
    assert_eq!(rig.server(refusal.clone()).client(), refusal);
    assert!(rig.it.is_through());
}

#[test]
fn what_has_no_answer_to_learn_from_is_preceded_by_the_question() {
    let mut rig = Rig::new(Protocol::Auto, None);
    let listen = request(json!(1), "subscriptions/listen", json!({"notifications": {}}));
    let probe = rig.client(listen.clone()).server();
    assert_eq!(probe["method"], "server/discover");
    assert_ne!(probe["id"], 1);
    let said = rig.server(discovered(&probe, &[Revision::LATEST_MODERN]));
    assert_eq!(said.server(), listen);
    assert!(rig.it.is_through());
}

#[test]
fn a_call_is_repeated_in_the_older_form_only_if_it_was_turned_away() {
    let answers = [
        (-32600, "Missing session ID", true),
        (-32000, "Server not initialized", true),
        (-32602, "Invalid request parameters", true),
        (-32000, "Bad Request: No valid SESSION ID provided", true),
        (-32000, "Bad Request: Mcp-Session-Id header is required", true),
        (-32000, "Session not found", true),
        (-32000, "There is no session", true),
        (-32000, "The disk is full", false),
        (-32000, "payment session failed after charge", false),
        (-32000, "the payment was initialized, then the disk was full", false),
        (-32603, "Internal error", false),
    ];
    for (code, text, is_repeated) in answers {
        let mut rig = Rig::new(Protocol::Auto, None);
        let call = request(json!(1), "tools/call", json!({"name": "a"}));
        assert_eq!(rig.client(call.clone()).server(), call, "as it came");
        let mut refusal = error(&call, code, Value::Null);
        refusal["error"]["message"] = text.into();
        let probe = rig.server(refusal.clone()).server();
        let said = rig.server(error(&probe, -32601, Value::Null));
        if is_repeated {
            assert_eq!(said.methods_to_server(), ["initialize"], "{code} {text}");
        } else {
            assert_eq!(said.to_client, [refusal], "{code} {text}");
        }
    }
}

#[test]
fn what_an_error_carries_is_no_reason_to_call_again() {
    let charged = |call: &Value| error(call, -32000, json!("Server not initialized: session ID"));
    let broken = |call: &Value| bridge_error(call, Some(502));
    let answers: [&dyn Fn(&Value) -> Value; 2] = [&charged, &broken];
    for answer in answers {
        let mut rig = Rig::new(Protocol::Auto, Some(Era::Modern));
        let call = request(json!(1), "tools/call", json!({"name": "pay"}));
        rig.client(call.clone());
        let refusal = answer(&call);
        let said = rig.server(refusal.clone());
        let said = match said.to_server.first() {
            Some(probe) => rig.server(error(probe, -32601, Value::Null)),
            None => said,
        };
        assert_eq!(said.client(), refusal);
    }
}

#[test]
fn a_server_that_works_on_the_first_call_holds_up_nobody() {
    let mut rig = Rig::new(Protocol::Auto, None);
    let first = request(json!(1), "tools/call", json!({"name": "a"}));
    let second = request(json!(2), "tools/call", json!({"name": "b"}));
    rig.client(first.clone()).server();
    rig.client(second.clone()).nothing();
    assert_eq!(rig.wait(limits::TRIAL_WAIT).server(), second);
    let said = rig.server(result(&first, json!({"resultType": "complete"}))).client();
    assert_eq!(said["id"], 1);
    assert!(rig.it.is_through());
}

#[test]
fn a_question_that_fails_fails_the_one_that_it_was_for() {
    let mut rig = Rig::new(Protocol::Auto, None);
    let probe = rig
        .client(request(json!(1), "subscriptions/listen", json!({"notifications": {}})))
        .server();
    rig.client(request(json!(2), "subscriptions/listen", json!({"notifications": {}}))).nothing();
    let list = request(json!(3), "tools/list", json!({}));
    rig.client(list.clone()).nothing();
    let said = rig.server(bridge_error(&probe, None));
    assert_eq!(said.to_client[0]["id"], 1);
    assert_eq!(said.methods_to_server(), ["server/discover"], "the next asks anew");
    let said = rig.server(bridge_error(&said.to_server[0], None));
    assert_eq!(said.to_client[0]["id"], 2);
    assert_eq!(said.to_server, [list], "and the one after that in its own way");
}

#[test]
fn a_cancelled_question_is_no_answer_to_wait_for() {
    let mut rig = Rig::new(Protocol::Auto, None);
    rig.client(request(json!(1), "tools/list", json!({})));
    let second = request(json!(2), "prompts/list", json!({}));
    rig.client(second.clone()).nothing();
    let said = rig.client(cancel(json!(1)));
    assert_eq!(said.to_server, [cancel(json!(1)), second]);
    // The answer that was kept while the server was asked is not wanted any more.
    let probe = rig.server(result(&json!({"id": 2}), json!({}))).server();
    rig.client(cancel(json!(2))).nothing();
    rig.server(discovered(&probe, &[Revision::LATEST_MODERN])).nothing();
    assert!(rig.it.is_through());
}

#[test]
fn a_server_that_has_said_that_it_is_legacy_may_dislike_our_parameters() {
    let mut rig = Rig::new(Protocol::Auto, None);
    let probe = rig
        .client(request(json!(1), "subscriptions/listen", json!({"notifications": {}})))
        .server();
    let initialize = rig.server(error(&probe, -32601, Value::Null)).server();
    let said = rig.server(error(&initialize, -32602, Value::Null)).client();
    assert_eq!((&said["id"], &said["error"]["code"]), (&json!(1), &json!(-32602)));
}

#[test]
fn with_legacy_nobody_is_asked() {
    let mut rig = Rig::new(Protocol::Legacy, Some(Era::Modern));
    let said = rig.client(request(json!(1), "server/discover", json!({}))).client();
    assert_eq!((&said["id"], &said["error"]["code"]), (&json!(1), &json!(-32601)));
    let initialize = rig.client(request(json!(2), "tools/call", json!({"name": "a"}))).server();
    let said = rig.server(error(&initialize, -32601, Value::Null)).client();
    assert_eq!(said["id"], 2, "the modern era is not tried");
    let initialize = rig.client(request(json!(3), "tools/list", json!({}))).server();
    rig.server(opened(&initialize, json!({})));
    let said = rig.client(request(json!(4), "server/discover", json!({}))).client();
    assert_eq!(said["error"]["code"], -32601);
}

#[test]
fn with_modern_the_question_is_answered_by_translation() {
    let mut rig = Rig::new(Protocol::Modern, None);
    let asked = request(json!("d"), "server/discover", json!({}));
    assert_eq!(rig.client(asked.clone()).server(), asked);
    let initialize = rig.server(error(&asked, -32601, Value::Null)).server();
    let capabilities =
        json!({"tools": {"listChanged": true}, "logging": {}, "tasks": {"list": {}}});
    let said = rig.server(opened(&initialize, capabilities));
    assert_eq!(said.methods_to_server(), ["notifications/initialized"]);
    assert_eq!(
        said.to_client,
        [json!({"jsonrpc": "2.0", "id": "d", "result": {
            "supportedVersions": [Revision::LATEST_MODERN],
            "capabilities": {"tools": {"listChanged": true}, "logging": {}},
            "instructions": "be kind",
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "_meta": {SERVER_INFO: {"name": "old", "version": "1"}},
        }})]
    );
    assert_eq!(rig.client(asked).client()["id"], "d", "and again, without the server");
}

#[test]
fn an_empty_answer_to_the_question_is_no_sign_of_the_modern_era() {
    let mut rig = Rig::new(Protocol::Modern, None);
    let asked = request(json!("d"), "server/discover", json!({}));
    rig.client(asked).server();
    let said = rig.server(json!({"jsonrpc": "2.0", "id": "d", "result": {}}));
    assert_eq!(said.methods_to_server(), ["initialize"]);
}

#[test]
fn a_client_that_changes_its_mind_is_let_through() {
    let mut rig = Rig::serving(json!({"tools": {"listChanged": true}}));
    let call = rig.client(request(json!(1), "tools/call", json!({"name": "a"}))).server();
    let all = json!({"notifications": {"toolsListChanged": true}});
    rig.client(request(json!(2), "subscriptions/listen", all)).client();
    let opening = plain(json!(3), "initialize", json!({}));
    let said = rig.client(opening.clone());
    assert_eq!(said.to_client[0]["id"], 2, "the subscription ends");
    assert_eq!(said.to_server, [opening]);
    assert!(!rig.it.is_through(), "a call is still under way under our id");
    assert_eq!(rig.server(result(&call, json!({}))).client()["id"], 1);
    assert!(rig.it.is_through());
}

#[test]
fn an_initialize_that_overtakes_the_question_lets_all_pass() {
    let mut rig = Rig::new(Protocol::Auto, None);
    let call = request(json!(1), "subscriptions/listen", json!({"notifications": {}}));
    let probe = rig.client(call.clone()).server();
    let opening = plain(json!(2), "initialize", json!({}));
    assert_eq!(rig.client(opening.clone()).to_server, [call, opening]);
    assert!(!rig.it.is_through());
    rig.server(error(&probe, -32601, Value::Null)).nothing();
    assert!(rig.it.is_through());
}

#[test]
fn what_waits_is_within_the_memory_budget_and_is_never_refused() {
    let mut rig = Rig::new(Protocol::Auto, None);
    let probe = rig.client(listen_to_nothing(json!("x"))).server();
    assert_eq!(rig.it.memory.used(), limits::LEAST_WEIGHT);
    let data = "x".repeat(limits::UNANSWERED_BYTES / 4);
    let large = parse(&format!(r#"{{"jsonrpc":"2.0","method":"n","params":{{"data":"{data}"}}}}"#));
    for _ in 0..4 {
        assert!(rig.it.memory.has_room());
        rig.it.on_client_message(large.clone(), rig.now);
    }
    assert!(!rig.it.memory.has_room(), "nobody should read on");
    rig.client(plain(json!("y"), "tools/call", json!({}))).nothing();
    let said = rig.server(discovered(&probe, &[Revision::LATEST_MODERN]));
    assert_eq!(said.to_server.len(), 6);
    assert_eq!(rig.it.memory.used(), 0);
}
