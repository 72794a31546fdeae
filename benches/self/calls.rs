//! The messages that are sent, and what their answers must look like.

use memchr::memmem;

/// Opens a session.
pub(crate) const INITIALIZE: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","#,
    r#""capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#,
    "\n"
);

/// Ends the handshake.
pub(crate) const INITIALIZED: &str =
    concat!(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, "\n");

/// The result of `initialize`.
pub(crate) const WELCOME: &str = concat!(
    r#","result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"#,
    r#""serverInfo":{"name":"loopback","version":"1"}}}"#
);

/// The result of `server/discover`.
pub(crate) const DISCOVERED: &str = concat!(
    r#","result":{"resultType":"complete","supportedVersions":["2026-07-28"],"#,
    r#""capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}}"#
);

/// How a modern server refuses `initialize`.
pub(crate) const REFUSED: &str =
    r#","error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}}"#;

/// What stands before the id of every answer.
pub(crate) const HEAD: &str = r#"{"jsonrpc":"2.0","id":"#;

/// What stands behind the id of a small answer.
pub(crate) const SMALL_TAIL: &str =
    r#","result":{"content":[{"type":"text","text":"hello"}],"isError":false}}"#;

/// What stands before the text of a large answer.
pub(crate) const LARGE_TAIL: &str = r#","result":{"content":[{"type":"text","text":""#;

/// What stands behind the text of a large answer.
pub(crate) const LARGE_END: &str = r#""}]}}"#;

/// A call of a tool, as one line.
pub(crate) fn small(id: u64) -> String {
    call(id, "echo")
}

/// A call whose answer has `bytes` bytes of text.
pub(crate) fn large(id: u64, bytes: usize) -> String {
    call(id, &format!("big:{bytes}"))
}

fn call(id: u64, tool: &str) -> String {
    format!(
        "{HEAD}{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"{tool}\",\
         \"arguments\":{{\"text\":\"hello\"}}}}}}\n"
    )
}

/// The id that a small answer carries, if it is right in all else.
pub(crate) fn answered(line: &[u8]) -> Result<u64, String> {
    line.strip_suffix(SMALL_TAIL.as_bytes())
        .and_then(|line| line.strip_prefix(HEAD.as_bytes()))
        .and_then(|id| std::str::from_utf8(id).ok()?.parse().ok())
        .ok_or_else(|| format!("wrong answer: {}", excerpt(line)))
}

/// Whether `line` is the large answer to `id`.
pub(crate) fn check_large(line: &[u8], id: u64, bytes: usize) -> Result<(), String> {
    let head = format!("{HEAD}{id}{LARGE_TAIL}");
    let is_right = line.len() == head.len() + bytes + LARGE_END.len()
        && line.starts_with(head.as_bytes())
        && line.ends_with(LARGE_END.as_bytes());
    if is_right {
        return Ok(());
    }
    Err(format!("wrong large answer of {} bytes: {}", line.len(), excerpt(line)))
}

/// The raw value of a member, without parsing: every message here is of our own making.
pub(crate) fn member<'a>(message: &'a [u8], key: &str) -> Option<&'a [u8]> {
    let value = &message[memmem::find(message, key.as_bytes())? + key.len()..];
    let end = match value.strip_prefix(b"\"") {
        // A whole string, with its quotes.
        Some(text) => text.iter().position(|byte| *byte == b'"')? + 2,
        None => value.iter().position(|byte| matches!(byte, b',' | b'}' | b'"'))?,
    };
    Some(&value[..end])
}

fn excerpt(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned()
}
