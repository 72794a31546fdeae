//! Asks a person what a server wants to know: one line for each field, over any reader and writer.

use std::io::{self, BufRead, Write};

use serde_json::{Map, Value, json};

use super::schema::{self, plain};
use crate::output::one_line;
use mcp_span::lenient::lenient;
use mcp_span::limits;
use mcp_span::message::Members;
use mcp_span::untrusted::Untrusted;

/// Asks all of it, and gives the result of `elicitation/create`, whose `params` are these. The end
/// of the input cancels.
pub(super) fn ask(params: &str, input: &mut impl BufRead, output: &mut impl Write) -> Value {
    let answer = Form { input, output }.ask(params);
    answer.unwrap_or_else(|_| action("cancel"))
}

fn action(name: &str) -> Value {
    json!({"action": name})
}

struct Form<'a, I, O> {
    input: &'a mut I,
    output: &'a mut O,
}

impl<I: BufRead, O: Write> Form<'_, I, O> {
    fn ask(&mut self, json: &str) -> io::Result<Value> {
        let params = lenient(json);
        let message = Untrusted(params["message"].as_str().unwrap_or_default()).block();
        writeln!(self.output, "The server asks: {message}")?;
        if params["mode"] == "url" {
            // An address that a person opens, or does not; nothing is opened unasked.
            let url = one_line(params["url"].as_str().unwrap_or_default());
            writeln!(self.output, "It wants you to open {url}")?;
            let refusal = self.refusal("Open it in a browser if you trust it. Go on?")?;
            return Ok(refusal.unwrap_or_else(|| action("accept")));
        }
        let schema = &params["requestedSchema"];
        if let Some(refusal) = self.refusal("Answer it?")? {
            return Ok(refusal);
        }
        let members = Members::of(json).unwrap_or_default();
        let mut content = Map::new();
        for (name, field) in schema::properties(members.get("requestedSchema").unwrap_or_default())
        {
            let is_required =
                schema["required"].as_array().is_some_and(|names| names.contains(&json!(name)));
            if let Some(value) = self.field(&name, &field, is_required)? {
                content.insert(name, value);
            }
        }
        Ok(json!({"action": "accept", "content": content}))
    }

    /// `None` for yes.
    fn refusal(&mut self, question: &str) -> io::Result<Option<Value>> {
        for _ in 0..limits::TERMINAL_ANSWERS {
            let typed = self.line(&format!("{question} [Y]es, [n]o, [c]ancel: "))?;
            match typed.unwrap_or_default().to_lowercase().as_str() {
                "" | "y" | "yes" => return Ok(None),
                "n" | "no" => return Ok(Some(action("decline"))),
                "c" | "cancel" => return Ok(Some(action("cancel"))),
                _ => {}
            }
        }
        Ok(Some(action("cancel")))
    }

    /// Asks for one field until the answer fits. `None`: it was left out.
    fn field(&mut self, name: &str, field: &Value, is_required: bool) -> io::Result<Option<Value>> {
        let choices = choices(field);
        if let Some(about) = field["description"].as_str() {
            writeln!(self.output, "  {}", one_line(about))?;
        }
        for (number, (_, title)) in choices.iter().enumerate() {
            writeln!(self.output, "    {} {}", number + 1, one_line(title))?;
        }
        let question = question(name, field, &choices, is_required);
        for _ in 0..limits::TERMINAL_ANSWERS {
            let Some(typed) = self.line(&question)? else {
                match default(field) {
                    Some(default) => return Ok(Some(default.clone())),
                    None if !is_required => return Ok(None),
                    None => writeln!(self.output, "  a value is required")?,
                }
                continue;
            };
            let value = value(&typed, field, &choices);
            match mismatch(field, &value) {
                None => return Ok(Some(value)),
                Some(what) => writeln!(self.output, "  {what}")?,
            }
        }
        // Somebody who leans on the keyboard must not keep the server for ever.
        Err(io::ErrorKind::InvalidInput.into())
    }

    /// What was typed; `None` for nothing. The end of the input is an error: there is nobody.
    fn line(&mut self, question: &str) -> io::Result<Option<String>> {
        write!(self.output, "{question}")?;
        self.output.flush()?;
        let mut line = String::new();
        if self.input.read_line(&mut line)? == 0 {
            writeln!(self.output)?;
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim();
        Ok((!line.is_empty()).then(|| line.to_owned()))
    }
}

