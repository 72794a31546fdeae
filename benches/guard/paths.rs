//! The ways that messages take, each from the client's line to the line of its answer.

use bytes::Bytes;
use mcp_span::bridge::{self, Policy, ServerLink, Stages};
use mcp_span::message::{Message, parse_each};
use mcp_span::transport::{Incoming, Link, http, memory, stdio};
use mcp_span::wire::sse::Decoder;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex};

use super::Fault;
use super::server::{self, Answers};

/// What is in the client's pipes at most.
const PIPE: usize = 64 * 1024;

const MAX_MESSAGE: usize = 1 << 20;

/// Events come in pieces: every event is cut several times.
const PIECE: usize = 48;

const INITIALIZE: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","#,
    r#""capabilities":{},"clientInfo":{"name":"guard","version":"1"}}}"#,
);

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Through what messages go.
#[derive(Clone, Copy)]
pub(crate) enum Path {
    /// Lines, heads, the bridge, the decoder of events: all that needs no socket.
    Memory,
    /// The same and HTTP, with answers as JSON.
    Json,
    /// The same with answers as events.
    Events,
    /// The same with many notifications before each answer.
    Notifications,
}

impl Path {
    pub(crate) const ALL: [Self; 4] = [Self::Memory, Self::Json, Self::Events, Self::Notifications];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Json => "http-json",
            Self::Events => "http-events",
            Self::Notifications => "http-notifications",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|path| path.name() == name)
    }

    /// Opens a session and makes `calls`, one after the other.
    pub(crate) async fn carry(self, calls: u32) -> Result<(), Fault> {
        let (client, input, output) = client();
        let server = match self {
            Self::Memory => in_memory(),
            Self::Json => over_http(Answers::Json).await?,
            Self::Events => over_http(Answers::Events).await?,
            Self::Notifications => over_http(Answers::Notifications).await?,
        };
        let bridge = bridge::run(
            client,
            server,
            Policy::default(),
            Stages::default(),
            std::future::pending(),
        );
        let wants_progress = matches!(self, Self::Notifications);
        let (_, called) = tokio::join!(bridge, call(input, output, calls, wants_progress));
        called
    }
}

/// A link to a client, and the ends of the pipes that the client holds.
fn client() -> (Link, DuplexStream, DuplexStream) {
    let (input, theirs) = duplex(PIPE);
    let (ours, output) = duplex(PIPE);
    (stdio::open(theirs, ours, MAX_MESSAGE), input, output)
}

/// The client: it waits for each answer before it says the next.
async fn call(
    mut input: DuplexStream,
    output: DuplexStream,
    calls: u32,
    wants_progress: bool,
) -> Result<(), Fault> {
    let mut lines = BufReader::new(output).lines();
    let mut ask = async |id: u32, line: String| -> Result<(), Fault> {
        input.write_all(line.as_bytes()).await?;
        let expected = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#);
        loop {
            let line = lines.next_line().await?.ok_or("stdout has ended")?;
            match line {
                _ if line.starts_with(&expected) => return Ok(()),
                _ if line.contains("notifications/progress") => {}
                _ => return Err(line.into()),
            }
        }
    };
    ask(0, format!("{INITIALIZE}\n")).await?;
    // Together with the first call: a notification has no answer to wait for.
    let mut before = format!("{INITIALIZED}\n");
    for id in 1..=calls {
        let meta = match wants_progress {
            true => format!(r#","_meta":{{"progressToken":{id}}}"#),
            false => String::new(),
        };
        let line = format!(
            r#"{before}{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"hello"}}{meta}}}}}"#
        );
        before.clear();
        ask(id, line + "\n").await?;
    }
    Ok(())
}

async fn over_http(answers: Answers) -> Result<ServerLink, Fault> {
    let mut settings = http::HttpSettings::new(server::start(answers).await?.parse()?);
    // It would come and go whenever it likes.
    settings.server_stream = false;
    Ok(http::open(settings)?.into())
}

/// A server that is a task, and answers with events.
fn in_memory() -> ServerLink {
    let (link, mut server) = memory::pair();
    tokio::spawn(async move {
        while let Some(incoming) = server.inbox.recv().await {
            let Incoming::Message(request) = incoming else { continue };
            for answer in answers(&request) {
                if server.outbox.send(answer).await.is_err() {
                    return;
                }
            }
        }
    });
    link.into()
}

fn answers(request: &Message) -> Vec<Message> {
    let Some(id) = request.id() else { return Vec::new() };
    let event = Bytes::from(server::event(&server::result(id.as_json().as_bytes())));
    let mut decoder = Decoder::new(MAX_MESSAGE);
    let mut answers = Vec::new();
    for at in (0..event.len()).step_by(PIECE) {
        decoder.push(event.slice(at..event.len().min(at + PIECE)));
        while let Ok(Some(event)) = decoder.next_event() {
            let data = event.data.unwrap_or_default();
            answers.extend(parse_each(data).filter_map(Result::ok));
        }
    }
    answers
}
