//! `x-mcp-header`: which arguments of a tool are repeated in HTTP headers, and how they look there.

use std::collections::HashSet;

use http::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

use crate::limits;
use crate::message::{Json, Members, Message};
use crate::wire::header;

/// The member of a schema that asks for a header.
pub(super) const ANNOTATION: &str = "x-mcp-header";

/// What stands before the annotation's own name.
const PREFIX: &str = "mcp-param-";

/// One argument that is repeated in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirrored {
    /// The names of the properties that lead to it.
    path: Box<[String]>,
    /// The header.
    header: HeaderName,
}

/// The arguments that a tool with this input schema wants to have repeated.
///
/// # Errors
///
/// When an annotation is one that the protocol forbids: which one, and why. The tool cannot be offered
/// over HTTP.
pub fn mirrored(schema: &Value) -> Result<Vec<Mirrored>, String> {
    let mut walk = Walk::default();
    walk.visit(schema, true)?;
    Ok(walk.found)
}

/// The headers that `call` gets. Arguments that are absent or `null` have none.
#[must_use]
pub fn headers(mirrored: &[Mirrored], call: &Message) -> Vec<(HeaderName, HeaderValue)> {
    // Of an argument that is there twice the last one counts, as servers compare it with theirs.
    let arguments = call.get(&["params", "arguments"]).map(Json::as_str);
    let arguments = arguments.and_then(Members::of).unwrap_or_default();
    let pairs = mirrored.iter().filter_map(|argument| {
        let text = text_of(&arguments, &argument.path)?;
        Some((argument.header.clone(), header::encode(&text)))
    });
    pairs.collect()
}

/// The text of the argument at `path`, if it is one that a header can hold.
fn text_of(arguments: &Members<'_>, path: &[String]) -> Option<String> {
    let (name, rest) = path.split_first()?;
    let raw = arguments.get(name)?;
    if !rest.is_empty() {
        return text_of(&Members::of(raw)?, rest);
    }
    match raw.as_bytes().first()? {
        b'"' => serde_json::from_str(raw).ok(),
        b't' | b'f' => Some(raw.to_owned()),
        b'-' | b'0'..=b'9' => Some(decimal(raw)),
        _ => None,
    }
}

/// A JSON number as a header has it: an integer in plain digits, however large, and whatever way it
/// was written. What is no integer stays as it is; the server has its own opinion about it.
fn decimal(raw: &str) -> String {
    plain_digits(raw).unwrap_or_else(|| raw.to_owned())
}

fn plain_digits(raw: &str) -> Option<String> {
    let (mantissa, exponent) = raw.split_once(['e', 'E']).unwrap_or((raw, "0"));
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    // Where the point stands in the digits, or behind them.
    let point = i64::try_from(whole.len()).ok()?.checked_add(exponent.parse().ok()?)?;
    let point = usize::try_from(point.max(0)).ok()?;
    let digits = whole.to_owned() + fraction;
    let missing = point.saturating_sub(digits.len());
    let digits = (missing <= limits::INTEGER_ZEROS).then(|| digits + &"0".repeat(missing))?;
    let (kept, zeros) = digits.split_at_checked(point)?;
    match kept.trim_start_matches('0') {
        _ if zeros.contains(|digit| digit != '0') => None,
        "" => Some("0".to_owned()),
        digits => Some(format!("{sign}{digits}")),
    }
}

/// The keywords of JSON Schema that hold a schema, or a list of them. An annotation below one of
/// these or the next ones is about a value that nobody can name beforehand. All others but
/// `properties` hold data, in which anything may stand.
const PLAIN: [&str; 16] = [
    "items",
    "contains",
    "additionalItems",
    "unevaluatedItems",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
    "contentSchema",
    "allOf",
    "anyOf",
    "oneOf",
    "prefixItems",
];

/// Those that hold them by name.
const NAMED: [&str; 5] =
    ["patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"];

/// A walk over all schemas in a schema. It follows no reference, so it ends where the text ends; how
/// deep that may be, the parser has decided.
#[derive(Default)]
struct Walk {
    path: Vec<String>,
    found: Vec<Mirrored>,
    names: HashSet<HeaderName>,
}

