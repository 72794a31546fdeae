//! The lists of a server: tools, resources and prompts, as a person and as a program reads them.

use serde_json::value::RawValue;

use super::content::text;
use super::session::{Context, Outcome};
use crate::nearest::did_you_mean;
use crate::output::{Page, count, one_line};
use crate::report::{self, CommandError, Usage};
use mcp_span::Error;
use mcp_span::client::Item;
use mcp_span::message::Members;

/// All that the server lists, as it wrote it. One that does not know the question has none.
pub(super) async fn list<T: Item>(context: &Context) -> Result<Vec<Box<RawValue>>, CommandError> {
    match context.client.list_raw::<T>().await {
        Err(failure) if is_unknown(&failure) && !context.client.has_capability(T::CAPABILITY) => {
            Ok(Vec::new())
        }
        listed => Ok(listed?),
    }
}

pub(super) fn is_unknown(failure: &Error) -> bool {
    failure.rpc.is_some() && failure.code() == -32601
}

/// The one with this name, or which one could be meant.
pub(super) fn find<'a>(
    items: &'a [Box<RawValue>],
    name: &str,
    kind: &str,
) -> Result<&'a RawValue, Usage> {
    let named = items.iter().find(|item| self::name(item).is_some_and(|known| known == name));
    if let Some(found) = named {
        return Ok(found);
    }
    let names: Vec<String> = items.iter().filter_map(|item| self::name(item)).collect();
    let meant = did_you_mean(name, names.iter().map(String::as_str));
    Err(Usage::new(format!("the server has no {kind} '{name}'")).hint(match meant {
        Some(question) => question,
        None if names.is_empty() => format!("it has no {kind}s at all"),
        None => format!("it has: {}", names.join(", ")),
    }))
}

pub(super) fn name(item: &RawValue) -> Option<String> {
    Members::of(item.get())?.text("name")
}

/// A list under the name that the protocol has for it.
pub(super) fn json_list(member: &str, items: &[Box<RawValue>]) -> String {
    let items: Vec<&str> = items.iter().map(|item| item.get()).collect();
    format!("\"{member}\":[{}]", items.join(","))
}

/// What can be shown of a list: entries that are objects.
pub(super) fn objects(items: &[Box<RawValue>]) -> Vec<Members<'_>> {
    items.iter().filter_map(|item| Members::of(item.get())).collect()
}

/// A tool or a prompt as a person reads it.
pub(super) struct Description {
    pub(super) text: String,
    /// Some argument has a star.
    has_required: bool,
}

impl Description {
    /// `name — Title`, where the title says more; then the description, and a row for each argument.
    pub(super) fn new(page: &Page, item: &Members<'_>, arguments: &[Vec<String>]) -> Self {
        let member = |member: &str| one_line(&text(item, member).unwrap_or_default());
        let (name, title) = (member("name"), member("title"));
        let shown_name = page.name(if name.is_empty() { "(no name)" } else { &name });
        let mut shown = match title.is_empty() || title == name {
            true => format!("{shown_name}\n"),
            false => page.hanging(&format!("{shown_name} — "), 4, &title),
        };
        let about = text(item, "description").unwrap_or_default();
        if !about.trim().is_empty() {
            shown += &page.wrapped(4, &about);
        }
        shown += &page.columns(4, arguments);
        let has_star = |row: &Vec<String>| row.first().is_some_and(|name| name.ends_with('*'));
        Self { text: shown, has_required: arguments.iter().any(has_star) }
    }
}

/// Prints all of them.
pub(super) fn print_all(
    context: &Context,
    items: &[Box<RawValue>],
    kind: &str,
    describe: impl Fn(&Page, &Members<'_>) -> Description,
) -> Outcome {
    let kinds = format!("{kind}s");
    if context.is_json {
        return context.print_json(&format!("{{{}}}", json_list(&kinds, items)));
    }
    let all = objects(items);
    let all: Vec<Description> = all.iter().map(|item| describe(&context.page, item)).collect();
    if all.is_empty() {
        let is_hidden = kind == "tool" && !context.hidden_tools.is_empty();
        let but = if is_hidden { " but those that --ignore-tool hides" } else { "" };
        return nothing(context, &format!("{kinds}{but}"));
    }
    let legend = if all.iter().any(|one| one.has_required) { "; * must be given" } else { "" };
    let total = context.page.faint(&format!("{}{legend}", count(all.len(), kind, &kinds)));
    let blocks: Vec<&str> = all.iter().map(|one| &*one.text).collect();
    context.print(&format!("{}\n{total}\n", blocks.join("\n")))
}

/// Says that a list is empty.
pub(super) fn nothing(context: &Context, what: &str) -> Outcome {
    context.status.clear();
    report::note(&format!("the server has no {what}"));
    context.print("")
}
