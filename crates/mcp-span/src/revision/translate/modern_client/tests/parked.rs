//! Calls that meet a question of the server's.

use super::*;
use crate::limits;

fn call(rig: &mut Rig, id: u32, meta: Value) -> Value {
    let params = json!({"name": "a", "arguments": {"x": 1}, "_meta": meta});
    rig.client(request(json!(id), "tools/call", params)).server()
}

fn retry(rig: &mut Rig, id: u32, handle: &Value, responses: Value) -> Said {
    let mut params = json!({"name": "a", "arguments": {"x": 1}, "inputResponses": responses});
    params["requestState"] = handle.clone();
    rig.client(request(json!(id), "tools/call", params))
}

fn question(id: &str) -> Value {
    plain(json!(id), "elicitation/create", json!({"message": id, "requestedSchema": {}}))
}

/// The handle of a parked call.
fn handle(answer: &Value) -> Value {
    assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
    answer["result"]["requestState"].clone()
}

#[test]
fn a_question_comes_as_the_answer_and_its_answer_as_a_request() {
    let mut rig = Rig::serving(json!({}));
    let running = call(&mut rig, 1, json!({}));
    let text = r#"{"jsonrpc":"2.0","id":9007199254740993,"method":"elicitation/create","params":{ "message" : "?", "n":1.50 }}"#;
    let said = rig.server_text(text);
    assert!(said.client_text[0].contains(
        r#""inputRequests":{"input-1":{"method":"elicitation/create","params":{ "message" : "?", "n":1.50 }}}"#
    ));
    let answer = said.client();
    assert_eq!(answer["id"], 1);
    assert!(answer["result"]["_meta"][SERVER_INFO].is_object());
    let handle = handle(&answer);
    assert_eq!(handle.as_str().unwrap().len(), 22, "128 bits");
    let text = request(
        json!(2),
        "tools/call",
        json!({"name": "a", "arguments": {"x": 1}, "requestState": handle}),
    )
    .to_string()
    .replace(
        r#""name":"a""#,
        r#""name":"a","inputResponses":{"input-1":{ "action" : "accept", "n":1e5 }}"#,
    );
    let said = rig.client_text(&text);
    assert!(said.to_client.is_empty());
    assert_eq!(
        said.server_text,
        [r#"{"jsonrpc":"2.0","id":9007199254740993,"result":{ "action" : "accept", "n":1e5 }}"#]
    );
    let answer = rig.server(result(&running, json!({"content": []}))).client();
    assert_eq!((&answer["id"], &answer["result"]["resultType"]), (&json!(2), &json!("complete")));
    assert_eq!(rig.it.wake_at(), None);
}

#[test]
fn a_page_to_visit_has_no_name_in_the_modern_era() {
    let mut rig = Rig::serving(json!({}));
    call(&mut rig, 1, json!({}));
    let params = json!({"mode": "url", "elicitationId": "e", "url": "https://x", "message": "m"});
    let answer = rig.server(plain(json!(1), "elicitation/create", params)).client();
    assert_eq!(
        answer["result"]["inputRequests"]["input-1"]["params"],
        json!({"mode": "url", "url": "https://x", "message": "m"})
    );
}

#[test]
fn the_newest_call_that_can_is_asked() {
    let mut rig = Rig::serving(json!({}));
    call(&mut rig, 1, json!({}));
    call(&mut rig, 2, json!({CLIENT_CAPABILITIES: {"roots": {}}}));
    rig.client(request(json!(3), "tools/list", json!({})));
    assert_eq!(rig.server(question("q")).client()["id"], 1, "the second knows no elicitation");
    let roots = plain(json!("r"), "roots/list", json!({}));
    assert_eq!(rig.server(roots).client()["id"], 2);
    let refused = rig.server(plain(json!("s"), "tasks/list", json!({}))).server();
    assert_eq!(refused["error"]["code"], -32601);
}

#[test]
fn without_a_call_the_server_is_refused() {
    let mut rig = Rig::serving(json!({}));
    let refused = rig.server(question("q")).server();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!("q"), &json!(-32601)));
}

#[test]
fn what_is_asked_meanwhile_waits_for_the_client() {
    let mut rig = Rig::serving(json!({}));
    let running = call(&mut rig, 1, json!({}));
    let first = rig.server(question("q1")).client();
    rig.server(question("q2")).nothing();
    let handle = handle(&first);
    let said = retry(&mut rig, 2, &handle, json!({"input-1": {"action": "decline"}}));
    assert_eq!(said.to_server, [result(&json!({"id": "q1"}), json!({"action": "decline"}))]);
    assert_eq!(said.to_client[0]["id"], 2);
    let asked = said.to_client[0]["result"]["inputRequests"].as_object().unwrap();
    assert_eq!(asked.keys().collect::<Vec<_>>(), ["input-2"]);
    // An answer that is missing, or none, leaves the question where it is.
    let said = retry(&mut rig, 3, &handle, json!({"input-2": 5})).client();
    assert_eq!(said["result"]["inputRequests"].as_object().unwrap().len(), 1);
    let said = retry(&mut rig, 4, &handle, json!({"input-2": {}}));
    assert_eq!(said.server()["id"], "q2");
    assert_eq!(rig.server(result(&running, json!({}))).client()["id"], 4);
}

