//! Checks values against a JSON Schema, as far as it knows the schema's words; what it does not know
//! passes. The server has the last word anyway. Pure.

use serde_json::{Map, Value};

use crate::nearest::nearest;
use mcp_span::limits;
use mcp_span::untrusted::Untrusted;

mod steps;

pub(crate) use steps::Steps;

/// What is wrong with a value, and where in it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The way to it, such as `a.b[2]`; nothing for the whole.
    at: String,
    what: String,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Both hold names and values of the server's schema.
        match &*self.at {
            "" => write!(f, "{}", Untrusted(&self.what)),
            at => write!(f, "{} {}", Untrusted(at), Untrusted(&self.what)),
        }
    }
}

/// All that is wrong with `value`.
pub(crate) fn check(schema: &Value, value: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    Checker { root: schema, steps: Steps::new() }.value(schema, value, "", 0, &mut faults);
    faults
}

/// What a schema stands for, if it is just a reference to a part of `root`.
pub(crate) fn resolved<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let mut schema = schema;
    for _ in 0..limits::SCHEMA_DEPTH {
        match schema.get("$ref").and_then(Value::as_str).and_then(|way| follow(way, root)) {
            Some(next) => schema = next,
            None => break,
        }
    }
    schema
}

fn follow<'a>(way: &str, root: &'a Value) -> Option<&'a Value> {
    root.pointer(way.strip_prefix('#')?)
}

/// The types that a value may have; none if anything goes.
pub(crate) fn sorts<'a>(schema: &'a Value, root: &'a Value) -> Vec<&'a str> {
    let mut sorts = Vec::new();
    let is_whole = collect_sorts(schema, root, &Steps::new(), 0, &mut sorts);
    // Of a type that is in no book nobody knows what it allows.
    if is_whole && sorts.iter().all(|sort| SORTS.contains(sort)) { sorts } else { Vec::new() }
}

const SORTS: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];

/// `false` if there is more than can be looked at.
fn collect_sorts<'a>(
    schema: &'a Value,
    root: &'a Value,
    steps: &Steps,
    depth: usize,
    sorts: &mut Vec<&'a str>,
) -> bool {
    if depth > limits::SCHEMA_DEPTH {
        return true;
    }
    let schema = resolved(schema, root);
    if !steps.take(1 + length(&schema["enum"]) + length(&schema["type"])) {
        return false;
    }
    match &schema["type"] {
        Value::String(name) => sorts.push(name),
        Value::Array(names) => sorts.extend(names.iter().filter_map(Value::as_str)),
        _ => {
            let listed = schema["enum"].as_array().into_iter().flatten();
            sorts.extend(listed.map(|value| -> &str { sort_of(value) }));
            sorts.extend(schema.get("const").map(sort_of));
        }
    }
    let mut parts = ["anyOf", "oneOf", "allOf"]
        .into_iter()
        .flat_map(|word| schema[word].as_array().into_iter().flatten());
    parts.all(|part| collect_sorts(part, root, steps, depth + 1, sorts))
}

fn length(list: &Value) -> usize {
    list.as_array().map_or(0, Vec::len)
}

/// The type of a value, in the words of schemas.
pub(crate) fn sort_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) if is_integer(value) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// `1.0` is an integer as well.
fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

fn is_of(value: &Value, sort: &str) -> bool {
    match sort {
        "number" => value.is_number(),
        "null" | "boolean" | "integer" | "string" | "array" | "object" => sort_of(value) == sort,
        _ => true,
    }
}

/// Numbers are the same if they have the same value, however they are written.
fn is_same(a: &Value, b: &Value) -> bool {
    a == b || a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| a == b)
}

struct Checker<'a> {
    root: &'a Value,
    steps: Steps,
}

