//! A login takes minutes and a client waits for seconds: what the client is told meanwhile, and how it
//! is made good.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::desk::{Desk, Form, back};
use crate::support::provider::place;
use crate::support::{
    Bridge, Hub, INITIALIZE, INITIALIZED, Manners, Provider, Reply, Request, polite, request,
    result,
};

/// A person who comes when the test says so.
const LATE: &str = "while [ -e \"$0\" ] && [ ! -e \"$2/go\" ]; do sleep 0.02; done
                    exec curl -sL -o /dev/null \"$1\"";
const SOON: [&str; 2] = ["--oauth-wait", "0.2"];

fn let_go(provider: &Provider) {
    std::fs::write(provider.path("go"), "").unwrap();
}

/// A server that has all three lists.
fn with_lists(r: &Request) -> Reply {
    let lists = json!({"tools": {}, "resources": {}, "prompts": {}});
    match &*r.what() {
        "initialize" => {
            let answer = json!({"protocolVersion": "2025-06-18", "capabilities": lists,
                "serverInfo": {"name": "s", "version": "1"}});
            Reply::json(result(r.id(), &answer.to_string())).header("Mcp-Session-Id", "s1")
        }
        "tools/list" => Reply::json(result(r.id(), r#"{"tools":[{"name":"real"}]}"#)),
        _ => polite(r),
    }
}

/// The client has been answered in the server's place; returns that answer.
async fn stood_in_for(bridge: &mut Bridge, provider: &Provider) -> Value {
    let answer = bridge.ask(INITIALIZE).await;
    assert_eq!(answer["id"], "init", "{answer}");
    bridge.send(INITIALIZED).await;
    provider.browsed(1).await;
    answer["result"].clone()
}

/// As the client sees it, whatever the transport; these are the lists that the server has.
async fn is_told_and_then_served(bridge: &mut Bridge, provider: &Provider, lists: &[&str]) {
    let welcome = stood_in_for(bridge, provider).await;
    let page = provider.pages().remove(0);
    assert_eq!(welcome["protocolVersion"], "2025-06-18");
    for list in ["tools", "resources", "prompts"] {
        assert_eq!(welcome["capabilities"][list]["listChanged"], true, "{welcome}");
    }
    let instructions = welcome["instructions"].as_str().unwrap();
    assert!(instructions.contains("login is pending") && instructions.contains(&page));

    is_offered_the_login(bridge, &page).await;
    for (method, empty) in [
        ("resources/list", json!({"resources": []})),
        ("resources/templates/list", json!({"resourceTemplates": []})),
        ("prompts/list", json!({"prompts": []})),
        ("ping", json!({})),
    ] {
        let answer = bridge.ask(request(1, method)).await;
        assert_eq!(answer["result"], empty, "{method}");
    }
    let error = bridge.ask(request(2, "tools/call")).await["error"].clone();
    assert_eq!(error["data"]["kind"], "login", "{error}");
    assert_eq!(error["data"]["delivery"], "not-delivered", "{error}");
    assert!(error["message"].as_str().unwrap().contains(&page), "{error}");

    let_go(provider);
    let mut changed = Vec::new();
    for _ in lists {
        changed.push(bridge.receive().await["method"].as_str().unwrap().to_owned());
    }
    changed.sort();
    let news = lists.iter().map(|list| format!("notifications/{list}/list_changed"));
    assert_eq!(changed, news.collect::<Vec<_>>());
    let answer = bridge.ask(request(3, "tools/call")).await;
    assert!(answer["result"].is_object(), "{answer}");
    assert_eq!(provider.pages().len(), 1);
}

/// The one tool that there is leads to the login, by its description and by its result.
async fn is_offered_the_login(bridge: &mut Bridge, page: &str) {
    let tools = bridge.ask(request(1, "tools/list")).await["result"]["tools"].clone();
    assert_eq!(tools.as_array().unwrap().len(), 1, "{tools}");
    assert_eq!(tools[0]["name"], "mcp_span_login");
    assert!(tools[0]["description"].as_str().unwrap().contains(page), "{tools}");
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_span_login","arguments":{}}}"#;
    let result = bridge.ask(call).await["result"].clone();
    assert!(result["content"][0]["text"].as_str().unwrap().contains(page), "{result}");
    assert_eq!(result["isError"], false);
}

#[tokio::test]
async fn a_client_is_told_of_the_login_and_then_served_as_if_nothing_was() {
    let provider = Provider::guarding(Manners::default(), with_lists).await;
    provider.browse(LATE);
    let mut bridge = provider.bridge(&[&SOON[..], &["--no-server-stream"]].concat());
    is_told_and_then_served(&mut bridge, &provider, &["prompts", "resources", "tools"]).await;
    let tools = bridge.ask(request(4, "tools/list")).await;
    assert_eq!(tools["result"]["tools"][0]["name"], "real", "{tools}");
    // The handshake is the client's own, and nothing that was answered in between came through.
    let carried = provider.carried();
    let methods: Vec<&str> = carried.iter().map(|(method, _)| &**method).collect();
    let real = ["initialize", "notifications/initialized", "tools/call", "tools/list"];
    assert_eq!(methods, [&["initialize"], &real[..]].concat());
    let initialize = provider.server().all("initialize").remove(1);
    assert_eq!(initialize.json()["params"]["clientInfo"]["name"], "t");
}

#[tokio::test]
async fn servers_of_the_older_transport_are_stood_in_for_as_well() {
    let desk = Arc::new(Desk::new(Manners {
        challenge: Some(""),
        resource_at: "/.well-known/oauth-protected-resource",
        edit_resource: |document, origin| document["resource"] = format!("{origin}/").into(),
        ..Manners::default()
    }));
    let at = Arc::clone(&desk);
    let hub = Hub::start(move |r, _| at.answer(r)).await;
    desk.guards(&hub.url);
    let provider = Provider::with(hub.url.clone(), desk, Vec::new());
    provider.browse(LATE);
    is_told_and_then_served(&mut provider.bridge(&SOON), &provider, &["tools"]).await;
}

#[tokio::test]
async fn eight_seconds_are_waited_unless_something_else_was_said() {
    let provider = Provider::start(Manners::default()).await;
    provider.browse(LATE);
    let begun = Instant::now();
    stood_in_for(&mut provider.bridge(&[]), &provider).await;
    let waited = begun.elapsed();
    assert!(waited >= Duration::from_secs(8), "{waited:?}");
    assert!(waited < Duration::from_secs(14), "{waited:?}");

    let begun = Instant::now();
    let mut other = provider.bridge_with(&["--profile", "b"], &[("MCP_SPAN_OAUTH_WAIT", "0.2")]);
    stood_in_for(&mut other, &provider).await;
    assert!(begun.elapsed() < Duration::from_secs(7), "by the environment");
}

#[tokio::test]
async fn the_revision_is_the_clients_but_no_newer_than_the_last_with_a_handshake() {
    for (asked, told) in [("2024-11-05", "2024-11-05"), ("2099-01-01", "2025-11-25")] {
        let provider = Provider::start(Manners::default()).await;
        provider.browse(LATE);
        let mut bridge = provider.bridge(&SOON);
        let answer = bridge.ask(INITIALIZE.replace("2025-06-18", asked)).await;
        assert_eq!(answer["result"]["protocolVersion"], told, "{answer}");
    }
}

#[tokio::test]
async fn a_login_in_time_is_answered_by_the_server_itself() {
    let provider = Provider::start(Manners::default()).await;
    let answer = provider.bridge(&["--oauth-wait", "15"]).ask(INITIALIZE).await;
    assert_eq!(answer["result"]["serverInfo"]["name"], "s", "{answer}");
}

#[tokio::test]
async fn a_login_that_is_refused_after_all_is_told_with_the_next_call_and_not_begun_again() {
    let instead = |r: &Request| {
        let iss = format!("http://{}", r.header("host").unwrap());
        let fields = [("error", "access_denied"), ("error_description", "not you"), ("iss", &*iss)];
        (place(r) == "/authorize").then(|| back(&Form::of_query(r), &fields))
    };
    let manners = Manners { instead: Arc::new(instead), ..Manners::default() };
    let provider = Provider::start(manners).await;
    provider.browse(&format!("{}\ntouch \"$2/over\"", LATE.replace("exec ", "")));
    let mut bridge = provider.bridge(&SOON);
    stood_in_for(&mut bridge, &provider).await;
    let_go(&provider);
    let mut error = Value::Null;
    let refused = async {
        while !error["message"].as_str().unwrap_or_default().contains("was refused: not you") {
            error = bridge.ask(request(1, "tools/call")).await["error"].clone();
        }
    };
    crate::support::soon("the refusal", refused).await;
    for id in 2..5 {
        let error = bridge.ask(request(id, "tools/call")).await["error"].clone();
        assert_eq!(error["data"]["kind"], "login", "{error}");
    }
    assert_eq!(provider.pages().len(), 1, "no tab after tab");
}

#[tokio::test]
async fn a_client_that_leaves_during_a_login_is_not_held_up_by_it() {
    // Whether it was answered meanwhile or has the rest of a minute to wait.
    for (wait, is_answered) in [("0.2", true), ("60", false)] {
        let provider = Provider::start(Manners::default()).await;
        provider.browse(LATE);
        let mut bridge = provider.bridge(&["--oauth-wait", wait]);
        bridge.send(INITIALIZE).await;
        provider.browsed(1).await;
        if is_answered {
            bridge.receive().await;
        }
        let begun = Instant::now();
        let (rest, status, stderr) = bridge.finish().await;
        assert!(status.success(), "{stderr}");
        // Two seconds on a machine that has nothing else to do.
        assert!(begun.elapsed() < Duration::from_secs(5), "{wait}: {:?}", begun.elapsed());
        assert!(provider.at("/token").is_empty());
        if !is_answered {
            let answer: Value = serde_json::from_str(&rest[0]).unwrap();
            assert_eq!(answer["error"]["data"]["kind"], "login", "{answer}");
            let message = answer["error"]["message"].as_str().unwrap();
            assert!(message.contains(&provider.pages()[0]), "{answer}");
        }
    }
}

#[tokio::test]
async fn a_login_that_a_client_leaves_behind_is_finished_if_the_browser_is_on_its_way() {
    let provider = Provider::start(Manners::default()).await;
    let mut bridge = provider.bridge(&[]);
    bridge.send(INITIALIZE).await;
    let (lines, status, stderr) = bridge.finish().await;
    assert!(status.success(), "{stderr}");
    let answer: Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!(answer["result"]["serverInfo"]["name"], "s", "{answer}");
}

#[tokio::test]
async fn whoever_waits_for_the_login_of_another_process_is_told_its_page() {
    let provider = Provider::start(Manners::default()).await;
    provider.browse(LATE);
    let mut first = provider.bridge(&SOON);
    first.send(INITIALIZE).await;
    provider.browsed(1).await;
    let answer = provider.bridge(&SOON).ask(INITIALIZE).await;
    let instructions = answer["result"]["instructions"].as_str().unwrap();
    assert!(instructions.contains(&provider.pages()[0]), "{answer}");
    assert_eq!(provider.pages().len(), 1);
}
