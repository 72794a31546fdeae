//! Looks at single members inside of a message, where the protocol makes a bridge look.

use serde::Deserialize;
use serde_json::value::RawValue;

pub(crate) use super::scan::Choice;
use super::scan::Scanner;
use super::{Head, Id, Members, Message, Method};

/// The request that a `notifications/cancelled` is about.
#[must_use]
pub fn cancelled_request(message: &Message) -> Option<Id> {
    #[derive(Deserialize)]
    struct Cancelled<'a> {
        #[serde(borrow)]
        params: Params<'a>,
    }
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow, rename = "requestId")]
        request_id: &'a RawValue,
    }
    if message.method() != Some(&Method::Cancelled) {
        return None;
    }
    let cancelled: Cancelled<'_> = serde_json::from_slice(message.bytes()).ok()?;
    Id::from_json(cancelled.params.request_id.get())
}

/// The name of the tool or prompt, or the address of the resource, that a request is about.
#[must_use]
pub fn subject(message: &Message) -> Option<String> {
    let member = message.method()?.properties().subject?.member();
    serde_json::from_str(find(message, &["params", member])?).ok()
}

/// The JSON text of the value to which `path` leads, by names as they are written; what is oddly
/// written may not be found.
pub(crate) fn find<'a>(message: &'a Message, path: &[&str]) -> Option<&'a str> {
    Scanner::new(str::from_utf8(message.bytes()).ok()?).find(path)
}

/// Goes through the objects of a message and takes what is wanted, each of which is there once.
/// Nothing if something is there twice, or any name on the way is oddly written: then it takes a
/// judge to say which of them counts.
pub(crate) fn gather<'a, const N: usize>(
    message: &'a Message,
    choose: &impl Fn(usize, &str) -> Choice,
) -> Option<[Option<&'a str>; N]> {
    let mut found = [None; N];
    let text = str::from_utf8(message.bytes()).ok()?;
    Scanner::new(text).gather(0, choose, &mut found)?;
    Some(found)
}

/// The token, as its JSON text, that a `notifications/progress` is about.
#[must_use]
pub fn progress_token(message: &Message) -> Option<&str> {
    #[derive(Deserialize)]
    struct Progress<'a> {
        #[serde(borrow)]
        params: Token<'a>,
    }
    // There may be thousands of them; names that are oddly written are left to serde_json.
    find(message, &["params", "progressToken"]).or_else(|| {
        let progress: Progress<'_> = serde_json::from_slice(message.bytes()).ok()?;
        Some(progress.params.token.get())
    })
}

/// The token under which a request wants to hear of its progress.
#[must_use]
pub fn requested_progress(message: &Message) -> Option<String> {
    #[derive(Deserialize)]
    struct Request<'a> {
        #[serde(borrow)]
        params: Params<'a>,
    }
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow, rename = "_meta")]
        meta: Token<'a>,
    }
    let request: Request<'_> = serde_json::from_slice(message.bytes()).ok()?;
    Some(request.params.meta.token.get().to_owned())
}

#[derive(Deserialize)]
struct Token<'a> {
    #[serde(borrow, rename = "progressToken")]
    token: &'a RawValue,
}

/// The revision that an answer to `initialize` settles on.
#[must_use]
pub fn negotiated_version(answer: &Message) -> Option<String> {
    #[derive(Deserialize)]
    struct Answer {
        result: Initialized,
    }
    #[derive(Deserialize)]
    struct Initialized {
        #[serde(rename = "protocolVersion")]
        protocol_version: String,
    }
    let answer: Answer = serde_json::from_slice(answer.bytes()).ok()?;
    Some(answer.result.protocol_version)
}

/// The text of an error answer.
#[must_use]
pub fn error_message(answer: &Message) -> Option<String> {
    let members = Members::of_message(answer)?;
    Members::of(members.get("error")?)?.text("message")
}

