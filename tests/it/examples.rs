//! The examples of the library, run as they stand in the repository.

use mcp_span::{BridgeEnd, Client, Demo, Link};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

use crate::support::soon;

macro_rules! example {
    ($name:ident, $path:literal) => {
        #[path = $path]
        #[expect(dead_code, reason = "`main` is not called")]
        mod $name;
    };
}

example!(bridge, "../../crates/mcp-span/examples/bridge.rs");
example!(call, "../../crates/mcp-span/examples/call.rs");
example!(child_process, "../../crates/mcp-span/examples/child_process.rs");
example!(elicitation, "../../crates/mcp-span/examples/elicitation.rs");
example!(five_servers, "../../crates/mcp-span/examples/five_servers.rs");

#[tokio::test]
async fn a_call_to_a_url() {
    let demo = Demo::start().await.unwrap();
    assert_eq!(soon("a sum", call::run(demo.url().as_str())).await.unwrap(), "42");
}

#[tokio::test]
async fn a_child_process() {
    let program = env!("CARGO_BIN_EXE_mcp-span");
    let tools = soon("its tools", child_process::run(program, vec!["demo".to_owned()])).await;
    assert_eq!(tools.unwrap(), ["echo", "add", "countdown"]);
}

#[tokio::test]
async fn five_servers_at_once() {
    let lines = soon("five sums", five_servers::run()).await.unwrap();
    assert_eq!((lines.len(), lines[0].as_str()), (5, "ada__add: 42"));
}

#[tokio::test]
async fn an_elicitation_is_answered() {
    let demo = Demo::start().await.unwrap();
    let greeting = soon("a greeting", elicitation::run(demo.url().as_str())).await.unwrap();
    assert_eq!(greeting, "Hello, Ada!");
}

#[tokio::test]
async fn a_bridge_inside_a_program() {
    let demo = Demo::start().await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let url = demo.url().to_string();
    let serving =
        tokio::spawn(async move { bridge::serve(listener.accept().await.unwrap().0, &url).await });
    let (input, output) = TcpStream::connect(address).await.unwrap().into_split();
    let client = Client::builder(Link::over(input, output)).connect().await.unwrap();
    let echoed = client.call("echo", json!({"text": "hello"})).await.unwrap();
    assert_eq!(echoed.text(), "hello");
    client.close().await;
    assert_eq!(soon("its end", serving).await.unwrap().unwrap(), BridgeEnd::ClientClosed);
}
