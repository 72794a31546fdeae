//! The library's client and real servers that are child processes, well-behaved and not.

use std::path::Path;
use std::time::{Duration, Instant};

use mcp_span::client::{Client, Spec};
use mcp_span::error::ErrorKind;
use mcp_span::transport::child::ChildSettings;
use serde_json::{Value, json};

use crate::peers::Peers;
use crate::servers;

/// Node takes its time on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

async fn client(settings: ChildSettings) -> Client {
    let connecting = Client::builder(Spec::child(settings)).connect();
    let connected = tokio::time::timeout(PATIENCE, connecting).await.expect("it answers in time");
    connected.unwrap_or_else(|failure| panic!("{failure:?}"))
}

fn everything() -> ChildSettings {
    let peers = Peers::find();
    ChildSettings::new(peers.node_program())
        .args([servers::everything_program(&peers), "stdio".into()])
}

async fn wild() -> Client {
    let peers = Peers::find();
    let command = peers.python_script("servers/wild.py");
    client(ChildSettings::new(command.get_program()).args(command.get_args())).await
}

async fn told(client: &Client, tool: &str) -> String {
    let result = client.call(tool, Value::Null).await.expect("a result");
    result.text()
}

async fn gone(pid: &str) {
    let since = Instant::now();
    while Path::new("/proc").join(pid).exists() {
        assert!(since.elapsed() < PATIENCE, "process {pid} is still there");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn the_everything_server_over_stdio() {
    let client = client(everything()).await;
    assert!(
        client.server()["serverInfo"]["name"]
            .as_str()
            .is_some_and(|name| name.contains("everything"))
    );
    let tools = client.tools().await.expect("the tools");
    assert!(tools.iter().any(|tool| tool.name() == "echo" && tool.schema().is_object()));
    let echoed = client.call("echo", json!({"message": "hello"})).await.expect("a result");
    assert!(echoed.text().contains("hello"));
    assert!(!client.resources().await.expect("the resources").is_empty());
    assert!(!client.prompts().await.expect("the prompts").is_empty());
    let mut steps = 0;
    let long = json!({"duration": 1, "steps": 4});
    let calling = client.call("trigger-long-running-operation", long).on_progress(|_| steps += 1);
    calling.await.expect("a result");
    assert!(steps >= 3, "{steps} steps were told");
    client.close().await;
}

#[tokio::test]
async fn a_python_server_that_crashes_says_how_it_ended() {
    let client = wild().await;
    let failure = client.call("crash", Value::Null).await.expect_err("a crash");
    assert_eq!(failure.kind, ErrorKind::Closed, "{failure:?}");
    assert!(failure.message.starts_with("Transport closed"), "{failure}");
    assert!(failure.message.contains("exit status: 9"), "{failure}");
    let reason = failure.reason.expect("what it wrote last");
    assert!(reason.contains("this is how it ends"), "{reason}");
}

#[tokio::test]
async fn a_python_server_that_hangs_is_given_up_and_ended() {
    let client = wild().await;
    let pid = told(&client, "pid").await;
    let calling = client.call("hang", Value::Null).timeout(Duration::from_millis(500));
    let failure = calling.await.expect_err("a timeout");
    assert_eq!(failure.message, "Request timeout after 500ms");
    let since = Instant::now();
    client.close().await;
    assert!(since.elapsed() < Duration::from_secs(10));
    gone(&pid).await;
}

#[tokio::test]
async fn a_flood_on_a_real_stderr_holds_nothing_up() {
    let client = wild().await;
    let flooded = client.call("flood", json!({"megabytes": 20})).await.expect("a result");
    assert_eq!(flooded.text(), "flooded");
    client.close().await;
}

#[tokio::test]
async fn a_server_that_ignores_sigterm_goes_with_all_that_it_has_started() {
    let client = wild().await;
    let (pid, grandchild) = (told(&client, "pid").await, told(&client, "spawn").await);
    assert_eq!(told(&client, "deafen").await, "deaf");
    // Busy for ever: it reads neither its stdin nor its signals.
    let hanging = tokio::spawn({
        let client = client.clone();
        async move { client.call("hang", Value::Null).await }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    client.close().await;
    assert_eq!(
        hanging.await.expect("no panic").expect_err("it was closed").message,
        "Transport closed"
    );
    gone(&pid).await;
    gone(&grandchild).await;
}
