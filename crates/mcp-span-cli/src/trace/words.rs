//! The words for the events of a trace: messages, exchanges, connections, recoveries. Pure.

use mcp_span::message::Json;

use super::line::{Message, MessageKind, Subject, plain, text};

/// What a message says. `request` is the one that it answers or cancels, if that is known.
pub(super) fn message(message: &Message, request: Option<&Subject>) -> String {
    let size = message.size.map_or_else(String::new, |size| format!(" ({size} bytes)"));
    let own = &message.subject;
    let what = match (&message.kind, &own.method, request) {
        (MessageKind::Cancellation, Some(method), Some(request)) => {
            format!("{method} of {request}")
        }
        (MessageKind::Response, ..) => format!("answer to {}", request.unwrap_or(own)),
        // Its sender could not read what it is about.
        (MessageKind::Error(error), ..) if own.id.is_none() => {
            format!("error without an id: {error}")
        }
        (MessageKind::Error(error), ..) => format!("error to {}: {error}", request.unwrap_or(own)),
        (MessageKind::Other(None), ..) => "not a message".to_owned(),
        (MessageKind::Other(Some(text)), ..) if text.is_empty() => {
            "not a message: empty".to_owned()
        }
        (MessageKind::Other(Some(text)), ..) => format!("not a message: {text}"),
        _ => own.to_string(),
    };
    what + &size
}

/// What any other event says.
pub(super) fn event(kind: &str, data: Json<'_>) -> String {
    let field = |name| field(data, name);
    let is_open = data.get(&["opened"]).is_some_and(Json::is_true);
    let what = match kind {
        "HTTP_REQ" => http_request(data),
        "HTTP_RES" => http_response(data),
        "CONNECTION" if is_open => format!("connected to {} in {}", field("to"), duration(data)),
        "CONNECTION" => format!("no connection to {}", field("to")),
        "RECOVERY" => format!("** {}", recovery(data)),
        "START" => format!("mcp-span {} starts ({})", field("version"), field("system")),
        "GAP" => {
            let lost = data.get(&["lost"]).and_then(Json::integer).unwrap_or_default();
            format!("{lost} lines are missing here: the disk was too slow")
        }
        other => plain(other),
    };
    match text(data, &["why"]) {
        Some(why) => format!("{what}: {why}"),
        None => what,
    }
}

/// Whether it is a failure, or the end of one.
pub(super) fn is_notable(kind: &str, data: Json<'_>) -> bool {
    match kind {
        "RECOVERY" | "GAP" => true,
        "CONNECTION" => !data.get(&["opened"]).is_some_and(Json::is_true),
        "HTTP_RES" => data.get(&["status"]).and_then(Json::integer).is_none_or(|n| n >= 400),
        _ => false,
    }
}

/// A member's text, or none.
fn field(data: Json<'_>, name: &str) -> String {
    text(data, &[name]).unwrap_or_default()
}

fn http_request(data: Json<'_>) -> String {
    let what = format!("{} {}", field(data, "method"), field(data, "url"));
    let size = data.get(&["size"]).and_then(Json::integer).unwrap_or_default();
    match Subject::of_exchange(data) {
        Some(message) => format!("{what} {message}, {size} bytes"),
        None => what,
    }
}

fn http_response(data: Json<'_>) -> String {
    let error = text(data, &["error"]);
    let mut words = match data.get(&["status"]).filter(|_| error.is_none()) {
        Some(status) => format!("HTTP {}", plain(status.as_str())),
        None => "no answer".to_owned(),
    };
    if let Some(media) = text(data, &["headers", "content-type"]) {
        words += &format!(" {media}");
    }
    if let Some(asked) = exchange(data) {
        words += &format!(" to {asked}");
    }
    let is_given_up = data.get(&["givenUp"]).is_some_and(Json::is_true);
    let end = if is_given_up { "given up after" } else { "after" };
    let error = error.map_or_else(String::new, |error| format!(": {error}"));
    format!("{words}, {end} {}{error}", duration(data))
}

/// The message of an exchange, or the method of HTTP if it has none.
fn exchange(data: Json<'_>) -> Option<String> {
    let message = Subject::of_exchange(data);
    message.map(|message| message.to_string()).or_else(|| text(data, &["method"]))
}

/// The name of what was lost, or found again.
pub(super) fn recovery_name(data: Json<'_>) -> String {
    field(data, "what").replace('-', " ")
}

