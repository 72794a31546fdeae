//! Which transport and era a server speaks, by its answers to the handshake. Pure.

use serde_json::Value;

use super::exchange::{Exchange, Response};
use super::finding::Finding;
use mcp_span::revision::Revision;
use mcp_span::transport::http::Transport;

/// What a server turned out to speak.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Spoken<'a> {
    /// Streamable HTTP of the legacy era.
    Legacy,
    /// Streamable HTTP of the modern era alone; what the server says of itself.
    Modern(&'a Value),
    /// HTTP+SSE.
    Sse,
}

impl<'a> Spoken<'a> {
    /// By a handshake that has worked.
    pub(super) fn of(exchanges: &'a [Exchange]) -> Self {
        let discovered = exchanges.iter().filter(|exchange| exchange.is("server/discover"));
        if exchanges.iter().any(opens_legacy_sse) {
            Self::Sse
        } else if let Some(about) = discovered.into_iter().find_map(Exchange::result) {
            Self::Modern(about)
        } else {
            Self::Legacy
        }
    }

    fn describe(self, revision: &str) -> String {
        match self {
            Self::Legacy => format!("Streamable HTTP, revision {revision} (legacy era)"),
            Self::Modern(about) => {
                let versions = about["supportedVersions"].as_array().into_iter().flatten();
                let versions: Vec<&str> = versions.filter_map(Value::as_str).collect();
                format!("Streamable HTTP, revision {} (modern era)", versions.join(", "))
            }
            Self::Sse => "HTTP+SSE (the older transport)".to_owned(),
        }
    }
}

fn opens_legacy_sse(exchange: &Exchange) -> bool {
    exchange.is_get() && exchange.response.as_ref().is_ok_and(Response::is_legacy_sse)
}

/// What is spoken, and why it was chosen.
pub(super) fn spoken(exchanges: &[Exchange], revision: &str) -> Finding {
    let spoken = Spoken::of(exchanges);
    let summary = spoken.describe(revision);
    let finding = match spoken {
        Spoken::Legacy if !Revision::is_legacy(revision) => Finding::warning("transport", summary)
            .meaning("mcp-span does not know this revision and treats it like the newest")
            .next_step("If something fails, ask the server's operator for a published revision"),
        Spoken::Modern(_) => Finding::ok("transport", summary)
            .detail("mcp-span translates for clients of the legacy era"),
        _ => Finding::ok("transport", summary),
    };
    let refused = exchanges.iter().find(|exchange| exchange.is("initialize"));
    match refused.map(|exchange| &exchange.response) {
        Some(Ok(response)) if spoken == Spoken::Sse && !response.is_success() => finding
            .detail(format!("POST answered with HTTP {}, GET with a stream", response.status)),
        Some(Ok(response)) if spoken != Spoken::Legacy && !response.is_success() => {
            finding.detail(format!("`initialize` answered with HTTP {}", response.status))
        }
        _ => finding,
    }
}

/// The server speaks another transport than the one that was asked for.
pub(super) fn other_only(exchanges: &[Exchange], revision: &str, wanted: Transport) -> Finding {
    let wanted = if wanted == Transport::Sse { "sse" } else { "http" };
    let found = Spoken::of(exchanges).describe(revision);
    let summary = format!("the server speaks {found}, not --transport {wanted}");
    Finding::failed("transport", summary)
        .meaning("The transport that was asked for is not the server's")
        .next_step(format!("Drop --transport {wanted}: mcp-span finds out by itself"))
}

#[cfg(test)]
mod tests {
    use http::Method;
    use http::header::CONTENT_TYPE;

    use super::super::exchange::made_up::answered;
    use super::super::finding::Status;
    use super::*;

    const JSON: [(http::HeaderName, &str); 1] = [(CONTENT_TYPE, "application/json")];

    fn result(rpc_method: &str, result: &str) -> Exchange {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
        answered(rpc_method, 200, &JSON, &body)
    }

    #[test]
    fn the_answers_tell_the_transport_and_the_era() {
        let legacy = spoken(&[result("initialize", "{}")], "2025-11-25");
        assert_eq!(legacy.summary, "Streamable HTTP, revision 2025-11-25 (legacy era)");
        let unknown = spoken(&[result("initialize", "{}")], "2031-01-01");
        assert_eq!(unknown.status, Status::Warning);

        let refused = answered("initialize", 400, &JSON, "{}");
        let about = result("server/discover", r#"{"supportedVersions":["2026-07-28"]}"#);
        let modern = spoken(&[refused, about], "2025-11-25");
        assert_eq!(modern.summary, "Streamable HTTP, revision 2026-07-28 (modern era)");
        assert_eq!(modern.details[1], "`initialize` answered with HTTP 400");

        let refused = answered("initialize", 404, &[], "");
        let events = [(CONTENT_TYPE, "text/event-stream")];
        let mut stream = answered("", 200, &events, "event: endpoint\ndata: /messages\n\n");
        stream.request.method = Method::GET;
        let exchanges = [refused, stream];
        let sse = spoken(&exchanges, "2025-11-25");
        assert_eq!(sse.summary, "HTTP+SSE (the older transport)");
        assert_eq!(sse.details, ["POST answered with HTTP 404, GET with a stream"]);
        let other = other_only(&exchanges, "2025-11-25", Transport::Http);
        assert!(other.summary.contains("not --transport http"), "{other:?}");
    }
}
