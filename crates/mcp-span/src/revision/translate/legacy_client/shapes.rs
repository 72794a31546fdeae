//! What both sides say of themselves, and tools of theirs, in the forms that the older revisions
//! know.

use std::collections::HashMap;

use memchr::memmem;

use crate::limits;
use crate::message::Members;
use crate::revision::tools;
use crate::revision::translate::tasks;

/// Tools whose structured results are wrapped, since the client knows only objects. Of each: whether
/// the list that was read last had it, as far as it was read.
pub(super) type Wrapped = HashMap<String, bool>;

/// The tools of a list: output schemas are objects, and tasks are not spoken of. Names of tools
/// whose results have to be wrapped are noted.
pub(super) fn legacy_tools(result: &mut Members<'_>, is_first: bool, wrapped: &mut Wrapped) {
    if is_first {
        wrapped.values_mut().for_each(|is_listed| *is_listed = false);
    }
    tools::change_each(result, &["outputSchema", "execution"], |tool| legacy_tool(tool, wrapped));
    // Its last page was read: what was not in it is no more.
    if result.get("nextCursor").is_none_or(|cursor| cursor == "null") {
        wrapped.retain(|_, is_listed| *is_listed);
    }
}

/// Whether the tool had to be changed.
fn legacy_tool(tool: &mut Members<'_>, wrapped: &mut Wrapped) -> bool {
    let name = tool.text("name").unwrap_or_default();
    let schema = tool.get("outputSchema").and_then(|schema| Some((schema, Members::of(schema)?)));
    let other = schema.filter(|(_, members)| members.text("type").as_deref() != Some("object"));
    let wrapper = other.as_ref().map(|(schema, members)| wrapper(schema, members));
    let is_changed = tasks::drop_support(tool) || wrapper.is_some();
    let has_room = wrapped.len() < limits::WRAPPED_TOOLS || wrapped.contains_key(&name);
    match wrapper {
        Some(Some(schema)) if has_room => {
            wrapped.insert(name, true);
            tool.set("outputSchema", schema);
            return true;
        }
        // It cannot be wrapped, or not be remembered: without a schema nobody expects a wrapper.
        Some(_) => drop(tool.remove("outputSchema")),
        None => {}
    }
    wrapped.remove(&name);
    is_changed
}

/// The schema of an object that has in its member `result` what `schema`, with these members, is
/// about. `None`: it refers to itself by a path that would lead elsewhere.
fn wrapper(schema: &str, members: &Members<'_>) -> Option<String> {
    let mut references = memmem::find_iter(schema.as_bytes(), "\"#");
    let is_kept = |path: &str| path.starts_with("/$defs/") || path.starts_with("/definitions/");
    if !references.all(|at| schema.get(at + 2..).is_some_and(is_kept)) {
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
