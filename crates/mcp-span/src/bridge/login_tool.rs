//! The tool that a client sees while a login is pending: many show neither stderr nor instructions,
//! but all show tools. Pure.

use serde_json::{Value, json};

use crate::message::{Message, Method, peek};

/// Its name.
pub(super) const NAME: &str = "mcp_span_login";

/// What a person has to do, and what is known about it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Needed<'a> {
    /// Open this page.
    Page(&'a str),
    /// Wait until there is one.
    Soon,
    /// Ask for another login; the last one came to this.
    Again(&'a str),
}

impl Needed<'_> {
    fn description(&self) -> String {
        let what = match self {
            Self::Page(page) => format!("The user has to log in first: open {page}"),
            Self::Soon => {
                "The user has to log in first. Call this tool to see where that is done".to_owned()
            }
            Self::Again(reason) => {
                format!("The login came to nothing: {reason}. Call this tool to begin it again")
            }
        };
        format!("{what}. The tools of this server are there as soon as that is done.")
    }

    fn text(&self) -> String {
        match self {
            Self::Page(page) => format!(
                "A login is pending. Ask the user to do this in a browser: open {page}. \
                 The tools of this server are there as soon as that is done."
            ),
            Self::Soon => {
                "A login is being prepared. Call this tool again in some seconds to see where the \
                 user has to log in."
                    .to_owned()
            }
            Self::Again(reason) => format!(
                "The last login came to nothing: {reason}. Another one is begun now. Call this \
                 tool again in some seconds to see where the user has to log in."
            ),
        }
    }
}

/// Whether `message` calls it.
pub(super) fn is_called(message: &Message) -> bool {
    message.method() == Some(&Method::ToolsCall)
        && peek::subject(message).is_some_and(|name| name == NAME)
}

/// The list of tools with nothing else in it.
pub(super) fn list(needed: Needed<'_>) -> Value {
    json!({"tools": [{
        "name": NAME,
        "title": "Log in",
        "description": needed.description(),
        "inputSchema": {"type": "object", "properties": {}},
    }]})
}

/// The result of a call.
pub(super) fn result(needed: Needed<'_>) -> Value {
    json!({"content": [{"type": "text", "text": needed.text()}], "isError": false})
}

/// The same for a request of the modern era; a list is not to be remembered.
pub(super) fn modern(mut result: Value) -> Value {
    result["resultType"] = json!("complete");
    if result.get("tools").is_some() {
        result["ttlMs"] = json!(0);
        result["cacheScope"] = json!("private");
    }
    result
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn description_and_result_carry_the_address() {
        let needed = Needed::Page("https://as/login?x=1");
        let list = list(needed);
        assert_eq!(list["tools"].as_array().unwrap().len(), 1);
        let description = list["tools"][0]["description"].as_str().unwrap();
        assert!(description.contains("https://as/login?x=1"), "{description}");
        let result = result(needed);
        assert!(result["content"][0]["text"].as_str().unwrap().contains("https://as/login?x=1"));
        assert_eq!(modern(list)["ttlMs"], 0);
        assert_eq!(modern(result)["resultType"], "complete");
    }

    #[test]
    fn it_is_called_by_its_name_alone() {
        let message = |text: &str| Message::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap();
        let call = |name: &str| {
            let text = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":{name}}}}}"#
            );
            is_called(&message(&text))
        };
        assert!(call(r#""mcp_span_login""#));
        assert!(!call(r#""other""#) && !call("7") && !call("null"));
        assert!(!is_called(&message(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)));
    }
}
