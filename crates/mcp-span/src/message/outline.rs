//! Finds id and shape of a message that is too long to be kept, while its bytes pass by.

use super::Id;
use crate::limits;

const ID: &[u8] = b"\"id\"";

/// What could be made out of a message that was not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// The id at its top level.
    pub id: Option<Id>,
    /// Whether it has a method, so that somebody waits for an answer.
    pub has_method: bool,
}

/// A scanner of the top level that is fed piece by piece and keeps only what it looks for.
#[derive(Debug, Default)]
pub struct Outliner {
    depth: usize,
    is_in_string: bool,
    /// The last byte was a backslash in a string.
    is_escaped: bool,
    /// The key or the id that is being read, with its quotes.
    text: Vec<u8>,
    /// The key whose value is being read; empty before a key.
    key: Vec<u8>,
    outline: Outline,
}

impl Outliner {
    /// Looks at the next piece.
    pub fn feed(&mut self, piece: &[u8]) {
        for byte in piece {
            self.step(*byte);
        }
    }

    /// What was found.
    #[must_use]
    pub fn finish(mut self) -> Outline {
        self.value_ended();
        self.outline
    }

    fn step(&mut self, byte: u8) {
        match byte {
            _ if std::mem::take(&mut self.is_escaped) => self.keep(byte),
            b'"' => {
                self.is_in_string = !self.is_in_string;
                self.keep(byte);
            }
            _ if self.is_in_string => {
                self.is_escaped = byte == b'\\';
                self.keep(byte);
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                if self.depth == 1 {
                    self.value_ended();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => self.key = std::mem::take(&mut self.text),
            b',' if self.depth == 1 => self.value_ended(),
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => self.keep(byte),
        }
    }

    fn value_ended(&mut self) {
        let text = std::mem::take(&mut self.text);
        match &std::mem::take(&mut self.key)[..] {
            ID => self.outline.id = std::str::from_utf8(&text).ok().and_then(Id::from_json),
            b"\"method\"" => self.outline.has_method = true,
            _ => {}
        }
    }

    /// Keeps a byte of a key at the top level, or of the id's value.
    fn keep(&mut self, byte: u8) {
        let is_wanted = self.key.is_empty() || self.key == ID;
        if self.depth == 1 && is_wanted && self.text.len() < limits::ID_LENGTH {
            self.text.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn outline(text: &str, size: usize) -> (Option<String>, bool) {
        let mut outliner = Outliner::default();
        for piece in text.as_bytes().chunks(size) {
            outliner.feed(piece);
        }
        let outline = outliner.finish();
        (outline.id.map(|id| id.as_json().to_owned()), outline.has_method)
    }

    #[test]
    fn the_top_level_id_is_found_wherever_it_stands() {
        // C34
        let texts = [
            r#"{"jsonrpc":"2.0","id":42,"method":"a","params":{"id":1}}"#,
            r#"{"method":"a","params":{"id":1,"x":[{"id":2}],"s":"\"id\":3,\\"},"id" : 42}"#,
            r#"{"params":["id",{"id":9}],"method":"a","id":42 }"#,
        ];
        for text in texts {
            for size in [1, 3, 1000] {
                assert_eq!(outline(text, size), (Some("42".into()), true), "{text}");
            }
        }
        let text = r#"{"id":"a\"b","result":{"method":"x"}}"#;
        assert_eq!(outline(text, 2), (Some(r#""a\"b""#.into()), false));
    }

    #[test]
    fn no_id_no_answer() {
        assert_eq!(outline(r#"{"method":"a","params":{"id":1}}"#, 4), (None, true));
        assert_eq!(outline("no json at all, id: 5", 4), (None, false));
        assert_eq!(outline(r#"[{"id":1,"method":"a"}]"#, 4).0, None);
    }

    proptest! {
        #[test]
        fn any_cut_finds_the_same(text in "[\\{\\}\\[\\]\"idmethod:,1 \\\\]{0,60}", size in 1usize..9) {
            prop_assert_eq!(outline(&text, size), outline(&text, 1000));
        }
    }
}
