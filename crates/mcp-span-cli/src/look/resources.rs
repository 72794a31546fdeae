//! The resources of a server, and the patterns of those that it does not list.

use serde_json::Value;
use serde_json::value::RawValue;

use super::{is_unknown, json_list, list, objects, print_list};
use crate::report;
use crate::visit::{Guest, Outcome, Page, Trouble, count, one_line};
use mcp_span::lenient::lenient;
use mcp_span::{Error, client};

pub(super) async fn show(guest: Guest) -> Outcome {
    if !guest.words.is_empty() {
        let hint = "To read one: mcp-span read <URL> URI";
        return Err(Trouble::usage("there is one word too many: resources are listed").hint(hint));
    }
    let resources = list::<client::Resource>(&guest).await?;
    let templates = match guest.client.list_raw::<client::ResourceTemplate>().await {
        // Newer than the list of resources: many servers have none.
        Err(failure) if is_unknown(&failure) => Some(Vec::new()),
        // The resources are worth showing all the same.
        Err(Error { rpc: Some(rpc), .. }) => {
            if !guest.is_json {
                guest.status.clear();
                let (message, code) = (&rpc.message, rpc.code);
                report::warning(&format!(
                    "the server did not list its patterns: {message} ({code})"
                ));
            }
            None
        }
        listed => Some(listed?),
    };
    if guest.is_json {
        let mut lists = vec![json_list("resources", &resources)];
        lists.extend(templates.map(|templates| json_list("resourceTemplates", &templates)));
        return guest.print_json(&format!("{{{}}}", lists.join(",")));
    }
    let (resources, templates) = (objects(resources), objects(templates.unwrap_or_default()));
    let page = &guest.page;
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
    print_list(&guest, &text, "resources")
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
    size.as_u64().map_or_else(String::new, crate::call::files::size)
}
