//! Walks over JSON text quickly and builds nothing: where each value ends, if it is one.
//!
//! Every message is looked at here, and serde_json takes nearly twice as long for it. Both accept the
//! same texts; serde_json says what is wrong with the others.

use std::borrow::Cow;
use std::ops::Range;

use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// Deeper nesting is left to serde_json, which needs no recursion for it.
const DEEPEST: usize = 64;

/// The longest escape of a byte: `\u0041`.
const ESCAPE: usize = 6;

/// Strings of fewer words of eight bytes than this are short.
const SHORT: usize = 4;

/// A place in a JSON text.
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    /// The beginning of `text`.
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Shows each member of the object that `text` is: its name, as it is written between the
    /// quotes, and the text of its value. `None` if it is not an object.
    pub(super) fn object(text: &'a str, mut member: impl FnMut(&'a str, &'a str)) -> Option<()> {
        let mut scanner = Self::new(text);
        scanner.token(b'{')?;
        scanner.rest_until(b'}', |scanner| {
            let name = scanner.name()?;
            let name = scanner.text.get(name)?;
            member(name, scanner.passed(|scanner| scanner.value(0))?);
            Some(())
        })?;
        scanner.is_at_end().then_some(())
    }

    /// Passes the object that follows, and takes the text of each value to which one of `paths` leads.
    /// `level` is how many names lead to the object, and `leads_here` which paths begin with these.
    /// `None` as well if a name on a path occurs twice.
    pub(super) fn find<const N: usize>(
        &mut self,
        level: usize,
        paths: &[&[&str]; N],
        leads_here: [bool; N],
        found: &mut [Option<&'a str>; N],
    ) -> Option<()> {
        let mut seen = [false; N];
        self.token(b'{')?;
        self.rest_until(b'}', |scanner| {
            let name = scanner.name()?;
            let name = scanner.text.get(name)?;
            let (mut leads_on, mut enters) = ([false; N], false);
            for (at, path) in paths.iter().enumerate().filter(|(at, _)| leads_here[*at]) {
                leads_on[at] = path.get(level).is_some_and(|wanted| is_name(name, wanted));
                if leads_on[at] && std::mem::replace(&mut seen[at], true) {
                    return None;
                }
                enters |= leads_on[at] && path.len() > level + 1;
            }
            let text = scanner.passed(|scanner| match enters && scanner.peek() == Some(b'{') {
                true => scanner.find(level + 1, paths, leads_on, found),
                false => scanner.value(0),
            })?;
            for (at, path) in paths.iter().enumerate() {
                if leads_on[at] && path.len() == level + 1 {
                    found[at] = Some(text);
                }
            }
            Some(())
        })
    }

    /// The text of the element that follows in the rest of an array.
    pub(super) fn next_element(&mut self) -> Option<&'a str> {
        // Between two of them; what is not well-formed otherwise does not come here.
        let _ = self.token(b',');
        self.skip_space();
        self.passed(|scanner| scanner.value(0))
    }

    /// The name and the text of the member that follows in the rest of an object.
    pub(super) fn next_member(&mut self) -> Option<(&'a str, &'a str)> {
        let _ = self.token(b',');
        let name = self.name()?;
        Some((self.text.get(name)?, self.passed(|scanner| scanner.value(0))?))
    }

    /// Whether `text` is one value.
    pub(super) fn is_value(text: &'a str) -> bool {
        let mut scanner = Self::new(text);
        scanner.skip_space();
        scanner.value(0).is_some() && scanner.is_at_end()
    }

    /// Whether nothing but white space is left.
    pub(super) fn is_at_end(&mut self) -> bool {
        self.skip_space();
        self.at == self.text.len()
    }

    /// Passes what is left of an object or array behind its bracket, up to the one that closes it;
    /// `entry` passes each member or element.
    #[inline(always)]
    fn rest_until(
        &mut self,
        closing: u8,
        mut entry: impl FnMut(&mut Self) -> Option<()>,
    ) -> Option<()> {
        if self.token(closing).is_some() {
            return Some(());
        }
        loop {
            entry(self)?;
            self.skip_space();
            match self.next()? {
                b',' => {}
                last => return (last == closing).then_some(()),
            }
        }
    }

    /// The text that `pass` goes over.
    #[inline(always)]
    fn passed(&mut self, pass: impl FnOnce(&mut Self) -> Option<()>) -> Option<&'a str> {
        let from = self.at;
        pass(self)?;
        self.text.get(from..self.at)
    }

    /// Passes a name and its colon, and stops before the value.
    #[inline(always)]
    fn name(&mut self) -> Option<Range<usize>> {
        self.token(b'"')?;
        let from = self.at;
        self.string()?;
        let name = from..self.at - 1;
        self.token(b':')?;
        self.skip_space();
        Some(name)
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        match self.next()? {
            b'"' => self.string(),
            b'{' | b'[' if depth > DEEPEST => self.deep_value(),
            b'{' => self.rest_until(b'}', |scanner| {
                scanner.name()?;
                scanner.value(depth + 1)
            }),
            b'[' => self.rest_until(b']', |scanner| {
                scanner.skip_space();
                scanner.value(depth + 1)
            }),
            b'-' => match self.next()? {
                first @ b'0'..=b'9' => self.rest_of_number(first),
                _ => None,
            },
            first @ b'0'..=b'9' => self.rest_of_number(first),
            b't' => self.word("rue"),
            b'f' => self.word("alse"),
            b'n' => self.word("ull"),
            _ => None,
        }
    }

    /// Passes the object or array whose bracket was the last byte.
    #[cold]
    fn deep_value(&mut self) -> Option<()> {
        self.at -= 1;
        self.at += length_of_value(self.rest())?;
        Some(())
    }

    /// Passes what is left of a string, with its last quote.
    fn string(&mut self) -> Option<()> {
        // Most strings are short, and have nothing odd in them.
        for _ in 0..SHORT {
            let Some(word) = self.rest().first_chunk() else { break };
            let word = u64::from_le_bytes(*word);
            let end = first(special(word));
            if end < 8 {
                if (word >> (8 * end)) as u8 != b'"' {
                    break;
                }
                self.at += end + 1;
                return Some(());
            }
            self.at += 8;
        }
        self.rest_of_string()
    }

    #[inline(never)]
    fn rest_of_string(&mut self) -> Option<()> {
        loop {
            self.at += plain(self.rest());
            match self.next()? {
                b'"' => return Some(()),
                b'\\' => self.escape()?,
                _ => return None,
            }
        }
    }

    fn escape(&mut self) -> Option<()> {
        match self.next()? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(()),
            b'u' => {
                let digits = self.rest().first_chunk::<4>()?;
                self.at += digits.len();
                digits.iter().all(u8::is_ascii_hexdigit).then_some(())
            }
            _ => None,
        }
    }

    fn rest_of_number(&mut self, first: u8) -> Option<()> {
        if first != b'0' {
            let _ = self.digits();
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }

    /// Passes digits; `None` if there are none.
    fn digits(&mut self) -> Option<()> {
        let from = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        (self.at > from).then_some(())
    }

    fn word(&mut self, rest: &str) -> Option<()> {
        self.rest().starts_with(rest.as_bytes()).then(|| self.at += rest.len())
    }

    #[inline(always)]
    fn skip_space(&mut self) {
        // As a rule there is none.
        if self.peek().is_some_and(|byte| byte <= b' ') {
            self.pass_space();
        }
    }

    #[inline(never)]
    fn pass_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// Passes white space and then `wanted`, if that is what follows.
    #[inline(always)]
    fn token(&mut self, wanted: u8) -> Option<()> {
        if self.peek()? != wanted {
            self.skip_space();
            if self.peek()? != wanted {
                return None;
            }
        }
        self.at += 1;
        Some(())
    }

    #[inline(always)]
    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    #[inline(always)]
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    #[inline(always)]
    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }
}

