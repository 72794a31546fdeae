//! Reads single values out of JSON text, by the path that leads to them.
//!
//! The one rule for names that occur twice: where a name on a path does so in one object, nothing is
//! found. Peers differ in which of the two they take, and a guess could be another one than theirs.

use std::borrow::Cow;

use super::Message;
use super::scan::{Scanner, decoded};

/// The text of one value, known to be well-formed.
///
/// It has no `Debug`: payloads may hold secrets.
#[derive(Clone, Copy)]
pub struct Json<'a>(&'a str);

/// The value to which `path` leads from the object `json`; see [`Json::get`].
#[must_use]
pub fn get<'a>(json: &'a str, path: &[&str]) -> Option<Json<'a>> {
    Json(json).get(path)
}

impl Message {
    /// The whole message.
    #[must_use]
    pub fn json(&self) -> Option<Json<'_>> {
        // Well-formed, or it would not be a message.
        str::from_utf8(self.bytes()).ok().map(Json)
    }

    /// The value to which `path` leads; see [`Json::get`].
    #[must_use]
    pub fn get(&self, path: &[&str]) -> Option<Json<'_>> {
        self.json()?.get(path)
    }

    /// The values to which `paths` lead; see [`Json::get_all`].
    #[must_use]
    pub fn get_all<const N: usize>(&self, paths: [&[&str]; N]) -> Option<[Option<Json<'_>>; N]> {
        self.json()?.get_all(paths)
    }
}

