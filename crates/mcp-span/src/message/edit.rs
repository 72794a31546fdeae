//! Changes the JSON of a message in place, and only where a protocol demands it.

use std::borrow::Cow;

use bytes::Bytes;

use super::{Head, Id, Json, Message};

/// The bytes on one line, as stdio wants them.
///
/// In valid JSON a raw CR or LF can only stand between tokens, so a blank in its place keeps the
/// value; messages without one, nearly all, are not copied.
#[must_use]
pub fn one_line(bytes: &Bytes) -> Bytes {
    if memchr::memchr2(b'\r', b'\n', bytes).is_none() {
        return bytes.clone();
    }
    bytes.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect()
}

/// The same request or answer under another id, everything else byte for byte the same.
#[must_use]
pub fn with_id(message: &Message, id: &Id) -> Message {
    if matches!(message.head(), Head::Notification { .. }) {
        return message.clone();
    }
    let bytes = message.bytes();
    let (old, new) = match message.get(&["id"]).map(Json::as_str) {
        Some(old) => {
            let start = old.as_ptr() as usize - bytes.as_ptr() as usize;
            (start..start + old.len(), Cow::Borrowed(id.as_json()))
        }
        // No id at all: it becomes the first member. An answer always has others.
        None => (1..1, format!("\"id\":{id},").into()),
    };
    let edited = [&bytes[..old.start], new.as_bytes(), &bytes[old.end..]].concat();
    Message::new(edited.into(), message.head().clone().with_id(id)).like(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Message {
        Message::parse(Bytes::copy_from_slice(text.as_bytes())).expect("a message")
    }

    /// A peer can write the same bytes, but not the mark.
    #[test]
    fn an_error_of_our_own_is_marked_under_every_id_and_one_that_came_in_never() {
        let error = crate::error::Error::new(crate::error::ErrorKind::Closed, "Transport closed");
        let ours = crate::message::reply::error(Some(&Id::number(1)), &error);
        assert!(ours.is_own() && with_id(&ours, &Id::number(2)).is_own());
        let theirs = Message::parse(ours.bytes().clone()).unwrap();
        assert!(!theirs.is_own() && !with_id(&theirs, &Id::number(2)).is_own());
    }

    #[test]
    fn a_pretty_printed_message_becomes_one_line_with_the_same_value() {
        let text = "{\n  \"jsonrpc\": \"2.0\",\r\n  \"id\": 1,\n  \"result\": \"a\\nb\"\n}";
        let line = one_line(&Bytes::from_static(text.as_bytes()));
        assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
        let value = |b: &[u8]| serde_json::from_slice::<serde_json::Value>(b).unwrap();
        assert_eq!(value(&line), value(text.as_bytes()));
    }

    #[test]
    fn a_single_line_is_not_copied() {
        let bytes = Bytes::from_static("{\"a\":\"\u{2028}\"}".as_bytes());
        assert_eq!(one_line(&bytes).as_ptr(), bytes.as_ptr());
    }

    #[test]
    fn only_the_id_changes() {
        let id = Id::from_json("9007199254740993").unwrap();
        let answer = message(r#"{ "error":{"id":null,"n":1e400}, "id": null ,"jsonrpc":"2.0"}"#);
        let edited = with_id(&answer, &id);
        assert_eq!(
            &edited.bytes()[..],
            br#"{ "error":{"id":null,"n":1e400}, "id": 9007199254740993 ,"jsonrpc":"2.0"}"#
        );
        assert_eq!(edited.id(), Some(&id));
        let request = message(r#"{"id":1,"jsonrpc":"2.0","method":"a","params":{"id":1}}"#);
        assert_eq!(
            &with_id(&request, &id).bytes()[..],
            br#"{"id":9007199254740993,"jsonrpc":"2.0","method":"a","params":{"id":1}}"#
        );
        let answer = message(r#"{"jsonrpc":"2.0","error":{}}"#);
        let edited = with_id(&answer, &id);
        assert_eq!(&edited.bytes()[..], br#"{"id":9007199254740993,"jsonrpc":"2.0","error":{}}"#);
    }
}
