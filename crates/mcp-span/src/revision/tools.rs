//! What passes by in lists of tools: which arguments they want in headers, and which tools cannot be
//! offered at all.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock};

use bytes::BytesMut;
use memchr::memmem::{self, Finder};

use super::params::{self, ANNOTATION, Mirrored};
use crate::limits;
use crate::message::{Json, Members, Message};

/// What the lists have said so far. Holds the tools with annotations, which are few.
#[derive(Debug, Default)]
pub struct Tools {
    annotated: HashMap<String, Arc<[Mirrored]>>,
    /// Tools that somebody has been told about already.
    told: HashSet<String>,
}

/// One page of a list.
#[derive(Debug, Default)]
pub struct ToolsPage {
    /// The tools with annotations on it.
    annotated: Vec<(String, Arc<[Mirrored]>)>,
    /// The tools that cannot be offered, and why.
    pub refused: Vec<(String, String)>,
    /// The same answer without them; `None` if there are none.
    pub without: Option<Message>,
    /// Where the next page begins, as JSON.
    pub next: Option<String>,
}

static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(ANNOTATION));

impl Tools {
    /// Whether there is anything to forget.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.annotated.is_empty()
    }

    /// The arguments that the tool `name` wants in headers, if any.
    #[must_use]
    pub fn mirrored(&self, name: &str) -> Option<Arc<[Mirrored]>> {
        self.annotated.get(name).cloned()
    }

    /// Takes in a page; the first one of a list starts anew.
    pub fn learn(&mut self, page: &ToolsPage, is_first: bool) {
        if is_first {
            self.annotated.clear();
        }
        for (name, _) in &page.refused {
            self.annotated.remove(name);
        }
        for (name, mirrored) in &page.annotated {
            if self.annotated.len() < limits::ANNOTATED_TOOLS || self.annotated.contains_key(name) {
                self.annotated.insert(name.clone(), Arc::clone(mirrored));
            }
        }
    }

    /// Whether this is the first time that somebody has to be told of the tool `name`.
    pub fn is_news(&mut self, name: &str) -> bool {
        self.told.len() < limits::ANNOTATED_TOOLS && self.told.insert(name.to_owned())
    }
}

impl ToolsPage {
    /// Whether an answer to `tools/list` has to be looked at: those without the word are not.
    #[must_use]
    pub fn is_of_interest(answer: &Message) -> bool {
        FINDER.find(answer.bytes()).is_some()
    }

    /// What is in an answer to `tools/list`; `None` if it is no list.
    #[must_use]
    pub fn read(answer: &Message) -> Option<Self> {
        let [tools, next] = answer.get_all([&["result", "tools"], &["result", "nextCursor"]])?;
        let tools: Vec<Json<'_>> = tools?.elements()?.collect();
        let next = next.filter(|next| !next.is_null()).map(|next| next.as_str().to_owned());
        let mut page = Self { next, ..Self::default() };
        let keeps: Vec<bool> = tools.iter().map(|tool| page.takes(*tool)).collect();
        if keeps.contains(&false) {
            page.without = without(answer, &tools, &keeps);
        }
        Some(page)
    }

    /// Notes a tool; `false` if it cannot be offered.
    fn takes(&mut self, tool: Json<'_>) -> bool {
        if FINDER.find(tool.as_str().as_bytes()).is_none() {
            return true;
        }
        // A schema that cannot be read is for the client to complain about.
        let Some([Some(name), Some(schema)]) = tool.get_all([&["name"], &["inputSchema"]]) else {
            return true;
        };
        let schema = serde_json::from_str(schema.as_str());
        let (Some(name), Ok(schema)) = (name.to_text(), schema) else { return true };
        match params::mirrored(&schema) {
            Ok(mirrored) if mirrored.is_empty() => {}
            Ok(mirrored) => self.annotated.push((name, mirrored.into())),
            Err(fault) => {
                self.refused.push((name, fault));
                return false;
            }
        }
        true
    }
}

