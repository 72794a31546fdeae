//! How a server of the legacy era treats its sessions, and its own stream in one.

use std::time::Duration;

use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::door::{Ask, Door, Heard, Unheard};
use super::finding::{Finding, ms};
use super::transport::Session;
use mcp_span::limits;
use mcp_span::wire::header;
use mcp_span::wire::media::Media;

/// A session that no server has given out, in the form that most have.
const UNKNOWN: HeaderValue = HeaderValue::from_static("00000000-0000-4000-8000-000000000000");

/// Everything about sessions, in the order of a session's life.
pub(super) async fn look(door: &Door, session: &Session, wants_stream: bool) -> Vec<Finding> {
    let mut findings = vec![life(door, session).await];
    match &session.id {
        Some(id) => {
            findings.push(unknown(door, session).await);
            let stream = stream(door, session, wants_stream).await;
            findings.push(end(door, session, id).await);
            findings.push(stream);
        }
        None => {
            let why = "the server gives out no session ids";
            findings.push(Finding::skipped("session-unknown", why));
            findings.push(Finding::skipped("session-end", why));
            findings.push(stream(door, session, wants_stream).await);
        }
    }
    findings
}

fn in_session(ask: Ask, door: &Door, session: &Session, id: Option<&HeaderValue>) -> Ask {
    let ask = match id {
        Some(id) => ask.header(header::SESSION_ID, id),
        None => ask,
    };
    let negotiated = HeaderValue::from_str(&session.revision).ok();
    match door.version().or(negotiated.as_ref()) {
        Some(version) => ask.header(header::PROTOCOL_VERSION, version),
        None => ask,
    }
}

fn ping(id: u32) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "ping" })
}

/// The session is confirmed, and used for another request.
async fn life(door: &Door, session: &Session) -> Finding {
    let ask = |message: &Value| in_session(Ask::post(message), door, session, session.id.as_ref());
    let confirm = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let confirmed = match door.ask(ask(&confirm)).await {
        Ok(heard) if heard.status.is_success() => heard,
        other => return broken(other, "it does not take the confirmation of the handshake"),
    };
    let given = match &session.id {
        Some(_) => "it gives out session ids",
        None => "it keeps no sessions",
    };
    match door.ask(ask(&ping(2))).await {
        Ok(heard) if heard.status.is_success() && heard.answer.is_some() => {
            let summary = format!("{given}; a second request is answered");
            match heard.refusal() {
                Some(refusal) => Finding::warning(
                    "session",
                    format!("{given}; a ping is refused: {refusal}"),
                )
                .meaning(
                    "Every MCP server has to answer pings; clients that ping will take it for dead",
                )
                .next_step("The server needs a handler for `ping`")
                .exchange(&heard.exchange),
                None if confirmed.status != StatusCode::ACCEPTED => Finding::ok("session", summary)
                    .detail(format!(
                        "notifications are acknowledged with HTTP {}; the specification says 202",
                        confirmed.status.as_u16()
                    )),
                None => Finding::ok("session", summary),
            }
            .took(heard.took)
        }
        other => broken(other, "the second request of a session fails"),
    }
}

fn broken(said: Result<Heard, Unheard>, what: &str) -> Finding {
    let finding = match said {
        Ok(heard) => {
            let why = heard.refusal().map_or_else(String::new, |refusal| format!(", {refusal}"));
            let summary = format!("{what} (HTTP {}{why})", heard.status.as_u16());
            Finding::failed("session", summary).exchange(&heard.exchange)
        }
        Err(unheard) => {
            let summary = format!("{what}: {}", unheard.error.message);
            Finding::failed("session", summary).exchange(&unheard.exchange)
        }
    };
    finding
        .meaning("The handshake works and what follows does not: often several servers behind one address that do not share their sessions")
        .next_step("If there is a load balancer, it has to lead all requests of a session to the same server")
}

/// 404 is how a client learns that its session is gone.
async fn unknown(door: &Door, session: &Session) -> Finding {
    let ask = in_session(Ask::post(&ping(3)), door, session, Some(&UNKNOWN));
    let heard = match door.ask(ask).await {
        Ok(heard) => heard,
        Err(unheard) => {
            return Finding::warning("session-unknown", unheard.error.message)
                .meaning("An unknown session should be answered with HTTP 404")
                .next_step("The server has to answer such requests")
                .exchange(&unheard.exchange);
        }
    };
    let status = heard.status.as_u16();
    if status == 404 {
        return Finding::ok("session-unknown", "answered with HTTP 404, as it should be");
    }
    let meaning = match status {
        200..=299 => {
            "The server does not look at session ids: what a client has set up (subscriptions, log levels) may be lost without a word"
        }
        _ => {
            "404 is how clients learn that a session is gone; with anything else many of them stay broken after a restart of the server. mcp-span opens a new session if the words of the answer speak of one"
        }
    };
    Finding::warning("session-unknown", format!("answered with HTTP {status}, not 404"))
        .meaning(meaning)
        .next_step("The server should answer requests of an unknown session with HTTP 404")
        .exchange(&heard.exchange)
}

