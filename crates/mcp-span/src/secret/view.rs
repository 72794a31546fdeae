//! A text as those read it who look for secrets: letters of one case, escapes undone, without line
//! breaks and characters that are not seen.

use std::ops::Range;

use super::automaton::Symbol;
use crate::untrusted;

/// What stands at a place of a text.
enum Meaning {
    Letter(char),
    /// A part of a letter that is coded byte by byte.
    Byte(u8),
}

/// The text as it stands there.
pub(super) fn plain(text: &str) -> impl Iterator<Item = Symbol> {
    let letters = text.char_indices();
    letters.flat_map(|(at, letter)| symbols(Meaning::Letter(letter), at..at + letter.len_utf8()))
}

/// What is meant where `text` is JSON, even JSON in a string of JSON, or part of a URL.
///
/// Backslashes vanish, however many there are; what stands behind them counts, or the character
/// whose number it is. An escape that the end of the text has cut is left out.
pub(super) fn unescaped(text: &str) -> impl Iterator<Item = Symbol> {
    let mut at = 0;
    let meanings = std::iter::from_fn(move || {
        let rest = text.get(at..)?;
        let (meaning, length) = match rest.chars().next()? {
            '\\' => behind_backslashes(rest)?,
            '%' => percent(rest)?,
            letter => (Meaning::Letter(letter), letter.len_utf8()),
        };
        let place = at..at + length;
        at = place.end;
        Some((meaning, place))
    });
    meanings.flat_map(|(meaning, place)| symbols(meaning, place))
}

/// Whether [`unescaped`] differs from [`plain`] at all.
pub(super) fn has_escapes(text: &str) -> bool {
    memchr::memchr2(b'\\', b'%', text.as_bytes()).is_some()
}

/// The bytes of what stands at `place`; none if it is passed over.
fn symbols(meaning: Meaning, place: Range<usize>) -> impl Iterator<Item = Symbol> {
    let mut bytes = [0; 4];
    let count = match meaning {
        Meaning::Letter(letter) if is_passed_over(letter) => 0,
        Meaning::Letter(letter) => letter.encode_utf8(&mut bytes).len(),
        Meaning::Byte(byte) => {
            bytes[0] = byte;
            1
        }
    };
    bytes.into_iter().take(count).map(move |byte| (folded(byte), place.clone()))
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

/// Servers write tokens in capitals, and base64 in one of two alphabets.
fn folded(byte: u8) -> u8 {
    match byte {
        b'-' => b'+',
        b'_' => b'/',
        _ => byte.to_ascii_lowercase(),
    }
}

/// What the backslashes that `text` begins with mean, and the length of that.
fn behind_backslashes(text: &str) -> Option<(Meaning, usize)> {
    let behind = text.trim_start_matches('\\');
    let letter = behind.chars().next()?;
    let run = text.len() - behind.len();
    if let Some(digits) = behind.strip_prefix('u') {
        if let Some(number) = digits.get(..4).and_then(number) {
            // Half a surrogate pair is a part of no secret that anybody has seen.
            let letter = char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER);
            return Some((Meaning::Letter(letter), run + 5));
        }
        if digits.len() < 4 && is_number(digits) {
            return None;
        }
    }
    let meant = if matches!(letter, 'n' | 'r') { '\n' } else { letter };
    Some((Meaning::Letter(meant), run + letter.len_utf8()))
}

/// The byte that `%41` means, or `%2541`; a percent sign that means none is itself.
fn percent(text: &str) -> Option<(Meaning, usize)> {
    let pair = |digits: &str| u8::try_from(number(digits.get(..2)?)?).ok();
    let mut digits = &text[1..];
    while let Some(inner) = digits.strip_prefix("25").filter(|inner| pair(inner).is_some()) {
        digits = inner;
    }
    let length = text.len() - digits.len() + 2;
    match pair(digits) {
        Some(byte) if byte.is_ascii() => Some((Meaning::Letter(char::from(byte)), length)),
        Some(byte) => Some((Meaning::Byte(byte), length)),
        None if digits.len() == 1 && is_number(digits) => None,
        None => Some((Meaning::Letter('%'), 1)),
    }
}

/// The number that these hexadecimal digits are.
fn number(digits: &str) -> Option<u32> {
    // `from_str_radix` takes a sign, too.
    u32::from_str_radix(digits, 16).ok().filter(|_| is_number(digits))
}

fn is_number(digits: &str) -> bool {
    digits.bytes().all(|digit| digit.is_ascii_hexdigit())
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
