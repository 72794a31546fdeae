//! The handshake: who is asked what. What waits meanwhile waits in the engine.

use super::*;
use crate::revision::Revision;

#[test]
fn a_server_that_answers_initialize_is_left_alone() {
    let mut rig = Rig::new(None);
    rig.client(initialize());
    assert_eq!(rig.out.pop_front(), Some(Step::ToServer(initialize())), "byte for byte");
    let list = message(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    let answer = message(r#"{"jsonrpc":"2.0","id":"i","result":{"protocolVersion":"2025-06-18"}}"#);
    rig.server(answer.clone());
    assert_eq!(rig.out.pop_front(), Some(Step::ToClient(answer)));
    assert!(rig.out.is_empty());
    assert!(rig.translation.is_through() && !rig.translation.takes(&list));
    assert_eq!(rig.found.take(), None, "there is nothing to remember");
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
    rig.translation = Rig::with(Protocol::Legacy, Some(Era::Modern)).translation;
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
    rig.server(result(&question, offer()));
    let answer = rig.heard_by_client();
    assert_eq!(answer["id"], "i");
    assert_eq!(
        answer["result"],
        json!({
            "protocolVersion":"2025-06-18",
            "capabilities":{
                "tools":{"listChanged":true},"resources":{"subscribe":true},
            },
            "serverInfo":{"name":"s","version":"9"},"instructions":"Read me",
        })
    );
    rig.client(message(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#));
    let listen = rig.heard_by_server();
    assert_eq!(listen["method"], "subscriptions/listen");
    assert_eq!(listen["params"]["notifications"], json!({"toolsListChanged":true}));
    assert_eq!(rig.found.take(), None, "it was known before");
}

#[test]
fn extensions_are_told_to_clients_that_have_some() {
    let text = String::from_utf8_lossy(initialize().bytes())
        .replace(r#""tasks":{}"#, r#""tasks":{},"extensions":{"x/y":{}}"#);
    let mut rig = Rig::new(Some(Era::Modern));
    rig.client(message(text));
    let question = rig.heard_by_server();
    let capabilities = &question["params"]["_meta"][format!("{META}clientCapabilities")];
    assert_eq!(*capabilities, json!({"elicitation":{},"extensions":{"x/y":{}}}));
    rig.server(result(&question, offer()));
    let told = &rig.heard_by_client()["result"]["capabilities"]["extensions"];
    assert_eq!(*told, json!({"x/y":{}}), "but not of tasks, which differ");
}

#[test]
fn a_server_without_a_name_gets_one_since_legacy_clients_insist_on_it() {
    let mut rig = Rig::new(Some(Era::Modern));
    rig.client(initialize());
    let question = rig.heard_by_server();
    let mut nameless = offer();
    nameless.as_object_mut().unwrap().remove("_meta");
    rig.server(result(&question, nameless));
    let server = rig.heard_by_client()["result"]["serverInfo"].clone();
    assert_eq!(server, json!({"name":"MCP server","version":""}));
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
    assert_eq!(rig.found.take(), Some(Era::Legacy));
    let answer = message(r#"{"jsonrpc":"2.0","id":"i","result":{}}"#);
    rig.server(answer.clone());
    assert_eq!(rig.out.pop_front(), Some(Step::ToClient(answer)));
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
fn a_question_that_does_not_get_through_comes_back_as_initialize() {
    let mut rig = Rig::new(Some(Era::Modern));
    rig.client(initialize());
    let question = rig.heard_by_server();
    let refused = Error::new(ErrorKind::Connect, "refused").not_delivered();
    rig.fail(message(question), refused.clone());
    assert_eq!(rig.out.pop_front(), Some(Step::Failed { message: initialize(), error: refused }));
}

#[test]
fn an_initialize_that_is_taken_back_holds_up_nothing() {
    let cancel =
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"i"}}"#;
    for (known, asked) in
        [(None, json!("i")), (Some(Era::Modern), json!("mcp-span-7-1099511627777"))]
    {
        let mut rig = Rig::new(known);
        rig.client(initialize());
        rig.heard_by_server();
        rig.client(message(cancel));
        assert_eq!(rig.heard_by_server()["params"]["requestId"], asked);
        assert!(rig.out.is_empty() && rig.translation.is_through());
    }
}

#[test]
fn a_second_initialize_loses_nothing() {
    let mut rig = Rig::translating();
    let sent = rig.ask(1, "tools/call", json!({"name":"x"}));
    rig.client(initialize());
    assert_eq!(rig.heard_by_client()["result"]["serverInfo"]["name"], "s");
    rig.server(result(&sent, json!({"resultType":"complete"})));
    assert_eq!(rig.heard_by_client()["id"], 1, "what was in flight ends as well");
}