/// Why `text` is no JSON, in serde_json's words.
pub(super) fn fault(text: &str) -> String {
    let fault = serde_json::from_str::<&RawValue>(text).err();
    fault.map_or_else(|| "it cannot be read".to_owned(), |fault| fault.to_string())
}

/// Whether a name that is written as `raw` between its quotes is `name`.
#[inline]
pub(super) fn is_name(raw: &str, name: &str) -> bool {
    if raw.len() <= name.len() {
        // With an escape in it, it would be longer than what it stands for.
        return raw == name && !name.contains('\\');
    }
    raw.len() <= ESCAPE * name.len() && raw.contains('\\') && decoded(raw).as_deref() == Some(name)
}

/// The text that a string stands for which is written as `raw` between its quotes; `None` if there is
/// no such text, as for half a surrogate pair.
pub(super) fn decoded(raw: &str) -> Option<Cow<'_, str>> {
    if raw.bytes().all(|byte| byte != b'\\') {
        return Some(Cow::Borrowed(raw));
    }
    serde_json::from_str(&format!("\"{raw}\"")).ok().map(Cow::Owned)
}

/// How many bytes the value takes that `bytes` begin with, however deeply it is nested.
pub(super) fn length_of_value(bytes: &[u8]) -> Option<usize> {
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    Some(values.byte_offset())
}

