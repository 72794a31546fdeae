//! The translation for a legacy client, line by line, without any wire.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;
use crate::error::Kind;
use crate::limits;
use crate::revision::Revision;

fn message(value: impl ToString) -> Message {
    Message::parse(Bytes::from(value.to_string())).expect("a message")
}

fn value(message: &Message) -> Value {
    serde_json::from_slice(message.bytes()).expect("JSON")
}

fn initialize() -> Message {
    message(
        r#"{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"elicitation":{},"tasks":{}},"clientInfo":{"name":"c","version":"1"}}}"#,
    )
}

/// A translation, and what it has led to.
struct Rig {
    translation: LegacyClient,
    out: Steps,
    now: Instant,
}

impl Rig {
    fn new(known: Option<Era>) -> Self {
        let translation = LegacyClient::new(Protocol::Auto, known, 7);
        Self { translation, out: Steps::new(), now: Instant::now() }
    }

    /// One whose server has said that it is modern.
    fn translating() -> Self {
        let mut rig = Self::new(Some(Era::Modern));
        rig.client(initialize());
        let asked = rig.heard_by_server();
        rig.server(result(&asked, offer()));
        rig.out.clear();
        rig
    }

    fn client(&mut self, message: Message) {
        self.translation.client_says(message, self.now, &mut self.out);
    }

    fn server(&mut self, message: Message) {
        self.translation.server_says(message, self.now, &mut self.out);
    }

    fn ask(&mut self, id: u32, method: &str, params: Value) -> Value {
        self.client(message(
            json!({"jsonrpc":"2.0","id":id,"method":method,"params":params}).to_string(),
        ));
        self.heard_by_server()
    }

    /// The next step, which must be towards the server.
    fn heard_by_server(&mut self) -> Value {
        match self.out.pop_front() {
            Some(Step::ToServer(message)) => value(&message),
            other => panic!("not to the server: {other:?}"),
        }
    }

