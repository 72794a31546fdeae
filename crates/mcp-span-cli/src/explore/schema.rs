//! What a JSON Schema says of arguments: their types, which must be given, which are known. The rest
//! is checked by the server, which has the last word anyway. Pure.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::nearest::did_you_mean;
use mcp_span::lenient::lenient;
use mcp_span::limits;
use mcp_span::message::Members;
use mcp_span::untrusted::Untrusted;

/// What a schema stands for, if it is just a reference to a part of `root`.
pub(super) fn resolved<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let follow = |way: &str| root.pointer(way.strip_prefix('#')?);
    let mut schema = schema;
    for _ in 0..limits::SCHEMA_DEPTH {
        match schema.get("$ref").and_then(Value::as_str).and_then(follow) {
            Some(next) => schema = next,
            None => break,
        }
    }
    schema
}

/// The properties of an object with their schemas, in the order in which the server has put them,
/// which only the text has.
pub(super) fn properties(schema: &str) -> Vec<(String, Value)> {
    let members = Members::of(schema).unwrap_or_default();
    let properties = members.get("properties").and_then(Members::of).unwrap_or_default();
    let mut known = HashSet::new();
    let named = properties.iter().map(|(name, text)| (name.into_owned(), lenient(text)));
    named.filter(|(name, _)| known.insert(name.clone())).collect()
}

/// The parts that a schema is made of, behind references and choices. They may refer to each other:
/// each is looked at once.
pub(super) fn parts<'a>(schema: &'a Value, root: &'a Value) -> Vec<&'a Value> {
    let mut parts = Vec::new();
    let mut left = vec![schema];
    let mut seen = HashSet::new();
    while let Some(part) = left.pop().map(|part| resolved(part, root)) {
        if seen.insert(std::ptr::from_ref(part)) {
            parts.push(part);
            let words = ["allOf", "oneOf", "anyOf"];
            left.extend(words.iter().flat_map(|word| list(&part[*word])).rev());
        }
    }
    parts
}

/// The types that a value may have; none if anything goes.
pub(super) fn types<'a>(schema: &'a Value, root: &'a Value) -> Vec<&'a str> {
    let mut types = Vec::new();
    for part in parts(schema, root) {
        match &part["type"] {
            Value::String(name) => types.push(&**name),
            Value::Array(names) => types.extend(names.iter().filter_map(Value::as_str)),
            _ => {
                let values = list(&part["enum"]).iter().chain(part.get("const"));
                types.extend(values.map(|value| -> &str { type_of(value) }));
            }
        }
    }
    let mut known = HashSet::new();
    types.retain(|name| known.insert(*name));
    // An unknown type may allow anything.
    if types.iter().all(|name| TYPES.contains(name)) { types } else { Vec::new() }
}

const TYPES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];

/// The type of a value, in the words of schemas.
pub(super) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        // `1.0` is an integer as well.
        Value::Number(number) if number.as_f64().is_some_and(|n| n.fract() == 0.0) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Whether a value has one of these types.
pub(super) fn is_of(value: &Value, types: &[&str]) -> bool {
    let is_any = types.is_empty() || types.contains(&type_of(value));
    is_any || (value.is_number() && types.contains(&"number"))
}

/// What is wrong with one value, if it is its type, or that it is none of the choices.
pub(super) fn mismatch(schema: &Value, value: &Value, root: &Value) -> Option<String> {
    let types = types(schema, root);
    let rules = resolved(schema, root);
    let choices: Vec<&Value> = list(&rules["enum"]).iter().chain(rules.get("const")).collect();
    // Numbers are the same if they have the same value, however they are written.
    let is_same = |choice: &&Value| {
        *choice == value || choice.as_f64().zip(value.as_f64()).is_some_and(|(a, b)| a == b)
    };
    let expected = if !is_of(value, &types) {
        types.join(" or ")
    } else if !choices.is_empty() && !choices.iter().any(is_same) {
        let choices: Vec<String> = choices.iter().map(ToString::to_string).collect();
        format!("one of {}", choices.join(", "))
    } else {
        return None;
    };
    let shown = value.to_string();
    let is_short = shown.chars().count() <= 40;
    let got = if is_short { shown } else { type_of(value).to_owned() };
    Some(Untrusted(&format!("expected {expected}, got {got}")).line())
}

/// What is wrong with arguments, each with its place.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// What the server would refuse.
    pub(super) faults: Vec<String>,
    /// Names that the schema does not have, but does not exclude.
    pub(super) unknown: Vec<String>,
}

/// Compares arguments with their schema.
pub(super) fn check(schema: &Value, arguments: &Value) -> Findings {
    let mut findings = Findings::default();
    match arguments {
        Value::Object(members) => findings.look(schema, members, "", schema),
        other => findings.faults.extend(mismatch(schema, other, schema)),
    }
    findings.faults.truncate(limits::FAULTS);
    findings.unknown.truncate(limits::FAULTS);
    findings
}

impl Findings {
    fn look(&mut self, schema: &Value, members: &Map<String, Value>, at: &str, root: &Value) {
        let rules = resolved(schema, root);
        let place = |name: &str| Untrusted(&format!("{at}{name}")).line();
        let required = list(&rules["required"]).iter().filter_map(Value::as_str);
        let missing = required.filter(|name| !members.contains_key(*name));
        self.faults.extend(missing.map(|name| format!("{}: missing", place(name))));
        let none = Map::new();
        let known = rules["properties"].as_object().unwrap_or(&none);
        let words = ["patternProperties", "allOf", "anyOf", "oneOf", "$ref"];
        let may_know_more = words.iter().any(|word| rules.get(word).is_some());
        for (name, value) in members {
            let Some(schema) = known.get(name) else {
                let names = known.keys().map(String::as_str);
                let meant =
                    did_you_mean(name, names).map_or_else(String::new, |q| format!("; {q}"));
                let (name, meant) = (place(name), Untrusted(&meant));
                match rules.get("additionalProperties") {
                    _ if may_know_more => {}
                    Some(Value::Bool(false)) => self.faults.push(format!("{name}: unknown{meant}")),
                    None if !known.is_empty() => self.unknown.push(format!("'{name}'{meant}")),
                    _ => {}
                }
                continue;
            };
            match (mismatch(schema, value, root), value) {
                (Some(what), _) => self.faults.push(format!("{}: {what}", place(name))),
                (None, Value::Object(members)) => {
                    self.look(schema, members, &format!("{at}{name}."), root);
                }
                _ => {}
            }
        }
    }
}

/// A value as a person writes it: text without quotes.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