impl Checker<'_> {
    fn value(&self, schema: &Value, value: &Value, at: &str, depth: usize, out: &mut Vec<Fault>) {
        if depth > limits::SCHEMA_DEPTH || out.len() >= limits::FAULTS {
            return;
        }
        let fault = |what: String| Fault { at: at.to_owned(), what };
        let rules = match schema {
            Value::Bool(false) => return out.push(fault("is not allowed".to_owned())),
            Value::Object(rules) => rules,
            _ => return,
        };
        let listed = ["enum", "required", "type"].iter().filter_map(|word| rules.get(*word));
        if !self.steps.take(1 + listed.map(length).sum::<usize>()) {
            return;
        }
        if let Some(target) = rules.get("$ref").and_then(Value::as_str)
            && let Some(target) = follow(target, self.root)
        {
            self.value(target, value, at, depth + 1, out);
        }
        if let Some(what) = wrong_type(rules, value) {
            // All else would only repeat it.
            return out.push(fault(what));
        }
        out.extend(wrong_value(rules, value).map(fault));
        match value {
            Value::Number(_) => out.extend(wrong_number(rules, value).map(fault)),
            Value::String(text) => out.extend(wrong_text(rules, text).map(fault)),
            Value::Array(items) => self.array(rules, items, at, depth, out),
            Value::Object(members) => self.object(rules, members, at, depth, out),
            Value::Null | Value::Bool(_) => {}
        }
        for part in rules.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.value(part, value, at, depth + 1, out);
        }
        // More than one may fit by a word that is not known here, so `oneOf` is no narrower.
        for word in ["anyOf", "oneOf"] {
            if let Some(choices) = rules.get(word).and_then(Value::as_array) {
                self.one_of(choices, value, at, depth, out);
            }
        }
    }

    fn one_of(
        &self,
        choices: &[Value],
        value: &Value,
        at: &str,
        depth: usize,
        out: &mut Vec<Fault>,
    ) {
        let mut near = Vec::new();
        for choice in choices {
            let mut faults = Vec::new();
            self.value(choice, value, at, depth + 1, &mut faults);
            if faults.is_empty() {
                return;
            }
            if wrong_type_of(resolved(choice, self.root), value).is_none() {
                near.push(faults);
            }
        }
        match near.len() {
            _ if choices.is_empty() => {}
            // There is only one that can have been meant.
            1 => out.extend(near.remove(0)),
            _ => {
                let sorts: Vec<&str> =
                    choices.iter().flat_map(|choice| sorts(choice, self.root)).collect();
                let what = match near.is_empty() && !sorts.is_empty() {
                    true => format!("must be {}, not {}", any_of(&sorts), shown(value)),
                    false => "fits none of the forms that are allowed".to_owned(),
                };
                out.push(Fault { at: at.to_owned(), what });
            }
        }
    }

    fn array(
        &self,
        rules: &Map<String, Value>,
        items: &[Value],
        at: &str,
        depth: usize,
        out: &mut Vec<Fault>,
    ) {
        let fault = |what: String| Fault { at: at.to_owned(), what };
        out.extend(wrong_count(rules, items.len(), ["minItems", "maxItems"], "items").map(fault));
        let prefix = rules.get("prefixItems").or_else(|| rules.get("items"));
        let prefix = prefix.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let rest = rules.get("items").filter(|rest| !rest.is_array());
        for (number, item) in items.iter().enumerate() {
            if let Some(schema) = prefix.get(number).or(rest) {
                self.value(schema, item, &format!("{at}[{number}]"), depth + 1, out);
            }
        }
    }

    fn object(
        &self,
        rules: &Map<String, Value>,
        members: &Map<String, Value>,
        at: &str,
        depth: usize,
        out: &mut Vec<Fault>,
    ) {
        let inside =
            |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
        for name in texts(rules.get("required")).filter(|name| !members.contains_key(*name)) {
            out.push(Fault { at: inside(name), what: "is missing".to_owned() });
        }
        for (name, needed) in
            rules.get("dependentRequired").and_then(Value::as_object).into_iter().flatten()
        {
            let missing = texts(Some(needed)).filter(|needed| !members.contains_key(*needed));
            if members.contains_key(name) {
                out.extend(missing.map(|needed| Fault {
                    at: inside(needed),
                    what: format!("is missing: it goes with {name}"),
                }));
            }
        }
        let bounds = ["minProperties", "maxProperties"];
        let fault = |what: String| Fault { at: at.to_owned(), what };
        out.extend(wrong_count(rules, members.len(), bounds, "members").map(fault));
        let known = rules.get("properties").and_then(Value::as_object);
        // Patterns are not read here: whatever is not known by name may be known by one.
        let others = rules.get("additionalProperties");
        let others = others.filter(|_| !rules.contains_key("patternProperties"));
        for (name, value) in members {
            match (known.and_then(|known| known.get(name)), others) {
                (Some(schema), _) => self.value(schema, value, &inside(name), depth + 1, out),
                (None, Some(Value::Bool(false))) => {
                    let names = known.into_iter().flatten().map(|(name, _)| name.as_str());
                    let meant = nearest(name, names);
                    let meant = meant.map_or_else(String::new, |name| format!("; is it {name}?"));
                    out.push(Fault { at: inside(name), what: format!("is not known{meant}") });
                }
                (None, Some(schema)) => self.value(schema, value, &inside(name), depth + 1, out),
                (None, None) => {}
            }
        }
    }
}

