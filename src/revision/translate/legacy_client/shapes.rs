//! What both sides say of themselves, and tools of theirs, in the forms that the older revisions
//! know.

use std::collections::HashSet;

use memchr::memmem;
use serde_json::value::RawValue;

use crate::limits;
use crate::message::Members;

/// Capabilities of either side without the tasks of either era, whose forms differ: neither knows
/// what to make of the other's.
pub(super) fn without_tasks(capabilities: &str) -> String {
    let Some(mut members) = Members::of(capabilities) else { return "{}".to_owned() };
    members.remove("tasks");
    if members.has("extensions") {
        members.object("extensions").remove("io.modelcontextprotocol/tasks");
        members.drop_if_empty("extensions");
    }
    members.to_json()
}

/// Tools whose structured results are wrapped, since the client knows only objects.
#[derive(Debug, Default)]
pub(super) struct Wrapped {
    /// Of the list that was read last, as far as it was.
    now: HashSet<String>,
    /// Of those before it, until it was read to its end.
    before: HashSet<String>,
}

impl Wrapped {
    pub(super) fn has(&self, name: &str) -> bool {
        self.now.contains(name) || self.before.contains(name)
    }

    /// A page of a list follows.
    fn begin(&mut self, is_first: bool) {
        if is_first {
            self.before.extend(self.now.drain());
        }
    }

    /// Its last page was read: what was not in it is no more.
    fn end(&mut self) {
        self.before.clear();
    }

    fn add(&mut self, name: &str) -> bool {
        let has_room = self.now.len() + self.before.len() < limits::WRAPPED_TOOLS;
        if has_room || self.has(name) {
            self.now.insert(name.to_owned());
        }
        has_room || self.has(name)
    }

    fn remove(&mut self, name: &str) {
        self.now.remove(name);
        self.before.remove(name);
    }
}

/// The tools of a list: output schemas are objects, and tasks are not spoken of. Names of tools
/// whose results have to be wrapped are noted.
pub(super) fn legacy_tools(result: &mut Members<'_>, is_first: bool, wrapped: &mut Wrapped) {
    wrapped.begin(is_first);
    rewrite_tools(result, wrapped);
    if result.get("nextCursor").is_none_or(|cursor| cursor == "null") {
        wrapped.end();
    }
}

fn rewrite_tools(result: &mut Members<'_>, wrapped: &mut Wrapped) {
    let Some(tools) = result.get("tools") else { return };
    let is_concerned = |name: &str| memmem::find(tools.as_bytes(), name.as_bytes()).is_some();
    if !is_concerned("outputSchema") && !is_concerned("execution") {
        return;
    }
    let Ok(tools) = serde_json::from_str::<Vec<&RawValue>>(tools) else { return };
    let tools: Vec<String> = tools.iter().map(|tool| legacy_tool(tool.get(), wrapped)).collect();
    result.set("tools", format!("[{}]", tools.join(",")));
}

fn legacy_tool(tool: &str, wrapped: &mut Wrapped) -> String {
    let Some(mut members) = Members::of(tool) else { return tool.to_owned() };
    let name = members.text("name").unwrap_or_default();
    let schema = members.get("outputSchema").and_then(wrapped_schema);
    let has_tasks = members.has("execution");
    match schema {
        Some(schema) if wrapped.add(&name) => members.set("outputSchema", schema),
        // More than can be remembered: without a schema nobody expects a wrapper.
        Some(_) => drop(members.remove("outputSchema")),
        None => {
            wrapped.remove(&name);
            if !has_tasks {
                return tool.to_owned();
            }
        }
    }
    if has_tasks {
        members.object("execution").remove("taskSupport");
        members.drop_if_empty("execution");
    }
    members.to_json()
}

/// A schema whose root is no object, as that of the member `result` of one; `None` if it is one.
fn wrapped_schema(schema: &str) -> Option<String> {
    let members = Members::of(schema)?;
    if members.text("type").as_deref() == Some("object") {
        return None;
    }
    let mut wrapper = Members::default();
    wrapper.set("type", "\"object\"");
    wrapper.set("properties", format!("{{\"result\":{schema}}}"));
    wrapper.set("required", "[\"result\"]");
    // References count from the root.
    for shared in ["$defs", "definitions"] {
        if let Some(definitions) = members.get(shared) {
            wrapper.set(shared, definitions);
        }
    }
    Some(wrapper.to_json())
}

/// Structured content is an object in the older revisions.
pub(super) fn legacy_content(result: &mut Members<'_>, is_wrapped: bool) {
    let Some(content) = result.get("structuredContent") else { return };
    if is_wrapped || !content.starts_with('{') {
        let wrapper = format!("{{\"result\":{content}}}");
        result.set("structuredContent", wrapper);
    }
}
