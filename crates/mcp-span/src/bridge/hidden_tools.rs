//! Tools that are kept from the client: taken out of lists, and refused when they are called. Pure.
//!
//! What cannot be told with certainty is hidden. Lists are recognised by what they hold, not by what
//! they answer: an id can be used twice.

use std::sync::Arc;

use crate::error::{Error, ErrorKind};
use crate::message::{Head, Json, Message, Method, peek, reply};
use crate::revision::tools::without;

/// Patterns for the names of tools; `*` stands for anything, and case means nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HiddenTools(Arc<[String]>);

impl HiddenTools {
    /// Hides all tools that one of the patterns matches.
    pub fn new<T: AsRef<str>>(patterns: impl IntoIterator<Item = T>) -> Self {
        Self(patterns.into_iter().map(|pattern| pattern.as_ref().to_owned()).collect())
    }

    /// Whether there is nothing to hide.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The pattern that hides the tool of this name, as it was typed.
    #[must_use]
    pub fn pattern_hiding(&self, name: &str) -> Option<&str> {
        let name = name.to_lowercase();
        let pattern = self.0.iter().find(|pattern| matches(&pattern.to_lowercase(), &name))?;
        Some(pattern)
    }

    /// Why a message of the client's must not reach the server, if that is so.
    pub(super) fn refusal_of(&self, message: &Message) -> Option<Error> {
        if self.is_empty() || message.method() != Some(&Method::ToolsCall) {
            return None;
        }
        let is_plain = message.json().is_some_and(|call| is_plain(call, "params"))
            && message.get(&["params"]).is_some_and(|params| is_plain(params, "name"));
        let name = peek::subject(message);
        let error = match name.as_deref().map(|name| (self.pattern_hiding(name), name)) {
            Some((None, _)) if is_plain => return None,
            Some((Some(pattern), name)) => {
                let text = format!("The tool {name:?} is hidden by --ignore-tool {pattern:?}");
                Error::new(ErrorKind::HiddenTool, text).hint("Leave --ignore-tool out to use it")
            }
            Some((None, _)) | None => {
                let text = "The call names no tool, or more than one, and --ignore-tool hides some";
                Error::new(ErrorKind::HiddenTool, text)
            }
        };
        Some(error.not_delivered())
    }

    /// What the client hears in place of `message`.
    pub(super) fn on_message_to_client(&self, message: Message) -> Message {
        if self.is_empty() {
            return message;
        }
        if let Some(failure) = message.failure().filter(|failure| failure.body.is_some())
            && failure.kind == ErrorKind::BadResponse
        {
            // What cannot be read may be a list: it is not quoted.
            return reply::error(message.id(), &Error { body: None, ..failure.clone() });
        }
        let Head::Response { id, is_error: false } = message.head() else { return message };
        self.filtered(&message).unwrap_or_else(|| {
            let text = "The list of tools cannot be read, and --ignore-tool hides some of it";
            reply::error(id.as_ref(), &Error::new(ErrorKind::HiddenTool, text))
        })
    }

    /// The answer without tools that are hidden; `None` if it cannot be read and may hold some.
    fn filtered(&self, answer: &Message) -> Option<Message> {
        let [result, tools] = answer.get_all([&["result"], &["result", "tools"]])?;
        let Some(result) = result.filter(|result| result.is_object()) else {
            return Some(answer.clone());
        };
        if !is_plain(result, "tools") {
            return None;
        }
        let Some(tools) = tools.filter(|tools| !tools.is_null()) else {
            return Some(answer.clone());
        };
        let tools: Vec<Json<'_>> = tools.elements()?.collect();
        let is_shown = |tool: &Json<'_>| {
            let name = tool.get(&["name"]).and_then(Json::text);
            name.is_some_and(|name| self.pattern_hiding(&name).is_none())
        };
        let keeps: Vec<bool> = tools.iter().map(is_shown).collect();
        match keeps.contains(&false) {
            false => Some(answer.clone()),
            true => without(answer, &tools, &keeps),
        }
    }
}

/// Whether a pattern matches a name, both in lower case. Each part is looked for behind the one before
/// it, so it takes no longer than the name is, for each part.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    let behind_first = name.strip_prefix(first);
    let behind_middle = behind_first.and_then(|name| {
        middle.split('*').try_fold(name, |name, part| Some(name.split_once(part)?.1))
    });
    behind_middle.is_some_and(|name| name.ends_with(last))
}

