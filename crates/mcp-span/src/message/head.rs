//! Reads the head of a message (kind, id, method) without building a tree of the rest.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;

use super::scan::{Scanner, decoded, fault};
use super::{Head, Id, Message, Method};

/// Why some bytes are not a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Not JSON at all.
    NotJson(String),
    /// JSON, but not JSON-RPC 2.0.
    NotJsonRpc {
        /// The id that the sender waits under: `None` if nobody waits, `Some(None)` if the
        /// member is there but cannot be an id.
        waiting: Option<Option<Id>>,
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl std::error::Error for Malformed {}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson(reason) => write!(f, "not JSON: {reason}"),
            Self::NotJsonRpc { reason, .. } => write!(f, "not JSON-RPC 2.0: {reason}"),
        }
    }
}

pub(super) fn parse(bytes: &Bytes) -> Result<Message, Malformed> {
    let bytes = bytes.slice_ref(bytes.trim_ascii());
    // Checked once for all of it: names and values would be looked at one by one otherwise.
    let text = str::from_utf8(&bytes).map_err(|error| Malformed::NotJson(error.to_string()))?;
    let mut members = HeadMembers::default();
    let walk = Scanner::object(text, |name, raw| {
        if !members.note(name, raw)
            && let Some(Cow::Owned(name)) = decoded(name)
        {
            members.note(&name, raw);
        }
    });
    if walk.is_none() {
        return Err(match Scanner::is_value(text) {
            true => not_json_rpc(None, "it is not an object"),
            false => Malformed::NotJson(fault(text)),
        });
    }
    let head = members.head()?;
    Ok(Message::new(bytes, head))
}

fn not_json_rpc(waiting: Option<Option<Id>>, reason: &'static str) -> Malformed {
    Malformed::NotJsonRpc { waiting, reason }
}

/// The members that make up the head, as their raw text.
#[derive(Default)]
struct HeadMembers<'a> {
    version: Option<&'a str>,
    id: Option<&'a str>,
    method: Option<&'a str>,
    result: Option<&'a str>,
    error: Option<&'a str>,
    is_ambiguous: bool,
}

impl<'a> HeadMembers<'a> {
    /// Notes a member; `false` if it is none of the head's.
    fn note(&mut self, name: &str, raw: &'a str) -> bool {
        let slot = match name {
            "jsonrpc" => &mut self.version,
            "id" => &mut self.id,
            "method" => &mut self.method,
            "result" => &mut self.result,
            "error" => &mut self.error,
            _ => return false,
        };
        self.is_ambiguous |= slot.replace(raw).is_some();
        true
    }

    fn head(&self) -> Result<Head, Malformed> {
        let id = self.id.map(Id::from_json);
        // Some write the member that does not apply as null.
        let is_there = |raw: Option<&str>| raw.is_some_and(|raw| raw != "null");
        let (alone, result, error) = (self.method.is_none(), self.result, self.error);
        let has_error = is_there(error) || (alone && error.is_some() && result.is_none());
        let has_result = is_there(result) || (alone && result.is_some() && !has_error);
        let is_answer = has_result || has_error;
        // An answer that is malformed has nobody waiting for an answer to it.
        let waiting = if is_answer && self.method.is_none() { None } else { id.clone() };
        let wrong = |reason| Err(not_json_rpc(waiting.clone(), reason));
        if self.is_ambiguous {
            return wrong("a member stands in it twice");
        }
        if self.version != Some("\"2.0\"") {
            return wrong("member \"jsonrpc\" is not \"2.0\"");
        }
        match (self.method.map(method), id) {
            (Some(_), _) if is_answer => wrong("it has a method and a result"),
            (Some(None), _) => wrong("its method is not a string"),
            (Some(Some(method)), None) => Ok(Head::Notification { method }),
            (Some(Some(method)), Some(Some(id))) => Ok(Head::Request { id, method }),
            (Some(Some(_)), Some(None)) => wrong("its id is neither a string nor a number"),
            (None, _) if has_result && has_error => wrong("it has a result and an error"),
            (None, Some(Some(id))) if is_answer => {
                Ok(Head::Response { id: Some(id), is_error: has_error })
            }
            (None, _) if has_error && self.id.is_none_or(|raw| raw == "null") => {
                Ok(Head::Response { id: None, is_error: true })
            }
            (None, _) if is_answer => wrong("it is an answer without an id"),
            (None, _) => wrong("it has no method"),
        }
    }
}

