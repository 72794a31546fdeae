//! `mcp-span demo`: the bridge against a server inside this program; at a terminal, a walk through.

use std::io;
use std::process::ExitCode;
use std::time::Instant;

use bytes::Bytes;
use serde_json::{Value, json};

use super::report::{self, Usage};
use super::settings::Settings;
use super::trace::line::Line;
use super::trace::print::Printer;
use super::trace::timeline::Timeline;
use super::{Failure, connect, link, settings};
use mcp_span::demo::Demo;
use mcp_span::message::Message;
use mcp_span::revision::Revision;
use mcp_span::transport::{Incoming, Link, http, memory};
use mcp_span::{bridge, os};

/// A stdio server for whoever started us; a guided tour for a person.
pub(super) async fn run(typed: link::Link) -> Result<ExitCode, Failure> {
    let demo = Demo::start().await?;
    let settings = settings::link(&typed, demo.url().clone())?;
    if os::is_nobodys_stdin() {
        return walk(settings).await;
    }
    connect::run(settings.into()).await
}

/// Plays the client's part and shows every message that crosses.
async fn walk(settings: Settings) -> Result<ExitCode, Failure> {
    report::print(&format!(
        "A demo MCP server listens at {}.\n\
         mcp-span connects to it; this program plays the stdio client.\n\
         Times are seconds from the start. Every message below has crossed the bridge.\n\n",
        settings.http.url
    ))?;
    let (client, near) = memory::pair();
    let server = http::open(settings.http).map_err(|error| Usage::new(error.message))?;
    let bridge = tokio::spawn(bridge::run(
        near,
        server,
        settings.policy,
        settings.stages,
        std::future::pending(),
    ));
    let mut walk = Walk {
        link: client,
        start: Instant::now(),
        printer: Printer::of_stdout(),
        timeline: Timeline::default(),
    };
    let is_complete = walk.go().await?;
    report::print(&walk.printer.summary(walk.timeline))?;
    drop(walk.link);
    let _ = bridge.await;
    if !is_complete {
        report::print("\nThe demo ended early: a response is missing.\n")?;
        return Ok(ExitCode::FAILURE);
    }
    report::print("\nTo use it from a client: claude mcp add demo -- mcp-span demo\n")?;
    Ok(ExitCode::SUCCESS)
}

struct Walk {
    link: Link,
    start: Instant,
    printer: Printer,
    timeline: Timeline,
}

impl Walk {
    /// `false` if a response did not come.
    async fn go(&mut self) -> io::Result<bool> {
        let client = json!({ "name": "mcp-span-walk", "version": env!("CARGO_PKG_VERSION") });
        let initialize = json!({
            "protocolVersion": Revision::LATEST_LEGACY, "capabilities": {}, "clientInfo": client,
        });
        let countdown = json!({
            "name": "countdown", "arguments": { "from": 3 }, "_meta": { "progressToken": 1 },
        });
        let add = json!({ "name": "add", "arguments": { "a": 2, "b": 40 } });
        let notification = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        Ok(self.request(1, "initialize", &initialize).await?
            && self.send(&notification).await?
            && self.request(2, "tools/list", &json!({})).await?
            && self.request(3, "tools/call", &add).await?
            && self.request(4, "tools/call", &countdown).await?)
    }

    async fn request(&mut self, id: u32, method: &str, params: &Value) -> io::Result<bool> {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        if !self.send(&request).await? {
            return Ok(false);
        }
        while let Some(incoming) = self.link.inbox.recv().await {
            let Incoming::Message(message) = incoming else { continue };
            self.show("server->client", "STDOUT", &message)?;
            if message.id().is_some_and(|answered| answered.as_json() == id.to_string()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn send(&mut self, value: &Value) -> io::Result<bool> {
        let Ok(message) = Message::parse(Bytes::from(value.to_string())) else { return Ok(false) };
        self.show("client->server", "STDIN", &message)?;
        Ok(self.link.outbox.send(message).await.is_ok())
    }

    /// As `mcp-span trace` shows it, with the whole message below.
    fn show(&mut self, direction: &str, kind: &str, message: &Message) -> io::Result<()> {
        let Some(data) = message.json() else { return Ok(()) };
        let line = Line::new(self.start.elapsed().as_secs_f64(), direction, kind, data);
        for event in self.timeline.events(&line) {
            report::print(&self.printer.event(&line, &event))?;
            report::print(&self.printer.body(data.as_str()))?;
        }
        Ok(())
    }
}