/// The code of an error answer, and the revisions that it lists as supported.
#[must_use]
pub fn error_code(answer: &Message) -> Option<(i64, Vec<String>)> {
    #[derive(Deserialize)]
    struct Answer {
        error: Failure,
    }
    #[derive(Deserialize)]
    struct Failure {
        code: i64,
        #[serde(default)]
        data: serde_json::Value,
    }
    if !matches!(answer.head(), Head::Response { is_error: true, .. }) {
        return None;
    }
    let failure = serde_json::from_slice::<Answer>(answer.bytes()).ok()?.error;
    let supported = failure.data.get("supported").and_then(serde_json::Value::as_array);
    let revisions = supported.into_iter().flatten().filter_map(|v| v.as_str().map(str::to_owned));
    Some((failure.code, revisions.collect()))
}

/// Whether an answer has a result that says of which type it is, as every modern one does.
#[must_use]
pub fn has_result_type(answer: &Message) -> bool {
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow, rename = "result")]
        _result: Typed<'a>,
    }
    #[derive(Deserialize)]
    struct Typed<'a> {
        #[serde(borrow, rename = "resultType")]
        _type: &'a RawValue,
    }
    serde_json::from_slice::<Answer<'_>>(answer.bytes()).is_ok()
}

/// The revisions that an answer to `server/discover` lists.
#[must_use]
pub fn supported_versions(answer: &Message) -> Option<Vec<String>> {
    #[derive(Deserialize)]
    struct Answer {
        result: Discovered,
    }
    #[derive(Deserialize)]
    struct Discovered {
        #[serde(rename = "supportedVersions")]
        versions: Vec<String>,
    }
    let answer: Answer = serde_json::from_slice(answer.bytes()).ok()?;
    Some(answer.result.versions)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn message(text: &'static str) -> Message {
        Message::parse(Bytes::from_static(text.as_bytes())).expect("a message")
    }

    #[test]
    fn the_cancelled_request_is_found_with_its_exact_id() {
        let cancelled = |text| cancelled_request(&message(text)).map(|id| id.to_string());
        let text = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0,"reason":"x"}}"#;
        assert_eq!(cancelled(text).as_deref(), Some("0"));
        let text = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}"#;
        assert_eq!(cancelled(text), None);
        let text = r#"{"jsonrpc":"2.0","method":"notifications/other","params":{"requestId":0}}"#;
        assert_eq!(cancelled(text), None);
    }

    #[test]
    fn the_negotiated_revision_is_read_from_the_result() {
        let text =
            r#"{"jsonrpc":"2.0","id":1,"result":{"serverInfo":{},"protocolVersion":"2025-06-18"}}"#;
        assert_eq!(negotiated_version(&message(text)).as_deref(), Some("2025-06-18"));
        let text = r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}"#;
        assert_eq!(negotiated_version(&message(text)), None);
    }

    #[test]
    fn codes_and_supported_revisions_are_read_from_errors() {
        let text = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"x","data":{"supported":["2026-07-28",1]}}}"#;
        assert_eq!(error_code(&message(text)), Some((-32022, vec!["2026-07-28".to_owned()])));
        let text = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"x"}}"#;
        assert_eq!(error_code(&message(text)), Some((-32000, vec![])));
    }

    #[test]
    fn what_a_modern_answer_says_of_itself_is_seen() {
        let typed = |text| has_result_type(&message(text));
        assert!(typed(r#"{"jsonrpc":"2.0","id":1,"result":{"a":1,"resultType":"complete"}}"#));
        assert!(!typed(r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#));
        assert!(!typed(r#"{"jsonrpc":"2.0","id":1,"error":{"resultType":1}}"#));
        let text = r#"{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["a","b"]}}"#;
        assert_eq!(supported_versions(&message(text)), Some(vec!["a".into(), "b".into()]));
        assert_eq!(supported_versions(&message(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)), None);
    }
}
