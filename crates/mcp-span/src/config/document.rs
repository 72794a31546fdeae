//! JSON with comments and trailing commas, as a tree in which every value knows its place.

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::place::{ConfigError, FilePlace, Places};

/// A value, and where it begins.
#[derive(Clone)]
pub struct Node {
    /// Where it begins.
    pub place: FilePlace,
    /// The value.
    pub value: Value,
}

/// A value.
#[derive(Clone)]
pub enum Value {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as it is written.
    Number(String),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// An object, in the order of the file; a key may stand in it more than once.
    Object(Vec<Member>),
}

/// A member of an object.
#[derive(Clone)]
pub struct Member {
    /// Its key.
    pub key: String,
    /// Where the key stands.
    pub place: FilePlace,
    /// Its value.
    pub value: Node,
}

impl Node {
    /// The members, of an object.
    #[must_use]
    pub fn members(&self) -> Option<&[Member]> {
        match &self.value {
            Value::Object(members) => Some(members),
            _ => None,
        }
    }

    /// Reads `text`, which a byte order mark may precede.
    ///
    /// # Errors
    ///
    /// The first place at which it is not JSON.
    pub fn read(file: &str, text: &str) -> Result<Self, ConfigError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let places = Places::new(file, text);
        let fault = |at: usize, message: String| {
            let place = places.of(text, at);
            ConfigError { place, server: None, key: None, message, is_off: false }
        };
        let parsed =
            parse_to_ast(text, &CollectOptions::default(), &strict()).map_err(|error| {
                // Only what the scanner expects, nothing of the text itself.
                let why = lower(&error.kind().to_string());
                fault(error.range().start, format!("this is not JSON: {why}"))
            })?;
        let root = parsed.value.ok_or_else(|| fault(0, "there is nothing in it".to_owned()))?;
        Ok(Tree { text, places: &places }.node(root))
    }
}

/// Comments and trailing commas are what editors write; the rest is JSON as it should be.
pub fn strict() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

/// A message as it goes on in the middle of another.
pub fn lower(message: &str) -> String {
    let mut letters = message.chars();
    let first = letters.next().map(|letter| letter.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

struct Tree<'a> {
    text: &'a str,
    places: &'a Places,
}

impl Tree<'_> {
    /// The parser has bounded the depth.
    fn node(&self, value: ast::Value<'_>) -> Node {
        let place = self.places.of(self.text, value.start());
        let value = match value {
            ast::Value::NullKeyword(_) => Value::Null,
            ast::Value::BooleanLit(literal) => Value::Bool(literal.value),
            ast::Value::NumberLit(literal) => Value::Number(literal.value.to_owned()),
            ast::Value::StringLit(literal) => Value::Text(literal.value.into_owned()),
            ast::Value::Array(array) => {
                Value::List(array.elements.into_iter().map(|value| self.node(value)).collect())
            }
            ast::Value::Object(object) => {
                Value::Object(object.properties.into_iter().map(|p| self.member(p)).collect())
            }
        };
        Node { place, value }
    }

    fn member(&self, property: ast::ObjectProp<'_>) -> Member {
        Member {
            place: self.places.of(self.text, property.name.start()),
            key: property.name.into_string(),
            value: self.node(property.value),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn comments_trailing_commas_and_a_byte_order_mark_are_read_over() {
        let text =
            "\u{feff}// mine\n{ /* a */ \"a\": [1, true, null, \"\\u00e4\",], \"a\": {},\n}\n";
        let node = Node::read("f", text).unwrap();
        let members = node.members().unwrap();
        assert_eq!(members.iter().map(|m| &*m.key).collect::<Vec<_>>(), ["a", "a"]);
        assert_eq!((members[0].place.line, members[0].place.column), (2, 11));
        let Value::List(list) = &members[0].value.value else { panic!() };
        assert!(matches!(&list[0].value, Value::Number(n) if n == "1"));
        assert!(matches!(&list[3].value, Value::Text(t) if t == "ä"));
    }

    #[test]
    fn what_is_not_json_is_said_with_its_place() {
        for (text, line, column) in [
            ("{\n  \"a\": 1,,\n}", 2, 10),
            ("", 1, 1),
            ("{\"a\": 1 \"b\": 2}", 1, 8),
            ("{\n a: 1}", 2, 2),
            ("{\n'a': 1}", 2, 1),
            ("[1] [2]", 1, 5),
            ("[\n\n  tru]", 3, 3),
            ("{ \"a\": \"\\ud800\" }", 1, 9),
        ] {
            let fault = Node::read("f", text).err().unwrap();
            assert_eq!((fault.place.line, fault.place.column), (line, column), "{text}: {fault}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        assert!(Node::read("f", &"[".repeat(100_000)).is_err());
        assert!(Node::read("f", &"{\"a\":".repeat(100_000)).is_err());
    }

    fn odd() -> impl Strategy<Value = String> {
        let pieces = prop_oneof![
            prop::sample::select(vec![
                "{", "}", "[", "]", ",", ":", "\"a\"", "\"", "\\", "\\u", "\\ud83d", "dead", "//",
                "/*", "*/", "\n", "\r", "1", "-", ".", "e", "true", "nul", "\u{feff}", "ä", "😀",
            ])
            .prop_map(str::to_owned),
            "\\PC{0,4}",
        ];
        prop::collection::vec(pieces, 0..24).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in odd()) {
            if let Err(fault) = Node::read("f", &text) {
                prop_assert!(fault.place.line <= text.matches('\n').count() + 1);
            }
        }

        #[test]
        fn what_json_takes_is_taken(lines in 0usize..20, text in "\\PC{0,8}") {
            let json = format!("{}{}", "\n".repeat(lines), serde_json::json!({"a": [text, 1.5e3]}));
            let node = Node::read("f", &json).unwrap();
            let member = &node.members().unwrap()[0];
            prop_assert_eq!(member.place.line, lines + 1);
            let Value::List(list) = &member.value.value else { panic!() };
            prop_assert!(matches!(&list[0].value, Value::Text(read) if *read == text));
        }
    }
}
