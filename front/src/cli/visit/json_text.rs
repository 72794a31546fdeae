//! Lays JSON out over lines without changing any of its values.

use crate::limits;
use crate::message::string_length;

/// The same JSON, indented by two; numbers and texts stay as they are written.
pub(in crate::cli) fn pretty(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let mut rest = json.char_indices().peekable();
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.push_str(&"  ".repeat(depth.min(limits::INDENTS)));
    };
    while let Some((at, letter)) = rest.next() {
        match letter {
            ' ' | '\t' | '\r' | '\n' => {}
            '"' => {
                let end = string_length(&json[at..]);
                out.push_str(&json[at..at + end]);
                while rest.next_if(|(next, _)| *next < at + end).is_some() {}
            }
            '{' | '[' => {
                out.push(letter);
                while rest.next_if(|(_, next)| next.is_ascii_whitespace()).is_some() {}
                if let Some((_, close)) = rest.next_if(|(_, next)| matches!(next, '}' | ']')) {
                    out.push(close);
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(letter);
            }
            ',' => {
                out.push(',');
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_stay_as_they_are_written() {
        let json = r#" {"b":[1.0e5, 123456789012345678901234567890],"a" : {"x":"a, {b}: \"c\\"}, "e":{ },"l":[]} "#;
        let shown = "{\n  \"b\": [\n    1.0e5,\n    123456789012345678901234567890\n  ],\n  \"a\": {\n    \"x\": \"a, {b}: \\\"c\\\\\"\n  },\n  \"e\": {},\n  \"l\": []\n}";
        assert_eq!(pretty(json), shown);
    }

    #[test]
    fn nested_without_end_it_grows_by_its_length() {
        let deep = 100_000;
        let text = pretty(&("[".repeat(deep) + &"]".repeat(deep)));
        assert!(text.len() < 2 * deep * 100, "{}", text.len());
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
