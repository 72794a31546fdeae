//! What the server wants to know.

use super::*;

#[test]
fn what_the_server_wants_to_know_is_asked_and_brought_back_with_its_state() {
    let mut rig = Rig::translating();
    let sent = rig.ask(1, "tools/call", json!({"name":"x","arguments":{"a":1}}));
    let id = &sent["id"];
    rig.server(message(format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"input_required","requestState":"st\u00e4te\/1","inputRequests":{{"who":{{"method":"elicitation/create","params":{{"message":"?","requestedSchema":{{"n":1.0}}}}}},"url":{{"method":"elicitation/create","params":{{"mode":"url","url":"https://x"}}}},"llm":{{"method":"sampling/createMessage","params":{{"maxTokens":5}}}},"where":{{"method":"roots/list"}}}}}}}}"#
    )));
    let questions: Vec<Value> = (0..4).map(|_| rig.heard_by_client()).collect();
    assert_eq!(questions[0]["params"]["requestedSchema"].to_string(), r#"{"n":1.0}"#);
    assert!(questions[1]["params"]["elicitationId"].is_string());
    assert_eq!(questions[3]["method"], "roots/list");
    for (n, question) in questions.iter().enumerate().rev() {
        assert!(rig.out.is_empty(), "not before all are answered");
        let id = &question["id"];
        rig.client(message(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"n" : {n}.0}}}}"#)));
    }
    let Some(Step::ToServer(again)) = rig.out.pop_front() else { panic!() };
    let text = String::from_utf8_lossy(again.bytes()).into_owned();
    assert!(text.contains(r#""requestState":"st\u00e4te\/1""#), "byte for byte: {text}");
    assert!(text.contains(r#""who":{"n" : 0.0}"#), "{text}");
    let again = value(&again);
    assert_ne!(again["id"], sent["id"], "a new id");
    assert_eq!(again["params"]["arguments"], json!({"a":1}));
    rig.server(result(&again, json!({"resultType":"complete","content":[]})));
    assert_eq!(rig.heard_by_client(), json!({"jsonrpc":"2.0","id":1,"result":{"content":[]}}));
}

#[test]
fn a_state_alone_is_brought_back_after_a_pause_and_not_for_ever() {
    let mut rig = Rig::translating();
    let mut sent = rig.ask(1, "tools/call", json!({"name":"x"}));
    for round in 0..limits::INPUT_ROUNDS {
        rig.server(result(&sent, json!({"resultType":"input_required","requestState":"s"})));
        assert!(rig.out.is_empty(), "{round}");
        rig.pass(limits::INPUT_PAUSE);
        sent = rig.heard_by_server();
        assert_eq!(sent["params"]["requestState"], "s");
        assert_eq!(sent["params"].get("inputResponses"), None);
    }
    rig.server(result(&sent, json!({"resultType":"input_required","requestState":"s"})));
    assert!(rig.heard_by_client()["error"].is_object());
    assert!(rig.translation.wake_at().is_none());
}

/// A call for which two questions are open; gives their ids.
fn asked_back(rig: &mut Rig) -> (Value, Value) {
    let sent = rig.ask(1, "tools/call", json!({"name":"x"}));
    let question = json!({"method":"elicitation/create","params":{}});
    let requests = json!({"a":question,"b":question});
    rig.server(result(&sent, json!({"resultType":"input_required","inputRequests":requests})));
    (rig.heard_by_client()["id"].clone(), rig.heard_by_client()["id"].clone())
}

#[test]
fn a_client_that_refuses_ends_the_call_with_its_own_words() {
    let mut rig = Rig::translating();
    let (first, second) = asked_back(&mut rig);
    rig.client(message(json!({"jsonrpc":"2.0","id":first,"error":{"code":-1,"message":"no"}})));
    let withdrawn = rig.heard_by_client();
    assert_eq!(withdrawn["method"], "notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], second);
    let answer = rig.heard_by_client();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-1)));
    rig.client(message(json!({"jsonrpc":"2.0","id":second,"result":{}})));
    assert!(rig.out.is_empty(), "too late");
}

#[test]
fn a_client_that_never_answers_ends_the_call_in_time() {
    let mut rig = Rig::translating();
    asked_back(&mut rig);
    rig.pass(limits::INPUT_WAIT);
    assert_eq!(rig.heard_by_client()["method"], "notifications/cancelled");
    assert_eq!(rig.heard_by_client()["method"], "notifications/cancelled");
    assert_eq!(rig.heard_by_client()["error"]["data"]["kind"], "timeout");
}

#[test]
fn cancelling_closes_the_call_and_takes_back_what_was_asked() {
    let mut rig = Rig::translating();
    let cancel = |id: u32| {
        message(
            json!({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":id}}),
        )
    };
    let sent = rig.ask(5, "tools/call", json!({"name":"x"}));
    rig.client(cancel(5));
    assert_eq!(rig.heard_by_server()["params"]["requestId"], sent["id"]);
    rig.server(result(&sent, json!({})));
    assert!(rig.out.is_empty(), "it ends silently");
    let (first, _) = asked_back(&mut rig);
    rig.client(cancel(1));
    assert_eq!(rig.heard_by_client()["params"]["requestId"], first);
    assert_eq!(rig.heard_by_client()["method"], "notifications/cancelled");
    assert!(rig.out.is_empty());
}
