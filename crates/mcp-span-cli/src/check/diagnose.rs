//! What looks wrong where the handshake has failed: pages, wrong paths, redirects, broken
//! connections. Pure.

use super::exchange::{Exchange, Response};
use super::finding::Finding;
use mcp_span::error::{Error, ErrorKind};
use mcp_span::untrusted::Untrusted;
use mcp_span::wire::page;
use mcp_span::wire::tls_refusal::TlsRefusal;

/// Why there is no session, by the exchange that should have opened one; `elsewhere` are paths that
/// look better.
pub(super) fn handshake(exchange: &Exchange, elsewhere: &[String]) -> Finding {
    let finding = match &exchange.response {
        Ok(response) => with_paths(answered(response), elsewhere),
        Err(error) => unanswered(error),
    };
    finding.exchange(exchange)
}

/// There was no answer at all.
fn unanswered(error: &Error) -> Finding {
    let meaning = match error.kind {
        ErrorKind::Redirect => {
            "The URL is outdated, shortened, or that of a web page; mcp-span does not send credentials to another origin by itself"
        }
        ErrorKind::Timeout => "The connection is open, but nothing comes back",
        ErrorKind::ProxyAuth | ErrorKind::Proxy => "The proxy does not let the request through",
        _ if is_no_http(error.reason.as_deref().unwrap_or_default()) => "The answer is not HTTP",
        _ => "The connection broke before an answer arrived",
    };
    let mut finding = Finding::of_error("transport", error).meaning(meaning);
    match error.kind {
        // The sentence says it all.
        ErrorKind::Redirect | ErrorKind::Timeout | ErrorKind::ProxyAuth | ErrorKind::Proxy => {
            finding.details.clear();
        }
        _ if finding.next_step.is_none() => {
            let next = "Check scheme and port of the URL: it may not be an HTTP server that listens there; if they are right, read the server's log";
            finding.next_step = Some(next.to_owned());
        }
        _ => {}
    }
    finding
}

/// By the words of the HTTP library, which has no other sign for it that comes this far.
fn is_no_http(reason: &str) -> bool {
    reason.contains("invalid HTTP") || reason.contains("unexpected message from connection")
}

/// Whether the server may well be there, and only the path be wrong.
pub(super) fn may_be_elsewhere(response: &Response) -> bool {
    let is_refusal = matches!(response.status, 400 | 404..=406 | 410 | 415);
    let may_be = response.is_page() || is_refusal;
    response.answer.is_none() && may_be && tls_refusal(response).is_none()
}

/// An answer to the handshake that opens no session.
fn answered(response: &Response) -> Finding {
    if let Some(refusal) = response.refusal() {
        return Finding::failed("transport", format!("handshake refused: {refusal}"))
            .meaning("There is an MCP server, but it refuses a session")
            .next_step("Look for the reason in its message; a server behind a gateway may need other headers");
    }
    if let Some(refusal) = tls_refusal(response) {
        let summary = format!("a web page about TLS instead of an answer ({})", response.kind());
        return Finding::failed("transport", summary)
            .meaning(refusal.meaning)
            .next_step(refusal.hint);
    }
    if response.is_page() {
        return page(response);
    }
    if response.answer.is_some() {
        let summary = format!("valid answer, wrong Content-Type ({})", response.kind());
        return Finding::failed("transport", summary)
            .meaning("The body is an MCP answer, but the Content-Type says otherwise")
            .next_step("The server has to send 'Content-Type: application/json'; a proxy on the way may have changed it");
    }
    by_status(response)
}

fn tls_refusal(response: &Response) -> Option<&'static TlsRefusal> {
    TlsRefusal::parse(response.status, &response.body)
}

fn page(response: &Response) -> Finding {
    let title = title(&response.body).map_or_else(String::new, |title| format!(" \"{title}\""));
    let summary = format!("a web page{title} instead of an answer ({})", response.kind());
    let meaning = match response.status {
        511 => "The network requires a login first: a captive portal",
        404 => "There is a web server, but nothing at this path",
        _ => {
            "The URL is that of a login page or a home page, or something in between (a captive portal, a company proxy) answers instead of the server"
        }
    };
    Finding::failed("transport", summary)
        .meaning(meaning)
        .next_step("Open the URL in a browser to see the page, and ask the server's operator for the path of the MCP endpoint")
}

