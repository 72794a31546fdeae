//! A server whose every text holds what a terminal acts on, or what makes a text look like another:
//! no command, log, trace or report passes any of it on.

use serde_json::{Value, json};

#[cfg(target_os = "linux")]
use crate::support::terminal::Terminal;
use crate::support::{
    Bridge, Gate, Manners, Provider, Reply, Request, Server, polite, request, run,
};

/// A title, a cleared screen, colours by C1, other directions, something invisible, another line.
const BAD: &str =
    "X\u{1b}]0;p\u{7}\u{1b}[2J\u{9b}31m\u{202e}\u{2066}\u{200b}\u{7f}\r\u{2028}\u{8}Y";

/// What of it came out; line ends are our own.
fn harm(text: &str) -> Option<char> {
    let is_harm = |c: &char| {
        c.is_control() && !matches!(c, '\n' | '\r' | '\t')
            || matches!(c, '\u{200b}' | '\u{2028}' | '\u{202e}' | '\u{2066}')
    };
    text.chars().find(is_harm)
}

fn schema() -> Value {
    json!({"type": "object", "description": BAD, "required": ["a"], "additionalProperties": false,
        "properties": {
            "a": {"type": "integer", "description": BAD},
            BAD: {"type": BAD, "title": BAD, "description": BAD, "default": BAD},
            "e": {"enum": [BAD, BAD], "description": BAD}, "c": {"const": BAD},
            "u": {"type": ["integer", BAD]}, "o": {"required": [BAD], "type": "object"}}})
}

fn tools() -> Value {
    let tool = |name: &str| {
        json!({"name": name, "title": BAD, "description": BAD, "inputSchema": schema(),
            "annotations": {"title": BAD, BAD: BAD}, "outputSchema": schema()})
    };
    json!({"tools": [tool("t"), tool(BAD)]})
}

fn blocks() -> Value {
    json!([
        {"type": "text", "text": BAD},
        {"type": "image", "data": "*", "mimeType": BAD},
        {"type": "resource", "resource": {"uri": BAD, "text": BAD, "mimeType": BAD}},
        {"type": "resource", "resource": {"uri": BAD, "blob": "*", "mimeType": BAD}},
        {"type": "resource_link", "uri": BAD, "name": BAD, "title": BAD, "description": BAD},
        {"type": BAD, BAD: [BAD]},
    ])
}

fn hostile(r: &Request) -> Reply {
    let answer = match &*r.what() {
        "initialize" => json!({"protocolVersion": "2025-11-25", "instructions": BAD,
            "capabilities": {"tools": {}, "resources": {}, "prompts": {}, "logging": {}, BAD: {BAD: true}},
            "serverInfo": {"name": BAD, "version": BAD, "title": BAD}}),
        "tools/list" => tools(),
        "resources/list" => json!({"resources": [{"uri": BAD, "name": BAD, "title": BAD,
            "description": BAD, "mimeType": BAD}]}),
        "resources/templates/list" => json!({"resourceTemplates": [{"uriTemplate": BAD,
            "name": BAD, "description": BAD, "mimeType": BAD}]}),
        "prompts/list" => json!({"prompts": [
            {"name": "p", "title": BAD, "description": BAD,
                "arguments": [{"name": BAD, "description": BAD}]},
            {"name": BAD}]}),
        "prompts/get" => json!({"messages": [{"role": BAD, "content": blocks()},
            {"role": "user", "content": {"type": "text", "text": BAD}}]}),
        "resources/read" => json!({"contents": [{"uri": BAD, "text": BAD},
            {"uri": BAD, "blob": "*", "mimeType": BAD}, {BAD: BAD}]}),
        "tools/call" => return called(r),
        "odd" => json!({BAD: [BAD, {BAD: BAD}]}),
        "error" => {
            let error = json!({"code": -1, "message": BAD, "data": {BAD: BAD}});
            return Reply::json(format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, r.id()));
        }
        "status" => {
            // What a header cannot carry is left out.
            let words = "X\u{9b}31m\u{202e}\u{2066}\u{200b}\u{2028}Y";
            let challenge = format!("Bearer error_description=\"{words}\"");
            return Reply::status(403, "text/plain", BAD).header("WWW-Authenticate", &challenge);
        }
        "page" => {
            return Reply::status(500, "text/html", format!("<html><title>{BAD}</title>{BAD}"));
        }
        "text" => return Reply::json(BAD),
        "type" => return Reply::status(200, "text/\u{9b}31m\u{202e}", BAD),
        "events" => {
            return Reply::sse().chunk(format!("event: {BAD}\nid: {BAD}\ndata: {BAD}\n\n")).end();
        }
        _ => return polite(r),
    };
    let reply = Reply::json(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{answer}}}"#, r.id()));
    reply.header("Mcp-Session-Id", "s1").header("X-Odd", "\u{9b}31m\u{202e}")
}

