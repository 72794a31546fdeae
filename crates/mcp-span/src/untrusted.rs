//! The one filter through which text of others reaches a terminal, a log or a page.
//!
//! A terminal acts on control characters; marks of direction and invisible characters make a text
//! look like another one. None of them passes.

use std::fmt::{self, Write};

/// A text that somebody else wrote: a server, a provider, a program. It is displayed as one line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Untrusted<'a>(pub &'a str);

impl Untrusted<'_> {
    /// The text as one line: a blank stands for every line break and tab.
    #[must_use]
    pub fn line(self) -> String {
        self.filtered(|out, letter| {
            if is_space(letter) {
                out.push(' ');
            }
        })
    }

    /// The text in its own lines.
    #[must_use]
    pub fn block(self) -> String {
        self.filtered(|out, letter| match letter {
            '\n' | '\t' => out.push(letter),
            // It only goes with a line feed, or back to where somebody else has written.
            '\r' => {}
            _ if is_space(letter) => out.push('\n'),
            _ => {}
        })
    }

    /// The beginning of the text as one line of at most `limit` characters.
    #[must_use]
    pub fn excerpt(self, limit: usize) -> String {
        let text = self.0.trim();
        // What is left out makes room for more, within reason: the text may be of any length.
        let room = text.floor_char_boundary(limit.saturating_mul(16));
        let mut line = Untrusted(&text[..room]).line();
        if let Some((end, _)) = line.char_indices().nth(limit) {
            line.truncate(end);
        }
        line
    }

    /// The same JSON on one line, in which strings have escapes in place of what must not pass. Its
    /// value does not change.
    #[must_use]
    pub fn json(self) -> String {
        self.filtered(|out, letter| match letter {
            // Valid JSON has these between its tokens only.
            '\t' | '\n' | '\r' => out.push(' '),
            _ => {
                let mut units = [0; 2];
                for unit in letter.encode_utf16(&mut units) {
                    // A text takes whatever is written to it.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        })
    }

    /// The text with what must not pass replaced.
    fn filtered(self, replace: impl Fn(&mut String, char)) -> String {
        let mut out = String::with_capacity(self.0.len());
        let mut letters = self.0.chars().peekable();
        let mut before = None;
        while let Some(letter) = letters.next() {
            match passes(before, letter, letters.peek().copied()) {
                true => out.push(letter),
                false => replace(&mut out, letter),
            }
            before = Some(letter);
        }
        out
    }
}

impl fmt::Display for Untrusted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.line())
    }
}

impl fmt::Debug for Untrusted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.line())
    }
}

/// Whether a character may be shown between these two.
fn passes(before: Option<char>, letter: char, behind: Option<char>) -> bool {
    let is_foreign = |letter: Option<char>| letter.is_some_and(|l| !l.is_ascii() && !is_hidden(l));
    match letter {
        ' '..='~' => true,
        // Scripts and emoji need them; between other letters they are not seen.
        '\u{200c}' | '\u{200d}' => is_foreign(before) && is_foreign(behind),
        '\u{fe00}'..='\u{fe0f}' => is_foreign(before),
        _ => !is_hidden(letter),
    }
}

/// What ends a line or a column.
fn is_space(letter: char) -> bool {
    matches!(letter, '\t'..='\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// What a terminal acts on, what changes the direction of others, and what is not seen at all.
pub(crate) fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'
                | '\u{200e}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOSTILE: &str = "a\u{1b}[2Jb\u{7}c\u{9b}1md\u{202e}e\u{2066}f\u{200b}g\u{7f}\u{e0041}h";

    #[test]
    fn nothing_passes_that_acts_turns_or_is_not_seen() {
        assert_eq!(Untrusted(HOSTILE).to_string(), "a[2Jbc1mdefgh");
        assert_eq!(Untrusted("a\r\nb\tc\u{2028}d\u{85}e").line(), "a  b c d e");
        assert_eq!(Untrusted("a\r\nb\tc\u{2028}d\u{85}e").block(), "a\nb\tc\nd\ne");
        assert_eq!(format!("{:>3}|{:?}", Untrusted("é\u{1b}"), Untrusted("\u{1b}")), "  é|\"\"");
    }

    #[test]
    fn scripts_and_emoji_are_shown_as_they_are() {
        for text in ["שלום", "می‌خواهم", "क्‍ष", "👩‍💻❤️‍🔥", "naïve — “quoted”", "日本語"]
        {
            assert_eq!(Untrusted(text).line(), text);
        }
        // A name must not look like another one.
        assert_eq!(Untrusted("get\u{200d}_w\u{fe0f}eather").line(), "get_weather");
    }

    #[test]
    fn json_keeps_its_value() {
        let json = serde_json::json!({"a\u{9b}": HOSTILE}).to_string();
        let shown = Untrusted(&json).json();
        assert!(shown.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{shown}");
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&shown), value(&json));
        assert_eq!(Untrusted("{\n\"a\":\r1}").json(), "{ \"a\": 1}");
    }

    #[test]
    fn an_excerpt_is_a_short_line_cut_between_characters() {
        assert_eq!(Untrusted(" a\r\nb\n").excerpt(500), "a  b");
        assert_eq!(Untrusted(&"ä".repeat(600)).excerpt(500), "ä".repeat(500));
        assert_eq!(Untrusted(&"\u{1b}".repeat(1 << 20)).excerpt(500), "");
    }

    proptest! {
        #[test]
        fn what_has_passed_passes_again(text in any::<String>()) {
            let line = Untrusted(&text).line();
            prop_assert_eq!(Untrusted(&line).line(), line.clone());
            prop_assert!(!line.contains(char::is_control));
            let block = Untrusted(&text).block();
            prop_assert_eq!(Untrusted(&block).block(), block);
        }
    }
}
