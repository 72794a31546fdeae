//! The arguments of a tool, as a person reads them: names in the server's order, types in words.

use std::collections::HashSet;

use serde_json::Value;

use super::schema;
use crate::output::one_line;
use mcp_span::lenient::lenient;
use mcp_span::limits;
use mcp_span::message::Members;

/// Rows of name, type and description; what must be given has a star.
pub(super) fn rows(schema: &str) -> Vec<Vec<String>> {
    let root = lenient(schema);
    let required = root["required"].as_array().cloned().unwrap_or_default();
    // Only the text has the order in which the server has put them.
    let members = Members::of(schema).unwrap_or_default();
    let properties = members.get("properties").and_then(Members::of).unwrap_or_default();
    let row = |(name, text): (std::borrow::Cow<'_, str>, &str)| {
        let property = lenient(text);
        let star = if required.iter().any(|r| r == &*name) { "*" } else { "" };
        let about = schema::resolved(&property, &root)["description"].as_str().unwrap_or_default();
        let about = property["description"].as_str().unwrap_or(about);
        vec![format!("{}{star}", one_line(&name)), type_cell(&property, &root), one_line(about)]
    };
    properties.iter().map(row).collect()
}

/// Type, limits and default of a value.
fn type_cell(schema: &Value, root: &Value) -> String {
    let mut steps = limits::SCHEMA_STEPS;
    let mut text = type_words(schema, root, &mut steps, 0);
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

/// The types in words, of at most so many schemas: branches that refer to each other double at each
/// turn.
fn type_words(schema: &Value, root: &Value, steps: &mut usize, depth: usize) -> String {
    let schema = schema::resolved(schema, root);
    let Some(left) = steps.checked_sub(1).filter(|_| depth <= limits::SCHEMA_DEPTH) else {
        return "any".to_owned();
    };
    *steps = left;
    let list = |word: &str| schema[word].as_array().map(Vec::as_slice);
    if let Some(values) = list("enum") {
        let texts: Vec<String> = values.iter().take(limits::TYPE_WORDS).map(plain).collect();
        return cut(texts.join("|"));
    }
    if let Some(value) = schema.get("const") {
        return plain(value);
    }
    let mut words: Vec<String> = match (&schema["type"], list("anyOf").or(list("oneOf"))) {
        (Value::String(name), _) if name == "array" => {
            match schema.get("items").map(|items| type_words(items, root, steps, depth + 1)) {
                Some(items) if items != "any" => vec![format!("array of {items}")],
                _ => vec![name.clone()],
            }
        }
        (Value::String(name), _) => vec![name.clone()],
        (Value::Array(names), _) => {
            names.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        (_, Some(parts)) => {
            parts.iter().map(|part| type_words(part, root, steps, depth + 1)).collect()
        }
        _ if schema["properties"].is_object() => vec!["object".to_owned()],
        _ => vec!["any".to_owned()],
    };
    let mut known = HashSet::new();
    words.retain(|word| known.insert(word.clone()));
    cut(words.join(" or "))
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
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
