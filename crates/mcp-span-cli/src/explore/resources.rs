//! `mcp-span resources`: the resources of a server, and the patterns of those that it does not list.

use std::process::ExitCode;

use serde_json::Value;

use super::args::Target;
use super::content;
use super::items::{self, is_unknown, json_list, objects};
use super::session::{self, Context, Outcome};
use crate::output::{self, Page, count, one_line};
use crate::report::CommandError;
use mcp_span::lenient::lenient;
use mcp_span::message::Members;
use mcp_span::{Error, client};

/// Lists resources and their templates.
pub(crate) fn run(typed: &Target) -> Result<ExitCode, CommandError> {
    typed.words("resources")?;
    session::run(typed, show)
}

async fn show(context: Context) -> Outcome {
    let resources = items::list::<client::Resource>(&context).await?;
    let templates = match context.client.list_raw::<client::ResourceTemplate>().await {
        // Newer than the list of resources: many servers have none.
        Err(failure) if is_unknown(&failure) => Some(Vec::new()),
        // The resources are worth showing all the same.
        Err(Error { rpc: Some(rpc), .. }) => {
            let (message, code) = (&rpc.message, rpc.code);
            context.warn(&format!("the server did not list its patterns: {message} ({code})"));
            None
        }
        listed => Some(listed?),
    };
    if context.is_json {
        let mut lists = vec![json_list("resources", &resources)];
        lists.extend(templates.map(|templates| json_list("resourceTemplates", &templates)));
        return context.print_json(&format!("{{{}}}", lists.join(",")));
    }
    let templates = templates.unwrap_or_default();
    let (resources, templates) = (objects(&resources), objects(&templates));
    if resources.is_empty() && templates.is_empty() {
        return items::nothing(&context, "resources");
    }
    let page = &context.page;
    let mut text = table(page, &resources, "uri");
    if !templates.is_empty() {
        let space = if text.is_empty() { "" } else { "\n" };
        text += &format!("{space}{}\n", page.strong("Patterns"));
        text += &table(page, &templates, "uriTemplate");
    }
    let resources = count(resources.len(), "resource", "resources");
    let patterns = count(templates.len(), "pattern", "patterns");
    text += &format!("\n{}\n", page.faint(&format!("{resources}, {patterns}")));
    context.print(&text)
}

/// Address, media type and what it is, one below the other.
fn table(page: &Page, items: &[Members<'_>], address: &str) -> String {
    let row = |item: &Members<'_>| {
        let text = |name: &str| one_line(&content::text(item, name).unwrap_or_default());
        let size = item.get("size").map(lenient).as_ref().and_then(Value::as_u64);
        vec![text(address), text("mimeType"), content::about(item, size.map(output::size))]
    };
    page.columns(0, &items.iter().map(row).collect::<Vec<_>>())
}