impl<'a> Json<'a> {
    /// The value that `text` is, without white space around it; `None` if it is none.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        Scanner::is_value(text).then(|| Self(text.trim_ascii()))
    }

    /// The value to which `path` leads from the object that this is.
    #[must_use]
    pub fn get(self, path: &[&str]) -> Option<Self> {
        let [found] = self.get_all([path])?;
        found
    }

    /// The values to which `paths` lead from the object that this is, in one walk over all of it; an
    /// empty path leads nowhere. `None` if it is no object, or if a name on a path occurs twice.
    #[must_use]
    pub fn get_all<const N: usize>(self, paths: [&[&str]; N]) -> Option<[Option<Self>; N]> {
        let mut found = [None; N];
        let mut scanner = Scanner::new(self.0);
        scanner.find(0, &paths, [true; N], &mut found)?;
        scanner.is_at_end().then(|| found.map(|text| text.map(Self)))
    }

    /// The text as it is written.
    #[must_use]
    pub fn as_str(self) -> &'a str {
        self.0
    }

    /// What a string stands for; `None` if it is none, or has half a surrogate pair in it.
    #[must_use]
    pub fn text(self) -> Option<Cow<'a, str>> {
        decoded(self.0.strip_prefix('"')?.strip_suffix('"')?)
    }

    /// The same as an own text.
    #[must_use]
    pub fn to_text(self) -> Option<String> {
        self.text().map(Cow::into_owned)
    }

    /// The number, if it is written as an integer that is not too large.
    #[must_use]
    pub fn integer(self) -> Option<i64> {
        serde_json::from_str(self.0).ok()
    }

    /// Whether it is `true`.
    #[must_use]
    pub fn is_true(self) -> bool {
        self.0 == "true"
    }

    /// Whether it is `null`.
    #[must_use]
    pub fn is_null(self) -> bool {
        self.0 == "null"
    }

    /// Whether it is an object.
    #[must_use]
    pub fn is_object(self) -> bool {
        self.0.starts_with('{')
    }

    /// The elements of an array; `None` if it is none.
    #[must_use]
    pub fn elements(self) -> Option<impl Iterator<Item = Self>> {
        let mut scanner = Scanner::new(self.0.strip_prefix('[')?);
        Some(std::iter::from_fn(move || scanner.next_element().map(Self)))
    }

    /// The names and values of an object's members, in their order; `None` if it is none. Names that
    /// stand for no text are left out.
    #[must_use]
    pub fn members(self) -> Option<impl Iterator<Item = (Cow<'a, str>, Self)>> {
        let mut scanner = Scanner::new(self.0.strip_prefix('{')?);
        let members = std::iter::from_fn(move || scanner.next_member());
        Some(members.filter_map(|(name, text)| Some((decoded(name)?, Self(text)))))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::super::scan::tests::value;
    use super::*;

    fn found<'a>(json: &'a str, path: &[&str]) -> Option<&'a str> {
        get(json, path).map(Json::as_str)
    }

    /// What serde_json finds.
    fn expected<'a>(json: &'a Value, path: &[&str]) -> Option<&'a Value> {
        let find = |value: &'a Value, name: &&str| value.as_object()?.get(*name);
        path.iter().try_fold(json, find).filter(|_| !path.is_empty())
    }

    /// The path to some value inside, by the numbers of the members on the way.
    fn path_in<'a>(json: &'a Value, steps: &[usize]) -> Vec<&'a str> {
        let (mut path, mut value) = (Vec::new(), json);
        for step in steps {
            let Some(object) = value.as_object().filter(|object| !object.is_empty()) else { break };
            let (name, inside) = object.iter().nth(step % object.len()).unwrap();
            path.push(name.as_str());
            value = inside;
        }
        path
    }

    #[test]
    fn a_path_leads_to_the_text_of_a_value() {
        let text = r#" { "a" : {"c":"b"} , "b":{ "x":[{"c":0}], "c" : "\"1" } , "c":2} "#;
        assert_eq!(found(text, &["b", "c"]), Some(r#""\"1""#));
        assert_eq!(found(text, &["a"]), Some(r#"{"c":"b"}"#));
        assert_eq!(found(text, &["c"]), Some("2"));
        for nowhere in [&["d"][..], &["a", "b"], &["c", "a"], &["b", "x", "c"], &[]] {
            assert_eq!(found(text, nowhere), None, "{nowhere:?}");
        }
    }

    #[test]
    fn several_paths_are_followed_at_once() {
        let json = Json(r#"{"a":{"b":1,"c":{"d":2}},"e":3}"#);
        let paths: [&[&str]; 5] = [&["a", "b"], &["a", "c", "d"], &["a", "c"], &["e"], &["e", "f"]];
        let found = json.get_all(paths).unwrap().map(|json| json.map(Json::as_str));
        assert_eq!(found, [Some("1"), Some("2"), Some(r#"{"d":2}"#), Some("3"), None]);
    }

    #[test]
    fn what_is_there_twice_is_not_found_and_other_names_do_not_matter() {
        let text = r#"{"a":{"b":1,"x":1,"x":2},"y":3,"y":4}"#;
        assert_eq!(found(text, &["a", "b"]), Some("1"));
        for twice in [
            r#"{"a":{"b":1,"b":1}}"#,
            r#"{"a":{"b":1,"\u0062":1}}"#,
            r#"{"a":{"b":1},"a":{}}"#,
            r#"{"a":5,"a":{"b":1}}"#,
        ] {
            assert_eq!(found(twice, &["a", "b"]), None, "{twice}");
            assert!(Json(twice).get_all([&["a", "b"]]).is_none(), "{twice}");
        }
    }

    #[test]
    fn values_are_what_they_are_written_as() {
        let json = |text| Json(text);
        assert_eq!(json(r#""a\u00e4\n""#).text().as_deref(), Some("aä\n"));
        for none in ["5", "null", r#""\ud800""#, r#"["a"]"#] {
            assert_eq!(json(none).text(), None, "{none}");
        }
        assert_eq!(json("-32601").integer(), Some(-32601));
        for none in ["1.0", "1e3", "99999999999999999999", "\"1\"", "null"] {
            assert_eq!(json(none).integer(), None, "{none}");
        }
        assert!(json("true").is_true() && !json("\"true\"").is_true());
        assert_eq!(Json::parse(" [ 1] ").map(Json::as_str), Some("[ 1]"));
        assert!(Json::parse("[1").is_none() && Json::parse("1 2").is_none());
    }

    #[test]
    fn parts_come_one_after_the_other() {
        let elements = |text| Some(Json(text).elements()?.map(Json::as_str).collect::<Vec<_>>());
        assert_eq!(elements(r#"[ 1 ,"]", [2,3],{} ]"#), Some(vec!["1", "\"]\"", "[2,3]", "{}"]));
        assert_eq!(elements("[ ]"), Some(vec![]));
        assert_eq!(elements("{}"), None);
        let members = |text| {
            let all = Json(text).members()?.map(|(name, json)| (name.into_owned(), json.0));
            Some(all.collect::<Vec<_>>())
        };
        let text = r#"{ "a" : 1 ,"\ud800":0, "a":{"b":2},"\u00e4":[] }"#;
        let all = [("a", "1"), ("a", r#"{"b":2}"#), ("ä", "[]")];
        assert_eq!(members(text), Some(all.map(|(name, text)| (name.to_owned(), text)).to_vec()));
        assert_eq!(members("{ }"), Some(vec![]));
        assert_eq!(members("[]"), None);
    }

    proptest! {
        #[test]
        fn it_finds_what_serde_json_finds(
            json in value(),
            steps in proptest::collection::vec(0_usize..8, 0..6),
            other in proptest::collection::vec("[a-c]{0,2}", 0..3),
        ) {
            let texts = [json.to_string(), serde_json::to_string_pretty(&json).unwrap()];
            // Read again, since serde_json rounds numbers.
            let json: Value = serde_json::from_str(&texts[0]).unwrap();
            let mut beyond = path_in(&json, &steps);
            let path = beyond.clone();
            beyond.extend(other.iter().map(String::as_str));
            for (text, path) in texts.iter().flat_map(|text| [(text, &path), (text, &beyond)]) {
                let found = get(text, path);
                let read = found.map(|found| serde_json::from_str::<Value>(found.as_str()).unwrap());
                let expected = expected(&json, path);
                prop_assert_eq!(read.as_ref(), expected);
                let Some((found, expected)) = found.zip(expected) else { continue };
                prop_assert_eq!(found.to_text(), expected.as_str().map(str::to_owned));
                prop_assert_eq!(found.integer(), expected.as_i64());
                prop_assert_eq!(found.is_true(), expected == &Value::Bool(true));
                let elements = found.elements().map(Iterator::count);
                prop_assert_eq!(elements, expected.as_array().map(Vec::len));
                let members = found.members().map(Iterator::count);
                prop_assert_eq!(members, expected.as_object().map(serde_json::Map::len));
            }
        }

        #[test]
        fn what_is_cut_off_leads_nowhere(json in value(), steps in proptest::collection::vec(0_usize..8, 0..4), cut in any::<usize>()) {
            let text = json.to_string();
            let path = path_in(&json, &steps);
            let cut = cut % text.len();
            let text = str::from_utf8(&text.as_bytes()[..cut]);
            prop_assert!(text.is_err() || get(text.unwrap(), &path).is_none());
        }

        #[test]
        fn no_bytes_make_it_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
            text in "[\\[\\]{}\",: a\\\\u0061e1-]{0,60}",
        ) {
            for bytes in [&bytes[..], text.as_bytes(), &[b"{\"a\":", text.as_bytes(), b"}"].concat()] {
                let text = String::from_utf8_lossy(bytes);
                let _ = Json(&text).get_all([&["a"], &["a", "a"]]);
            }
            let _ = Json::parse(&text);
            // Nor what nobody has checked before.
            let _ = Json(&text).elements().map(Iterator::count);
            let _ = Json(&text).members().map(Iterator::count);
            let _ = (Json(&text).text(), Json(&text).integer());
        }
    }
}
