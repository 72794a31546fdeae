//! Looks at single members inside of a message, where the protocol makes a bridge look.

use super::{Id, Json, Message, Method};

/// The request that a `notifications/cancelled` is about.
#[must_use]
pub fn cancelled_request(message: &Message) -> Option<Id> {
    if message.method() != Some(&Method::Cancelled) {
        return None;
    }
    Id::from_json(message.get(&["params", "requestId"])?.as_str())
}

/// The name of the tool or prompt, or the address of the resource, that a request is about.
#[must_use]
pub fn subject(message: &Message) -> Option<String> {
    let member = message.method()?.properties().subject?.member();
    message.get(&["params", member])?.to_text()
}

/// The token, as its JSON text, that a `notifications/progress` is about.
#[must_use]
pub fn progress_token(message: &Message) -> Option<&str> {
    message.get(&["params", "progressToken"]).map(Json::as_str)
}

/// The token under which a request wants to hear of its progress.
#[must_use]
pub fn requested_progress(message: &Message) -> Option<String> {
    message.get(&["params", "_meta", "progressToken"]).map(|token| token.as_str().to_owned())
}

/// The revision that an answer to `initialize` settles on.
#[must_use]
pub fn negotiated_version(answer: &Message) -> Option<String> {
    answer.get(&["result", "protocolVersion"])?.to_text()
}

/// The text of an error answer.
#[must_use]
pub fn error_message(answer: &Message) -> Option<String> {
    answer.get(&["error", "message"])?.to_text()
}

/// The code of an error answer, and the revisions that it lists as supported.
#[must_use]
pub fn error_code(answer: &Message) -> Option<(i64, Vec<String>)> {
    if !answer.is_error() {
        return None;
    }
    let paths: [&[&str]; 2] = [&["error", "code"], &["error", "data", "supported"]];
    let [code, supported] = answer.get_all(paths)?;
    let supported = supported.and_then(Json::elements).into_iter().flatten();
    Some((code?.integer()?, supported.filter_map(Json::to_text).collect()))
}

/// Whether an answer has a result that says of which type it is, as every modern one does.
#[must_use]
pub fn has_result_type(answer: &Message) -> bool {
    answer.get(&["result", "resultType"]).is_some()
}

/// The revisions that an answer to `server/discover` lists.
#[must_use]
pub fn supported_versions(answer: &Message) -> Option<Vec<String>> {
    answer.get(&["result", "supportedVersions"])?.elements()?.map(Json::to_text).collect()
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
