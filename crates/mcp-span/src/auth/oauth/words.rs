//! What an authorization server says, as far as it may be shown. Pure.

use http::StatusCode;
use serde_json::Value;

use crate::error::{Error, ErrorKind};
use crate::limits;
use crate::untrusted::Untrusted;
use crate::wire::page;

/// Words of others, for a terminal: few, and without control characters.
pub(super) fn said(text: &str) -> String {
    Untrusted(text).excerpt(limits::LOGIN_TEXT)
}

/// A failure of a login: the request that it was for has not left.
pub(super) fn login_error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Login, message).not_delivered()
}

/// The error for an authorization server that says no; in its own words, but not many of them.
pub(super) fn refused(what: &str, status: StatusCode, answer: &Value) -> Error {
    let text = answer["error_description"]
        .as_str()
        .filter(|said| !said.is_empty())
        .or_else(|| answer["error"].as_str())
        // What comes with a success may be a token, in a form that nobody expects.
        .or_else(|| answer.as_str().filter(|_| !status.is_success()))
        .unwrap_or("no reason given");
    let text = match said(&page::readable(text)) {
        text if text.is_empty() => "no reason given".to_owned(),
        text => text,
    };
    // A server that is at fault has refused nothing.
    let became = if status.is_server_error() { "failed" } else { "was refused" };
    let message = format!("{what} {became} (HTTP {}): {text}", status.as_u16());
    login_error(message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_success_is_never_quoted() {
        // It may be a token.
        for answer in [json!("hidden-token"), json!(["hidden-token"]), json!({"x": "hidden-token"})]
        {
            let error = refused("The request", StatusCode::OK, &answer);
            assert_eq!(error.message, "The request was refused (HTTP 200): no reason given");
        }
        let error = refused("The request", StatusCode::BAD_GATEWAY, &json!("<p>later\u{1b}[0m"));
        assert_eq!(error.message, "The request failed (HTTP 502): later[0m");
        let page = json!("<html><title>Bad Gateway</title><h1>Bad Gateway</h1></html>");
        let error = refused("The request", StatusCode::BAD_GATEWAY, &page);
        assert!(error.message.ends_with("(HTTP 502): Bad Gateway"), "{error}");
    }
}
