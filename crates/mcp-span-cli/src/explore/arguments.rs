//! Arguments as they are typed, turned into the JSON that is sent: every number as it was written.

use std::collections::HashSet;
use std::io::{self, Read};

use serde_json::Value;
use serde_json::value::RawValue;

use super::schema;
use super::session::Context;
use crate::report::Usage;
use mcp_span::lenient::lenient;
use mcp_span::limits;

/// What was typed behind the name of a tool; files and stdin are read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// A JSON object.
    Json(String),
    Pairs(Vec<Pair>),
}

/// `key=value` or `key:=json`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pair {
    key: String,
    value: String,
    /// The value is sent as it is.
    is_json: bool,
}

impl Typed {
    /// Reads the words; `load` gives the text of a file.
    pub(super) fn read(
        words: &[String],
        load: impl Fn(&str) -> io::Result<String>,
    ) -> Result<Self, Usage> {
        if let [word] = words
            && (word == "-" || word.starts_with('@') || word.trim_start().starts_with('{'))
        {
            let text = json_text(word, load)?;
            return Ok(Self::Json(json_object(&text)?));
        }
        words.iter().map(|word| Pair::read(word, &load)).collect::<Result<_, _>>().map(Self::Pairs)
    }

    /// The same if it fits the schema of `what`.
    pub(super) fn checked(
        &self,
        schema: &Value,
        what: &str,
        hint: String,
        context: &Context,
    ) -> Result<String, Usage> {
        let json = self.to_json(schema).map_err(|usage| usage.hint(hint.clone()))?;
        let found = schema::check(schema, &lenient(&json));
        found.unknown.iter().for_each(|name| context.warn(&format!("unknown argument {name}")));
        if found.faults.is_empty() {
            return Ok(json);
        }
        let faults: String = found.faults.iter().map(|fault| format!("\n  {fault}")).collect();
        Err(Usage::new(format!("the arguments do not fit {what}:{faults}")).hint(hint))
    }

    /// The JSON object to send, with values of the types that the schema names.
    pub(super) fn to_json(&self, schema: &Value) -> Result<String, Usage> {
        let pairs = match self {
            Self::Json(json) => return Ok(json.clone()),
            Self::Pairs(pairs) => pairs,
        };
        let members: Vec<Member<'_>> =
            pairs.iter().map(|pair| pair.member(schema)).collect::<Result<_, _>>()?;
        Ok(object(&members.iter().collect::<Vec<_>>(), 0)?)
    }
}

