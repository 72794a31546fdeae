//! How a server treats what goes beyond plain use: sessions that it does not know or that end, its
//! own stream, another era, its clock. Only with `--audit`, which sends what no client would.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::DATE;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::exchange::{Exchange, Response};
use super::finding::{Finding, ms};
use mcp_span::error::Error;
use mcp_span::limits;
use mcp_span::net::{
    Call, Content, Endpoint, HttpClient, Lane, Options, Progress, RecordedExchange, Recorder,
};
use mcp_span::revision::Revision;
use mcp_span::revision::translate::{CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION};
use mcp_span::transport::http::HttpSettings;
use mcp_span::wire::header;

/// A session that no server has given out, in the form that most have.
const UNKNOWN: HeaderValue = HeaderValue::from_static("00000000-0000-4000-8000-000000000000");

/// Watches the server's own stream, which the client opens by itself, for as long as one that does
/// not hold takes to end.
pub(super) async fn watch_stream(recorder: &Recorder, limit: Duration) {
    let is_stream = |exchange: &&RecordedExchange| exchange.method == Method::GET;
    let answered = recorder.wait_for(|exchanges| {
        exchanges.iter().find(is_stream).is_some_and(|exchange| exchange.outcome.is_some())
    });
    if timeout(limit, answered).await.is_ok() {
        sleep(limits::STREAM_LOOK).await;
    }
}

/// Sends a ping that was answered once more, in a session that the server cannot know.
pub(super) async fn ask_in_unknown_session(
    exchanges: &[Exchange],
    settings: &HttpSettings,
    limit: Duration,
) -> Option<Exchange> {
    let in_session = |exchange: &&Exchange| {
        exchange.is("ping") && exchange.request.headers.contains_key(header::SESSION_ID)
    };
    let ping = &exchanges.iter().find(in_session)?.request;
    let body = ping.body.clone();
    send_again(ping, body, [(header::SESSION_ID, UNKNOWN)], settings, limit).await
}

/// Whether a server of the legacy era knows the modern one, too.
pub(super) async fn speaks_modern(
    exchanges: &[Exchange],
    settings: &HttpSettings,
    limit: Duration,
) -> bool {
    let Some(initialize) = exchanges.iter().find(|exchange| exchange.is("initialize")) else {
        return false;
    };
    let body = json!({
        "jsonrpc": "2.0",
        "id": 1,
        "method": "server/discover",
        "params": { "_meta": {
            PROTOCOL_VERSION: Revision::LATEST_MODERN,
            CLIENT_CAPABILITIES: {},
            CLIENT_INFO: { "name": mcp_span::NAME, "version": env!("CARGO_PKG_VERSION") },
        } },
    });
    let headers = [
        (header::PROTOCOL_VERSION, HeaderValue::from_static(Revision::LATEST_MODERN)),
        (header::METHOD, HeaderValue::from_static("server/discover")),
    ];
    let body = body.to_string().into();
    let answered = send_again(&initialize.request, body, headers, settings, limit).await;
    let result = answered.as_ref().and_then(Exchange::result);
    let versions = result.and_then(|result| result["supportedVersions"].as_array());
    let mut versions = versions.into_iter().flatten().filter_map(Value::as_str);
    versions.any(Revision::is_modern)
}

/// Sends a recorded request once more, with another body and with these headers.
async fn send_again<const N: usize>(
    request: &RecordedExchange,
    body: Bytes,
    headers: [(HeaderName, HeaderValue); N],
    settings: &HttpSettings,
    limit: Duration,
) -> Option<Exchange> {
    let recorder = Recorder::default();
    let client =
        HttpClient::new(&Options { recorder: Some(recorder.clone()), ..settings.net.clone() });
    let mut all = request.headers.clone();
    all.extend(headers.map(|(name, value)| (Some(name), value)));
    let call = Call {
        method: request.method.clone(),
        endpoint: Arc::new(Endpoint::new(&request.url).ok()?),
        headers: Arc::new(all),
        body,
        lane: Lane::Calls,
        progress: Progress::default(),
    };
    let asking = async {
        let mut body = Content::of(client.send(&call).await?, &request.url)?.into_body();
        while body.next(&request.url).await?.is_some() {}
        Ok::<(), Error>(())
    };
    // However it ends, it stands in the recording.
    let _ = timeout(limit, asking).await;
    Some(Exchange::new(recorder.exchanges().pop()?, limit, &settings.scrubber))
}

/// 404 is how a client learns that its session is gone.
pub(super) fn unknown_session(exchange: Option<&Exchange>) -> Finding {
    let Some(exchange) = exchange else {
        return Finding::skipped("session-unknown", "the server issues no session id");
    };
    let (summary, meaning) = match &exchange.response {
        Ok(Response { status: 404, .. }) => {
            return Finding::ok("session-unknown", "HTTP 404, as expected");
        }
        Ok(Response { status: status @ 200..=299, .. }) => (
            format!("HTTP {status} instead of 404"),
            "The server ignores session ids: a client's subscriptions and log level may get lost unnoticed",
        ),
        Ok(Response { status, .. }) => (
            format!("HTTP {status} instead of 404"),
            "Clients learn from a 404 that a session is gone; without it, many stay broken after a restart of the server. mcp-span also opens a new session if the text of the answer mentions one",
        ),
        Err(error) => (error.message.clone(), "Clients learn from a 404 that a session is gone"),
    };
    Finding::warning("session-unknown", summary)
        .meaning(meaning)
        .next_step("The server should answer requests of an unknown session with HTTP 404")
        .exchange(exchange)
}

