//! `mcp-span tools`: what the tools of a server are called, what they take, what they are for.

use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::value::RawValue;

use super::args::Target;
use super::items::{self, Description, print_all};
use super::parameters;
use super::session::{self, Context, Outcome};
use crate::output::{Page, pretty};
use crate::report::{CommandError, Usage};
use mcp_span::bridge::HiddenTools;
use mcp_span::client;
use mcp_span::message::Members;

/// Lists tools, or shows one.
pub(crate) fn run(typed: &Target) -> Result<ExitCode, CommandError> {
    let name = typed.words("tools")?.first().cloned();
    session::run(typed, |context| show(context, name))
}

async fn show(context: Context, name: Option<String>) -> Outcome {
    let tools = items::list::<client::Tool>(&context).await?;
    remember(&context, &tools);
    let Some(name) = name else {
        return print_all(&context, &tools, "tool", describe);
    };
    let tool = find(&tools, &name, &context.hidden_tools)?.get();
    match context.is_json {
        true => context.print_json(tool),
        false => context.print_with(|out| print_in_full(&context.page, tool, out)),
    }
}

/// Keeps the names for completion in shells.
pub(super) fn remember(context: &Context, tools: &[Box<RawValue>]) {
    let Some(file) = &context.tool_names else { return };
    let names: Vec<String> = tools.iter().filter_map(|tool| items::name(tool)).collect();
    file.store(names.iter().map(String::as_str));
}

/// The tool with this name, or which one could be meant. `tools` are without those that are hidden.
pub(super) fn find<'a>(
    tools: &'a [Box<RawValue>],
    name: &str,
    hidden: &HiddenTools,
) -> Result<&'a RawValue, Usage> {
    match hidden.pattern_hiding(name) {
        None => items::find(tools, name, "tool"),
        Some(pattern) => {
            let sentence = format!("the tool '{name}' is hidden by --ignore-tool '{pattern}'");
            Err(Usage::new(sentence).hint("leave --ignore-tool out to use it"))
        }
    }
}

fn describe(page: &Page, tool: &Members<'_>) -> Description {
    let arguments = parameters::rows(tool.get("inputSchema").unwrap_or_default());
    Description::new(page, tool, &arguments)
}

/// All of it, with its schemas.
fn print_in_full(page: &Page, tool: &str, out: &mut dyn Write) -> io::Result<()> {
    let tool = Members::of(tool).unwrap_or_default();
    out.write_all(describe(page, &tool).text.as_bytes())?;
    let parts = [
        ("annotations", "Annotations"),
        ("inputSchema", "Schema of the arguments"),
        ("outputSchema", "Schema of the result"),
    ];
    for (member, title) in parts {
        if let Some(json) = tool.get(member) {
            writeln!(out, "\n{}", page.strong(title))?;
            pretty(json, out)?;
        }
    }
    Ok(())
}
