//! Tasks are spoken of in neither direction: those of one era have another form than those of the
//! other, and nobody knows what to make of the other's.

use memchr::memmem;

use crate::message::{Json, Members};

/// Capabilities of either side without the tasks of either era.
pub(super) fn without_tasks(capabilities: &str) -> String {
    let Some(mut members) = Members::of(capabilities) else { return "{}".to_owned() };
    members.remove("tasks");
    if members.has("extensions") {
        members.object("extensions").remove("io.modelcontextprotocol/tasks");
        members.drop_if_empty("extensions");
    }
    members.to_json()
}

/// Takes out of a list of tools what is about tasks.
pub(super) fn drop_from_tools(result: &mut Members<'_>) {
    let Some(tools) = result.get("tools") else { return };
    if memmem::find(tools.as_bytes(), b"taskSupport").is_none() {
        return;
    }
    let Some(tools) = Json::parse(tools).and_then(Json::elements) else { return };
    let tools: Vec<String> = tools.map(|tool| without_support(tool.as_str())).collect();
    result.set("tools", format!("[{}]", tools.join(",")));
}

fn without_support(tool: &str) -> String {
    let Some(mut members) = Members::of(tool) else { return tool.to_owned() };
    if drop_support(&mut members) { members.to_json() } else { tool.to_owned() }
}

/// Whether there was something to be taken out of a tool.
pub(super) fn drop_support(tool: &mut Members<'_>) -> bool {
    let execution = tool.get("execution").and_then(Members::of);
    if !execution.is_some_and(|execution| execution.has("taskSupport")) {
        return false;
    }
    tool.object("execution").remove("taskSupport");
    tool.drop_if_empty("execution");
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_about_tasks_goes() {
        let capabilities = r#"{"tools":{ },"tasks":{},"extensions":{"io.modelcontextprotocol/tasks":{},"x/y":{}}}"#;
        assert_eq!(without_tasks(capabilities), r#"{"tools":{ },"extensions":{"x/y":{}}}"#);
        assert_eq!(without_tasks(r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#), "{}");
        let tool = r#"{ "name":"a","execution":{"taskSupport":"optional"} }"#;
        assert_eq!(without_support(tool), r#"{"name":"a"}"#);
        let other = r#"{ "name":"a","execution":{"other":1} }"#;
        assert_eq!(without_support(other), other, "byte for byte");
    }
}
