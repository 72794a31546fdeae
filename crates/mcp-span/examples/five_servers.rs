//! Five servers at once, each by its name; they are connected side by side, and come back to.
#![expect(clippy::print_stdout, reason = "a program")]

use std::time::Duration;

use mcp_span::Demo;
use mcp_span::client::Spec;
use mcp_span::manager::{Entry, Manager, Options};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    for line in run().await? {
        println!("{line}");
    }
    Ok(())
}

pub(crate) async fn run() -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let manager = Manager::start([("ada", Entry::new(demo().await?))], Options::default());
    for name in ["bob", "cid", "dot", "eve"] {
        manager.add(name, Entry::new(demo().await?));
    }
    manager.settled(Duration::from_secs(5)).await;
    let mut lines = Vec::new();
    for server in manager.tools() {
        let sum = manager.call(&server.server, "add", json!({"a": 2, "b": 40})).await?;
        let (tools, sum) = (server.items.len(), &sum["content"][0]["text"]);
        lines.push(format!("{}: {tools} tools, and {sum}", server.server));
    }
    manager.close().await;
    Ok(lines)
}

async fn demo() -> std::io::Result<Spec> {
    Ok(Spec::url(Demo::start().await?.url().clone()))
}
