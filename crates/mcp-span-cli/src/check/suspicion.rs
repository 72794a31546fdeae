//! What looks wrong in answers that are none of MCP: pages, wrong paths, redirects, clocks. Pure.

use std::time::{Duration, SystemTime};

use http::header::{CONTENT_TYPE, DATE};
use http::{HeaderMap, StatusCode};

use super::door::{Heard, Unheard};
use super::finding::Finding;
use mcp_span::error::Kind;
use mcp_span::limits;
use mcp_span::untrusted::Untrusted;
use mcp_span::wire::page;
use mcp_span::wire::tls_refusal::TlsRefusal;

/// There was no answer at all.
pub(super) fn unheard(unheard: &Unheard) -> Finding {
    let meaning = match unheard.error.kind {
        Kind::Redirect => {
            "The server sends everybody elsewhere: the URL is an old one, a shorter one, or that of a page; where credentials go must be your choice"
        }
        Kind::Timeout => "The connection is there, but whoever holds it says nothing",
        Kind::ProxyAuth | Kind::Proxy => "The proxy in between does not let the request through",
        _ if is_no_http(unheard.error.reason.as_deref().unwrap_or_default()) => {
            "Whoever answers there does not speak HTTP"
        }
        _ => "The connection broke before there was an answer",
    };
    let mut finding = Finding::of_error("transport", &unheard.error).meaning(meaning);
    match unheard.error.kind {
        // The sentence says it all.
        Kind::Redirect | Kind::Timeout | Kind::ProxyAuth | Kind::Proxy => finding.details.clear(),
        _ if finding.next_step.is_none() => {
            let next = "Check the scheme and the port of the URL: something else than an HTTP server may listen there; if they are right, look into the server's log";
            finding.next_step = Some(next.to_owned());
        }
        _ => {}
    }
    finding.exchange(&unheard.exchange)
}

/// By the words of the HTTP library, which has no other sign for it that comes this far.
fn is_no_http(reason: &str) -> bool {
    reason.contains("invalid HTTP") || reason.contains("unexpected message from connection")
}

/// Whether the server may well be there, and only the path be wrong.
pub(super) fn may_be_elsewhere(heard: &Heard) -> bool {
    let is_refusal = matches!(heard.status.as_u16(), 400 | 404..=406 | 410 | 415);
    heard.answer.is_none() && (heard.is_page() || is_refusal) && tls_refusal(heard).is_none()
}

/// An answer to the handshake that is none; `elsewhere` are paths that look better.
pub(super) fn of(heard: &Heard, elsewhere: &[String]) -> Finding {
    let finding = if let Some(refusal) = heard.refusal() {
        Finding::failed("transport", format!("it refuses the handshake: {refusal}"))
            .meaning("An MCP server is there, but wants no session with us")
            .next_step("Look for the reason in its words; a server behind a gateway may want other headers")
    } else if let Some(refusal) = tls_refusal(heard) {
        Finding::failed(
            "transport",
            format!("a page about TLS in place of an answer ({})", kind(heard)),
        )
        .meaning(refusal.meaning)
        .next_step(refusal.hint)
    } else if heard.is_page() {
        page(heard)
    } else if heard.result().is_some() {
        Finding::failed("transport", format!("the right answer in the wrong wrapping: {}", kind(heard)))
            .meaning("The body is an MCP answer, but its Content-Type says that it is something else")
            .next_step("The server has to send 'Content-Type: application/json'; a proxy on the way may have changed it")
    } else {
        by_status(heard)
    };
    with_paths(finding, elsewhere).exchange(&heard.exchange)
}

fn tls_refusal(heard: &Heard) -> Option<&'static TlsRefusal> {
    TlsRefusal::parse(heard.status.as_u16(), &heard.body)
}

/// `HTTP 200, text/plain`
fn kind(heard: &Heard) -> String {
    let kind = heard.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = kind.map_or("without a Content-Type", |kind| kind);
    format!("HTTP {}, {}", heard.status.as_u16(), Untrusted(kind).excerpt(60))
}

