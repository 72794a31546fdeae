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
        let second = rig.ask(2, "tools/call", json!({"name":"b"}));
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
        let mut cancelled = Vec::new();
        while let Some(step) = rig.out.pop_front() {
            match step {
                Step::Failed { message, error } => {
                    fates.insert(message.id().unwrap().to_string(), error.is_unreachable());
                }
                Step::ToServer(notice) => {
                    cancelled.push(value(&notice)["params"]["requestId"].clone());
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(cancelled, [second["id"].clone()], "who is at work on it need not go on");
        let expected = [("1", true), ("2", false), ("4", true)];
        assert_eq!(fates, expected.map(|(id, waits)| (id.to_owned(), waits)).into());
        assert!(rig.translation.is_through());
        assert_eq!(rig.found.take(), Some(Era::Legacy));
    }
}

#[test]
fn a_tool_that_writes_such_an_error_keeps_it() {
    let mut rig = Rig::translating();
    let text = "there is no session with the database";
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
    let cut = Error::new(ErrorKind::Closed, "cut");
    rig.fail(message(question), cut);
    assert_eq!(rig.heard_by_client()["id"], 3, "who does not know better believes it");
    assert_eq!(rig.found.take(), None);
}

const NO_SESSION: &str = "Bad Request: Mcp-Session-Id header is required";

#[test]
fn only_a_server_that_denies_the_question_has_turned_legacy() {
    let unheard = json!({"resultType":"complete"});
    for (code, data) in [(-32603, Value::Null), (-32000, Value::Null), (-32602, Value::Null)] {
        let mut rig = Rig::translating();
        let sent = rig.ask(1, "tools/call", json!({"name":"a"}));
        rig.server(refused(&sent, -32000, NO_SESSION, &Value::Null));
        let question = rig.heard_by_server();
        rig.server(error(&question, code, data));
        assert_eq!(rig.heard_by_client()["error"]["message"], NO_SESSION, "{code}");
        assert_eq!(rig.found.take(), None, "{code}");
    }
    for (answer, is_modern) in [(unheard, true), (json!({}), false)] {
        let mut rig = Rig::translating();
        let sent = rig.ask(1, "tools/call", json!({"name":"a"}));
        rig.server(refused(&sent, -32000, NO_SESSION, &Value::Null));
        let question = rig.heard_by_server();
        rig.server(result(&question, answer));
        if is_modern {
            assert_eq!(rig.heard_by_client()["id"], 1, "whoever knows the question is modern");
        } else {
            let anew = rig.out.pop_front();
            assert_eq!(anew, Some(Step::SessionLost), "some say yes to whatever they are asked");
        }
    }
}

#[test]
fn a_call_that_a_person_has_answered_for_is_not_begun_anew() {
    let mut rig = Rig::translating();
    let sent = rig.ask(1, "tools/call", json!({"name":"a"}));
    rig.server(result(&sent, json!({"resultType":"input_required","requestState":"s"})));
    rig.pass(limits::INPUT_PAUSE);
    let again = rig.heard_by_server();
    rig.server(refused(&again, -32000, NO_SESSION, &Value::Null));
    let question = rig.heard_by_server();
    rig.server(error(&question, -32601, Value::Null));
    assert_eq!(rig.out.pop_front(), Some(Step::SessionLost));
    assert_eq!(rig.heard_by_client()["error"]["message"], NO_SESSION);
    assert!(rig.out.is_empty());
}

#[test]
fn what_is_cancelled_while_the_server_is_in_doubt_gets_no_answer() {
    let mut rig = Rig::translating();
    let sent = rig.ask(1, "tools/call", json!({"name":"a"}));
    rig.server(refused(&sent, -32000, NO_SESSION, &Value::Null));
    let question = rig.heard_by_server();
    let params = json!({"requestId":1});
    rig.client(message(
        json!({"jsonrpc":"2.0","method":"notifications/cancelled","params":params}),
    ));
    rig.server(result(&question, offer()));
    assert!(rig.out.is_empty(), "{:?}", rig.out);
}

#[test]
fn a_legacy_server_that_speaks_as_a_modern_one_does_is_to_be_opened_anew() {
    let mut rig = Rig::new(None);
    rig.client(initialize());
    rig.server(message(r#"{"jsonrpc":"2.0","id":"i","result":{}}"#));
    let request = json!({"id":1});
    let modern = error(&request, -32022, json!({"supported":["2026-07-28"]}));
    assert!(!rig.translation.suspects_modern(&error(&request, -32602, Value::Null), rig.now));
    assert!(rig.translation.suspects_modern(&modern, rig.now));
    assert!(!rig.translation.suspects_modern(&modern, rig.now), "not again and again");
}