impl Walk {
    fn visit(&mut self, schema: &Value, is_reachable: bool) -> Result<(), String> {
        // `true` and `false` are schemas, too.
        let Value::Object(members) = schema else { return Ok(()) };
        if let Some(annotation) = members.get(ANNOTATION) {
            if !is_reachable || self.path.is_empty() {
                return Err(self.fault("does not stand at a property that can be named"));
            }
            self.note(annotation, members)?;
        }
        members.iter().try_for_each(|(keyword, value)| match value {
            Value::Object(schemas) if keyword == "properties" => schemas
                .iter()
                .try_for_each(|(name, schema)| self.descend(name, schema, is_reachable)),
            Value::Object(schemas) if NAMED.contains(&keyword.as_str()) => {
                schemas.values().try_for_each(|schema| self.descend(keyword, schema, false))
            }
            Value::Array(schemas) if PLAIN.contains(&keyword.as_str()) => {
                schemas.iter().try_for_each(|schema| self.descend(keyword, schema, false))
            }
            schema if PLAIN.contains(&keyword.as_str()) => self.descend(keyword, schema, false),
            _ => Ok(()),
        })
    }

    fn descend(&mut self, name: &str, schema: &Value, is_reachable: bool) -> Result<(), String> {
        self.path.push(name.to_owned());
        self.visit(schema, is_reachable)?;
        self.path.pop();
        Ok(())
    }

    fn note(&mut self, annotation: &Value, schema: &Map<String, Value>) -> Result<(), String> {
        let name = annotation.as_str().filter(|name| !name.is_empty());
        let Some(name) = name else { return Err(self.fault("is not a text, or an empty one")) };
        // What the type for header names takes is what RFC 9110 calls a token.
        let header = HeaderName::from_bytes(format!("{PREFIX}{name}").as_bytes())
            .map_err(|_| self.fault("has characters that no header name can have"))?;
        match schema.get("type").and_then(Value::as_str) {
            Some("string" | "integer" | "boolean") => {}
            _ => return Err(self.fault("stands at neither a string, an integer nor a boolean")),
        }
        // Header names know no upper case: the type has made them equal.
        if !self.names.insert(header.clone()) {
            return Err(self.fault("names a header that another property has already"));
        }
        self.found.push(Mirrored { path: self.path.clone().into(), header });
        Ok(())
    }

