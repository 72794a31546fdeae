//! What the demo server answers: a handshake and three tools.

use std::time::Duration;

use serde_json::{Value, json};

use crate::revision::Revision;

/// How a message is answered.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    /// Not at all: it was a notification, or an answer.
    Nothing,
    /// At once.
    Json(Value),
    /// Bit by bit: each message after its pause.
    Events(Vec<(Duration, Value)>),
    /// By [`greeting`], once the client has answered this question.
    Question(Value),
}

/// Answers one message of a client with which `elicits` says whether it answers questions.
pub(super) fn answer(message: &Value, elicits: bool) -> Answer {
    let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) else {
        return Answer::Nothing;
    };
    let params = &message["params"];
    match method {
        "initialize" => result(id, &initialized(params)),
        "ping" => result(id, &json!({})),
        "tools/list" => result(id, &json!({ "tools": tools(elicits) })),
        "tools/call" => call(id, params),
        _ => failure(id, -32601, &format!("Method not found: {method}")),
    }
}

fn initialized(params: &Value) -> Value {
    let asked = params["protocolVersion"].as_str().unwrap_or_default();
    let version = if Revision::is_legacy(asked) { asked } else { Revision::LATEST_LEGACY };
    json!({
        "protocolVersion": version,
        "capabilities": { "tools": {} },
        "serverInfo": {
            "name": "mcp-span-demo",
            "title": "mcp-span demo server",
            "version": env!("CARGO_PKG_VERSION"),
        },
        "instructions": "A server to try a client on. It echoes, adds and counts down.",
    })
}

fn tools(elicits: bool) -> Value {
    let number = json!({ "type": "number" });
    let mut tools = json!([
        {
            "name": "echo",
            "title": "Echo",
            "description": "Gives back the text it is given.",
            "inputSchema": {
                "type": "object",
                "properties": { "text": { "type": "string" } },
                "required": ["text"],
            },
            "annotations": { "readOnlyHint": true },
        },
        {
            "name": "add",
            "title": "Add",
            "description": "Adds two numbers.",
            "inputSchema": {
                "type": "object",
                "properties": { "a": number, "b": number },
                "required": ["a", "b"],
            },
            "annotations": { "readOnlyHint": true },
        },
        {
            "name": "countdown",
            "title": "Countdown",
            "description": "Counts down to zero, with progress on the way.",
            "inputSchema": {
                "type": "object",
                "properties": { "from": { "type": "integer", "minimum": 1, "maximum": 100 } },
            },
            "annotations": { "readOnlyHint": true },
        },
    ]);
    if let (true, Some(tools)) = (elicits, tools.as_array_mut()) {
        tools.push(json!({
            "name": "greet",
            "title": "Greet",
            "description": "Asks for a name, and greets who has it.",
            "inputSchema": { "type": "object" },
            "annotations": { "readOnlyHint": true },
        }));
    }
    tools
}

fn call(id: &Value, params: &Value) -> Answer {
    let arguments = &params["arguments"];
    match params["name"].as_str() {
        Some("echo") => match arguments["text"].as_str() {
            Some(text) => result(id, &text_content(text)),
            None => failure(id, -32602, "echo wants a string 'text'"),
        },
        Some("add") => match (arguments["a"].as_f64(), arguments["b"].as_f64()) {
            (Some(a), Some(b)) => result(id, &text_content(&(a + b).to_string())),
            _ => failure(id, -32602, "add wants two numbers, 'a' and 'b'"),
        },
        Some("countdown") => {
            let from = arguments["from"].as_u64().unwrap_or(3).clamp(1, 100);
            countdown(id, from, &params["_meta"]["progressToken"])
        }
        Some("greet") => Answer::Question(json!({
            "jsonrpc": "2.0",
            "id": format!("question-{id}"),
            "method": "elicitation/create",
            "params": {
                "message": "What is your name?",
                "requestedSchema": {
                    "type": "object",
                    "properties": { "name": { "type": "string" } },
                    "required": ["name"],
                },
            },
        })),
        name => failure(id, -32602, &format!("Unknown tool: {}", name.unwrap_or("(no name)"))),
    }
}

/// The answer to a call of `greet`, once the client has answered its question.
pub(super) fn greeting(id: &Value, answer: &Value) -> Value {
    let text = match answer["content"]["name"].as_str() {
        Some(name) if answer["action"] == "accept" => format!("Hello, {name}!"),
        _ => "Hello, whoever you are!".to_owned(),
    };
    json!({ "jsonrpc": "2.0", "id": id, "result": text_content(&text) })
}

fn countdown(id: &Value, from: u64, token: &Value) -> Answer {
    const STEP: Duration = Duration::from_millis(100);
    let mut events = Vec::new();
    if !token.is_null() {
        events.extend((1..=from).map(|step| {
            let params = json!({
                "progressToken": token,
                "progress": step,
                "total": from,
                "message": format!("{} to go", from - step),
            });
            let method = "notifications/progress";
            (STEP, json!({ "jsonrpc": "2.0", "method": method, "params": params }))
        }));
    }
    let text = format!("Counted down from {from}.");
    let answer = json!({ "jsonrpc": "2.0", "id": id, "result": text_content(&text) });
    events.push((STEP, answer));
    Answer::Events(events)
}

fn text_content(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

fn result(id: &Value, result: &Value) -> Answer {
    Answer::Json(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}

fn failure(id: &Value, code: i32, message: &str) -> Answer {
    let error = json!({ "code": code, "message": message });
    Answer::Json(json!({ "jsonrpc": "2.0", "id": id, "error": error }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: &str, params: &Value) -> Value {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        match answer(&message, false) {
            Answer::Json(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn known_revisions_are_kept_and_others_become_the_newest() {
        let negotiated = |asked| {
            let answer = ask("initialize", &json!({ "protocolVersion": asked }));
            answer["result"]["protocolVersion"].as_str().unwrap().to_owned()
        };
        assert_eq!(negotiated("2025-06-18"), "2025-06-18");
        assert_eq!(negotiated("2026-07-28"), Revision::LATEST_LEGACY);
    }

    #[test]
    fn tools_do_what_they_say() {
        let text = |answer: Value| answer["result"]["content"][0]["text"].clone();
        let call =
            |name, arguments| ask("tools/call", &json!({ "name": name, "arguments": arguments }));
        assert_eq!(text(call("echo", json!({ "text": "hi" }))), "hi");
        assert_eq!(text(call("add", json!({ "a": 2, "b": 40 }))), "42");
        assert_eq!(call("add", json!({}))["error"]["code"], -32602);
        assert_eq!(call("nope", json!({}))["error"]["code"], -32602);
        assert_eq!(ask("server/discover", &json!({}))["error"]["code"], -32601);
    }

    #[test]
    fn a_countdown_reports_progress_if_asked_to() {
        let message = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
            "name": "countdown", "arguments": { "from": 2 }, "_meta": { "progressToken": "t" } } });
        let Answer::Events(events) = answer(&message, false) else { panic!("a stream") };
        assert_eq!(events.len(), 3);
        assert_eq!(events[1].1["params"]["progress"], 2);
        assert_eq!(events[2].1["id"], 7);
    }

    #[test]
    fn notifications_get_no_answer() {
        let message = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(answer(&message, true), Answer::Nothing);
    }
}
