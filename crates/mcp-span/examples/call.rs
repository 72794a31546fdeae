//! Calls a tool of the server at a URL, by default of a demo server inside this program:
//! `cargo run --example call -- https://example.com/mcp`
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

use mcp_span::{Client, Demo, Error};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let demo = Demo::start().await?;
    let url = std::env::args().nth(1).unwrap_or_else(|| demo.url().to_string());
    println!("{}", run(&url).await?);
    Ok(())
}

pub(crate) async fn run(url: &str) -> Result<String, Error> {
    let client = Client::builder(url).connect().await?;
    for tool in client.tools().await? {
        eprintln!("{}: {}", tool.name(), tool.description());
    }
    let result = client.call("add", json!({"a": 2, "b": 40})).await?;
    client.close().await;
    Ok(result.text())
}
