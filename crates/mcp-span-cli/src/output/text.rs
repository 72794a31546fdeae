//! Text of others and numbers, as they are shown: on one line, over several, in words.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use mcp_span::untrusted::Untrusted;

/// How many of something there are, in words.
pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// A number of bytes, for people.
pub(crate) fn size(bytes: u64) -> String {
    const KIB: u64 = 1024;
    let scaled = |unit: u64, name: &str| {
        let tenths = bytes.saturating_mul(10) / unit;
        format!("{}.{} {name}", tenths / 10, tenths % 10)
    };
    match bytes {
        1 => "1 byte".to_owned(),
        0..KIB => format!("{bytes} bytes"),
        KIB..0x10_0000 => scaled(KIB, "KiB"),
        _ => scaled(KIB * KIB, "MiB"),
    }
}

/// Words of others as one line, with one blank between two of them.
pub(crate) fn one_line(text: &str) -> String {
    Untrusted(text).line().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// How many columns of a terminal a text takes that may hold colours.
pub(super) fn width(text: &str) -> usize {
    anstream::adapter::strip_str(text).map(UnicodeWidthStr::width).sum()
}

/// Lines that take at most so many columns of a terminal, broken at blanks where there are any. A
/// word that is longer stays whole: it may be a URL that is copied.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.trim_end().split('\n') {
        let mut line = String::new();
        let mut length = 0;
        for word in paragraph.split_whitespace() {
            for (number, part) in parts(word).enumerate() {
                let blank = usize::from(number == 0);
                if length > 0 && length + blank + part.width() > width {
                    lines.push(std::mem::take(&mut line));
                    length = 0;
                } else if length > 0 && blank > 0 {
                    line.push(' ');
                    length += 1;
                }
                line.push_str(part);
                length += part.width();
            }
        }
        lines.push(line);
    }
    lines
}

/// A word in the parts between which a line may end: scripts whose characters take two columns have
/// no blanks between words.
fn parts(word: &str) -> impl Iterator<Item = &str> {
    let is_wide = |letter: char| letter.width() == Some(2);
    let mut rest = word;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end = if is_wide(first) { Some(first.len_utf8()) } else { rest.find(is_wide) };
        let (part, behind) = rest.split_at(end.unwrap_or(rest.len()));
        rest = behind;
        Some(part)
    })
}

/// The beginning of a line, as far as it fits.
pub(super) fn cut(line: &str, width: usize) -> String {
    let mut left = width;
    let fits = |letter: &char| {
        let rest = left.checked_sub(letter.width().unwrap_or_default());
        left = rest.unwrap_or_default();
        rest.is_some()
    };
    line.chars().take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_may_end_between_wide_characters() {
        let lines = wrap(&"長い説明".repeat(6), 21);
        assert_eq!(lines.iter().map(|line| line.width()).collect::<Vec<_>>(), [20, 20, 8]);
        assert_eq!(wrap("a word漢字 b", 6), ["a word", "漢字 b"]);
        assert_eq!(wrap("a word漢字 b", 8), ["a word漢", "字 b"]);
        let word = "https://example.com/a-path/that-is-copied";
        assert_eq!(wrap(word, 10), [word]);
        assert_eq!((cut("長い説明", 5), cut("short", 9)), ("長い".to_owned(), "short".to_owned()));
        assert_eq!(width("\u{1b}[1m長い\u{1b}[0m a"), 6);
    }

    #[test]
    fn words_of_others_stand_on_one_line_and_sizes_have_units() {
        assert_eq!(one_line(" a\u{7}\n b\tc "), "a b c");
        assert_eq!(size(1), "1 byte");
        assert_eq!(size(900), "900 bytes");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(3 * 1024 * 1024), "3.0 MiB");
    }
}
