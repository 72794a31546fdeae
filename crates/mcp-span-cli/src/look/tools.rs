//! The tools of a server: what they are called, what they want, what they are for.

use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::value::RawValue;

use super::described::{self, Described, all};
use super::{arguments, at_most_one, json_list, list, objects, print_list};
use crate::visit::{Guest, Outcome, Page, Trouble, pretty};
use mcp_span::bridge::HiddenTools;
use mcp_span::client;
use mcp_span::message::Members;

pub(super) async fn show(guest: Guest) -> Outcome {
    let tools = list::<client::Tool>(&guest).await?;
    remember(&guest, &tools);
    if let Some(name) = at_most_one(&guest)? {
        let tool = find(&tools, name, &guest.hidden_tools)?;
        if guest.is_json {
            return guest.print_json(tool.get());
        }
        guest.print_with(|out| whole(&guest.page, tool.get(), out))?;
        return Ok(ExitCode::SUCCESS);
    }
    if guest.is_json {
        return guest.print_json(&format!("{{{}}}", json_list("tools", &tools)));
    }
    let what = match guest.hidden_tools.is_empty() {
        true => "tools",
        false => "tools but those that --ignore-tool hides",
    };
    let tools = objects(tools);
    let described: Vec<_> = tools.iter().map(|tool| describe(&guest.page, tool.get())).collect();
    print_list(&guest, &all(&guest.page, &described, "tool", "tools"), what)
}

/// Keeps the names for completion in shells.
pub(crate) fn remember(guest: &Guest, tools: &[Box<RawValue>]) {
    let Some(file) = &guest.tool_names else { return };
    file.store(described::names(tools).iter().map(String::as_str));
}

/// The tool with this name, or who else could be meant. `tools` are without those that are hidden.
pub(crate) fn find<'a>(
    tools: &'a [Box<RawValue>],
    name: &str,
    hidden: &HiddenTools,
) -> Result<&'a RawValue, Trouble> {
    if let Some(pattern) = hidden.pattern_hiding(name) {
        let sentence = format!("the tool '{name}' is hidden by --ignore-tool '{pattern}'");
        return Err(Trouble::usage(sentence).hint("Leave --ignore-tool out to use it"));
    }
    let found = described::find(tools, name, "tool");
    match tools.is_empty() && !hidden.is_empty() {
        true => found.map_err(|e| e.hint("It has no tools but those that --ignore-tool hides")),
        false => found,
    }
}

fn describe(page: &Page, tool: &str) -> Described {
    let tool = Members::of(tool).unwrap_or_default();
    let arguments = arguments::rows(tool.get("inputSchema").unwrap_or_default());
    Described::new(page, &tool, &arguments)
}

/// All of it, with its schemas.
fn whole(page: &Page, tool: &str, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(describe(page, tool).text.as_bytes())?;
    let tool = Members::of(tool).unwrap_or_default();
    let parts = [
        ("annotations", "Annotations"),
        ("inputSchema", "Schema of the arguments"),
        ("outputSchema", "Schema of the result"),
    ];
    for (member, title) in parts {
        if let Some(json) = tool.get(member) {
            writeln!(out, "\n{}", page.strong(title))?;
            pretty(json, out)?;
            writeln!(out)?;
        }
    }
    Ok(())
}
