//! Managed servers with the options of a configuration file: credentials, certificates, proxies.

use mcp_span::{
    Client, Config, ConfigEntry, ErrorKind, ManagedServer, Manager, ServerOptions, ServerState,
    Variables,
};
use serde_json::{Value, json};

use crate::manager::{cached, hasty, with_tool};
use crate::support::certificates::Files;
use crate::support::proxy::ProxyBehavior;
use crate::support::{Authority, PATIENCE, Reply, Server, polite, result, soon};

fn server(entry: &ConfigEntry) -> ManagedServer {
    ManagedServer::new(Client::builder(entry.options.clone())).expect("a server")
}

/// The server of a configuration file with this entry.
fn server_with(entry: Value) -> ManagedServer {
    let text = json!({ "mcpServers": { "s": entry } }).to_string();
    let config =
        Config::read("servers.json", &text, &Variables::default()).expect("a configuration");
    server(config.servers().next().expect("an entry"))
}

#[tokio::test]
async fn credentials_and_certificates_are_used_again_after_each_reconnect() {
    let authority = Authority::new("localhost");
    let remote = Server::start_tls(authority.config(&["http/1.1"]), with_tool).await;
    let files = Files::new();
    let entry = json!({
        "url": remote.url,
        "caCert": files.with("ca.pem", &authority.root),
        "bearerFile": files.with("token", "a-token-for-tests"),
        "headers": {"X-Team": "tools"},
        "timeout": 9,
    });
    let manager = Manager::start([("s", server_with(entry))], hasty());
    for number in 1..=2 {
        assert!(manager.settled(PATIENCE).await);
        let states = manager.states();
        assert_eq!(states["s"].as_str(), "ready", "{states:?}");
        assert_eq!(manager.tools()[0].name, "s__new");
        soon("a call", manager.call("s__new", ())).await.unwrap();
        assert_eq!(remote.all("initialize").len(), number);
        soon("another connection", manager.reconnect("s")).await.unwrap();
    }
    for request in remote.requests() {
        assert_eq!(request.header("authorization"), Some("Bearer a-token-for-tests"));
        assert_eq!(request.header("x-team"), Some("tools"));
    }
    soon("goodbye", manager.close()).await;
}

#[tokio::test]
async fn the_proxy_of_the_configuration_is_asked_for_the_server() {
    let proxy = ProxyBehavior::http().login("me", "secret").start().await;
    let entry = json!({
        "url": "https://server.invalid/mcp",
        "proxy": proxy.url_for("http", "me:secret"),
    });
    let manager = Manager::start([("s", server_with(entry))], hasty());
    assert!(manager.settled(PATIENCE).await, "it has failed: there is no such server");
    let asked = proxy.asked();
    assert!(!asked.is_empty(), "it was asked for around the proxy");
    assert!(asked.iter().all(|what| what == "CONNECT server.invalid:443"), "{asked:?}");
    soon("goodbye", manager.close()).await;
}

#[tokio::test]
async fn a_tool_that_the_configuration_hides_is_hidden_from_every_caller() {
    let remote = Server::start(with_tool).await;
    let entry = json!({"url": remote.url, "ignoreTool": ["n*"]});
    let manager = Manager::start([("s", server_with(entry).cached(cached("new")))], hasty());
    assert!(manager.tools().is_empty(), "what was known of an earlier run is hidden as well");
    assert!(manager.settled(PATIENCE).await);
    assert!(manager.tools().is_empty());
    let error = soon("an end", manager.call("s__new", ())).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::HiddenTool, "{error}");
    let client = soon("a connection", manager.client("s")).await.unwrap();
    let error = soon("an end", async { client.call("new", ()).await }).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::HiddenTool, "{error}");
    assert!(remote.all("tools/call").is_empty());
    soon("goodbye", manager.close()).await;
}

#[tokio::test]
async fn options_that_cannot_be_used_are_refused_before_anything_is_tried() {
    for (options, word) in [
        (json!({"url": "https://h/", "bearer-file": "/no/such/file"}), "/no/such/file"),
        (json!({"url": "https://h/", "ca-cert": ["/no/such/file"]}), "/no/such/file"),
        (json!({"url": "no url"}), "not a URL"),
    ] {
        let options: ServerOptions = serde_json::from_value(options).expect("options");
        let error = ManagedServer::new(Client::builder(options)).unwrap_err();
        assert!(error.message.contains(word), "{error}");
    }
}

#[tokio::test]
async fn the_servers_of_a_configuration_are_managed_and_a_wrong_one_harms_nobody() {
    let remote = Server::start(|r| match &*r.what() {
        "tools/list" => Reply::json(result(r.id(), r#"{"tools":[{"name":"far"}]}"#)),
        _ => polite(r),
    })
    .await;
    let text = format!(
        r#"{{"mcpServers": {{
            "far": {{"url": "{}", "timeout": 9}},
            "near": {{"command": "{}", "args": ["demo"]}},
            "wrong": {{"url": 7}},
            "off": {{"command": "nothing", "disabled": true}}
        }}}}"#,
        remote.url,
        env!("CARGO_BIN_EXE_mcp-span")
    );
    let config = Config::read("servers.json", &text, &Variables::default()).unwrap();
    assert!(config.errors().next().unwrap().to_string().starts_with("servers.json, line 4"));
    let servers: Vec<_> = config
        .servers()
        .filter(|entry| entry.enabled)
        .map(|entry| (entry.name.clone(), server(entry)))
        .collect();
    let manager = Manager::start(servers, hasty());
    manager.settled(PATIENCE).await;
    let states: Vec<_> = manager.states().into_iter().collect();
    assert!(states.iter().all(|(_, state)| matches!(state, ServerState::Ready)), "{states:?}");
    let sum = manager.call_on("near", "add", json!({"a": 2, "b": 40})).await.unwrap();
    assert_eq!(sum.text(), "42");
    manager.close().await;
}