/// The method; escapes in its name are legal, if odd.
fn method(raw: &str) -> Option<Method> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    Some(match decoded(inner) {
        Some(Cow::Owned(name)) => Method::named(&name),
        _ => Method::named(inner),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Message, Malformed> {
        Message::parse(Bytes::copy_from_slice(text.as_bytes()))
    }

    fn waiting(text: &str) -> Option<Option<String>> {
        match read(text) {
            Err(Malformed::NotJsonRpc { waiting, .. }) => {
                waiting.map(|id| id.map(|id| id.as_json().to_owned()))
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn the_four_shapes_are_told_apart() {
        // S1-01
        let request =
            read(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}"#).unwrap();
        assert_eq!((request.type_name(), request.method()), ("request", Some(&Method::ToolsCall)));
        assert_eq!(request.id().unwrap().as_json(), "7");
        let notification = read(r#"{"method":"notifications/x","jsonrpc":"2.0"}"#).unwrap();
        assert_eq!(notification.type_name(), "notification");
        // S0-11: members in any order.
        let response = read(r#"{"result":{"id":3}, "jsonrpc":"2.0","id":"a"}"#).unwrap();
        assert_eq!((response.type_name(), response.id().unwrap().as_json()), ("response", "\"a\""));
        let error = read(r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}"#).unwrap();
        assert_eq!((error.type_name(), error.id()), ("error", None));
        let error = read(r#"{"jsonrpc":"2.0","error":{"code":1,"message":""}}"#).unwrap();
        assert_eq!(error.id(), None);
    }

    #[test]
    fn bytes_stay_and_white_space_around_them_goes() {
        let message = read(" {\"jsonrpc\" : \"2.0\",\n \"method\":\"a\"}\r\n").unwrap();
        assert_eq!(&message.bytes()[..], b"{\"jsonrpc\" : \"2.0\",\n \"method\":\"a\"}");
    }

    #[test]
    fn null_beside_the_member_that_applies_is_ignored() {
        let text = r#"{"jsonrpc":"2.0","id":1,"result":{},"error":null}"#;
        assert_eq!(read(text).unwrap().type_name(), "response");
        let text = r#"{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1}}"#;
        assert_eq!(read(text).unwrap().type_name(), "error");
        let text = r#"{"jsonrpc":"2.0","id":1,"result":null}"#;
        assert_eq!(read(text).unwrap().type_name(), "response");
        let text = r#"{"jsonrpc":"2.0","id":1,"method":"a","result":null,"error":null}"#;
        assert_eq!(read(text).unwrap().type_name(), "request");
        let text = r#"{"jsonrpc":"2.0","id":1,"method":"a","result":{}}"#;
        assert_eq!(waiting(text), Some(Some("1".into())));
    }

    #[test]
    fn json_that_is_not_json_rpc_tells_who_waits() {
        assert_eq!(waiting(r#"{"id":5}"#), Some(Some("5".into())));
        assert_eq!(waiting(r#"{"id":5,"method":"a"}"#), Some(Some("5".into())), "no version");
        assert_eq!(waiting(r#"{"jsonrpc":"1.0","id":5,"method":"a"}"#), Some(Some("5".into())));
        assert_eq!(waiting(r#"{"jsonrpc":"2.0","id":5,"method":1}"#), Some(Some("5".into())));
        assert_eq!(waiting(r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#), Some(None));
        assert_eq!(waiting(r#"{"jsonrpc":"2.0","id":{},"method":"a"}"#), Some(None));
        assert_eq!(waiting(r#"{"jsonrpc":"2.0"}"#), None);
        assert_eq!(waiting(r#"{"id":5,"result":{}}"#), None, "nobody waits for an answer to it");
        assert_eq!(waiting("[]x".trim_end_matches('x')), None);
        assert_eq!(waiting("5"), None);
        assert_eq!(waiting("\"a\""), None);
        assert_eq!(waiting("null"), None);
        let twice = r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}"#;
        assert_eq!(waiting(twice), Some(Some("2".into())));
    }

    #[test]
    fn what_is_not_json_is_said_to_be_so() {
        for text in
            ["{", "hello", "{\"a\":1}}", "{'a':1}", "{\"jsonrpc\":\"2.0\",\"method\":\"a\x01\"}"]
        {
            assert!(matches!(read(text), Err(Malformed::NotJson(_))), "{text}");
        }
        let bad_utf8 = Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}");
        assert!(matches!(Message::parse(bad_utf8), Err(Malformed::NotJson(_))));
        let bad_utf8 =
            Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":[\"\xff\"]}");
        assert!(matches!(Message::parse(bad_utf8), Err(Malformed::NotJson(_))));
    }

    #[test]
    fn methods_and_member_names_may_be_escaped() {
        let message = read(r#"{"jsonrpc":"2.0","m\u0065thod":"tools\/list","id":1}"#).unwrap();
        assert_eq!(message.method(), Some(&Method::ToolsList));
        // Half a surrogate pair is the sender's business.
        assert!(read(r#"{"jsonrpc":"2.0","method":"a","id":1,"\ud800":2}"#).is_ok());
        let twice = r#"{"jsonrpc":"2.0","method":"a","id":1,"\u0069d":2}"#;
        assert_eq!(waiting(twice), Some(Some("2".into())));
    }

    #[test]
    fn deep_nesting_is_no_problem() {
        let text = format!(
            r#"{{"jsonrpc":"2.0","method":"a","params":{}{}}}"#,
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        assert!(read(&text).is_ok());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = Message::parse(Bytes::from(bytes));
        }

        #[test]
        fn ids_keep_their_text(id in "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,3})?|\"[a-z ]{0,9}\"") {
            let text = format!(r#"{{"jsonrpc":"2.0","id": {id} ,"method":"a"}}"#);
            let message = read(&text).unwrap();
            prop_assert_eq!(message.id().unwrap().as_json(), id);
        }
    }
}