fn texts(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn wrong_type_of(schema: &Value, value: &Value) -> Option<String> {
    schema.as_object().and_then(|rules| wrong_type(rules, value))
}

fn wrong_type(rules: &Map<String, Value>, value: &Value) -> Option<String> {
    let sorts: Vec<&str> = match rules.get("type")? {
        Value::String(sort) => vec![sort],
        sorts => texts(Some(sorts)).collect(),
    };
    let fits = sorts.is_empty() || sorts.iter().any(|sort| is_of(value, sort));
    (!fits).then(|| format!("must be {}, not {}", any_of(&sorts), shown(value)))
}

fn any_of(sorts: &[&str]) -> String {
    let mut words: Vec<String> = Vec::new();
    for sort in sorts {
        let word = match *sort {
            "null" => "null".to_owned(),
            sort @ ("integer" | "array" | "object") => format!("an {sort}"),
            sort => format!("a {sort}"),
        };
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words.join(" or ")
}

fn wrong_value(rules: &Map<String, Value>, value: &Value) -> Option<String> {
    if let Some(only) = rules.get("const").filter(|only| !is_same(only, value)) {
        return Some(format!("must be {only}, not {}", shown(value)));
    }
    let allowed = rules.get("enum").and_then(Value::as_array)?;
    if allowed.iter().any(|allowed| is_same(allowed, value)) {
        return None;
    }
    let names: Vec<String> = allowed.iter().map(Value::to_string).collect();
    Some(format!("must be one of {}, not {}", names.join(", "), shown(value)))
}

fn wrong_number(rules: &Map<String, Value>, value: &Value) -> Option<String> {
    let number = value.as_f64()?;
    let bound = |name: &str| Some((rules.get(name)?, rules.get(name)?.as_f64()?));
    let wrong = |words: &str, bound: &Value| Some(format!("must be {words} {bound}, not {value}"));
    if let Some((bound, least)) = bound("minimum").filter(|(_, least)| number < *least) {
        let _ = least;
        return wrong("at least", bound);
    }
    if let Some((bound, _)) = bound("maximum").filter(|(_, most)| number > *most) {
        return wrong("at most", bound);
    }
    if let Some((bound, _)) = bound("exclusiveMinimum").filter(|(_, least)| number <= *least) {
        return wrong("more than", bound);
    }
    if let Some((bound, _)) = bound("exclusiveMaximum").filter(|(_, most)| number >= *most) {
        return wrong("less than", bound);
    }
    // Of fractions nobody knows whether they are multiples.
    let step = rules.get("multipleOf").and_then(Value::as_i64).filter(|step| *step > 0)?;
    let rest = value.as_i64()?.checked_rem(step)?;
    if rest == 0 { None } else { Some(format!("must be a multiple of {step}, not {value}")) }
}

fn wrong_text(rules: &Map<String, Value>, text: &str) -> Option<String> {
    wrong_count(rules, text.chars().count(), ["minLength", "maxLength"], "characters")
}

fn wrong_count(
    rules: &Map<String, Value>,
    count: usize,
    [least, most]: [&str; 2],
    what: &str,
) -> Option<String> {
    let bound = |name: &str| rules.get(name).and_then(Value::as_u64);
    let count = count as u64;
    match (bound(least), bound(most)) {
        (Some(least), _) if count < least => {
            Some(format!("must have at least {least} {what}, not {count}"))
        }
        (_, Some(most)) if count > most => {
            Some(format!("must have at most {most} {what}, not {count}"))
        }
        _ => None,
    }
}

/// The value, if it is short enough to be repeated.
fn shown(value: &Value) -> String {
    const SHORT: usize = 40;
    let text = value.to_string();
    if text.chars().count() <= SHORT { text } else { format!("this {}", sort_of(value)) }
}

#[cfg(test)]
mod tests;