fn page(heard: &Heard) -> Finding {
    let title = title(&heard.body).map_or_else(String::new, |title| format!(" \"{title}\""));
    let summary = format!("a web page{title} in place of an answer ({})", kind(heard));
    let meaning = match heard.status.as_u16() {
        511 => "The network wants somebody to log in first: a captive portal",
        404 => "A web server is there, and nothing is at this path",
        _ => {
            "Pages are for people: the URL leads to a login page or a start page, or something in between (a captive portal, a company's proxy) answers in the server's place"
        }
    };
    Finding::failed("transport", summary)
        .meaning(meaning)
        .next_step("Open the URL in a browser to see the page, and ask who runs the server for the path of its MCP endpoint")
}

fn by_status(heard: &Heard) -> Finding {
    let failed = |summary: String| Finding::failed("transport", summary);
    let status = heard.status;
    match status.as_u16() {
        404 | 410 => failed(format!("there is nothing at this path ({})", kind(heard)))
            .meaning("A server is there, but the MCP endpoint has another path")
            .next_step("Ask who runs the server for the whole URL"),
        429 => failed("too many requests (HTTP 429)".to_owned())
            .meaning("The server, or what stands before it, wants us to wait")
            .next_step("Try again later"),
        _ if status.is_client_error() => failed(format!("it refuses the handshake ({})", kind(heard)))
            .meaning("Neither Streamable HTTP nor HTTP+SSE is spoken at this URL")
            .next_step("Check the path of the URL"),
        511 => failed("the network wants a login (HTTP 511)".to_owned())
            .meaning("A captive portal stands between here and the server")
            .next_step("Open any page in a browser and log in to the network"),
        502..=504 => failed(format!("what stands before the server cannot reach it ({})", kind(heard)))
            .meaning("A gateway answers, and the server behind it is down or too slow")
            .next_step("Ask who runs the server, or try again later"),
        _ if status.is_server_error() => failed(format!("the server fails ({})", kind(heard)))
            .meaning("The server has met a fault of its own in the handshake")
            .next_step("Look into the server's log, or ask who runs it"),
        _ => failed(format!("it answers, but not as an MCP server ({})", kind(heard)))
            .meaning("Something else than an MCP server is at this URL, or a proxy in between has changed the answer")
            .next_step("Check the path of the URL"),
    }
}

fn with_paths(finding: Finding, elsewhere: &[String]) -> Finding {
    if elsewhere.is_empty() {
        return finding;
    }
    let all = elsewhere.join(" or ");
    finding.next_step(format!("Try {all}: something answers there as an MCP server does"))
}

/// What stands in the title of a page.
fn title(text: &str) -> Option<String> {
    page::title(text).map(|title| Untrusted(&title).excerpt(60))
}

/// How HTTP is spoken, and where redirects have led.
pub(super) fn http(first: &Heard, is_secure: bool) -> Finding {
    let version = match first.version {
        http::Version::HTTP_2 => "HTTP/2",
        http::Version::HTTP_10 => "HTTP/1.0",
        _ => "HTTP/1.1",
    };
    let how = if is_secure { ", negotiated by TLS" } else { "" };
    match &first.moved {
        None => Finding::ok("http", format!("{version}{how}")),
        Some(to) => Finding::warning("http", format!("{version}{how}, redirected to {to}"))
            .meaning("Every request makes the detour, and a redirect that changes breaks it")
            .next_step(format!("Use {to} as the URL")),
    }
}

