//! Lays JSON out over lines without changing any of its values.

use std::io::{self, Write};

use mcp_span::lenient::string_length;
use mcp_span::limits;
use mcp_span::untrusted::Untrusted;

/// Writes the same JSON, indented by two, and ends the line; numbers stay as they are written, texts
/// as well but for escapes in place of what a terminal would act on. What lies deeper than
/// [`INDENTS`](limits::INDENTS) stays on its line.
///
/// Nothing is kept on the way: what is written may be many times as long as what is read.
pub(crate) fn pretty(json: &str, out: &mut dyn Write) -> io::Result<()> {
    let (mut depth, mut at) = (0_usize, 0);
    // What stands before the next value, where it is not on a line of its own.
    let mut before: Option<&str> = None;
    while let Some(letter) = json.as_bytes().get(at) {
        let token = token(&json[at..], *letter);
        at += token.len();
        if letter.is_ascii_whitespace() {
            continue;
        }
        let is_laid_out = depth <= limits::INDENTS;
        let is_close = matches!(letter, b'}' | b']');
        if is_close {
            depth = depth.saturating_sub(1);
        }
        // An empty list or object is closed on the line on which it begins.
        if before.is_some() != is_close {
            match is_laid_out {
                true => write!(out, "\n{:1$}", "", 2 * depth)?,
                false => out.write_all(before.unwrap_or_default().as_bytes())?,
            }
        }
        before = match letter {
            b'{' | b'[' => {
                depth = depth.saturating_add(1);
                Some("")
            }
            b',' => Some(" "),
            _ => None,
        };
        match token {
            ":" => out.write_all(b": ")?,
            // Nearly all of them.
            _ if token.bytes().all(|byte| (b' '..=b'~').contains(&byte)) => {
                out.write_all(token.as_bytes())?;
            }
            _ => out.write_all(Untrusted(token).json().as_bytes())?,
        }
    }
    out.write_all(b"\n")
}

/// The string, number, word or sign that `json` begins with.
fn token(json: &str, first: u8) -> &str {
    const ENDS: [char; 11] = ['"', ' ', '\t', '\r', '\n', '{', '[', '}', ']', ',', ':'];
    let length = match first {
        b'"' => string_length(json),
        _ if ENDS.contains(&char::from(first)) => 1,
        _ => json.find(ENDS).unwrap_or(json.len()),
    };
    &json[..length]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pretty(json: &str) -> String {
        let mut out = Vec::new();
        super::pretty(json, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        text.strip_suffix('\n').unwrap().to_owned()
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
