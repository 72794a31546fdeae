//! Which transport and era a server speaks: the handshake in every way there is.

use http::HeaderValue;
use serde_json::{Value, json};
use tokio::time::timeout;
use url::Url;

use super::door::{Ask, Door, Heard, Unheard, next_event};
use super::finding::Finding;
use super::suspicion;
use mcp_span::limits;
use mcp_span::revision::Revision;
use mcp_span::revision::translate::{CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION};
use mcp_span::secret::shown;
use mcp_span::transport::http::Transport;
use mcp_span::wire::header;
use mcp_span::wire::media::Media;

/// What a server turned out to speak.
#[derive(Debug)]
pub(super) enum Spoken {
    /// Streamable HTTP of the legacy era.
    Streamable(Session),
    /// Streamable HTTP of the modern era alone; what it says of itself.
    Modern(Value),
    /// HTTP+SSE.
    Sse,
    /// Nothing before it knows who we are.
    Refused(Box<Heard>),
    /// Nothing that is known here.
    Nothing,
}

/// An open session.
#[derive(Debug)]
pub(super) struct Session {
    /// The answer to `initialize`.
    pub(super) server: Value,
    pub(super) id: Option<HeaderValue>,
    pub(super) revision: String,
}

/// What came of the handshake.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) spoken: Spoken,
    /// About the transport; `None` if that is not known yet.
    pub(super) finding: Option<Finding>,
    /// The first answer of all.
    pub(super) first: Option<Heard>,
}

/// The opening of the legacy era.
pub(super) fn initialize() -> Value {
    json!({
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": Revision::LATEST_LEGACY,
            "capabilities": {},
            "clientInfo": client_info(),
        },
    })
}

fn client_info() -> Value {
    json!({ "name": mcp_span::NAME, "version": env!("CARGO_PKG_VERSION") })
}

/// The question of the modern era.
pub(super) fn discover() -> Ask {
    let message = json!({
        "jsonrpc": "2.0",
        "id": 1,
        "method": "server/discover",
        "params": { "_meta": {
            PROTOCOL_VERSION: Revision::LATEST_MODERN,
            CLIENT_CAPABILITIES: {},
            CLIENT_INFO: client_info(),
        } },
    });
    Ask::post(&message)
        .header(header::PROTOCOL_VERSION, &HeaderValue::from_static(Revision::LATEST_MODERN))
        .header(header::METHOD, &HeaderValue::from_static("server/discover"))
}

/// Shakes hands: as it is wanted, and else in the other ways, so that it can be said which one works.
pub(super) async fn open(door: &Door, wanted: Transport) -> Opening {
    if wanted == Transport::Sse {
        let streamed = stream(door).await;
        return match streamed {
            Streamed::Sse(heard) => is_sse(wanted, heard),
            Streamed::Refused(heard) => refused(heard),
            Streamed::Else(got) => {
                let posted = door.ask(Ask::post(&initialize())).await;
                after_post(door, wanted, posted, Some(got)).await
            }
        };
    }
    let posted = door.ask(Ask::post(&initialize())).await;
    after_post(door, wanted, posted, None).await
}

type Said = Result<Heard, Unheard>;

async fn after_post(door: &Door, wanted: Transport, posted: Said, got: Option<Said>) -> Opening {
    let heard = match posted {
        Ok(heard) => heard,
        Err(unheard) => {
            let finding = suspicion::unheard(&unheard);
            return Opening { spoken: Spoken::Nothing, finding: Some(finding), first: None };
        }
    };
    if suspicion::is_about_access(heard.status) {
        return refused(heard);
    }
    let is_readable = matches!(heard.media(), Media::Json | Media::EventStream);
    if heard.status.is_success() && heard.result().is_some() && is_readable {
        return legacy(door, wanted, heard).await;
    }
    if heard.refusal().is_some()
        && let Some(found) = modern(door).await
    {
        return is_modern(wanted, found, heard);
    }
    let looked = got.is_some();
    if !looked && heard.status.is_client_error() && heard.answer.is_none() {
        match stream(door).await {
            Streamed::Sse(_) => return is_sse(wanted, heard),
            Streamed::Refused(stream) => return refused(stream),
            Streamed::Else(_) => {}
        }
    }
    let elsewhere = match suspicion::may_be_elsewhere(&heard) {
        true => elsewhere(door).await,
        false => Vec::new(),
    };
    let finding = suspicion::of(&heard, &elsewhere);
    Opening { spoken: Spoken::Nothing, finding: Some(finding), first: Some(heard) }
}

fn refused(heard: Heard) -> Opening {
    Opening { spoken: Spoken::Refused(Box::new(heard)), finding: None, first: None }
}