/// How many bytes at the beginning are neither quotes, backslashes nor control characters.
pub(super) fn plain(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let special = special(u64::from_le_bytes(*word));
        if special != 0 {
            return index * 8 + first(special);
        }
    }
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | ..b' ');
    words.len() * 8 + rest.iter().position(is_special).unwrap_or(rest.len())
}

/// Eight bytes at once: the top bit of each that is not plain. Only the lowest of them counts, as
/// the subtractions borrow from higher bytes.
#[inline(always)]
fn special(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word;
    let is = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    (below(word, b' ') | is(b'"') | is(b'\\')) & (ONES << 7)
}

/// Which of the eight bytes is the first of them; 8 if none is.
#[inline(always)]
fn first(special: u64) -> usize {
    special.trailing_zeros() as usize / 8
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The members of an object, as serde_json has them.
    fn expected(text: &str) -> Option<Vec<(String, String)>> {
        struct Members(Vec<(String, String)>);
        impl<'de> serde::Deserialize<'de> for Members {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                struct All;
                impl<'de> serde::de::Visitor<'de> for All {
                    type Value = Members;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("an object")
                    }
                    fn visit_map<A: serde::de::MapAccess<'de>>(
                        self,
                        mut map: A,
                    ) -> Result<Members, A::Error> {
                        let mut all = Vec::new();
                        while let Some((name, raw)) = map.next_entry::<&RawValue, &RawValue>()? {
                            let name = name.get();
                            all.push((name[1..name.len() - 1].into(), raw.get().into()));
                        }
                        Ok(Members(all))
                    }
                }
                from.deserialize_map(All)
            }
        }
        serde_json::from_str::<Members>(text).ok().map(|members| members.0)
    }

    fn scanned(text: &str) -> Option<Vec<(String, String)>> {
        let mut all = Vec::new();
        Scanner::object(text, |name, raw| all.push((name.to_owned(), raw.to_owned())))?;
        Some(all)
    }

    #[test]
    fn it_sees_what_serde_json_sees() {
        let long = format!("{{\"{}\":\"{}\\n{}\"}}", "n".repeat(50), "ü".repeat(99), "x".repeat(7));
        for text in [
            "{}",
            " { } ",
            r#"{"a":1,"b" : [ ] ,"c":{"d":[1,{"e":null}]}}"#,
            r#"{"n":-0.5e+10,"m":1E2,"z":0,"t":true,"f":false}"#,
            r#"{"s":"\"\\\/\b\f\n\r\t\u00e4\uD800","k\u0065y":"12345678\"2345678"}"#,
            &long,
        ] {
            assert_eq!(scanned(text), expected(text), "{text}");
            assert!(scanned(text).is_some(), "{text}");
        }
    }

    #[test]
    fn what_is_no_json_is_not_taken_for_it() {
        for text in [
            "",
            "[]",
            "{",
            "{}}",
            "{} x",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            r#"{,"a":1}"#,
            r#"{"a":01}"#,
            r#"{"a":1.}"#,
            r#"{"a":.5}"#,
            r#"{"a":-}"#,
            r#"{"a":1e}"#,
            r#"{"a":+1}"#,
            r#"{"a":tru}"#,
            r#"{"a":nulll}"#,
            r#"{"a":"\x"}"#,
            r#"{"a":"\u12g4"}"#,
            r#"{"a":"\u12"}"#,
            r#"{"a":"open}"#,
            r#"{"a":[1 2]}"#,
            r#"{"a":[1,]}"#,
            r#"{"a":{"b":1]}"#,
            "{\"a\":\"tab\tinside\"}",
            "{\"a\":\"12345678901234567890\n\"}",
            "{\u{feff}\"a\":1}",
            "{\"a\":\u{a0}1}",
        ] {
            assert_eq!(scanned(text), None, "{text}");
            assert_eq!(expected(text), None, "{text}");
        }
    }

    #[test]
    fn no_nesting_is_too_deep() {
        let nested = |depth, inside: &str| {
            format!(r#"{{"a":{}{inside}{},"b":1}}"#, "[".repeat(depth), "]".repeat(depth))
        };
        for depth in [DEEPEST - 1, DEEPEST, DEEPEST + 1, DEEPEST + 2, 100_000] {
            for inside in ["", "1", r#"1 , {"x":"]"}"#] {
                let text = nested(depth, inside);
                assert_eq!(scanned(&text), expected(&text), "{depth} {inside}");
                assert!(scanned(&text).is_some(), "{depth} {inside}");
            }
            for inside in ["]", "}", "1x", "1 2", "\u{1}"] {
                assert_eq!(scanned(&nested(depth, inside)), None, "{depth} {inside}");
            }
        }
    }

    #[test]
    fn names_are_compared_by_what_they_stand_for() {
        for (raw, name) in [
            ("a", "a"),
            ("", ""),
            (r"\u0061", "a"),
            (r"\/", "/"),
            (r"\\n", r"\n"),
            (r"\ud83d\ude00", "😀"),
            (r"\u00e4x", "äx"),
        ] {
            assert!(is_name(raw, name), "{raw} {name}");
        }
        for (raw, name) in [(r"\n", r"\n"), ("a", "b"), ("aa", "a"), (r"\ud800", "\u{fffd}")] {
            assert!(!is_name(raw, name), "{raw} {name}");
        }
    }

    #[test]
    fn every_byte_is_judged_at_every_place() {
        for byte in 0..=u8::MAX {
            for place in 0..20 {
                let mut bytes = [b'x'; 20];
                bytes[place] = byte;
                let is_plain = byte >= b' ' && byte != b'"' && byte != b'\\';
                assert_eq!(plain(&bytes), if is_plain { 20 } else { place }, "{byte} {place}");
            }
        }
    }

    proptest! {
        #[test]
        fn it_agrees_with_serde_json_on_anything_that_looks_like_json(
            pieces in proptest::collection::vec(
                proptest::sample::select(vec![
                    "{", "}", "[", "]", ",", ":", "\"", "\"a\":", "\"b\":1", "{\"c\":[]}", " ",
                    "\n", "\\", "\\u0041", "\\n", "0", "12", "-", ".", "e", "true", "null", "ä",
                    "long enough for words", "\u{1}",
                ]),
                0..16,
            ),
        ) {
            let text = format!("{{{}}}", pieces.concat());
            prop_assert_eq!(scanned(&text), expected(&text));
        }

        #[test]
        fn it_passes_whatever_serde_json_writes(value in value()) {
            let text = serde_json::json!({ "a": value, "b": [] }).to_string();
            prop_assert_eq!(scanned(&text), expected(&text));
            prop_assert!(scanned(&text).is_some());
        }
    }

    pub(in crate::message) fn value() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
                proptest::collection::btree_map(any::<String>(), inner, 0..5)
                    .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
            ]
        })
    }
}
