//! The tools of a server: what they are called, what they want, what they are for.

use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::value::RawValue;

use super::args::Target;
use super::described::{self, Described, all};
use super::lists::{at_most_one, json_list, list, objects, print_list};
use super::parameters;
use super::session::{self, Context, Outcome};
use super::trouble::CommandError;
use crate::Failure;
use crate::output::{Page, pretty};
use mcp_span::bridge::HiddenTools;
use mcp_span::client;
use mcp_span::message::Members;

/// Lists tools, or shows one.
pub(crate) fn run(typed: &Target) -> Result<ExitCode, Failure> {
    session::run(typed, show)
}

async fn show(context: Context) -> Outcome {
    let tools = list::<client::Tool>(&context).await?;
    remember(&context, &tools);
    if let Some(name) = at_most_one(&context)? {
        let tool = find(&tools, name, &context.hidden_tools)?;
        if context.is_json {
            return context.print_json(tool.get());
        }
        context.print_with(|out| whole(&context.page, tool.get(), out))?;
        return Ok(ExitCode::SUCCESS);
    }
    if context.is_json {
        return context.print_json(&format!("{{{}}}", json_list("tools", &tools)));
    }
    let what = match context.hidden_tools.is_empty() {
        true => "tools",
        false => "tools but those that --ignore-tool hides",
    };
    let tools = objects(tools);
    let described: Vec<_> = tools.iter().map(|tool| describe(&context.page, tool.get())).collect();
    print_list(&context, &all(&context.page, &described, "tool", "tools"), what)
}

/// Keeps the names for completion in shells.
pub(crate) fn remember(context: &Context, tools: &[Box<RawValue>]) {
    let Some(file) = &context.tool_names else { return };
    file.store(described::names(tools).iter().map(String::as_str));
}

/// The tool with this name, or who else could be meant. `tools` are without those that are hidden.
pub(crate) fn find<'a>(
    tools: &'a [Box<RawValue>],
    name: &str,
    hidden: &HiddenTools,
) -> Result<&'a RawValue, CommandError> {
    if let Some(pattern) = hidden.pattern_hiding(name) {
        let sentence = format!("the tool '{name}' is hidden by --ignore-tool '{pattern}'");
        return Err(CommandError::usage(sentence).hint("Leave --ignore-tool out to use it"));
    }
    let found = described::find(tools, name, "tool");
    match tools.is_empty() && !hidden.is_empty() {
        true => found.map_err(|e| e.hint("It has no tools but those that --ignore-tool hides")),
        false => found,
    }
}

fn describe(page: &Page, tool: &str) -> Described {
    let tool = Members::of(tool).unwrap_or_default();
    let arguments = parameters::rows(tool.get("inputSchema").unwrap_or_default());
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