    fn heard_by_client(&mut self) -> Value {
        match self.out.pop_front() {
            Some(Step::ToClient(message)) => value(&message),
            other => panic!("not to the client: {other:?}"),
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.translation.tick(self.now, &mut self.out);
        assert!(self.translation.wake_at().is_none_or(|at| at > self.now), "it would spin");
    }
}

fn result(request: &Value, result: Value) -> Message {
    message(json!({"jsonrpc":"2.0","id":request["id"],"result":result}))
}

fn error(request: &Value, code: i64, data: Value) -> Message {
    let error = json!({"code":code,"message":"x","data":data});
    message(json!({"jsonrpc":"2.0","id":request["id"],"error":error}))
}

fn offer() -> Value {
    json!({
        "resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"private",
        "capabilities":{
            "tools":{"listChanged":true},"resources":{"subscribe":true},"tasks":{},
            "extensions":{"io.modelcontextprotocol/tasks":{},"x/y":{}},
        },
        "instructions":"Read me","_meta":{SERVER_INFO:{"name":"s","version":"9"}},
    })
}

const SERVER_INFO: &str = crate::revision::translate::SERVER_INFO;
const META: &str = "io.modelcontextprotocol/";

#[test]
fn a_server_that_answers_initialize_is_left_alone() {
    let mut rig = Rig::new(None);
    rig.client(initialize());
    assert_eq!(rig.out.pop_front(), Some(Step::ToServer(initialize())), "byte for byte");
    let list = message(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    rig.client(list.clone());
    assert!(rig.out.is_empty(), "nothing overtakes the handshake");
    let answer = message(r#"{"jsonrpc":"2.0","id":"i","result":{"protocolVersion":"2025-06-18"}}"#);
    rig.server(answer.clone());
    assert_eq!(rig.out.pop_front(), Some(Step::ToClient(answer)));
    assert_eq!(rig.out.pop_front(), Some(Step::ToServer(list.clone())));
    assert!(rig.translation.is_through() && !rig.translation.takes(&list));
    assert_eq!(rig.translation.take_finding(), None, "there is nothing to remember");
}

#[test]
fn only_an_answer_that_names_the_modern_era_leads_to_a_question() {
    let verdicts = [
        (-32022, json!({"supported":["2026-07-28"]}), true),
        (-32022, json!({"supported":["2025-06-18"]}), false),
        (-32022, Value::Null, true),
        (-32020, Value::Null, true),
        (-32601, Value::Null, true),
        (-32602, Value::Null, true),
        (-32000, Value::Null, false),
        (-32603, Value::Null, false),
    ];
    for (code, data, is_asked) in verdicts {
        let mut rig = Rig::new(None);
        rig.client(initialize());
        let asked = rig.heard_by_server();
        let refusal = error(&asked, code, data.clone());
        rig.server(refusal.clone());
        if !is_asked {
            assert_eq!(rig.heard_by_client(), value(&refusal), "{code}");
            continue;
        }
        let question = rig.heard_by_server();
        assert_eq!(question["method"], "server/discover", "{code} {data}");
        rig.server(error(&question, -32601, Value::Null));
        assert_eq!(rig.heard_by_client(), value(&refusal), "what it said first stands");
        assert!(rig.translation.is_through());
    }
}

#[test]
fn whoever_wants_the_legacy_era_alone_gets_the_refusal() {
    let mut rig = Rig::new(None);
    rig.translation = LegacyClient::new(Protocol::Legacy, Some(Era::Modern), 7);
    rig.client(initialize());
    let asked = rig.heard_by_server();
    assert_eq!(asked["method"], "initialize");
    rig.server(error(&asked, -32022, json!({"supported":["2026-07-28"]})));
    assert_eq!(rig.heard_by_client()["error"]["code"], -32022);
    assert!(rig.out.is_empty());
}

#[test]
fn initialize_is_answered_from_what_the_server_says_of_itself() {
    let mut rig = Rig::new(Some(Era::Modern));
    rig.client(initialize());
    let question = rig.heard_by_server();
    assert_eq!(question["method"], "server/discover");
    let meta = &question["params"]["_meta"];
    assert_eq!(meta[format!("{META}protocolVersion")], Revision::LATEST_MODERN);
    assert_eq!(meta[format!("{META}clientCapabilities")], json!({"elicitation":{}}), "no tasks");
    assert_eq!(meta[format!("{META}clientInfo")]["name"], "c");
    rig.client(message(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#));
    assert!(rig.out.is_empty(), "it waits for the verdict");
    rig.server(result(&question, offer()));
    let answer = rig.heard_by_client();
    assert_eq!(answer["id"], "i");
    assert_eq!(
        answer["result"],
        json!({
            "protocolVersion":"2025-06-18",
            "capabilities":{
                "tools":{"listChanged":true},"resources":{"subscribe":true},"extensions":{"x/y":{}},
            },
            "serverInfo":{"name":"s","version":"9"},"instructions":"Read me",
        })
    );
    let listen = rig.heard_by_server();
    assert_eq!(listen["method"], "subscriptions/listen");
    assert_eq!(listen["params"]["notifications"], json!({"toolsListChanged":true}));
    assert_eq!(rig.translation.take_finding(), None, "it was known before");
}

#[test]
fn a_client_of_no_known_revision_is_answered_in_the_newest_legacy_one() {
    for asked in ["2026-07-28", "2099-01-01"] {
        let mut rig = Rig::new(Some(Era::Modern));
        let text = String::from_utf8_lossy(initialize().bytes()).replace("2025-06-18", asked);
        rig.client(message(text));
        let question = rig.heard_by_server();
        rig.server(result(&question, offer()));
        assert_eq!(rig.heard_by_client()["result"]["protocolVersion"], Revision::LATEST_LEGACY);
    }
}

#[test]
fn a_stale_verdict_heals_by_itself() {
    let mut rig = Rig::new(Some(Era::Modern));
    rig.client(initialize());
    let question = rig.heard_by_server();
    rig.server(error(&question, -32601, Value::Null));
    assert_eq!(rig.out.pop_front(), Some(Step::ToServer(initialize())));
    assert_eq!(rig.translation.take_finding(), Some(Era::Legacy));
    let answer = message(r#"{"jsonrpc":"2.0","id":"i","result":{}}"#);
    rig.server(answer.clone());
    assert_eq!(rig.out.pop_front(), Some(Step::ToClient(answer)));
}

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

fn refused(request: &Value, code: i64, text: &str, data: &Value) -> Message {
    let error = json!({"code":code,"message":text,"data":data});
    message(json!({"jsonrpc":"2.0","id":request["id"],"error":error}))
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

#[test]
fn what_waits_behind_an_initialize_waits_for_its_next_try_as_well() {
    let list = message(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    let busy = Error { status: Some(503), ..Error::new(Kind::Status, "busy") };
    for known in [None, Some(Era::Modern)] {
        let mut rig = Rig::new(known);
        rig.client(initialize());
        let sent = rig.heard_by_server();
        rig.client(list.clone());
        rig.translation.failed(message(sent), busy.clone(), rig.now, &mut rig.out);
        let expected = Step::Failed { message: initialize(), error: busy.clone() };
        assert_eq!(rig.out.pop_front(), Some(expected));
        assert!(rig.out.is_empty(), "it may be sent again");
        rig.client(initialize());
        let again = rig.heard_by_server();
        let answer = if known.is_some() { offer() } else { json!({}) };
        rig.server(result(&again, answer));
        rig.heard_by_client();
        assert_eq!(rig.heard_by_server()["method"], "tools/list");
    }
    let mut rig = Rig::new(None);
    rig.client(initialize());
    rig.client(list.clone());
    rig.translation.failed(initialize(), busy, rig.now, &mut rig.out);
    rig.out.clear();
    let end = message(r#"{"jsonrpc":"2.0","id":"i","error":{"code":-32001,"message":"x"}}"#);
    rig.translation.client_hears(&end, &mut rig.out);
    assert_eq!(rig.out.pop_front(), Some(Step::ToServer(list)), "there is no other try");
}

#[test]
fn a_ping_during_the_question_is_answered_here_and_one_before_it_reaches_the_client() {
    let ping = |id: u64| message(json!({"jsonrpc":"2.0","id":id,"method":"ping"}));
    let mut rig = Rig::new(None);
    rig.client(initialize());
    let asked = rig.heard_by_server();
    rig.client(ping(7));
    let early = rig.heard_by_server();
    rig.server(error(&asked, -32022, Value::Null));
    let question = rig.heard_by_server();
    rig.client(ping(1));
    assert_eq!(rig.heard_by_client(), json!({"jsonrpc":"2.0","id":1,"result":{}}));
    rig.server(result(&question, offer()));
    rig.heard_by_client();
    rig.server(error(&early, -32601, Value::Null));
    assert_eq!(rig.heard_by_client()["id"], 7);
}

#[test]
fn parameters_by_position_have_no_room_for_an_envelope() {
    let mut rig = Rig::translating();
    rig.client(message(r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}"#));
    assert_eq!(rig.heard_by_client()["error"]["code"], -32602);
}

#[test]
fn a_question_that_does_not_get_through_comes_back_as_initialize() {
    let mut rig = Rig::new(Some(Era::Modern));
    rig.client(initialize());
    let question = rig.heard_by_server();
    let refused = Error::new(Kind::Connect, "refused").not_delivered();
    rig.translation.failed(message(question), refused.clone(), rig.now, &mut rig.out);
    assert_eq!(rig.out.pop_front(), Some(Step::Failed { message: initialize(), error: refused }));
}

#[test]
fn an_initialize_that_is_taken_back_holds_up_nothing() {
    let list = message(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    let cancel =
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"i"}}"#;
    for (known, asked) in
        [(None, json!("i")), (Some(Era::Modern), json!("mcp-span-7-1099511627777"))]
    {
        let mut rig = Rig::new(known);
        rig.client(initialize());
        rig.heard_by_server();
        rig.client(list.clone());
        rig.client(message(cancel));
        assert_eq!(rig.heard_by_server()["params"]["requestId"], asked);
        assert_eq!(rig.out.pop_front(), Some(Step::ToServer(list.clone())));
        assert!(rig.translation.is_through());
    }
}

#[test]
fn a_second_initialize_loses_nothing() {
    let list = message(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    let mut rig = Rig::new(None);
    rig.client(initialize());
    rig.client(list.clone());
    rig.client(initialize());
    rig.out.clear();
    rig.server(message(r#"{"jsonrpc":"2.0","id":"i","result":{}}"#));
    rig.heard_by_client();
    assert_eq!(rig.out.pop_front(), Some(Step::ToServer(list)));
    let mut rig = Rig::translating();
    let sent = rig.ask(1, "tools/call", json!({"name":"x"}));
    rig.client(initialize());
    assert_eq!(rig.heard_by_client()["result"]["serverInfo"]["name"], "s");
    rig.server(result(&sent, json!({"resultType":"complete"})));
    assert_eq!(rig.heard_by_client()["id"], 1, "what was in flight ends as well");
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

#[test]
fn a_call_that_came_back_is_the_clients_own_again_unless_somebody_has_answered_for_it() {
    let mut rig = Rig::translating();
    let sent = rig.ask(1, "tools/call", json!({"name":"x"}));
    let named = format!("No response received for request ID {}", sent["id"]);
    rig.translation.failed(message(&sent), Error::new(Kind::Closed, named), rig.now, &mut rig.out);
    match rig.out.pop_front() {
        Some(Step::Failed { error, .. }) => assert!(error.message.ends_with("ID 1"), "{error}"),
        other => panic!("{other:?}"),
    }
    let sent = rig.ask(1, "tools/call", json!({"name":"x"}));
    let cut = Error::new(Kind::Closed, "cut");
    rig.translation.failed(message(sent), cut.clone(), rig.now, &mut rig.out);
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
    rig.translation.failed(message(again), cut, rig.now, &mut rig.out);
    assert_eq!(rig.heard_by_client()["error"]["data"]["delivery"], "unknown");
}

fn told(listen: &Value, method: &str, params: Value) -> Message {
    let mut params = params;
    params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId":listen["id"]});
    message(json!({"jsonrpc":"2.0","method":method,"params":params}))
}

const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// A client that listens; gives the request for the stream.
fn listening(rig: &mut Rig) -> Value {
    rig.client(message(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#));
    let listen = rig.heard_by_server();
    rig.server(told(&listen, ACKNOWLEDGED, json!({"notifications":{}})));
    assert!(rig.out.is_empty());
    listen
}

#[test]
fn changes_come_through_the_subscription_without_its_mark() {
    let mut rig = Rig::translating();
    let listen = listening(&mut rig);
    rig.server(told(&listen, "notifications/tools/list_changed", json!({})));
    assert_eq!(
        rig.heard_by_client(),
        json!({"jsonrpc":"2.0","method":"notifications/tools/list_changed"})
    );
    let progress = message(
        json!({"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}),
    );
    rig.server(progress.clone());
    assert_eq!(rig.out.pop_front(), Some(Step::ToClient(progress)), "of a request: as it is");
}

#[test]
fn subscribing_opens_the_new_stream_before_the_old_one_is_closed() {
    let mut rig = Rig::translating();
    let old = listening(&mut rig);
    let new = rig.ask(4, "resources/subscribe", json!({"uri":"a"}));
    assert_eq!(
        new["params"]["notifications"],
        json!({"toolsListChanged":true,"resourceSubscriptions":["a"]})
    );
    rig.server(told(&old, "notifications/tools/list_changed", json!({})));
    assert_eq!(rig.heard_by_client()["method"], "notifications/tools/list_changed", "no gap");
    rig.server(told(&new, ACKNOWLEDGED, json!({"notifications":{}})));
    assert_eq!(rig.heard_by_server()["params"]["requestId"], old["id"], "now the old one goes");
    assert_eq!(rig.heard_by_client(), json!({"jsonrpc":"2.0","id":4,"result":{}}));
    rig.server(told(&new, "notifications/resources/updated", json!({"uri":"a"})));
    assert_eq!(rig.heard_by_client()["params"], json!({"uri":"a"}));
    rig.client(message(
        json!({"jsonrpc":"2.0","id":5,"method":"resources/subscribe","params":{"uri":"a"}}),
    ));
    assert_eq!(rig.heard_by_client()["result"], json!({}), "it is in force already");
    let last = rig.ask(6, "resources/unsubscribe", json!({"uri":"a"}));
    assert_eq!(last["params"]["notifications"], json!({"toolsListChanged":true}));
}

#[test]
fn a_subscription_that_nobody_acknowledges_does_not_hang_the_client() {
    let mut rig = Rig::translating();
    listening(&mut rig);
    rig.ask(4, "resources/subscribe", json!({"uri":"a"}));
    rig.pass(limits::LISTEN_PATIENCE);
    assert_eq!(rig.heard_by_client()["id"], 4);
}

#[test]
fn a_subscription_that_is_lost_comes_back_and_tells_what_may_have_changed() {
    let mut rig = Rig::translating();
    let listen = listening(&mut rig);
    rig.server(result(&listen, json!({"resultType":"complete"})));
    assert!(rig.out.is_empty());
    rig.pass(limits::BACKOFF_BASE);
    let again = rig.heard_by_server();
    let refused = Error::new(Kind::Connect, "refused").not_delivered();
    rig.translation.failed(message(again), refused, rig.now, &mut rig.out);
    rig.pass(limits::BACKOFF_BASE);
    assert!(rig.out.is_empty(), "pauses grow");
    rig.pass(limits::BACKOFF_BASE);
    let again = rig.heard_by_server();
    rig.server(told(&again, ACKNOWLEDGED, json!({"notifications":{}})));
    assert_eq!(rig.heard_by_client()["method"], "notifications/tools/list_changed");
}

#[test]
fn a_resource_that_is_refused_costs_the_others_nothing() {
    let mut rig = Rig::translating();
    let old = listening(&mut rig);
    let new = rig.ask(4, "resources/subscribe", json!({"uri":"bad"}));
    rig.server(error(&new, -32602, Value::Null));
    let answer = rig.heard_by_client();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(4), &json!(-32602)));
    let new = rig.ask(5, "resources/subscribe", json!({"uri":"good"}));
    assert_eq!(new["params"]["notifications"]["resourceSubscriptions"], json!(["good"]));
    rig.server(error(&new, -32603, Value::Null));
    rig.heard_by_client();
    rig.server(result(&old, json!({"resultType":"complete"})));
    rig.pass(limits::BACKOFF_BASE);
    assert_eq!(rig.heard_by_server()["method"], "subscriptions/listen", "the old one comes back");
}

#[test]
fn a_stream_that_ends_as_soon_as_it_is_acknowledged_is_not_hurried() {
    let mut rig = Rig::translating();
    let mut listen = listening(&mut rig);
    let mut pause = limits::BACKOFF_BASE;
    for _ in 0..5 {
        rig.server(result(&listen, json!({"resultType":"complete"})));
        rig.pass(pause - Duration::from_millis(1));
        assert!(rig.out.is_empty(), "pauses grow");
        rig.pass(Duration::from_millis(1));
        listen = rig.heard_by_server();
        rig.server(told(&listen, ACKNOWLEDGED, json!({"notifications":{}})));
        rig.out.clear();
        pause *= 2;
    }
    rig.now += limits::STREAM_STEADY;
    rig.server(result(&listen, json!({"resultType":"complete"})));
    rig.pass(limits::BACKOFF_BASE);
    rig.heard_by_server();
}

#[test]
fn a_server_without_subscriptions_is_not_asked_again() {
    let mut rig = Rig::translating();
    rig.client(message(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#));
    let listen = rig.heard_by_server();
    rig.server(error(&listen, -32601, Value::Null));
    rig.client(message(
        json!({"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"a"}}),
    ));
    assert_eq!(rig.heard_by_client()["error"]["code"], -32601);
    assert!(rig.translation.wake_at().is_none());
}

proptest! {
    /// Whatever the server and the client do, each request ends once, given that each request to
    /// the server does.
    #[test]
    fn every_request_ends_exactly_once(
        steps in proptest::collection::vec((0u8..7, any::<prop::sample::Index>()), 1..80),
    ) {
        let mut rig = Rig::translating();
        let (mut up, mut down) = (Vec::<Value>::new(), Vec::<Value>::new());
        let mut ended: BTreeMap<u64, usize> = BTreeMap::new();
        let mut asked = 0;
        let mut sort = |rig: &mut Rig, up: &mut Vec<Value>, down: &mut Vec<Value>| {
            while let Some(step) = rig.out.pop_front() {
                match step {
                    Step::ToServer(m) if value(&m)["id"].is_u64() => up.push(value(&m)),
                    Step::ToServer(_) => {}
                    Step::ToClient(m) => match (value(&m)["id"].as_u64(), m.method()) {
                        (Some(id), None) => *ended.entry(id).or_default() += 1,
                        (None, Some("notifications/cancelled")) => {
                            let id = value(&m)["params"]["requestId"].clone();
                            down.retain(|question| question["id"] != id);
                        }
                        (None, Some(_)) => down.push(value(&m)),
                        _ => {}
                    },
                    Step::Failed { message, .. } => {
                        let id = value(&message)["id"].as_u64().expect("a request");
                        *ended.entry(id).or_default() += 1;
                    }
                    Step::SessionLost => {}
                }
            }
        };
        for (step, index) in steps {
            match step {
                0 | 1 => {
                    asked += 1;
                    rig.client(message(json!({"jsonrpc":"2.0","id":asked,"method":"tools/call","params":{"name":"x"}})));
                }
                2 if !up.is_empty() => {
                    let request = up.remove(index.index(up.len()));
                    rig.server(result(&request, json!({"resultType":"complete"})));
                }
                3 if !up.is_empty() => {
                    let request = up.remove(index.index(up.len()));
                    let question = json!({"method":"roots/list"});
                    rig.server(result(&request, json!({"resultType":"input_required","inputRequests":{"q":question},"requestState":"s"})));
                }
                4 if !up.is_empty() => {
                    let request = up.remove(index.index(up.len()));
                    rig.translation.failed(message(request), Error::new(Kind::Closed, "x"), rig.now, &mut rig.out);
                }
                5 if !down.is_empty() => {
                    let question = down.remove(index.index(down.len()));
                    rig.client(message(json!({"jsonrpc":"2.0","id":question["id"],"result":{}})));
                }
                _ => rig.pass(Duration::from_millis(100)),
            }
            sort(&mut rig, &mut up, &mut down);
        }
        for _ in 0..40 {
            for request in std::mem::take(&mut up) {
                rig.server(result(&request, json!({})));
            }
            for question in std::mem::take(&mut down) {
                rig.client(message(json!({"jsonrpc":"2.0","id":question["id"],"result":{}})));
            }
            rig.pass(limits::INPUT_WAIT);
            sort(&mut rig, &mut up, &mut down);
        }
        prop_assert_eq!(ended.len(), asked as usize, "{:?}", ended);
        prop_assert!(ended.values().all(|times| *times == 1), "{:?}", ended);
    }
}