/// The parameters of a call of a tool, or for a prompt.
pub(super) fn params(name: &str, arguments: &str) -> io::Result<Box<RawValue>> {
    let name = Value::from(name);
    Ok(RawValue::from_string(format!(r#"{{"name":{name},"arguments":{arguments}}}"#))?)
}

/// What `-`, `@FILE` or the text itself stands for.
pub(super) fn json_text(
    word: &str,
    load: impl Fn(&str) -> io::Result<String>,
) -> Result<String, Usage> {
    let (text, from) = match word.strip_prefix('@') {
        Some(file) => (load(file), file),
        None if word == "-" => (load(word), "stdin"),
        None => return Ok(word.to_owned()),
    };
    text.map_err(|error| Usage::new(format!("cannot read {from}: {error}")))
}

/// The text of a file; `-` is stdin.
pub(super) fn load(name: &str) -> io::Result<String> {
    if name != "-" {
        return std::fs::read_to_string(name);
    }
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text)?;
    Ok(text)
}

fn json_object(text: &str) -> Result<String, Usage> {
    let json: &RawValue = serde_json::from_str(text)
        .map_err(|error| format!("the arguments are not JSON: {error}"))?;
    match json.get().starts_with('{') {
        true => Ok(json.get().to_owned()),
        false => Err(Usage::new("the arguments must be a JSON object: {\"name\": value}")),
    }
}

impl Pair {
    fn read(word: &str, load: impl Fn(&str) -> io::Result<String>) -> Result<Self, Usage> {
        let (key, value) = word.split_once('=').ok_or_else(|| {
            format!("'{word}' is not an argument: write key=value, key:=JSON or one JSON object")
        })?;
        let (key, is_json) = key.strip_suffix(':').map_or((key, false), |key| (key, true));
        if key.split('.').count() > limits::ARGUMENT_DEPTH {
            let most = limits::ARGUMENT_DEPTH;
            return Err(format!("an argument has more than {most} parts between its dots").into());
        }
        if key.is_empty() {
            return Err(format!("'{word}' has no key before its '='").into());
        }
        let value = match value.strip_prefix('@') {
            Some(file) => load(file).map_err(|error| {
                let text = Value::from(value);
                format!(
                    "{key}: cannot read {file}: {error}; if it is the text itself, write \
                     {key}:='{text}'"
                )
            })?,
            None => value.to_owned(),
        };
        Ok(Self { key: key.to_owned(), value, is_json })
    }

    /// The value as JSON, with its place in the arguments that `root` is the schema of.
    fn member(&self, root: &Value) -> Result<Member<'_>, String> {
        static UNKNOWN: Value = Value::Null;
        let (mut schema, mut key, mut path) = (root, &*self.key, Vec::new());
        let schema = loop {
            let rules = schema::resolved(schema, root);
            let property = |name| rules["properties"].get(name);
            match key.split_once('.') {
                // A name may have dots itself.
                Some((outer, inner)) if property(key).is_none() => {
                    path.push(outer);
                    (schema, key) = (property(outer).unwrap_or(&UNKNOWN), inner);
                }
                _ => {
                    path.push(key);
                    let others = rules.get("additionalProperties").filter(|o| o.is_object());
                    break property(key).or(others).unwrap_or(&UNKNOWN);
                }
            }
        };
        let types = schema::types(schema, root);
        let is_list = types.contains(&"array") && !types.contains(&"string");
        let is_item = is_list && !self.is_json && !self.value.trim_start().starts_with('[');
        let json = match is_item {
            _ if self.is_json => serde_json::from_str::<&RawValue>(&self.value)
                .map(|json| json.get().to_owned())
                .map_err(|error| format!("{}: not JSON: {error}", self.key))?,
            true => {
                let items = &schema::resolved(schema, root)["items"];
                self.converted(&schema::types(items, root))?
            }
            false => self.converted(&types)?,
        };
        Ok(Member { path, json, is_item })
    }

    /// The value as JSON of one of these types.
    fn converted(&self, types: &[&str]) -> Result<String, String> {
        let json = serde_json::from_str::<&RawValue>(&self.value).ok().map(RawValue::get);
        let json = json.filter(|json| !json.starts_with('"'));
        let fits = |json: &str| {
            let value: Value = serde_json::from_str(json).unwrap_or_default();
            schema::is_of(&value, types) || (value.is_number() && types.contains(&"integer"))
        };
        let is_text_only =
            !types.is_empty() && types.iter().all(|name| matches!(*name, "string" | "null"));
        match json {
            Some(json) if !is_text_only && fits(json) => Ok(json.to_owned()),
            _ if types.is_empty() || types.contains(&"string") => {
                Ok(Value::from(self.value.as_str()).to_string())
            }
            _ => {
                let (key, value) = (&self.key, &self.value);
                let hint = if types.contains(&"boolean") { " (write true or false)" } else { "" };
                Err(format!("{key}: expected {}, got '{value}'{hint}", types.join(" or ")))
            }
        }
    }
}

/// A value, and where it stands.
struct Member<'a> {
    path: Vec<&'a str>,
    json: String,
    /// It is one of a list.
    is_item: bool,
}