/// Why a value is not what the field takes: its type or, for each of a list, the choices.
fn mismatch(field: &Value, value: &Value) -> Option<String> {
    let items = value.as_array().into_iter().flatten();
    let mut wrong = items.filter_map(|item| schema::mismatch(&field["items"], item, field));
    schema::mismatch(field, value, field).or_else(|| wrong.next())
}

/// What an empty line stands for; what the server itself would refuse is nothing.
fn default(field: &Value) -> Option<&Value> {
    let default = field.get("default").filter(|default| !default.is_null())?;
    mismatch(field, default).is_none().then_some(default)
}

/// `Title (type) [default]: `, with a star where it must be given.
fn question(name: &str, field: &Value, choices: &[(Value, String)], is_required: bool) -> String {
    let title = one_line(field["title"].as_str().unwrap_or(name));
    let star = if is_required { "*" } else { "" };
    let kind = match field["type"].as_str().unwrap_or("text") {
        "array" => "numbers from above, with commas",
        _ if !choices.is_empty() => "a number from above",
        "boolean" => "y/n",
        "string" => field["format"].as_str().unwrap_or("text"),
        other => other,
    };
    let default = default(field).map(|value| format!(" [{}]", one_line(&plain(value))));
    format!("{title}{star} ({}){}: ", one_line(kind), default.unwrap_or_default())
}

/// The values that a field can have, each with its name for people.
fn choices(field: &Value) -> Vec<(Value, String)> {
    let from = if field["type"] == "array" { &field["items"] } else { field };
    let list = |word: &str| from[word].as_array().into_iter().flatten();
    let listed = list("enum").enumerate().map(|(at, value)| (value, &field["enumNames"][at]));
    let titled = list("oneOf").chain(list("anyOf"));
    let titled = titled.filter_map(|choice| Some((choice.get("const")?, &choice["title"])));
    let named = |(value, title): (&Value, &Value)| {
        let title = title.as_str().map_or_else(|| plain(value), str::to_owned);
        (value.clone(), title)
    };
    listed.chain(titled).map(named).collect()
}

