//! What becomes of requests, results, errors, logs and progress.

use super::*;

#[test]
fn a_request_loses_its_envelope_and_nothing_else() {
    let mut rig = Rig::serving(json!({}));
    let meta = format!(
        r#"{{"{PROTOCOL_VERSION}":"{}","{CLIENT_CAPABILITIES}":{{}},"progressToken": 5}}"#,
        Revision::LATEST_MODERN
    );
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"a","_meta":{meta},"arguments":{{ "n" : 1.0e2, "é":"\u00e9"}}}}}}"#
    );
    let said = rig.client_text(&text);
    let id = &said.to_server[0]["id"];
    assert_eq!(
        said.server_text[0],
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"a","_meta":{{"progressToken":5}},"arguments":{{ "n" : 1.0e2, "é":"\u00e9"}}}}}}"#
        )
    );
    assert_ne!(*id, 1);
}

#[test]
fn an_answer_gets_what_the_modern_era_wants_and_keeps_the_rest() {
    let mut rig = Rig::serving(json!({}));
    let call = rig.client(request(json!(1), "tools/call", json!({"name": "a"}))).server();
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"content":[ {{"n":1.50E+2}} ],"_meta":{{"x":1}}}}}}"#,
        call["id"]
    );
    let said = rig.server_text(&text);
    assert_eq!(
        said.client_text,
        [format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[ {{"n":1.50E+2}} ],"_meta":{{"x":1,"{SERVER_INFO}":{{"name":"old","version":"1"}}}},"resultType":"complete"}}}}"#
        )]
    );
}

#[test]
fn what_is_kept_says_for_how_long() {
    let cacheable = [
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
    ];
    for method in cacheable {
        let mut rig = Rig::serving(json!({}));
        let list = rig.client(request(json!(1), method, json!({}))).server();
        let said = rig.server(result(&list, json!({}))).client();
        assert_eq!(
            (&said["result"]["ttlMs"], &said["result"]["cacheScope"]),
            (&json!(0), &json!("private"))
        );
        let list = rig.client(request(json!(1), method, json!({}))).server();
        let own = json!({"ttlMs": 9, "cacheScope": "public", "resultType": "x", "_meta": {SERVER_INFO: 1}});
        assert_eq!(rig.server(result(&list, own.clone())).client()["result"], own);
    }
    let mut rig = Rig::serving(json!({}));
    let call = rig.client(request(json!(1), "prompts/get", json!({"name": "p"}))).server();
    assert_eq!(rig.server(result(&call, json!({}))).client()["result"].get("ttlMs"), None);
}

#[test]
fn errors_keep_their_words() {
    let mut rig = Rig::serving(json!({}));
    for (code, mapped) in [(-32002, -32602), (-32602, -32602), (-1, -1), (-32042, -32042)] {
        let read = rig.client(request(json!(1), "resources/list", json!({"uri": "x"}))).server();
        let said = rig.server(error(&read, code, json!({"uri": "x"}))).client();
        assert_eq!(said, error(&json!({"id": 1}), mapped, json!({"uri": "x"})));
    }
    let call = rig.client(request(json!(1), "tools/call", json!({"name": "a"}))).server();
    let said = rig.server(bridge_error(&call, Some(500))).client();
    assert_eq!(said, bridge_error(&json!({"id": 1}), Some(500)));
}

