//! A server with tools, resources and prompts of every sort, for the commands that visit one.

use super::{Reply, Request, polite, result};

/// Numbers and an order of members that no parser would keep.
pub(crate) const TOOL: &str = r#"{"name":"order","title":"Order something","description":"Orders\u001b[31m things.\nTakes a while.","inputSchema":{"type":"object","required":["what","count"],"properties":{"what":{"type":"string","description":"What to order"},"count":{"type":"integer","minimum":1,"maximum":123456789012345678901234567890},"size":{"enum":["s","m","l"],"default":"m"},"tags":{"type":"array","items":{"type":"string"}},"to":{"type":"object","properties":{"street":{"type":"string"}}}},"additionalProperties":false},"annotations":{"x":1.0}}"#;

/// What it replies.
pub(crate) fn shop(r: &Request) -> Reply {
    let json = r.json();
    let params = &json["params"];
    let answer = match (&*r.what(), params["cursor"].as_str()) {
        ("initialize", _) => return Reply::json(welcome(r)).header("Mcp-Session-Id", "s1"),
        ("tools/list", None) => format!(r#"{{"tools":[{TOOL}],"nextCursor":"2"}}"#),
        ("tools/list", _) => {
            r#"{"tools":[{"name":"fail","inputSchema":{"type":"object"}},{"name":"draw"}]}"#.into()
        }
        ("resources/list", _) => r#"{"resources":[
            {"uri":"file:///logo.png","name":"logo","title":"The logo","mimeType":"image/png","size":2048},
            {"uri":"note://1","name":"note","description":"A note"}]}"#
            .into(),
        ("resources/templates/list", _) => {
            r#"{"resourceTemplates":[{"uriTemplate":"note://{id}","name":"notes"}]}"#.into()
        }
        ("prompts/list", _) => r#"{"prompts":[{"name":"greet","title":"Greeting",
            "description":"Says hello.","arguments":[
            {"name":"who","description":"Whom to greet","required":true},{"name":"how"}]}]}"#
            .into(),
        ("prompts/get", _) => {
            let who = &params["arguments"]["who"];
            format!(
                r#"{{"messages":[{{"role":"user","content":{{"type":"text","text":{who}}}}},
                {{"role":"assistant","content":{{"type":"text","text":"Hello."}}}}]}}"#
            )
        }
        ("resources/read", _) => read(params["uri"].as_str().unwrap()),
        ("tools/call", _) => return call(r, params["name"].as_str().unwrap()),
        ("big", _) => r#"{"n": 123456789012345678901234567890, "f": 1.0}"#.into(),
        ("refuse", _) => {
            let error = r#"{"code":-32050,"message":"No\u001b[2J way","data":{"why":"x"}}"#;
            return Reply::json(format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, r.id()));
        }
        _ => return polite(r),
    };
    Reply::json(result(r.id(), &answer))
}

fn welcome(r: &Request) -> String {
    let offers = r#"{"tools":{},"resources":{},"prompts":{},"logging":{}}"#;
    result(
        r.id(),
        &format!(
            r#"{{"protocolVersion":"2025-11-25","capabilities":{offers},"serverInfo":{{"name":"shop","version":"1"}}}}"#
        ),
    )
}

fn read(uri: &str) -> String {
    match uri {
        "note://1" => r#"{"contents":[{"uri":"note://1","text":"no\u001bte"}]}"#.into(),
        _ => format!(
            r#"{{"contents":[{{"uri":"{uri}","mimeType":"image/png","blob":"iVBORw0KGgo="}}]}}"#
        ),
    }
}

fn call(r: &Request, tool: &str) -> Reply {
    let answer = match tool {
        "order" => {
            r#"{"content":[{"type":"text","text":"ordered"}],"structuredContent":{"id":123456789012345678901234567890}}"#
        }
        "fail" => r#"{"content":[{"type":"text","text":"it broke"}],"isError":true}"#,
        "draw" => {
            r#"{"content":[{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png"},{"type":"resource_link","uri":"note://1","name":"note"}]}"#
        }
        _ => return polite(r),
    };
    Reply::json(result(r.id(), answer))
}
