//! The messages that the bridge writes itself: errors, and word of a cancellation.

use std::sync::Arc;

use serde_json::Value;

use super::{Author, Head, Id, Members, Message, Method};
use crate::error::{Error, RpcError};
use crate::limits;
use crate::untrusted::Untrusted;

/// The error answer for the request `id`; without one it is addressed to `null`.
#[must_use]
pub fn error(id: Option<&Id>, error: &Error) -> Message {
    failure(id, error.code(), shortened(error))
}

/// The plain refusal of a method, as a server that does not know it would write it.
#[must_use]
pub fn method_not_found(id: &Id, method: &str) -> Message {
    rpc_error(id, &RpcError::method_not_found(method))
}

/// The same where it is not certain that the server does not know it: `error` says why it was not
/// to be found out.
#[must_use]
pub fn method_not_found_because(id: &Id, method: &str, error: &Error) -> Message {
    let refusal = RpcError::method_not_found(method);
    let message = format!("{} ({})", refusal.message, error.message);
    failure(Some(id), refusal.code, shortened(&Error { message, ..error.clone() }))
}

/// The error speaks of the request by the id that the client gave it.
#[must_use]
pub fn about(mut error: Error, upstream: &Id, own: Option<&Id>) -> Error {
    if let Some(own) = own {
        let named = |id: &Id| format!("request ID {id}");
        error.message = error.message.replace(&named(upstream), &named(own));
    }
    error
}

/// The refusal of a request by a code of the protocol's, as a server would write it.
#[must_use]
pub fn refusal(id: &Id, code: i64, message: &str) -> Message {
    rpc_error(id, &RpcError::new(code, message))
}

/// The refusal of a request in these words.
#[must_use]
pub fn rpc_error(id: &Id, refused: &RpcError) -> Message {
    let error = Members::default().with("code", refused.code);
    let error = error.with("message", short(&refused.message));
    raw_error(Some(id), &error.with_some("data", refused.data.as_ref()).to_json())
}

/// A result of the bridge's own.
#[must_use]
pub fn result(id: &Id, result: &Value) -> Message {
    raw_result(Some(id), &result.to_string())
}

/// A result of the bridge's own, made of parts of other messages.
#[must_use]
pub fn raw_result(id: Option<&Id>, result: &str) -> Message {
    written(Head::Response { id: id.cloned(), is_error: false }, Some(("result", result)))
}

/// A request of the bridge's own.
#[must_use]
pub fn request(id: &Id, method: &str, params: Option<&str>) -> Message {
    let head = Head::Request { id: id.clone(), method: method.into() };
    written(head, params.map(|params| ("params", params)))
}

/// A notification of the bridge's own.
#[must_use]
pub fn notification(method: &str, params: Option<&str>) -> Message {
    let head = Head::Notification { method: method.into() };
    written(head, params.map(|params| ("params", params)))
}

/// An error that somebody else wrote, as the answer to another request.
#[must_use]
pub fn raw_error(id: Option<&Id>, error: &str) -> Message {
    written(Head::Response { id: id.cloned(), is_error: true }, Some(("error", error)))
}

fn written(head: Head, payload: Option<(&str, &str)>) -> Message {
    let mut members = Members::default().with("jsonrpc", "2.0");
    if !matches!(head, Head::Notification { .. }) {
        // Unless the head knows one.
        members.set("id", "null");
    }
    members = members.with_some("method", head.method().map(Method::name));
    if let Some((name, json)) = payload {
        members.set(name, json);
    }
    members.into_message(head)
}