#[test]
fn methods_that_are_no_more_are_not_found() {
    let methods =
        ["ping", "initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];
    for method in methods {
        let mut rig = Rig::serving(json!({}));
        let said = rig.client(request(json!(1), method, json!({}))).client();
        assert_eq!(said["error"]["code"], -32601, "{method}");
        let mut rig = Rig::new(Protocol::Auto, None);
        let said = rig.client(request(json!(1), method, json!({}))).client();
        assert_eq!(said["error"]["code"], -32601, "{method}");
    }
}

#[test]
fn an_id_in_use_is_refused() {
    let mut rig = Rig::serving(json!({}));
    let call = rig.client(request(json!(1), "tools/call", json!({"name": "a"}))).server();
    let said = rig.client(request(json!(1), "tools/list", json!({}))).client();
    assert_eq!(said["error"]["code"], -32600);
    rig.server(result(&call, json!({}))).client();
    rig.client(request(json!(1), "tools/list", json!({}))).server();
}

#[test]
fn parameters_that_are_no_object_are_refused() {
    let mut rig = Rig::serving(json!({}));
    let said = rig.client(plain(json!(1), "tools/call", json!([1]))).client();
    assert_eq!(said["error"]["code"], -32602);
}

#[test]
fn a_cancellation_finds_its_call() {
    let mut rig = Rig::serving(json!({}));
    let call = rig.client(request(json!(1), "tools/call", json!({"name": "a"}))).server();
    let said = rig.client(cancel(json!(1))).server();
    assert_eq!(said, cancel(call["id"].clone()));
    rig.client(cancel(json!(1))).nothing();
    let ask = plain(json!(1), "roots/list", json!({}));
    assert_eq!(rig.server(ask).server()["error"]["code"], -32601, "nobody is left to ask");
}

#[test]
fn logs_come_to_those_who_asked_for_them() {
    let mut rig = Rig::serving(json!({"logging": {}}));
    let log = notice("notifications/message", json!({"level": "info", "data": 1}));
    rig.server(log.clone()).nothing();
    let with_logs = |id: u32, level: &str| {
        let meta = json!({LOG_LEVEL: level});
        request(json!(id), "tools/call", json!({"name": "a", "_meta": meta}))
    };
    let level = rig.client(with_logs(1, "info")).server();
    assert_eq!(level["method"], "logging/setLevel");
    assert_eq!(level["params"], json!({"level": "info"}));
    let call = rig.server(result(&level, json!({}))).server();
    assert_eq!(call["method"], "tools/call");
    assert_eq!(rig.server(log.clone()).client(), log);
    rig.server(result(&call, json!({}))).client();
    rig.server(log.clone()).nothing();
    assert_eq!(rig.client(with_logs(2, "info")).methods_to_server(), ["tools/call"], "it is set");
    assert_eq!(rig.client(with_logs(3, "debug")).methods_to_server(), ["logging/setLevel"]);
    let mut rig = Rig::serving(json!({}));
    assert_eq!(rig.client(with_logs(1, "info")).methods_to_server(), ["tools/call"]);
}

/// A call that wants log messages.
fn loud(id: u32, level: &str) -> Value {
    request(json!(id), "tools/call", json!({"name": id, "_meta": {LOG_LEVEL: level}}))
}

#[test]
fn a_call_leaves_when_the_server_has_taken_its_log_level_and_in_order() {
    let mut rig = Rig::serving(json!({"logging": {}}));
    let info = rig.client(loud(1, "info")).server();
    rig.client(loud(2, "debug")).nothing();
    rig.client(loud(3, "info")).nothing();
    let quiet = rig.client(request(json!(4), "tools/call", json!({"name": 4}))).server();
    assert_eq!(quiet["params"]["name"], 4, "who wants no logs waits for no level");
    assert!(rig.it.is_holding());
    let said = rig.server(result(&info, json!({})));
    assert_eq!(said.methods_to_server(), ["tools/call", "logging/setLevel"]);
    assert_eq!(said.to_server[0]["params"]["name"], 1);
    assert_eq!(said.to_server[1]["params"]["level"], "debug");
    // One that is refused holds up nobody.
    let said = rig.server(error(&said.to_server[1], -32602, Value::Null));
    assert_eq!(said.methods_to_server(), ["tools/call", "logging/setLevel"]);
    rig.client(cancel(json!(3))).nothing();
    rig.server(result(&said.to_server[1], json!({}))).nothing();
    assert!(!rig.it.is_holding() && rig.it.wake_at().is_none());
}

#[test]
fn a_server_that_does_not_answer_about_levels_holds_up_no_call_for_long() {
    let mut rig = Rig::serving(json!({"logging": {}}));
    let info = rig.client(loud(1, "info")).server();
    assert_eq!(rig.it.wake_at(), Some(rig.now + limits::LEVEL_WAIT));
    assert_eq!(rig.wait(limits::LEVEL_WAIT).server()["params"]["name"], 1);
    let debug = rig.client(loud(2, "debug")).server();
    rig.server(result(&info, json!({}))).nothing();
    assert_eq!(rig.server(result(&debug, json!({}))).server()["params"]["name"], 2);
}

#[test]
fn progress_of_a_call_outlives_the_session_that_it_was_made_in() {
    let mut rig = Rig::serving(json!({}));
    let params = json!({"name": "a", "_meta": {"progressToken": "t"}});
    rig.client(request(json!(1), "tools/call", params.clone())).server();
    let twin = rig.client(request(json!(2), "tools/call", params)).server();
    let given = twin["params"]["_meta"]["progressToken"].clone();
    let other = rig.client(request(json!(3), "tools/call", json!({"name": "b"}))).server();
    let said = rig.server(error(&other, -32020, Value::Null));
    rig.server(discovered(&said.to_server[0], &[Revision::LATEST_MODERN])).nothing();
    let progress = |token: Value| {
        notice("notifications/progress", json!({"progressToken": token, "progress": 1}))
    };
    assert_eq!(rig.server(progress(given)).client(), progress(json!("t")), "by the client's name");
}

#[test]
fn progress_goes_to_the_request_that_named_the_token() {
    let mut rig = Rig::serving(json!({}));
    let progress = |token: Value| {
        notice("notifications/progress", json!({"progressToken": token, "progress": 1}))
    };
    let params = json!({"name": "a", "_meta": {"progressToken": "t"}});
    let call = rig.client(request(json!(1), "tools/call", params.clone())).server();
    assert_eq!(rig.server(progress(json!("t"))).client(), progress(json!("t")));
    rig.server(progress(json!("other"))).nothing();
    // The same token again: the server is given another one.
    let twin = rig.client(request(json!(2), "tools/call", params)).server();
    let given = twin["params"]["_meta"]["progressToken"].clone();
    assert_ne!(given, "t");
    assert_eq!(rig.server(progress(given)).client(), progress(json!("t")));
    rig.server(result(&call, json!({}))).client();
    rig.server(progress(json!("t"))).nothing();
}

#[test]
fn the_servers_ping_is_answered_here() {
    let mut rig = Rig::serving(json!({}));
    let said = rig.server(plain(json!("p"), "ping", json!({}))).server();
    assert_eq!(said, json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
    let mut rig = Rig::new(Protocol::Legacy, None);
    rig.client(request(json!(1), "tools/list", json!({})));
    let said = rig.server(plain(json!("p"), "ping", json!({}))).server();
    assert_eq!(said["id"], "p", "in the handshake, too");
}

#[test]
fn other_notifications_pass_unless_the_modern_era_has_none_such() {
    let mut rig = Rig::serving(json!({}));
    let own = notice("notifications/custom", json!({}));
    assert_eq!(rig.server(own.clone()).client(), own);
    assert_eq!(rig.client(own.clone()).server(), own);
    rig.server(notice("notifications/elicitation/complete", json!({}))).nothing();
    rig.client(notice("notifications/initialized", json!({}))).nothing();
    rig.client(result(&json!({"id": 5}), json!({}))).nothing();
}

#[test]
fn a_client_without_a_name_gets_one() {
    let mut rig = Rig::new(Protocol::Legacy, None);
    let meta = json!({PROTOCOL_VERSION: Revision::LATEST_MODERN});
    let said = rig.client(plain(json!(1), "tools/list", json!({"_meta": meta}))).server();
    assert_eq!(said["params"]["clientInfo"]["name"], "mcp-span client");
    assert!(said["params"]["clientInfo"]["version"].is_string());
    assert_eq!(said["params"]["capabilities"], json!({}));
}

#[test]
fn without_a_session_all_hear_why_and_the_next_tries_again() {
    let mut rig = Rig::new(Protocol::Auto, Some(Era::Legacy));
    let initialize = rig.client(request(json!(1), "tools/list", json!({}))).server();
    rig.client(request(json!(2), "tools/list", json!({}))).nothing();
    rig.client(request(json!(3), "tools/list", json!({}))).nothing();
    rig.client(cancel(json!(3))).nothing();
    let said = rig.server(bridge_error(&initialize, Some(401)));
    assert!(said.to_server.is_empty());
    assert_eq!(
        said.to_client,
        [bridge_error(&json!({"id": 1}), Some(401)), bridge_error(&json!({"id": 2}), Some(401))]
    );
    let said = rig.client(request(json!(4), "tools/list", json!({}))).server();
    assert_eq!(said["method"], "initialize");
}

#[test]
fn an_error_of_the_bridge_names_the_request_that_the_client_knows() {
    let mut rig = Rig::serving(json!({}));
    let call = rig.client(request(json!("mine"), "tools/call", json!({"name": "a"}))).server();
    let text = format!("No response received for request ID {}", call["id"]);
    let mut lost = bridge_error(&call, None);
    lost["error"]["message"] = text.clone().into();
    let said = rig.server(lost).client();
    assert_eq!(said["error"]["message"], "No response received for request ID \"mine\"");
    assert_eq!(said["id"], "mine");
    // What a server says is its own.
    let call = rig.client(request(json!(2), "tools/call", json!({"name": "a"}))).server();
    let text = format!("{} is a strange name", call["id"]);
    let mut strange = error(&call, -32000, Value::Null);
    strange["error"]["message"] = text.clone().into();
    assert_eq!(rig.server(strange).client()["error"]["message"], text);
}

#[test]
fn tools_do_not_speak_of_tasks_that_the_modern_era_does_not_know() {
    let mut rig = Rig::serving(json!({}));
    let list = rig.client(request(json!(1), "tools/list", json!({}))).server();
    let tools = concat!(
        r#"[{"name":"a","execution":{"taskSupport":"optional"},"n":1.0e2},"#,
        r#"{"name":"b","execution":{"x":1,"taskSupport":"required"}},"#,
        r#"{ "name" : "c", "execution":5 , "taskSupport":1},7]"#
    );
    let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"tools":{tools}}}}}"#, list["id"]);
    let said = rig.server_text(&answer);
    let left = concat!(
        r#""tools":[{"name":"a","n":1.0e2},{"name":"b","execution":{"x":1}},"#,
        r#"{ "name" : "c", "execution":5 , "taskSupport":1},7]"#
    );
    assert!(said.client_text[0].contains(left), "{}", said.client_text[0]);
}
