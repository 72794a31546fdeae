//! The names of MCP's HTTP headers, and texts to header values and back.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CONNECTION, CONTENT_LENGTH, InvalidHeaderValue, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

/// The session of a legacy server.
pub const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The revision that was negotiated (legacy) or that a request speaks (modern).
pub const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The position in an event stream from which to go on.
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Modern: the request's method.
pub const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// Modern: the tool, prompt, resource or task that the request is about.
pub const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// Where to get a token, as some servers say it.
pub const AUTH_SERVER: HeaderName = HeaderName::from_static("mcp-auth-server");

/// Who we are.
pub const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("mcp-span/", env!("CARGO_PKG_VERSION")));

/// What an MCP client accepts; both types, in this spelling (S0-06).
pub const ACCEPT_BOTH: HeaderValue =
    HeaderValue::from_static("application/json, text/event-stream");
/// What it accepts on a GET.
pub const ACCEPT_EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
/// What it sends.
pub const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A text as the value of `Mcp-Name` or `Mcp-Param-…`: as it is where that is safe in a header, else
/// in its base64 form.
///
/// An empty value is not safe, since some proxies drop such headers; nor is a tab, which some replace.
#[must_use]
pub fn encode(text: &str) -> HeaderValue {
    let plain = !text.is_empty()
        && text.bytes().all(|b| matches!(b, b' '..=b'~'))
        && text.trim_matches(' ') == text
        && !(text.starts_with("=?base64?") && text.ends_with("?="));
    let coded = match plain {
        true => HeaderValue::from_str(text),
        false => format!("=?base64?{}?=", STANDARD.encode(text)).try_into(),
    };
    // Visible ASCII and inner blanks only, by construction.
    coded.unwrap_or(HeaderValue::from_static(""))
}

/// A value that may be a secret, and is shown nowhere.
///
/// # Errors
///
/// When there is a character in it that no header can carry.
pub fn secret(text: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut value = HeaderValue::from_str(text)?;
    value.set_sensitive(true);
    Ok(value)
}

/// What a user and a password are sent as.
pub(crate) fn basic(user: impl AsRef<[u8]>, password: impl AsRef<[u8]>) -> HeaderValue {
    let pair = STANDARD.encode([user.as_ref(), b":", password.as_ref()].concat());
    // Visible ASCII and a blank only.
    secret(&format!("Basic {pair}")).unwrap_or(HeaderValue::from_static(""))
}

/// The value of `name`. Answers have few headers, which are sooner looked through than a name is
/// hashed, and every answer is asked for three.
#[must_use]
pub fn find<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    headers.iter().find(|(other, _)| *other == name).map(|(_, value)| value)
}

/// A session id is visible ASCII; anything else is treated as if the server had sent none.
#[must_use]
pub fn is_session_id(value: &HeaderValue) -> bool {
    !value.is_empty() && value.as_bytes().iter().all(|b| matches!(b, 0x21..=0x7e))
}

/// Whether a header says where a message ends, or what becomes of its connection: those are HTTP's
/// own.
#[must_use]
pub fn is_framing(name: &HeaderName) -> bool {
    [CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION, UPGRADE, TE, TRAILER].contains(name)
}

/// `Name: value` (or `Name:value`) as it is typed.
///
/// # Errors
///
/// A sentence that says what is wrong, without the value, which may be a secret.
pub fn parse_line(line: &str) -> Result<(HeaderName, String), String> {
    let colon = line.split_once(':');
    let (name, value) =
        colon.ok_or("a header is written 'Name: value'; there is no colon in it")?;
    let name = HeaderName::from_bytes(name.trim().as_bytes())
        .map_err(|_| "what stands before the colon is not a header name")?;
    Ok((name, value.trim().to_owned()))
}

/// Checks the value of a header that is given by the user, and may be a secret.
///
/// # Errors
///
/// A sentence that says what is wrong, without the value.
pub fn parse_value(name: &HeaderName, value: &str) -> Result<HeaderValue, String> {
    if value.contains(['\r', '\n']) {
        return Err(format!("the value of header '{name}' has a line break in it"));
    }
    secret(value).map_err(|_| format!("the value of header '{name}' has a control character in it"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn safe_names_go_as_they_are_and_others_in_base64() {
        assert_eq!(encode("get_weather"), "get_weather");
        assert_eq!(encode("a b"), "a b");
        assert_eq!(encode(""), "=?base64??=");
        assert_eq!(encode("a\tb"), "=?base64?YQli?=");
        assert_eq!(encode("a "), "=?base64?YSA=?=");
        assert_eq!(encode("\u{7f}"), "=?base64?fw==?=");
        assert_eq!(encode(" a"), "=?base64?IGE=?=");
        assert_eq!(encode("a\n"), "=?base64?YQo=?=");
        assert_eq!(encode("日本"), "=?base64?5pel5pys?=");
        assert_eq!(encode("=?base64?eA==?="), "=?base64?PT9iYXNlNjQ/ZUE9PT89?=");
    }

    #[test]
    fn headers_are_read_with_and_without_a_blank() {
        assert_eq!(parse_line("X-A: b c ").unwrap().1, "b c");
        assert_eq!(parse_line("X-A:b").unwrap().1, "b");
        assert_eq!(parse_line("Authorization:Bearer a:b").unwrap().1, "Bearer a:b");
        assert!(parse_line("nothing").unwrap_err().contains("no colon"));
        assert!(parse_line("a b: c").unwrap_err().contains("is not a header name"));
        assert!(parse_value(&NAME, "a\r\nb").unwrap_err().contains("line break"));
        assert!(parse_value(&NAME, "a\u{1}b").unwrap_err().contains("control character"));
    }

    #[test]
    fn session_ids_are_visible_ascii() {
        assert!(is_session_id(&HeaderValue::from_static("1868a90c-aB")));
        assert!(!is_session_id(&HeaderValue::from_static("a b")));
        assert!(!is_session_id(&HeaderValue::from_static("")));
    }

    proptest! {
        #[test]
        fn every_text_becomes_a_value_that_gives_it_back(text in "\\PC{0,20}|[\\x00-\\x7f]{0,20}") {
            let value = encode(&text);
            let coded = value.to_str().expect("visible ASCII");
            let back = match coded.strip_prefix("=?base64?").and_then(|c| c.strip_suffix("?=")) {
                Some(base64) => String::from_utf8(STANDARD.decode(base64).unwrap()).unwrap(),
                None => coded.to_owned(),
            };
            prop_assert_eq!(back, text);
        }
    }
}
