//! The tools of a server: what they are called, what they want, what they are for.

use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::value::RawValue;

use super::{arguments, at_most_one, json_list, list, nearest, objects, print_list, text};
use crate::bridge::HiddenTools;
use crate::cli::visit::{Guest, Outcome, Page, Trouble, count, one_line, pretty};
use crate::client;
use crate::message::Members;

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
    print_list(&guest, &all(&guest.page, &objects(tools)), what)
}

/// Keeps the names for completion in shells.
pub(in crate::cli) fn remember(guest: &Guest, tools: &[Box<RawValue>]) {
    let Some(file) = &guest.tool_names else { return };
    let name = |tool: &RawValue| Members::of(tool.get()).and_then(|tool| tool.text("name"));
    let names: Vec<String> = tools.iter().filter_map(|tool| name(tool)).collect();
    file.store(names.iter().map(String::as_str));
}

/// The tool with this name, or who else could be meant. `tools` are without those that are hidden.
pub(in crate::cli) fn find<'a>(
    tools: &'a [Box<RawValue>],
    name: &str,
    hidden: &HiddenTools,
) -> Result<&'a RawValue, Trouble> {
    let named = |tool: &RawValue| Members::of(tool.get()).and_then(|tool| tool.text("name"));
    let found = tools.iter().find(|tool| named(tool).is_some_and(|known| known == name));
    found.map(|tool| &**tool).ok_or_else(|| {
        if let Some(pattern) = hidden.pattern_hiding(name) {
            let sentence = format!("the tool '{name}' is hidden by --ignore-tool '{pattern}'");
            return Trouble::usage(sentence).hint("Leave --ignore-tool out to use it");
        }
        let names: Vec<String> = tools.iter().filter_map(|tool| named(tool)).collect();
        let hint = match nearest(name, names.iter().map(String::as_str)) {
            Some(nearest) => format!("Is it '{nearest}'?"),
            None if names.is_empty() && !hidden.is_empty() => {
                "It has no tools but those that --ignore-tool hides".to_owned()
            }
            None if names.is_empty() => "It has no tools at all".to_owned(),
            None => format!("It has: {}", names.join(", ")),
        };
        Trouble::usage(format!("the server has no tool '{name}'")).hint(hint)
    })
}

fn all(page: &Page, tools: &[Box<RawValue>]) -> String {
    if tools.is_empty() {
        return String::new();
    }
    let blocks: Vec<String> = tools.iter().map(|tool| short(page, tool.get())).collect();
    let mut text = blocks.join("\n");
    let has_required = blocks.iter().any(|block| block.contains("*  "));
    let legend = if has_required { "; * must be given" } else { "" };
    let total = count(tools.len(), "tool", "tools");
    text += &format!("\n{}\n", page.faint(&format!("{total}{legend}")));
    text
}

/// Name, description and arguments.
fn short(page: &Page, tool: &str) -> String {
    let tool = Members::of(tool).unwrap_or_default();
    let text = |name: &str| text(&tool, name);
    let mut shown = heading(page, &text("name"), &text("title"));
    if !text("description").trim().is_empty() {
        shown += &page.wrapped(4, &text("description"));
    }
    shown += &page.columns(4, &arguments::rows(tool.get("inputSchema").unwrap_or_default()));
    shown
}

/// All of it, with its schemas.
fn whole(page: &Page, tool: &str, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(short(page, tool).as_bytes())?;
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

/// `name — Title`, where the title says more.
pub(super) fn heading(page: &Page, name: &str, title: &str) -> String {
    let (name, title) = (one_line(name), one_line(title));
    let says_more = !title.is_empty() && title != name;
    let title = if says_more { format!(" — {title}") } else { String::new() };
    format!("{}{title}\n", page.name(&name))
}
