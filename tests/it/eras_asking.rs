//! What servers ask of clients of the other era, whatever it is and in whatever call.

use serde_json::{Value, json};

use crate::eras::strict;
use crate::eras_modern::sessions;
use crate::support::{Bridge, Feed, Reply, Request, Server, modern, result};

/// Methods in which a server may ask, and what their parameters are.
const CALLS: [(&str, &str); 3] = [
    ("tools/call", r#""name":"t""#),
    ("prompts/get", r#""name":"p""#),
    ("resources/read", r#""uri":"a:b""#),
];

/// What it may ask, and what a client answers to it.
const QUESTIONS: [(&str, &str, &str); 3] = [
    (
        "elicitation/create",
        r#"{"message":"Who?","requestedSchema":{"type":"object"}}"#,
        r#"{"action":"accept","content":{"n" : 1.0}}"#,
    ),
    (
        "sampling/createMessage",
        r#"{"messages":[],"maxTokens":9007199254740993}"#,
        r#"{"role":"assistant","model":"m","content":{"type":"text","text":"\u0041"}}"#,
    ),
    ("roots/list", "{}", r#"{"roots":[{"uri":"file:///a"}]}"#),
];

#[tokio::test]
async fn whatever_a_modern_server_asks_in_whatever_call_reaches_a_legacy_client() {
    for (method, params) in CALLS {
        let server = Server::start(move |r| match r.json()["params"].get("inputResponses") {
            None if r.what() == method => {
                let ask = |(ask, params, _): (&str, &str, &str)| {
                    format!(r#""{ask}":{{"method":"{ask}","params":{params}}}"#)
                };
                let requests = QUESTIONS.map(ask).join(",");
                let asks = format!(
                    r#"{{"resultType":"input_required","requestState":"s","inputRequests":{{{requests}}}}}"#
                );
                Reply::json(result(r.id(), &asks))
            }
            Some(_) => Reply::json(result(r.id(), r#"{"resultType":"complete","done":true}"#)),
            None => strict(r),
        })
        .await;
        let mut bridge = Bridge::ready(&[&server.url]).await;
        bridge
            .send(format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}}}}}"#
            ))
            .await;
        for (expected, asked, answer) in QUESTIONS {
            let line = bridge.line().await;
            assert!(line.contains(&format!(r#""params":{asked}"#)), "byte for byte: {line}");
            let question: Value = serde_json::from_str(&line).expect("JSON");
            assert_eq!(question["method"], expected);
            let id = &question["id"];
            bridge.send(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{answer}}}"#)).await;
        }
        let answer = bridge.receive().await;
        assert_eq!(answer, json!({"jsonrpc":"2.0","id":1,"result":{"done":true}}), "{method}");
        let again = server.all(method).pop().expect("the call again");
        for (name, _, answer) in QUESTIONS {
            assert!(again.text().contains(&format!(r#""{name}":{answer}"#)), "{}", again.text());
        }
        assert_eq!(again.json()["params"]["requestState"], "s");
    }
}

/// A modern request of a client that can be asked everything.
fn able(id: u32, method: &str, params: &str) -> String {
    modern(id, method, &format!("{params},")).replace(
        r#""io.modelcontextprotocol/clientCapabilities":{}"#,
        r#""io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"sampling":{},"roots":{}}"#,
    )
}

#[tokio::test]
async fn whatever_a_legacy_server_asks_in_whatever_call_reaches_a_modern_client() {
    for (method, params) in CALLS {
        for (asked, question, answer) in QUESTIONS {
            let feed = Feed::new();
            let fed = feed.clone();
            let server = Server::start(move |r| {
                if r.what() != method || r.header("mcp-session-id").is_none() {
                    return sessions(r);
                }
                fed.event(format!(
                    r#"{{"jsonrpc":"2.0","id":"q","method":"{asked}","params":{question}}}"#
                ));
                Reply::sse().feed(&fed)
            })
            .await;
            let mut bridge = Bridge::start(&[&server.url]);
            let parked = bridge.ask(able(1, method, params)).await;
            let (key, wanted) = only_question(&parked);
            assert_eq!(wanted["method"], asked, "{method}");
            assert_eq!(
                wanted["params"].to_string(),
                serde_json::from_str::<Value>(question).expect("JSON").to_string()
            );
            let state = &parked["result"]["requestState"];
            let more =
                format!(r#"{params},"requestState":{state},"inputResponses":{{"{key}":{answer}}}"#);
            bridge.send(able(2, method, &more)).await;
            server.until_answer().await;
            let told = |r: &&Request| !r.json()["result"].is_null();
            let requests = server.requests();
            let told = requests.iter().find(told).expect("the answer");
            assert_eq!(told.json()["id"], "q");
            assert!(told.text().contains(&format!(r#""result":{answer}"#)), "{}", told.text());
            let in_session = |r: &&Request| r.header("mcp-session-id").is_some();
            let calls = server.all(method);
            let calls: Vec<_> = calls.iter().filter(in_session).collect();
            assert_eq!(calls.len(), 1, "the call is made once");
            feed.event(result(calls[0].id(), r#"{"done":true}"#));
            feed.end();
            let end = bridge.receive().await;
            assert_eq!((&end["id"], &end["result"]["done"]), (&json!(2), &json!(true)), "{end}");
        }
    }
}

/// The question in an answer that asks one.
fn only_question(answer: &Value) -> (String, Value) {
    assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
    let questions = answer["result"]["inputRequests"].as_object().expect("questions");
    assert_eq!(questions.len(), 1, "{answer}");
    let (key, question) = questions.iter().next().expect("a question");
    (key.clone(), question.clone())
}

#[tokio::test]
async fn a_legacy_server_that_asks_while_nothing_is_called_is_refused() {
    let stream = Feed::new();
    let fed = stream.clone();
    let server = Server::start(move |r| match &*r.http_method {
        "GET" => Reply::sse().feed(&fed),
        _ => sessions(r),
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    bridge.ask(able(1, "tools/list", r#""x":1"#)).await;
    server.saw("GET").await;
    for (id, (asked, question, _)) in (1..).zip(QUESTIONS) {
        stream.event(format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{asked}","params":{question}}}"#
        ));
    }
    stream.event(r#"{"jsonrpc":"2.0","id":4,"method":"ping"}"#);
    server.until_answer().await;
    server.until_refused(3).await;
    let answers: Vec<Value> = server.requests().iter().map(Request::json).collect();
    let refused: Vec<_> = answers.iter().filter(|m| m["error"]["code"] == -32601).collect();
    assert_eq!(refused.len(), 3, "{answers:?}");
    assert_eq!(bridge.ask(able(2, "tools/list", r#""x":1"#)).await["id"], 2, "and it goes on");
    let (rest, ..) = bridge.finish().await;
    assert!(rest.is_empty(), "the client hears nothing of it: {rest:?}");
}

#[tokio::test]
async fn a_modern_server_that_sends_a_request_is_not_listened_to() {
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => Reply::sse()
            .event(r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#)
            .event(result(r.id(), r#"{"resultType":"complete","content":[]}"#))
            .end(),
        _ => strict(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#;
    assert_eq!(bridge.ask(call).await["result"], json!({"content":[]}));
    let (rest, ..) = bridge.finish().await;
    assert!(rest.is_empty(), "{rest:?}");
}
