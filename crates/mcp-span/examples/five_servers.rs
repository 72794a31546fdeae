//! Five servers at once, each by its name: they are connected side by side, and reconnected.
#![expect(clippy::print_stdout, reason = "a program")]

use std::time::Duration;

use mcp_span::{Client, Demo, ManagedServer, Manager, ManagerOptions};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    for line in run().await? {
        println!("{line}");
    }
    Ok(())
}

pub(crate) async fn run() -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let manager = Manager::start([("ada", demo().await?)], ManagerOptions::default());
    for name in ["bob", "cid", "dot", "eve"] {
        manager.add(name, demo().await?);
    }
    manager.settled(Duration::from_secs(5)).await;
    let mut lines = Vec::new();
    for tool in manager.tools() {
        if tool.tool.name() == "add" {
            let sum = manager.call(&tool.name, json!({"a": 2, "b": 40})).await?;
            lines.push(format!("{}: {}", tool.name, sum.text()));
        }
    }
    manager.close().await;
    Ok(lines)
}

async fn demo() -> Result<ManagedServer, Box<dyn std::error::Error>> {
    Ok(ManagedServer::new(Client::builder(Demo::start().await?.url()))?)
}
