//! What the server says to each message: the handshake, and four tools.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use crate::messages::{CLOSE, HEAD, OPEN, TEXT, member, number};
use crate::way::Way;

const WELCOME: &str = concat!(
    r#","result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"#,
    r#""serverInfo":{"name":"loopback","version":"1"}}}"#
);

const DISCOVERED: &str = concat!(
    r#","result":{"resultType":"complete","supportedVersions":["2026-07-28"],"#,
    r#""capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}}"#
);

/// How a modern server refuses `initialize`.
const REFUSED: &str =
    r#","error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}}"#;

const UNKNOWN: &str = r#","error":{"code":-32601,"message":"no such method"}}"#;

const TOOLS: [&str; 4] = ["echo", "big", "measure", "notify"];

/// What is said to a message.
pub(crate) enum Said {
    Nothing,
    /// The answer to `initialize`, with which a session begins.
    Welcome(Bytes),
    /// An error that has an HTTP status of its own.
    Refusal(Bytes),
    Answer(VecDeque<Bytes>),
    /// The answer comes behind so many notifications.
    Notifications {
        count: usize,
        token: String,
        answer: Bytes,
    },
}

/// Answers messages.
#[derive(Default)]
pub(crate) struct Protocol {
    text: LargeText,
}

impl Protocol {
    pub(crate) fn answer(&self, message: &[u8], way: Way) -> Said {
        let Some(id) = member(message, "id") else {
            return Said::Nothing;
        };
        let with = |tail: &str| joined(&[HEAD.as_bytes(), id, tail.as_bytes()]);
        let Some(method) = member(message, "method") else {
            return Said::Nothing;
        };
        match method {
            br#""tools/call""# => self.call(message, id, way),
            br#""initialize""# if way == Way::Modern => Said::Refusal(with(REFUSED)),
            br#""initialize""# => Said::Welcome(with(WELCOME)),
            br#""server/discover""# if way == Way::Modern => {
                Said::Answer([with(DISCOVERED)].into())
            }
            br#""tools/list""# => Said::Answer([with(&tools(way))].into()),
            br#""ping""# => Said::Answer([with(r#","result":{}}"#)].into()),
            _ => Said::Answer([with(UNKNOWN)].into()),
        }
    }

    fn call(&self, message: &[u8], id: &[u8], way: Way) -> Said {
        let open = opened(way);
        let small = |text: &str| {
            joined(&[HEAD.as_bytes(), id, open.as_bytes(), text.as_bytes(), CLOSE.as_bytes()])
        };
        match member(message, "name") {
            Some(br#""big""#) => Said::Answer(VecDeque::from([
                joined(&[HEAD.as_bytes(), id, open.as_bytes()]),
                self.text.of(number(message, "bytes").unwrap_or(0)),
                Bytes::from_static(CLOSE.as_bytes()),
            ])),
            Some(br#""measure""#) => {
                // Without its quotes.
                let length = member(message, "text").map_or(0, |text| text.len() - 2);
                Said::Answer([small(&length.to_string())].into())
            }
            Some(br#""notify""#) => {
                let token = member(message, "progressToken").unwrap_or(id);
                Said::Notifications {
                    count: number(message, "count").unwrap_or(0),
                    token: String::from_utf8_lossy(token).into_owned(),
                    answer: small("done"),
                }
            }
            _ => Said::Answer([small("hello")].into()),
        }
    }
}

/// [`OPEN`], with the member that modern results have.
fn opened(way: Way) -> &'static str {
    const MODERN: &str = r#","result":{"resultType":"complete","content":[{"type":"text","text":""#;
    if way == Way::Modern { MODERN } else { OPEN }
}

fn tools(way: Way) -> String {
    let mark = if way == Way::Modern { r#""resultType":"complete","# } else { "" };
    let tools = TOOLS.map(|name| {
        format!(r#"{{"name":"{name}","description":"{name}","inputSchema":{{"type":"object"}}}}"#)
    });
    format!(r#","result":{{{mark}"tools":[{}]}}}}"#, tools.join(","))
}

fn joined(parts: &[&[u8]]) -> Bytes {
    parts.concat().into()
}

/// The text of large answers, made once so that its making is not measured.
#[derive(Default)]
struct LargeText(Mutex<Bytes>);

impl LargeText {
    fn of(&self, bytes: usize) -> Bytes {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if made.len() < bytes {
            *made = TEXT.repeat(bytes.div_ceil(TEXT.len())).into();
        }
        let text = made.slice(..bytes);
        // An escape must not be cut in two.
        if text.last() == Some(&b'\\') { joined(&[&text[..bytes - 1], b"."]) } else { text }
    }
}
