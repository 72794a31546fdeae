//! Starts a server that is a program, and lists its tools:
//! `cargo run --example child_process -- npx -y @modelcontextprotocol/server-everything`
#![expect(clippy::print_stdout, reason = "a program")]

use mcp_span::{Client, Error};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let mut words = std::env::args().skip(1);
    let program = words.next().unwrap_or_else(|| "mcp-span".to_owned());
    let args: Vec<_> = words.collect();
    let args = if args.is_empty() { vec!["demo".to_owned()] } else { args };
    println!("{}", run(&program, args).await?.join("\n"));
    Ok(())
}

pub(crate) async fn run(program: &str, args: Vec<String>) -> Result<Vec<String>, Error> {
    let client = Client::command(program, args).connect().await?;
    let tools = client.tools().await?;
    client.close().await; // the program has ended when this returns
    Ok(tools.iter().map(|tool| tool.name().to_owned()).collect())
}
