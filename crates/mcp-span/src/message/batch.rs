//! Hands out the messages of a payload one after the other: the one that it is, or those of the array
//! that it is (JSON-RPC batches of revision 2025-03-26).
//!
//! A payload of 64 MiB can have 32 million elements. So nothing is kept for each of them: the array is
//! checked as a whole, and then cut where its elements end.

use bytes::Bytes;

use super::head::parse;
use super::scan::{Scanner, length_of_value};
use super::{Malformed, Message};

/// The messages of a payload.
pub fn parse_each(bytes: Bytes) -> Each {
    let is_json = |bytes| str::from_utf8(bytes).is_ok_and(Scanner::is_value);
    let trimmed = bytes.trim_ascii();
    if trimmed.starts_with(b"[") && is_json(trimmed) {
        return Each { rest: behind(bytes.slice_ref(trimmed)), is_batch: true };
    }
    Each { rest: Some(bytes), is_batch: false }
}

/// The messages of a payload, each read when it is asked for.
#[derive(Debug)]
pub struct Each {
    /// What was not handed out yet; of an array, from the beginning of an element on.
    rest: Option<Bytes>,
    is_batch: bool,
}

impl Each {
    /// Whether it is an array.
    #[must_use]
    pub fn is_batch(&self) -> bool {
        self.is_batch
    }

    /// The bytes of the next one.
    fn next_bytes(&mut self) -> Option<Bytes> {
        let mut bytes = self.rest.take()?;
        if !self.is_batch {
            return Some(bytes);
        }
        let element = bytes.split_to(length_of_value(&bytes).unwrap_or(bytes.len()));
        self.rest = behind(bytes);
        Some(element)
    }
}

impl Iterator for Each {
    type Item = Result<Message, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_bytes().map(|bytes| parse(&bytes))
    }
}

/// What follows the bracket or comma that `array` begins with, if that is an element.
fn behind(array: Bytes) -> Option<Bytes> {
    let rest = array.trim_ascii_start().get(1..)?.trim_ascii_start();
    (!rest.is_empty() && !rest.starts_with(b"]")).then(|| array.slice_ref(rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;
    use crate::message::Method;

    /// The elements of an array, as serde_json has them.
    fn expected(text: &str) -> Option<Vec<&str>> {
        let all = serde_json::from_str::<Vec<&RawValue>>(text).ok()?;
        Some(all.iter().map(|raw| raw.get()).collect())
    }

    /// The same as they are handed out; `None` if it is said to be no JSON.
    fn cut(text: &str) -> Option<Vec<String>> {
        let mut each = parse_each(Bytes::copy_from_slice(text.as_bytes()));
        let text = |element: Bytes| String::from_utf8(element.to_vec()).unwrap();
        each.is_batch.then(|| std::iter::from_fn(|| each.next_bytes()).map(text).collect())
    }

    #[test]
    fn arrays_are_taken_apart() {
        // C25, S4(c): one message for each element.
        let text =
            r#" [ {"jsonrpc":"2.0","id":1,"method":"a"} , {"jsonrpc":"2.0","method":"b"},3]"#;
        let all: Vec<_> = parse_each(Bytes::from_static(text.as_bytes())).collect();
        assert_eq!(all.len(), 3);
        assert_eq!(
            &all[0].as_ref().unwrap().bytes()[..],
            br#"{"jsonrpc":"2.0","id":1,"method":"a"}"#
        );
        assert_eq!(all[1].as_ref().unwrap().method(), Some(&Method::named("b")));
        assert!(all[2].is_err());
        assert_eq!(parse_each(Bytes::from_static(b"[]")).count(), 0);
        assert_eq!(parse_each(Bytes::from_static(b"[1")).filter(Result::is_err).count(), 1);
    }

    #[test]
    fn an_element_ends_where_it_should_whatever_it_holds() {
        let deep = format!("[{}1{} , 2]", "[".repeat(1000), "]".repeat(1000));
        for text in [
            "[]",
            " [ ] ",
            "[[],[[]],{}]",
            r#"["]", "\"]", "\\", ",", "a\\\"]"]"#,
            "[ 1 ,\n-2.5e3\t, null , true ]\r\n",
            r#"[{"a":[1,{"b":"]}"}]},[","],"ü"]"#,
            &deep,
        ] {
            assert_eq!(cut(text).unwrap(), expected(text).unwrap(), "{text}");
        }
        for text in ["[", "[1", "[1,]", "[,1]", "[1 2]", "[1]]", "[1] x", "[\"\\x\"]", "[\u{1}]"] {
            assert_eq!(cut(text), None, "{text}");
        }
        assert!(parse_each(Bytes::from_static(b"[\"\xff\"]")).all(|parsed| parsed.is_err()));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            parse_each(Bytes::from(bytes)).count();
        }

        #[test]
        fn it_agrees_with_serde_json_on_anything_that_looks_like_an_array(
            pieces in proptest::collection::vec(
                proptest::sample::select(vec![
                    "{", "}", "[", "]", ",", ",", "\"", "\"a\":", "{\"b\":1}", "[\"c\"]", " ",
                    "\\", "\\u0041", "0", "12", "-", "true", "null", "ä", "\"]\"",
                    "long enough for words",
                ]),
                0..12,
            ),
        ) {
            let text = format!("[{}]", pieces.concat());
            let expected = expected(&text);
            prop_assert_eq!(cut(&text), expected.map(|all| all.iter().map(|&e| e.into()).collect()));
        }
    }
}
