//! Lays JSON out over lines without changing any of its values.

use std::io::{self, Write};

use mcp_span::lenient::string_length;
use mcp_span::limits;
use mcp_span::untrusted::Untrusted;

/// Writes the same JSON, indented by two; numbers stay as they are written, texts as well but for
/// escapes in place of what a terminal would act on. What lies deeper than
/// [`INDENTS`](limits::INDENTS) stays on its line.
///
/// Nothing is kept on the way: what is written may be many times as long as what is read.
pub(crate) fn pretty(json: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut layout = Layout { out, depth: 0 };
    let mut at = 0;
    while let Some(letter) = json.as_bytes().get(at) {
        let from = at;
        at += match letter {
            b'"' => string_length(&json[at..]),
            b' ' | b'\t' | b'\r' | b'\n' | b'{' | b'[' | b'}' | b']' | b',' | b':' => 1,
            _ => json[at..].find(ENDS).unwrap_or(json.len() - at),
        };
        match letter {
            b' ' | b'\t' | b'\r' | b'\n' => {}
            b'{' | b'[' => {
                let rest = json[at..].trim_ascii_start();
                let close = rest.as_bytes().first().filter(|next| matches!(next, b'}' | b']'));
                match close {
                    Some(close) => {
                        layout.out.write_all(&[*letter, *close])?;
                        at = json.len() - rest.len() + 1;
                    }
                    None => layout.open(*letter)?,
                }
            }
            b'}' | b']' => layout.close(*letter)?,
            b',' => layout.comma()?,
            b':' => layout.out.write_all(b": ")?,
            _ => layout.token(&json[from..at])?,
        }
    }
    Ok(())
}

/// What ends a number or a word.
const ENDS: [char; 11] = ['"', ' ', '\t', '\r', '\n', '{', '[', '}', ']', ',', ':'];

struct Layout<'a> {
    out: &'a mut dyn Write,
    depth: usize,
}

impl Layout<'_> {
    fn open(&mut self, letter: u8) -> io::Result<()> {
        self.depth = self.depth.saturating_add(1);
        self.out.write_all(&[letter])?;
        self.line("")
    }

    fn close(&mut self, letter: u8) -> io::Result<()> {
        let is_shown = self.depth <= limits::INDENTS;
        self.depth = self.depth.saturating_sub(1);
        if is_shown {
            self.line("")?;
        }
        self.out.write_all(&[letter])
    }

    fn comma(&mut self) -> io::Result<()> {
        self.out.write_all(b",")?;
        self.line(" ")
    }

    /// Begins a line; `or` stands for it where all stays on one.
    fn line(&mut self, or: &str) -> io::Result<()> {
        match self.depth <= limits::INDENTS {
            true => write!(self.out, "\n{:1$}", "", 2 * self.depth),
            false => self.out.write_all(or.as_bytes()),
        }
    }

    fn token(&mut self, text: &str) -> io::Result<()> {
        // Nearly all of them.
        if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            return self.out.write_all(text.as_bytes());
        }
        self.out.write_all(Untrusted(text).json().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pretty(json: &str) -> String {
        let mut out = Vec::new();
        super::pretty(json, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_stay_as_they_are_written() {
        let json = r#" {"b":[1.0e5, 123456789012345678901234567890],"a" : {"x":"a, {b}: \"c\\"}, "e":{ },"l":[]} "#;
        let shown = "{\n  \"b\": [\n    1.0e5,\n    123456789012345678901234567890\n  ],\n  \"a\": {\n    \"x\": \"a, {b}: \\\"c\\\\\"\n  },\n  \"e\": {},\n  \"l\": []\n}";
        assert_eq!(pretty(json), shown);
    }

    #[test]
    fn nested_without_end_it_grows_by_its_length() {
        let deep = 100_000;
        let text = pretty(&("[".repeat(deep) + "1,2" + &"]".repeat(deep)));
        assert!(text.len() < 2 * deep + 2000, "{}", text.len());
        assert!(text.contains("[[[1, 2]]]") && text.ends_with("\n  ]\n]"), "{text}");
    }

    #[test]
    fn what_a_terminal_would_act_on_is_escaped() {
        assert_eq!(pretty("[\"a\u{9b}2J\u{202e}\"]"), "[\n  \"a\\u009b2J\\u202e\"\n]");
    }

    #[test]
    fn every_part_is_written_at_once_and_nothing_is_kept() {
        struct Small(usize);
        impl Write for Small {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0 += bytes.len();
                assert!(bytes.len() < 100, "{}", bytes.len());
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut out = Small(0);
        let json = format!("{}{}1{}", "[".repeat(10), "1,".repeat(1 << 20), "]".repeat(10));
        super::pretty(&json, &mut out).unwrap();
        assert!(out.0 > json.len());
    }

    #[test]
    fn eight_times_as_much_json_is_eight_times_the_work() {
        #[derive(Default)]
        struct Counted {
            writes: usize,
            bytes: usize,
        }
        impl Write for Counted {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.writes += 1;
                self.bytes += bytes.len();
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let work = |part: &str, times: usize| {
            let mut counted = Counted::default();
            super::pretty(&part.repeat(times), &mut counted).unwrap();
            counted
        };
        for part in ["[", "[ ", "{\"a\":", "1,", "\"\u{9b}\\\"\",", "[]", "{ }", "\"", "]"] {
            // Deeper than what is indented, so that both are laid out in the same way.
            let (few, many) = (work(part, 4_000), work(part, 32_000));
            assert!(many.writes <= 8 * few.writes + 8, "{part}: {}", many.writes);
            assert!(many.bytes <= 8 * few.bytes + 8, "{part}: {}", many.bytes);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_laid_out_without_a_panic(text in "[\\[\\]{}\",: a\\\\é]{0,40}") {
            let _ = pretty(&text);
        }

        #[test]
        fn strings_survive(text in any::<String>()) {
            let json = serde_json::json!({"a": [text]});
            let again: serde_json::Value = serde_json::from_str(&pretty(&json.to_string())).unwrap();
            prop_assert_eq!(again, json);
        }
    }
}