/// The object that has these members; so many names of their paths are those of objects around it.
fn object(members: &[&Member<'_>], depth: usize) -> Result<String, String> {
    let mut known = HashSet::new();
    let mut texts = Vec::new();
    for name in members.iter().map(|member| member.path[depth]).filter(|name| known.insert(*name)) {
        let same = members.iter().filter(|member| member.path[depth] == name);
        let same: Vec<&Member<'_>> = same.copied().collect();
        let is_inside = |member: &&Member<'_>| member.path.len() > depth + 1;
        let json = match &same[..] {
            _ if same.iter().all(is_inside) => object(&same, depth + 1)?,
            items if items.iter().all(|member| member.is_item && !is_inside(member)) => {
                let items: Vec<&str> = items.iter().map(|item| &*item.json).collect();
                format!("[{}]", items.join(","))
            }
            [only] => only.json.clone(),
            [first, ..] => {
                let key = first.path[..=depth].join(".");
                return Err(format!("{key} is given twice, but is not a list"));
            }
            [] => continue,
        };
        texts.push(format!("{}:{json}", Value::from(name)));
    }
    Ok(format!("{{{}}}", texts.join(",")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn json(words: &[&str], schema: &Value) -> Result<String, Usage> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let load = |name: &str| match name {
            "f.txt" => Ok("two\nlines".to_owned()),
            "f.json" => Ok("{\n \"n\": 1.0 }\n".to_owned()),
            "-" => Ok("{\"in\":1}".to_owned()),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        Typed::read(&words, load)?.to_json(schema)
    }

    #[test]
    fn values_become_what_the_schema_wants() {
        let schema = json!({"properties": {
            "s": {"type": "string"}, "i": {"type": "integer"}, "n": {"type": "number"},
            "b": {"type": "boolean"}, "l": {"type": "array", "items": {"type": "string"}},
            "o": {"type": "object", "properties": {"x": {"type": "string"}}},
            "m": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "u": {"type": ["integer", "string"]}, "e": {"enum": ["1", "2"]}, "a.b": {"type": "string"},
            "any": {"type": "any"}, "any2": {"type": "any"},
        }});
        let is =
            |words: &[&str], expected: &str| assert_eq!(json(words, &schema).unwrap(), expected);
        is(&["s=5", "i=5", "n=1e3", "b=true"], r#"{"s":"5","i":5,"n":1e3,"b":true}"#);
        // No number goes through a float.
        is(&["i=123456789012345678901234567890"], r#"{"i":123456789012345678901234567890}"#);
        is(&["n=1.10"], r#"{"n":1.10}"#);
        is(&["l=a", "l=5"], r#"{"l":["a","5"]}"#);
        is(&[r#"l=["x"]"#], r#"{"l":["x"]}"#);
        is(&["o.x=1", "o.y=2"], r#"{"o":{"x":"1","y":2}}"#);
        is(&["m=null", "u=5"], r#"{"m":"null","u":5}"#);
        is(&["u=x", "e=1"], r#"{"u":"x","e":"1"}"#);
        is(&["a.b=5"], r#"{"a.b":"5"}"#);
        is(&["s:=null", "free=5", "other=a=b"], r#"{"s":null,"free":5,"other":"a=b"}"#);
        is(&["s=@f.txt"], r#"{"s":"two\nlines"}"#);
        is(&[r#"s=a"b\"#], r#"{"s":"a\"b\\"}"#);
        is(&["s="], r#"{"s":""}"#);
        is(&[], "{}");
        is(&["any=x", "any2=5"], r#"{"any":"x","any2":5}"#);
    }

    #[test]
    fn one_json_object_is_sent_as_it_is() {
        let any = Value::Null;
        assert_eq!(json(&[r#"{"n": 1.0}"#], &any).unwrap(), r#"{"n": 1.0}"#);
        assert_eq!(json(&["@f.json"], &any).unwrap(), "{\n \"n\": 1.0 }");
        assert_eq!(json(&["-"], &any).unwrap(), r#"{"in":1}"#);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let schema = json!({"properties": {"i": {"type": "integer"}, "b": {"type": "boolean"}}});
        let wrong = |words: &[&str], part: &str| {
            let error = json(words, &schema).unwrap_err().0;
            assert!(error.contains(part), "{words:?}: {error}");
        };
        wrong(&["i=five"], "i: expected integer, got 'five'");
        wrong(&["b=yes"], "write true or false");
        wrong(&["i=1", "i=2"], "given twice");
        wrong(&["i=1", "i.x=2"], "given twice");
        wrong(&["i"], "key=value");
        wrong(&["=1"], "no key");
        wrong(&["i:=x"], "not JSON");
        wrong(&["{\"a\":}"], "not JSON");
        wrong(&["@none.json"], "cannot read none.json");
        wrong(&["i=@none"], "cannot read none");
        wrong(&["i=@none"], "write i:='\"@none\"'");
        wrong(&["{} {}"], "not JSON");
        wrong(&[&format!("{}a=1", "a.".repeat(60_000))], "more than 100 parts");
    }
}
