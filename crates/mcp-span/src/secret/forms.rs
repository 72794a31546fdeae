//! The forms in which a secret may stand in a text: whole, in parts, encoded, cut to a beginning.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

use super::automaton::Pattern;
use super::{SEPARATORS, Secret, view};

/// Values shorter than this are not hunted for: they would riddle every text.
pub(super) const SHORTEST: usize = 6;

/// So much of the beginning of a token counts as the token. Servers that mean to be careful log its
/// first 4 to 8 characters, which tell tokens apart and give little away; those that cut a line show
/// whatever fits. Below 12, words that a token happens to begin with would vanish from texts.
const BEGINNING: usize = 12;

/// Of longer secrets the encoded forms are looked for by their beginning; what follows is hidden as
/// far as it can be part of them.
const ENCODED: usize = 48;

/// Words that stand in credentials without being any.
const COMMON: [&str; 6] = ["bearer", "digest", "session", "negotiate", "application", "basic"];

/// The value itself, then what stands in it between blanks, quotes, equal signs and their like,
/// since servers repeat parts of it; of `Basic` credentials also what they are made of.
pub(super) fn parts(secret: &Secret) -> Vec<Secret> {
    let value = secret.reveal();
    let opened = opened(value).unwrap_or_default();
    let pieces = [value, &opened].into_iter();
    let all = pieces.flat_map(|piece| std::iter::once(piece).chain(piece.split(SEPARATORS)));
    all.filter(|part| is_worth_hiding(part)).map(Secret::new).collect()
}

fn is_worth_hiding(part: &str) -> bool {
    part.len() >= SHORTEST && !COMMON.iter().any(|word| part.eq_ignore_ascii_case(word))
}

/// User and password of `Basic` credentials.
fn opened(value: &str) -> Option<String> {
    let (scheme, coded) = value.split_once(' ')?;
    let bytes =
        scheme.eq_ignore_ascii_case("basic").then(|| STANDARD.decode(coded.trim()))?.ok()?;
    String::from_utf8(bytes).ok()
}

/// What to look for, if `part` is to be found only as it is written.
pub(super) fn as_written(part: &Secret) -> Vec<Pattern> {
    let text = part.reveal();
    let whole = |bytes: Vec<u8>| {
        let length = bytes.len();
        let enough = if is_token(text) { BEGINNING.min(length) } else { length };
        Pattern { bytes, enough, goes_on: false }
    };
    let plain: Vec<u8> = view::plain(text).map(|(byte, _)| byte).collect();
    let mut patterns = Vec::new();
    if view::has_escapes(text) {
        let unescaped: Vec<u8> = view::unescaped(text).map(|(byte, _)| byte).collect();
        // A secret of nothing but backslashes is left.
        patterns.extend((unescaped.len() >= SHORTEST).then(|| whole(unescaped)));
    }
    patterns.push(whole(plain));
    patterns
}

/// What to look for, if it is to be found in base64 and as hexadecimal numbers as well.
pub(super) fn encoded(part: &Secret) -> Vec<Pattern> {
    let mut patterns = as_written(part);
    // What has parts is found by them.
    if part.reveal().split(SEPARATORS).filter(|piece| is_worth_hiding(piece)).count() > 1 {
        return patterns;
    }
    let value = part.reveal().as_bytes();
    let start = &value[..value.len().min(ENCODED)];
    let texts = (0..3).map(|offset| base64_inside(start, offset)).chain([hexadecimal(start)]);
    patterns.extend(texts.map(|text| {
        let bytes: Vec<u8> = view::plain(&text).map(|(byte, _)| byte).collect();
        // As much as the beginning of a token has in this form.
        let shown = bytes.len() * BEGINNING / start.len().max(BEGINNING);
        let enough = if is_token(part.reveal()) { shown } else { bytes.len() };
        Pattern { bytes, enough, goes_on: true }
    }));
    patterns
}

/// What is certain of the base64 of a text that has `value` behind `offset` bytes (modulo 3).
fn base64_inside(value: &[u8], offset: usize) -> String {
    let text = STANDARD_NO_PAD.encode([&[0; 2][..offset], value].concat());
    // Six bits make a character: those that hold bits of a neighbour are left out.
    let first = (offset * 8).div_ceil(6);
    let end = (offset + value.len()) * 8 / 6;
    text.get(first..end).unwrap_or_default().to_owned()
}

fn hexadecimal(value: &[u8]) -> String {
    value.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a text looks like a token. The beginning of anything else (a word, an address, a media
/// type) stands in harmless texts as well.
fn is_token(text: &str) -> bool {
    let is_part = |b: u8| b.is_ascii_alphanumeric() || b"-._~+/%!$*".contains(&b);
    text.len() > BEGINNING
        && text.bytes().all(is_part)
        && text.bytes().any(|b| b.is_ascii_digit())
        && text.bytes().any(|b| b.is_ascii_alphabetic())
        && !text.contains("//")
}