/// What was typed, as the field wants it; what does not fit becomes text, and is found to be wrong.
fn value(typed: &str, field: &Value, choices: &[(Value, String)]) -> Value {
    let choice = |word: &str| {
        let by_number = word.parse::<usize>().ok().and_then(|n| choices.get(n.checked_sub(1)?));
        let is_named = |(value, title): &&(Value, String)| {
            title.eq_ignore_ascii_case(word) || plain(value).eq_ignore_ascii_case(word)
        };
        let found = by_number.or_else(|| choices.iter().find(is_named));
        found.map_or_else(|| word.into(), |(value, _)| value.clone())
    };
    match (field["type"].as_str().unwrap_or_default(), &*typed.to_lowercase()) {
        ("array", _) => typed.split(',').map(|word| choice(word.trim())).collect(),
        _ if !choices.is_empty() => choice(typed),
        ("boolean", "y" | "yes" | "true") => true.into(),
        ("boolean", "n" | "no" | "false") => false.into(),
        ("integer" | "number", _) => serde_json::from_str(typed).unwrap_or_else(|_| typed.into()),
        _ => typed.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(params: &Value, typed: &str) -> (Value, String) {
        let mut output = Vec::new();
        let answer = ask(&params.to_string(), &mut typed.as_bytes(), &mut output);
        (answer, String::from_utf8(output).unwrap())
    }

    fn form(properties: Value, required: &[&str]) -> Value {
        json!({"message": "Who\u{1b} are you?",
            "requestedSchema": {"type": "object", "properties": properties, "required": required}})
    }

    #[test]
    fn a_form_is_filled_in_line_by_line() {
        let params = form(
            json!({
                "a_name": {"type": "string", "title": "Name", "description": "Your name"},
                "b_age": {"type": "integer", "minimum": 0, "default": 30},
                "c_ok": {"type": "boolean"},
                "d_colour": {"type": "string", "enum": ["r", "b"], "enumNames": ["Red", "Blue"]},
                "e_size": {"oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]},
                "f_many": {"type": "array", "items": {"enum": ["x", "y", "z"]}},
                "g_note": {"type": "string"},
            }),
            &["a_name"],
        );
        let (answer, shown) = fill(&params, "y\n\nAnn\n\nyes\n2\nlarge\n1, z\n\n");
        assert_eq!(
            answer,
            json!({"action": "accept", "content": {"a_name": "Ann", "b_age": 30, "c_ok": true,
                "d_colour": "b", "e_size": "l", "f_many": ["x", "z"]}})
        );
        for part in [
            "The server asks: Who are you?\n",
            "Answer it? [Y]es, [n]o, [c]ancel: ",
            "  Your name\nName* (text): ",
            "  a value is required\nName* (text): ",
            "b_age (integer) [30]: ",
            "c_ok (y/n): ",
            "    1 Red\n    2 Blue\nd_colour (a number from above): ",
        ] {
            assert!(shown.contains(part), "{part}\n{shown}");
        }
    }

    #[test]
    fn fields_are_asked_in_the_servers_order() {
        let params = r#"{"message":"?","requestedSchema":{"properties":
            {"zip":{"type":"string"},"Name":{"type":"string"},"age":{},"zip":{"type":"string"}}}}"#;
        let mut output = Vec::new();
        let answer = ask(params, &mut "y\n1\n2\n3\n".as_bytes(), &mut output);
        assert_eq!(answer["content"], json!({"zip": "1", "Name": "2", "age": "3"}));
    }

    #[test]
    fn nothing_of_a_hostile_form_reaches_the_terminal() {
        let bad = "x\u{1b}]0;y\u{7}\u{9b}2J\u{202e}\nz";
        let form = form(
            json!({bad: {"type": bad, "title": bad, "description": bad, "default": bad, "format": bad},
                "e": {"enum": [bad], "enumNames": [bad]}, "o": {"oneOf": [{"const": bad, "title": bad}]},
                "c": {"const": bad}, "n": {"properties": {bad: {"type": bad}}, "required": [bad]},
                "t": {"type": ["integer", bad]}, "a": {"type": "array", "items": {"enum": [bad]}}}),
            &["e", "c", bad],
        );
        let (_, shown) = fill(&form, &format!("y\n{}", "?\n".repeat(200)));
        let (_, url) = fill(&json!({"mode": "url", "message": bad, "url": bad}), "y\n");
        for shown in [shown, url] {
            assert!(!shown.contains(['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}']), "{shown:?}");
            assert!(shown.contains("x]0;y2J"), "{shown:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_asked_again() {
        let params = form(json!({"n": {"type": "integer"}}), &["n"]);
        let (answer, shown) = fill(&params, "\nx\n1.5\n7\n");
        assert_eq!(answer["content"], json!({"n": 7}));
        assert!(shown.contains("  expected integer, got \"x\"\n"), "{shown}");
        assert!(shown.contains("  expected integer, got 1.5\n"), "{shown}");
        let params = form(json!({"n": {"type": "integer", "default": "many"}}), &[]);
        let (answer, shown) = fill(&params, "y\n\n");
        assert_eq!(answer["content"], json!({}));
        assert!(!shown.contains("[many]"), "{shown}");
        let many = json!({"m": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}}});
        let (answer, shown) = fill(&form(many, &[]), "y\nx, w\n2\n");
        assert_eq!(answer["content"], json!({"m": ["y"]}));
        assert!(shown.contains("  expected one of \"x\", \"y\", got \"w\"\n"), "{shown}");
        let params = form(json!({"c": {"type": "string", "enum": ["a"]}}), &[]);
        assert_eq!(fill(&params, "y\n7\n1\n").0["content"], json!({"c": "a"}));
    }

    #[test]
    fn nobody_has_to_answer() {
        let params = form(json!({"n": {"type": "integer"}}), &["n"]);
        assert_eq!(fill(&params, "n\n").0, json!({"action": "decline"}));
        assert_eq!(fill(&params, "c\n").0, json!({"action": "cancel"}));
        assert_eq!(fill(&params, "y\n").0, json!({"action": "cancel"}), "the input has ended");
        assert_eq!(fill(&params, &"x\n".repeat(99)).0, json!({"action": "cancel"}));
        assert_eq!(fill(&params, "").0, json!({"action": "cancel"}));
        assert_eq!(
            fill(&form(json!({}), &[]), "y\n").0,
            json!({"action": "accept", "content": {}})
        );
    }

    #[test]
    fn an_address_is_shown_and_asked_about() {
        let params = json!({"mode": "url", "message": "Log in", "url": "https://a/b"});
        let (answer, shown) = fill(&params, "y\n");
        assert_eq!(answer, json!({"action": "accept"}));
        assert!(shown.contains("It wants you to open https://a/b\n"), "{shown}");
        assert_eq!(fill(&params, "n\n").0, json!({"action": "decline"}));
    }
}
