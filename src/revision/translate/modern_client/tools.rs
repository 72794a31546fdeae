//! What the tools of a legacy server say of themselves, as far as the modern era knows it.

use memchr::memmem;
use serde_json::value::RawValue;

use crate::message::Members;

/// Takes out of a list of tools what is about tasks: those of the legacy era have another form.
pub(super) fn without_tasks(result: &mut Members<'_>) {
    let Some(tools) = result.get("tools") else { return };
    if memmem::find(tools.as_bytes(), b"taskSupport").is_none() {
        return;
    }
    let Ok(tools) = serde_json::from_str::<Vec<&RawValue>>(tools) else { return };
    let tools: Vec<String> = tools.iter().map(|tool| without_task_support(tool.get())).collect();
    result.set("tools", format!("[{}]", tools.join(",")));
}

fn without_task_support(tool: &str) -> String {
    let Some(mut members) = Members::of(tool) else { return tool.to_owned() };
    let execution = members.get("execution").and_then(Members::of);
    if !execution.is_some_and(|execution| execution.has("taskSupport")) {
        return tool.to_owned();
    }
    members.object("execution").remove("taskSupport");
    members.drop_if_empty("execution");
    members.to_json()
}
