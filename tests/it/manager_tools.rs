//! Tools of many servers under one roof: their names, and which of them may be seen and called.

use mcp_span::manager::{Manager, ManagerOptions, ToolFilter};
use mcp_span::{Delivery, ErrorKind};
use serde_json::{Value, json};

use crate::manager::{cached, url, with_tool};
use crate::support::{PATIENCE, Reply, Request, Server, result, soon};

/// A server that lists these tools, and answers a call with its own name and the tool's.
async fn server(name: &'static str, tools: &'static [&'static str]) -> Server {
    Server::start(move |request: &Request| match &*request.what() {
        "tools/list" => {
            let tools: Vec<Value> = tools.iter().map(|tool| json!({ "name": tool })).collect();
            Reply::json(result(request.id(), &json!({ "tools": tools }).to_string()))
        }
        "tools/call" => {
            let answer = json!({"from": name, "tool": request.json()["params"]["name"]});
            let answer = json!({ "structuredContent": answer }).to_string();
            Reply::json(result(request.id(), &answer))
        }
        _ => with_tool(request),
    })
    .await
}

fn names(manager: &Manager) -> Vec<String> {
    manager.tools().into_iter().map(|tool| tool.name).collect()
}

/// How many calls the server has got.
fn calls(server: &Server) -> usize {
    server.all("tools/call").len()
}

#[tokio::test]
async fn tools_have_names_that_are_unique_among_all_servers_and_lead_to_theirs() {
    const LONG: &str = "a-tool-with-a-name-that-goes-on-for-longer-than-any-model-provider-takes";
    let one = server("one", &["search", "x.y", "x/y", LONG, "", "search"]).await;
    let two = server("two", &["search"]).await;
    let servers = [("my one", url(&one.url)), ("two", url(&two.url))];
    let manager = Manager::start(servers, ManagerOptions::default());
    assert!(manager.settled(PATIENCE).await);
    let tools = manager.tools();
    let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!((names.len(), names[0], names[4]), (5, "my_one__search", "two__search"));
    for tool in &tools {
        let is_valid = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        assert!(tool.name.len() <= 64 && tool.name.chars().all(is_valid), "{}", tool.name);
        let answer = soon("a call", manager.call(&tool.name, ())).await.unwrap();
        let answer: Value = answer.structured().unwrap();
        let from = if &*tool.server == "two" { "two" } else { "one" };
        assert_eq!(answer, json!({"from": from, "tool": tool.tool.name()}));
    }
    // Those that would have one name have each a suffix.
    assert!(names[1].starts_with("my_one__x_y_") && names[2].starts_with("my_one__x_y_"));
    let failure = soon("an end", manager.call("my_one__x_y", ())).await.unwrap_err();
    assert!(failure.message.contains("several tools"), "{failure}");
    let failure = soon("an end", manager.call("three__x", ())).await.unwrap_err();
    assert_eq!(
        (failure.kind, failure.delivery),
        (ErrorKind::InvalidRequest, Delivery::NotDelivered)
    );
    assert_eq!((calls(&one), calls(&two)), (4, 1));
    soon("goodbye", manager.close()).await;
}

#[tokio::test]
async fn a_tool_that_is_not_listed_yet_is_called_by_the_name_of_its_server() {
    let one = server("one", &[]).await;
    let servers = [("one", url(&one.url)), ("one__b", url(&one.url))];
    let manager = Manager::start(servers, ManagerOptions::default());
    let answer = soon("a call", manager.call("one__new", ())).await.unwrap();
    let answer: Value = answer.structured().unwrap();
    assert_eq!(answer["tool"], "new");
    // The longest name of a server counts.
    let answer = soon("a call", manager.call("one__b__new", ())).await.unwrap();
    let answer: Value = answer.structured().unwrap();
    assert_eq!(answer["tool"], "new");
    soon("goodbye", manager.close()).await;
}

#[tokio::test]
async fn what_is_denied_or_not_allowed_is_neither_seen_nor_called() {
    let one = server("one", &["list", "deleteAll", "get"]).await;
    let two = server("two", &["list", "delete_one", "get", "write"]).await;
    let mut options = ManagerOptions::default();
    options.tools = ToolFilter::default().deny(["delete*", "one__GET"]);
    let filter = ToolFilter::default().allow(["list", "*get", "delete*"]).deny(["two__get"]);
    let servers =
        [("one", url(&one.url).cached(cached("delete_old"))), ("two", url(&two.url).tools(filter))];
    let manager = Manager::start(servers, options);
    assert!(names(&manager).is_empty(), "what was known of an earlier run is hidden as well");
    assert!(manager.settled(PATIENCE).await);
    assert_eq!(names(&manager), ["one__list", "two__list"]);
    for denied in ["one__deleteAll", "one__get", "two__delete_one", "two__get", "two__write"] {
        let failure = soon("an end", manager.call(denied, ())).await.unwrap_err();
        assert_eq!(
            (failure.kind, failure.delivery),
            (ErrorKind::HiddenTool, Delivery::NotDelivered),
            "{denied}"
        );
    }
    let failure = soon("an end", manager.call_on("two", "write", ())).await.unwrap_err();
    assert_eq!(failure.kind, ErrorKind::HiddenTool);
    assert_eq!((calls(&one), calls(&two)), (0, 0), "nothing of it has reached a server");
    soon("a call", manager.call("two__list", ())).await.unwrap();
    soon("goodbye", manager.close()).await;
}
