//! The messages that are sent, and what their answers must look like.

use std::borrow::Cow;

use memchr::{memchr, memmem};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::figures::failure::Failure;

/// Opens a session.
pub(crate) const INITIALIZE: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","#,
    r#""capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#,
    "\n"
);

/// Ends the handshake.
pub(crate) const INITIALIZED: &str =
    concat!(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, "\n");

/// What stands before the id of every answer.
pub(crate) const HEAD: &str = r#"{"jsonrpc":"2.0","id":"#;

/// What stands between the id of a tool's answer and its text.
pub(crate) const OPEN: &str = r#","result":{"content":[{"type":"text","text":""#;

/// What stands behind the text.
pub(crate) const CLOSE: &str = r#""}],"isError":false}}"#;

/// What large answers repeat: text as it comes, with an escape now and then.
pub(crate) const TEXT: &str = r"The quick brown fox jumps over the lazy dog, again and again.\n";

/// What a notification is recognized by.
pub(crate) const PROGRESS: &str = "notifications/progress";

const ECHOED: &str = "hello";

/// A call of a tool, as one line.
pub(crate) fn small(id: u64) -> String {
    call(id, "echo", &format!(r#""arguments":{{"text":"{ECHOED}"}}"#))
}

/// A call whose answer has `bytes` bytes of text.
pub(crate) fn large(id: u64, bytes: usize) -> String {
    call(id, "big", &format!(r#""arguments":{{"bytes":{bytes}}}"#))
}

/// A call with `bytes` bytes of text; its answer says how many came.
pub(crate) fn request(id: u64, bytes: usize) -> String {
    let text = "a request as large as this is mostly one string. ".repeat(bytes.div_ceil(49));
    call(id, "measure", &format!(r#""arguments":{{"text":"{}"}}"#, &text[..bytes]))
}

/// A call whose answer comes after `count` notifications.
pub(crate) fn notify(id: u64, count: usize) -> String {
    let rest = format!(r#""arguments":{{"count":{count}}},"_meta":{{"progressToken":{id}}}"#);
    call(id, "notify", &rest)
}

fn call(id: u64, tool: &str, rest: &str) -> String {
    format!("{HEAD}{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"{tool}\",{rest}}}}}\n")
}

/// What the text of an answer must be.
#[derive(Clone, Debug)]
pub(crate) enum Expected {
    Text(String),
    /// As many bytes, before they are unescaped, of [`TEXT`].
    Large(usize),
}

impl Expected {
    /// The answer to [`small`].
    pub(crate) fn small() -> Self {
        Self::Text(ECHOED.to_owned())
    }

    fn is_raw(&self, raw: &[u8]) -> bool {
        match self {
            Self::Text(text) => raw == text.as_bytes(),
            Self::Large(bytes) => raw.len() == *bytes && raw.starts_with(TEXT.as_bytes()),
        }
    }

    fn is(&self, text: &str) -> bool {
        match self {
            Self::Text(expected) => text == expected,
            // The escape is the last of each repetition, so that an unfinished one has none.
            Self::Large(bytes) => text.len() == bytes - bytes / TEXT.len(),
        }
    }
}

/// The id that an answer carries, if it is right in all else; `None` if it is no answer at all.
pub(crate) fn answer(line: &[u8], expected: &Expected) -> Result<Option<u64>, Failure> {
    match exact(line, expected) {
        Some(id) => Ok(Some(id)),
        // Other bridges write the message anew: members may come in any order, and new ones, too.
        None => rewritten(line, expected),
    }
}

fn exact(line: &[u8], expected: &Expected) -> Option<u64> {
    let line = line.strip_prefix(HEAD.as_bytes())?.strip_suffix(CLOSE.as_bytes())?;
    let digits = memchr(b',', line)?;
    let text = line[digits..].strip_prefix(OPEN.as_bytes())?;
    let id = std::str::from_utf8(&line[..digits]).ok()?.parse().ok()?;
    expected.is_raw(text).then_some(id)
}

#[derive(Deserialize)]
struct AnyMessage<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ToolResult<'a> {
    #[serde(borrow)]
    content: Vec<Content<'a>>,
    #[serde(default, rename = "isError")]
    is_error: bool,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

fn rewritten(line: &[u8], expected: &Expected) -> Result<Option<u64>, Failure> {
    let wrong = |what: &str| Failure::wrong(format!("{what}: {}", excerpt(line)));
    let message: AnyMessage<'_> =
        serde_json::from_slice(line).map_err(|error| wrong(&format!("no message, {error}")))?;
    if message.method.is_some() {
        return Ok(None);
    }
    let id =
        message.id.and_then(|id| id.get().parse().ok()).ok_or_else(|| wrong("no id of ours"))?;
    let Some(result) = message.result else {
        return Err(Failure::error(format!("id {id}: {}", excerpt(line))));
    };
    let result: ToolResult<'_> =
        serde_json::from_str(result.get()).map_err(|_| wrong("no result of a tool"))?;
    match &result.content[..] {
        [content] if expected.is(&content.text) => Ok(Some(id)),
        _ if result.is_error => Err(Failure::error(excerpt(line))),
        _ => Err(wrong(&format!("another text, in {} bytes", line.len()))),
    }
}

/// Whether these lines are `count` notifications, each once and in order.
pub(crate) fn check_notifications(lines: &[u8], count: usize) -> Result<(), Failure> {
    #[derive(Deserialize)]
    struct Notification {
        params: Params,
    }
    #[derive(Deserialize)]
    struct Params {
        progress: f64,
    }
    let mut expected = 0;
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let notification: Notification = serde_json::from_slice(line)
            .map_err(|error| Failure::wrong(format!("{error}: {}", excerpt(line))))?;
        expected += 1;
        #[expect(clippy::float_cmp, reason = "whole numbers")]
        if notification.params.progress != f64::from(expected) {
            let (progress, expected) = (notification.params.progress, expected);
            return Err(Failure::wrong(format!("notification {progress} came as {expected}.")));
        }
    }
    match usize::try_from(expected) {
        Ok(came) if came == count => Ok(()),
        _ => Err(Failure::lost(format!("{expected} of {count} notifications came"))),
    }
}

/// The raw value of a member, without parsing: requests have no member of the same name further
/// in that comes before it.
pub(crate) fn member<'a>(message: &'a [u8], key: &str) -> Option<&'a [u8]> {
    let quoted = format!("\"{key}\"");
    let behind = &message[memmem::find(message, quoted.as_bytes())? + quoted.len()..];
    let value = behind.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let end = match value.strip_prefix(b"\"") {
        // A whole string, with its quotes; none of ours holds an escaped one.
        Some(text) => memchr(b'"', text)? + 2,
        None => value.iter().position(|byte| matches!(byte, b',' | b'}' | b' '))?,
    };
    Some(&value[..end])
}

/// The same for a number.
pub(crate) fn number(message: &[u8], key: &str) -> Option<usize> {
    std::str::from_utf8(member(message, key)?).ok()?.parse().ok()
}

/// The beginning of a line, for a person.
pub(crate) fn excerpt(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::failure::Kind;

    fn text_answer(text: &str) -> Vec<u8> {
        format!("{HEAD}7{OPEN}{text}{CLOSE}").into_bytes()
    }

    fn kind(line: &str, expected: &Expected) -> Kind {
        answer(line.as_bytes(), expected).unwrap_err().kind
    }

    #[test]
    fn an_answer_is_right_as_it_was_sent_and_as_others_write_it_anew() {
        let expected = Expected::small();
        assert_eq!(answer(&text_answer("hello"), &expected), Ok(Some(7)));
        let anew = br#"{"result": {"isError": false, "content": [{"text": "hello", "type": "text",
            "annotations": null}]}, "id": 7, "jsonrpc": "2.0"}"#;
        assert_eq!(answer(anew, &expected), Ok(Some(7)));
    }

    #[test]
    fn a_large_answer_is_counted_before_and_after_unescaping() {
        let bytes = 3 * TEXT.len() + 10;
        let text = &TEXT.repeat(4)[..bytes];
        let expected = Expected::Large(bytes);
        assert_eq!(answer(&text_answer(text), &expected), Ok(Some(7)));
        let rewritten =
            String::from_utf8(text_answer(text)).unwrap().replace("\"id\":7", "\"id\": 7");
        assert_eq!(answer(rewritten.as_bytes(), &expected), Ok(Some(7)));
        assert_eq!(
            kind(&String::from_utf8(text_answer(&text[1..])).unwrap(), &expected),
            Kind::Wrong
        );
    }

    #[test]
    fn what_is_no_answer_is_passed_over_and_what_is_wrong_is_named() {
        let expected = Expected::small();
        let notification = br#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#;
        assert_eq!(answer(notification, &expected), Ok(None));
        assert_eq!(kind(r#"{"jsonrpc":"2.0","id":7,"error":{"code":-1}}"#, &expected), Kind::Error);
        let refused = r#"{"id":7,"result":{"content":[{"text":"closed"}],"isError":true}}"#;
        assert_eq!(kind(refused, &expected), Kind::Error);
        assert_eq!(kind("[debug] hello", &expected), Kind::Wrong);
        assert_eq!(kind(&String::from_utf8(text_answer("bye")).unwrap(), &expected), Kind::Wrong);
    }

    #[test]
    fn notifications_are_complete_in_order_and_once() {
        let lines = |numbers: &[u32]| -> String {
            let line = |n| format!(r#"{{"method":"{PROGRESS}","params":{{"progress":{n}.0}}}}"#);
            numbers.iter().map(|n| line(n) + "\n").collect()
        };
        assert_eq!(check_notifications(lines(&[1, 2, 3]).as_bytes(), 3), Ok(()));
        let fault = |numbers| check_notifications(lines(numbers).as_bytes(), 3).unwrap_err().kind;
        assert_eq!(fault(&[1, 2]), Kind::Lost);
        assert_eq!(fault(&[1, 3, 2]), Kind::Wrong);
        assert_eq!(fault(&[1, 1, 2, 3]), Kind::Wrong);
    }

    #[test]
    fn members_are_found_in_any_order_and_spacing() {
        let request = br#"{"params": {"name": "big", "arguments": {"bytes": 12}}, "id": 3 }"#;
        assert_eq!(member(request, "id"), Some(&b"3"[..]));
        assert_eq!(member(request, "name"), Some(&br#""big""#[..]));
        assert_eq!(number(request, "bytes"), Some(12));
        assert_eq!(member(request, "count"), None);
        let made = request_of(50);
        assert_eq!(member(&made, "text").map(<[u8]>::len), Some(52));
    }

    fn request_of(bytes: usize) -> Vec<u8> {
        request(1, bytes).into_bytes()
    }
}