fn by_status(response: &Response) -> Finding {
    let failed = |summary: String| Finding::failed("transport", summary);
    match response.status {
        404 | 410 => failed(format!("nothing at this path ({})", response.kind()))
            .meaning("There is a server, but its MCP endpoint has another path")
            .next_step("Ask the server's operator for the full URL"),
        429 => failed("too many requests (HTTP 429)".to_owned())
            .meaning("The server, or a gateway before it, limits the rate of requests")
            .next_step("Try again later"),
        400..=499 => failed(format!("handshake refused ({})", response.kind()))
            .meaning("Neither Streamable HTTP nor HTTP+SSE is spoken at this URL")
            .next_step("Check the path of the URL"),
        511 => failed("the network requires a login (HTTP 511)".to_owned())
            .meaning("A captive portal stands between here and the server")
            .next_step("Open any page in a browser and log in to the network"),
        502..=504 => failed(format!("the gateway cannot reach the server ({})", response.kind()))
            .meaning("A gateway answers, and the server behind it is down or too slow")
            .next_step("Try again later, or ask the server's operator"),
        500..=599 => failed(format!("server error ({})", response.kind()))
            .meaning("The server failed during the handshake")
            .next_step("Read the server's log, or ask its operator"),
        _ => failed(format!("not an MCP answer ({})", response.kind()))
            .meaning("This URL is not that of an MCP server, or a proxy changed the answer")
            .next_step("Check the path of the URL"),
    }
}

fn with_paths(finding: Finding, elsewhere: &[String]) -> Finding {
    if elsewhere.is_empty() {
        return finding;
    }
    let all = elsewhere.join(" or ");
    finding.next_step(format!("Try {all}: an MCP server answers there"))
}

/// What stands in the title of a page.
fn title(text: &str) -> Option<String> {
    page::title(text).map(|title| Untrusted(&title).excerpt(60))
}

/// How HTTP is spoken, and where redirects have led.
pub(super) fn http(first: &Response, is_secure: bool) -> Finding {
    let version = match first.recorded.version {
        http::Version::HTTP_2 => "HTTP/2",
        http::Version::HTTP_10 => "HTTP/1.0",
        _ => "HTTP/1.1",
    };
    let how = if is_secure { ", negotiated by TLS" } else { "" };
    match first.redirected_to() {
        None => Finding::ok("http", format!("{version}{how}")),
        Some(to) => Finding::warning("http", format!("{version}{how}, redirected to {to}"))
            .meaning("Every request makes the detour, and breaks when the redirect changes")
            .next_step(format!("Use {to} as the URL")),
    }
}

#[cfg(test)]
mod tests {
    use http::header::CONTENT_TYPE;

    use super::super::exchange::made_up;
    use super::*;

    fn response(status: u16, kind: &str, body: &str) -> Response {
        made_up::answered("initialize", status, &[(CONTENT_TYPE, kind)], body).response.unwrap()
    }

    #[test]
    fn pages_are_known_by_type_or_beginning_and_told_with_their_title() {
        let page =
            response(200, "text/html; charset=utf-8", "<HTML><title lang=en>\n Sign\nin </title>");
        assert_eq!(
            answered(&page).summary,
            "a web page \"Sign in\" instead of an answer (HTTP 200, text/html; charset=utf-8)"
        );
        assert!(response(200, "text/plain", " <!DOCTYPE html>").is_page());
        assert!(!response(200, "text/plain", "<").is_page());
        let portal = response(511, "text/html", "<html>");
        assert!(answered(&portal).meaning.unwrap().contains("captive portal"));
    }

    #[test]
    fn titles_of_any_sort_do_no_harm() {
        for page in ["<title", "<title>", "<title></title>", "<title>ü", "İ<title>x</title>"] {
            let _ = title(page);
        }
        assert_eq!(title("<title></title>"), None);
    }

    #[test]
    fn refusals_are_told_apart() {
        let said = |status, kind, body| answered(&response(status, kind, body)).summary;
        assert!(said(404, "text/plain", "x").starts_with("nothing at this path"));
        assert!(said(502, "text/plain", "x").contains("cannot reach the server"));
        assert!(said(500, "text/plain", "x").starts_with("server error"));
        assert!(said(200, "text/plain", "x").contains("not an MCP answer"));
        let rpc = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"no"}}"#;
        assert!(said(400, "application/json", rpc).ends_with("MCP error -32600: no"));
        let wrapped = said(200, "text/plain", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        assert!(wrapped.contains("wrong Content-Type (HTTP 200, text/plain)"), "{wrapped}");
    }

    #[test]
    fn another_path_that_answers_is_the_next_step() {
        let lost = response(404, "text/plain", "x");
        assert!(may_be_elsewhere(&lost));
        let found = with_paths(answered(&lost), &["https://h/mcp".to_owned()]);
        let next = found.next_step.unwrap();
        assert!(next.starts_with("Try https://h/mcp:"), "{next}");
        assert!(!may_be_elsewhere(&response(500, "text/plain", "x")));
    }
}
