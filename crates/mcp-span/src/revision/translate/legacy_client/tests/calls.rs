//! Requests, results and errors.

use super::*;

#[test]
fn parameters_by_position_have_no_room_for_an_envelope() {
    let mut rig = Rig::translating();
    rig.client(message(r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}"#));
    assert_eq!(rig.heard_by_client()["error"]["code"], -32602);
}

#[test]
fn requests_go_in_an_envelope_and_results_lose_what_the_client_does_not_know() {
    let mut rig = Rig::translating();
    let text = r#"{"jsonrpc":"2.0","id":12345678901234567890,"method":"tools/call","params":{"name":"t","arguments":{"n" : 1.0e2, "s":"\u00e4"},"_meta":{"progressToken":9007199254740993}}}"#;
    rig.client(message(text));
    let Some(Step::ToServer(sent)) = rig.out.pop_front() else { panic!() };
    let sent_text = String::from_utf8_lossy(sent.bytes()).into_owned();
    assert!(sent_text.contains(r#""arguments":{"n" : 1.0e2, "s":"\u00e4"}"#), "{sent_text}");
    assert!(sent_text.contains("9007199254740993"), "{sent_text}");
    assert_eq!(Message::parse(sent.bytes().clone()).as_ref(), Ok(&sent));
    let answer = format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"resultType":"complete","content":[ 1.50 ],"ttlMs":5,"cacheScope":"public","_meta":{{"a":1}}}}}}"#,
        sent.id().unwrap()
    );
    rig.server(message(answer));
    let Some(Step::ToClient(answer)) = rig.out.pop_front() else { panic!() };
    assert_eq!(
        &answer.bytes()[..],
        br#"{"jsonrpc":"2.0","id":12345678901234567890,"result":{"content":[ 1.50 ],"_meta":{"a":1}}}"#
    );
    assert_eq!(Message::parse(answer.bytes().clone()).as_ref(), Ok(&answer));
}

#[test]
fn ping_and_the_log_level_stay_here() {
    let mut rig = Rig::translating();
    rig.client(message(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#));
    assert_eq!(rig.heard_by_client(), json!({"jsonrpc":"2.0","id":1,"result":{}}));
    let level = |level: &str| {
        message(
            json!({"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":level}}),
        )
    };
    rig.client(level("loud"));
    assert_eq!(rig.heard_by_client()["error"]["code"], -32602);
    rig.client(level("warning"));
    assert_eq!(rig.heard_by_client()["result"], json!({}));
    let sent = rig.ask(3, "tools/list", json!({}));
    assert_eq!(sent["params"]["_meta"][format!("{META}logLevel")], "warning");
}

#[test]
fn what_a_modern_server_does_not_know_is_not_said_to_it() {
    let mut rig = Rig::translating();
    for method in ["notifications/roots/list_changed", "notifications/progress"] {
        rig.client(message(json!({"jsonrpc":"2.0","method":method})));
    }
    assert!(rig.out.is_empty());
    rig.client(message(json!({"jsonrpc":"2.0","method":"notifications/x/y","params":{"a":1}})));
    let told = rig.heard_by_server();
    assert_eq!((&told["params"]["a"], told.get("id")), (&json!(1), None));
    assert!(told["params"]["_meta"][format!("{META}protocolVersion")].is_string());
}

#[test]
fn errors_are_those_of_the_older_revisions() {
    let mut rig = Rig::translating();
    let sent = rig.ask(1, "resources/read", json!({"uri":"x"}));
    rig.server(error(&sent, -32602, json!({"uri":"x"})));
    assert_eq!(rig.heard_by_client()["error"]["code"], -32002);
    let sent = rig.ask(2, "resources/read", json!({"uri":"x"}));
    rig.server(error(&sent, -32602, Value::Null));
    assert_eq!(rig.heard_by_client()["error"]["code"], -32602);
    let sent = rig.ask(3, "tools/call", json!({"name":"x"}));
    rig.server(error(&sent, -32021, json!({"requiredCapabilities":{}})));
    let answer = rig.heard_by_client();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(3), &json!(-32021)));
}

#[test]
fn a_kind_of_result_that_is_unknown_is_an_error_that_says_so() {
    let mut rig = Rig::translating();
    let sent = rig.ask(1, "tools/call", json!({"name":"x"}));
    rig.server(result(&sent, json!({"resultType":"task","taskId":"t"})));
    let error = rig.heard_by_client()["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("\"task\""), "{error}");
}

#[test]
fn tools_with_other_results_than_objects_are_wrapped() {
    let mut rig = Rig::translating();
    let sent = rig.ask(1, "tools/list", json!({}));
    let list = json!({"resultType":"complete","tools":[
        {"name":"o","inputSchema":{},"outputSchema":{"type":"object"}},
        {"name":"a","inputSchema":{},"outputSchema":{"type":"array","items":{"$ref":"#/$defs/x"},"$defs":{"x":{"type":"string"}}},"execution":{"taskSupport":"optional"}},
    ]});
    rig.server(result(&sent, list));
    let tools = rig.heard_by_client()["result"]["tools"].clone();
    assert_eq!(tools[0]["outputSchema"], json!({"type":"object"}));
    assert_eq!(tools[1]["outputSchema"]["properties"]["result"]["type"], "array");
    assert_eq!(tools[1]["outputSchema"]["$defs"]["x"]["type"], "string");
    assert_eq!(tools[1].get("execution"), None);
    for (tool, content, expected) in [
        ("a", json!(["v"]), json!({"result":["v"]})),
        ("o", json!({"k":1}), json!({"k":1})),
        ("unlisted", json!(5), json!({"result":5})),
    ] {
        let sent = rig.ask(2, "tools/call", json!({"name":tool}));
        rig.server(result(&sent, json!({"content":[],"structuredContent":content})));
        assert_eq!(rig.heard_by_client()["result"]["structuredContent"], expected, "{tool}");
    }
}