/// How far the server's clock is from ours; `None` if it does not say what it shows.
pub(super) fn clock(headers: &HeaderMap, now: SystemTime) -> Option<Finding> {
    let text = headers.get(DATE)?.to_str().ok()?;
    let theirs = httpdate::parse_http_date(text).ok()?;
    let (apart, direction) = match theirs.duration_since(now) {
        Ok(ahead) => (ahead, "ahead of"),
        Err(behind) => (behind.duration(), "behind"),
    };
    if apart <= limits::CLOCK_SKEW {
        return Some(Finding::ok("clock", "the server's agrees with this machine's"));
    }
    let summary = format!("the server's is {} {direction} this machine's", roughly(apart));
    Some(
        Finding::warning("clock", summary)
            .meaning("Tokens and certificates count by the clock: they are refused too early or too late")
            .next_step("Set the clock that is wrong; this machine's can be seen with `date -u`"),
    )
}

fn roughly(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..=119 => format!("{seconds} seconds"),
        seconds @ 120..=7199 => format!("{} minutes", seconds / 60),
        seconds @ 7200..=172_799 => format!("{} hours", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// Whether that is a refusal of who we are.
pub(super) fn is_about_access(status: StatusCode) -> bool {
    matches!(status.as_u16(), 401 | 403)
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Version};

    use super::super::finding::{Exchange, Status};
    use super::*;

    fn heard(status: u16, kind: &'static str, body: &str) -> Heard {
        Heard {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]),
            version: Version::HTTP_11,
            body: body.to_owned(),
            answer: serde_json::from_str(body).ok(),
            moved: None,
            peer: None,
            exchange: Exchange::default(),
            took: Duration::ZERO,
        }
    }

    #[test]
    fn pages_are_known_by_type_or_beginning_and_told_with_their_title() {
        let page =
            heard(200, "text/html; charset=utf-8", "<HTML><title lang=en>\n Sign\nin </title>");
        assert_eq!(
            of(&page, &[]).summary,
            "a web page \"Sign in\" in place of an answer (HTTP 200, text/html; charset=utf-8)"
        );
        assert!(heard(200, "text/plain", " <!DOCTYPE html>").is_page());
        assert!(!heard(200, "text/plain", "<").is_page());
        let portal = heard(511, "text/html", "<html>");
        assert!(of(&portal, &[]).meaning.unwrap().contains("captive portal"));
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
        let said = |status, kind, body| of(&heard(status, kind, body), &[]).summary;
        assert!(said(404, "text/plain", "x").starts_with("there is nothing at this path"));
        assert!(said(502, "text/plain", "x").contains("cannot reach it"));
        assert!(said(500, "text/plain", "x").starts_with("the server fails"));
        assert!(said(200, "text/plain", "x").contains("not as an MCP server"));
        let rpc = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"no"}}"#;
        assert!(said(400, "application/json", rpc).ends_with("MCP error -32600: no"));
        let wrapped = said(200, "text/plain", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        assert!(wrapped.contains("wrong wrapping: HTTP 200, text/plain"), "{wrapped}");
    }

    #[test]
    fn another_path_that_answers_is_the_next_step() {
        let lost = heard(404, "text/plain", "x");
        assert!(may_be_elsewhere(&lost));
        let next = of(&lost, &["https://h/mcp".to_owned()]).next_step.unwrap();
        assert!(next.starts_with("Try https://h/mcp:"), "{next}");
        assert!(!may_be_elsewhere(&heard(500, "text/plain", "x")));
    }

    #[test]
    fn clocks_may_differ_by_a_minute() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let at = |offset: i64| {
            let seconds = Duration::from_secs(offset.unsigned_abs());
            let time = if offset < 0 { now - seconds } else { now + seconds };
            let value = HeaderValue::from_str(&httpdate::fmt_http_date(time)).unwrap();
            clock(&HeaderMap::from_iter([(DATE, value)]), now).unwrap()
        };
        assert_eq!((at(60).status, at(-60).status), (Status::Ok, Status::Ok));
        assert_eq!(at(-61).summary, "the server's is 61 seconds behind this machine's");
        assert_eq!(at(7200).summary, "the server's is 2 hours ahead of this machine's");
        assert_eq!(clock(&HeaderMap::new(), now), None);
    }
}