/// Ends a session that is not looked at any further.
pub(super) async fn leave(door: &Door, session: &Session) {
    if let Some(id) = &session.id {
        let _ = end(door, session, id).await;
    }
}

/// DELETE ends a session; a server may leave that to itself.
async fn end(door: &Door, session: &Session, id: &HeaderValue) -> Finding {
    let heard = match door.ask(in_session(Ask::delete(), door, session, Some(id))).await {
        Ok(heard) => heard,
        Err(unheard) => {
            return Finding::warning("session-end", unheard.error.message)
                .meaning("Sessions that clients have left stay until the server forgets them")
                .next_step("The server should answer DELETE, if only with HTTP 405")
                .exchange(&unheard.exchange);
        }
    };
    match heard.status.as_u16() {
        status @ 200..=299 => {
            Finding::ok("session-end", format!("DELETE is accepted (HTTP {status})"))
        }
        405 => {
            Finding::ok("session-end", "the server ends sessions by itself (HTTP 405 to DELETE)")
        }
        status => Finding::warning("session-end", format!("DELETE is answered with HTTP {status}"))
            .meaning("Sessions that clients have left stay until the server forgets them")
            .next_step("The server should end the session, or answer with HTTP 405")
            .exchange(&heard.exchange),
    }
}

/// The stream for what the server says on its own account.
async fn stream(door: &Door, session: &Session, is_wanted: bool) -> Finding {
    if !is_wanted {
        return Finding::skipped("stream", "--no-server-stream was said");
    }
    let ask = in_session(Ask::stream(), door, session, session.id.as_ref());
    let (heard, mut content, endpoint) = match door.open(ask).await {
        Ok(opened) => opened,
        Err(unheard) => {
            return Finding::warning("stream", unheard.error.message)
                .meaning("What the server says on its own account, such as changed lists, does not arrive")
                .next_step("A server without such a stream should answer GET with HTTP 405; what stands before it must not hold answers back")
                .exchange(&unheard.exchange);
        }
    };
    let status = heard.status.as_u16();
    if status == 405 {
        return Finding::ok("stream", "none: the server says nothing unasked (HTTP 405 to GET)");
    }
    if !heard.status.is_success() || heard.media() != Media::EventStream {
        return Finding::warning("stream", format!("GET is answered with HTTP {status}, and no stream"))
            .meaning("What the server says on its own account does not arrive; a server without such a stream says so with HTTP 405")
            .next_step("Look whether something before the server refuses GET")
            .exchange(&heard.exchange);
    }
    let closing = async { while let Ok(Some(_)) = content.next(endpoint.url()).await {} };
    if timeout(limits::STREAM_LOOK, closing).await.is_err() {
        let summary = format!("open, and stays open ({})", ms(heard.took));
        return Finding::ok("stream", summary).took(heard.took);
    }
    Finding::warning("stream", "opened, and closed at once")
        .meaning("What the server says between two streams is lost, unless it keeps it; something before the server may cut streams")
        .next_step("Look for a limit on the length of answers in what stands before the server")
        .exchange(&heard.exchange)
}

/// Times of questions, as a finding.
pub(super) fn round_trips(mut times: Vec<Duration>, what: &str) -> Finding {
    times.sort_unstable();
    let (Some(median), Some(most)) = (times.get(times.len() / 2).copied(), times.last().copied())
    else {
        return Finding::skipped("round-trip", "nothing was measured");
    };
    let summary = format!("median {}, slowest {} ({} {what})", ms(median), ms(most), times.len());
    let mut finding = if median > limits::SLOW_ROUND_TRIP {
        Finding::warning("round-trip", summary)
            .meaning("Every call waits for at least this long")
            .next_step("Compare with the time that the connection took: what is on top of it is the server's own")
    } else {
        Finding::ok("round-trip", summary)
    };
    finding.times = times;
    finding
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status;
    use super::*;

    #[test]
    fn slow_servers_are_a_warning() {
        let of = |ms: &[u64]| {
            round_trips(ms.iter().map(|ms| Duration::from_millis(*ms)).collect(), "pings")
        };
        assert_eq!(of(&[30, 10, 20]).summary, "median 20 ms, slowest 30 ms (3 pings)");
        assert_eq!(of(&[30, 2000, 10]).status, Status::Ok, "one slow one is bad luck");
        assert_eq!(of(&[2000, 2000, 10]).status, Status::Warning);
        assert_eq!(of(&[]).status, Status::Skipped);
    }
}