/// DELETE ends a session; a server may leave that to itself.
pub(super) fn session_end(exchanges: &[Exchange]) -> Finding {
    let is_delete = |exchange: &&Exchange| exchange.request.method == Method::DELETE;
    let Some(exchange) = exchanges.iter().rfind(is_delete) else {
        return Finding::skipped("session-end", "the server issues no session id");
    };
    let (summary, next) = match &exchange.response {
        Ok(Response { status: status @ 200..=299, .. }) => {
            return Finding::ok("session-end", format!("DELETE accepted (HTTP {status})"));
        }
        Ok(Response { status: 405, .. }) => {
            let summary = "the server ends sessions itself (HTTP 405 to DELETE)";
            return Finding::ok("session-end", summary);
        }
        Ok(Response { status, .. }) => (
            format!("DELETE answered with HTTP {status}"),
            "The server should end the session, or answer with HTTP 405",
        ),
        Err(error) => {
            (error.message.clone(), "The server should answer DELETE, if only with HTTP 405")
        }
    };
    Finding::warning("session-end", summary)
        .meaning("Sessions of clients that have left stay until they expire")
        .next_step(next)
        .exchange(exchange)
}

/// The stream for what the server says on its own account.
pub(super) fn stream(exchanges: &[Exchange], is_wanted: bool) -> Finding {
    if !is_wanted {
        return Finding::skipped("stream", "disabled by --no-server-stream");
    }
    let Some(exchange) = exchanges.iter().find(|exchange| exchange.is_get()) else {
        return Finding::skipped("stream", "it was not opened");
    };
    let (summary, meaning, next) = match &exchange.response {
        Ok(Response { status: 405, .. }) => {
            let summary = "none offered (HTTP 405 to GET)";
            return Finding::ok("stream", summary);
        }
        Ok(response) if response.is_stream() && !response.recorded.has_ended => {
            let took = response.recorded.took;
            return Finding::ok("stream", format!("stays open ({})", ms(took))).took(took);
        }
        Ok(response) if response.is_stream() => (
            "closed as soon as it was opened".to_owned(),
            "Notifications between two streams get lost, unless the server keeps them; a proxy may be cutting the stream",
            "Look for a limit on the duration of responses in the proxies before the server",
        ),
        Ok(response) => (
            format!("GET answered with HTTP {}, without a stream", response.status),
            "The server's notifications do not arrive; a server without this stream should answer HTTP 405",
            "Check whether a proxy before the server refuses GET",
        ),
        Err(error) => (
            error.message.clone(),
            "The server's notifications, such as changed lists, do not arrive",
            "A server without this stream should answer GET with HTTP 405; a proxy before it must not buffer responses",
        ),
    };
    Finding::warning("stream", summary).meaning(meaning).next_step(next).exchange(exchange)
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
        return Some(Finding::ok("clock", "agrees with this machine's"));
    }
    let summary = format!("{} {direction} this machine's", roughly(apart));
    Some(
        Finding::warning("clock", summary)
            .meaning("Tokens and certificates expire by the clock: they are refused too early or too late")
            .next_step("Set the clock that is wrong; `date -u` shows this machine's"),
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

#[cfg(test)]
mod tests {
    use http::header::CONTENT_TYPE;

    use super::super::exchange::made_up::{answered, unanswered};
    use super::super::finding::Status;
    use super::*;

    fn with_method(method: Method, mut exchange: Exchange) -> [Exchange; 1] {
        exchange.request.method = method;
        [exchange]
    }

    #[test]
    fn an_unknown_session_wants_a_404() {
        let found = |exchange| unknown_session(Some(&exchange));
        assert_eq!(found(answered("ping", 404, &[], "")).status, Status::Ok);
        let ignored = found(answered("ping", 200, &[], ""));
        assert!(ignored.meaning.unwrap().contains("ignores session ids"));
        assert_eq!(found(answered("ping", 400, &[], "")).summary, "HTTP 400 instead of 404");
        assert!(found(unanswered("ping")).summary.contains("No answer"));
        assert_eq!(unknown_session(None).status, Status::Skipped);
    }

    #[test]
    fn a_session_ends_by_delete_or_by_the_server() {
        let found = |status| {
            let exchanges = with_method(Method::DELETE, answered("", status, &[], ""));
            session_end(&exchanges).status
        };
        assert_eq!((found(200), found(204), found(405)), (Status::Ok, Status::Ok, Status::Ok));
        assert_eq!((found(404), found(500)), (Status::Warning, Status::Warning));
        assert_eq!(session_end(&[]).status, Status::Skipped);
    }

    #[test]
    fn a_stream_stays_open_or_is_refused_with_405() {
        let found = |status, kind, has_ended| {
            let mut exchange = answered("", status, &[(CONTENT_TYPE, kind)], "");
            if let Ok(response) = &mut exchange.response {
                response.recorded.has_ended = has_ended;
            }
            let exchanges = with_method(Method::GET, exchange);
            stream(&exchanges, true).summary
        };
        assert_eq!(found(200, "text/event-stream", false), "stays open (0.0 ms)");
        assert_eq!(found(200, "text/event-stream", true), "closed as soon as it was opened");
        assert_eq!(found(200, "text/html", true), "GET answered with HTTP 200, without a stream");
        assert!(found(405, "text/plain", true).starts_with("none offered"));
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
        assert_eq!(at(-61).summary, "61 seconds behind this machine's");
        assert_eq!(at(7200).summary, "2 hours ahead of this machine's");
        assert_eq!(clock(&HeaderMap::new(), now), None);
    }
}
