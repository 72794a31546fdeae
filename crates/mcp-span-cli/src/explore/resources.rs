//! The resources of a server, and the patterns of those that it does not list.

use std::process::ExitCode;

use serde_json::Value;
use serde_json::value::RawValue;

use super::args::Target;
use super::files;
use super::lists::{is_unknown, json_list, list, objects, print_list};
use super::session::{self, Context, Outcome};
use super::trouble::CommandError;
use crate::Failure;
use crate::output::{Page, count, one_line};
use crate::report;
use mcp_span::client::{self, Class};
use mcp_span::lenient::lenient;

/// Lists resources and their templates.
pub(crate) fn run(typed: &Target) -> Result<ExitCode, Failure> {
    session::run(typed, show)
}

async fn show(context: Context) -> Outcome {
    if !context.words.is_empty() {
        let hint = "To read one: mcp-span read <URL> URI";
        return Err(
            CommandError::usage("there is one word too many: resources are listed").hint(hint)
        );
    }
    let resources = list::<client::Resource>(&context).await?;
    let templates = match context.client.list_raw::<client::Template>().await {
        // Newer than the list of resources: many servers have none.
        Err(failure) if is_unknown(&failure) => Some(Vec::new()),
        // The resources are worth showing all the same.
        Err(failure) if failure.class == Class::Rpc => {
            if !context.is_json {
                context.status.clear();
                let (message, code) = (failure.message, failure.code);
                report::warning(&format!(
                    "the server did not list its patterns: {message} ({code})"
                ));
            }
            None
        }
        listed => Some(listed?),
    };
    if context.is_json {
        let mut lists = vec![json_list("resources", &resources)];
        lists.extend(templates.map(|templates| json_list("resourceTemplates", &templates)));
        return context.print_json(&format!("{{{}}}", lists.join(",")));
    }
    let (resources, templates) = (objects(resources), objects(templates.unwrap_or_default()));
    let page = &context.page;
    let mut text = String::new();
    if !resources.is_empty() {
        text += &table(page, &resources, "uri");
    }
    if !templates.is_empty() {
        let space = if text.is_empty() { "" } else { "\n" };
        text += &format!("{space}{}\n", page.strong("Patterns"));
        text += &table(page, &templates, "uriTemplate");
    }
    if !text.is_empty() {
        let resources = count(resources.len(), "resource", "resources");
        let patterns = count(templates.len(), "pattern", "patterns");
        text += &format!("\n{}\n", page.faint(&format!("{resources}, {patterns}")));
    }
    print_list(&context, &text, "resources")
}

/// Address, media type and what it is, one below the other.
fn table(page: &Page, items: &[Box<RawValue>], address: &str) -> String {
    let row = |item: &RawValue| {
        let item = lenient(item.get());
        let text = |name: &str| one_line(item[name].as_str().unwrap_or_default());
        let mut about = vec![text("title"), text("description"), size(&item["size"])];
        if about[0].is_empty() {
            about[0] = text("name");
        }
        about.retain(|part| !part.is_empty());
        vec![text(address), text("mimeType"), about.join(" · ")]
    };
    page.columns(0, &items.iter().map(|item| row(item)).collect::<Vec<_>>())
}

fn size(size: &Value) -> String {
    size.as_u64().map_or_else(String::new, files::size)
}