/// Whether no member has this name in other letters: some read names without a look at their case.
fn is_plain(object: Json<'_>, name: &str) -> bool {
    let mut members = object.members().into_iter().flatten();
    members.all(|(own, _)| own == name || !own.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    fn message(text: &str) -> Message {
        Message::parse(Bytes::copy_from_slice(text.as_bytes())).expect("a message")
    }

    fn hides(pattern: &str, name: &str) -> bool {
        HiddenTools::new([pattern]).pattern_hiding(name).is_some()
    }

    #[test]
    fn stars_stand_for_anything_and_case_means_nothing() {
        for (pattern, name) in [
            ("delete*", "deleteTask"),
            ("delete*", "delete"),
            ("*account", "getAccount"),
            ("exactTool", "EXACTTOOL"),
            ("*", ""),
            ("a*b*c", "a1b2b3c"),
            ("a*a", "aa"),
            ("*.x[1]", "y.x[1]"),
            ("ÜBER*", "übermut"),
        ] {
            assert!(hides(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("delete*", "undelete"),
            ("*account", "accounts"),
            ("exactTool", "exactTools"),
            ("a*a", "a"),
            ("a*b*c", "acb"),
            ("a.c", "abc"),
            ("", "a"),
        ] {
            assert!(!hides(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn other_messages_are_left_alone() {
        let hidden = HiddenTools::new(["*"]);
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"x":{"tools":[{"name":"a"}]}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":[{"tools":[]}]}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":{"tools":[]}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"tools":[{"name":"a"}]}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"capabilities":{"tools":{}}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":null}}"#,
        ] {
            assert_eq!(hidden.on_message_to_client(message(text)).bytes(), text);
        }
        let list = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"}]}}"#;
        assert_eq!(HiddenTools::default().on_message_to_client(message(list)).bytes(), list);
        let expected = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#;
        assert_eq!(hidden.on_message_to_client(message(list)).bytes(), expected);
    }

    #[test]
    fn names_in_other_letters_are_not_passed_by() {
        let hidden = HiddenTools::new(["delete*"]);
        for params in [
            r#"{"Name":"delete_x","name":"ok"}"#,
            r#"{"name":"ok","NAME":"x"}"#,
            r#"{"n\u0041me":"delete_x","name":"ok"}"#,
        ] {
            let text =
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
            assert!(hidden.refusal_of(&message(&text)).is_some(), "{params}");
        }
        let two = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ok"},"Params":{"name":"delete_x"}}"#;
        assert!(hidden.refusal_of(&message(two)).is_some());
        let plain = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ok","arguments":{"Name":"x"}}}"#;
        assert!(hidden.refusal_of(&message(plain)).is_none());
        let list =
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":null,"Tools":[{"name":"delete_x"}]}}"#;
        let received = hidden.on_message_to_client(message(list));
        assert!(received.failure().is_some(), "{received:?}");
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_not_quoted() {
        let hidden = HiddenTools::new(["delete*"]);
        let mut error = Error::new(ErrorKind::BadResponse, "not JSON-RPC");
        error.body = Some(r#"{"result":{"tools":[{"name":"delete_x"}]}}"#.into());
        let received = hidden.on_message_to_client(reply::error(None, &error));
        assert!(!String::from_utf8_lossy(received.bytes()).contains("delete_x"), "{received:?}");
        let received = HiddenTools::default().on_message_to_client(reply::error(None, &error));
        assert!(String::from_utf8_lossy(received.bytes()).contains("delete_x"));
    }

    proptest! {
        #[test]
        fn no_list_shows_what_is_hidden(names in prop::collection::vec("[a-cA-C]{0,4}", 0..8), pattern in "[a-c*]{1,4}") {
            let hidden = HiddenTools::new([&pattern]);
            let tools: Vec<String> = names.iter().map(|name| format!(r#"{{"name":"{name}"}}"#)).collect();
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{}]}}}}"#, tools.join(" , "));
            let received = hidden.on_message_to_client(message(&text));
            let value: serde_json::Value = serde_json::from_slice(received.bytes()).unwrap();
            let shown: Vec<&str> = value["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
            let expected: Vec<&str> = names.iter().map(String::as_str).filter(|name| hidden.pattern_hiding(name).is_none()).collect();
            prop_assert_eq!(shown, expected);
        }
    }
}