    fn fault(&self, reason: &str) -> String {
        let place = if self.path.is_empty() { "the schema itself" } else { &*self.path.join(".") };
        format!("{ANNOTATION} at {place} {reason}")
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn call(arguments: &str) -> Message {
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{arguments}}}}}"#
        );
        Message::parse(Bytes::from(text)).expect("a message")
    }

    fn sent(schema: &Value, arguments: &str) -> Vec<(String, String)> {
        let found = headers(&mirrored(schema).expect("a valid schema"), &call(arguments));
        let mut found: Vec<_> = found
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        found.sort();
        found
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    }

    fn fault(schema: &Value) -> String {
        mirrored(schema).expect_err("an invalid schema")
    }

    #[test]
    fn values_look_in_headers_as_the_protocol_says() {
        let schema = json!({"type": "object", "properties": {
            "s": {"type": "string", "x-mcp-header": "Text"},
            "i": {"type": "integer", "x-mcp-header": "Count"},
            "b": {"type": "boolean", "x-mcp-header": "Flag"},
            "n": {"type": "string", "x-mcp-header": "Nothing"},
            "a": {"type": "string", "x-mcp-header": "Absent"},
            "other": {"type": "string"},
        }});
        let arguments = r#"{"s":"a\u0020b","i":-42,"b":false,"n":null,"other":"x"}"#;
        let expected =
            [("mcp-param-count", "-42"), ("mcp-param-flag", "false"), ("mcp-param-text", "a b")];
        assert_eq!(sent(&schema, arguments), pairs(&expected));
        assert_eq!(sent(&schema, r#"{"s":" é"}"#), pairs(&[("mcp-param-text", "=?base64?IMOp?=")]));
        assert_eq!(sent(&schema, r#"{"s":{"x":1},"i":[1]}"#), [], "neither is a value of a header");
        assert_eq!(sent(&schema, "7"), []);
        assert_eq!(sent(&schema, r#"{"s":"one","s":"two"}"#), pairs(&[("mcp-param-text", "two")]));
    }

    #[test]
    fn integers_keep_their_digits_and_are_written_plainly() {
        for (raw, expected) in [
            ("0", "0"),
            ("-0", "0"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("9007199254740993", "9007199254740993"),
            ("5.0", "5"),
            ("-1.50e1", "-15"),
            ("1E3", "1000"),
            ("1200e-2", "12"),
            ("0e99999", "0e99999"),
            ("1.5", "1.5"),
            ("1e-7", "1e-7"),
            ("1e999999999", "1e999999999"),
            ("1e99999999999", "1e99999999999"),
        ] {
            assert_eq!(decimal(raw), expected, "{raw}");
        }
    }

    #[test]
    fn properties_lead_to_arguments_at_any_depth() {
        let schema = json!({"properties": {"properties": {"type": "object", "properties": {
            "items": {"type": "string", "x-mcp-header": "Deep"},
            "x-mcp-header": {"type": "string"},
        }}}});
        let arguments = r#"{"properties":{"items":"v"},"items":"w"}"#;
        assert_eq!(sent(&schema, arguments), pairs(&[("mcp-param-deep", "v")]));
        assert_eq!(sent(&schema, r#"{"properties":5}"#), []);
    }

    #[test]
    fn what_only_looks_like_an_annotation_is_none() {
        let data = json!({"x-mcp-header": ""});
        let schema = json!({"properties": {
            "a": {"type": "object", "default": data, "examples": [data], "enum": [data], "const": data},
        }});
        assert_eq!(mirrored(&schema), Ok(vec![]));
        assert_eq!(mirrored(&json!(true)), Ok(vec![]));
    }

    #[test]
    fn forbidden_annotations_are_refused_with_the_place_and_the_reason() {
        let one = |property: Value| json!({"type": "object", "properties": {"p": property}});
        for name in [json!(""), json!(null), json!(5)] {
            let text = fault(&one(json!({"type": "string", "x-mcp-header": name})));
            assert_eq!(text, "x-mcp-header at p is not a text, or an empty one");
        }
        for name in ["My Region", "a:b", "Région", "a\t1", "a\r\nb", "a,b", "a/b", "(a)", "\"a\""]
        {
            let text = fault(&one(json!({"type": "string", "x-mcp-header": name})));
            assert!(text.contains("characters"), "{name}: {text}");
        }
        for kind in
            [json!("number"), json!("object"), json!("array"), json!("null"), json!(["string"])]
        {
            let text = fault(&one(json!({"type": kind, "x-mcp-header": "A"})));
            assert!(text.contains("neither"), "{kind}: {text}");
        }
        assert!(fault(&one(json!({"x-mcp-header": "A"}))).contains("neither"));
        for (first, second) in [("Region", "Region"), ("MyField", "myfield")] {
            let text = fault(&json!({"properties": {
                "a": {"type": "string", "x-mcp-header": first},
                "b": {"properties": {"c": {"type": "string", "x-mcp-header": second}}},
            }}));
            assert_eq!(
                text,
                "x-mcp-header at b.c names a header that another property has already"
            );
        }
    }

    #[test]
    fn annotations_that_properties_do_not_lead_to_are_refused() {
        let leaf = json!({"type": "string", "x-mcp-header": "A"});
        let below = json!({"properties": {"q": leaf}});
        for keyword in ["items", "not", "if", "then", "else", "additionalProperties", "contains"] {
            let schema = json!({"properties": {"p": {keyword: leaf}}});
            assert!(fault(&schema).contains("can be named"), "{keyword}");
            assert!(fault(&json!({ keyword: below })).contains("can be named"), "{keyword}");
        }
        for keyword in ["allOf", "anyOf", "oneOf", "prefixItems", "items"] {
            assert!(
                fault(&json!({ keyword: [true, below] })).contains("can be named"),
                "{keyword}"
            );
        }
        for keyword in ["$defs", "definitions", "patternProperties", "dependentSchemas"] {
            assert!(fault(&json!({keyword: {"x": leaf}})).contains("can be named"), "{keyword}");
        }
        assert!(fault(&leaf).contains("the schema itself"));
    }

    proptest! {
        #[test]
        fn an_integer_of_any_size_and_spelling_is_the_same_number(
            digits in "[1-9][0-9]{0,40}", zeros in 0_usize..5,
        ) {
            prop_assert_eq!(decimal(&digits), digits.clone());
            let padded = format!("{digits}.{}", "0".repeat(zeros + 1));
            prop_assert_eq!(decimal(&padded), digits.clone());
            let raised = format!("{digits}e{zeros}");
            prop_assert_eq!(decimal(&raised), format!("{digits}{}", "0".repeat(zeros)));
        }
    }
}