/// Tells the server that nobody waits for `id` any more.
#[must_use]
pub fn cancelled(id: &Id, reason: &str) -> Message {
    let reason = Value::from(reason);
    let params = format!(r#"{{"requestId":{id},"reason":{reason}}}"#);
    notification("notifications/cancelled", Some(&params))
}

fn failure(id: Option<&Id>, code: i64, error: Error) -> Message {
    let known = error.details().into_iter();
    let data = known.fold(Members::default(), |data, (name, value)| data.with_some(name, value));
    let mut failure = Members::default().with("code", code).with("message", &error.message);
    failure.set("data", data.to_json());
    raw_error(id, &failure.to_json()).by(Author::Failure(Arc::new(error)))
}

/// The same with texts that fit on a line; the address of a login stays whole.
fn shortened(error: &Error) -> Error {
    let boxed = |text: &Option<Box<str>>| text.as_deref().map(|text| short(text).into());
    Error {
        message: short(&error.message),
        body: boxed(&error.body),
        reason: boxed(&error.reason),
        hint: error.hint.as_deref().map(short),
        ..error.clone()
    }
}

fn short(text: &str) -> String {
    Untrusted(text).excerpt(limits::ERROR_TEXT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn id(raw: &str) -> Id {
        Id::from_json(raw).expect("an id")
    }

    #[test]
    fn an_error_has_code_text_kind_and_delivery() {
        let failure =
            Error::new(ErrorKind::Timeout, "Request timeout after 5ms").because("silence");
        let message = error(Some(&id("12345678901234567890")), &failure);
        assert_eq!(
            std::str::from_utf8(message.bytes()).unwrap(),
            r#"{"jsonrpc":"2.0","id":12345678901234567890,"error":{"code":-32000,"message":"Request timeout after 5ms","data":{"kind":"timeout","delivery":"unknown","reason":"silence"}}}"#
        );
        assert_eq!(Message::parse(message.bytes().clone()).as_ref(), Ok(&message));
    }

    #[test]
    fn texts_are_cut_at_500_characters_on_one_line() {
        // C24
        let mut failure = Error::new(ErrorKind::Status, format!("HTTP 500: {}", "ü\n".repeat(900)));
        failure.body = Some("x".repeat(501).into());
        let message = error(None, &failure);
        let value: Value = serde_json::from_slice(message.bytes()).unwrap();
        assert_eq!(value["error"]["message"].as_str().unwrap().chars().count(), 500);
        assert_eq!(value["error"]["data"]["body"].as_str().unwrap().len(), 500);
        assert_eq!(value["error"]["code"], -32001);
        assert!(value["id"].is_null());
    }

    #[test]
    fn a_page_is_told_whole_or_in_a_place_of_its_own() {
        for (length, is_named) in [(100, true), (900, false)] {
            let page = format!("https://as.example/authorize?scope={}", "x".repeat(length));
            let message = error(None, &Error::login_pending(&page));
            let value: Value = serde_json::from_slice(message.bytes()).unwrap();
            let text = value["error"]["message"].as_str().unwrap();
            assert_eq!(text.contains(&page), is_named, "{text}");
            assert_eq!(text.contains("https://"), is_named, "never a part of it: {text}");
            assert_eq!(value["error"]["data"]["url"], page);
        }
        let endless = format!("https://as.example/{}", "x".repeat(limits::PAGE_TEXT));
        assert_eq!(Error::login_pending(&endless).login_url, None);
        let device = Error::login_pending("https://as.example/device and enter the code A-B");
        assert_eq!(device.login_url.unwrap().as_str(), "https://as.example/device");
    }

    #[test]
    fn a_message_of_our_own_begins_with_its_head() {
        let made = request(&Id::string("a"), "b\"c", Some(r#"{"x":1}"#));
        let text = r#"{"jsonrpc":"2.0","id":"a","method":"b\"c","params":{"x":1}}"#;
        assert_eq!(&made.bytes()[..], text.as_bytes());
        assert_eq!(Message::parse(made.bytes().clone()).as_ref(), Ok(&made));
        for made in [notification("n", None), raw_result(Some(&Id::string("a")), "{}")] {
            assert_eq!(Message::parse(made.bytes().clone()).as_ref(), Ok(&made));
        }
    }

    #[test]
    fn the_other_messages_are_what_they_say() {
        let notice = cancelled(&id("\"a\""), "why");
        assert_eq!(Message::parse(notice.bytes().clone()).as_ref(), Ok(&notice));
        assert_eq!(super::super::peek::cancelled_request(&notice), Some(id("\"a\"")));
        let ping = request(&id("\"x\""), "ping", None);
        assert_eq!(Message::parse(ping.bytes().clone()).as_ref(), Ok(&ping));
        let notice = notification("notifications/tools/list_changed", None);
        assert_eq!(Message::parse(notice.bytes().clone()).as_ref(), Ok(&notice));
        let refusal = method_not_found(&id("1"), "server/discover");
        assert_eq!(Message::parse(refusal.bytes().clone()).as_ref(), Ok(&refusal));
        let refusal = super::refusal(&id("1"), -32602, "no \"such\"");
        assert_eq!(
            &refusal.bytes()[..],
            br#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no \"such\""}}"#
        );
    }
}
