//! Tasks are spoken of in neither direction: those of one era have another form than those of the
//! other, and nobody knows what to make of the other's.

use crate::message::Members;
use crate::revision::tools;

/// Capabilities of either side without the tasks of either era.
pub(super) fn without_tasks(capabilities: &str) -> String {
    let Some(mut members) = Members::of(capabilities) else { return "{}".to_owned() };
    members.remove("tasks");
    members.object("extensions").remove("io.modelcontextprotocol/tasks");
    members.drop_if_empty("extensions");
    members.to_json()
}

/// Takes out of a list of tools what is about tasks.
pub(super) fn drop_from_tools(result: &mut Members<'_>) {
    tools::change_each(result, &["taskSupport"], drop_support);
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
        let other = r#"{ "name":"a","execution":{"other":1} }"#;
        let list = format!(r#"{{"tools":[{tool}, {other}]}}"#);
        let mut result = Members::of(&list).unwrap();
        drop_from_tools(&mut result);
        let rest = format!(r#"[{{"name":"a"}},{other}]"#);
        assert_eq!(result.get("tools"), Some(&*rest), "byte for byte");
    }
}
