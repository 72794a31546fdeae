//! Reads well-formed JSON that a tree cannot hold: half a surrogate pair, numbers beyond every float,
//! nesting without end. For looking at, never for sending on.

use serde_json::Value;

/// How deep a tree goes: the parser gives up at 128, and what is deeper is not looked at anyway.
const DEPTH: usize = 100;

/// The value of `json`. Half a surrogate pair becomes U+FFFD, a number that is too large a very large one,
/// and what lies too deep an ellipsis; what is no JSON at all becomes a text.
#[must_use]
pub fn lenient(json: &str) -> Value {
    let strict = serde_json::from_str(json);
    let mended = strict.or_else(|_| serde_json::from_str(&mended(json)));
    mended.unwrap_or_else(|_| Value::from(json))
}

/// The length of the string that `json` begins with, its quotes included.
#[must_use]
pub fn string_length(json: &str) -> usize {
    let mut is_escaped = false;
    for (at, letter) in json.bytes().enumerate().skip(1) {
        match letter {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    json.len()
}

fn mended(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut depth = 0_usize;
    let mut rest = json;
    while let Some(first) = rest.chars().next() {
        let is_shown = depth <= DEPTH;
        let length = match first {
            '"' => string_length(rest),
            '-' | '0'..='9' => number_length(rest),
            _ => first.len_utf8(),
        };
        let (part, behind) = rest.split_at(length);
        match first {
            '{' | '[' => {
                depth += 1;
                if is_shown {
                    out.push_str(if depth > DEPTH { "\"…\"" } else { part });
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                if is_shown {
                    out.push_str(part);
                }
            }
            _ if !is_shown => {}
            '"' => push_text(&mut out, part),
            '-' | '0'..='9' => push_number(&mut out, part),
            _ => out.push_str(part),
        }
        rest = behind;
    }
    out
}

fn number_length(json: &str) -> usize {
    let is_over = |letter: char| !matches!(letter, '-' | '+' | '.' | 'e' | 'E' | '0'..='9');
    json.find(is_over).unwrap_or(json.len())
}

fn push_number(out: &mut String, number: &str) {
    match number.parse::<f64>() {
        // Not the very largest: the parser rounds, and would be beyond it again.
        Ok(value) if value.is_infinite() => {
            out.push_str(if value > 0.0 { "1e308" } else { "-1e308" });
        }
        _ => out.push_str(number),
    }
}

fn push_text(out: &mut String, text: &str) {
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (plain, escape) = rest.split_at(at);
        out.push_str(plain);
        let length = match (unit(escape), unit(escape.get(6..).unwrap_or_default())) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => 12,
            (Some(0xd800..0xe000), _) => {
                out.push_str("\\ufffd");
                rest = escape.get(6..).unwrap_or_default();
                continue;
            }
            (Some(_), _) => 6,
            // A sign behind a backslash is one byte, but for texts that are no JSON.
            (None, _) => 1 + escape.chars().nth(1).map_or(0, char::len_utf8),
        };
        let (escape, behind) = escape.split_at(length);
        out.push_str(escape);
        rest = behind;
    }
    out.push_str(rest);
}

/// The UTF-16 unit that `text` begins with as an escape.
fn unit(text: &str) -> Option<u16> {
    u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_tree_cannot_hold_is_read_as_far_as_it_can_be() {
        assert_eq!(
            lenient(r#"{"a":"cut \ud83d","b":[1.0]}"#),
            json!({"a": "cut \u{fffd}", "b": [1.0]})
        );
        assert_eq!(
            lenient(r#"["\ud83d\ude00\ud83d\n\\ud83d\udc00"]"#),
            json!(["😀\u{fffd}\n\\ud83d\u{fffd}"])
        );
        assert_eq!(lenient("[1e999,-1e999,5]"), json!([1e308, -1e308, 5]));
        let deep = format!(r#"{{"x":{}1{},"isError":true}}"#, "[".repeat(300), "]".repeat(300));
        assert_eq!(lenient(&deep)["isError"], true);
        assert_eq!(lenient("{"), "{");
    }

    proptest! {
        #[test]
        fn no_text_is_too_much(text in "[\\[\\]{}\",: a\\\\uéd819e-]{0,60}") {
            let _ = lenient(&text);
        }

        #[test]
        fn whatever_a_parser_reads_is_the_same_after_mending(text in any::<String>(), number in any::<f64>()) {
            let json = json!({"a": [text, number, {"b": null}]}).to_string();
            prop_assert_eq!(mended(&json), json);
        }
    }
}
