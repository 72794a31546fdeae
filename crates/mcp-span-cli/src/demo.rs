//! `mcp-span demo`: the bridge against a server inside this program; at a terminal, a walk through.

use std::io;
use std::process::ExitCode;
use std::time::Instant;

use super::args::Connect;
use super::report::{self, Usage};
use super::settings::Settings;
use super::trace::line::Line;
use super::trace::print::Printer;
use super::trace::timeline::Timeline;
use super::{Failure, connect, settings};
use mcp_span::demo::Demo;
use mcp_span::message::{Id, Message};
use mcp_span::revision::Revision;
use mcp_span::transport::{Incoming, Link, http, memory};
use mcp_span::{bridge, os};

/// What the client says in the tour, but for the newest revision with a handshake.
const SCRIPT: [&str; 5] = [
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"REVISION","capabilities":{},"clientInfo":{"name":"mcp-span-walk","version":"1"}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}"#,
    r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"add","arguments":{"a":2,"b":40}}}"#,
    r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"countdown","arguments":{"from":3},"_meta":{"progressToken":1}}}"#,
];

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
        for text in SCRIPT {
            let text = text.replace("REVISION", Revision::LATEST_LEGACY);
            let message = Message::parse(text.into()).map_err(io::Error::other)?;
            self.show("client->server", "STDIN", &message)?;
            let id = message.request_id().cloned();
            let is_sent = self.link.outbox.send(message).await.is_ok();
            if !is_sent || (id.is_some() && !self.receive(id.as_ref()).await?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Shows what comes, up to the response with this id; `false` if there is none.
    async fn receive(&mut self, id: Option<&Id>) -> io::Result<bool> {
        while let Some(incoming) = self.link.inbox.recv().await {
            let Incoming::Message(message) = incoming else { continue };
            self.show("server->client", "STDOUT", &message)?;
            if message.id() == id {
                return Ok(true);
            }
        }
        Ok(false)
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
