//! A text as those read it who look for secrets: letters of one case, escapes undone, without line
//! breaks and characters that are not seen.

use std::collections::VecDeque;

use super::automaton::Symbol;
use crate::untrusted;

/// The bytes of `text` as they stand there.
pub(super) fn plain(text: &str) -> impl Iterator<Item = Symbol> {
    let letters = text.char_indices().filter(|(_, letter)| !is_passed_over(*letter));
    letters.flat_map(|(at, letter)| {
        let place = at..at + letter.len_utf8();
        place.map(|at| (folded(text.as_bytes()[at]), at..at + 1))
    })
}

/// Whether somebody may have put it into a secret on the way: a long one is broken over lines, and
/// what is not seen may stand anywhere.
fn is_passed_over(letter: char) -> bool {
    match letter {
        '\n' | '\r' => true,
        ' '..='~' => false,
        _ => untrusted::is_hidden(letter),
    }
}

/// The bytes that are meant where `text` is JSON, even JSON in a string of JSON, or part of a URL.
///
/// Backslashes vanish, however many there are; what stands behind them counts, or the character
/// whose number it is. An escape that the end of the text has cut is left out.
pub(super) fn unescaped(text: &str) -> Unescaped<'_> {
    Unescaped { letters: text, text: text.as_bytes(), at: 0, ready: VecDeque::new() }
}

/// Whether [`unescaped`] differs from [`plain`] at all.
pub(super) fn has_escapes(text: &str) -> bool {
    memchr::memchr2(b'\\', b'%', text.as_bytes()).is_some()
}

/// Servers write tokens in capitals, and base64 in one of two alphabets.
fn folded(byte: u8) -> u8 {
    match byte {
        b'-' => b'+',
        b'_' => b'/',
        _ => byte.to_ascii_lowercase(),
    }
}

pub(super) struct Unescaped<'a> {
    letters: &'a str,
    /// The same as bytes.
    text: &'a [u8],
    at: usize,
    /// What is left of a character of several bytes.
    ready: VecDeque<Symbol>,
}

impl Iterator for Unescaped<'_> {
    type Item = Symbol;

    fn next(&mut self) -> Option<Symbol> {
        loop {
            if let Some(symbol) = self.ready.pop_front() {
                return Some(symbol);
            }
            let start = self.at;
            let byte = match self.text.get(start)? {
                b'\\' => match self.behind_backslashes()? {
                    Some(symbol) => return Some(symbol),
                    None => continue,
                },
                b'%' => self.percent()?,
                byte => {
                    self.at += 1;
                    *byte
                }
            };
            // Bytes of one letter follow one another: the first of them decides about all.
            let letter = if byte.is_ascii() {
                Some(char::from(byte))
            } else {
                self.letters.get(start..).and_then(|rest| rest.chars().next())
            };
            match letter.filter(|letter| is_passed_over(*letter)) {
                Some(letter) if !byte.is_ascii() => self.at = start + letter.len_utf8(),
                Some(_) => {}
                None => return Some((folded(byte), start..self.at)),
            }
        }
    }
}

impl Unescaped<'_> {
    /// What the backslashes here mean: nothing if it is a line break, or is not seen.
    fn behind_backslashes(&mut self) -> Option<Option<Symbol>> {
        let start = self.at;
        let run = self.text[start..].iter().take_while(|byte| **byte == b'\\').count();
        self.at += run;
        let byte = *self.text.get(self.at)?;
        self.at += 1;
        if byte == b'u' {
            let digits = self.text.get(self.at..self.at + 4);
            if digits.is_none() && self.text[self.at..].iter().all(u8::is_ascii_hexdigit) {
                self.at = self.text.len();
                return None;
            }
            if let Some(number) = digits.and_then(number) {
                self.at += 4;
                // Half a surrogate pair is a part of no secret that anybody has seen.
                let letter = char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER);
                if is_passed_over(letter) {
                    return Some(None);
                }
                let place = start..self.at;
                let mut buffer = [0; 4];
                let bytes = letter.encode_utf8(&mut buffer).bytes();
                self.ready.extend(bytes.map(|byte| (folded(byte), place.clone())));
                return Some(self.ready.pop_front());
            }
        }
        let is_break = matches!(byte, b'n' | b'r');
        Some((!is_break).then(|| (folded(byte), start..self.at)))
    }

    /// The byte that `%41` means, or `%2541`; a percent sign that means none is itself.
    fn percent(&mut self) -> Option<u8> {
        let text = &self.text[self.at + 1..];
        let pair = |at: usize| text.get(at..at + 2).and_then(number);
        let mut at = 0;
        while text[at..].starts_with(b"25") && pair(at + 2).is_some() {
            at += 2;
        }
        if let Some(byte) = pair(at).and_then(|number| u8::try_from(number).ok()) {
            self.at += 1 + at + 2;
            return Some(byte);
        }
        let is_cut = text.len() == 1 && text[0].is_ascii_hexdigit();
        self.at += if is_cut { 2 } else { 1 };
        (!is_cut).then_some(b'%')
    }
}

/// The number that these hexadecimal digits are.
fn number(digits: &[u8]) -> Option<u32> {
    // `from_str_radix` takes a sign, too.
    let is_number = digits.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_number)?;
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        let bytes: Vec<u8> = unescaped(text).map(|(byte, _)| byte).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    #[test]
    fn escapes_are_undone_and_letters_have_one_case() {
        for (text, expected) in [
            ("aB-_+/", "ab+/+/"),
            (r"a\/b\\\/c", "a/b/c"),
            (r"\u0041\\u0042\u00e4", "abä"),
            ("%41%2542%252543", "abc"),
            ("100% %zz %2525 %", "100% %zz % %"),
            ("a%4", "a"),
            (r"a\u00", "a"),
            (r"a\\\", "a"),
            (r"\u+041", "u+041"),
            ("a\r\nb\u{ad}c\u{200b}d", "abcd"),
            (r"a\r\nb\\nc\u000ad\u00ade%0D%0Af", "abcdef"),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn every_byte_knows_where_it_stands() {
        let places: Vec<_> = unescaped(r"a\\u00e4%2562").map(|(_, place)| place).collect();
        assert_eq!(places, [0..1, 1..8, 1..8, 8..13]);
    }
}