async fn legacy(door: &Door, wanted: Transport, heard: Heard) -> Opening {
    let server = heard.result().cloned().unwrap_or_default();
    let revision = server["protocolVersion"].as_str().unwrap_or_default().to_owned();
    let id = heard.headers.get(header::SESSION_ID).filter(|id| header::is_session_id(id)).cloned();
    let also = match modern(door).await {
        Some(_) => format!("; {} (modern era) is spoken as well", Revision::LATEST_MODERN),
        None => String::new(),
    };
    let summary = format!("Streamable HTTP, revision {revision} (legacy era){also}");
    let finding = match () {
        () if wanted == Transport::Sse => other_only(&summary, "sse"),
        () if !Revision::is_legacy(&revision) => Finding::warning("transport", summary)
            .meaning("This is no revision that mcp-span knows; it is treated like the newest")
            .next_step("If something does not work, ask who runs the server for one of the published revisions"),
        () => Finding::ok("transport", summary),
    };
    let spoken = Spoken::Streamable(Session { server, id, revision });
    Opening { spoken, finding: Some(finding), first: Some(heard) }
}

fn is_modern(wanted: Transport, found: Value, first: Heard) -> Opening {
    let versions = found["supportedVersions"].as_array().into_iter().flatten();
    let versions: Vec<&str> = versions.filter_map(Value::as_str).collect();
    let summary = format!("Streamable HTTP, revision {} (modern era)", versions.join(", "));
    let finding = match wanted {
        Transport::Sse => other_only(&summary, "sse"),
        _ => Finding::ok("transport", summary)
            .detail("clients of the legacy era are translated by mcp-span"),
    };
    Opening { spoken: Spoken::Modern(found), finding: Some(finding), first: Some(first) }
}

fn is_sse(wanted: Transport, first: Heard) -> Opening {
    let summary = "HTTP+SSE (the older transport)";
    let finding = match wanted {
        Transport::Http => other_only(summary, "http").exchange(&first.exchange),
        _ => Finding::ok("transport", summary),
    };
    Opening { spoken: Spoken::Sse, finding: Some(finding), first: Some(first) }
}

fn other_only(found: &str, wanted: &str) -> Finding {
    let summary = format!("it speaks {found}, but not what --transport {wanted} asks for");
    Finding::failed("transport", summary)
        .meaning(
            "mcp-span does as it is told, and speaks a transport that the server does not know",
        )
        .next_step(format!("Leave --transport {wanted} out: mcp-span finds out by itself"))
}

/// What a modern server says of itself; `None` if it is none.
async fn modern(door: &Door) -> Option<Value> {
    let heard = door.ask(discover()).await.ok()?;
    let result = heard.result()?;
    let mut versions = result["supportedVersions"].as_array()?.iter().filter_map(Value::as_str);
    versions.any(Revision::is_modern).then(|| result.clone())
}

/// What a GET led to.
enum Streamed {
    Sse(Heard),
    Refused(Heard),
    Else(Said),
}

/// A server of the older transport opens a stream, and says first where messages go.
async fn stream(door: &Door) -> Streamed {
    let (heard, mut content, endpoint) = match door.open(Ask::stream()).await {
        Ok(opened) => opened,
        Err(unheard) => return Streamed::Else(Err(unheard)),
    };
    if suspicion::is_about_access(heard.status) {
        return Streamed::Refused(heard);
    }
    if !heard.status.is_success() || heard.media() != Media::EventStream {
        return Streamed::Else(Ok(heard));
    }
    let first = timeout(limits::STREAM_FIRST, next_event(&mut content, endpoint.url())).await;
    match first {
        Ok(Some((name, _))) if name == "endpoint" => Streamed::Sse(heard),
        _ => Streamed::Else(Ok(heard)),
    }
}

/// The usual paths of this origin where something answers as MCP does.
async fn elsewhere(door: &Door) -> Vec<String> {
    let mut found = Vec::new();
    for path in ["/mcp", "/sse"] {
        let mut url: Url = door.url().clone();
        if url.path().trim_end_matches('/') == path {
            continue;
        }
        url.set_path(path);
        url.set_query(None);
        let place = shown(&url);
        let ask = if path == "/sse" { Ask::stream() } else { Ask::post(&initialize()) };
        let Ok((heard, ..)) = door.open(ask.at(url.clone())).await else { continue };
        if let Some(id) = heard.headers.get(header::SESSION_ID) {
            // Nobody will use it.
            let _ = door.ask(Ask::delete().header(header::SESSION_ID, id).at(url)).await;
        }
        let is_it = heard.status.as_u16() == 401
            || heard.status.is_success()
                && matches!(heard.media(), Media::Json | Media::EventStream)
                && (path == "/mcp" || heard.media() == Media::EventStream);
        if is_it {
            found.push(place);
        }
    }
    found
}