#[test]
fn several_rounds_have_several_handles() {
    let mut rig = Rig::serving(json!({}));
    let running = call(&mut rig, 1, json!({}));
    let first = handle(&rig.server(question("q1")).client());
    retry(&mut rig, 2, &first, json!({"input-1": {}})).server();
    let again = retry(&mut rig, 3, &first, json!({"input-1": {}})).client();
    assert_eq!(again["error"]["code"], -32602, "a handle is good for one round");
    let second = handle(&rig.server(question("q2")).client());
    assert_ne!(first, second);
    retry(&mut rig, 4, &second, json!({"input-1": {}})).server();
    assert_eq!(rig.server(result(&running, json!({}))).client()["id"], 4);
}

#[test]
fn a_handle_belongs_to_its_call() {
    let mut rig = Rig::serving(json!({}));
    call(&mut rig, 1, json!({}));
    let handle = handle(&rig.server(question("q")).client());
    for (method, params) in [
        ("tools/call", json!({"name": "b", "arguments": {"x": 1}})),
        ("tools/call", json!({"name": "a", "arguments": {"x": 2}})),
        ("tools/call", json!({"name": "a"})),
        ("prompts/get", json!({"name": "a", "arguments": {"x": 1}})),
    ] {
        let mut params = params;
        params["requestState"] = handle.clone();
        params["inputResponses"] = json!({"input-1": {}});
        let refused = rig.client(request(json!(2), method, params)).client();
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    let refused = retry(&mut rig, 2, &json!("guessed"), json!({"input-1": {}})).client();
    assert_eq!(refused["error"]["code"], -32602);
    retry(&mut rig, 2, &handle, json!({"input-1": {}})).server();
}

#[test]
fn an_answer_that_comes_meanwhile_is_kept() {
    let mut rig = Rig::serving(json!({}));
    let running = call(&mut rig, 1, json!({}));
    let handle = handle(&rig.server(question("q")).client());
    rig.server(result(&running, json!({"content": [1]}))).nothing();
    let said = retry(&mut rig, 2, &handle, json!({"input-1": {}}));
    assert_eq!(said.to_server[0]["id"], "q");
    assert_eq!(said.to_client[0]["id"], 2);
    assert_eq!(said.to_client[0]["result"]["content"], json!([1]));
}

#[test]
fn nobody_waits_for_ever() {
    let mut rig = Rig::serving(json!({}));
    let running = call(&mut rig, 1, json!({}));
    let handle = handle(&rig.server(question("q")).client());
    assert_eq!(rig.it.wake_at(), Some(rig.now + limits::PARKED_WAIT));
    rig.wait(limits::PARKED_WAIT - Duration::from_secs(1)).nothing();
    let said = rig.wait(Duration::from_secs(1));
    assert!(said.to_client.is_empty());
    assert_eq!((&said.to_server[0]["id"], said.to_server[0].get("result")), (&json!("q"), None));
    assert_eq!(said.to_server[1]["method"], "notifications/cancelled");
    assert_eq!(said.to_server[1]["params"]["requestId"], running["id"]);
    let late = retry(&mut rig, 2, &handle, json!({"input-1": {}})).client();
    assert_eq!(late["error"]["code"], -32602);
    assert!(late["error"]["message"].as_str().unwrap().contains("in time"));
    assert_eq!(rig.it.wake_at(), None);
}

#[test]
fn calls_that_wait_for_a_client_that_left_are_cancelled() {
    let mut rig = Rig::serving(json!({}));
    let running = call(&mut rig, 1, json!({}));
    rig.server(question("q"));
    call(&mut rig, 2, json!({}));
    let said = rig.leave();
    assert!(said.to_client.is_empty());
    assert_eq!(said.to_server[0]["id"], "q");
    assert_eq!(said.to_server[1]["params"]["requestId"], running["id"]);
    assert_eq!(said.to_server.len(), 2, "the other call may end");
}

#[test]
fn there_is_room_for_so_many_calls_and_questions() {
    let mut rig = Rig::serving(json!({}));
    for id in 0..=limits::PARKED {
        call(&mut rig, u32::try_from(id).unwrap(), json!({}));
    }
    // Each question parks the newest call; later ones join it.
    for n in 0..limits::QUESTIONS {
        rig.server(question(&n.to_string()));
    }
    let refused = rig.server(question("more")).server();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!("more"), &json!(-32603)));
    let mut rig = Rig::serving(json!({}));
    for id in 0..limits::PARKED {
        call(&mut rig, u32::try_from(id).unwrap(), json!({}));
        rig.server(question(&id.to_string())).client();
    }
    call(&mut rig, 1000, json!({}));
    assert_eq!(rig.server(question("more")).server()["error"]["code"], -32603);
}

