//! Servers that are replaced by others.

use std::collections::BTreeMap;

use super::*;

#[test]
fn a_server_that_turns_legacy_is_opened_anew_and_the_refused_calls_wait() {
    let refusals = [
        (-32022, "x", json!({"supported":["2025-06-18"]})),
        (-32000, "Bad Request: Server not initialized", Value::Null),
        (-32600, "Bad Request: Missing session ID", Value::Null),
    ];
    for (code, text, data) in refusals {
        let mut rig = Rig::translating();
        let listen = listening(&mut rig);
        let third = rig.ask(3, "tools/call", json!({"name":"c"}));
        rig.server(result(&third, json!({"resultType":"input_required","requestState":"s"})));
        let first = rig.ask(1, "tools/call", json!({"name":"a"}));
        rig.ask(2, "tools/call", json!({"name":"b"}));
        let fourth = rig.ask(4, "tools/call", json!({"name":"d"}));
        rig.server(refused(&first, code, text, &data));
        let question = rig.heard_by_server();
        assert_eq!(question["method"], "server/discover", "it is asked before it is believed");
        rig.server(refused(&fourth, code, text, &data));
        assert!(rig.out.is_empty(), "once");
        rig.server(error(&question, -32601, Value::Null));
        assert_eq!(rig.out.pop_front(), Some(Step::SessionLost));
        assert_eq!(rig.heard_by_client()["id"], 3);
        assert_eq!(rig.heard_by_server()["params"]["requestId"], listen["id"], "it is closed");
        let mut fates = BTreeMap::new();
        while let Some(Step::Failed { message, error }) = rig.out.pop_front() {
            fates.insert(message.id().unwrap().to_string(), error.is_unreachable());
        }
        let expected = [("1", true), ("2", false), ("4", true)];
        assert_eq!(fates, expected.map(|(id, waits)| (id.to_owned(), waits)).into());
        assert!(rig.translation.is_through());
        assert_eq!(rig.translation.take_finding(), Some(Era::Legacy));
    }
}

#[test]
fn a_tool_that_writes_such_an_error_keeps_it() {
    let mut rig = Rig::translating();
    let text = "the database is not initialized";
    let sent = rig.ask(1, "tools/call", json!({"name":"a"}));
    rig.server(refused(&sent, -32000, text, &Value::Null));
    let question = rig.heard_by_server();
    rig.server(result(&question, offer()));
    let answer = rig.heard_by_client();
    assert_eq!((&answer["id"], &answer["error"]["message"]), (&json!(1), &json!(text)));
    let sent = rig.ask(2, "tools/call", json!({"name":"a"}));
    rig.server(refused(&sent, -32000, text, &Value::Null));
    assert_eq!(rig.heard_by_client()["id"], 2, "it is not asked again and again");
    rig.now += limits::DOUBT_PAUSE;
    let sent = rig.ask(3, "tools/call", json!({"name":"a"}));
    rig.server(refused(&sent, -32000, text, &Value::Null));
    let question = rig.heard_by_server();
    let cut = Error::new(Kind::Closed, "cut");
    rig.translation.failed(message(question), cut, rig.now, &mut rig.out);
    assert_eq!(rig.heard_by_client()["id"], 3, "who does not know better believes it");
    assert_eq!(rig.translation.take_finding(), None);
}

#[test]
fn a_legacy_server_that_speaks_as_a_modern_one_does_is_to_be_opened_anew() {
    let mut rig = Rig::new(None);
    rig.client(initialize());
    rig.server(message(r#"{"jsonrpc":"2.0","id":"i","result":{}}"#));
    let request = json!({"id":1});
    let modern = error(&request, -32022, json!({"supported":["2026-07-28"]}));
    assert!(!rig.translation.is_alarmed(&error(&request, -32602, Value::Null), rig.now));
    assert!(rig.translation.is_alarmed(&modern, rig.now));
    assert!(!rig.translation.is_alarmed(&modern, rig.now), "not again and again");
}