#[test]
fn a_call_that_came_back_is_the_clients_own_again_unless_somebody_has_answered_for_it() {
    let mut rig = Rig::translating();
    let sent = rig.ask(1, "tools/call", json!({"name":"x"}));
    let named = format!("No response received for request ID {}", sent["id"]);
    rig.fail(message(&sent), Error::new(ErrorKind::Closed, named));
    match rig.out.pop_front() {
        Some(Step::Failed { error, .. }) => assert!(error.message.ends_with("ID 1"), "{error}"),
        other => panic!("{other:?}"),
    }
    let sent = rig.ask(1, "tools/call", json!({"name":"x"}));
    let cut = Error::new(ErrorKind::Closed, "cut");
    rig.fail(message(sent), cut.clone());
    match rig.out.pop_front() {
        Some(Step::Failed { message, error }) => {
            assert_eq!((value(&message)["id"].clone(), error), (json!(1), cut.clone()));
            assert_eq!(value(&message)["params"], json!({"name":"x"}), "as it came");
        }
        other => panic!("{other:?}"),
    }
    let sent = rig.ask(2, "tools/call", json!({"name":"x"}));
    rig.server(result(&sent, json!({"resultType":"input_required","requestState":"s"})));
    rig.pass(limits::INPUT_PAUSE);
    let again = rig.heard_by_server();
    rig.fail(message(again), cut);
    assert_eq!(rig.heard_by_client()["error"]["data"]["delivery"], "unknown");
}

#[test]
fn which_tools_are_wrapped_is_what_the_last_list_says() {
    let mut rig = Rig::translating();
    let schema = json!({"type":"array"});
    let tool = |name: &str| json!({"name":name,"inputSchema":{},"outputSchema":schema});
    let list = |rig: &mut Rig, cursor: Option<&str>, tools: Vec<Value>, next: Option<&str>| {
        let params = cursor.map_or(json!({}), |cursor| json!({"cursor":cursor}));
        let asked = rig.ask(1, "tools/list", params);
        let mut page = json!({"resultType":"complete","tools":tools});
        if let Some(next) = next {
            page["nextCursor"] = next.into();
        }
        rig.server(result(&asked, page));
        rig.heard_by_client()
    };
    let content = |rig: &mut Rig, name: &str| {
        let asked = rig.ask(2, "tools/call", json!({"name":name}));
        rig.server(result(&asked, json!({"resultType":"complete","structuredContent":{"a":1}})));
        rig.heard_by_client()["result"]["structuredContent"].clone()
    };
    list(&mut rig, None, vec![tool("a")], Some("2"));
    list(&mut rig, Some("2"), vec![tool("b")], None);
    list(&mut rig, None, vec![], Some("2"));
    assert_eq!(content(&mut rig, "b"), json!({"result":{"a":1}}), "the next page may name it");
    list(&mut rig, Some("2"), vec![tool("b")], None);
    assert_eq!(content(&mut rig, "a"), json!({"a":1}), "it is no more");
    assert_eq!(content(&mut rig, "b"), json!({"result":{"a":1}}));
    let many = (0..=limits::WRAPPED_TOOLS).map(|n| tool(&n.to_string())).collect();
    let listed = list(&mut rig, None, many, None);
    let tools = listed["result"]["tools"].as_array().unwrap();
    let has_schema = |tool: &&Value| tool.get("outputSchema").is_some();
    assert!(tools.len() > limits::WRAPPED_TOOLS);
    assert!(tools.iter().filter(has_schema).count() <= limits::WRAPPED_TOOLS, "they are bounded");
}

#[test]
fn a_schema_that_would_refer_to_another_place_in_a_wrapper_is_left_out() {
    let mut rig = Rig::translating();
    let list = rig.ask(1, "tools/list", json!({}));
    let tool = |name: &str, schema: Value| json!({"name":name,"outputSchema":schema});
    rig.server(result(
        &list,
        json!({"resultType":"complete","tools":[
            tool("tree", json!({"anyOf":[{"type":"null"},{"type":"array","items":{"$ref":"#"}}]})),
            tool("path", json!({"type":"array","prefixItems":[{},{"$ref":"#/prefixItems/0"}]})),
            tool("kept", json!({"type":"array","items":{"$ref":"#/$defs/x"},"$defs":{"x":{}}})),
        ]}),
    ));
    let listed = rig.heard_by_client();
    let tools = listed["result"]["tools"].as_array().unwrap();
    let has_schema = tools.iter().map(|tool| tool.get("outputSchema").is_some());
    assert_eq!(has_schema.collect::<Vec<_>>(), [false, false, true]);
    let call = rig.ask(2, "tools/call", json!({"name":"tree"}));
    rig.server(result(&call, json!({"resultType":"complete","structuredContent":[null]})));
    let answer = rig.heard_by_client();
    assert_eq!(answer["result"]["structuredContent"], json!({"result":[null]}), "an object still");
}