fn recovery(data: Json<'_>) -> String {
    let name = recovery_name(data);
    let what = match &*name {
        "retry" => {
            let tried = exchange(data).unwrap_or_default();
            return match data.get(&["number"]).and_then(Json::integer).unwrap_or_default() {
                0 => format!("first try of {tried}"),
                number => format!("retry {number} of {tried}"),
            };
        }
        "stream cut" => {
            let after = text(data, &["after"]).map(|id| format!(" after event {id}"));
            return format!("a stream was cut{}", after.unwrap_or_default());
        }
        "session lost" => "the server has lost the session",
        "session opened" => "a new session is open",
        "session refused" => "the server refuses a new session",
        "server away" => "the server cannot be reached",
        "server back" => "the server is back",
        "stream reopened" => "the server's own stream is open again",
        "stream resumed" => "a cut stream was resumed",
        "credentials found" => "the server wants credentials: sent again with them",
        "credentials renewed" => "the server refused the credentials: sent again with new ones",
        "sent again" => "a request is sent again",
        "asked to wait" => "a request waits, as the server asked",
        other => other,
    };
    what.to_owned()
}

/// How long it took, as the line says.
fn duration(data: Json<'_>) -> String {
    let ms = data.get(&["ms"]).and_then(|ms| ms.as_str().parse::<f64>().ok());
    in_words(ms.unwrap_or_default() / 1000.0)
}

/// Seconds as a person reads them.
pub(super) fn in_words(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.1} ms", seconds * 1000.0) } else { format!("{seconds:.2} s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: &str, data: &str) -> String {
        event(kind, Json::parse(data).unwrap())
    }

    #[test]
    fn incidents_are_told_in_plain_words() {
        let retry = r#"{"what":"retry","number":3,"why":"refused","method":"POST","id":1,"rpcMethod":"tools/call","name":"add","ms":1}"#;
        for (kind, data, words) in [
            (
                "CONNECTION",
                r#"{"to":"h:80","opened":false,"why":"refused","ms":1}"#,
                "no connection to h:80: refused",
            ),
            (
                "CONNECTION",
                r#"{"to":"h:80","opened":true,"ms":1.26}"#,
                "connected to h:80 in 1.3 ms",
            ),
            ("RECOVERY", r#"{"what":"server-back"}"#, "** the server is back"),
            ("RECOVERY", r#"{"what":"quite-new"}"#, "** quite new"),
            (
                "RECOVERY",
                r#"{"what":"stream-cut","after":"17","why":"reset"}"#,
                "** a stream was cut after event 17: reset",
            ),
            ("RECOVERY", retry, "** retry 3 of tools/call add #1: refused"),
            (
                "RECOVERY",
                r#"{"what":"retry","number":0,"why":"no","id":2,"rpcMethod":"ping"}"#,
                "** first try of ping #2: no",
            ),
            ("RECOVERY", r#"{"what":"retry","number":1,"method":"GET"}"#, "** retry 1 of GET"),
            ("GAP", r#"{"lost":7}"#, "7 lines are missing here: the disk was too slow"),
            ("NEW\u{1b}", "{}", "NEW"),
        ] {
            assert_eq!(of(kind, data), words);
        }
    }

    #[test]
    fn exchanges_are_told_with_their_message_and_their_end() {
        let own = r#"{"method":"POST","url":"u","size":3,"id":"mcp-span-0-1","rpcMethod":"ping"}"#;
        for (kind, data, words) in [
            ("HTTP_REQ", r#"{"method":"GET","url":"http://h/"}"#, "GET http://h/"),
            ("HTTP_REQ", own, "POST u ping (the bridge's own), 3 bytes"),
            (
                "HTTP_RES",
                r#"{"givenUp":true,"ms":30000.0,"id":7,"rpcMethod":"a"}"#,
                "no answer to a #7, given up after 30.00 s",
            ),
            ("HTTP_RES", r#"{"error":"it broke","ms":1}"#, "no answer, after 1.0 ms: it broke"),
            ("HTTP_RES", r#"{"status":202,"ms":1}"#, "HTTP 202, after 1.0 ms"),
            (
                "HTTP_RES",
                r#"{"method":"GET","status":405,"ms":1}"#,
                "HTTP 405 to GET, after 1.0 ms",
            ),
        ] {
            assert_eq!(of(kind, data), words);
        }
    }
}
