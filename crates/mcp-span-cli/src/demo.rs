//! `mcp-span demo`: the bridge against a server inside this program; at a terminal, a walk through.

use std::process::ExitCode;
use std::time::Instant;

use anstream::println;
use anstyle::{AnsiColor, Style};
use bytes::Bytes;
use serde_json::{Value, json};

use super::args::Connect;
use super::report::Usage;
use super::settings::Settings;
use super::{Failure, connect, settings};
use mcp_span::demo::Demo;
use mcp_span::message::{Message, Method};
use mcp_span::revision::Revision;
use mcp_span::transport::{Incoming, Link, http, memory};
use mcp_span::{bridge, os};

/// A stdio server for whoever started us; a guided tour for a person.
pub(super) async fn run(mut typed: Connect) -> Result<ExitCode, Failure> {
    let demo = Demo::start().await?;
    typed.options.url = Some(demo.url().to_string());
    typed.options.no_oauth = Some(true);
    let settings = settings::of(&typed)?;
    if os::is_nobodys_stdin() {
        return walk(settings).await;
    }
    connect::run(settings.into()).await
}

/// Plays the client's part and shows every message that crosses.
async fn walk(settings: Settings) -> Result<ExitCode, Failure> {
    let dim = Style::new().dimmed();
    println!("A demo MCP server listens at {}.", settings.http.url);
    println!("mcp-span connects to it; this program plays the stdio client.");
    println!("{dim}Times count from the start. Every line below has crossed the bridge.{dim:#}\n");
    let (client, near) = memory::pair();
    let server = http::open(settings.http).map_err(|error| Usage::new(error.message))?;
    let bridge = tokio::spawn(bridge::run(
        near,
        server,
        settings.policy,
        settings.stages,
        std::future::pending(),
    ));
    let mut walk = Walk { link: client, start: Instant::now() };
    let went_well = walk.go().await;
    drop(walk);
    let _ = bridge.await;
    if !went_well {
        println!("\nThe walk ended before its end: an answer is missing.");
        return Ok(ExitCode::FAILURE);
    }
    println!("\nThat was all. To use it from a client: claude mcp add demo -- mcp-span demo");
    Ok(ExitCode::SUCCESS)
}

struct Walk {
    link: Link,
    start: Instant,
}

impl Walk {
    /// `false` if an answer did not come.
    async fn go(&mut self) -> bool {
        let client = json!({ "name": "mcp-span-walk", "version": env!("CARGO_PKG_VERSION") });
        let initialize = json!({
            "protocolVersion": Revision::LATEST_LEGACY, "capabilities": {}, "clientInfo": client,
        });
        let countdown = json!({
            "name": "countdown", "arguments": { "from": 3 }, "_meta": { "progressToken": 1 },
        });
        let add = json!({ "name": "add", "arguments": { "a": 2, "b": 40 } });
        self.request(1, "initialize", &initialize).await
            && self.notify("notifications/initialized").await
            && self.request(2, "tools/list", &json!({})).await
            && self.request(3, "tools/call", &add).await
            && self.request(4, "tools/call", &countdown).await
    }

    async fn request(&mut self, id: u32, method: &str, params: &Value) -> bool {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        if !self.send(&request).await {
            return false;
        }
        while let Some(incoming) = self.link.inbox.recv().await {
            let Incoming::Message(message) = incoming else { continue };
            self.show("server → client", AnsiColor::Green, &message);
            if message.id().is_some_and(|answered| answered.as_json() == id.to_string()) {
                return true;
            }
        }
        false
    }

    async fn notify(&mut self, method: &str) -> bool {
        self.send(&json!({ "jsonrpc": "2.0", "method": method })).await
    }

    async fn send(&mut self, value: &Value) -> bool {
        let Ok(message) = Message::parse(Bytes::from(value.to_string())) else { return false };
        self.show("client → server", AnsiColor::Cyan, &message);
        self.link.outbox.send(message).await.is_ok()
    }

    fn show(&self, direction: &str, color: AnsiColor, message: &Message) {
        let strong = color.on_default().bold();
        let dim = Style::new().dimmed();
        let elapsed = self.start.elapsed().as_secs_f64() * 1000.0;
        let what = message.method().map_or("", Method::name);
        let id = message.id().map(|id| format!(" #{id}")).unwrap_or_default();
        println!(
            "{dim}{elapsed:9.3} ms{dim:#}  {strong}{direction}{strong:#}  {}{id} {what}",
            message.type_name(),
        );
        println!("              {}", String::from_utf8_lossy(message.bytes()));
    }
}
