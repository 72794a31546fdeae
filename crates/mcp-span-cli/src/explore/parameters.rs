//! The table of a tool's arguments: names in the server's order, types in words.

use serde_json::Value;

use super::schema::{self, plain};
use crate::output::one_line;
use mcp_span::lenient::lenient;
use mcp_span::limits;

/// How deep lists in lists are told.
const LISTS_IN_LISTS: usize = 2;

/// Rows of name, type and description; what must be given has a star.
pub(super) fn rows(schema: &str) -> Vec<Vec<String>> {
    let root = lenient(schema);
    let required = root["required"].as_array().cloned().unwrap_or_default();
    let row = |(name, property): (String, Value)| {
        let star = if required.iter().any(|r| r.as_str() == Some(&name)) { "*" } else { "" };
        let about = schema::resolved(&property, &root)["description"].as_str().unwrap_or_default();
        let about = property["description"].as_str().unwrap_or(about);
        vec![format!("{}{star}", one_line(&name)), type_cell(&property, &root), one_line(about)]
    };
    schema::properties(schema).into_iter().map(row).collect()
}

/// Type, limits and default of a value.
fn type_cell(schema: &Value, root: &Value) -> String {
    let mut text = type_words(schema, root, LISTS_IN_LISTS);
    let resolved = schema::resolved(schema, root);
    let bound = |name: &str| resolved.get(name).filter(|bound| bound.is_number());
    match (bound("minimum"), bound("maximum")) {
        (Some(least), Some(most)) => text += &format!(" {least} to {most}"),
        (Some(least), None) => text += &format!(" from {least}"),
        (None, Some(most)) => text += &format!(" up to {most}"),
        (None, None) => {}
    }
    if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
        text += &format!(" = {default}");
    }
    one_line(&text)
}

fn cut(mut text: String) -> String {
    if let Some((at, _)) = text.char_indices().nth(limits::TYPE_WORDS) {
        text.truncate(at);
        text.push('…');
    }
    text
}

/// The types or choices in words; lists in lists are told so deep.
fn type_words(schema: &Value, root: &Value, depth: usize) -> String {
    let mut words: Vec<String> = Vec::new();
    for part in schema::parts(schema, root).into_iter().take(limits::SCHEMA_PARTS) {
        let word = match (&part["type"], &part["enum"], part.get("const")) {
            (_, Value::Array(values), _) => {
                let values = values.iter().take(limits::TYPE_WORDS).map(plain);
                values.collect::<Vec<_>>().join("|")
            }
            (_, _, Some(value)) => plain(value),
            (Value::String(name), ..) if name == "array" && depth > 0 => {
                match type_words(&part["items"], root, depth - 1) {
                    items if items == "any" => name.clone(),
                    items => format!("array of {items}"),
                }
            }
            (Value::String(name), ..) => name.clone(),
            (Value::Array(names), ..) => {
                names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
            }
            _ if part["properties"].is_object() => "object".to_owned(),
            _ => continue,
        };
        if !words.contains(&word) {
            words.push(word);
        }
    }
    if words.is_empty() { "any".to_owned() } else { cut(words.join(" or ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_told_in_words_and_in_the_servers_order() {
        let schema = r##"{"type":"object","required":["z","n"],"$defs":{"C":{"enum":["red","blue"],"description":"a colour"}},
            "properties":{
                "z":{"type":"string","description":"the\nfirst"},
                "n":{"type":"integer","minimum":1,"maximum":9,"default":3},
                "o":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null},
                "c":{"$ref":"#/$defs/C"},
                "l":{"type":"array","items":{"$ref":"#/$defs/C"}},
                "u":{"type":["number","string"]},
                "a":{}}}"##;
        let rows = rows(schema);
        let text: Vec<String> = rows.iter().map(|row| row.join(";")).collect();
        assert_eq!(
            text,
            [
                "z*;string;the first",
                "n*;integer 1 to 9 = 3;",
                "o;string or null;",
                "c;red|blue;a colour",
                "l;array of red|blue;",
                "u;number or string;",
                "a;any;",
            ]
        );
        assert!(super::rows("null").is_empty());
    }

    #[test]
    fn branches_without_number_are_not_all_walked() {
        let rows = rows(
            r##"{"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}]}},
            "properties":{"x":{"$ref":"#/$defs/a"}}}"##,
        );
        assert_eq!(rows, [["x", "any", ""]]);
    }
}
