//! Answers a question that a tool asks in the middle of a call:
//! `cargo run --example elicitation -- https://example.com/mcp`
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

use mcp_span::{Client, Demo, Error, ServerRequest};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let demo = Demo::start().await?;
    let url = std::env::args().nth(1).unwrap_or_else(|| demo.url().to_string());
    println!("{}", run(&url).await?);
    Ok(())
}

pub(crate) async fn run(url: &str) -> Result<String, Error> {
    // The handler is what tells the server that it may ask.
    let builder = Client::builder(url).on_elicitation(|asked| async move { Ok(answer(&asked)) });
    let client = builder.connect().await?;
    let result = client.call("greet", ()).await?;
    client.close().await;
    Ok(result.text())
}

fn answer(asked: &ServerRequest) -> Value {
    eprintln!("{}", asked.params["message"]);
    match asked.params["requestedSchema"]["properties"].get("name") {
        Some(_) => json!({"action": "accept", "content": {"name": "Ada"}}),
        None => json!({"action": "decline"}),
    }
}
