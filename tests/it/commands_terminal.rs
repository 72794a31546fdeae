//! Commands at a terminal: colour, a spinner that leaves no trace, questions that a person answers.

use serde_json::{Value, json};

use crate::support::shop::shop;
use crate::support::terminal::Terminal;
use crate::support::{Gate, Manners, Provider, Reply, Request, Server, result};

#[tokio::test]
async fn names_have_colour_and_foreign_text_has_none() {
    let server = Server::start(shop).await;
    let (shown, status) = Terminal::start(&["tools", &server.url], &[]).ends().await;
    assert!(status.success(), "{shown}");
    assert!(shown.contains("\u{1b}[1m\u{1b}[36morder\u{1b}[0m"), "{shown:?}");
    assert!(shown.contains("Orders[31m things."), "{shown:?}");
    let (shown, _) = Terminal::start(&["tools", &server.url], &[("NO_COLOR", "1")]).ends().await;
    assert!(!shown.contains("\u{1b}["), "{shown:?}");
    let flags = ["--color", "never", "tools", &server.url];
    let (shown, _) = Terminal::start(&flags, &[]).ends().await;
    assert!(!shown.contains("\u{1b}["), "{shown:?}");
    let picture = ["read", &server.url, "file:///logo.png"];
    let (shown, _) = Terminal::start(&picture, &[]).ends().await;
    assert_eq!(shown, "[image/png, 8 bytes; use --out FILE or DIR to save it]\r\n");
    let (shown, _) = Terminal::start(&["read", &server.url, "note://1"], &[]).ends().await;
    assert_eq!(shown, "note\r\n");
}

#[tokio::test]
async fn who_starts_the_bridge_by_hand_is_told_what_it_waits_for() {
    let server = Server::start(shop).await;
    let mut terminal = Terminal::start(&[&server.url], &[]);
    terminal.shows("waiting for an MCP client on stdin").await;
    terminal.shows("mcp-span tools <URL>").await;
    terminal.types("\u{4}").await;
    let (_, status) = terminal.ends().await;
    assert!(status.success());
}

#[tokio::test]
async fn a_spinner_shows_that_something_is_waited_for() {
    let gate = Gate::new();
    let held = gate.clone();
    let slow = move |r: &Request| {
        match &*r.what() {
        "tools/call" => Reply::sse()
            .event(format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{},"progress":1,"total":4,"message":"pac\u001bking"}}}}"#,
                r.json()["params"]["_meta"]["progressToken"]
            ))
            .wait(&held)
            .event(result(r.id(), r#"{"content":[{"type":"text","text":"done"}]}"#))
            .end(),
        _ => shop(r),
    }
    };
    let server = Server::start(slow).await;
    let mut terminal = Terminal::start(&["call", &server.url, "fail"], &[]);
    terminal.shows("█████░░░░░░░░░░░░░░░  25% packing").await;
    gate.open();
    let (shown, status) = terminal.ends().await;
    assert!(status.success(), "{shown}");
    // Erased before the result is printed.
    assert!(shown.ends_with("\r\u{1b}[2Kdone\r\n"), "{shown:?}");
}

#[tokio::test]
async fn a_person_is_asked_what_the_server_wants_to_know() {
    let gate = Gate::new();
    let (open, held) = (gate.clone(), gate.clone());
    let asks = move |r: &Request| {
        if r.json()["result"]["action"].is_string() {
            open.open();
        }
        let schema = json!({"type": "object", "required": ["name"], "properties": {
            "age": {"type": "integer"}, "name": {"type": "string"}}});
        let question = json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
            "params": {"message": "Who are you?", "requestedSchema": schema}});
        match &*r.what() {
            "tools/call" => Reply::sse()
                .event(question.to_string())
                .wait(&held)
                .event(result(r.id(), r#"{"content":[{"type":"text","text":"thanks"}]}"#))
                .end(),
            _ => shop(r),
        }
    };
    let server = Server::start(asks).await;
    let mut terminal = Terminal::start(&["call", &server.url, "fail"], &[]);
    terminal.shows("The server asks: Who are you?").await;
    terminal.shows("Answer it?").await;
    terminal.types("y\n").await;
    terminal.shows("age (integer): ").await;
    terminal.types("old\n").await;
    terminal.shows("expected integer, got \"old\"").await;
    terminal.types("7\n").await;
    terminal.shows("name* (text): ").await;
    terminal.types("Ann\n").await;
    terminal.shows("thanks").await;
    let (shown, status) = terminal.ends().await;
    assert!(status.success(), "{shown}");
    let answer = server.requests().into_iter().find(|r| r.json()["id"] == "q").unwrap();
    let content = json!({"action": "accept", "content": {"age": 7, "name": "Ann"}});
    assert_eq!(answer.json()["result"], content);
    let opening = server.requests().into_iter().find(|r| r.what() == "initialize").unwrap();
    assert!(opening.json()["params"]["capabilities"]["elicitation"].is_object());
}

#[tokio::test]
async fn a_person_has_time_to_log_in() {
    let provider = Provider::guarding(Manners::default(), shop).await;
    provider.browse(
        "while [ -e \"$0\" ] && [ ! -e \"$2/go\" ]; do sleep 0.02; done\nexec curl -sL -o /dev/null \"$1\"",
    );
    let env = provider.env();
    let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut terminal =
        Terminal::start(&["prompts", &provider.url, "--json", "--oauth-wait", "0.1"], &env);
    terminal.shows(": open http").await;
    terminal.shows("waiting for the login, up to 5 minutes").await;
    terminal.shows("waiting for the login").await;
    std::fs::write(provider.path("go"), "").unwrap();
    terminal.shows("{\"prompts\":[").await;
    let (shown, status) = terminal.ends().await;
    assert!(status.success(), "{shown}");
}

#[tokio::test]
async fn ctrl_c_at_the_keyboard_ends_it() {
    let hangs = |r: &Request| match &*r.what() {
        "tools/call" => Reply::sse().hang(),
        _ => shop(r),
    };
    let server = Server::start(hangs).await;
    let mut terminal = Terminal::start(&["call", &server.url, "fail"], &[]);
    server.saw("tools/call").await;
    terminal.shows("calling fail").await;
    terminal.types("\u{3}").await;
    let (shown, status) = terminal.ends().await;
    assert_eq!(status.code(), Some(130), "{shown}");
    assert!(server.asked().contains(&"notifications/cancelled".to_owned()));
}

#[tokio::test]
async fn every_command_offers_the_server_what_a_call_offers() {
    let server = Server::start(shop).await;
    let url = &*server.url;
    let commands: [&[&str]; 8] = [
        &["call", url, "fail"],
        &["tools", url],
        &["resources", url],
        &["prompts", url],
        &["read", url, "note://1"],
        &["prompt", url, "greet", "who=x"],
        &["raw", url, "ping"],
        &["tools", url, "--roots"],
    ];
    for words in commands {
        Terminal::start(words, &[]).ends().await;
    }
    let offers: Vec<Value> = server
        .all("initialize")
        .iter()
        .map(|r| r.json()["params"]["capabilities"].clone())
        .collect();
    let call = json!({"elicitation": {"form": {}, "url": {}}});
    assert_eq!(offers[..7], vec![call.clone(); 7]);
    assert_eq!(offers[7], json!({"elicitation": call["elicitation"], "roots": {}}));
}