#[test]
fn a_question_can_be_withdrawn() {
    let mut rig = Rig::serving(json!({}));
    let running = call(&mut rig, 1, json!({}));
    let handle = handle(&rig.server(question("q")).client());
    rig.server(cancel(json!("q"))).nothing();
    retry(&mut rig, 2, &handle, json!({"input-1": {}})).nothing();
    assert_eq!(rig.server(result(&running, json!({}))).client()["id"], 2);
}

#[test]
fn progress_follows_the_client_to_its_new_token() {
    let mut rig = Rig::serving(json!({}));
    let progress = |token: Value| {
        notice("notifications/progress", json!({"progressToken": token, "progress": 1}))
    };
    call(&mut rig, 1, json!({"progressToken": 1}));
    let handle = handle(&rig.server(question("q")).client());
    rig.server(progress(json!(1))).nothing();
    let mut params = json!({"name": "a", "arguments": {"x": 1}, "inputResponses": {"input-1": {}}});
    params["requestState"] = handle;
    params["_meta"] = json!({"progressToken": 2});
    rig.client(request(json!(2), "tools/call", params)).server();
    assert_eq!(rig.server(progress(json!(1))).client(), progress(json!(2)));
}

#[test]
fn pages_that_an_error_names_are_asked_for_and_the_call_is_sent_anew() {
    let mut rig = Rig::serving(json!({}));
    let refused = call(&mut rig, 1, json!({}));
    let page = json!({"mode": "url", "elicitationId": "e", "url": "https://x", "message": "m"});
    let data = json!({"elicitations": [page]});
    let answer = rig.server(error(&refused, -32042, data.clone())).client();
    assert_eq!(answer["id"], 1);
    assert_eq!(
        answer["result"]["inputRequests"]["input-1"],
        json!({"method": "elicitation/create",
            "params": {"mode": "url", "url": "https://x", "message": "m"}})
    );
    let handle = handle(&answer);
    let again = retry(&mut rig, 2, &handle, json!({"input-1": {"action": "accept"}})).server();
    assert_eq!(again["params"], json!({"name": "a", "arguments": {"x": 1}}));
    assert_eq!(rig.server(result(&again, json!({}))).client()["id"], 2);
    // One that cannot open pages gets the error.
    let refused = call(&mut rig, 3, json!({CLIENT_CAPABILITIES: {"elicitation": {}}}));
    let answer = rig.server(error(&refused, -32042, data)).client();
    assert_eq!(answer["error"]["code"], -32042);
}

#[test]
fn a_lost_session_ends_the_calls_that_have_asked_at_once() {
    let mut rig = Rig::serving(json!({}));
    let away = call(&mut rig, 1, json!({}));
    let parked = handle(&rig.server(question("q1")).client());
    let back = call(&mut rig, 2, json!({}));
    let answered = handle(&rig.server(question("q2")).client());
    retry(&mut rig, 3, &answered, json!({"input-1": {"action": "accept"}})).server();
    let untouched = call(&mut rig, 4, json!({}));
    rig.it.session_lost(rig.now);
    let said = Said::of(&mut rig);
    let ended: Vec<Value> = said.to_client.iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(ended, [json!(3)], "the one that waits for the server");
    assert_eq!(said.to_client[0]["error"]["data"]["kind"], "session-lost");
    assert_eq!(said.to_client[0]["error"]["data"]["delivery"], "unknown");
    let mut cancelled: Vec<_> = said.to_server.iter().map(|n| &n["params"]["requestId"]).collect();
    cancelled.sort_by_key(ToString::to_string);
    let mut expected = [&away["id"], &back["id"]];
    expected.sort_by_key(ToString::to_string);
    assert_eq!(cancelled, expected);
    let late = retry(&mut rig, 5, &parked, json!({"input-1": {"action": "accept"}})).client();
    assert_eq!((&late["id"], &late["error"]["data"]["kind"]), (&json!(5), &json!("session-lost")));
    assert_eq!(rig.server(result(&untouched, json!({}))).client()["id"], 4);
    assert_eq!(rig.it.wake_at(), None);
}