/// Whether a request for a list asks for its first page.
#[must_use]
pub fn is_first_page(request: &Message) -> bool {
    request.get(&["params", "cursor"]).is_none_or(Json::is_null)
}

/// Changes the tools in the result of `tools/list`, if one of `words` is in it; those for which
/// `change` says that nothing has changed stay as they are.
pub(crate) fn change_each(
    result: &mut Members<'_>,
    words: &[&str],
    mut change: impl FnMut(&mut Members<'_>) -> bool,
) {
    let Some(tools) = result.get("tools") else { return };
    if !words.iter().any(|word| memmem::find(tools.as_bytes(), word.as_bytes()).is_some()) {
        return;
    }
    let Some(tools) = Json::parse(tools).and_then(Json::elements) else { return };
    let mut changed = |tool: Json<'_>| {
        let mut members = Members::of(tool.as_str())?;
        change(&mut members).then(|| members.to_json())
    };
    let tools = tools.map(|tool| changed(tool).unwrap_or_else(|| tool.as_str().to_owned()));
    let tools: Vec<String> = tools.collect();
    result.set("tools", format!("[{}]", tools.join(",")));
}

/// The answer without the tools that are not kept; every other byte stays.
pub(crate) fn without(answer: &Message, tools: &[Json<'_>], keeps: &[bool]) -> Option<Message> {
    let bytes = answer.bytes();
    // They are slices of the answer: where they begin in it.
    let start = |tool: &Json<'_>| tool.as_str().as_ptr() as usize - bytes.as_ptr() as usize;
    let mut rest = BytesMut::with_capacity(bytes.len());
    rest.extend_from_slice(bytes.get(..start(tools.first()?))?);
    // Where the tool before ends, once one was kept.
    let (mut before, mut end) = (None, 0);
    for (tool, &is_kept) in tools.iter().zip(keeps) {
        end = start(tool) + tool.as_str().len();
        if is_kept {
            // With the comma before it, unless all that stood before it is gone.
            rest.extend_from_slice(bytes.get(before.unwrap_or(start(tool))..end)?);
        }
        before = (is_kept || before.is_some()).then_some(end);
    }
    rest.extend_from_slice(bytes.get(end..)?);
    Message::parse(rest.freeze()).ok()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn message(text: &str) -> Message {
        Message::parse(Bytes::copy_from_slice(text.as_bytes())).expect("a message")
    }

    fn read(answer: &Message) -> ToolsPage {
        ToolsPage::read(answer).expect("a list")
    }

    fn tool(name: &str, header: &str) -> String {
        format!(
            r#"{{ "name":"{name}", "inputSchema":{{"properties":{{"p":{{"type":"string","x-mcp-header":"{header}"}}}}}} }}"#
        )
    }

    fn answer(tools: &[String]) -> Message {
        message(&format!(
            r#"{{ "jsonrpc":"2.0","id":1, "result":{{"tools":[ {} ], "nextCursor":"c"}} }}"#,
            tools.join(" ,  ")
        ))
    }

    #[test]
    fn pages_add_up_and_the_first_one_starts_anew() {
        let mut tools = Tools::default();
        let page = |names: &[&str]| {
            read(&answer(&names.iter().map(|name| tool(name, "A")).collect::<Vec<_>>()))
        };
        tools.learn(&page(&["a", "b"]), true);
        tools.learn(&page(&["c"]), false);
        for name in ["a", "b", "c"] {
            assert_eq!(tools.mirrored(name).map(|found| found.len()), Some(1), "{name}");
        }
        tools.learn(&page(&["d"]), true);
        assert!(tools.mirrored("a").is_none() && tools.mirrored("d").is_some());
        tools.learn(&ToolsPage::default(), true);
        assert!(tools.is_empty());
    }

    #[test]
    fn a_tool_that_becomes_invalid_is_forgotten() {
        let mut tools = Tools::default();
        tools.learn(&read(&answer(&[tool("a", "A")])), true);
        tools.learn(&read(&answer(&[tool("a", "")])), false);
        assert!(tools.is_empty());
        assert!(tools.is_news("a") && !tools.is_news("a"));
    }

    #[test]
    fn only_as_many_tools_are_kept_as_anybody_can_have() {
        let mut tools = Tools::default();
        let many: Vec<String> =
            (0..=limits::ANNOTATED_TOOLS).map(|n| tool(&n.to_string(), "A")).collect();
        tools.learn(&read(&answer(&many)), true);
        assert!(tools.mirrored("0").is_some());
        assert!(tools.mirrored(&limits::ANNOTATED_TOOLS.to_string()).is_none());
    }

    #[test]
    fn invalid_tools_are_cut_out_and_every_other_byte_stays() {
        let (good, bad, plain) = (tool("g", "A"), tool("b", ""), r#"{"name":"p"}"#.to_owned());
        let list =
            |tools: &[&String]| answer(&tools.iter().map(|t| (*t).clone()).collect::<Vec<_>>());
        let page = read(&list(&[&bad, &good, &bad, &plain, &bad]));
        assert_eq!(page.without, Some(list(&[&good, &plain])));
        assert_eq!(page.refused.len(), 3);
        assert_eq!(page.next.as_deref(), Some("\"c\""));
        let all = read(&list(&[&bad, &bad])).without.expect("another answer");
        let expected = br#"{ "jsonrpc":"2.0","id":1, "result":{"tools":[  ], "nextCursor":"c"} }"#;
        assert_eq!(&all.bytes()[..], expected);
        assert_eq!(read(&list(&[&good, &plain])).without, None);
    }

    #[test]
    fn what_is_no_list_is_left_alone() {
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x-mcp-header"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":{"x-mcp-header":1}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":["x-mcp-header",{"x-mcp-header":""}]}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","description":"x-mcp-header","inputSchema":{}}]}}"#,
        ] {
            assert!(ToolsPage::is_of_interest(&message(text)));
            let page = ToolsPage::read(&message(text)).unwrap_or_default();
            assert!(page.without.is_none() && page.annotated.is_empty(), "{text}");
        }
        assert!(!ToolsPage::is_of_interest(&message(
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#
        )));
    }

    #[test]
    fn a_request_without_a_cursor_asks_for_the_first_page() {
        let request = |params: &str| {
            message(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list"{params}}}"#))
        };
        assert!(is_first_page(&request("")));
        assert!(is_first_page(&request(r#","params":{"cursor":null}"#)));
        assert!(!is_first_page(&request(r#","params":{"cursor":"x"}"#)));
    }

    proptest! {
        #[test]
        fn what_is_kept_is_what_was_valid(kinds in proptest::collection::vec(0_u8..3, 0..8)) {
            let make = |(at, kind): (usize, &u8)| match kind {
                0 => tool(&format!("t{at}"), ""),
                1 => tool(&format!("t{at}"), "H"),
                _ => format!(r#"{{"name":"t{at}","n":1.0e400}}"#),
            };
            let all: Vec<String> = kinds.iter().enumerate().map(make).collect();
            let valid: Vec<String> =
                kinds.iter().enumerate().filter(|(_, kind)| **kind != 0).map(make).collect();
            let page = read(&answer(&all));
            if valid.len() == all.len() {
                prop_assert!(page.without.is_none());
            } else {
                let kept = page.without.expect("another answer");
                let kept: Value = serde_json::from_str(
                    &std::str::from_utf8(kept.bytes()).unwrap().replace("e400", ""),
                ).unwrap();
                let names: Vec<String> = kept["result"]["tools"].as_array().unwrap().iter()
                    .map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
                let expected: Vec<String> = kinds.iter().enumerate()
                    .filter(|(_, kind)| **kind != 0).map(|(at, _)| format!("t{at}")).collect();
                prop_assert_eq!(names, expected);
            }
        }
    }
}