/// A call with a log and progress before its result.
fn called(r: &Request) -> Reply {
    let token = &r.json()["params"]["_meta"]["progressToken"];
    let log = json!({"jsonrpc": "2.0", "method": "notifications/message",
        "params": {"level": BAD, "logger": BAD, "data": {BAD: BAD}}});
    let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": token, "progress": 1, "message": BAD}});
    let result = json!({"content": blocks(), "structuredContent": {BAD: BAD}, "isError": true});
    let id = r.id();
    Reply::sse()
        .event(log.to_string())
        .event(progress.to_string())
        .event(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
        .end()
}

/// The commands that print what a server says, with what is typed behind the URL.
const COMMANDS: [&[&str]; 24] = [
    &["tools"],
    &["tools", "t"],
    &["tools", "nobody"],
    &["tools", "--json"],
    &["tools", "t", "--json"],
    &["resources"],
    &["resources", "--json"],
    &["prompts"],
    &["prompts", "p"],
    &["prompts", "nobody"],
    &["prompts", "--json"],
    &["call", "t", "a=1", "-v"],
    &["call", "t", "a=1", "b=1", "c=2", "e=3", "o={}"],
    &["call", "t", "a=1", "--json"],
    &["read", "u"],
    &["read", "u", "--json"],
    &["prompt", "p"],
    &["prompt", "p", "--json"],
    &["raw", "odd"],
    &["raw", "odd", "--json"],
    &["raw", "error"],
    &["raw", "error", "--json"],
    &["check"],
    &["check", "--json"],
];

fn words<'a>(command: &[&'a str], url: &'a str) -> Vec<&'a str> {
    [&command[..1], &[url], &command[1..]].concat()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn no_command_passes_it_on_to_a_terminal() {
    let server = Server::start(hostile).await;
    let more: [&[&str]; 6] = [
        &["raw", "status"],
        &["raw", "page"],
        &["raw", "text"],
        &["raw", "type"],
        &["raw", "events", "--timeout", "2"],
        &["raw", "status", "--json"],
    ];
    for command in COMMANDS.iter().chain(&more) {
        let args = words(command, &server.url);
        // Neither colours nor a spinner: whatever acts is the server's.
        let env = [("TERM", "dumb"), ("NO_COLOR", "1")];
        let (shown, _) = Terminal::start(&args, &env).ends().await;
        assert_eq!(harm(&shown), None, "{args:?}: {shown:?}");
        let shows_it = shown.contains('X') || more.contains(command);
        assert!(shows_it, "{args:?}: {shown:?}");
    }
}

#[tokio::test]
async fn only_contents_are_passed_on_to_a_pipe() {
    let server = Server::start(hostile).await;
    for command in &COMMANDS {
        let args = words(command, &server.url);
        let output = run(&args, &[], "").await;
        let (out, error) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        let is_content = ["call", "read", "prompt"].contains(&command[0]);
        if !is_content || command.contains(&"--json") {
            assert_eq!(harm(&out), None, "{args:?}: {out:?}");
        }
        assert_eq!(harm(&error), None, "{args:?}: {error:?}");
        if command.contains(&"--json") && out.starts_with('{') {
            let value: Value = serde_json::from_str(&out).expect("JSON");
            let is_whole = value.to_string().contains(&json!(BAD).to_string());
            assert!(is_whole || command[0] == "check", "the value is what it was: {out}");
        }
    }
}

#[tokio::test]
async fn no_log_and_no_trace_of_a_bridge_holds_it() {
    let server = Server::start(hostile).await;
    let folder = tempfile::tempdir().unwrap();
    for format in ["text", "json"] {
        let trace = folder.path().join(format);
        let trace = trace.to_str().unwrap();
        let args = [&*server.url, "-v", "--log-format", format, "--trace-file", trace];
        let mut bridge = Bridge::start(&args);
        bridge.handshake().await;
        for (id, method) in
            ["tools/list", "error", "status", "page", "text", "type", "events", "odd"]
                .into_iter()
                .enumerate()
        {
            bridge.ask(request(id, method)).await;
        }
        let id = json!(BAD).to_string();
        bridge.ask(request(&id, "odd")).await;
        bridge.send(json!({"jsonrpc": "2.0", "method": BAD}).to_string()).await;
        let (_, _, stderr) = bridge.finish().await;
        assert!(stderr.contains('X'), "{stderr}");
        let traced = std::fs::read_to_string(trace).unwrap();
        let told = run(&["trace", trace], &[], "").await;
        let told = String::from_utf8(told.stdout).unwrap();
        for text in [&stderr, &traced, &told] {
            assert_eq!(harm(text), None, "{text:?}");
            assert!(!text.contains('\r'), "{text:?}");
        }
        // It stays one line for each event, and JSON where it was.
        assert!(traced.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{traced}");
        if format == "json" {
            assert!(stderr.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
        }
    }
}

#[tokio::test]
async fn no_account_and_no_login_that_fails_shows_it() {
    let granted =
        Manners { edit_token: |token, _| token["scope"] = BAD.into(), ..Manners::default() };
    let refusal = json!({"error": BAD, "error_description": BAD}).to_string();
    let refused =
        Manners::default().instead("/token", Reply::status(400, "application/json", refusal));
    let page = Manners::default().instead("/token", Reply::status(502, "text/html", BAD));
    for (manners, is_granted) in [(granted, true), (refused, false), (page, false)] {
        let provider = Provider::guarding(manners, polite).await;
        for command in ["login", "status"] {
            let output = provider.run(command, &[]).await;
            assert_eq!(output.status.success(), is_granted, "{output:?}");
            for bytes in [&output.stdout, &output.stderr] {
                let text = String::from_utf8_lossy(bytes);
                assert_eq!(harm(&text), None, "{command}: {text:?}");
            }
            let shown = String::from_utf8_lossy(&output.stdout);
            assert!(command == "login" || shown.contains('X') == is_granted, "{shown}");
        }
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn no_question_of_a_server_acts_on_the_terminal() {
    let gate = Gate::new();
    let (open, held) = (gate.clone(), gate.clone());
    let server = Server::start(move |r| {
        if r.json()["result"]["action"].is_string() {
            open.open();
        }
        let question = json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
            "params": {"message": BAD, "requestedSchema": schema()}});
        let id = if r.what() == "tools/call" { r.id() } else { String::new() };
        match &*r.what() {
            "tools/call" => Reply::sse()
                .event(question.to_string())
                .wait(&held)
                .event(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[]}}}}"#))
                .end(),
            _ => hostile(r),
        }
    })
    .await;
    let env = [("TERM", "dumb"), ("NO_COLOR", "1")];
    let mut terminal = Terminal::start(&["call", &server.url, "t", "a=1"], &env);
    terminal.shows("Answer it?").await;
    terminal.types("y\n").await;
    // What does not fit is told with what would.
    for (shown, typed) in [("X", "?\n"), ("a* (integer): ", "x\n"), ("got \"x\"", "1\n")] {
        terminal.shows(shown).await;
        terminal.types(typed).await;
    }
    for typed in ["?\n", "?\n"] {
        terminal.shows("c (text): ").await;
        terminal.types(typed).await;
        terminal.shows("expected one of \"X").await;
    }
    terminal.types("\u{4}").await;
    let (shown, _) = terminal.ends().await;
    assert_eq!(harm(&shown.replace("^D\u{8}\u{8}", "")), None, "{shown:?}");
}
